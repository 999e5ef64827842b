// PaymentIntents of the embedded Stripe simulator, by the official `stripe` package, unchanged: what a payment can become, and what it refuses.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import Stripe from 'stripe';

import { HOUR_MS, caller, card, rejected, shareSimulator } from './support/lone-simulator.mjs';

const lone = await shareSimulator({ beside: [caller] });
const { origin, sim, ledger, advance } = lone;
after(lone.close);
beforeEach(lone.reset);
const stripe = lone.stripe();

const pay = (more, options) => stripe.paymentIntents.create(card(more), options);

describe('payment intents', () => {
  test('are paid in one call, and found again', async () => {
    const intent = await pay({ metadata: { ride_id: 'ride_1' }, description: 'A ride' });
    assert.equal(intent.status, 'succeeded');
    assert.equal(intent.amount_received, 1250);
    assert.equal(intent.client_secret.startsWith(`${intent.id}_secret_`), true);
    const found = await stripe.paymentIntents.retrieve(intent.id, {
      expand: ['latest_charge', 'payment_method'],
    });
    assert.equal(found.latest_charge.amount_captured, 1250);
    assert.equal(found.latest_charge.metadata.ride_id, 'ride_1');
    assert.equal(found.payment_method.card.last4, '4242');
    assert.equal((await sim('GET', 'ledger?metadata[ride_id]=ride_1')).charges.length, 1);
    assert.equal((await sim('GET', 'ledger?metadata[ride_id]=ride_2')).charges.length, 0);
  });

  // Where Stripe gives no decline code, the SDK makes it an empty text.
  for (const [method, code, declineCode] of [
    ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_visa_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_visa_chargeDeclinedLostCard', 'card_declined', 'lost_card'],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', ''],
    ['pm_card_chargeDeclinedIncorrectCvc', 'incorrect_cvc', ''],
    ['pm_card_chargeDeclinedProcessingError', 'processing_error', ''],
  ]) {
    test(`${method} is declined, and the payment intent persists`, async () => {
      const error = await rejected(pay({ payment_method: method }));
      assert.ok(error instanceof Stripe.errors.StripeCardError);
      assert.deepEqual([error.statusCode, error.code, error.decline_code], [402, code, declineCode]);
      const intent = await stripe.paymentIntents.retrieve(error.payment_intent.id);
      assert.equal(intent.status, 'requires_payment_method');
      assert.equal(intent.last_payment_error.code, code);
      const paid = await stripe.paymentIntents.confirm(intent.id, { payment_method: 'pm_card_mastercard' });
      assert.equal(paid.status, 'succeeded');
      assert.equal(paid.last_payment_error, null);
      assert.deepEqual(
        (await ledger()).charges.map((charge) => charge.status),
        ['failed', 'succeeded'],
      );
    });
  }

  for (const [decision, card3ds, status, redirect] of [
    ['accept', 'pm_card_authenticationRequired', 'succeeded', 'succeeded'],
    ['fail', 'pm_card_threeDSecure2Required', 'requires_payment_method', 'failed'],
    ['accept', 'pm_card_threeDSecureRequiredChargeDeclined', 'requires_payment_method', 'failed'],
  ]) {
    test(`3-D Secure: ${decision} with ${card3ds} ends in ${status}`, async () => {
      const intent = await pay({ payment_method: card3ds, return_url: 'https://shop.test/back?order=7' });
      assert.equal(intent.status, 'requires_action');
      assert.equal(intent.next_action.redirect_to_url.return_url, 'https://shop.test/back?order=7');
      const page = intent.next_action.redirect_to_url.url;
      assert.equal(new URL(page).origin, origin.origin);
      assert.match(await (await fetch(page)).text(), /Complete authentication/);
      assert.equal((await ledger()).charges.length, 0);
      const back = await fetch(`${page}/${decision}`, { method: 'POST', redirect: 'manual' });
      assert.equal(back.status, 303);
      const location = new URL(back.headers.get('location'));
      assert.equal(location.searchParams.get('order'), '7');
      assert.equal(location.searchParams.get('payment_intent'), intent.id);
      assert.equal(location.searchParams.get('payment_intent_client_secret'), intent.client_secret);
      assert.equal(location.searchParams.get('redirect_status'), redirect);
      assert.equal((await stripe.paymentIntents.retrieve(intent.id)).status, status);
      const again = await fetch(`${page}/accept`, { method: 'POST', redirect: 'manual' });
      assert.equal(again.status, 200);
      assert.ok((await ledger()).totals.succeeded_charges <= 1);
    });
  }

  test('with manual confirmation the page charges nothing, the server does', async () => {
    const intent = await pay({
      confirmation_method: 'manual',
      payment_method: 'pm_card_threeDSecure2Required',
      return_url: 'https://shop.test/back',
    });
    await fetch(`${intent.next_action.redirect_to_url.url}/accept`, { method: 'POST', redirect: 'manual' });
    assert.equal((await stripe.paymentIntents.retrieve(intent.id)).status, 'requires_confirmation');
    assert.equal((await ledger()).charges.length, 0);
    assert.equal((await stripe.paymentIntents.confirm(intent.id)).status, 'succeeded');
    assert.equal((await ledger()).totals.succeeded_charges, 1);
  });

  test('error_on_requires_action turns 3-D Secure into a 402, without a charge', async () => {
    const error = await rejected(
      pay({ payment_method: 'pm_card_authenticationRequired', error_on_requires_action: true }),
    );
    assert.ok(error instanceof Stripe.errors.StripeCardError);
    assert.equal(error.code, 'authentication_required');
    assert.equal(error.payment_intent.status, 'requires_payment_method');
    assert.equal((await ledger()).charges.length, 0);
  });

  test('a reserved amount is captured once, in part if wished, and never above what is reserved', async () => {
    const intent = await pay({ capture_method: 'manual' });
    assert.deepEqual([intent.status, intent.amount_capturable], ['requires_capture', 1250]);
    const tooMuch = await rejected(stripe.paymentIntents.capture(intent.id, { amount_to_capture: 1251 }));
    assert.deepEqual(
      [tooMuch.statusCode, tooMuch.code, tooMuch.payment_intent.id],
      [400, 'amount_too_large', intent.id],
    );
    const nothing = await rejected(stripe.paymentIntents.capture(intent.id, { amount_to_capture: 0 }));
    assert.deepEqual([nothing.code, nothing.payment_intent.id], ['parameter_invalid_integer', intent.id]);
    const captured = await stripe.paymentIntents.capture(intent.id, { amount_to_capture: 1000 });
    assert.deepEqual(
      [captured.status, captured.amount, captured.amount_received, captured.amount_capturable],
      ['succeeded', 1250, 1000, 0],
    );
    const twice = await rejected(stripe.paymentIntents.capture(intent.id));
    assert.ok(twice instanceof Stripe.errors.StripeInvalidRequestError);
    assert.deepEqual(
      [twice.code, twice.payment_intent.status],
      ['payment_intent_unexpected_state', 'succeeded'],
    );
    assert.equal((await ledger()).totals.amount_captured, 1000);
  });

  test('a reserved amount is captured in several parts where that was asked for', async () => {
    const options = { card: { request_multicapture: 'if_available' } };
    const intent = await pay({ amount: 1000, capture_method: 'manual', payment_method_options: options });
    const charge = () => stripe.charges.retrieve(intent.latest_charge);
    const { status } = (await charge()).payment_method_details.card.multicapture;
    assert.equal(status, 'available');
    const capture = async (amount_to_capture, final_capture) => {
      const after = await stripe.paymentIntents.capture(intent.id, { amount_to_capture, final_capture });
      return [after.status, after.amount_received, after.amount_capturable, (await charge()).captured];
    };
    assert.deepEqual(await capture(700, false), ['requires_capture', 700, 300, false]);
    assert.equal((await stripe.refunds.create({ payment_intent: intent.id, amount: 700 })).amount, 700);
    assert.equal((await charge()).refunded, false);
    assert.deepEqual(await capture(200), ['succeeded', 900, 0, true]);
    const last = await charge();
    assert.deepEqual([last.amount_captured, last.amount_refunded, last.refunded], [900, 700, false]);
    const { data } = await stripe.balanceTransactions.list({ source: last.id });
    assert.deepEqual([data.length, data[0].id], [2, last.balance_transaction]);
    const once = await pay({ capture_method: 'manual' });
    const error = await rejected(stripe.paymentIntents.capture(once.id, { final_capture: false }));
    assert.deepEqual([error.statusCode, error.param], [400, 'final_capture']);
  });

  test('a capture may be processing for a minute, and cannot be canceled meanwhile', async () => {
    const held = { capture_method: 'manual', payment_method: 'pm_card_captureProcessing' };
    const intent = await pay(held);
    const captured = await stripe.paymentIntents.capture(intent.id);
    assert.deepEqual([captured.status, captured.amount_received], ['processing', 0]);
    const error = await rejected(stripe.paymentIntents.cancel(intent.id));
    assert.deepEqual([error.statusCode, error.code], [400, 'payment_intent_unexpected_state']);
    const refused = await pay({ ...held, payment_method: 'pm_card_captureProcessingDeclined' });
    assert.equal((await stripe.paymentIntents.capture(refused.id)).status, 'processing');
    await advance(60_000);
    assert.equal((await stripe.paymentIntents.retrieve(intent.id)).status, 'succeeded');
    const { status, payment_method } = await stripe.paymentIntents.retrieve(refused.id);
    assert.deepEqual([status, payment_method], ['requires_payment_method', null]);
    assert.equal((await ledger()).totals.amount_captured, 1250);
  });

  test('a reserved amount lapses after seven days, of a Visa without its holder after less', async () => {
    const manual = { capture_method: 'manual', expand: ['latest_charge'] };
    const intent = await pay(manual);
    const lastsH = ({ latest_charge: charge }) =>
      (charge.payment_method_details.card.capture_before - charge.created) / 3600;
    assert.equal(lastsH(intent), 7 * 24);
    assert.equal(lastsH(await pay({ ...manual, off_session: true })), 4 * 24 + 18);
    const other = { ...manual, off_session: true, payment_method: 'pm_card_mastercard' };
    assert.equal(lastsH(await pay(other)), 7 * 24);
    assert.ok(!('capture_before' in (await pay({ expand: ['latest_charge'] })).latest_charge));
    await advance(7 * 24 * HOUR_MS);
    const error = await rejected(stripe.paymentIntents.capture(intent.id));
    assert.equal(error.code, 'payment_intent_unexpected_state');
    assert.equal((await stripe.paymentIntents.retrieve(intent.id)).cancellation_reason, 'expired');
    const before = { apiVersion: '2025-02-24.acacia' };
    const old = await stripe.paymentIntents.retrieve(intent.id, {}, before);
    assert.equal(old.cancellation_reason, 'automatic');
  });

  test('are cancelled from every state but succeeded and canceled', async () => {
    const reserved = await pay({ capture_method: 'manual' });
    const canceled = await stripe.paymentIntents.cancel(reserved.id, { cancellation_reason: 'duplicate' });
    assert.deepEqual(
      [canceled.status, canceled.cancellation_reason, canceled.amount_capturable],
      ['canceled', 'duplicate', 0],
    );
    assert.equal(
      (await rejected(stripe.paymentIntents.cancel(reserved.id))).code,
      'payment_intent_unexpected_state',
    );
    const paid = await pay();
    assert.equal((await rejected(stripe.paymentIntents.cancel(paid.id))).payment_intent.status, 'succeeded');
    assert.equal(
      (await rejected(stripe.paymentIntents.confirm(paid.id))).code,
      'payment_intent_unexpected_state',
    );
    const open = await stripe.paymentIntents.create({ amount: 500, currency: 'eur' });
    assert.equal((await stripe.paymentIntents.cancel(open.id)).status, 'canceled');
    const asked = await pay({
      payment_method: 'pm_card_authenticationRequired',
      return_url: 'https://a.test/',
    });
    const given = await stripe.paymentIntents.cancel(asked.id);
    assert.deepEqual([given.status, given.next_action], ['canceled', null]);
    const page = await fetch(`${asked.next_action.redirect_to_url.url}/accept`, { method: 'POST' });
    assert.match(await page.text(), /Nothing to do: this payment is canceled/);
    const undecided = await pay({ payment_method: 'pm_card_processing' });
    assert.equal((await stripe.paymentIntents.cancel(undecided.id)).status, 'canceled');
    await advance(60_000);
    assert.equal((await stripe.paymentIntents.retrieve(undecided.id)).status, 'canceled');
    const { charges } = await ledger();
    assert.deepEqual(
      charges.map((charge) => [charge.status, charge.voided]),
      [
        ['succeeded', true],
        ['succeeded', false],
        ['failed', false],
      ],
    );
  });

  test('may be processing for a minute, and then succeed', async () => {
    const intent = await pay({ payment_method: 'pm_card_processing' });
    assert.deepEqual([intent.status, intent.amount_received], ['processing', 0]);
    assert.equal((await stripe.charges.retrieve(intent.latest_charge)).status, 'pending');
    assert.equal((await ledger()).totals.succeeded_charges, 0);
    for (const what of ['capture', 'confirm']) {
      // One after the other: a rejection that nobody waits for yet fails the test.
      const error = await rejected(stripe.paymentIntents[what](intent.id));
      assert.deepEqual(
        [error.code, error.payment_intent.status],
        ['payment_intent_unexpected_state', 'processing'],
      );
    }
    await advance(59_000);
    assert.equal((await stripe.paymentIntents.retrieve(intent.id)).status, 'processing');
    await advance(1_000);
    const paid = await stripe.paymentIntents.retrieve(intent.id);
    assert.deepEqual([paid.status, paid.amount_received, paid.processing], ['succeeded', 1250, null]);
    assert.equal((await stripe.refunds.create({ payment_intent: intent.id })).status, 'succeeded');
    const { totals } = await ledger();
    assert.deepEqual([totals.succeeded_charges, totals.amount_captured], [1, 1250]);
  });

  test('may be processing for a minute, and then fail, and be paid with another card', async () => {
    const intent = await pay({ payment_method: 'pm_card_processingDeclined' });
    assert.equal(intent.status, 'processing');
    await advance(60_000);
    const failed = await stripe.paymentIntents.retrieve(intent.id);
    assert.deepEqual(
      [failed.status, failed.payment_method, failed.last_payment_error.decline_code],
      ['requires_payment_method', null, 'insufficient_funds'],
    );
    assert.equal((await stripe.charges.retrieve(failed.latest_charge)).status, 'failed');
    const paid = await stripe.paymentIntents.confirm(intent.id, { payment_method: 'pm_card_visa' });
    assert.equal(paid.status, 'succeeded');
    assert.equal((await ledger()).totals.succeeded_charges, 1);
    const { data } = await stripe.events.list({
      types: ['payment_intent.processing', 'payment_intent.payment_failed', 'payment_intent.succeeded'],
    });
    assert.deepEqual(
      data.map((event) => event.type),
      ['payment_intent.succeeded', 'payment_intent.payment_failed', 'payment_intent.processing'],
    );
  });

  test('that were processing are reserved for their own seven days', async () => {
    const intent = await pay({ payment_method: 'pm_card_processing', capture_method: 'manual' });
    await advance(60_000);
    assert.equal((await stripe.paymentIntents.retrieve(intent.id)).status, 'requires_capture');
    assert.equal((await stripe.paymentIntents.capture(intent.id)).status, 'succeeded');
  });

  test('names no methods in a newer version of the API, and says which may be taken', async () => {
    const newer = { apiVersion: '2026-10-28.endive' };
    const error = await rejected(stripe.paymentIntents.create(card(), newer));
    assert.deepEqual(
      [error.statusCode, error.code, error.param],
      [400, 'payment_method_types_no_longer_supported', 'payment_method_types'],
    );
    const allowed = {
      ...card({ payment_method_types: undefined }),
      allowed_payment_method_types: ['card', 'ideal'],
    };
    const intent = await stripe.paymentIntents.create(allowed, newer);
    assert.deepEqual([intent.status, intent.payment_method_types], ['succeeded', ['card']]);
    const both = await rejected(stripe.paymentIntents.create({ ...allowed, payment_method_types: ['card'] }));
    assert.match(both.message, /only specify one of/);
    assert.equal((await ledger()).charges.length, 1);
  });

  test('automatic methods need somewhere to come back to', async () => {
    const automatic = card({ payment_method_types: undefined });
    const error = await rejected(stripe.paymentIntents.create(automatic));
    assert.match(error.message, /return_url/);
    const never = { ...automatic, automatic_payment_methods: { enabled: true, allow_redirects: 'never' } };
    assert.equal((await stripe.paymentIntents.create(never)).status, 'succeeded');
    assert.equal(
      (await stripe.paymentIntents.create({ ...automatic, return_url: 'https://a.test/' })).status,
      'succeeded',
    );
    assert.equal((await ledger()).charges.length, 2);
  });

  test('are listed newest first, by page, customer and time', async () => {
    const customer = await stripe.customers.create({ email: 'jenny@example.com' });
    const ids = [];
    for (let n = 0; n < 5; n += 1) {
      ids.unshift((await pay(n === 2 ? { customer: customer.id } : {})).id);
      await advance(2000);
    }
    const first = await stripe.paymentIntents.list({ limit: 2 });
    assert.deepEqual([first.data.map((intent) => intent.id), first.has_more], [ids.slice(0, 2), true]);
    const next = await stripe.paymentIntents.list({ limit: 3, starting_after: ids[1] });
    assert.deepEqual([next.data.map((intent) => intent.id), next.has_more], [ids.slice(2), false]);
    const previous = await stripe.paymentIntents.list({ limit: 1, ending_before: ids[2] });
    assert.deepEqual([previous.data.map((intent) => intent.id), previous.has_more], [[ids[1]], true]);
    const all = await stripe.paymentIntents.list({ limit: 2 }).autoPagingToArray({ limit: 100 });
    assert.deepEqual(
      all.map((intent) => intent.id),
      ids,
    );
    const middle = all[2];
    assert.deepEqual(
      (await stripe.paymentIntents.list({ customer: customer.id })).data.map((intent) => intent.id),
      [middle.id],
    );
    assert.equal((await stripe.paymentIntents.list({ created: { gte: middle.created } })).data.length, 3);
    assert.equal((await stripe.paymentIntents.list({ created: { gt: middle.created } })).data.length, 2);
    assert.equal((await stripe.paymentIntents.list({ created: { lt: middle.created } })).data.length, 2);
    assert.equal(
      (await stripe.paymentIntents.list({ created: { gte: middle.created, lte: middle.created } })).data
        .length,
      1,
    );
  });

  test('are found by metadata only after a minute', async () => {
    const intent = await pay({ metadata: { order: 'o-1' } });
    const query = `metadata['order']:'o-1'`;
    assert.deepEqual((await stripe.paymentIntents.search({ query })).data, []);
    await advance(60_000);
    const found = await stripe.paymentIntents.search({ query: `${query} AND status:"succeeded"` });
    assert.deepEqual(
      [found.object, found.data.map(({ id }) => id), found.has_more],
      ['search_result', [intent.id], false],
    );
    assert.deepEqual((await stripe.paymentIntents.search({ query: `metadata['order']:'o-2'` })).data, []);
    assert.equal((await rejected(stripe.paymentIntents.search({ query: 'nonsense' }))).statusCode, 400);
  });

  test('keep a list of what happened', async () => {
    const intent = await pay({ capture_method: 'manual' });
    await stripe.paymentIntents.capture(intent.id);
    const events = await stripe.events.list({ limit: 100 });
    assert.deepEqual(
      events.data.map((event) => event.type),
      [
        'payment_intent.succeeded',
        'payment_intent.amount_capturable_updated',
        'charge.captured',
        'charge.updated',
        'payment_intent.amount_capturable_updated',
        'charge.succeeded',
        'payment_intent.created',
      ],
    );
    const succeeded = await stripe.events.list({ type: 'payment_intent.succeeded' });
    assert.deepEqual([succeeded.data.length, succeeded.data[0].data.object.id], [1, intent.id]);
    assert.equal((await stripe.events.retrieve(succeeded.data[0].id)).object, 'event');
  });
});
