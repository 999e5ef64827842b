// An API client of the site.

import { randomUUID } from 'node:crypto';

export const USER = 'user@example.com';
/** Its card is declined. */
export const DECLINED_USER = 'user-bad-source@example.com';

export const TRIP = { origin_lat: 37.7749, origin_lon: -122.4194, target_lat: 28.5721, target_lon: -80.648 };

export const freshKey = () => randomUUID();

/** An answer, read to its end. */
export async function read(response) {
  const bytes = Buffer.from(await response.arrayBuffer());
  return {
    status: response.status,
    headers: response.headers,
    header: (name) => response.headers.get(name),
    bytes,
    text: bytes.toString(),
    /** The body, parsed. */
    json: () => JSON.parse(bytes.toString()),
    /** The id of the ride that it speaks of. */
    ride: /ride_[\w-]{43}/.exec(response.headers.get('location') ?? bytes.toString())?.[0],
    /** The id of the payment that it speaks of. */
    payment: /pay_[\w-]{43}/.exec(response.headers.get('location') ?? bytes.toString())?.[0],
  };
}

/** A client with the credentials of an account. `examine(method, path, answer)` is shown each answer. */
export function account(site, token = USER, { examine = () => {} } = {}) {
  const authorization = `Bearer ${token}`;

  /** Any request. */
  const ask = async (path, { headers, ...init } = {}) => {
    const answer = await read(await site.fetch(path, { headers: { authorization, ...headers }, ...init }));
    await examine(init.method ?? 'GET', path, answer);
    return answer;
  };

  const post = (path, body, key, headers = {}) =>
    ask(path, {
      method: 'POST',
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });

  return {
    ask,
    /** `POST /rides` with JSON. `key` is the header's value; without one there is no header. */
    book: (key, trip = TRIP, headers = {}) =>
      ask('/rides', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(key === undefined ? {} : { 'idempotency-key': key }),
          ...headers,
        },
        body: typeof trip === 'string' ? trip : JSON.stringify(trip),
      }),
    /** The same with a form's body. */
    bookByForm: (key, pairs = TRIP, headers = {}) =>
      ask('/rides', {
        method: 'POST',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          ...(key === undefined ? {} : { 'idempotency-key': key }),
          ...headers,
        },
        body: new URLSearchParams(pairs).toString(),
      }),
    /** A POST with JSON, or without a body. */
    post,
    /** `POST /payments`. */
    pay: (payment, key, headers) => post('/payments', payment, key, headers),
    /** `GET /payments/{id}`. */
    payment: (id) => ask(`/payments/${id}`),
    /** `GET /payments/{id}/refunds`. */
    refunds: (id) => ask(`/payments/${id}/refunds`),
    /** `GET /rides/{id}` as JSON. */
    ride: (id, headers = {}) => ask(`/rides/${id}`, { headers }),
    /** `GET /idempotency-keys/{key}`. */
    key: (key, headers = {}) => ask(`/idempotency-keys/${encodeURIComponent(key)}`, { headers }),
    /** `DELETE /idempotency-keys/{key}`. */
    forget: (key) => ask(`/idempotency-keys/${encodeURIComponent(key)}`, { method: 'DELETE' }),
  };
}
