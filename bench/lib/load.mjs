// The load: clients of a site, each with a connection of its own and one request at a time. Every answer is looked at: a first payment
// is new, and a replay is one, with the same bytes.
import { randomUUID } from 'node:crypto';

import { Client } from 'undici';

import { TOKEN } from './sites.mjs';

const body = JSON.stringify({ amount: 2500, currency: 'usd' });
/** They say the same, in as many bytes, and are not the same: each has to be read after the other. */
const alike = [body.replace(':', ': '), body.replace(',', ', ')];
const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };

/** The clients of a site. `paid` has what was answered first, by key. */
export function clients(origin, paid = new Map()) {
  const connections = [];
  const connection = (n) => (connections[n] ??= new Client(origin, { keepAliveTimeout: 60_000 }));

  /** Sends requests by `count` clients, until `isDone` says so of how many were begun. Gives each one's time in ms, and the whole. */
  async function send(count, isDone, one) {
    const times = [];
    let begun = 0;
    const work = async (client) => {
      while (!isDone(begun)) {
        begun += 1;
        const before = performance.now();
        await one(client);
        times.push(performance.now() - before);
      }
    };
    const before = performance.now();
    await Promise.all(Array.from({ length: count }, (_, n) => work(connection(n))));
    return { times, ms: performance.now() - before };
  }

  const first = async (client) => {
    const key = randomUUID();
    const answer = await pay(client, key);
    if (answer.status !== 201 || answer.isReplay) throw new Error(`not a new payment: ${describe(answer)}`);
    paid.set(key, answer.bytes);
  };
  const replayOf = (keys, isRead) => {
    let next = 0;
    return async (client) => {
      const key = keys[next % keys.length];
      const sent = isRead ? alike[Math.floor(next / keys.length) % 2] : body;
      next += 1;
      const answer = await pay(client, key, sent);
      if (answer.status !== 201 || !answer.isReplay || !answer.bytes.equals(paid.get(key)))
        throw new Error(`not a replay of ${paid.get(key)}: ${describe(answer)}`);
    };
  };
  const until = (ms) => {
    const end = performance.now() + ms;
    return () => performance.now() >= end;
  };

  return {
    paid,
    firstPayments: (count, ms) => send(count, until(ms), first),
    replays: (count, ms, keys) => send(count, until(ms), replayOf(keys, false)),
    /** None of them is the very same request as the one before under its key. */
    replaysRead: (count, ms, keys) => send(count, until(ms), replayOf(keys, true)),
    /** So many new payments. */
    fill: (count, payments) => send(count, (begun) => begun >= payments, first),
    get: (path) => exchange(connection(0), { method: 'GET', path }),
    pay: (key) => pay(connection(0), key),
    close: () => Promise.all(connections.splice(0).map((client) => client.close())),
  };
}

const describe = ({ status, isReplay, bytes }) => `${status}${isReplay ? ', a replay' : ''}, ${bytes}`;

const pay = (client, key, sent = body) =>
  exchange(client, {
    method: 'POST',
    path: '/payments',
    headers: { ...headers, 'idempotency-key': key },
    body: sent,
  });

function exchange(client, request) {
  return new Promise((resolve, reject) => {
    const chunks = [];
    let status;
    let isReplay;
    client.dispatch(request, {
      onRequestStart() {},
      onResponseStart(_, code, headers) {
        status = code;
        isReplay = headers['idempotent-replayed'] === 'true';
      },
      onResponseData(_, chunk) {
        chunks.push(chunk);
      },
      onResponseEnd() {
        resolve({ status, isReplay, bytes: chunks.length === 1 ? chunks[0] : Buffer.concat(chunks) });
      },
      onResponseError(_, error) {
        reject(error);
      },
    });
  });
}
