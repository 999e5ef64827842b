// Answers that are too large for a row: they lie in a bucket, sealed, until their key expires.

import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, beforeEach, test } from 'node:test';

import { gateOf, send as sendTo, workersWithGate } from './support/gate-site.mjs';
import { startSite } from './support/harness.mjs';
import { until } from './support/until.mjs';

/** The longer ones are for a machine that takes longer than that to look. */
const BRIEF_MS = [1_000, 8_000, 64_000];
const MARK = 'what the shop has answered, word for word';
const bodies = {
  large: Buffer.concat([Buffer.from(MARK), randomBytes(2_000_000), Buffer.from(MARK)]),
  small: Buffer.from(MARK),
  huge: Buffer.alloc(5_000_000, 'x'),
};
const got = [];
const shop = createServer(async (request, response) => {
  for await (const _ of request);
  got.push(request.url);
  response.writeHead(201, { 'content-type': 'application/octet-stream', 'x-order': '7' });
  response.end(bodies[request.url.split('/')[2]]);
});
shop.listen(0, '127.0.0.1');
await once(shop, 'listening');
const origin = `http://127.0.0.1:${shop.address().port}`;
const routes = [
  { origin, api: ['POST /kept/*/*'] },
  ...BRIEF_MS.map((ms) => ({ origin, api: [`POST /brief-${ms}/*/*`], keep_ms: ms })),
];
const site = await startSite({ workers: workersWithGate(routes, {}) });
after(async () => {
  await site.close();
  shop.close();
});
const send = (...what) => sendTo(site, ...what);
const { ANSWERS: bucket } = await gateOf(site).getEnv();
const stored = async () => (await bucket.list()).objects.map(({ key }) => key);
const times = (path) => got.filter((url) => url === path).length;

beforeEach(async () => {
  for (const key of await stored()) await bucket.delete(key);
});

test('a large answer is given again as it was, to all that come', async () => {
  const [path, key] = [`/kept/large/${randomUUID()}`, randomUUID()];
  const answers = await Promise.all([1, 2, 3].map(() => send(path, key)));
  answers.push(await send(path, key));
  for (const { status, bytes, header } of answers) {
    assert.deepEqual([status, header('x-order')], [201, '7']);
    assert.ok(bytes.equals(bodies.large), `${bytes.length} bytes`);
  }
  const replayed = answers.map(({ header }) => header('idempotent-replayed'));
  assert.deepEqual(replayed.sort(), ['false', 'true', 'true', 'true']);
  assert.equal(times(path), 1);
  assert.equal((await stored()).length, 1);
});

test('nobody who reads the bucket reads what was answered', async () => {
  await send(`/kept/large/${randomUUID()}`, randomUUID());
  const [name] = await stored();
  const bytes = Buffer.from(await (await bucket.get(name)).arrayBuffer());
  assert.ok(bytes.length > bodies.large.length);
  for (const part of [MARK, 'x-order']) assert.ok(!bytes.includes(part), part);
});

test('a small one lies in the row', async () => {
  const [path, key] = [`/kept/small/${randomUUID()}`, randomUUID()];
  for (let sent = 0; sent < 2; sent += 1) assert.equal((await send(path, key)).text, MARK);
  assert.deepEqual(await stored(), []);
});

test('one that is larger than is kept reaches who has asked; then it is done', async () => {
  const [path, key] = [`/kept/huge/${randomUUID()}`, randomUUID()];
  assert.equal((await send(path, key)).bytes.length, bodies.huge.length);
  assert.match((await send(path, key)).json().type, /already-done/);
  assert.equal(times(path), 1);
  assert.deepEqual(await stored(), []);
});

test('without what the bucket has lost it is still done once', async () => {
  const [path, key] = [`/kept/large/${randomUUID()}`, randomUUID()];
  await send(path, key);
  await bucket.delete((await stored())[0]);
  assert.match((await send(path, key)).json().type, /already-done/);
  assert.equal(times(path), 1);
});

test('it goes from the bucket when its key expires', async () => {
  let path, key, isStored;
  for (const ms of BRIEF_MS) {
    [path, key] = [`/brief-${ms}/large/${randomUUID()}`, randomUUID()];
    const began = Date.now();
    await send(path, key);
    isStored = (await stored()).length > 0;
    if (isStored) break;
    assert.ok(Date.now() - began >= ms, 'it was stored');
  }
  assert.ok(isStored, 'it was there before');
  await until('the bucket is empty', async () => (await stored()).length === 0);
  assert.notEqual((await send(path, key)).status, 201);
  assert.equal(times(path), 1);
});
