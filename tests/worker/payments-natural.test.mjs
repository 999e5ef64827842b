// Without a header an operation makes a key of its own, so that two clicks are one; and an order is paid once.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { shareSite } from './support/harness.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  DECLINED_CARD,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  held,
  moved,
  paid,
} from './support/payments.mjs';
import { heading } from './support/shopper.mjs';
import { until } from './support/until.mjs';

const site = await shareSite();
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const REPLAYED = 'idempotent-replayed';
const click = (id, move, body) => user.post(`/payments/${id}/${move}`, body);

describe('two clicks without a header', () => {
  for (const [move, payment, expected] of [
    ['capture', AUTHORISATION, { charges: 1, captured: 2500, refunded: 0, voided: 0 }],
    ['void', AUTHORISATION, { charges: 1, captured: 0, refunded: 0, voided: 1 }],
    ['refunds', PAYMENT, { charges: 1, captured: 2500, refunded: 2500, voided: 0 }],
  ])
    test(`on ${move}, at once or later, are one`, async () => {
      const { id } = await paid(user, payment);
      const clicks = await Promise.all([click(id, move), click(id, move)]);
      clicks.push(await click(id, move));
      for (const { status, bytes, text } of clicks) {
        assert.ok([200, 201].includes(status), text);
        assert.deepEqual(bytes, clicks[0].bytes);
      }
      assert.equal(clicks.filter((answer) => answer.header(REPLAYED) === null).length, 1);
      assert.deepEqual(await site.simulator.moved(id), expected);
    });

  test('on the order are one payment', async () => {
    const payment = { ...PAYMENT, order_id: freshOrder() };
    const [first, second] = await Promise.all([user.pay(payment), user.pay(payment)]);
    assert.deepEqual([first.status, second.status], [201, 201]);
    assert.deepEqual(second.bytes, first.bytes);
    assert.equal((await site.simulator.moved(first.payment)).charges, 1);
  });

  test('while the first is under way: the second is refused, or waits if it may', async () => {
    const { id } = await paid(user);
    const { answer } = await held(site, () => click(id, 'refunds', { amount: 100 }));
    const refused = await user.post(`/payments/${id}/refunds`, { amount: 100 }, undefined, AT_ONCE);
    assertProblem(refused, 409, 'request-in-progress', { resource: `/payments/${id}` });
    await site.simulator.calm();
    assert.equal((await answer).status, 201);
    assert.equal((await site.simulator.moved(id)).refunded, 100);
  });
});

describe('the natural key', () => {
  for (const move of ['void', 'capture'])
    test(`of a ${move} is its attempt's own: a late retry does not move the next one`, async () => {
      const payment = { ...AUTHORISATION, order_id: freshOrder() };
      const first = await paid(user, payment);
      const canceled = await click(first.id, 'void');
      assert.equal(canceled.json().status, 'canceled');
      const second = await user.pay(payment, freshKey());
      assert.deepEqual([second.json().id, second.json().status], [first.id, 'requires_capture']);

      const retried = await click(first.id, move);
      assertProblem(retried, 400, 'idempotency-key-missing');
      assert.match(retried.json().detail, /attempt 2 of the payment/);
      const named = await user.post(`/payments/${first.id}/${move}`, { attempt: 1 }, freshKey());
      assertProblem(named, 409, 'payment-state');
      assert.equal((await user.ask(`/payments/${first.id}`)).json().status, 'requires_capture');

      const meant = await click(first.id, move, { attempt: 2 });
      assert.equal(meant.json().status, move === 'void' ? 'canceled' : 'succeeded');
      const again = await click(first.id, move, { attempt: 2 });
      assert.deepEqual([again.bytes, again.header(REPLAYED)], [meant.bytes, 'true']);
      const { voided, captured } = await site.simulator.moved(first.id);
      assert.deepEqual([voided, captured], move === 'void' ? [2, 0] : [1, 2500]);
    });

  test('of the first attempt is answered as ever where it is named, whatever came since', async () => {
    const payment = { ...AUTHORISATION, order_id: freshOrder() };
    const { id } = await paid(user, payment);
    const canceled = await click(id, 'void');
    await user.pay(payment, freshKey());
    const retried = await click(id, 'void', { attempt: 1 });
    assert.deepEqual([retried.bytes, retried.header(REPLAYED)], [canceled.bytes, 'true']);
    for (const attempt of [0, '01', 'two', 1.5, true]) {
      const refused = await click(id, 'void', { attempt });
      assert.equal(refused.status, 422, JSON.stringify(attempt));
    }
    assert.equal((await site.simulator.moved(id)).voided, 1);
  });

  test('of a refund is what it means, however it is written', async () => {
    const { id } = await paid(user);
    const first = await click(id, 'refunds', { amount: 700 });
    const form = await user.ask(`/payments/${id}/refunds`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'reason=requested_by_customer&amount=700',
    });
    const spelled = await click(id, 'refunds', { reason: 'requested_by_customer', amount: '700' });
    for (const same of [form, spelled]) {
      assert.deepEqual(same.bytes, first.bytes);
      assert.equal(same.header(REPLAYED), 'true');
    }
    assert.equal((await site.simulator.moved(id)).refunded, 700);
  });

  for (const [move, body] of [
    ['void', 'none'],
    ['capture', 'the whole'],
    ['capture', { amount: 900 }],
  ])
    test(`of a ${move} (${JSON.stringify(body)}) is what it means, with whatever body`, async () => {
      const { id } = await paid(user, AUTHORISATION);
      const json = typeof body === 'object' ? body : {};
      const first = await click(id, move, Object.keys(json).length > 0 ? json : undefined);
      assert.equal(first.status, 200, first.text);
      const form = await user.ask(`/payments/${id}/${move}`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams(json).toString(),
      });
      for (const same of [await click(id, move, json), form]) {
        assert.deepEqual(same.bytes, first.bytes);
        assert.equal(same.header(REPLAYED), 'true');
      }
    });

  test('of another amount, or for another reason, is another refund; so is one with a header', async () => {
    const { id } = await paid(user);
    const bodies = [{ amount: 300 }, { amount: 301 }, { amount: 300, reason: 'duplicate' }];
    for (const body of bodies) assert.equal((await click(id, 'refunds', body)).status, 201);
    await moved(user, id, 'refunds', bodies[0]);
    assert.equal((await site.simulator.moved(id)).refunded, 300 + 301 + 300 + 300);
    assert.equal((await user.refunds(id)).json().data.length, 4);
  });

  test('of a capture is one for all amounts: another one is a mismatch', async () => {
    const { id } = await paid(user, AUTHORISATION);
    const first = await click(id, 'capture', { amount: 1000 });
    assert.equal(first.status, 200, first.text);
    const other = await withoutEffect(site, () => click(id, 'capture', { amount: 1001 }));
    assertProblem(other, 422, 'idempotency-key-reused', { fields: ['amount'] });
    assert.deepEqual((await click(id, 'capture', { amount: 1000 })).bytes, first.bytes);
  });

  test('cannot be named by a header', async () => {
    const { id } = await paid(user, AUTHORISATION);
    const first = await click(id, 'capture');
    for (const key of ['capture', '"capture"', 'natural:capture']) {
      const answer = await user.post(`/payments/${id}/capture`, undefined, key);
      assertProblem(answer, 409, 'payment-state', { state: 'succeeded' });
      assert.notDeepEqual(answer.bytes, first.bytes);
    }
  });

  test('is not looked for in a body that is none', async () => {
    const { id } = await paid(user, AUTHORISATION);
    assertProblem(await click(id, 'capture', '{"amount":'), 400, 'bad-request');
    assertProblem(await user.pay('{"order_id":'), 400, 'bad-request');
    assert.equal((await user.payment(id)).json().status, 'requires_capture');
  });
});

/** Somebody confirms a declined PaymentIntent again, with a card that is good. */
const confirmed = (intent) =>
  site.simulator.make(`payment_intents/${intent}/confirm`, 'payment_method=pm_card_visa');

describe('an order', () => {
  const declined = { ...PAYMENT, payment_method: DECLINED_CARD };

  test('bound by its key is named to whoever uses that for another order, or for none', async () => {
    const [order, key] = [{ ...PAYMENT, order_id: freshOrder() }, freshKey()];
    const first = await user.pay(order, key);
    const others = [{ ...order, order_id: freshOrder() }, PAYMENT, { ...order, amount: 2501 }];
    for (const other of others) {
      const refused = await withoutEffect(site, () => user.pay(other, key));
      const fields = [other.order_id === order.order_id ? 'amount' : 'order_id'];
      assertProblem(refused, 422, 'idempotency-key-reused', { fields });
    }
    assert.deepEqual((await user.pay(order, key)).bytes, first.bytes);
  });

  test('that is paid is not paid again under any other key', async () => {
    const order_id = freshOrder();
    const first = await user.pay({ ...PAYMENT, order_id }, freshKey());
    assert.equal(first.status, 201, first.text);
    for (const key of [freshKey(), undefined]) {
      const again = await user.pay({ ...PAYMENT, order_id }, key);
      assertProblem(again, 409, 'payment-state', {
        state: 'succeeded',
        resource: `/payments/${first.payment}`,
      });
      assert.equal(again.header('location'), `/payments/${first.payment}`);
    }
    assert.equal((await site.simulator.moved(first.payment)).charges, 1);
  });

  test('is paid once by ten keys at once', async () => {
    const payment = { ...PAYMENT, order_id: freshOrder() };
    const answers = await Promise.all(Array.from({ length: 10 }, () => user.pay(payment, freshKey())));
    const made = answers.filter(({ status }) => status === 201);
    assert.equal(made.length, 1);
    for (const answer of answers.filter((one) => one !== made[0]))
      assertProblem(answer, 409, 'payment-state');
    assert.equal((await site.simulator.moved(made[0].payment)).charges, 1);
  });

  test('whose try failed for good may be tried again: the same payment, another key at the provider', async () => {
    const order_id = freshOrder();
    const [key, other] = [freshKey(), freshKey()];
    const first = await user.pay({ ...declined, order_id }, key);
    assertProblem(first, 402, 'payment-failed', { code: 'card_declined' });
    const second = await user.pay({ ...PAYMENT, order_id }, other);
    assert.equal(second.status, 201, second.text);
    assert.deepEqual([second.payment, second.json().attempt], [first.payment, 2]);
    assert.equal((await site.simulator.sends(`${first.payment}_auth_2`)).length, 1);
    const replayed = await user.pay({ ...declined, order_id }, key);
    assert.deepEqual(replayed.bytes, first.bytes, 'the first key says what it said');
    assert.equal((await site.simulator.moved(first.payment)).charges, 1);
  });

  test('whose try was declined is tried again only once that one is canceled at the provider', async () => {
    const order_id = freshOrder();
    const first = await user.pay({ ...declined, order_id }, freshKey());
    const [{ provider_payment: dead }] = first.json().payment.tries;
    const second = await user.pay({ ...PAYMENT, order_id }, freshKey());
    assert.equal(second.status, 201, second.text);
    const posted = (await site.simulator.requests()).filter(({ method }) => method === 'POST');
    const paths = posted.map(({ path }) => path);
    const closing = paths.lastIndexOf(`/v1/payment_intents/${dead}/cancel`);
    const [sent] = await site.simulator.sends(`${first.payment}_auth_2`);
    assert.ok(closing >= 0 && closing < posted.findLastIndex(({ id }) => id === sent.id), paths.join('\n'));
    assert.equal((await site.simulator.stripe(`payment_intents/${dead}`)).status, 'canceled');
    assert.equal((await confirmed(dead)).error.code, 'payment_intent_unexpected_state');
    assert.equal((await site.simulator.moved(first.payment)).charges, 1);
  });

  test('whose declined try was confirmed by somebody is paid by that one', async () => {
    const order_id = freshOrder();
    const first = await user.pay({ ...declined, order_id }, freshKey());
    const [{ provider_payment: dead }] = first.json().payment.tries;
    assert.equal((await confirmed(dead)).status, 'succeeded');
    const second = await user.pay({ ...PAYMENT, order_id }, freshKey());
    assert.equal(second.status, 201, second.text);
    const { status, attempt, provider_payment } = second.json();
    assert.deepEqual([status, attempt, provider_payment], ['succeeded', 1, dead]);
    assert.equal((await site.simulator.sends(`${first.payment}_auth_2`)).length, 0);
    assert.equal((await site.simulator.moved(first.payment)).captured, 2500);
  });

  test('whose declined try was confirmed, and that costs something else now, gives that money back', async () => {
    const order_id = freshOrder();
    const first = await user.pay({ ...declined, order_id }, freshKey());
    const [{ provider_payment: dead }] = first.json().payment.tries;
    await confirmed(dead);
    const second = await user.pay({ ...PAYMENT, amount: 2600, order_id }, freshKey());
    assertProblem(second, 402, 'payment-failed', { code: 'earlier_try_open' });
    await until('it is given back', async () => {
      const { tries } = (await user.ask(`/payments/${first.payment}`)).json();
      return tries[0].late_money?.status === 'given_back';
    });
    const third = await user.pay({ ...PAYMENT, amount: 2600, order_id }, freshKey());
    assert.equal(third.status, 201, third.text);
    const { captured, refunded } = await site.simulator.moved(first.payment);
    assert.deepEqual([captured - refunded, refunded], [2600, 2500]);
  });

  test('with money on an earlier try is not charged until that is given back, here or at the checkout', async () => {
    const order_id = freshOrder();
    const first = await user.pay({ ...declined, order_id }, freshKey());
    const [{ provider_payment: dead }] = first.json().payment.tries;
    const lines = [{ name: 'Enamel mug', unit_amount: 2600, quantity: 1 }];
    const { url } = (await user.post('/checkout/sessions', { order_id, currency: 'usd', lines })).json();
    const page = () => browser(site).visit(new URL(url).pathname);
    await confirmed(dead);
    await site.simulator.fault('gateway_error', { path: '/v1/refunds', count: 1000 });
    const found = await user.pay({ ...PAYMENT, amount: 2600, order_id }, freshKey());
    assertProblem(found, 402, 'payment-failed', { code: 'earlier_try_open' });

    const key = freshKey();
    const refused = await user.pay({ ...PAYMENT, amount: 2600, order_id }, key);
    assertProblem(refused, 409, 'payment-state', { state: 'giving_back' });
    assert.equal(refused.header('retry-after'), '60');
    assert.equal((await user.ask(`/idempotency-keys/${key}`)).status, 404, 'nothing is stored');
    const shown = await page();
    assert.equal(shown.status, 409);
    assert.equal(heading(shown), 'An earlier payment is being given back');
    assert.doesNotMatch(shown.text, /<form/);

    await site.simulator.calm();
    await until('it is given back', async () => {
      const { tries } = (await user.ask(`/payments/${first.payment}`)).json();
      return tries[0].late_money?.status === 'given_back';
    });
    assert.match((await page()).text, /<form/);
    const paidNow = await user.pay({ ...PAYMENT, amount: 2600, order_id }, key);
    assert.equal(paidNow.status, 201, paidNow.text);
    const { captured, refunded } = await site.simulator.moved(first.payment);
    assert.deepEqual([captured - refunded, refunded], [2600, 2500]);
  });

  test('that was declined under its own key is not asked again under it', async () => {
    const payment = { ...declined, order_id: freshOrder() };
    const first = await user.pay(payment);
    const again = await user.pay(payment);
    assert.equal(first.status, 402, first.text);
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal((await site.simulator.sends(`${first.payment}_auth`)).length, 1);
  });

  test('that was given up may be paid', async () => {
    const order_id = freshOrder();
    const reserved = await user.pay({ ...AUTHORISATION, order_id }, freshKey());
    assertProblem(await user.pay({ ...PAYMENT, order_id }, freshKey()), 409, 'payment-state', {
      state: 'requires_capture',
    });
    await moved(user, reserved.payment, 'void');
    const second = await user.pay({ ...PAYMENT, order_id }, freshKey());
    assert.deepEqual([second.status, second.payment], [201, reserved.payment]);
    assert.equal((await site.simulator.moved(second.payment)).captured, 2500);
  });

  test('with other parameters under its own key is a mismatch', async () => {
    const order_id = freshOrder();
    await user.pay({ ...PAYMENT, order_id });
    const other = await withoutEffect(site, () => user.pay({ ...PAYMENT, amount: 2501, order_id }));
    assertProblem(other, 422, 'idempotency-key-reused', { fields: ['amount'] });
  });

  test('of another account is another order', async () => {
    const payment = { ...PAYMENT, payment_method: 'pm_card_visa', order_id: freshOrder() };
    const [mine, theirs] = [await user.pay(payment), await client(site, DECLINED_USER).pay(payment)];
    assert.deepEqual([mine.status, theirs.status], [201, 201]);
    assert.notEqual(mine.payment, theirs.payment);
  });
});
