// What happens at the provider without the merchant: a reconciliation has to find it, by the same API as ever.

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import Stripe from 'stripe';

import { card, startSimulator } from './support/lone-simulator.mjs';

let lone;
let stripe;
before(async () => {
  lone = await startSimulator();
  const { hostname: host, port } = lone.origin;
  stripe = new Stripe('sk_test_any', { host, port, protocol: 'http', telemetry: false });
});
after(() => lone.close());
beforeEach(() => lone.reset());

test('a payment made elsewhere has no metadata and no key, and is in the list', async () => {
  const ours = await stripe.paymentIntents.create(card({ metadata: { resource: 'pay_1' } }), {
    idempotencyKey: 'k1',
  });
  const orphan = await lone.sim('POST', 'payments', { amount: 4200, currency: 'eur' });
  assert.deepEqual(
    [orphan.status, orphan.amount, orphan.currency, orphan.metadata],
    ['succeeded', 4200, 'eur', {}],
  );
  const listed = [];
  const since = { gte: ours.created };
  for await (const intent of stripe.paymentIntents.list({ created: since, limit: 1 })) listed.push(intent.id);
  assert.deepEqual(listed, [orphan.id, ours.id]);
  const after = await stripe.paymentIntents.list({ created: since, starting_after: orphan.id });
  assert.deepEqual(
    after.data.map(({ id }) => id),
    [ours.id],
  );
  const { charges } = await lone.sim('GET', 'ledger');
  assert.deepEqual(
    charges.map(({ payment_intent, idempotency_key }) => [payment_intent, idempotency_key]),
    [
      [ours.id, 'k1'],
      [orphan.id, null],
    ],
  );
});

test('a refund on the dashboard has no key, in part or of all that is left', async () => {
  const intent = await stripe.paymentIntents.create(card());
  const part = await lone.sim('POST', `payments/${intent.id}/refunds`, { amount: 250 });
  assert.deepEqual([part.object, part.amount, part.payment_intent], ['refund', 250, intent.id]);
  await lone.sim('POST', `payments/${intent.id}/refunds`, {});
  const { data } = await stripe.refunds.list({ payment_intent: intent.id });
  assert.deepEqual(
    data.map(({ amount, metadata }) => [amount, metadata]),
    [
      [1000, {}],
      [250, {}],
    ],
  );
  const { refunds, totals } = await lone.sim('GET', 'ledger');
  assert.deepEqual(
    refunds.map(({ idempotency_key }) => idempotency_key),
    [null, null],
  );
  assert.equal(totals.amount_refunded, 1250);
});

test("a refund on Adyen's dashboard is in the ledger and is notified", async () => {
  const { body: payment } = await lone.request('/adyen/checkout/v71/payments', {
    json: {
      amount: { value: 1000, currency: 'EUR' },
      reference: 'pay_1',
      merchantAccount: 'Shop',
      returnUrl: 'https://shop.test/back',
      paymentMethod: { type: 'scheme', storedPaymentMethodId: 'adyen_card_visa' },
    },
    headers: { 'X-API-Key': 'any' },
  });
  const one = await lone.sim('POST', `payments/${payment.pspReference}/refunds`, { amount: 300 });
  const other = await lone.sim('POST', `payments/${payment.pspReference}/refunds`, {});
  assert.notEqual(one.pspReference, other.pspReference);
  const { totals } = await lone.sim('GET', 'ledger?provider=adyen');
  assert.equal(totals.amount_refunded, 1000);
  const { notificationItems } = await lone.sim('GET', `adyen/notifications?payment=${payment.pspReference}`);
  assert.deepEqual(
    notificationItems.map(({ NotificationRequestItem: item }) => [item.eventCode, item.amount.value]),
    [
      ['AUTHORISATION', 1000],
      ['REFUND', 300],
      ['REFUND', 700],
    ],
  );
});

test('what the provider refuses changes nothing', async () => {
  const intent = await stripe.paymentIntents.create(card());
  const refuse = async (path, json, status) => {
    const answer = await lone.request(`/_sim/payments${path}`, { json });
    assert.deepEqual([answer.status, typeof answer.body.error], [status, 'string'], path);
  };
  await refuse('', { amount: 0 }, 400);
  await refuse('', { amount: 1000, metadata: {} }, 400);
  await refuse('', { amount: 1000, payment_method: 'pm_card_chargeDeclined' }, 402);
  await refuse('/pi_nowhere/refunds', {}, 404);
  await refuse(`/${intent.id}/refunds`, { amount: 9999 }, 400);
  assert.deepEqual((await lone.sim('GET', 'ledger')).totals, {
    succeeded_charges: 1,
    amount_captured: 1250,
    amount_refunded: 0,
  });
});
