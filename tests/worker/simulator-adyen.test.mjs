// The simulator's Adyen, over HTTP and over a service binding. Every test begins with an empty account; nothing sleeps.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';

import { DAY_MS, caller, shareSimulator } from './support/lone-simulator.mjs';

const BASE = '/adyen/checkout/v71';

const lone = await shareSimulator({ beside: [caller] });
const { origin, sim, fault, ledger, advance, requests, arrived } = lone;
after(lone.close);
beforeEach(lone.reset);

const notified = async (payment) =>
  (await sim('GET', `adyen/notifications?payment=${payment}`)).notificationItems.map(
    (item) => item.NotificationRequestItem,
  );

async function post(path, body, { key, headers = {}, signal } = {}) {
  const response = await fetch(new URL(BASE + path, origin), {
    method: 'POST',
    headers: {
      'X-API-Key': 'any',
      'Content-Type': 'application/json',
      ...(key === undefined ? {} : { 'Idempotency-Key': key }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    signal,
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
}

const payment = ({ card = 'adyen_card_visa', ...more } = {}) => ({
  amount: { value: 1250, currency: 'EUR' },
  reference: 'pay_1',
  merchantAccount: 'PaidOnce',
  returnUrl: 'https://shop.test/back',
  paymentMethod: { type: 'scheme', storedPaymentMethodId: card },
  shopperReference: 'shopper_1',
  shopperInteraction: 'ContAuth',
  recurringProcessingModel: 'CardOnFile',
  metadata: { resource: 'pay_1' },
  ...more,
});
const manual = (more) => payment({ additionalData: { manualCapture: 'true' }, ...more });
const pay = (body = payment(), options) => post('/payments', body, options);
const modify = (psp, what, value, options) =>
  post(
    `/payments/${psp}/${what}`,
    {
      merchantAccount: 'PaidOnce',
      reference: `${what}_1`,
      ...(value === undefined ? {} : { amount: { value, currency: 'EUR' } }),
    },
    options,
  );

describe('payments', () => {
  test('are authorised and captured in one call', async () => {
    const { status, headers, body } = await pay();
    assert.equal(status, 200);
    assert.match(body.pspReference, /^[0-9A-Z]{16}$/);
    assert.equal(headers.get('pspreference'), body.pspReference);
    assert.deepEqual(body, {
      pspReference: body.pspReference,
      resultCode: 'Authorised',
      amount: { currency: 'EUR', value: 1250 },
      merchantReference: 'pay_1',
      paymentMethod: { brand: 'visa', type: 'scheme' },
      additionalData: { cardSummary: '1111', paymentMethod: 'visa' },
    });
    const { charges, totals } = await ledger('?metadata[resource]=pay_1');
    assert.deepEqual(
      [charges.length, charges[0].provider, charges[0].id, charges[0].reference, charges[0].status],
      [1, 'adyen', body.pspReference, 'pay_1', 'succeeded'],
    );
    assert.deepEqual(totals, { succeeded_charges: 1, amount_captured: 1250, amount_refunded: 0 });
  });

  for (const [card, resultCode, code, reason] of [
    ['adyen_card_refused', 'Refused', '2', 'Refused'],
    ['adyen_card_not_enough_balance', 'Refused', '12', 'Not enough balance'],
    ['adyen_card_blocked', 'Refused', '5', 'Blocked Card'],
    ['adyen_card_expired', 'Refused', '6', 'Expired Card'],
    ['adyen_card_error', 'Error', '4', 'Acquirer Error'],
  ]) {
    test(`${card} is answered 200 with ${resultCode}, and the answer is kept`, async () => {
      const first = await pay(payment({ card }), { key: 'k1' });
      assert.deepEqual(
        [first.status, first.body.resultCode, first.body.refusalReasonCode, first.body.refusalReason],
        [200, resultCode, code, reason],
      );
      assert.equal((await pay(payment({ card }), { key: 'k1' })).text, first.text);
      const { charges, totals } = await ledger();
      assert.deepEqual([charges.length, charges[0].status, totals.succeeded_charges], [1, 'failed', 0]);
    });
  }

  for (const [card, outcome, status] of [
    ['adyen_card_pending', 'true', 'succeeded'],
    ['adyen_card_pending_refused', 'false', 'failed'],
  ]) {
    test(`${card} is Pending for a minute, and then ${status}`, async () => {
      const { body } = await pay(payment({ card }));
      assert.equal(body.resultCode, 'Pending');
      assert.equal((await ledger()).charges[0].status, 'pending');
      assert.deepEqual(await notified(body.pspReference), []);
      await advance(60_000);
      assert.equal((await ledger()).charges[0].status, status);
      const [item] = await notified(body.pspReference);
      assert.deepEqual([item.eventCode, item.success], ['AUTHORISATION', outcome]);
    });
  }

  for (const [decision, card, resultCode, charges] of [
    ['accept', 'adyen_card_3ds', 'Authorised', 1],
    ['fail', 'adyen_card_3ds', 'Refused', 0],
    ['accept', 'adyen_card_3ds_refused', 'Refused', 1],
  ]) {
    test(`3-D Secure: ${decision} with ${card} ends ${resultCode}`, async () => {
      const { body } = await pay(payment({ card, returnUrl: 'https://shop.test/back?order=7' }));
      assert.equal(body.resultCode, 'RedirectShopper');
      assert.deepEqual([body.action.type, body.action.method], ['redirect', 'GET']);
      assert.equal(body.pspReference, undefined);
      const psp = body.action.url.split('/').at(-1);
      assert.equal(body.action.url, `${origin.origin}/_sim/3ds/${psp}`);
      assert.match(await (await fetch(body.action.url)).text(), /Complete authentication/);
      assert.equal((await ledger()).charges.length, 0);
      const press = () => fetch(`${body.action.url}/${decision}`, { method: 'POST', redirect: 'manual' });
      const back = new URL((await press()).headers.get('location'));
      assert.equal(back.searchParams.get('order'), '7');
      assert.equal((await press()).status, 200);
      const details = { details: { redirectResult: back.searchParams.get('redirectResult') } };
      const ended = await post('/payments/details', details);
      assert.deepEqual(
        [ended.status, ended.body.resultCode, ended.body.pspReference],
        [200, resultCode, psp],
      );
      assert.equal((await post('/payments/details', details)).body.resultCode, resultCode);
      assert.equal((await ledger()).charges.length, charges);
    });
  }

  test('without the shopper there is no 3-D Secure, only a refusal', async () => {
    const { body } = await pay(
      payment({ card: 'adyen_card_3ds', recurringProcessingModel: 'UnscheduledCardOnFile' }),
    );
    assert.deepEqual([body.resultCode, body.refusalReasonCode], ['Refused', '11']);
  });

  test('with the shopper there, and no authentication attempted, the issuer refuses', async () => {
    const authenticationData = { attemptAuthentication: 'never' };
    const { body } = await pay(payment({ card: 'adyen_card_3ds', authenticationData }));
    assert.deepEqual([body.resultCode, body.refusalReasonCode], ['Refused', '38']);
  });

  test('are captured after captureDelayHours', async () => {
    await pay(payment({ captureDelayHours: 2 }));
    assert.equal((await ledger()).totals.amount_captured, 0);
    await advance(2 * 3_600_000);
    assert.equal((await ledger()).totals.amount_captured, 1250);
  });
});

describe('modifications', () => {
  test('a reversal is a cancel or a refund, and says which', async () => {
    for (const [order, action] of [
      [manual(), 'cancel'],
      [payment(), 'refund'],
    ]) {
      const { body: paid } = await pay(order);
      const { status, body } = await modify(paid.pspReference, 'reversals');
      assert.deepEqual([status, body.status], [201, 'received']);
      const [, item] = await notified(paid.pspReference);
      assert.deepEqual(
        [item.eventCode, item.additionalData['modification.action']],
        ['CANCEL_OR_REFUND', action],
      );
    }
  });

  test('a capture, a refund and a cancel are received', async () => {
    const { body: reserved } = await pay(manual());
    assert.deepEqual((await ledger()).totals, {
      succeeded_charges: 1,
      amount_captured: 0,
      amount_refunded: 0,
    });
    const capture = await modify(reserved.pspReference, 'captures', 1000);
    assert.equal(capture.status, 201);
    assert.deepEqual(capture.body, {
      merchantAccount: 'PaidOnce',
      paymentPspReference: reserved.pspReference,
      pspReference: capture.body.pspReference,
      status: 'received',
      reference: 'captures_1',
      amount: { currency: 'EUR', value: 1000 },
    });
    const refund = await modify(reserved.pspReference, 'refunds', 400);
    assert.equal(refund.body.status, 'received');
    const { body: other } = await pay(manual());
    const cancel = await modify(other.pspReference, 'cancels');
    assert.deepEqual([cancel.status, cancel.body.status, cancel.body.amount], [201, 'received', undefined]);
    const { captures, refunds, cancels, charges, totals } = await ledger();
    assert.deepEqual(
      [captures, refunds, cancels].map(([line]) => [line.provider, line.status, line.charge, line.amount]),
      [
        ['adyen', 'succeeded', reserved.pspReference, 1000],
        ['adyen', 'succeeded', reserved.pspReference, 400],
        ['adyen', 'succeeded', other.pspReference, 1250],
      ],
    );
    assert.deepEqual(
      charges.map((charge) => charge.voided),
      [false, true],
    );
    assert.deepEqual(totals, { succeeded_charges: 2, amount_captured: 1000, amount_refunded: 400 });
    assert.deepEqual(
      (await notified(reserved.pspReference)).map((item) => [
        item.eventCode,
        item.success,
        item.originalReference,
      ]),
      [
        ['AUTHORISATION', 'true', undefined],
        ['CAPTURE', 'true', reserved.pspReference],
        ['REFUND', 'true', reserved.pspReference],
      ],
    );
  });

  for (const [what, more, steps, list] of [
    ['a capture above what is authorised', {}, [['captures', 1251]], 'captures'],
    [
      'a second capture',
      {},
      [
        ['captures', 500],
        ['captures', 500],
      ],
      'captures',
    ],
    ['a capture after a cancel', {}, [['cancels'], ['captures', 1250]], 'captures'],
    ['a cancel after a capture', {}, [['captures', 1250], ['cancels']], 'cancels'],
    [
      'a refund above what was captured',
      {},
      [
        ['captures', 1000],
        ['refunds', 1001],
      ],
      'refunds',
    ],
    [
      'a capture that the issuer refuses',
      { card: 'adyen_card_capture_fails' },
      [['captures', 1250]],
      'captures',
    ],
    [
      'a refund that the issuer refuses',
      { card: 'adyen_card_refund_fails' },
      [
        ['captures', 1250],
        ['refunds', 1],
      ],
      'refunds',
    ],
    ['a refund of a refused payment', { card: 'adyen_card_refused' }, [['refunds', 1]], 'refunds'],
  ]) {
    test(`${what} is received, and fails`, async () => {
      const { body } = await pay(manual(more));
      let before;
      for (const [path, value] of steps) {
        before = (await ledger()).totals;
        const answer = await modify(body.pspReference, path, value);
        assert.deepEqual([answer.status, answer.body.status], [201, 'received']);
      }
      const { totals, ...lists } = await ledger();
      assert.deepEqual(totals, before);
      const failed = lists[list].at(-1);
      assert.equal(failed.status, 'failed');
      const last = (await notified(body.pspReference)).at(-1);
      assert.deepEqual([last.success, last.reason, last.pspReference], ['false', failed.failure, failed.id]);
    });
  }

  test('a technical cancel names a payment by its reference, and tells only of what it has found', async () => {
    const { body } = await pay(manual({ reference: 'lost_1' }));
    const cancel = (paymentReference) =>
      post('/cancels', { merchantAccount: 'PaidOnce', paymentReference, reference: 'called_off' });
    const answer = await cancel('lost_1');
    assert.deepEqual([answer.status, answer.body.status], [201, 'received']);
    assert.equal(answer.body.paymentReference, 'lost_1');
    const told = (await notified(body.pspReference)).at(-1);
    assert.deepEqual(
      [told.eventCode, told.success, told.merchantReference, told.originalReference],
      ['TECHNICAL_CANCEL', 'true', 'called_off', body.pspReference],
    );
    assert.equal((await ledger()).charges[0].voided, true);
    assert.equal((await cancel('nothing_like_it')).status, 201);
    assert.equal((await ledger()).cancels.length, 1);
    const { body: taken } = await pay(payment({ reference: 'taken_1' }));
    await cancel('taken_1');
    assert.equal((await notified(taken.pspReference)).at(-1).success, 'false');
  });

  test('of an unknown payment, or of another account, are refused', async () => {
    const unknown = await modify('ABCDEFGH12345678', 'captures', 1250);
    assert.deepEqual([unknown.status, unknown.body.errorCode], [422, '167']);
    const { body } = await pay();
    const other = await post(`/payments/${body.pspReference}/cancels`, { merchantAccount: 'Other' });
    assert.equal(other.body.errorCode, '167');
  });
});

describe('idempotency', () => {
  test('the same body, in whatever order, replays the same bytes and pays once', async () => {
    const first = await pay(payment(), { key: 'k1' });
    const shuffled = Object.fromEntries(Object.entries(payment()).reverse());
    const second = await pay(shuffled, { key: 'k1' });
    assert.equal(second.text, first.text);
    assert.deepEqual([second.status, second.headers.get('idempotency-key')], [200, 'k1']);
    assert.equal((await ledger()).charges.length, 1);
    assert.deepEqual(
      (await requests('k1')).map((request) => [request.provider, request.status, request.replayed]),
      [
        ['adyen', 200, false],
        ['adyen', 200, true],
      ],
    );
    const once = await modify(first.body.pspReference, 'refunds', 100, { key: 'k2' });
    const twice = await modify(first.body.pspReference, 'refunds', 100, { key: 'k2' });
    assert.deepEqual([twice.status, twice.text], [201, once.text]);
    assert.equal((await ledger()).totals.amount_refunded, 100);
  });

  test('other parameters or another endpoint are refused for good', async () => {
    const { body } = await pay(payment(), { key: 'k1' });
    for (const answer of [
      await pay(payment({ reference: 'pay_2' }), { key: 'k1' }),
      await modify(body.pspReference, 'refunds', 1250, { key: 'k1' }),
    ]) {
      assert.deepEqual([answer.status, answer.body.errorCode], [422, '702']);
      assert.equal(answer.headers.get('transient-error'), null);
    }
    const { charges, refunds } = await ledger();
    assert.deepEqual([charges.length, refunds.length], [1, 0]);
  });

  test('while the first runs, its key answers 704, which is transient', async () => {
    await fault('slow', { delay_ms: 60_000, path: '/adyen/' });
    const first = pay(payment(), { key: 'k1' });
    await arrived('k1');
    const second = await pay(payment(), { key: 'k1' });
    assert.deepEqual(
      [second.status, second.body.errorCode, second.headers.get('transient-error')],
      [422, '704', 'true'],
    );
    await sim('DELETE', 'faults');
    assert.equal((await pay(payment(), { key: 'k1' })).text, (await first).text);
    assert.equal((await ledger()).charges.length, 1);
  });

  test('after seven days a key is forgotten and pays anew', async () => {
    const first = await pay(payment(), { key: 'k1' });
    await advance(7 * DAY_MS - 60_000);
    assert.equal((await pay(payment(), { key: 'k1' })).text, first.text);
    await advance(120_000);
    assert.notEqual((await pay(payment(), { key: 'k1' })).body.pspReference, first.body.pspReference);
    assert.equal((await ledger()).totals.succeeded_charges, 2);
  });

  test('a key has at most 64 characters', async () => {
    assert.equal((await pay(payment(), { key: 'k'.repeat(64) })).status, 200);
    assert.equal((await pay(payment(), { key: 'k'.repeat(65) })).status, 422);
  });
});

describe('errors', () => {
  for (const [what, body, status, errorCode] of [
    ['no amount', payment({ amount: undefined }), 422, '100'],
    ['an amount of nothing', payment({ amount: { value: 0, currency: 'EUR' } }), 422, '137'],
    ['a currency in lower case', payment({ amount: { value: 1, currency: 'eur' } }), 422, '138'],
    ['a currency that Adyen does not take', payment({ amount: { value: 1, currency: 'MGA' } }), 422, '138'],
    ['an amount that is a text', payment({ amount: { value: '1', currency: 'EUR' } }), 400, '702'],
    ['no reference', payment({ reference: undefined }), 422, '130'],
    ['a reference of more than 80 characters', payment({ reference: 'r'.repeat(81) }), 400, '702'],
    ['no way back, though nobody is sent away', payment({ returnUrl: undefined }), 422, '14_030'],
    ['a way back that is a number', payment({ returnUrl: 7 }), 400, '702'],
    ['an unknown model', payment({ recurringProcessingModel: 'Sometimes' }), 400, '702'],
    ['no account', payment({ merchantAccount: undefined }), 403, '901'],
    ['no payment method', payment({ paymentMethod: undefined }), 422, '14_004'],
    ['no card', payment({ paymentMethod: { type: 'ideal' } }), 500, '905_1'],
    ['an unknown stored payment method', payment({ card: 'adyen_card_nowhere' }), 422, '803'],
    ['too long metadata', payment({ metadata: { k: 'v'.repeat(81) } }), 422, '177'],
    ['an unknown field', payment({ amonut: 1 }), 400, '702'],
    ['a number that is a text', payment({ captureDelayHours: 'x' }), 400, '702'],
    ['no JSON', '{', 400, '702'],
  ]) {
    test(`${what} is ${status} ${errorCode}, and the key stays free`, async () => {
      const answer = await pay(body, { key: 'k1' });
      assert.deepEqual(
        [answer.status, answer.body.status, answer.body.errorCode],
        [status, status, errorCode],
      );
      assert.match(answer.body.pspReference, /^[0-9A-Z]{16}$/);
      assert.equal((await pay(payment(), { key: 'k1' })).status, 200);
      assert.equal((await ledger()).charges.length, 1);
    });
  }

  test('without an API key there is no entry, and without an endpoint nothing to do', async () => {
    const answer = await pay(payment(), { headers: { 'X-API-Key': '' } });
    assert.deepEqual([answer.status, answer.body.errorType], [401, 'security']);
    assert.equal((await post('/nowhere', {})).status, 404);
  });
});

describe('faults', () => {
  for (const [name, status, transient, charges, afterwards] of [
    ['error_before', 500, 'true', 0, 200],
    ['error_after', 500, null, 1, 500],
    ['rate_limited', 429, 'true', 0, 200],
    ['lock_timeout', 422, 'true', 0, 200],
    ['key_store_down', 503, null, 0, 200],
    ['rate_limited_as500', 500, null, 0, 200],
    ['configuration_error', 500, null, 0, 200],
    ['problem_json', 422, null, 0, 200],
  ]) {
    test(`${name}: ${status}, ${charges} charged, and the key then answers ${afterwards}`, async () => {
      await fault(name, { path: `${BASE}/payments` });
      const answer = await pay(payment(), { key: 'k1' });
      assert.deepEqual([answer.status, answer.headers.get('transient-error')], [status, transient]);
      assert.equal((await ledger()).charges.length, charges);
      assert.equal((await pay(payment(), { key: 'k1' })).status, afterwards);
      const { totals } = await ledger();
      assert.equal(totals.succeeded_charges, 1);
    });
  }

  test('problem_json is the other form of an error', async () => {
    await fault('problem_json');
    const { headers, body } = await pay();
    assert.equal(headers.get('content-type'), 'application/problem+json');
    assert.deepEqual(Object.keys(body).sort(), [
      'detail',
      'errorCode',
      'requestId',
      'status',
      'title',
      'type',
    ]);
  });

  for (const [name, charges] of [
    ['connection_reset', 0],
    ['connection_reset_after', 1],
    ['request_lost', 0],
    ['response_lost', 1],
  ]) {
    test(`${name}: no answer, ${charges} charged, and the key then answers 200`, async () => {
      const lost = name.endsWith('lost');
      await fault(name, lost ? { delay_ms: 60_000 } : {});
      const signal = lost ? AbortSignal.timeout(250) : undefined;
      await assert.rejects(pay(payment(), { key: 'k1', signal }));
      assert.equal((await ledger()).charges.length, charges);
      assert.equal((await pay(payment(), { key: 'k1' })).status, 200);
      assert.equal((await ledger()).charges.length, 1);
    });
  }

  test('slow_response: it is done and kept before the answer comes', async () => {
    await fault('slow_response', { delay_ms: 60_000 });
    const first = pay(payment(), { key: 'k1' });
    await arrived('k1');
    const replayed = await pay(payment(), { key: 'k1' });
    await sim('DELETE', 'faults');
    assert.equal((await first).text, replayed.text);
  });

  test('meet only the provider whose path they were armed for', async () => {
    await fault('error_before', { path: '/v1/' });
    assert.equal((await pay()).status, 200);
    assert.equal((await sim('GET', 'faults')).faults.length, 1);
  });

  test('over a service binding a cut throws, and the charge is there', async () => {
    const call = async (more = {}) => {
      const headers = { 'X-API-Key': 'x', 'Content-Type': 'application/json', 'Idempotency-Key': 'k1' };
      const init = { method: 'POST', headers, body: JSON.stringify(payment()) };
      return lone.call(`https://adyen.simulator${BASE}/payments`, init, more);
    };
    await fault('connection_reset_after');
    assert.match((await call()).threw, /never generate a response/);
    await fault('response_lost', { delay_ms: 60_000 });
    assert.equal((await call({ timeout_ms: 200 })).name, 'TimeoutError');
    assert.deepEqual(
      [JSON.parse((await call()).body).resultCode, (await ledger()).charges.length],
      ['Authorised', 1],
    );
  });
});

describe('the ledger', () => {
  test('keeps both providers in one order, and one of them where it is asked for', async () => {
    await pay();
    const stripe = await fetch(new URL('/v1/payment_intents', origin), {
      method: 'POST',
      headers: { Authorization: 'Bearer sk_test_x', 'Content-Type': 'application/x-www-form-urlencoded' },
      body: 'amount=500&currency=eur&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true',
    });
    assert.equal(stripe.status, 200);
    await pay();
    const both = await ledger();
    assert.deepEqual(
      both.charges.map((charge) => charge.provider),
      ['adyen', 'stripe', 'adyen'],
    );
    assert.deepEqual(both.totals, { succeeded_charges: 3, amount_captured: 3000, amount_refunded: 0 });
    assert.equal((await ledger('?provider=stripe')).totals.amount_captured, 500);
    assert.equal((await ledger('?provider=adyen')).totals.amount_captured, 2500);
    assert.match(await (await fetch(origin)).text(), /<td>adyen<\/td>/);
    assert.deepEqual(
      (await sim('GET', 'requests')).requests.map((request) => request.provider),
      ['adyen', 'stripe', 'adyen'],
    );
  });
});

describe('a report of a payout', () => {
  const download = async (name, key = 'any') => {
    const headers = key === undefined ? {} : { 'x-api-key': key };
    const response = await fetch(new URL(`/adyen/reports/${name}`, origin), { headers });
    return { status: response.status, text: await response.text() };
  };
  /** The lines as type, psp, modification, currency, debit and credit. */
  const lines = (text) =>
    text
      .trimEnd()
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(','))
      .map((cells) => [7, 2, 8, 9, 10, 11].map((cell) => cells[cell]));

  test('has what was told since the one before, in major units, and stays as it is', async () => {
    const { pspReference: paid } = (await pay()).body;
    const { pspReference: pesos } = (await pay(payment({ amount: { value: 100_000, currency: 'CLP' } })))
      .body;
    const { pspReference: refused } = (await pay(payment({ card: 'adyen_card_refused' }))).body;
    const first = await sim('POST', 'adyen/reports', {});
    const { pspReference: back } = (await modify(paid, 'refunds', 705)).body;
    const second = await sim('POST', 'adyen/reports', {});
    const one = await download(first.name);
    assert.equal(one.status, 200);
    assert.deepEqual(
      lines(one.text).filter(([type]) => !['Fee', 'MerchantPayout'].includes(type)),
      [
        ['Settled', paid, paid, 'EUR', '', '12.50'],
        ['Settled', pesos, pesos, 'CLP', '', '1000.00'],
      ],
    );
    assert.ok(!one.text.includes(refused));
    const two = await download(second.name);
    assert.deepEqual(lines(two.text)[0], ['Refunded', paid, back, 'EUR', '7.05', '']);
    await advance(DAY_MS);
    assert.equal((await download(first.name)).text, one.text);
    assert.equal((await download('settlement_detail_report_batch_3.csv')).status, 404);
    assert.equal((await download(first.name, '')).status, 401);
  });

  test('is told of, with the address where it is', async () => {
    await pay();
    const { name, address } = await sim('POST', 'adyen/reports', {});
    const { notificationItems } = await sim('GET', 'adyen/notifications');
    const { NotificationRequestItem: item } = notificationItems.at(-1);
    assert.deepEqual(
      [item.eventCode, item.pspReference, item.reason, item.success, item.merchantAccountCode],
      ['REPORT_AVAILABLE', name, address, 'true', 'PaidOnce'],
    );
  });
});
