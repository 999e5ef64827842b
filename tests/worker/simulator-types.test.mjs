// Every object that the simulator gives is what the official SDK's own types say: each required field is there and of its type, and none
// is there that the types do not know.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { card, startSimulator } from './support/lone-simulator.mjs';
import { eventInterface, misfits, pageMisfits } from './support/sdk-types.mjs';

const lone = await startSimulator();
const { advance } = lone;
after(lone.close);
await lone.reset();
const stripe = lone.stripe();

const pay = (payment_method, more = {}) => stripe.paymentIntents.create(card({ payment_method, ...more }));
const manual = { capture_method: 'manual' };
const notFinal = { final_capture: false };
const several = () =>
  pay('pm_card_visa', {
    ...manual,
    payment_method_options: { card: { request_multicapture: 'if_available' } },
  });
const plain = (object) => JSON.parse(JSON.stringify(object));
const fits = (object, file, name) => assert.deepEqual(misfits(plain(object), file, name), []);
const fitsPage = (page, kind, file, name) => assert.deepEqual(pageMisfits(plain(page), kind, file, name), []);

/** One of each state, and of everything that hangs on it. */
async function everything() {
  const customer = await stripe.customers.create({ email: 'ann@shop.test', metadata: { a: 'b' } });
  const succeeded = await pay('pm_card_visa', { customer: customer.id });
  const declined = await pay('pm_card_visa_chargeDeclined').then(assert.fail, (error) => error);
  const blocked = await pay('pm_card_radarBlock').then(assert.fail, (error) => error);
  const reserved = await pay('pm_card_visa', manual);
  const captured = await stripe.paymentIntents.capture((await pay('pm_card_visa', manual)).id, {
    amount_to_capture: 1000,
  });
  const canceled = await stripe.paymentIntents.cancel((await pay('pm_card_visa', manual)).id, {
    cancellation_reason: 'duplicate',
  });
  const pending = await stripe.refunds.create({ payment_intent: (await pay('pm_card_pendingRefund')).id });
  const failing = await stripe.refunds.create({ payment_intent: (await pay('pm_card_refundFail')).id });
  const intents = {
    succeeded,
    declined: declined.payment_intent,
    blocked: blocked.payment_intent,
    reserved,
    captured,
    canceled,
    taken: await stripe.paymentIntents.capture((await several()).id, { amount_to_capture: 7, ...notFinal }),
    undecided: await stripe.paymentIntents.capture((await pay('pm_card_captureProcessing', manual)).id),
    open: await stripe.paymentIntents.create({ amount: 1250, currency: 'usd' }),
    processing: await pay('pm_card_processing'),
    redirected: await pay('pm_card_threeDSecure2Required', { return_url: 'https://shop.test/back' }),
    asked: await pay('pm_card_threeDSecure2Required'),
  };
  for (const statuses of [
    ['warning_needs_response'],
    ['needs_response', 'won'],
    ['needs_response', 'lost'],
  ]) {
    const { id } = await pay('pm_card_visa', { capture_method: 'automatic' });
    for (const status of statuses) await lone.sim('POST', `payments/${id}/disputes`, { status });
  }
  const { next_action } = await pay('pm_card_threeDSecure2Required', {
    return_url: 'https://shop.test/back',
  });
  await fetch(`${next_action.redirect_to_url.url}/accept`, { method: 'POST', redirect: 'manual' });
  await stripe.customers.update(customer.id, { name: 'Ann' });
  const gone = await stripe.customers.create({});
  const deleted = await stripe.customers.del(gone.id);
  await advance(120_000);
  return { customer, deleted, declined, intents, pending, failing };
}

const { customer, deleted, declined, intents, pending, failing } = await everything();

describe('the SDK’s types', () => {
  for (const [state, intent] of Object.entries(intents)) {
    test(`a PaymentIntent that is ${state}`, async () => {
      fits(intent, 'PaymentIntents', 'PaymentIntent');
      const expand = ['customer', 'latest_charge', 'payment_method'];
      fits(await stripe.paymentIntents.retrieve(intent.id, { expand }), 'PaymentIntents', 'PaymentIntent');
    });
  }

  test('every charge', async () => {
    const page = await stripe.charges.list({ limit: 100 });
    assert.ok(page.data.length >= 8);
    fitsPage(page, 'ApiList', 'Charges', 'Charge');
    fits(
      await stripe.charges.update(page.data[0].id, { metadata: { a: 'b' }, description: 'x' }),
      'Charges',
      'Charge',
    );
  });

  test('every refund: pending, succeeded, failed, asked for, canceled', async () => {
    fits(pending, 'Refunds', 'Refund');
    fits(failing, 'Refunds', 'Refund');
    const page = await stripe.refunds.list();
    assert.deepEqual(page.data.map((refund) => refund.status).sort(), ['failed', 'succeeded']);
    fitsPage(page, 'ApiList', 'Refunds', 'Refund');
    fits(await stripe.refunds.update(pending.id, { metadata: { a: 'b' } }), 'Refunds', 'Refund');
    const asked = await stripe.refunds.create({ payment_intent: (await pay('pm_card_pendingRefund')).id });
    await lone.request(`/_sim/refunds/${asked.id}/ask`, { json: {} });
    fits(await stripe.refunds.retrieve(asked.id), 'Refunds', 'Refund');
    fits(await stripe.refunds.cancel(asked.id), 'Refunds', 'Refund');
  });

  test('every movement of the balance, and the balance', async () => {
    // What it comes from can be of types that the reader of the types does not follow.
    const fitsBut = ({ source, ...movement }) => {
      assert.equal(typeof source, 'string');
      const found = misfits(plain(movement), 'BalanceTransactions', 'BalanceTransaction');
      assert.deepEqual(found, ['BalanceTransaction.source: missing']);
    };
    const { data } = await stripe.balanceTransactions.list({ limit: 100 });
    assert.deepEqual(
      new Set(data.map((movement) => movement.type)),
      new Set(['adjustment', 'charge', 'refund', 'refund_failure']),
    );
    data.forEach(fitsBut);
    const euros = await pay('pm_card_visa', { currency: 'eur', capture_method: 'automatic' });
    const { latest_charge: charge } = await stripe.paymentIntents.retrieve(euros.id, {
      expand: ['latest_charge.balance_transaction'],
    });
    fitsBut(charge.balance_transaction);
    assert.equal(charge.balance_transaction.exchange_rate, 1.08);
    fits(await stripe.balance.retrieve(), 'Balance', 'Balance');
  });

  test('every dispute: an inquiry, won, lost', async () => {
    const page = await stripe.disputes.list();
    // What moved is checked above, and its source is of types that the reader does not follow.
    const disputes = page.data.map((dispute) => ({ ...dispute, balance_transactions: [] }));
    assert.deepEqual(
      disputes.map(({ status }) => status),
      ['lost', 'won', 'warning_needs_response'],
    );
    for (const dispute of disputes) fits(dispute, 'Disputes', 'Dispute');
  });

  test('customers, deleted ones too', async () => {
    fits(customer, 'Customers', 'Customer');
    fits(deleted, 'Customers', 'DeletedCustomer');
    fits(await stripe.customers.retrieve(deleted.id), 'Customers', 'DeletedCustomer');
    fitsPage(await stripe.customers.list(), 'ApiList', 'Customers', 'Customer');
    const query = "email:'ann@shop.test'";
    fitsPage(await stripe.customers.search({ query }), 'ApiSearchResult', 'Customers', 'Customer');
  });

  test('payment methods, and the account', async () => {
    const made = await stripe.paymentMethods.create({ type: 'card', card: { token: 'tok_visa' } });
    fits(made, 'PaymentMethods', 'PaymentMethod');
    fits(await stripe.paymentMethods.retrieve('pm_card_amex'), 'PaymentMethods', 'PaymentMethod');
    fits(await stripe.accounts.retrieveCurrent(), 'Accounts', 'Account');
  });

  test('lists and searches of PaymentIntents', async () => {
    fitsPage(await stripe.paymentIntents.list({ limit: 2 }), 'ApiList', 'PaymentIntents', 'PaymentIntent');
    const found = await stripe.paymentIntents.search({ query: "status:'succeeded'", limit: 1 });
    assert.equal(found.has_more, true);
    fitsPage(found, 'ApiSearchResult', 'PaymentIntents', 'PaymentIntent');
  });

  test('each event by the interface of its own type', async () => {
    const events = await stripe.events.list({ limit: 100 }).autoPagingToArray({ limit: 1000 });
    const types = new Set(events.map((event) => event.type));
    assert.ok(types.size >= 18, [...types].join(' '));
    for (const event of events) {
      if (event.data.object.balance_transactions) event.data.object.balance_transactions = [];
      fits(event, 'Events', eventInterface(event.type));
    }
  });

  test('what a declined payment’s error carries', () => {
    fits(declined.payment_method, 'PaymentMethods', 'PaymentMethod');
    fits(declined.payment_intent.last_payment_error.payment_method, 'PaymentMethods', 'PaymentMethod');
  });

  test('what is missing, of another type or unknown is found', () => {
    const intent = plain(intents.succeeded);
    const of = (more) => misfits({ ...intent, ...more }, 'PaymentIntents', 'PaymentIntent');
    assert.deepEqual(of({}), []);
    assert.match(of({ amount: '1250' })[0], /amount/);
    assert.match(of({ livemode: null })[0], /livemode/);
    assert.match(of({ status: undefined })[0], /status: missing/);
    assert.match(of({ payment_method_types: 'card' })[0], /payment_method_types/);
    assert.match(of({ metadata: { a: 1 } })[0], /metadata\.a/);
    assert.match(of({ last_payment_error: { type: 7 } })[0], /last_payment_error\.type/);
    assert.match(of({ nonsense: 1 })[0], /nonsense: unknown/);
  });
});
