// The other provider: by request and by configuration, its refusals and its errors; and as the fallback of the first one,
// after a definitive failure and never after an unknown outcome.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, freshKey } from './support/account.mjs';
import { withoutEffect } from './support/effects.mjs';
import { shareSite, startSite } from './support/harness.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  DECLINED_CARD,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  insist,
  moved,
  paid,
} from './support/payments.mjs';
import { IMPATIENT, keyThatIs } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const PROVIDER = { provider: 'adyen' };
const fallback = { provider: 'adyen', payment_method: 'adyen_card_visa' };

describe('asked for by the request', async () => {
  const site = await shareSite({ vars: IMPATIENT });
  const user = client(site);
  after(() => site.close());
  afterEach(() => site.simulator.calm());

  const sendsOf = async (id) => {
    const { charges } = await site.simulator.ledger(id);
    assert.equal(new Set(charges.map(({ provider }) => provider)).size, 1);
    const all = await site.simulator.requests();
    return all.filter(({ method, provider }) => method === 'POST' && provider === 'adyen');
  };

  test('it takes the money, and every later call goes there', async () => {
    const made = await paid(user, { ...AUTHORISATION, ...PROVIDER });
    assert.deepEqual([made.provider, made.status], ['adyen', 'requires_capture']);
    await modified(made.id, 'capture', { amount: 2000 });
    assert.equal((await user.payment(made.id)).json().amount_captured, 2000);
    const refund = await moved(user, made.id, 'refunds', { amount: 500 });
    assert.equal(refund.status, 'pending', 'a webhook would tell how it ended');
    assert.deepEqual(await site.simulator.moved(made.id), {
      charges: 1,
      captured: 2000,
      refunded: 500,
      voided: 0,
    });
    const sends = await sendsOf(made.id);
    assert.ok(sends.every(({ idempotency_key: key }) => key.length <= 64 && !key.includes(made.id)));

    const given = await paid(user, { ...AUTHORISATION, ...PROVIDER });
    await modified(given.id, 'void');
    assert.equal((await user.payment(given.id)).json().status, 'canceled');
    assert.equal((await site.simulator.moved(given.id)).voided, 1);
  });

  for (const [move, state, done] of [
    ['capture', 'capturing', 'succeeded'],
    ['void', 'voiding', 'canceled'],
  ])
    test(`a ${move} that Adyen has received is under way until it tells how it ended`, async () => {
      const order = { ...AUTHORISATION, ...PROVIDER, order_id: freshOrder() };
      const { id } = await paid(user, order);
      const key = freshKey();
      const first = await user.post(`/payments/${id}/${move}`, undefined, key);
      assert.equal(first.status, 202, first.text);
      const shown = first.json();
      assert.deepEqual([shown.status, shown.pending_operation.type], ['requires_capture', move]);
      assert.deepEqual([shown.amount_captured, shown.amount_capturable], [0, 0]);
      for (const [path, body] of [
        [`/payments/${id}/capture`, { amount: 100 }],
        [`/payments/${id}/void`],
        [`/payments/${id}/refunds`, { amount: 100 }],
        ['/payments', order],
      ]) {
        const refused = await user.post(path, body, freshKey());
        assertProblem(refused, 409, 'payment-state', { state });
      }
      await toldOf(id);
      assert.deepEqual((await user.post(`/payments/${id}/${move}`, undefined, key)).bytes, first.bytes);
      const after = (await user.payment(id)).json();
      assert.deepEqual([after.status, after.pending_operation], [done, null]);
    });

  test('a capture that it refuses after it was received moves nothing, and another one may begin', async () => {
    const card = 'adyen_card_capture_fails';
    const { id } = await paid(user, { ...AUTHORISATION, ...PROVIDER, payment_method: card });
    await modified(id, 'capture');
    const shown = (await user.payment(id)).json();
    assert.deepEqual([shown.status, shown.pending_operation], ['requires_capture', null]);
    assert.deepEqual(shown.failed_operation, { type: 'capture', code: 'capture_failed' });
    const actions = (await site.objects.audit(id)).map(({ action }) => action);
    assert.deepEqual(actions.slice(-2), ['capture.pending', 'capture.failed']);
    // Under a key of its own.
    await modified(id, 'capture');
    const sends = (await sendsOf(id)).filter(({ path }) => path.endsWith('/captures'));
    assert.equal(new Set(sends.map(({ idempotency_key: derived }) => derived)).size, sends.length);
    await modified(id, 'void');
    assert.equal((await user.payment(id)).json().status, 'canceled');
  });

  /** A capture or a void to its end. */
  async function modified(id, move, body) {
    const answer = await user.post(`/payments/${id}/${move}`, body, freshKey());
    assert.equal(answer.status, 202, answer.text);
    await toldOf(id);
  }

  /** Adyen tells all that it knows of a payment. */
  async function toldOf(id) {
    const { provider_payment: psp } = (await user.payment(id)).json();
    const { notificationItems } = await site.simulator.notifications(psp);
    for (const { NotificationRequestItem: item } of notificationItems)
      assert.equal(await site.simulator.tell(`${item.pspReference}:${item.eventCode}`), 200);
  }

  test('a payment that is captured at once is replayed and sent once', async () => {
    const key = freshKey();
    const first = await user.pay({ ...PAYMENT, ...PROVIDER }, key);
    assert.deepEqual([first.status, first.json().status], [201, 'succeeded']);
    assert.deepEqual((await user.pay({ ...PAYMENT, ...PROVIDER }, key)).bytes, first.bytes);
    assert.equal((await site.simulator.moved(first.payment)).charges, 1);
  });

  for (const [card, status, code, decline] of [
    ['adyen_card_refused', 'declined', 'card_declined', 'generic_decline'],
    ['adyen_card_not_enough_balance', 'declined', 'card_declined', 'insufficient_funds'],
    ['adyen_card_expired', 'declined', 'card_declined', 'expired_card'],
    ['adyen_card_identify', 'declined', 'authentication_required', undefined],
    ['adyen_card_present', 'declined', 'authentication_required', undefined],
    ['adyen_card_that_is_unknown', 'failed', undefined, null],
  ])
    test(`${card} is a 402 that is kept`, async () => {
      const key = freshKey();
      const ask = () => user.pay({ ...PAYMENT, ...PROVIDER, payment_method: card }, key);
      const first = await ask();
      const problem = assertProblem(first, 402, 'payment-failed');
      assert.equal(problem.payment.status, status);
      if (code) assert.equal(problem.code, code);
      if (decline !== undefined) assert.equal(problem.decline_code, decline);
      assert.deepEqual((await ask()).bytes, first.bytes);
      assert.equal((await site.simulator.moved(first.payment)).captured, 0);
    });

  test('with a card that asks for its holder is a refusal: there is no page to go to', async () => {
    const payment = { ...PAYMENT, ...PROVIDER, payment_method: 'adyen_card_3ds' };
    const answer = await user.pay({ ...payment, return_url: 'https://shop.example/' }, freshKey());
    assertProblem(answer, 402, 'payment-failed', { code: 'authentication_required' });
    assert.equal((await site.simulator.moved(answer.payment)).captured, 0);
  });

  // An `Error` is one of the communication with the issuer, which may hold the money.
  for (const [card, wait_ms, status, captured] of [
    ['adyen_card_error', 0, 402, 0],
    ['adyen_card_error_but_held', 60_000, 201, 2500],
  ])
    test(`${card} is unknown until Adyen tells, and nobody else is asked`, async () => {
      const key = freshKey();
      const elsewhere = { provider: 'stripe', payment_method: 'pm_card_visa' };
      const ask = () =>
        user.pay({ ...PAYMENT, ...PROVIDER, payment_method: card, fallback: elsewhere }, key, AT_ONCE);
      const first = await ask();
      assertProblem(first, 503, 'outcome-unknown');
      const sends = (await sendsOf(first.payment)).length;
      assertProblem(await ask(), 503, 'outcome-unknown');
      await site.simulator.advance(wait_ms + 1);
      const { charges } = await site.simulator.ledger(first.payment);
      assert.equal((await sendsOf(first.payment)).length, sends, 'the key has nothing else to say');
      const { provider_id, needs_review } = JSON.parse((await site.objects.call(first.payment)).evidence);
      assert.equal(provider_id, charges[0].id);
      assert.match(needs_review, /the issuer, which may hold the money/);
      assert.equal(await site.simulator.tell(`${charges[0].id}:AUTHORISATION`), 200);
      const answer = await insist(ask);
      assert.deepEqual([answer.status, answer.payment], [status, first.payment], answer.text);
      assert.equal(answer.json().payment?.attempt ?? 1, 1, 'a no after an Error asks nobody else either');
      assert.equal((await sendsOf(first.payment)).length, sends);
      const moved = { charges: status === 201 ? 1 : 0, captured, refunded: 0, voided: 0 };
      assert.deepEqual(await site.simulator.moved(first.payment), moved);
    });

  test('a result that nobody knows is no success and no failure', async () => {
    const key = freshKey();
    const card = { payment_method: 'adyen_card_authentication_finished' };
    const ask = () => user.pay({ ...PAYMENT, ...PROVIDER, ...card }, key, AT_ONCE);
    const first = await ask();
    assertProblem(first, 503, 'outcome-unknown');
    assertProblem(await ask(), 503, 'outcome-unknown');
    assert.equal((await user.payment(first.payment)).json().status, 'processing');
    const { provider_id, needs_review } = JSON.parse((await site.objects.call(first.payment)).evidence);
    assert.match(provider_id, /^[A-Z0-9]{16}$/);
    assert.match(needs_review, /a result that is not known/);
  });

  test('of what a part only is held nothing is kept: it is canceled, and only then somebody else is asked', async () => {
    const key = freshKey();
    const body = { ...AUTHORISATION, ...PROVIDER, payment_method: 'adyen_card_half' };
    const fallback = { provider: 'stripe', payment_method: 'pm_card_visa' };
    const first = await user.pay({ ...body, fallback }, key, AT_ONCE);
    assertProblem(first, 503, 'outcome-unknown');
    const { charges } = await site.simulator.ledger(first.payment);
    const psp = charges[0].id;
    await until('the cancel is received', async () => {
      const { needs_review } = JSON.parse((await site.objects.call(first.payment)).evidence);
      return /its cancel was asked for \(201\)/.test(needs_review ?? '');
    });
    assert.equal((await site.simulator.ledger(first.payment)).charges.length, 1, 'nobody else is asked');
    assert.equal(await site.simulator.tell(`${psp}:AUTHORISATION`), 200);
    const items = (await site.simulator.notifications(psp)).notificationItems;
    const { pspReference } = items.at(-1).NotificationRequestItem;
    assert.equal(await site.simulator.tell(`${pspReference}:CANCELLATION`), 200);
    const answer = await insist(() => user.pay({ ...body, fallback }, key));
    assert.equal(answer.status, 201, answer.text);
    const shown = (await user.payment(first.payment)).json();
    assert.deepEqual(
      shown.tries.map(({ status, provider_payment }) => [status, provider_payment === psp]),
      [
        ['declined', true],
        ['requires_capture', false],
      ],
    );
    const { charges: all } = await site.simulator.ledger(first.payment);
    assert.deepEqual(
      all.map(({ voided }) => voided),
      [true, false],
    );
  });

  test('a payment that nobody has heard of is called off by its reference, and only Adyen’s yes is believed', async () => {
    const key = freshKey();
    const body = { ...AUTHORISATION, ...PROVIDER };
    await site.simulator.fault('error_after', { path: '/adyen/' });
    const first = await user.pay(body, key, AT_ONCE);
    assertProblem(first, 503, 'outcome-unknown');
    const { charges } = await site.simulator.ledger(first.payment);
    const psp = charges[0].id;
    // An hour later.
    const at = Date.now() - 2 * 3_600_000;
    const due = async () => {
      const { sql } = site.objects;
      await sql(first.payment, 'UPDATE foreign_calls SET last_sent_at_ms = ?, next_try_at_ms = 0', at);
      await sql(first.payment, 'UPDATE idempotency_keys SET resume_at_ms = 0');
    };
    const items = async () =>
      (await site.simulator.notifications(psp)).notificationItems.map((one) => one.NotificationRequestItem);
    await until('it is called off', async () => {
      await due();
      await user.pay(body, key, AT_ONCE);
      return (await items()).some(({ eventCode }) => eventCode === 'TECHNICAL_CANCEL');
    });
    assertProblem(await user.pay(body, key, AT_ONCE), 503, 'outcome-unknown');
    const { pspReference } = (await items()).at(-1);
    assert.equal(await site.simulator.tell(`${pspReference}:TECHNICAL_CANCEL`), 200);
    const answer = await insist(() => user.pay(body, key));
    assertProblem(answer, 402, 'payment-failed', { code: 'payment_canceled' });
    assert.equal((await site.simulator.ledger(first.payment)).charges[0].voided, true);
  });

  test('whether the person is there is said as it is, with a way back in any case', async () => {
    // Either is a refusal where the bank wants to authenticate, for reasons of their own: it is never attempted.
    const ask = (more) =>
      user.pay({ ...PAYMENT, ...PROVIDER, payment_method: 'adyen_card_3ds', ...more }, freshKey());
    for (const [more, reason] of [
      [{ return_url: 'https://shop.example/' }, 'Authentication required'],
      [{}, '3D Not Authenticated'],
    ]) {
      const answer = await ask(more);
      assertProblem(answer, 402, 'payment-failed', { code: 'authentication_required' });
      const { charges } = await site.simulator.ledger(answer.payment);
      assert.equal(charges.length, 1);
      const { notificationItems } = await site.simulator.notifications(charges[0].id);
      assert.equal(notificationItems[0].NotificationRequestItem.reason, reason);
    }
  });

  test('a refusal in the other form of its errors is read alike', async () => {
    await site.simulator.fault('problem_json', { path: '/adyen/' });
    const answer = await user.pay({ ...PAYMENT, ...PROVIDER }, freshKey());
    assertProblem(answer, 402, 'payment-failed', { code: 'adyen_14_030' });
  });

  test('a payment for which Adyen has no acquirer is refused', async () => {
    await site.simulator.fault('configuration_error', { path: '/adyen/' });
    const answer = await user.pay({ ...PAYMENT, ...PROVIDER }, freshKey());
    assertProblem(answer, 402, 'payment-failed', { code: 'adyen_905_1' });
    assert.equal((await site.simulator.ledger(answer.payment)).charges.length, 0);
  });

  for (const fault of [
    'rate_limited',
    'rate_limited_as500',
    'key_store_down',
    'gateway_error',
    'lock_timeout',
    'error_before',
    'connection_reset',
    'connection_reset_after',
    'unreadable_answer',
    'response_lost',
  ])
    test(`${fault} is passing: the same key brings the payment, once`, async () => {
      const key = freshKey();
      const ask = () => user.pay({ ...PAYMENT, ...PROVIDER }, key, AT_ONCE);
      await site.simulator.fault(fault, { path: '/adyen/' });
      const first = await ask();
      assert.equal(first.status, 503, first.text);
      const answer = await insist(ask);
      assert.deepEqual([answer.status, answer.payment], [201, first.payment], answer.text);
      assert.equal((await site.simulator.moved(answer.payment)).charges, 1);
    });

  test('for each move a lost answer is found by the same key', async () => {
    for (const [move, payment, body, expected] of [
      ['capture', AUTHORISATION, { amount: 900 }, { captured: 900 }],
      ['void', AUTHORISATION, undefined, { voided: 1 }],
      ['refunds', PAYMENT, { amount: 900 }, { captured: 2500, refunded: 900 }],
    ]) {
      const { id } = await paid(user, { ...payment, ...PROVIDER });
      const key = freshKey();
      await site.simulator.fault('response_lost', { path: '/adyen/' });
      const answer = await insist(() => user.post(`/payments/${id}/${move}`, body, key, AT_ONCE));
      assert.ok([201, 202].includes(answer.status), answer.text);
      const sum = { charges: 1, captured: 0, refunded: 0, voided: 0, ...expected };
      assert.deepEqual(await site.simulator.moved(id), sum, move);
    }
  });

  test('what was refused for as long as its key may be sent is not executed, and nothing waits for it', async () => {
    const authorised = async () => (await paid(user, { ...AUTHORISATION, ...PROVIDER })).id;
    const payment = async () => (await paid(user, { ...PAYMENT, ...PROVIDER })).id;
    const sent = async () =>
      (await site.simulator.requests()).filter(({ method }) => method === 'POST').length;
    for (const [what, prepare, path, body, type, expected] of [
      ['payment', () => undefined, '', { ...PAYMENT, ...PROVIDER }, 'payment-failed', { charges: 0 }],
      ['capture', authorised, '/capture', { amount: 900 }, 'operation-refused', { captured: 0 }],
      ['void', authorised, '/void', undefined, 'operation-refused', { voided: 0 }],
      ['refund', payment, '/refunds', { amount: 900 }, 'operation-refused', { captured: 2500, refunded: 0 }],
    ]) {
      const made = await prepare();
      const [address, key] = [`/payments${made === undefined ? '' : `/${made}`}${path}`, freshKey()];
      await site.simulator.fault('error_before', { path: '/adyen/', count: 1000 });
      const first = await user.post(address, body, key, AT_ONCE);
      assertProblem(first, 503, 'temporarily-unavailable');
      const id = made ?? first.payment;
      const sends = await sent();
      await site.objects.sql(
        id,
        `UPDATE foreign_calls SET first_sent_at_ms = first_sent_at_ms - 7 * 86400000,
           last_sent_at_ms = last_sent_at_ms - 3600000, next_try_at_ms = 0 WHERE status != 'settled'`,
      );
      const answer = await user.post(address, body, key);
      assertProblem(answer, 402, type);
      assert.ok((await sent()) <= sends + 1, 'nothing is sent past the window');
      await site.simulator.calm();
      const sum = { charges: 1, captured: 0, refunded: 0, voided: 0, ...expected };
      assert.deepEqual(await site.simulator.moved(id), sum, what);
      assert.equal((await user.key(key)).json().status, 'complete');
    }
  });

  test('an error that no retry clears up is never called a failure', async () => {
    const key = freshKey();
    await site.simulator.fault('error_after', { path: '/adyen/' });
    const first = await user.pay({ ...PAYMENT, ...PROVIDER }, key, AT_ONCE);
    assertProblem(first, 503, 'outcome-unknown');
    const again = await user.pay({ ...PAYMENT, ...PROVIDER }, key, AT_ONCE);
    assertProblem(again, 503, 'outcome-unknown');
    await keyThatIs(user, key, 'unknown');
    assert.equal((await user.payment(first.payment)).json().status, 'processing');
    assert.equal((await site.simulator.moved(first.payment)).charges, 1, 'and it was indeed charged, once');
  });

  describe('as a fallback', () => {
    const ask = (payment, key = freshKey()) => user.pay({ ...PAYMENT, fallback, ...payment }, key, AT_ONCE);
    const providers = async (id) =>
      (await site.simulator.ledger(id)).charges
        .filter(({ status }) => status === 'succeeded')
        .map(({ provider }) => provider);

    test('it is not asked while the first one takes the money', async () => {
      const answer = await ask({});
      assert.deepEqual([answer.json().provider, answer.json().attempt], ['stripe', 1]);
      assert.deepEqual(await providers(answer.payment), ['stripe']);
    });

    test('it takes the money after a definitive failure, in the same payment', async () => {
      for (const payment_method of [DECLINED_CARD, 'pm_that_is_unknown']) {
        const key = freshKey();
        const answer = await ask({ payment_method }, key);
        assert.equal(answer.status, 201, answer.text);
        assert.deepEqual([answer.json().provider, answer.json().attempt], ['adyen', 2]);
        assert.deepEqual(await providers(answer.payment), ['adyen']);
        assert.deepEqual((await ask({ payment_method }, key)).bytes, answer.bytes);
      }
    });

    test('it may refuse too: then the payment has failed, and the reason is the last one', async () => {
      const refused = { ...fallback, payment_method: 'adyen_card_not_enough_balance' };
      const answer = await ask({ payment_method: DECLINED_CARD, fallback: refused });
      assertProblem(answer, 402, 'payment-failed', { decline_code: 'insufficient_funds' });
      assert.deepEqual(await providers(answer.payment), []);
    });

    test('works the other way round', async () => {
      const answer = await ask({
        ...PROVIDER,
        payment_method: 'adyen_card_refused',
        fallback: { provider: 'stripe', payment_method: 'pm_card_visa' },
      });
      assert.deepEqual([answer.status, answer.json().provider], [201, 'stripe'], answer.text);
      assert.deepEqual(await providers(answer.payment), ['stripe']);
    });

    for (const fault of ['response_lost', 'request_lost', 'error_before', 'error_after', 'rate_limited'])
      test(`it is never asked after ${fault}: the first one may have taken the money`, async () => {
        const key = freshKey();
        await site.simulator.fault(fault, { path: '/v1/' });
        const unknown = await ask({}, key);
        assert.equal(unknown.status, 503, unknown.text);
        assert.equal((await user.payment(unknown.payment)).json().provider, 'stripe');
        const answer = await insist(() => ask({}, key));
        assert.deepEqual([answer.status, answer.json().provider], [201, 'stripe'], answer.text);
        assert.deepEqual(await providers(answer.payment), ['stripe']);
      });
  });
});

// What people pay is compared in major units, by the simulator's own tables, written from the providers' pages. The numbers here are
// written out: a table that both sides shared would hide a wrong factor.
describe('in a currency that the provider counts in units of its own', async () => {
  const site = await startSite();
  const user = client(site);
  after(() => site.close());

  const majors = async (id) => (await site.simulator.ledger(id)).charges.map(({ major }) => major);

  /** Adyen tells how the capture ended, in its units. */
  async function toldOfCapture(id) {
    const { provider_payment: psp } = (await user.payment(id)).json();
    const { notificationItems } = await site.simulator.notifications(psp);
    const { pspReference } = notificationItems.at(-1).NotificationRequestItem;
    assert.equal(await site.simulator.tell(`${pspReference}:CAPTURE`), 200);
  }

  for (const [currency, amount, people, value] of [
    ['clp', 1000, '1000', 100000],
    ['cve', 250000, '2500', 2500],
    ['idr', 1000000, '10000', 10000],
    ['isk', 50000, '500', 50000],
    ['jpy', 500, '500', 500],
    ['kwd', 12500, '12.5', 12500],
    ['usd', 2500, '25', 2500],
  ])
    test(`${amount} ${currency} is ${people} at both, and ${value} at Adyen`, async () => {
      const payment = { amount, currency, payment_method: 'pm_card_visa' };
      const there = await paid(user, { ...payment, provider: 'stripe' });
      const here = await paid(user, { ...payment, ...PROVIDER, payment_method: 'adyen_card_visa' });
      const fallen = await paid(user, { ...payment, payment_method: DECLINED_CARD, fallback });
      for (const { id } of [there, here, fallen]) {
        const paidMajors = (await majors(id)).filter(({ captured }) => captured !== '0');
        assert.deepEqual(paidMajors, [{ amount: people, captured: people, refunded: '0' }]);
      }
      const [charge] = (await site.simulator.ledger(here.id)).charges;
      assert.deepEqual([charge.amount, charge.currency], [value, currency.toUpperCase()]);
      assert.deepEqual([here.amount, here.amount_captured, fallen.amount_captured], [amount, amount, amount]);
    });

  test('parts of it are captured and given back in the same units', async () => {
    for (const [currency, amount, capture, refund, expected] of [
      ['clp', 1000, 400, 150, { amount: '1000', captured: '400', refunded: '150' }],
      ['idr', 1000000, 400000, 150000, { amount: '10000', captured: '4000', refunded: '1500' }],
    ]) {
      const made = await paid(user, { ...PROVIDER, amount, currency, capture: false });
      await moved(user, made.id, 'capture', { amount: capture });
      await toldOfCapture(made.id);
      assert.equal((await user.payment(made.id)).json().amount_captured, capture);
      assert.equal((await moved(user, made.id, 'refunds', { amount: refund })).amount, refund);
      assert.deepEqual(await majors(made.id), [expected]);
    }
  });

  test('a part that it cannot express is refused, and uses up neither the key nor the payment', async () => {
    const made = await paid(user, { ...PROVIDER, amount: 1000000, currency: 'idr', capture: false });
    for (const [move, then] of [
      ['capture', 400000],
      ['refunds', 150000],
    ]) {
      const key = freshKey();
      const ask = (amount) => user.post(`/payments/${made.id}/${move}`, { amount }, key, AT_ONCE);
      const { errors } = assertProblem(await ask(150050), 422, 'invalid-parameters');
      assert.deepEqual(errors, [
        {
          field: 'amount',
          message: 'must be a multiple of 100 in idr: adyen takes it in whole units only',
        },
      ]);
      assert.ok((await ask(then)).status < 300);
      if (move === 'capture') await toldOfCapture(made.id);
    }
    assert.deepEqual(await majors(made.id), [{ amount: '10000', captured: '4000', refunded: '1500' }]);
  });

  for (const [what, payment, field] of [
    ['an amount that Adyen cannot express', { ...PROVIDER, amount: 1000050, currency: 'idr' }, 'amount'],
    ['one that only the fallback cannot', { fallback, amount: 1000050, currency: 'idr' }, 'amount'],
    ['a currency that Adyen does not take', { ...PROVIDER, amount: 1000, currency: 'mga' }, 'currency'],
    ['another one', { ...PROVIDER, amount: 1000, currency: 'bif' }, 'currency'],
    [
      'one that only the fallback takes not',
      { fallback, amount: 1000, currency: 'bif' },
      'fallback[provider]',
    ],
    ['one of which Stripe says two things', { amount: 50000, currency: 'ugx' }, 'currency'],
    ['a fraction of a króna', { amount: 50050, currency: 'isk' }, 'amount'],
    ['the third decimal of a dinar', { amount: 1001, currency: 'kwd' }, 'amount'],
  ])
    test(`${what} is refused before anything is run`, async () => {
      const refused = await withoutEffect(site, () => user.pay(payment, freshKey()));
      const { errors } = assertProblem(refused, 422, 'invalid-parameters');
      assert.deepEqual(
        errors.map((error) => error.field),
        [field],
      );
    });

  test('Stripe alone takes those that Adyen does not', async () => {
    const made = await paid(user, { amount: 1000, currency: 'mga' });
    assert.deepEqual(await majors(made.id), [{ amount: '1000', captured: '1000', refunded: '0' }]);
  });
});

describe('configured as the provider', async () => {
  const site = await startSite({ vars: { PROVIDER: 'adyen' } });
  after(() => site.close());

  test('it takes what names no other one, with the card of the account', async () => {
    const user = client(site);
    const made = await paid(user);
    assert.equal(made.provider, 'adyen');
    assert.equal(
      (await paid(user, { ...PAYMENT, provider: 'stripe', payment_method: 'pm_card_visa' })).provider,
      'stripe',
    );
    const declined = await client(site, DECLINED_USER).pay(PAYMENT, freshKey());
    assertProblem(declined, 402, 'payment-failed', { code: 'card_declined' });
  });
});

describe('not configured', async () => {
  const none = { ADYEN_API_BASE: '', ADYEN_API_KEY: '', ADYEN_MERCHANT_ACCOUNT: '' };
  const site = await startSite({ vars: none });
  after(() => site.close());

  test('it cannot be asked for, and nothing is run', async () => {
    const user = client(site);
    for (const [payment, field] of [
      [{ ...PAYMENT, ...PROVIDER }, 'provider'],
      [{ ...PAYMENT, fallback }, 'fallback[provider]'],
    ]) {
      const refused = await withoutEffect(site, () => user.pay(payment, freshKey()));
      const { errors } = assertProblem(refused, 422, 'invalid-parameters');
      assert.deepEqual(
        errors.map((error) => error.field),
        [field],
      );
    }
  });
});
