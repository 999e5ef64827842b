// The gate before an API: who a client is, whose a key is, and which key is none.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { FORM, startGate } from './support/gate.mjs';

const api = ['POST /v1/*'];
const forms = ['POST /checkout'];
const HOSTS = {
  'api.test': { api },
  'shared.test': { api, identity: [] },
  'second.test': { api },
  'new.test': { forms, edited: 'new' },
  'www.new.test': { forms, edited: 'new' },
};

let gate;
let shop;
let count = 0;

before(async () => {
  gate = await startGate(HOSTS);
  ({ shop } = gate);
});

after(() => gate.close());

/** An order that no other test makes, as a client sends it with its key; and how often the shop has made it. */
function anOrder(host, key = `key-${count + 1}`) {
  const name = `Bea ${(count += 1)}`;
  return {
    send: (headers, { at = host, ...more } = {}) =>
      gate.send(at, '/v1/orders', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key, ...headers },
        body: JSON.stringify({ name, ...more }),
      }),
    times: () => shop.orders.filter(({ fields }) => fields.name === name).length,
  };
}

describe('where all clients share their keys', () => {
  test('a cookie that is new at a retry makes it no other order', async () => {
    const { send, times } = anOrder('shared.test');
    for (const cookie of ['AWSALB=one', 'AWSALB=two; lang=en', 'sid=a; AWSALB=three', ''])
      await send({ ...(cookie && { cookie }) });
    assert.equal(times(), 1);
  });

  test('an answer is repeated only in the session that it was for', async () => {
    const { send, times } = anOrder('shared.test');
    const statuses = [];
    for (const cookie of ['sid=a', 'sid=a; lang=en', 'sid=b']) statuses.push((await send({ cookie })).status);
    assert.deepEqual(statuses, [201, 201, 409]);
    assert.equal(times(), 1);
  });
});

test('a log-in that is made anew says not who a client is', async () => {
  const { send, times } = anOrder('api.test');
  const told = [];
  for (const ticket of ['one', 'two'])
    told.push(await send({ cookie: `.AspNetCore.Identity.Application=${ticket}` }));
  assert.deepEqual(
    told.map(({ status, text }) => [status, JSON.parse(text).type]),
    Array(2).fill([400, '/.paid-once/problems/client-unknown']),
  );
  assert.equal(times(), 0);
  // With the session's own id beside it they are one client, whose answer is for its log-in.
  const statuses = [];
  for (const ticket of ['one', 'one', 'two']) {
    const cookie = `.AspNetCore.Session=s; .AspNetCore.Identity.Application=${ticket}`;
    statuses.push((await send({ cookie })).status);
  }
  assert.deepEqual(statuses, [201, 201, 409]);
  assert.equal(times(), 1);
});

describe("a page's script that sends a number as its key", () => {
  const script = { authorization: 'Bearer one', 'sec-fetch-site': 'same-origin' };
  for (const [what, key, times] of [
    ['bare has that key', '10420001', 1],
    ['bare and as long as a hash has that key', '1735912983204511000', 1],
    ['in quotes and short has that key', '"10420002"', 1],
    ['control: as Firefox makes it has none', '"1735912983204511000"', 2],
  ])
    test(what, async () => {
      const order = anOrder('api.test', key);
      for (let sent = 0; sent < 2; sent += 1) assert.equal((await order.send(script)).status, 201);
      assert.equal(order.times(), times);
    });
});

test('an empty header or cookie says not who a client is', async () => {
  const { send, times } = anOrder('api.test');
  for (const headers of [{ authorization: '' }, { 'x-api-key': '  ' }, { cookie: 'sessionid=; sid=' }]) {
    const { status, text } = await send(headers);
    assert.deepEqual([status, JSON.parse(text).type], [400, '/.paid-once/problems/client-unknown']);
  }
  assert.equal(times(), 0);
  // What stands beside it does.
  const statuses = [];
  for (const headers of [
    { authorization: '', cookie: 'sessionid=one' },
    { 'x-api-key': '', cookie: 'sessionid=one' },
    { authorization: '', cookie: 'sessionid=two' },
  ])
    statuses.push((await send(headers)).status);
  assert.deepEqual(statuses, [201, 201, 201]);
  assert.equal(times(), 2);
});

describe('the same key at two hosts', () => {
  test('is no key of the second one: its client is told so, and nothing is done', async () => {
    const { send, times } = anOrder('api.test');
    const headers = { authorization: 'Bearer one' };
    assert.equal((await send(headers)).status, 201);
    const elsewhere = await send(headers, { at: 'second.test' });
    assert.deepEqual(
      [elsewhere.status, JSON.parse(elsewhere.text).type],
      [422, '/.paid-once/problems/idempotency-key-reused'],
    );
    const again = await send(headers);
    assert.deepEqual([again.status, again.headers['idempotent-replayed']], [201, 'true']);
    assert.equal(times(), 1);
  });

  test('is not taken for an edited form, where that is sent as new', async () => {
    shop.page('/checkout', FORM);
    // Without the gate's cookie, which each host has its own of.
    const paid_once_key = await gate.visitor('new.test').key('/checkout');
    const name = `Bea ${(count += 1)}`;
    const post = (host, more) => gate.visitor(host).post('/checkout', { paid_once_key, name, ...more });
    const times = () => shop.orders.filter(({ fields }) => fields.name === name).length;
    for (const [host, more, status, orders] of [
      ['new.test', {}, 303, 1],
      ['www.new.test', {}, 422, 1],
      ['www.new.test', { note: 'edited' }, 303, 2],
      ['new.test', { note: 'edited' }, 422, 2],
      ['www.new.test', { note: 'edited' }, 303, 2],
    ]) {
      assert.equal((await post(host, more)).status, status);
      assert.equal(times(), orders);
    }
  });
});
