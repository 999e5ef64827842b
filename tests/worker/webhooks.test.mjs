// What the providers tell by themselves: believed if they have signed it, taken in once, and only forward. Nothing here waits
// for the alarm, which is far away, and nobody looks: what a payment has become is read in its rows.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import Stripe from 'stripe';

import { freshKey, read } from './support/account.mjs';
import { ADYEN_KEY, signed } from './support/adyen.mjs';
import { withoutEffect } from './support/effects.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { inboxOf } from './support/inbox.mjs';
import { receiptsOf } from './support/jobs.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  PAYMENT,
  assertProblem,
  moved,
  operations,
  paid,
  send,
} from './support/payments.mjs';
import { until } from './support/until.mjs';
import {
  ADYEN,
  MINUTE_MS,
  NEXT_KEY,
  NEXT_SECRET,
  STRIPE_SECRET,
  startWebhookSite,
} from './support/webhooks.mjs';

const {
  site,
  user,
  toAdyen,
  itemsOf,
  tellOf,
  statusOf,
  refundStatuses,
  openKeys,
  reaches,
  breaksOf,
  nobodyAsks,
} = await startWebhookSite();

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
    const [told] = site.logs().filter(({ message }) => message.includes('webhook_of_other_merchant'));
    const { merchant_account: merchant, event_key: key } = JSON.parse(told.message);
    assert.deepEqual([merchant, key.startsWith('adyen:AUTHORISATION:')], ['SomebodyElse', true]);
  });
});

test('without its secret a provider is not listened to', async () => {
  const [demo, ...others] = demoWorkers();
  const vars = { STRIPE_WEBHOOK_SECRET: '', ADYEN_HMAC_KEY: '' };
  const deaf = await startSite({ workers: [{ ...demo, vars }, ...others] });
  try {
    const payload = JSON.stringify(stripeEvent());
    assertProblem(await toStripe(payload, signature(payload), deaf), 400, 'webhook-signature');
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

  test('is not that a void, a capture or a refund that was not made here was refused', async () => {
    const { id, again } = await lost({ path: '/payments', body: { ...PAYMENT, ...ADYEN } }, freshKey(), {
      path: '/adyen/',
    });
    const [authorised] = await itemsOf(id);
    const elsewhere = { pspReference: randomUUID(), originalReference: authorised.pspReference };
    for (const [eventCode, success] of [
      ['CANCELLATION', 'false'],
      ['CAPTURE', 'false'],
      ['REFUND', 'false'],
    ]) {
      const answer = await toAdyen(signed({ ...authorised, ...elsewhere, eventCode, success }));
      assert.equal(answer.text, '[accepted]');
    }
    assert.equal(await openKeys(id), 1, 'nobody knows yet');
    const known = await inboxOf(site, elsewhere.pspReference);
    // That it could not be canceled says nothing at all.
    assert.deepEqual(known.map(({ state }) => state).sort(), ['done', 'waiting', 'waiting']);
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
