// The gate on the shop's own host, where what an object asks of that host comes back to the gate: whether Cloudflare does so nobody here can see. The
// zone is played by a server: the first time that it sees what the gate has sent under a key it is led to the gate again, and to the shop after that.

import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import { after, before, test } from 'node:test';

import { startGate } from './support/gate.mjs';
import { startOrigin } from './support/gate-origin.mjs';

/** How often the zone leads one visitor's request around before it gives up. */
const ROUNDS_MAX = 5;

/** `strips` takes the gate's mark off: the control. */
async function startZone({ strips = false } = {}) {
  const shop = await startOrigin();
  const led = new Map();
  let rounds = 0;
  let gate;
  const server = createServer((request, response) => {
    const { 'paid-once-passed-on': mark, ...unmarked } = request.headers;
    const headers = strips ? unmarked : request.headers;
    const key = request.headers['idempotency-key'];
    const isAgain = key !== undefined && !led.has(key) && key.startsWith('gate_');
    if (isAgain) {
      led.set(key, mark);
      rounds += 1;
    }
    if (rounds > ROUNDS_MAX) return response.writeHead(508).end();
    const { hostname, port } = isAgain ? gate.runtime.origin : new URL(shop.origin);
    const passed = httpRequest(
      { hostname, port, path: request.url, method: request.method, headers },
      (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      },
    );
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${server.address().port}`;
  gate = await startGate({
    [host]: { origin: `http://${host}`, forms: ['POST /checkout'], api: ['POST /v1/*'], missing: 'ask' },
  });
  return {
    shop,
    gate,
    host,
    led,
    rounds: () => rounds,
    async close() {
      await gate.close();
      server.close();
      server.closeAllConnections();
      shop.close();
    },
  };
}

const order = (zone, key, name) =>
  zone.gate.send(zone.host, '/v1/orders', {
    method: 'POST',
    headers: { 'idempotency-key': key, authorization: 'Bearer one', 'content-type': 'application/json' },
    body: JSON.stringify({ name }),
  });

let zone;
before(async () => {
  zone = await startZone();
});
after(() => zone.close());

test('an order of an API that comes back to the gate reaches the shop, once', async () => {
  const first = await order(zone, 'key-of-ann', 'Ann');
  assert.equal(first.status, 201, first.text);
  assert.equal(zone.rounds(), 1, 'it did come back');
  const again = await order(zone, 'key-of-ann', 'Ann');
  assert.deepEqual([again.status, again.text], [first.status, first.text]);
  assert.equal(again.headers['idempotent-replayed'], 'true');
  assert.equal(zone.shop.orders.filter(({ fields }) => fields.name === 'Ann').length, 1);
  const { headers } = zone.shop.requests.find(({ url }) => url === '/v1/orders');
  assert.ok(!('paid-once-passed-on' in headers), 'without the mark');
  assert.match(headers['idempotency-key'], /^gate_/);
});

test('a form does, too, whose key was cut out when it was gated', async () => {
  zone.shop.page('/checkout', '<form method="post" action="/checkout"><input name="name"></form>');
  const visitor = zone.gate.visitor(zone.host);
  const paid_once_key = await visitor.key('/checkout');
  const before = zone.rounds();
  for (let sent = 0; sent < 2; sent += 1) {
    const { status, text } = await visitor.post('/checkout', { paid_once_key, name: 'Bob' });
    assert.equal(status, 303, text);
  }
  assert.equal(zone.rounds(), before + 1, 'it did come back');
  assert.equal(zone.shop.orders.filter(({ fields }) => fields.name === 'Bob').length, 1);
});

test('a mark that somebody has made up passes nothing by the gate', async () => {
  const mark = [...zone.led.values()].find(Boolean);
  const send = (mark) =>
    zone.gate.send(zone.host, '/checkout', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', 'paid-once-passed-on': mark },
      body: 'name=Eve',
    });
  const forged = `${mark.slice(0, -2)}${mark.endsWith('AA') ? 'BB' : 'AA'}`;
  for (const made of [forged, 'x', '']) assert.equal((await send(made)).status, 400, made);
  assert.equal((await send(mark)).status, 303, 'control: the one that the gate has made');
});

test('control: without the mark it goes round, and no order is made', async () => {
  const zone = await startZone({ strips: true });
  try {
    const { status } = await order(zone, 'key-of-cyd', 'Cyd');
    assert.notEqual(status, 201);
    assert.ok(zone.rounds() > ROUNDS_MAX, `${zone.rounds()} rounds`);
    assert.equal(zone.shop.orders.length, 0);
  } finally {
    await zone.close();
  }
});
