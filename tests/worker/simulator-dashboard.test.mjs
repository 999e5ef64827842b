// What happens at the provider without the merchant: a reconciliation has to find it, by the same API as ever.

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import Stripe from 'stripe';

import { API_VERSION, HOUR_MS, card, shareSimulator } from './support/lone-simulator.mjs';

let lone;
let stripe;
before(async () => {
  lone = await shareSimulator();
  const { hostname: host, port } = lone.origin;
  stripe = new Stripe('sk_test_any', {
    host,
    port,
    protocol: 'http',
    telemetry: false,
    apiVersion: API_VERSION,
  });
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

test('a capture on the dashboard takes a part, once of several times, or more than is reserved', async () => {
  const manual = card({ capture_method: 'manual' });
  const stands = ({ status, amount_received, amount_capturable }) => [
    status,
    amount_received,
    amount_capturable,
  ];
  const [part, several, over] = await Promise.all([1, 2, 3].map(() => stripe.paymentIntents.create(manual)));
  const capture = async ({ id }, order) => stands(await lone.sim('POST', `payments/${id}/captures`, order));
  assert.deepEqual(await capture(part, { amount: 400 }), ['succeeded', 400, 0]);
  assert.deepEqual(await capture(several, { amount: 400, final: false }), ['requires_capture', 400, 850]);
  assert.deepEqual(await capture(several, { amount: 500, final: false }), ['requires_capture', 900, 350]);
  assert.deepEqual(await capture(over, { amount: 1500 }), ['succeeded', 1500, 0]);
  await stripe.refunds.create({ payment_intent: several.id, amount: 900 });
  await lone.advance(7 * 24 * HOUR_MS);
  assert.deepEqual(stands(await stripe.paymentIntents.retrieve(several.id)), ['succeeded', 900, 0]);
  const { totals } = await lone.sim('GET', 'ledger');
  assert.deepEqual([totals.amount_captured, totals.amount_refunded], [2800, 900]);
  const moved = await stripe.balanceTransactions.list({ type: 'charge' });
  assert.deepEqual(moved.data.map(({ amount }) => amount).sort(), [1500, 400, 400, 500].sort());
});

test('a reservation lapses now, or is canceled by a person', async () => {
  const intent = await stripe.paymentIntents.create(card({ capture_method: 'manual' }));
  const lapsed = await lone.sim('POST', `payments/${intent.id}/expire`, {});
  assert.deepEqual([lapsed.status, lapsed.cancellation_reason], ['canceled', 'expired']);
  const other = await stripe.paymentIntents.create(card({ capture_method: 'manual' }));
  assert.equal((await lone.sim('POST', `payments/${other.id}/cancel`, {})).cancellation_reason, null);
  const { data } = await stripe.events.list({ types: ['charge.expired', 'payment_intent.canceled'] });
  assert.deepEqual(
    data.map(({ type }) => type),
    ['payment_intent.canceled', 'payment_intent.canceled', 'charge.expired'],
  );
});

test('a capture one second after the end is refused', async () => {
  const held = () => stripe.paymentIntents.create(card({ capture_method: 'manual', off_session: true }));
  const [inTime, late] = [await held(), await held()];
  const { created } = await stripe.charges.retrieve(late.latest_charge);
  const advanceTo = async (at_s) => {
    const { now_ms } = await lone.sim('GET', 'clock');
    await lone.advance(at_s * 1000 - now_ms);
  };
  const end_s = created + 114 * 3600;
  await advanceTo(end_s - 60);
  assert.equal((await stripe.paymentIntents.capture(inTime.id)).status, 'succeeded');
  await advanceTo(end_s + 1);
  const refused = await stripe.paymentIntents.capture(late.id).catch((error) => error);
  assert.deepEqual([refused.statusCode, refused.payment_intent.status], [400, 'canceled']);
});

test('a dispute withdraws its amount, which comes back when it is won', async () => {
  const intent = await stripe.paymentIntents.create(card({ capture_method: 'automatic' }));
  const dispute = (order) => lone.sim('POST', `payments/${intent.id}/disputes`, order);
  const opened = await dispute({ amount: 1000 });
  assert.deepEqual(
    [opened.object, opened.amount, opened.status, opened.charge, opened.is_charge_refundable],
    ['dispute', 1000, 'needs_response', intent.latest_charge, false],
  );
  assert.equal((await stripe.paymentIntents.retrieve(intent.id)).status, 'succeeded');
  assert.equal((await stripe.charges.retrieve(intent.latest_charge)).disputed, true);
  const refused = await stripe.refunds.create({ payment_intent: intent.id }).catch((error) => error);
  assert.deepEqual([refused.statusCode, refused.code], [400, 'charge_disputed']);
  assert.equal((await lone.sim('GET', 'ledger')).charges[0].amount_charged_back, 1000);
  await dispute({ status: 'under_review' });
  await dispute({ status: 'won' });
  assert.equal((await lone.sim('GET', 'ledger')).charges[0].amount_charged_back, 0);
  const { data } = await stripe.disputes.list({ payment_intent: intent.id });
  assert.deepEqual(
    data.map(({ id, status }) => [id, status]),
    [[opened.id, 'won']],
  );
  assert.deepEqual(
    data[0].balance_transactions.map(({ amount, type, reporting_category }) => [
      amount,
      type,
      reporting_category,
    ]),
    [
      [-1000, 'adjustment', 'dispute'],
      [1000, 'adjustment', 'dispute_reversal'],
    ],
  );
  const events = await stripe.events.list({ limit: 6 });
  assert.deepEqual(events.data.map(({ type }) => type.replace('charge.dispute.', '')).reverse(), [
    'created',
    'funds_withdrawn',
    'updated',
    'updated',
    'closed',
    'funds_reinstated',
  ]);
  assert.equal((await stripe.refunds.create({ payment_intent: intent.id })).status, 'succeeded');
});

test('a lost dispute keeps the money, an inquiry moves none and ends with a refund', async () => {
  const lost = await stripe.paymentIntents.create(card({ capture_method: 'automatic' }));
  const { id } = await lone.sim('POST', `payments/${lost.id}/disputes`, {});
  assert.equal((await stripe.disputes.close(id)).status, 'lost');
  const refused = await stripe.refunds.create({ payment_intent: lost.id }).catch((error) => error);
  assert.equal(refused.code, 'charge_disputed');
  const partly = await stripe.paymentIntents.create(card({ capture_method: 'automatic' }));
  await lone.sim('POST', `payments/${partly.id}/disputes`, {});
  const won = await lone.sim('POST', `payments/${partly.id}/disputes`, { status: 'lost', reinstated: 400 });
  assert.deepEqual(
    [won.status, won.amount, won.balance_transactions.map(({ amount }) => amount)],
    ['lost', 1250, [-1250, 400]],
  );
  const asked = await stripe.paymentIntents.create(card({ capture_method: 'automatic' }));
  const inquiry = await lone.sim('POST', `payments/${asked.id}/disputes`, {
    status: 'warning_needs_response',
  });
  assert.deepEqual([inquiry.is_charge_refundable, inquiry.balance_transactions], [true, []]);
  await stripe.refunds.create({ payment_intent: asked.id });
  assert.equal((await stripe.disputes.retrieve(inquiry.id)).status, 'warning_closed');
  const escalates = await stripe.paymentIntents.create(card({ capture_method: 'automatic' }));
  await lone.sim('POST', `payments/${escalates.id}/disputes`, { status: 'warning_needs_response' });
  const escalated = await lone.sim('POST', `payments/${escalates.id}/disputes`, {});
  assert.equal(escalated.balance_transactions[0].amount, -1250);
  const { charges } = await lone.sim('GET', 'ledger');
  assert.deepEqual(
    charges.map(({ amount_charged_back }) => amount_charged_back),
    [1250, 850, 0, 1250],
  );
});

test('a dispute can be told before its money is withdrawn, be one of several, and be won when it was lost', async () => {
  const intent = await stripe.paymentIntents.create(card({ capture_method: 'automatic' }));
  const dispute = (order) => lone.sim('POST', `payments/${intent.id}/disputes`, order);
  const first = await dispute({ amount: 1000, withdrawn_after_ms: 60_000 });
  assert.deepEqual([first.balance_transactions, first.network_reason_code], [[], '10.4']);
  await lone.advance(60_000);
  const withdrawn = await stripe.disputes.retrieve(first.id);
  assert.deepEqual(
    withdrawn.balance_transactions.map(({ amount }) => amount),
    [-1000],
  );
  const second = await dispute({ amount: 2000, another: true, reason: 'duplicate', status: 'lost' });
  assert.equal((await lone.sim('GET', 'ledger')).charges[0].amount_charged_back, 3000);
  await dispute({ dispute: first.id, status: 'lost' });
  await dispute({ dispute: first.id, status: 'won' });
  await dispute({ another: true, amount: 500, status: 'prevented' });
  const { data } = await stripe.disputes.list({ payment_intent: intent.id });
  assert.deepEqual(data.map(({ id, status }) => [id, status]).slice(1), [
    [second.id, 'lost'],
    [first.id, 'won'],
  ]);
  assert.deepEqual([data[0].status, data[0].balance_transactions], ['prevented', []]);
  const events = await stripe.events.list({ limit: 11 });
  const late = events.data.filter(({ data: told }) => told.object.id === first.id).slice(0, 2);
  assert.deepEqual(
    late.map(({ type, data: told }) => [type, told.previous_attributes?.status]),
    [
      ['charge.dispute.funds_reinstated', undefined],
      ['charge.dispute.updated', 'lost'],
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
  await refuse(`/${intent.id}/captures`, {}, 409);
  await refuse(`/${intent.id}/expire`, {}, 409);
  await refuse(`/${intent.id}/nonsense`, {}, 404);
  await refuse(`/${intent.id}/disputes`, { amount: 0 }, 409);
  await refuse(`/${intent.id}/disputes`, { status: 'won' }, 409);
  await refuse(`/${intent.id}/disputes`, { status: 'nonsense' }, 400);
  await refuse(`/${intent.id}/disputes`, { reinstated: 1 }, 409);
  assert.deepEqual((await lone.sim('GET', 'ledger')).totals, {
    succeeded_charges: 1,
    amount_captured: 1250,
    amount_refunded: 0,
  });
});
