// Bodies that two readers could take for two requests are refused before anything runs, and the field is named.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { shareSite } from './support/harness.mjs';
import { document, readDocument } from './support/openapi.mjs';
import { AUTHORISATION, PAYMENT, assertProblem, client, freshOrder, paid } from './support/payments.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await shareSite({ secrets: { ADMIN_TOKEN } });
const user = client(site);
after(() => site.close());

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

/** Nothing ran, and the answer names `field` in the detail and to programs. */
async function assertNames(field, send) {
  const problem = assertProblem(await withoutEffect(site, send), 400, 'bad-request');
  assert.deepEqual(
    problem.errors.map((error) => error.field),
    [field],
  );
  assert.ok(problem.detail.includes(`\`${field}\``), problem.detail);
  return problem;
}

describe('a name that stands twice in JSON', () => {
  test('of a payment is refused: neither amount is charged, and the key is free', async () => {
    const key = freshKey();
    await assertNames('amount', () => user.pay('{"amount":2500,"amount":2600,"currency":"usd"}', key));
    await assertNames('amount', () => user.pay('{"amount":2500,"am\\u006funt":2500,"currency":"usd"}', key));
    const answer = await user.pay(PAYMENT, key);
    assert.deepEqual([answer.status, answer.json().amount], [201, 2500]);
  });

  for (const [address, body, field] of [
    ['/payments', '{"amount":2500,"currency":"usd","metadata":{"a":"1","a":"2"}}', 'metadata.a'],
    [
      '/payments',
      '{"amount":2500,"currency":"usd","fallback":{"provider":"adyen","provider":"stripe"}}',
      'fallback.provider',
    ],
    [
      '/checkout/sessions',
      '{"order_id":"1","currency":"usd","lines":[{"name":"a","name":"b","unit_amount":900,"quantity":1}]}',
      'lines[0].name',
    ],
  ])
    test(`of ${address} is named: ${field}`, () =>
      assertNames(field, () => user.post(address, body, freshKey())));

  test('of a capture, a void or a refund is named', async () => {
    const { id } = await paid(user, AUTHORISATION);
    for (const move of ['capture', 'void', 'refunds'])
      await assertNames('amount', () => user.post(`/payments/${id}/${move}`, '{"amount":1,"amount":2}'));
    assert.equal((await user.payment(id)).json().status, 'requires_capture');
  });

  test('is told where it hides a key, or what makes one', async () => {
    const two = (name) => `{"amount":2500,"currency":"usd","${name}":"a","${name}":"b"}`;
    await assertNames('idempotency_key', () => user.pay(two('idempotency_key')));
    await assertNames('order_id', () => user.pay(two('order_id')));
  });

  test('once as a member and once inside its object is refused', () =>
    withoutEffect(site, async () => {
      const body = { ...PAYMENT, metadata: { color: 'red' }, 'metadata[color]': 'blue' };
      const problem = assertProblem(await user.pay(body, freshKey()), 422, 'invalid-parameters');
      assert.deepEqual(
        problem.errors.map(({ field }) => field),
        ['metadata[color]'],
      );
    }));

  test("a form's field of a line in JSON is unknown", () =>
    withoutEffect(site, async () => {
      const lines = [{ name: 'a', unit_amount: 900, quantity: 1 }];
      const body = { order_id: freshOrder(), currency: 'usd', lines, 'lines[0][unit_amount]': 100 };
      const problem = assertProblem(await user.post('/checkout/sessions', body), 422, 'invalid-parameters');
      assert.deepEqual(
        problem.errors.map(({ field }) => field),
        ['lines[0][unit_amount]'],
      );
    }));
});

describe('a number that is not the one that stands there', () => {
  for (const number of ['1e400', '9007199254740993', '9007199254740993.0', '18446744073709551617'])
    test(`${number} is refused, and its field named`, () =>
      assertNames('amount', () => user.pay(`{"currency":"usd","amount":${number}}`, freshKey())));
});

describe('what decides how much is moved, and from where', () => {
  const send = (path, headers, body) => user.ask(path, { method: 'POST', headers, body });
  const refused = async (request, ...fields) => {
    const problem = assertProblem(await withoutEffect(site, request), 422, 'invalid-parameters');
    assert.deepEqual(
      problem.errors.map(({ field }) => field),
      fields,
    );
  };

  test('is not all that is left where it is empty', async () => {
    const { id } = await paid(user);
    const refunds = `/payments/${id}/refunds`;
    await refused(() => send(refunds, FORM, 'amount='), 'amount');
    await refused(() => user.post(refunds, { amount: null }), 'amount');
    const keyed = () => ({ ...FORM, 'idempotency-key': freshKey() });
    await refused(() => send('/payments', keyed(), 'amount=2500&currency=usd&order_id='), 'order_id');
    const parts = 'amount=2500&currency=usd&payment_method=&capture=';
    await refused(() => send('/payments', keyed(), parts), 'capture', 'payment_method');
    assert.equal((await send(refunds, FORM, 'amount=500')).json().amount, 500);
  });

  test('is no null under a misspelt name, nor is it in the place of an object', async () => {
    const { id } = await paid(user);
    await refused(() => user.post(`/payments/${id}/refunds`, { amount_minor: null }), 'amount_minor');
    const reserved = await paid(user, AUTHORISATION);
    const capture = `/payments/${reserved.id}/capture`;
    await refused(() => user.post(capture, { amount_to_capture: null }), 'amount_to_capture');
    await refused(() => user.post(`/payments/${reserved.id}/void`, { reason: null }), 'reason');
    await refused(() => user.pay({ ...PAYMENT, fallback: null }, freshKey()), 'fallback');
    const put = { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{"nmae":null}' };
    await refused(() => user.ask('/customers/ada@shop.example', put), 'nmae');
  });

  test('is not all links of an order where one of them is named', async () => {
    const order_id = freshOrder();
    const lines = [{ name: 'a', unit_amount: 900, quantity: 1 }];
    const made = await user.post('/checkout/sessions', { order_id, currency: 'usd', lines });
    const expire = `/checkout/sessions/${order_id}/expire`;
    for (const body of [{ revision: 3 }, { revision: null }])
      await refused(() => user.post(expire, body), 'revision');
    await refused(() => send(expire, FORM, 'revision=3'), 'revision');
    const page = () => site.fetch(new URL(made.json().url).pathname, { headers: { accept: 'text/html' } });
    assert.equal((await page()).status, 200);
    for (const body of [undefined, {}]) assert.equal((await user.post(expire, body)).status, 200);
    assert.equal((await page()).status, 410);
  });

  test('does not stand in the address, where nobody reads it', async () => {
    const { id } = await paid(user, AUTHORISATION);
    const capture = `/payments/${id}/capture`;
    await refused(() => send(`${capture}?amount=500&re%61son=x`, {}, ''), 'amount', 'reason');
    await refused(() => user.post(`/payments?amount=500`, PAYMENT, freshKey()), 'amount');
    assert.equal((await site.fetch(`${capture}?amount=500`, { method: 'POST' })).status, 401);
    assert.equal((await send(capture, FORM, 'amount=500')).json().amount_captured, 500);
  });

  test('stands in no address that an account may send anything to', async () => {
    await readDocument(site);
    const takes = ({ security }) => security?.some((one) => 'account' in one);
    const all = Object.entries(document.paths).flatMap(([path, { post, put }]) =>
      Object.entries({ POST: post, PUT: put }).map(([method, operation]) => ({ path, method, operation })),
    );
    const addresses = all.filter(({ operation }) => operation && takes(operation));
    assert.equal(addresses.length, 11);
    const { id } = await paid(user);
    for (const { path, method } of addresses) {
      const to = path
        .replace('{id}', id)
        .replace('{email}', 'a@b.example')
        .replace('{order}', 'order-1')
        .replace('{webhook_id}', `${id}_event_1`);
      const headers = { 'content-type': 'application/json', 'idempotency-key': freshKey() };
      const body = JSON.stringify(path === '/payments' ? PAYMENT : {});
      await refused(() => user.ask(`${to}?x%20y=1`, { method, headers, body }), 'x y');
    }
  });

  test('is no word that a program made of “false”', () =>
    refused(() => user.pay({ ...PAYMENT, order_id: false }), 'order_id'));
});

test('a compressed body is refused as what it is', async () => {
  const headers = {
    'content-type': 'application/json',
    'content-encoding': 'gzip',
    'idempotency-key': freshKey(),
  };
  const body = gzipSync(JSON.stringify(PAYMENT));
  const answer = await withoutEffect(site, () => user.ask('/payments', { method: 'POST', headers, body }));
  assert.match(assertProblem(answer, 415, 'unsupported-media-type').detail, /Content-Encoding/);
  assert.equal(answer.headers.get('accept-encoding'), 'identity');
});

describe('a body that is not what its type says', () => {
  const sent = (type, body) => {
    const headers = { 'content-type': type, 'idempotency-key': freshKey() };
    return withoutEffect(site, () => user.ask('/payments', { method: 'POST', headers, body }));
  };

  test('is refused with the types that are taken', async () => {
    const answer = await sent('text/plain', JSON.stringify(PAYMENT));
    assertProblem(answer, 415, 'unsupported-media-type');
    assert.equal(answer.headers.get('accept-post'), 'application/json, application/x-www-form-urlencoded');
    assert.equal(answer.headers.get('accept-encoding'), null);
  });

  test('is told of where curl calls JSON a form', async () => {
    const answer = await sent(FORM['content-type'], JSON.stringify(PAYMENT));
    assert.match(assertProblem(answer, 415, 'unsupported-media-type').detail, /is JSON/);
  });
});

test('a key that was lost on the way is no request without one', async () => {
  const { id } = await paid(user, PAYMENT);
  for (const [headers, body] of [
    [FORM, 'amount=500&idempotency_key='],
    [{ 'content-type': 'application/json' }, '{"amount":500,"idempotency_key":null}'],
    [{ 'content-type': 'application/json' }, '{"amount":500,"idempotency_key":""}'],
  ]) {
    const answer = await user.ask(`/payments/${id}/refunds`, { method: 'POST', headers, body });
    assert.match(assertProblem(answer, 400, 'idempotency-key-invalid').detail, /is empty/, body);
  }
  assert.equal((await user.payment(id)).json().amount_refunded, 0);
});

describe('a form', () => {
  const post = (path, body, key) =>
    user.ask(path, { method: 'POST', headers: { ...FORM, ...(key && { 'idempotency-key': key }) }, body });

  for (const [what, body, field] of [
    ['with a field that is not UTF-8', 'amount=2500&currency=usd&description=caf%E9', 'description'],
    ['with a field twice', 'amount=2500&currency=usd&amount=2600', 'amount'],
    ['with two keys', 'amount=2500&currency=usd&idempotency_key=a&idempotency_key=a', 'idempotency_key'],
  ])
    test(`${what} is refused, and the field named`, async () => {
      await assertNames(field, () => post('/payments', body, freshKey()));
      await assertNames(field, () => post('/payments', body));
    });

  test('of UTF-8 is taken as it is', async () => {
    const answer = await post('/payments', 'amount=2500&currency=usd&description=caf%C3%A9+%26', freshKey());
    assert.deepEqual([answer.status, answer.json().description], [201, 'café &']);
  });

  test('with a card’s number for a token is refused, and nothing of it is kept', async () => {
    const number = '4242424242424242';
    for (const body of [{ payment_method: number }, { payment_method: '4242-4242-4242-4242' }]) {
      const order_id = freshKey();
      const pay = () =>
        user.post('/payments', { amount: 2500, currency: 'usd', order_id, ...body }, freshKey());
      const problem = await withoutEffect(site, async () =>
        assertProblem(await pay(), 422, 'invalid-parameters'),
      );
      assert.match(problem.detail, /never a card number/);
      assert.ok(!JSON.stringify(problem).includes(number));
    }
  });

  test('of a browser with a field twice pays nothing; its page leads to the order', async () => {
    const ada = browser(site);
    const { path, form } = await ada.openOrder();
    await withoutEffect(site, async () => {
      const page = await ada.send(path, [...Object.entries(form), ['payment_method', 'pm_card_mastercard']]);
      assert.equal(page.status, 400);
      assert.match(page.text, /did not arrive as it was sent. Nothing was charged by this/);
      assert.ok(page.text.includes(`href="${path}"`), page.text);
    });
    assert.equal((await ada.send(path, form)).status, 303, 'the key is still free');
  });

  test('of the desk with two amounts gives nothing back', async () => {
    const { id } = await paid(user);
    const path = `/admin/payments/${id}/refund`;
    const bearer = { authorization: `Bearer ${ADMIN_TOKEN}`, accept: 'text/html' };
    const page = await (await site.fetch(path, { headers: bearer })).text();
    const [, key] = new RegExp(`action="${path}">\\s*<input type="hidden" name="form" value="([^"]+)"`).exec(
      page,
    );
    const body = `form=${encodeURIComponent(key)}&amount=1&amount=2`;
    const pressed = await site.fetch(path, { method: 'POST', headers: { ...FORM, ...bearer }, body });
    assert.equal(pressed.status, 400);
    assert.equal((await site.simulator.moved(id)).refunded, 0);
  });
});

describe('the parameters of a key', () => {
  test('of RFC 8941 are read: it is the same key', async () => {
    const key = freshKey();
    const first = await user.pay(PAYMENT, `"${key}";v=1;note="a, b"`);
    assert.equal(first.status, 201, first.text);
    const again = await user.pay(PAYMENT, key);
    assert.deepEqual(again.bytes, first.bytes);
  });

  test('that are malformed are refused', async () => {
    for (const parameters of [';', ';V=1', ';v=', ' ;v=1', ';v=(1)'])
      assertProblem(
        await withoutEffect(site, () => user.pay(PAYMENT, `"${freshKey()}"${parameters}`)),
        400,
        'idempotency-key-invalid',
      );
  });
});
