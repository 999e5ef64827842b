// What the providers tell by themselves: believed if they have signed it, taken in once, and only forward. Nothing here waits
// for the alarm, which is far away, and nobody looks: what a payment has become is read in its rows.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';
import Stripe from 'stripe';

import { freshKey, read } from './support/account.mjs';
import { ADYEN_KEY, notify, signed } from './support/adyen.mjs';
import { withoutEffect } from './support/effects.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { inboxOf, worked } from './support/inbox.mjs';
import { jobsOf, receiptsOf } from './support/jobs.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  PAYMENT,
  assertProblem,
  client,
  moved,
  operations,
  paid,
  send,
} from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const STRIPE_SECRET = 'whsec_demo_0123456789abcdef0123456789abcdef';
const NEXT_SECRET = 'whsec_next_0123456789abcdef0123456789abcdef';
const NEXT_KEY = 'ab'.repeat(32);
const ADYEN = { provider: 'adyen' };
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

// Both secrets are being rolled.
const site = await startSite({
  vars: {
    ...IMPATIENT,
    STRIPE_WEBHOOK_SECRET: `${STRIPE_SECRET} ${NEXT_SECRET}`,
    ADYEN_HMAC_KEY: `${NEXT_KEY} ${ADYEN_KEY}`,
  },
});
const user = client(site);
after(() => site.close());
afterEach(async () => {
  await site.simulator.calm();
  await site.simulator.webhooks('off');
});

const stripe = new Stripe('sk_test_any');
const stripeEvent = (more = {}) => ({
  id: `evt_${randomUUID()}`,
  object: 'event',
  type: 'charge.refunded',
  data: { object: { id: 'ch_1', object: 'charge', payment_intent: 'pi_of_nobody', metadata: {} } },
  ...more,
});
/** `Stripe-Signature` by Stripe's own package. */
const signature = (payload, { secret = STRIPE_SECRET, ...more } = {}) =>
  stripe.webhooks.generateTestHeaderString({ payload, secret, ...more });
const toStripe = async (payload, header, to = site) =>
  read(
    await to.fetch('/webhooks/stripe', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(header && { 'stripe-signature': header }) },
      body: payload,
    }),
  );

const adyenItem = (more = {}) => ({
  additionalData: {},
  amount: { value: 2500, currency: 'USD' },
  eventCode: 'AUTHORISATION',
  merchantAccountCode: 'PaidOnceDemo',
  merchantReference: 'somebody-elses',
  originalReference: '',
  pspReference: randomUUID(),
  reason: '',
  success: 'true',
  ...more,
});
/** Adyen's notification, and what it is answered; what follows from it is done then. */
async function toAdyen(...items) {
  const answer = await notify(site, ...items);
  await worked(site);
  return answer;
}
/** Adyen's items about a payment, as the simulator records them. */
const itemsOf = async (payment) => {
  const [row] = await site.objects.sql(payment, 'SELECT provider_payment FROM payments');
  const psp = row.provider_payment ?? (await pspOf(payment));
  return (await site.simulator.notifications(psp)).notificationItems.map(
    (one) => one.NotificationRequestItem,
  );
};
/** Adyen's reference of a payment whose answer was lost. */
const pspOf = async (payment) => (await site.simulator.ledger(payment)).charges[0].id;
async function tellOf({ pspReference, eventCode }) {
  const status = await site.simulator.tell(`${pspReference}:${eventCode}`);
  await worked(site);
  return status;
}

/** How a payment stands in its rows: nobody is asked. */
const statusOf = async (payment) =>
  (await site.objects.sql(payment, 'SELECT status FROM payments'))[0].status;
const refundStatuses = async (payment) =>
  (await site.objects.sql(payment, 'SELECT status FROM refunds ORDER BY created_at_ms, refund_id')).map(
    ({ status }) => status,
  );
const openKeys = async (payment) =>
  (await site.objects.keys(payment)).filter(({ status }) => status === 'open').length;
const reaches = (payment, status) => until(status, async () => (await statusOf(payment)) === status);
const breaksOf = (payment) =>
  site.rows('SELECT * FROM breaks WHERE note LIKE ? OR object = ?', `%${payment}%`, hexOf(payment));
const hexOf = (payment) => Buffer.from(payment.slice('pay_'.length), 'base64url').toString('hex');
/** Puts off what the alarm would ask. */
const nobodyAsks = (payment) =>
  site.objects.sql(
    payment,
    "UPDATE payments SET details = json_set(details, '$.check.next_at_ms', CAST(? AS INTEGER)) WHERE details ->> '$.check' IS NOT NULL",
    Date.now() + HOUR_MS,
  );

describe("Stripe's signature", () => {
  const payload = JSON.stringify(stripeEvent());
  const now = () => Math.floor(Date.now() / 1000);

  for (const [what, header] of [
    ['is right', () => signature(payload)],
    ['is of the next secret', () => signature(payload, { secret: NEXT_SECRET })],
    ['is four minutes old', () => signature(payload, { timestamp: now() - 240 })],
    ['is one of several', () => signature(payload).replace(',v1=', `,v1=${'0'.repeat(64)},v1=`)],
  ])
    test(`that ${what} is believed`, async () => {
      const answer = await toStripe(payload, header());
      assert.deepEqual([answer.status, answer.json()], [200, { received: true }]);
    });

  for (const [what, header] of [
    ['is not there', () => undefined],
    ['is no signature', () => 'v1'],
    ['is forged', () => signature(payload, { secret: 'whsec_of_somebody_else' })],
    ['is of another body', () => signature(`${payload} `)],
    ['is six minutes old', () => signature(payload, { timestamp: now() - 360 })],
    ['is of the future', () => signature(payload, { timestamp: now() + 360 })],
    ['is of the scheme for tests', () => signature(payload, { scheme: 'v0' })],
    ['has another time', () => signature(payload, { timestamp: now() - 100 }).replace(/t=\d+/, `t=${now()}`)],
  ])
    test(`that ${what} is refused`, async () => {
      assertProblem(await toStripe(payload, header()), 400, 'webhook-signature');
    });

  test('of what is no event is of no use', async () => {
    assertProblem(await toStripe('{}', signature('{}')), 400, 'bad-request');
  });
});

describe("Adyen's signature", () => {
  test('that is right, of the one key or the other, is believed', async () => {
    for (const key of [ADYEN_KEY, NEXT_KEY]) {
      const answer = await toAdyen(signed(adyenItem(), key));
      assert.deepEqual([answer.status, answer.text], [200, '[accepted]']);
    }
  });

  test('that is missing, forged, or of another item is refused, with all that comes with it', async () => {
    const good = signed(adyenItem());
    for (const bad of [
      adyenItem(),
      signed(adyenItem(), 'cd'.repeat(32)),
      { ...good, success: 'false' },
      { ...good, amount: { value: 1, currency: 'USD' } },
    ]) {
      assertProblem(await toAdyen(bad), 400, 'webhook-signature');
      assertProblem(await toAdyen(good, bad), 400, 'webhook-signature');
    }
  });

  test('of another merchant account is none of ours', async () => {
    const { id } = await paid(user, { ...AUTHORISATION, ...ADYEN });
    const [item] = await itemsOf(id);
    const failed = { ...item, success: 'false', originalReference: '' };
    const answer = await toAdyen(signed({ ...failed, merchantAccountCode: 'SomebodyElse' }));
    assert.equal(answer.status, 200);
    assert.deepEqual(await breaksOf(id), []);
  });
});

test('without its secret a provider is not listened to', async () => {
  const [demo, ...others] = demoWorkers();
  const vars = { STRIPE_WEBHOOK_SECRET: '', ADYEN_HMAC_KEY: '' };
  const deaf = await startSite({ workers: [{ ...demo, vars }, ...others] });
  try {
    const payload = JSON.stringify(stripeEvent());
    assertProblem(await toStripe(payload, signature(payload), deaf), 401, 'unauthorized');
  } finally {
    await deaf.close();
  }
});

describe('an event', () => {
  test('of an unknown type, or about somebody else, is accepted and changes nothing', async () => {
    const nobodys = `pay_${Buffer.alloc(32, 7).toString('base64url')}`;
    const events = [
      stripeEvent({ type: 'some.news', data: { object: { object: 'some_news' } } }),
      stripeEvent(),
      stripeEvent({
        data: { object: { id: 'pi_1', object: 'payment_intent', metadata: { resource: nobodys } } },
      }),
      stripeEvent({ data: { object: { id: 're_1', object: 'refund', metadata: { payment: 'pay_short' } } } }),
    ];
    await withoutEffect(site, async () => {
      for (const event of events) {
        const payload = JSON.stringify(event);
        assert.equal((await toStripe(payload, signature(payload))).status, 200, payload);
      }
      for (const item of [
        adyenItem({ eventCode: 'REPORT_AVAILABLE' }),
        adyenItem({ merchantReference: `${nobodys}.1234` }),
      ])
        assert.equal((await toAdyen(signed(item))).text, '[accepted]');
    });
  });

  test('of another account, or of the other mode, changes nothing, whatever its object says', async () => {
    const { id } = await paid(user, { ...PAYMENT, payment_method: 'pm_card_processing' });
    const object = { id: 'pi_elsewhere', object: 'payment_intent', metadata: { resource: id } };
    const tell = async (more) => {
      const payload = JSON.stringify(stripeEvent({ ...more, data: { object } }));
      assert.equal((await toStripe(payload, signature(payload))).status, 200, payload);
      const { audit_records: audit, timeline } = await site.objects.dump(id);
      return timeline.filter(({ event }) => event === 'webhook').length + audit.length;
    };
    const before = await tell({ account: 'acct_B' });
    assert.equal(await tell({ livemode: true }), before);
    assert.equal(await tell({ livemode: false }), before + 1, 'control: of our own it is taken in');
  });

  test('of up to 256 KiB is read, and a longer one is too large: nothing is said of its signature', async () => {
    const padded = (bytes) =>
      JSON.stringify(stripeEvent({ type: 'some.news', data: { object: { x: 'x'.repeat(bytes) } } }));
    const event = padded(200_000);
    assert.equal((await toStripe(event, signature(event))).status, 200);
    assertProblem(await toStripe(event, signature(event, { secret: 'another' })), 400, 'webhook-signature');
    const item = signed(adyenItem({ eventCode: 'SOME_NEWS' }));
    item.additionalData.more = 'x'.repeat(200_000);
    assert.equal((await toAdyen(item)).text, '[accepted]');
    const long = padded(262_144);
    assertProblem(await toStripe(long, signature(long)), 413, 'content-too-large');
    item.additionalData.more = 'x'.repeat(262_144);
    assertProblem(await toAdyen(item), 413, 'content-too-large');
  });

  test('of a kind that we do not know is accepted from Adyen, whatever it holds, with all that comes with it', async () => {
    const { id } = await paid(user, { ...PAYMENT, ...ADYEN });
    await moved(user, id, 'refunds', { amount: 700 });
    const refund = (await itemsOf(id)).find(({ eventCode }) => eventCode === 'REFUND');
    const odd = signed(adyenItem({ eventCode: 'CHARGEBACK', amount: { value: -2500, currency: 'USD' } }));
    const empty = {
      ...signed(adyenItem({ eventCode: 'REPORT_AVAILABLE', merchantReference: '' })),
      merchantReference: null,
    };
    const answer = await toAdyen({ ...odd, originalReference: null, reason: null }, empty, signed(refund));
    assert.deepEqual([answer.status, answer.text], [200, '[accepted]']);
    assert.deepEqual(await refundStatuses(id), ['succeeded']);
  });

  test('is taken in once', async () => {
    const { id } = await paid(user);
    const [event] = await site.simulator.events(id);
    assert.deepEqual([await site.simulator.tell(event.id), await site.simulator.tell(event.id)], [200, 200]);
    const lines = (await site.objects.timeline(id)).filter(({ event: name }) => name === 'webhook');
    assert.equal(lines.length, 1);
  });
});

describe('an outcome that nobody knows', () => {
  /** A request whose answer was lost; its alarm is far away. */
  async function lost(request, key = freshKey(), fault = {}) {
    // The alarm may be quicker than this test: it hears nothing either, until the next one is far away.
    await site.simulator.fault('response_lost', { count: 1000, ...fault });
    await site.simulator.fault('error_before', { method: 'GET', count: 1000 });
    const unknown = await send(user, request, key, AT_ONCE);
    assertProblem(unknown, 503, 'outcome-unknown');
    await site.objects.putOff(unknown.payment);
    await site.simulator.calm();
    return { id: unknown.payment, again: () => send(user, request, key) };
  }

  for (const operation of operations)
    test(`of ${operation.name} is known as soon as Stripe tells`, async () => {
      const told = await lost(await operation.prepare(user));
      // The control: the same, and no webhook.
      const untold = await lost(await operation.prepare(user));
      assert.deepEqual([await openKeys(told.id), await openKeys(untold.id)], [1, 1]);
      const events = await site.simulator.events(told.id);
      assert.equal(await site.simulator.tell(events.at(-1).id), 200);
      await until('the key is finished', async () => (await openKeys(told.id)) === 0);
      assert.equal(await openKeys(untold.id), 1, 'without a webhook it stays unknown');
      const answer = await told.again();
      assert.equal(answer.status, operation.status, answer.text);
      assert.equal(answer.header('idempotent-replayed'), 'true');
      assert.deepEqual(await site.simulator.moved(told.id), operation.moved);
    });

  for (const [name, prepare, status] of [
    ['a payment', async () => ({ path: '/payments', body: { ...PAYMENT, ...ADYEN } }), 201],
    ['an authorisation', async () => ({ path: '/payments', body: { ...AUTHORISATION, ...ADYEN } }), 201],
    [
      'a declined payment',
      async () => ({
        path: '/payments',
        body: { ...PAYMENT, ...ADYEN, payment_method: 'adyen_card_refused' },
      }),
      402,
    ],
    ['a capture', async () => ({ path: `/payments/${(await reserved()).id}/capture` }), 200],
    ['a void', async () => ({ path: `/payments/${(await reserved()).id}/void` }), 200],
    [
      'a refund',
      async () => ({
        path: `/payments/${(await paid(user, { ...PAYMENT, ...ADYEN })).id}/refunds`,
        body: { amount: 700 },
      }),
      201,
    ],
  ])
    test(`of ${name} at Adyen is what its notification says`, async () => {
      const { id, again } = await lost(await prepare(), freshKey(), { path: '/adyen/' });
      const sent = await adyenSends();
      assert.equal(await tellOf((await itemsOf(id)).at(-1)), 200);
      await until('the key is finished', async () => (await openKeys(id)) === 0);
      assert.equal(await adyenSends(), sent, 'nothing was sent again');
      const answer = await again();
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.header('idempotent-replayed'), 'true');
      assert.deepEqual(await breaksOf(id), []);
    });

  test('is not what Adyen says of something else: a void, a capture or a refund that was not made here', async () => {
    const { id, again } = await lost({ path: '/payments', body: { ...PAYMENT, ...ADYEN } }, freshKey(), {
      path: '/adyen/',
    });
    const [authorised] = await itemsOf(id);
    const elsewhere = { pspReference: randomUUID(), originalReference: authorised.pspReference };
    for (const [eventCode, success] of [
      ['CANCELLATION', 'false'],
      ['CAPTURE', 'false'],
      ['REFUND', 'true'],
      ['REFUND', 'false'],
    ]) {
      const answer = await toAdyen(signed({ ...authorised, ...elsewhere, eventCode, success }));
      assert.equal(answer.text, '[accepted]');
    }
    assert.equal(await openKeys(id), 1, 'nobody knows yet');
    const known = await inboxOf(site, elsewhere.pspReference);
    // That it could not be canceled says nothing at all.
    assert.deepEqual(known.map(({ state }) => state).sort(), ['done', 'waiting', 'waiting', 'waiting']);
    assert.equal(await tellOf(authorised), 200);
    assert.equal((await again()).status, 201);
  });

  for (const [eventCode, status, shown] of [
    ['CAPTURE', 201, 'succeeded'],
    ['CANCELLATION', 402, 'declined'],
  ])
    test(`ends with the ${eventCode} of a person in the Customer Area`, async () => {
      const { id, again } = await lost(
        { path: '/payments', body: { ...AUTHORISATION, ...ADYEN } },
        freshKey(),
        {
          path: '/adyen/',
        },
      );
      const [authorised] = await itemsOf(id);
      const elsewhere = { pspReference: randomUUID(), originalReference: authorised.pspReference };
      const answer = await toAdyen(signed({ ...authorised, ...elsewhere, eventCode }));
      assert.equal(answer.text, '[accepted]');
      assert.equal((await again()).status, status);
      await reaches(id, shown);
      assert.deepEqual(await breaksOf(id), []);
    });

  const reserved = () => paid(user, { ...AUTHORISATION, ...ADYEN });
  const adyenSends = async () =>
    (await site.simulator.requests()).filter(({ provider }) => provider === 'adyen').length;
});

describe('a payment that is processing', () => {
  for (const [card, status] of [
    ['pm_card_processing', 'succeeded'],
    ['pm_card_processingDeclined', 'declined'],
  ])
    test(`becomes ${status} when Stripe tells, once`, async () => {
      await site.simulator.webhooks('on');
      const made = await paid(user, { ...PAYMENT, payment_method: card });
      assert.equal(made.status, 'processing');
      await nobodyAsks(made.id);
      await site.simulator.flush();
      assert.equal(await statusOf(made.id), 'processing');
      await site.simulator.advance(MINUTE_MS + 1);
      await site.simulator.flush();
      await reaches(made.id, status);
      const receipts = status === 'succeeded' ? [`${made.id}_receipt`] : [];
      assert.deepEqual(await receiptsOf(site, made.id), receipts);
    });

  for (const [card, status] of [
    ['adyen_card_pending', 'succeeded'],
    ['adyen_card_pending_refused', 'declined'],
  ])
    test(`at Adyen becomes ${status} when it tells`, async () => {
      await site.simulator.webhooks('on');
      const made = await paid(user, { ...PAYMENT, ...ADYEN, payment_method: card });
      assert.equal(made.status, 'processing');
      await site.simulator.advance(MINUTE_MS + 1);
      await site.simulator.flush();
      await reaches(made.id, status);
      assert.deepEqual(await breaksOf(made.id), []);
    });
});

describe('a refund that is not decided', () => {
  for (const [card, status] of [
    ['pm_card_pendingRefund', 'succeeded'],
    ['pm_card_refundFail', 'failed'],
  ])
    test(`has ${status} when Stripe tells`, async () => {
      await site.simulator.webhooks('on');
      const { id } = await paid(user, { ...PAYMENT, payment_method: card });
      const refund = await moved(user, id, 'refunds', { amount: 700 });
      await nobodyAsks(id);
      await site.simulator.advance(MINUTE_MS + 1);
      await site.simulator.flush();
      await until(status, async () => (await refundStatuses(id))[0] === status);
      // A refund can fail after it had succeeded: then the person was told, and a person tells them more.
      const told = refund.status === 'succeeded' || status === 'succeeded';
      assert.equal((await receiptsOf(site, id)).includes(`${refund.id}_receipt`), told);
    });

  for (const [card, status] of [
    ['adyen_card_visa', 'succeeded'],
    ['adyen_card_refund_fails', 'failed'],
  ])
    test(`has ${status} when Adyen tells`, async () => {
      const { id } = await paid(user, { ...PAYMENT, ...ADYEN, payment_method: card });
      const refund = await moved(user, id, 'refunds', { amount: 700 });
      assert.equal(refund.status, 'pending');
      assert.equal(await tellOf((await itemsOf(id)).find(({ eventCode }) => eventCode === 'REFUND')), 200);
      assert.deepEqual(await refundStatuses(id), [status]);
      const receipts = await receiptsOf(site, id);
      assert.equal(receipts.includes(`${refund.id}_receipt`), status === 'succeeded');
      assert.equal((await user.payment(id)).json().amount_refunded, status === 'succeeded' ? 700 : 0);
    });
});

describe('what is done at the provider past us', () => {
  test('is found out when Stripe tells: a reservation that was given up', async () => {
    await site.simulator.webhooks('on');
    const { id, provider_payment: intent } = await paid(user, AUTHORISATION);
    await site.simulator.stripe(`payment_intents/${intent}/cancel`, { method: 'POST' });
    await site.simulator.flush();
    await reaches(id, 'canceled');
    assert.deepEqual(await receiptsOf(site, id), [`${id}_void_1_receipt`]);
  });

  const checkOf = async (id) => {
    const [{ asks }] = await site.objects.sql(id, "SELECT details ->> '$.check' AS asks FROM payments");
    return asks && JSON.parse(asks);
  };
  /** How a payment and its refunds stand in its rows. */
  const standing = async (id) => [await statusOf(id), ...(await refundStatuses(id))];

  async function reservation() {
    const { id, provider_payment: intent } = await paid(user, AUTHORISATION);
    const change = () => site.simulator.stripe(`payment_intents/${intent}/cancel`, { method: 'POST' });
    return { id, change, after: ['canceled'] };
  }

  async function refund() {
    const { id } = await paid(user, { ...PAYMENT, payment_method: 'pm_card_refundFail' });
    await moved(user, id, 'refunds', { amount: 700 });
    return { id, change: () => site.simulator.advance(MINUTE_MS + 1), after: ['succeeded', 'failed'] };
  }

  test('is found out though Stripe was silent at first, and control: nobody asks without its event', async () => {
    const all = [await reservation(), await refund(), await reservation(), await refund()];
    const before = await Promise.all(all.map(({ id }) => standing(id)));
    assert.deepEqual(before.slice(0, 2), [['requires_capture'], ['succeeded', 'succeeded']]);
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/payment_intents/', count: 1000 });
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/refunds/', count: 1000 });
    for (const { change } of all) await change();
    const [told, untold] = [all.slice(0, 2), all.slice(2)];
    for (const { id } of told) {
      const event = (await site.simulator.events(id)).at(-1);
      assert.equal(await site.simulator.tell(event.id), 200);
      await until('it was asked in vain', async () => (await checkOf(id))?.tries === 1);
      assert.equal(await site.simulator.tell(event.id), 200, 'it is known');
      await site.objects.evict(id);
    }
    assert.deepEqual(await Promise.all(all.map(({ id }) => standing(id))), before, 'nothing is known yet');
    await site.simulator.calm();
    for (const { id, after: now } of told) {
      await until(`${now}`, async () => `${await standing(id)}` === `${now}`);
      assert.equal(await checkOf(id), null, 'nothing more is asked');
    }
    assert.deepEqual(await Promise.all(untold.map(({ id }) => standing(id))), before.slice(2));
  });

  test('is for a person where a capture fails days later, and again where Adyen repeats it', async () => {
    const { id } = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, id, 'capture');
    const item = (await itemsOf(id)).find(({ eventCode }) => eventCode === 'CAPTURE');
    assert.equal(await tellOf(item), 200);
    assert.equal(await statusOf(id), 'succeeded');
    assert.deepEqual(await breaksOf(id), []);
    // It says "no" by its name.
    const failed = {
      ...item,
      eventCode: 'CAPTURE_FAILED',
      success: 'true',
      eventDate: '2099-01-01T00:00:00Z',
    };
    assert.equal((await toAdyen(signed(failed))).text, '[accepted]');
    assert.equal(await statusOf(id), 'capture_failed');
    const [found, ...more] = await breaksOf(id);
    assert.deepEqual(more, []);
    assert.deepEqual(
      [found.kind, found.provider, found.state, found.theirs],
      ['webhook', 'adyen', 'open', 'CAPTURE_FAILED'],
    );
    assert.match(found.note, /capture failed/);
    const actions = (await site.objects.audit(id)).map(({ action }) => action);
    assert.ok(actions.includes('webhook.alert') && actions.includes('payment.capture_failed'));
    assert.equal((await user.payment(id)).json().amount_captured, 0);
    for (const [move, body] of [['capture'], ['void'], ['refunds', { amount: 100 }]]) {
      const refused = await user.post(`/payments/${id}/${move}`, body, freshKey());
      assertProblem(refused, 409, 'payment-state', { state: 'capture_failed' });
    }
    assert.equal((await toAdyen(signed(failed))).text, '[accepted]');
    assert.equal((await breaksOf(id)).length, 1);
    const again = { ...item, reason: 'Transaction Recaptured', eventDate: '2099-01-02T00:00:00Z' };
    assert.equal((await toAdyen(signed(again))).text, '[accepted]');
    assert.equal(await statusOf(id), 'succeeded');
    assert.equal((await toAdyen(signed(failed))).text, '[accepted]', 'old news');
    assert.equal(await statusOf(id), 'succeeded');
    assert.equal((await user.payment(id)).json().amount_captured, 2500);
    assert.deepEqual(await receiptsOf(site, id), [`${id}_receipt`], 'there is one receipt');
  });

  test('money on a try that was over is for a person, and is given back at once', async () => {
    const order = { ...AUTHORISATION, ...ADYEN, order_id: `order-${randomUUID()}` };
    const refused = await user.pay({ ...order, payment_method: 'adyen_card_refused' }, freshKey());
    assertProblem(refused, 402, 'payment-failed');
    const [first] = await itemsOf(refused.payment);
    const { id } = await paid(user, order);
    assert.equal(id, refused.payment);
    const before = (await user.payment(id)).json();
    assert.deepEqual(
      before.tries.map(({ attempt, status, outcome }) => [attempt, status, outcome]),
      [
        [1, 'declined', 'definitive'],
        [2, 'requires_capture', 'definitive'],
      ],
    );
    // The issuer has authorised it after all.
    const late = { ...first, success: 'true', eventDate: '2099-01-01T00:00:00Z' };
    assert.equal((await toAdyen(signed(late))).text, '[accepted]');
    const asked = await until('Adyen is asked to cancel it', async () =>
      (await site.simulator.requests()).find(({ path }) =>
        path.endsWith(`/payments/${first.pspReference}/cancels`),
      ),
    );
    assert.ok(asked.idempotency_key, 'under a key of its own');
    const [{ kind, note }, ...more] = await breaksOf(id);
    assert.deepEqual([kind, more], ['webhook', []]);
    assert.match(note, /held on try 1/);
    const pending = async () => (await user.payment(id)).json().tries[0].late_money?.status;
    await until('it is received', async () => (await openKeys(id)) === 0);
    assert.equal(await pending(), 'pending');
    const told = {
      ...late,
      eventCode: 'CANCELLATION',
      originalReference: first.pspReference,
      pspReference: `CANCEL${id.slice(4, 12)}`,
      merchantReference: `${id}.${asked.idempotency_key}`,
    };
    assert.equal((await toAdyen(signed(told))).text, '[accepted]');
    assert.equal(await pending(), 'given_back');
    const after = (await user.payment(id)).json();
    assert.deepEqual([after.status, after.attempt], ['requires_capture', 2]);
    const actions = (await site.objects.audit(id)).map(({ action }) => action);
    for (const action of ['try.late_money', 'try.giving_back', 'try.given_back', 'webhook.alert'])
      assert.ok(actions.includes(action), action);
    const rows = await site.objects.sql(id, 'SELECT attempt, provider, status FROM tries ORDER BY attempt');
    assert.equal(rows.length, 2);
  });

  test('a bank that takes money back makes a payment disputed, which is not refunded as well', async () => {
    const { id } = await paid(user, { ...PAYMENT, ...ADYEN });
    const [authorised] = await itemsOf(id);
    const about = (eventCode, eventDate) =>
      signed({
        ...authorised,
        eventCode,
        eventDate,
        originalReference: authorised.pspReference,
        pspReference: `DISPUTE${id.slice(4, 12)}`,
      });
    assert.equal((await toAdyen(about('CHARGEBACK', '2099-01-01T00:00:00Z'))).text, '[accepted]');
    const shown = (await user.payment(id)).json();
    assert.deepEqual([shown.status, shown.dispute.status, shown.dispute.amount], ['disputed', 'open', 2500]);
    const refused = await user.post(`/payments/${id}/refunds`, { amount: 100 }, freshKey());
    assertProblem(refused, 409, 'payment-state', { state: 'disputed' });
    assert.equal((await breaksOf(id)).length, 1);
    assert.equal((await toAdyen(about('CHARGEBACK_REVERSED', '2099-02-01T00:00:00Z'))).text, '[accepted]');
    assert.equal((await user.payment(id)).json().status, 'succeeded');
    assert.equal((await moved(user, id, 'refunds', { amount: 100 })).status, 'pending');
  });

  test('is still for a person where it could not be written down when it was told', async () => {
    const { id } = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, id, 'capture');
    const item = (await itemsOf(id)).find(({ eventCode }) => eventCode === 'CAPTURE');
    assert.equal(await tellOf(item), 200);
    const failed = signed({ ...item, eventCode: 'CAPTURE_FAILED', eventDate: '2099-01-01T00:00:00Z' });
    const told = async () =>
      (await site.objects.audit(id)).filter(({ action }) => action === 'webhook.alert').length;
    await site.rows('ALTER TABLE breaks RENAME TO breaks_away');
    try {
      assert.equal((await notify(site, failed)).status, 200);
      await until('its object knows', async () => (await told()) === 1);
    } finally {
      await site.rows('ALTER TABLE breaks_away RENAME TO breaks');
    }
    await until('it is taken up again', async () => (await breaksOf(id)).length > 0);
    const [{ kind, note }] = await breaksOf(id);
    assert.deepEqual([kind, /capture failed/.test(note)], ['webhook', true]);
    assert.equal(await told(), 1);
  });
});

describe('events in any order', () => {
  /** A little of everything; gives what was paid. */
  async function mix() {
    const stripePaid = await paid(user);
    await moved(user, stripePaid.id, 'refunds', { amount: 500 });
    const captured = await paid(user, AUTHORISATION);
    await moved(user, captured.id, 'capture', { amount: 2000 });
    await moved(user, captured.id, 'refunds');
    const voided = await paid(user, AUTHORISATION);
    await moved(user, voided.id, 'void');
    const adyenPaid = await paid(user, { ...PAYMENT, ...ADYEN });
    await moved(user, adyenPaid.id, 'refunds', { amount: 500 });
    await moved(user, adyenPaid.id, 'refunds', { amount: 600 });
    const adyenCaptured = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, adyenCaptured.id, 'capture', { amount: 2000 });
    const adyenVoided = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, adyenVoided.id, 'void');
    return [stripePaid, captured, voided, adyenPaid, adyenCaptured, adyenVoided].map(({ id }) => id);
  }

  /** Each payment stands as the provider's ledger says, here and in the read model. */
  async function assertAsInTheLedger(ids) {
    for (const id of ids) {
      const ledger = await site.simulator.moved(id);
      const shown = (await user.payment(id)).json();
      assert.deepEqual(
        [shown.amount_captured, shown.amount_refunded, shown.status === 'canceled' ? 1 : 0],
        [ledger.captured, ledger.refunded, ledger.voided],
        id,
      );
      assert.ok(
        (await refundStatuses(id)).every((status) => status === 'succeeded'),
        id,
      );
      const receipts = await receiptsOf(site, id);
      const refunds = (await refundStatuses(id)).length;
      assert.equal(receipts.length, refunds + (ledger.captured > 0 ? 1 : 0) + ledger.voided, id);
      const [row] = await site.rows('SELECT shown FROM payments WHERE payment_id = ?', id);
      assert.deepEqual(JSON.parse(row.shown), shown);
      assert.deepEqual(await breaksOf(id), [], id);
    }
  }

  for (const [mode, more] of [
    ['doubled', { delay_ms: 0 }],
    ['shuffled', { delay_ms: HOUR_MS, seed: 7 }],
    ['shuffled', { delay_ms: HOUR_MS, seed: 8 }],
  ])
    test(`${mode}${more.seed ? ` (seed ${more.seed})` : ''} end where the ledger is`, async () => {
      await site.simulator.webhooks(mode, more);
      const ids = await mix();
      await site.simulator.advance(HOUR_MS + 1);
      await until('all are delivered', site.simulator.isAllTold);
      await worked(site);
      for (const id of ids)
        await until('no refund is open', async () => !(await refundStatuses(id)).includes('pending'));
      await assertAsInTheLedger(ids);
    });

  test('that come late, the newest first, move nothing backward', async () => {
    const ids = await mix();
    for (const id of ids) {
      const isAdyen = (await site.objects.sql(id, 'SELECT provider FROM payments'))[0].provider === 'adyen';
      const told = isAdyen
        ? (await itemsOf(id)).map(({ pspReference, eventCode }) => `${pspReference}:${eventCode}`)
        : (await site.simulator.events(id)).map(({ id: event }) => event);
      for (const event of told.reverse()) assert.equal(await site.simulator.tell(event), 200);
      await worked(site);
      await jobsOf(site, id);
    }
    await assertAsInTheLedger(ids);
  });
});
