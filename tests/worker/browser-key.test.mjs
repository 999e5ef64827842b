// A browser's own Idempotency-Key: Firefox has one (network.http.idempotencyKey.enabled), a 64-bit number in quotes,
// another one for each click. tests/browser has the same with Firefox itself.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { shareSite } from './support/harness.mjs';
import { AUTHORISATION, PAYMENT, assertProblem, client, freshOrder, paid } from './support/payments.mjs';

const SHOP = 'https://shop.example';
const site = await shareSite({ vars: { CORS_ORIGINS: `${SHOP}, https://www.shop.example` } });
const user = client(site);
after(() => site.close());

const REPLAYED = 'idempotent-replayed';
const ownKey = () => `"${randomBytes(8).readBigUInt64BE()}"`;
/** What Firefox sends with a form. */
const withForm = () => ({
  'idempotency-key': ownKey(),
  'sec-fetch-site': 'same-origin',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-dest': 'document',
});
/** What Firefox sends with a script's fetch of an allowed origin. */
const withFetch = () => ({
  origin: SHOP,
  'idempotency-key': ownKey(),
  'sec-fetch-site': 'cross-site',
  'sec-fetch-mode': 'cors',
  'sec-fetch-dest': 'empty',
});

describe('beside a form', () => {
  test('it is ignored: the hidden key counts, also when the browser makes another number', async () => {
    const ada = browser(site);
    const { path, form } = await ada.openOrder();
    for (let i = 0; i < 2; i++) {
      const sent = await ada.send(path, form, withForm());
      assert.equal(sent.status, 303, sent.text);
    }
    const receipt = await ada.visit(path);
    assert.match(receipt.text, /Thank you for your order/);
    const payment = /pay_[\w-]{43}/.exec(receipt.text)[0];
    assert.equal((await site.simulator.moved(payment)).charges, 1);
  });

  test('that lost its hidden key it is no key: the form is shown again', async () => {
    const ada = browser(site);
    const { path, form } = await ada.openOrder();
    const { idempotency_key, ...rest } = form;
    assert.ok(idempotency_key);
    await withoutEffect(site, async () => {
      const page = await ada.send(path, rest, withForm());
      assert.equal(page.status, 409);
      assert.match(page.text, /This form cannot be used here/);
    });
  });

  test('any other header is ignored, too', async () => {
    const ada = browser(site);
    const { path, form } = await ada.openOrder();
    const answer = await ada.send(path, form, { 'idempotency-key': freshKey() });
    assert.equal(answer.status, 303, answer.text);
  });
});

describe("beside a script's request", () => {
  for (const [move, payment, expected] of [
    ['capture', AUTHORISATION, { charges: 1, captured: 1000, refunded: 0, voided: 0 }],
    ['void', AUTHORISATION, { charges: 1, captured: 0, refunded: 0, voided: 1 }],
    ['refunds', PAYMENT, { charges: 1, captured: 2500, refunded: 1000, voided: 0 }],
  ])
    test(`two clicks on ${move} are one`, async () => {
      const { id } = await paid(user, payment);
      const body = move === 'void' ? undefined : { amount: 1000 };
      const click = () => user.post(`/payments/${id}/${move}`, body, undefined, withFetch());
      const clicks = [...(await Promise.all([click(), click()])), await click()];
      for (const { status, bytes, text } of clicks) {
        assert.ok([200, 201].includes(status), text);
        assert.deepEqual(bytes, clicks[0].bytes);
      }
      assert.equal(clicks.filter((answer) => answer.header(REPLAYED) === null).length, 1);
      assert.deepEqual(await site.simulator.moved(id), expected);
    });

  test('two clicks on an order are one payment', async () => {
    const payment = { ...PAYMENT, order_id: freshOrder() };
    const clicks = await Promise.all([1, 2].map(() => user.pay(payment, undefined, withFetch())));
    assert.deepEqual(
      clicks.map(({ status }) => status),
      [201, 201],
    );
    assert.deepEqual(clicks[1].bytes, clicks[0].bytes);
  });

  test('the key in the body counts', async () => {
    const payment = { ...PAYMENT, idempotency_key: freshKey() };
    const clicks = await Promise.all([1, 2].map(() => user.pay(payment, undefined, withFetch())));
    assert.deepEqual(
      clicks.map(({ status }) => status),
      [201, 201],
    );
    assert.equal(clicks[1].payment, clicks[0].payment);
  });

  test('where nothing else makes a key there is none, and the answer says why', () =>
    withoutEffect(site, async () => {
      for (const answer of [await user.pay(PAYMENT, undefined, withFetch())]) {
        const { detail } = assertProblem(answer, 400, 'idempotency-key-missing');
        assert.match(detail, /made by itself/);
      }
    }));

  test("a script's own key counts, and so does a number that no browser has sent", async () => {
    const { id } = await paid(user);
    const refund = (headers) => user.post(`/payments/${id}/refunds`, { amount: 100 }, undefined, headers);
    const mine = { ...withFetch(), 'idempotency-key': `refund-${ownKey().slice(1, -1)}` };
    const program = { 'idempotency-key': ownKey() };
    // Node's own fetch sends this one.
    const node = { 'idempotency-key': ownKey(), 'sec-fetch-mode': 'cors' };
    for (const headers of [mine, program, node]) assert.equal((await refund(headers)).status, 201);
    assert.equal((await site.simulator.moved(id)).refunded, 300);
  });
});
