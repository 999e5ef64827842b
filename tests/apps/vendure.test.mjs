// Vendure as it comes from npm, a shop whose only door is GraphQL: its API behind the gate and without it, and what stands in its own database.
//
//     npm run gate:apps

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { setUpNpmApp } from '../../scripts/setup/npm-app.mjs';
import { startGate } from '../worker/support/gate.mjs';
import { until } from '../worker/support/until.mjs';
import { freePort } from './support/port.mjs';
import { startWire } from './support/wire.mjs';

let shop;
let gate;
let wire;

before(async () => {
  shop = await startVendure();
  wire = await startWire(shop.origin);
  gate = await startGate({
    '': { origin: wire.origin.origin, api: ['POST /shop-api', 'POST /admin-api'] },
  });
});
after(async () => {
  await gate?.close();
  wire?.close();
  shop?.stop();
});

async function startVendure() {
  const cwd = await setUpNpmApp('vendure', inRoot('tests', 'apps', 'vendure'));
  const home = temporaryDirectory('vendure');
  const port = await freePort();
  const args = ['shop.cjs', String(port), home];
  const populated = spawnSync(process.execPath, [...args, 'populate'], { cwd, encoding: 'utf8' });
  assert.equal(populated.status, 0, populated.stderr);
  const server = spawn(process.execPath, args, { cwd, stdio: 'ignore' });
  const origin = new URL(`http://127.0.0.1:${port}`);
  while (!(await fetch(new URL('/health', origin)).catch(() => undefined))?.ok) await pause(100);
  return {
    origin,
    /** The number that a query gives, in the shop's own database. Vendure writes the file anew after each change. */
    async count(sql, ...values) {
      await pause(200);
      return until('the file is whole', () => {
        try {
          const books = new DatabaseSync(join(home, 'shop.sqlite3'), { readOnly: true });
          const [row] = books.prepare(sql).all(...values);
          books.close();
          return { number: Object.values(row)[0] };
        } catch (error) {
          if (!/malformed|not a database|no such table|disk/.test(error.message)) throw error;
        }
      }).then(({ number }) => number);
    },
    stop: () => server.kill(),
  };
}

/** A client of the API: who it is stands in its token, which the shop gives it with the first answer. */
class Client {
  #origin;
  token;

  /** `origin` gives the address: a gate that is started anew has another one. */
  constructor(origin) {
    this.#origin = origin;
  }

  /** Sends a query, or a mutation with its key. */
  async send(query, { key, path = '/shop-api' } = {}) {
    const headers = { 'content-type': 'application/json', accept: 'application/json' };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    if (key) headers['idempotency-key'] = key;
    const url = new URL(path, this.#origin());
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query }) });
    this.token = answer.headers.get('vendure-auth-token') ?? this.token;
    const text = await answer.text();
    return { status: answer.status, text, replayed: answer.headers.get('idempotent-replayed') };
  }

  /** Five times at once and once more, under one key. */
  async hammer(query, options = {}) {
    const sent = { key: randomUUID(), ...options };
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => this.send(query, sent)));
    return [...answers, await this.send(query, sent)];
  }
}

const ADD = `mutation { addItemToOrder(productVariantId: "1", quantity: 1) {
  ... on Order { code totalQuantity } ... on ErrorResult { message } } }`;

/** Somebody with a basket, in which one mug is. */
async function withBasket(client) {
  const { text } = await client.send(ADD);
  return JSON.parse(text).data.addItemToOrder.code;
}

const mugsOf = (code) =>
  shop.count(
    'SELECT SUM(quantity) FROM order_line JOIN "order" ON "order".id = order_line.orderId WHERE code = ?',
    code,
  );

const people = [
  ['without the gate', () => new Client(() => wire.origin), 6],
  ['behind the gate', () => new Client(() => gate.runtime.origin), 1],
];

for (const [where, client, expected] of people) {
  test(`a mug that is put into the basket six times is there ${expected} times, ${where}`, async () => {
    const ann = client();
    const code = await withBasket(ann);
    const answers = await ann.hammer(ADD);
    assert.ok(answers.every(({ status }) => status === 200));
    assert.equal((await mugsOf(code)) - 1, expected);
    if (expected === 1) assert.equal(new Set(answers.map(({ text }) => text)).size, 1, 'one answer for all');
  });

  for (const fault of ['lost', 'half', 'gateway']) {
    const times = expected === 1 ? 1 : 4;
    test(`a mug whose answer is ${fault}, tried four times, is there ${times} times, ${where}`, async () => {
      const ann = client();
      const code = await withBasket(ann);
      const key = randomUUID();
      const told = [];
      for (let tried = 0; tried < 4; tried += 1) {
        wire.fault = fault;
        told.push(await ann.send(ADD, { key }).catch(() => undefined));
      }
      wire.fault = undefined;
      assert.equal((await mugsOf(code)) - 1, times);
      if (times === 1)
        for (const { status, text } of told) {
          assert.equal(status, 502);
          assert.match(text, /outcome-unknown/);
        }
    });
  }

  test(`a product that an operator adds six times is there ${expected} times, ${where}`, async () => {
    const operator = client();
    const path = '/admin-api';
    await operator.send(
      'mutation { login(username: "operator", password: "a password of a test") { __typename } }',
      { path },
    );
    const name = `Plate ${randomUUID()}`;
    const input = `{ translations: [{ languageCode: en, name: "${name}", slug: "${name}", description: "" }] }`;
    const answers = await operator.hammer(`mutation { createProduct(input: ${input}) { id } }`, { path });
    assert.ok(
      answers.every(({ text }) => text.includes('"id"')),
      answers[0].text,
    );
    assert.equal(await shop.count('SELECT COUNT(*) FROM product_translation WHERE name = ?', name), expected);
  });

  test(`an order that is paid six times is paid once, and ${expected === 1 ? 'all six are' : 'one of six is'} told so, ${where}`, async () => {
    const ann = client();
    const code = await withBasket(ann);
    for (const step of [
      'setCustomerForOrder(input: { firstName: "Ann", lastName: "Lee", emailAddress: "ann@shop.test" })',
      'setOrderShippingAddress(input: { streetLine1: "1 Road", countryCode: "AT" })',
      'setOrderShippingMethod(shippingMethodId: ["1"])',
      'transitionOrderToState(state: "ArrangingPayment")',
    ])
      assert.match((await ann.send(`mutation { ${step} { __typename } }`)).text, /"Order"/, step);
    const answers = await ann.hammer(`mutation { addPaymentToOrder(input: { method: "dummy", metadata: {} }) {
      ... on Order { state } ... on ErrorResult { message } } }`);
    const paid = 'SELECT COUNT(*) FROM payment JOIN "order" ON "order".id = payment.orderId WHERE code = ?';
    assert.equal(await shop.count(paid, code), 1);
    const settled = answers.filter(({ text }) => text.includes('PaymentSettled')).length;
    assert.equal(settled, expected === 1 ? 6 : 1, answers.map(({ text }) => text).join('\n'));
  });
}

test('the gate is killed in the middle of a mutation, and the client tries again', async () => {
  for (const afterMs of [0, 5, 10, 20, 40]) {
    const ann = new Client(() => gate.runtime.origin);
    const code = await withBasket(ann);
    const key = randomUUID();
    const first = ann.send(ADD, { key }).catch(() => 'killed');
    await pause(afterMs);
    await gate.runtime.kill();
    await first;
    await gate.runtime.start();
    for (let tried = 0; tried < 3; tried += 1) {
      const { status, text } = await ann.send(ADD, { key });
      assert.ok([200, 502].includes(status), `${status} after ${afterMs} ms: ${text}`);
    }
    const mugs = (await mugsOf(code)) - 1;
    assert.ok(mugs <= 1, `${mugs} mugs, killed after ${afterMs} ms`);
  }
});

test('queries pass without a key', async () => {
  const { status, text, replayed } = await new Client(() => gate.runtime.origin).send(
    '{ products { items { name } } }',
  );
  assert.deepEqual([status, replayed], [200, null]);
  assert.match(text, /Mug/);
});
