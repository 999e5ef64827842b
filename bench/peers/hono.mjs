// A peer on the same workerd: hono, the idempotency of @node-idempotency/core as its middleware, and an object a key as that one's
// storage. It has a lock (a second request at the same time is refused with 409) and compares the request with the first one.
//
// It does not promise that anybody comes back: what crashes between the lock and the answer stays locked until the key expires, a day
// later, and nobody knows whether it was charged.
import { createHash } from 'node:crypto';

import { Idempotency, IdempotencyError } from '@node-idempotency/core';
import { DurableObject } from 'cloudflare:workers';
import { Hono } from 'hono';

import { refused, take } from './payment.mjs';

/** workerd lacks the hash that it takes. */
class Keys extends Idempotency {
  hash(body) {
    return createHash('sha256').update(JSON.stringify(body)).digest('hex');
  }
}

const app = new Hono();
let keys;

const idempotent = async (context, next) => {
  keys ??= new Keys(storageIn(context.env));
  const { req } = context;
  const request = { method: req.method, path: req.path, headers: req.header(), body: await req.json() };
  try {
    const stored = await keys.onRequest(request);
    if (stored)
      return context.body(stored.body, stored.additional.status, { ...json, 'idempotent-replayed': 'true' });
  } catch (error) {
    if (error instanceof IdempotencyError) return context.body(refused(error), 409, json);
    throw error;
  }
  await next();
  await keys.onResponse(request, {
    body: await context.res.clone().text(),
    additional: { status: context.res.status },
  });
};
const json = { 'content-type': 'application/json' };

app.post('/payments', idempotent, async (context) => {
  const payment = await take(await context.req.json(), context.req.header('idempotency-key'), {
    base: 'https://api.stripe.com',
    secret: context.env.STRIPE_SECRET_KEY,
  });
  return context.body(JSON.stringify(payment), 201, json);
});

export default app;

const storageIn = (env) => ({
  setIfNotExists: (key, value, { ttl }) => env.KEYS.getByName(key).setIfNotExists(value, ttl),
  set: (key, value, { ttl }) => env.KEYS.getByName(key).set(value, ttl),
  get: (key) => env.KEYS.getByName(key).get(),
});

export class Key extends DurableObject {
  setIfNotExists(value, ttlMs) {
    if (this.get() !== undefined) return false;
    this.set(value, ttlMs);
    return true;
  }

  set(value, ttlMs) {
    this.ctx.storage.kv.put('key', { value, until: Date.now() + ttlMs });
  }

  get() {
    const { value, until } = this.ctx.storage.kv.get('key') ?? {};
    return until > Date.now() ? value : undefined;
  }
}
