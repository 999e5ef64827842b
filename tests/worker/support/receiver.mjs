// Shops' servers on this machine: what is sent to them is verified by the library of Standard Webhooks, which shares nothing with the Worker.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

import { Webhook } from 'standardwebhooks';

import { until } from './until.mjs';

/** Where an account's endpoint is set. */
export const ENDPOINT = '/webhook-endpoint';

/** Sets the endpoint of a client's account. */
export const put = (client, body) =>
  client.ask(ENDPOINT, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** A server at which each shop has a path of its own. */
export async function startReceiver() {
  const shops = new Map();
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { url, headers, method } = request;
    const shop = shops.get(url);
    if (!shop) return response.writeHead(404).end();
    shop.requests.push({ method, headers, body: Buffer.concat(chunks).toString() });
    const answer = shop.answers.length > 1 ? shop.answers.shift() : shop.answers[0];
    if (answer === 'never') return undefined;
    if (answer === 'reset') return request.socket.destroy();
    const [status, more] = Array.isArray(answer) ? answer : [answer, {}];
    return response.writeHead(status, more).end('x'.repeat(100_000));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${server.address().port}`;

  return {
    origin,
    /** An address of one shop's. It answers with these, one after the other and then always the last: a status, `never`, or `reset`. */
    shop(...answers) {
      const path = `/${randomUUID()}`;
      const shop = { requests: [], answers: answers.length > 0 ? answers : [204] };
      shops.set(path, shop);
      return {
        url: origin + path,
        requests: shop.requests,
        answer: (...answers) => void (shop.answers = answers),
        /** Waits until so many requests have come, and gives them. */
        has: (number) =>
          until(`${number} requests at ${path}`, () => shop.requests.length >= number && shop.requests),
      };
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** What a request says, once it is verified with this secret. */
export function verified({ method, headers, body }, secret) {
  assert.equal(method, 'POST');
  assert.equal(headers['content-type'], 'application/json');
  const message = new Webhook(secret).verify(body, headers);
  assert.deepEqual(message, JSON.parse(body));
  return message;
}

/** Whether it was signed with this secret. */
export function isSignedBy({ headers, body }, secret) {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}
