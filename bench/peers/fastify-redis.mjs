// A peer on one box: fastify, the idempotency of @node-idempotency/core, and Redis, whose file is synced once a second. It has a lock (a
// second request at the same time is refused with 409) and compares the request with the first one.
//
// It does not promise that anybody comes back, as the one on workerd; and a power cut takes the keys of the last second with it.
import { Idempotency, IdempotencyError } from '@node-idempotency/core';
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis';
import Fastify from 'fastify';

import { refused, take } from './payment.mjs';

const { PROVIDER, REDIS, STRIPE_SECRET_KEY: secret } = process.env;
const storage = new RedisStorageAdapter({ url: REDIS });
await storage.connect();
const keys = new Idempotency(storage);

const app = Fastify();
const asked = ({ method, url, headers, body }) => ({ method, path: url, headers, body });

app.addHook('preHandler', async (request, reply) => {
  try {
    const stored = await keys.onRequest(asked(request));
    if (!stored) return;
    reply.code(stored.additional.status).header('idempotent-replayed', 'true').type('application/json');
    return reply.send(stored.body);
  } catch (error) {
    if (!(error instanceof IdempotencyError)) throw error;
    return reply.code(409).type('application/json').send(refused(error));
  }
});

app.post('/payments', async (request, reply) => {
  const payment = await take(request.body, request.headers['idempotency-key'], { base: PROVIDER, secret });
  const body = JSON.stringify(payment);
  await keys.onResponse(asked(request), { body, additional: { status: 201 } });
  return reply.code(201).type('application/json').send(body);
});

await app.listen({ host: '127.0.0.1', port: 0 });
process.send({ port: app.server.address().port });
