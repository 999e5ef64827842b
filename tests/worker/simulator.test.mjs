// The embedded Stripe simulator, judged by the official `stripe` package, unchanged, over HTTP, and by a Worker over a service binding.
// Every test begins with an empty account. Nothing sleeps: a test waits for a request to be seen, and lets held ones go itself.

import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { after, beforeEach, describe, test } from 'node:test';
import Stripe from 'stripe';
import { createTestHarness } from './support/wrangler.mjs';

import { HOUR_MS, caller, card, rejected, shareSimulator } from './support/lone-simulator.mjs';

const root = new URL('../..', import.meta.url).pathname;

const lone = await shareSimulator({ beside: [caller] });
const { origin, sim, fault, ledger, advance, requests, arrived } = lone;
after(lone.close);
beforeEach(lone.reset);
const stripe = lone.stripe();

const pay = (more, options) => stripe.paymentIntents.create(card(more), options);
const key = (idempotencyKey) => ({ idempotencyKey });

async function api(path, { method = 'POST', body, headers = {} } = {}) {
  const response = await fetch(new URL(path, origin), {
    method,
    redirect: 'manual',
    headers: {
      Authorization: 'Bearer sk_test_x',
      'Content-Type': 'application/x-www-form-urlencoded',
      ...headers,
    },
    body,
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

const FORM = 'amount=1250&currency=usd&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true';
const form = (idempotencyKey, body = FORM, path = '/v1/payment_intents') =>
  api(path, { body, headers: { 'Idempotency-Key': idempotencyKey } });

describe('idempotency', () => {
  test('a replay gives the same bytes, says so, and charges nothing', async () => {
    const first = await form('k1');
    const second = await form('k1');
    assert.equal(first.status, 200);
    assert.equal(second.status, 200);
    assert.equal(second.text, first.text);
    assert.equal(first.headers.get('idempotent-replayed'), null);
    assert.equal(second.headers.get('idempotent-replayed'), 'true');
    assert.equal(second.headers.get('idempotency-key'), 'k1');
    assert.equal(first.headers.get('original-request'), first.headers.get('request-id'));
    assert.equal(second.headers.get('original-request'), first.headers.get('request-id'));
    assert.notEqual(second.headers.get('request-id'), first.headers.get('request-id'));
    assert.match(first.headers.get('request-id'), /^req_\w{14}$/);
    assert.equal((await ledger()).totals.succeeded_charges, 1);
  });

  test('the order of the parameters does not matter, the parameters and the endpoint do', async () => {
    const first = await form('k1');
    const shuffled = await form('k1', FORM.split('&').reverse().join('&'));
    assert.equal(shuffled.text, first.text);
    const other = await rejected(pay({ amount: 999 }, key('k1')));
    assert.ok(other instanceof Stripe.errors.StripeIdempotencyError);
    assert.equal(other.statusCode, 400);
    assert.equal(other.code, undefined);
    const elsewhere = await form('k1', 'name=x', '/v1/customers');
    assert.equal(JSON.parse(elsewhere.text).error.type, 'idempotency_error');
    assert.equal((await ledger()).totals.succeeded_charges, 1);
  });

  test('while the first runs, others run too, and its own key answers 409', async () => {
    await fault('slow', { delay_ms: 60_000 });
    const first = pay({}, key('k1'));
    await arrived('k1');
    assert.equal((await pay({}, key('k2'))).status, 'succeeded');
    const second = await rejected(pay({}, key('k1')));
    assert.equal(second.statusCode, 409);
    assert.equal(second.code, 'idempotency_key_in_use');
    assert.equal(second.rawType, 'invalid_request_error');
    assert.ok(
      (await rejected(pay({ amount: 999 }, key('k1')))) instanceof Stripe.errors.StripeIdempotencyError,
    );
    await sim('DELETE', 'faults');
    const paid = await first;
    assert.equal((await pay({}, key('k1'))).id, paid.id);
    assert.equal((await ledger()).totals.succeeded_charges, 2);
  });

  test('a decline is stored: the same key never tries again', async () => {
    const declined = card({ payment_method: 'pm_card_visa_chargeDeclined' });
    const first = await rejected(stripe.paymentIntents.create(declined, key('k1')));
    const second = await rejected(stripe.paymentIntents.create(declined, key('k1')));
    assert.equal(second.payment_intent.id, first.payment_intent.id);
    assert.equal(second.headers['idempotent-replayed'], 'true');
    assert.equal((await ledger()).charges.length, 1);
  });

  test('a refused request stores nothing: the corrected one runs under the same key', async () => {
    assert.equal((await form('k1', FORM.replace('1250', 'x'))).status, 400);
    assert.equal(
      (
        await api('/v1/payment_intents', {
          body: FORM,
          headers: { Authorization: '', 'Idempotency-Key': 'k1' },
        })
      ).status,
      401,
    );
    assert.equal((await form('k1')).status, 200);
  });

  test('after 24 hours a key is forgotten and charges anew', async () => {
    const first = await pay({}, key('k1'));
    await advance(24 * HOUR_MS - 60_000);
    assert.equal((await pay({}, key('k1'))).id, first.id);
    await advance(120_000);
    assert.notEqual((await pay({}, key('k1'))).id, first.id);
    const { charges, totals } = await ledger();
    assert.equal(totals.succeeded_charges, 2);
    assert.deepEqual(
      charges.map((charge) => charge.idempotency_key),
      ['k1', 'k1'],
    );
  });

  test('a key has at most 255 characters', async () => {
    assert.equal((await form('k'.repeat(255))).status, 200);
    assert.equal((await form('k'.repeat(256))).status, 400);
  });

  test('the request log proves that the bytes under a key never changed', async () => {
    await pay({}, key('k1'));
    await pay({}, key('k1'));
    const seen = await requests('k1');
    assert.deepEqual(
      seen.map((request) => [request.status, request.replayed]),
      [
        [200, false],
        [200, true],
      ],
    );
    assert.equal(seen[0].body_sha256, seen[1].body_sha256);
    assert.match(seen[0].body_sha256, /^[0-9a-f]{64}$/);
    assert.ok(!JSON.stringify(seen).includes('sk_test'));
  });
});

describe('refunds', () => {
  test('give back in parts, never more than there is', async () => {
    const intent = await pay();
    const refund = await stripe.refunds.create({
      payment_intent: intent.id,
      amount: 1000,
      metadata: { why: 'late' },
    });
    assert.deepEqual([refund.status, refund.amount, refund.payment_intent], ['succeeded', 1000, intent.id]);
    const tooMuch = await rejected(stripe.refunds.create({ payment_intent: intent.id, amount: 251 }));
    assert.deepEqual([tooMuch.statusCode, tooMuch.code, tooMuch.param], [400, undefined, 'amount']);
    const rest = await stripe.refunds.create({ charge: intent.latest_charge });
    assert.equal(rest.amount, 250);
    const again = await rejected(stripe.refunds.create({ payment_intent: intent.id }));
    assert.equal(again.code, 'charge_already_refunded');
    const unknown = await rejected(stripe.refunds.create({ payment_intent: 'pi_nowhere' }));
    assert.deepEqual([unknown.statusCode, unknown.code], [404, 'resource_missing']);
    assert.equal((await stripe.refunds.list({ payment_intent: intent.id })).data.length, 2);
    assert.equal((await stripe.refunds.retrieve(refund.id)).metadata.why, 'late');
    assert.equal((await stripe.charges.retrieve(intent.latest_charge)).refunded, true);
    assert.deepEqual((await ledger()).totals, {
      succeeded_charges: 1,
      amount_captured: 1250,
      amount_refunded: 1250,
    });
  });

  test('are idempotent as payments are', async () => {
    const intent = await pay();
    const once = await stripe.refunds.create({ payment_intent: intent.id }, key('r1'));
    const twice = await stripe.refunds.create({ payment_intent: intent.id }, key('r1'));
    assert.equal(twice.id, once.id);
    assert.equal((await ledger()).refunds.length, 1);
  });

  test('may be pending, and may fail later', async () => {
    const slow = await pay({ payment_method: 'pm_card_pendingRefund' });
    const failing = await pay({ payment_method: 'pm_card_refundFail' });
    const pending = await stripe.refunds.create({ payment_intent: slow.id });
    const doomed = await stripe.refunds.create({ payment_intent: failing.id });
    assert.deepEqual([pending.status, doomed.status], ['pending', 'succeeded']);
    await advance(60_000);
    assert.equal((await stripe.refunds.retrieve(pending.id)).status, 'succeeded');
    assert.equal((await stripe.refunds.retrieve(doomed.id)).status, 'failed');
    assert.equal((await stripe.charges.retrieve(failing.latest_charge)).amount_refunded, 0);
  });
});

describe('refunds of one payment', () => {
  test('are listed newest first, by page, with their metadata and without those of another', async () => {
    const intent = await pay();
    const other = await pay();
    await stripe.refunds.create({ payment_intent: other.id });
    const ids = [];
    for (const amount of [100, 200, 300]) {
      const refund = await stripe.refunds.create({
        payment_intent: intent.id,
        amount,
        reason: 'duplicate',
        metadata: { operation: `refund_${amount}` },
      });
      assert.equal(refund.reason, 'duplicate');
      ids.unshift(refund.id);
    }
    const first = await stripe.refunds.list({ payment_intent: intent.id, limit: 2 });
    assert.deepEqual([first.data.map((refund) => refund.id), first.has_more], [ids.slice(0, 2), true]);
    assert.equal(first.data[0].metadata.operation, 'refund_300');
    const rest = await stripe.refunds.list({ payment_intent: intent.id, limit: 2, starting_after: ids[1] });
    assert.deepEqual([rest.data.map((refund) => refund.id), rest.has_more], [ids.slice(2), false]);
    const missing = await rejected(stripe.refunds.retrieve('re_nowhere'));
    assert.deepEqual([missing.statusCode, missing.code], [404, 'resource_missing']);
  });

  test('give back what was captured, not what was reserved', async () => {
    const intent = await pay({ capture_method: 'manual' });
    assert.equal((await rejected(stripe.refunds.create({ payment_intent: intent.id }))).statusCode, 400);
    await stripe.paymentIntents.capture(intent.id, { amount_to_capture: 700 });
    const tooMuch = await rejected(stripe.refunds.create({ payment_intent: intent.id, amount: 701 }));
    assert.equal(tooMuch.param, 'amount');
    assert.equal((await stripe.refunds.create({ payment_intent: intent.id })).amount, 700);
    const charge = await stripe.charges.retrieve(intent.latest_charge);
    assert.deepEqual([charge.amount_captured, charge.amount_refunded, charge.refunded], [700, 700, true]);
  });

  test('are also made of what is given free, where a request has a version before basil', async () => {
    const apiVersion = '2025-02-24.acacia';
    const intent = await pay({ capture_method: 'manual' });
    await stripe.paymentIntents.capture(intent.id, { amount_to_capture: 700 }, { apiVersion });
    const refunds = async () => (await stripe.refunds.list({ payment_intent: intent.id })).data;
    const charge = () => stripe.charges.retrieve(intent.latest_charge);
    assert.deepEqual(
      (await refunds()).map(({ amount, status }) => [amount, status]),
      [[550, 'succeeded']],
    );
    assert.deepEqual([(await charge()).amount_refunded, (await charge()).refunded], [550, false]);
    const tooMuch = await rejected(stripe.refunds.create({ payment_intent: intent.id, amount: 701 }));
    assert.match(tooMuch.message, /greater than charge amount \(\$7\.00 usd\)/);
    assert.equal((await stripe.refunds.create({ payment_intent: intent.id })).amount, 700);
    assert.deepEqual([(await charge()).amount_refunded, (await charge()).refunded], [1250, true]);
    const { totals, charges } = await ledger();
    assert.deepEqual([totals.amount_captured, totals.amount_refunded], [700, 700], 'what was moved');
    assert.equal(charges[0].voided, false);

    const voided = await pay({ capture_method: 'manual' });
    await stripe.paymentIntents.cancel(voided.id, {}, { apiVersion });
    const released = await stripe.charges.retrieve(voided.latest_charge);
    assert.deepEqual([released.captured, released.amount_refunded, released.refunded], [false, 1250, true]);
    assert.equal((await ledger()).totals.amount_refunded, 700);
  });

  test('are not made of what is given free, as of basil', async () => {
    const voided = await pay({ capture_method: 'manual' });
    await stripe.paymentIntents.cancel(voided.id, {}, { apiVersion: '2025-03-31.basil' });
    const released = await stripe.charges.retrieve(voided.latest_charge);
    assert.deepEqual([released.captured, released.amount_refunded, released.refunded], [false, 0, false]);
    assert.deepEqual((await stripe.refunds.list({ payment_intent: voided.id })).data, []);
    const events = (await stripe.events.list({ limit: 100 })).data.map(({ type }) => type);
    assert.ok(!events.includes('charge.refunded'));
    assert.equal((await ledger()).charges[0].voided, true);
  });
});

describe('errors', () => {
  for (const [what, params, code, param] of [
    ['a missing amount', { amount: undefined }, 'parameter_missing', 'amount'],
    ['an amount that is no integer', { amount: '12.5' }, 'parameter_invalid_integer', 'amount'],
    ['an amount of nothing', { amount: 0 }, 'parameter_invalid_integer', 'amount'],
    ['an amount too small', { amount: 49 }, 'amount_too_small', 'amount'],
    ['an amount too large', { amount: 100_000_000 }, 'amount_too_large', 'amount'],
    ['an unknown currency', { currency: 'xyz' }, undefined, 'currency'],
    ['an unknown parameter', { amonut: 1 }, 'parameter_unknown', 'amonut'],
    ['an unknown payment method', { payment_method: 'pm_nowhere' }, 'resource_missing', 'payment_method'],
    ['an unknown customer', { customer: 'cus_nowhere' }, 'resource_missing', 'customer'],
    ['too long metadata', { metadata: { k: 'v'.repeat(501) } }, undefined, 'metadata'],
  ]) {
    test(`${what} is a StripeInvalidRequestError`, async () => {
      const error = await rejected(pay(params));
      assert.ok(error instanceof Stripe.errors.StripeInvalidRequestError);
      assert.deepEqual([error.statusCode, error.code, error.param], [400, code, param]);
      assert.equal((await ledger()).charges.length, 0);
    });
  }

  test('an unknown object and an unknown endpoint are 404', async () => {
    const missing = await rejected(stripe.paymentIntents.retrieve('pi_nowhere'));
    assert.deepEqual([missing.statusCode, missing.code], [404, 'resource_missing']);
    assert.match(missing.message, /No such payment_intent: 'pi_nowhere'/);
    assert.equal((await api('/v1/nowhere', { method: 'GET' })).status, 404);
  });

  test('without a test key there is no entry', async () => {
    for (const Authorization of ['', 'Bearer pk_test_x', 'Bearer sk_live_x', 'Bearer nonsense']) {
      assert.equal(
        (await api('/v1/charges', { method: 'GET', headers: { Authorization } })).status,
        401,
        Authorization,
      );
    }
    const basic = `Basic ${Buffer.from('sk_test_x:').toString('base64')}`;
    assert.equal(
      (await api('/v1/charges', { method: 'GET', headers: { Authorization: basic } })).status,
      200,
    );
    const error = await rejected(lone.stripe({ secret: 'nonsense' }).charges.list());
    assert.ok(error instanceof Stripe.errors.StripeAuthenticationError);
    assert.equal(error.rawType, 'invalid_request_error');
  });
});

describe('faults over HTTP', () => {
  // Each: the fault, what the SDK makes of it, the charges after it, and what the same key answers then. The second try is written by hand:
  // the key is bound to the parameters and not to their spelling.
  for (const [name, more, type, status, charges, afterwards] of [
    ['request_lost', { delay_ms: 60_000 }, 'StripeConnectionError', undefined, 0, 200],
    ['response_lost', { delay_ms: 60_000 }, 'StripeConnectionError', undefined, 1, 200],
    ['connection_reset', {}, 'StripeConnectionError', undefined, 0, 200],
    ['connection_reset_after', {}, 'StripeConnectionError', undefined, 1, 200],
    ['unreadable_answer', {}, 'StripeAPIError', undefined, 1, 200],
    ['error_before', {}, 'StripeAPIError', 500, 0, 200],
    ['error_after', {}, 'StripeAPIError', 500, 1, 500],
    ['rate_limited', {}, 'StripeRateLimitError', 429, 0, 200],
    ['lock_timeout', {}, 'StripeRateLimitError', 429, 0, 200],
    ['forbidden', {}, 'StripePermissionError', 403, 0, 200],
  ]) {
    test(`${name}: ${type}, ${charges} charged, and the key then answers ${afterwards}`, async () => {
      await fault(name, more);
      const httpAgent = new Agent();
      const failed = rejected(lone.stripe({ httpAgent }).paymentIntents.create(card(), key('k1')));
      if (more.delay_ms) {
        // No answer comes: the client's time is over as soon as the simulator has the request, however slow the machine is.
        await arrived('k1');
        for (const socket of Object.values(httpAgent.sockets).flat()) socket.emit('timeout');
      }
      const error = await failed;
      assert.equal(error.type, type);
      assert.equal(error.statusCode, status);
      assert.equal((await ledger()).charges.length, charges);
      const again = await form('k1', FORM);
      assert.equal(again.status, afterwards);
      assert.equal(again.headers.get('idempotent-replayed'), charges === 1 ? 'true' : null);
      assert.equal((await ledger()).charges.length, 1);
      const [first] = await requests('k1');
      assert.deepEqual([first.fault, first.status], [name, status ?? null]);
      assert.deepEqual((await sim('GET', 'faults')).faults, []);
    });
  }

  test('slow_response: it is done and stored before the answer comes', async () => {
    await fault('slow_response', { delay_ms: 60_000 });
    const first = pay({}, key('k1'));
    await arrived('k1');
    const replayed = await pay({}, key('k1'));
    await sim('DELETE', 'faults');
    assert.equal((await first).id, replayed.id);
  });

  test('the SDK retries by itself what it may, and one charge is made', async () => {
    await fault('error_before');
    const patient = lone.stripe({ maxNetworkRetries: 2 });
    assert.equal((await patient.paymentIntents.create(card())).status, 'succeeded');
    assert.equal((await ledger()).totals.succeeded_charges, 1);
  });

  test('are played in order, on the requests that they are meant for', async () => {
    await fault('rate_limited', { path: '/v1/refunds' });
    await fault('error_before', { method: 'post', path: '/v1/payment_intents', count: 2 });
    assert.equal((await stripe.paymentIntents.list()).data.length, 0);
    assert.equal((await rejected(pay())).statusCode, 500);
    assert.equal((await rejected(pay())).statusCode, 500);
    const paid = await pay();
    assert.equal((await rejected(stripe.refunds.create({ payment_intent: paid.id }))).statusCode, 429);
    assert.equal((await stripe.refunds.create({ payment_intent: paid.id })).status, 'succeeded');
  });

  test('unknown faults are refused', async () => {
    const response = await fetch(new URL('/_sim/faults', origin), {
      method: 'POST',
      body: '{"fault":"nonsense"}',
    });
    assert.equal(response.status, 400);
  });
});

describe('faults over a service binding', () => {
  async function call(more = {}) {
    const init = {
      method: 'POST',
      headers: {
        Authorization: 'Bearer sk_test_x',
        'Content-Type': 'application/x-www-form-urlencoded',
        'Idempotency-Key': 'k1',
      },
      body: FORM,
    };
    return lone.call('https://api.stripe.com/v1/payment_intents', init, more);
  }

  test('an ordinary call answers, and its 3-D Secure page is where a browser can reach it', async () => {
    assert.equal((await call()).status, 200);
    const body = `${FORM.replace('pm_card_visa', 'pm_card_authenticationRequired')}&return_url=https://shop.test/`;
    const headers = {
      Authorization: 'Bearer sk_test_x',
      'Content-Type': 'application/x-www-form-urlencoded',
    };
    const answer = await call({ init: { method: 'POST', headers, body } });
    assert.match(
      JSON.parse(answer.body).next_action.redirect_to_url.url,
      /^http:\/\/127\.0\.0\.1:12111\/_sim\/3ds\/pi_/,
    );
  });

  for (const [name, charges] of [
    ['connection_reset', 0],
    ['connection_reset_after', 1],
  ]) {
    test(`${name}: fetch throws, ${charges} charged`, async () => {
      await fault(name);
      const answer = await call();
      assert.equal(answer.stage, 'fetch');
      assert.match(answer.threw, /never generate a response/);
      assert.equal((await ledger()).charges.length, charges);
      assert.equal((await call()).status, 200);
      assert.equal((await ledger()).charges.length, 1);
    });
  }

  for (const [name, charges] of [
    ['request_lost', 0],
    ['response_lost', 1],
  ]) {
    test(`${name}: fetch hangs until the caller gives up, ${charges} charged`, async () => {
      await fault(name, { delay_ms: 60_000 });
      const answer = await call({ timeout_ms: 200 });
      assert.deepEqual([answer.stage, answer.name], ['fetch', 'TimeoutError']);
      assert.equal((await ledger()).charges.length, charges);
      assert.equal((await call()).status, 200);
      assert.equal((await ledger()).charges.length, 1);
    });
  }
});

describe('the 3-D Secure page of a Worker that has the only port', () => {
  test('is at the origin of the return_url', async () => {
    const demo = createTestHarness({
      root,
      workers: [{ configPath: 'simulator/wrangler.toml', vars: { PUBLIC_ORIGIN: '' } }],
    });
    try {
      await demo.listen();
      const answer = await demo.getWorker().fetch('https://stripe.simulator/v1/payment_intents', {
        method: 'POST',
        headers: {
          Authorization: 'Bearer sk_test_x',
          'Content-Type': 'application/x-www-form-urlencoded',
        },
        body: `${FORM.replace('pm_card_visa', 'pm_card_authenticationRequired')}&return_url=http://localhost:8787/payments/x/return?y=1`,
      });
      const { id, next_action } = await answer.json();
      assert.equal(next_action.redirect_to_url.url, `http://localhost:8787/_sim/3ds/${id}`);
    } finally {
      await demo.close();
    }
  });
});

describe('for a person', () => {
  test('the page shows the ledger, escaped', async () => {
    await pay({}, key('<script>alert(1)</script>'));
    const response = await fetch(origin);
    const html = await response.text();
    assert.match(html, /&lt;script&gt;/);
    assert.doesNotMatch(html, /<script/);
    assert.match(response.headers.get('content-security-policy'), /default-src 'none'/);
    assert.equal((await fetch(new URL('/healthz', origin))).status, 200);
  });
});
