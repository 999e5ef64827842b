// New keys of one network, of which each makes an object: where too many come in a minute they wait.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, test } from 'node:test';

import { gateOf, send, workersWithGate } from './support/gate-site.mjs';
import { keysIn } from './support/gate.mjs';
import { startSite } from './support/harness.mjs';

const LIMIT = 3;
const got = [];
const shop = createServer(async (request, response) => {
  for await (const _ of request);
  if (request.method === 'POST') got.push(request.url);
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
  response.end('<form method="post" action="/checkout"><input name="name"></form>');
});
shop.listen(0, '127.0.0.1');
await once(shop, 'listening');
const origin = `http://127.0.0.1:${shop.address().port}`;
const routes = [{ origin, api: ['POST /v1/*'], forms: ['POST /checkout'] }];
const ratelimits = [{ name: 'NEW_LIMITER', namespace_id: '1', simple: { limit: LIMIT, period: 60 } }];
const site = await startSite({ workers: workersWithGate(routes, {}, { ratelimits }) });
after(async () => {
  await site.close();
  shop.close();
});

const from = (address) => ({ 'cf-connecting-ip': address });

test('what is new waits for the next minute; what was sent before is answered, and other networks are', async () => {
  const keys = Array.from({ length: LIMIT }, () => randomUUID());
  const pay = (key, address = '2001:db8::1') => send(site, '/v1/orders', key, 'a=1', from(address));
  for (const key of keys) assert.equal((await pay(key)).status, 200);
  const next = randomUUID();
  // Another address of the same network.
  const refused = await pay(next, '2001:db8::2');
  assert.equal(refused.status, 429);
  assert.equal(refused.json().type, '/.paid-once/problems/rate-limited');
  assert.equal(refused.header('retry-after'), '60');
  for (const key of keys) assert.equal((await pay(key)).header('idempotent-replayed'), 'true');
  assert.equal(got.length, LIMIT);
  // Its key is as good as before.
  assert.equal((await pay(next, '2001:db8:0:1::1')).status, 200);
  assert.equal(got.length, LIMIT + 1);
});

test('a form that has to wait can be sent once more under its key', async () => {
  const address = from('192.0.2.7');
  const key = () => randomUUID();
  for (let sent = 0; sent < LIMIT; sent += 1) await send(site, '/v1/orders', key(), 'a=1', address);
  const page = await gateOf(site).fetch('http://shop.example/checkout', { headers: { accept: 'text/html' } });
  const [formKey] = keysIn(await page.text());
  const before = got.length;
  const post = (headers) =>
    gateOf(site).fetch('http://shop.example/checkout', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html', ...headers },
      body: new URLSearchParams({ paid_once_key: formKey, name: 'Ann' }).toString(),
    });
  const refused = await post(address);
  const text = await refused.text();
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '60']);
  assert.match(text, /Please wait a moment/);
  assert.deepEqual(keysIn(text), [formKey]);
  assert.match(text, /name="name" value="Ann"/);
  assert.equal(got.length, before);
  assert.equal((await post(from('192.0.2.8'))).status, 200);
  assert.equal(got.length, before + 1);
});
