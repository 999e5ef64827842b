// The simulator's webhooks: signed as the providers sign them, tried until they are taken, and late, doubled or shuffled on demand.
// The merchant is a server of this test's own; over a binding it is a Worker that calls the simulator back.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import Stripe from 'stripe';

import { signed } from './support/adyen.mjs';
import { API_VERSION, DAY_MS, HOUR_MS, card, startSimulator } from './support/lone-simulator.mjs';
import { until } from './support/until.mjs';

const SECRET = 'whsec_demo_0123456789abcdef0123456789abcdef';
const ADYEN_KEY = '44782def547aaa06c910c43932b1eb0c71fc68d9d0c057550c48ec2acf6ba056';
const PAID = ['payment_intent.created', 'charge.succeeded', 'payment_intent.succeeded'];

let lone;
let stripe;
let merchant;

/** Takes webhooks; `answer` decides what each is told. */
async function startMerchant() {
  const received = [];
  const state = { received, answer: () => 200 };
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    const webhook = {
      path: request.url,
      headers: request.headers,
      raw: Buffer.concat(chunks).toString('utf8'),
    };
    received.push(webhook);
    response.statusCode = await state.answer(webhook);
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  state.url = `http://127.0.0.1:${server.address().port}`;
  state.close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return state;
}

before(async () => {
  merchant = await startMerchant();
  lone = await startSimulator({ vars: { WEBHOOK_URL: merchant.url } });
  stripe = new Stripe('sk_test_any', {
    host: lone.origin.hostname,
    port: lone.origin.port,
    protocol: 'http',
    telemetry: false,
    apiVersion: API_VERSION,
  });
});

after(async () => {
  await lone.close();
  await merchant.close();
});

beforeEach(async () => {
  await lone.reset();
  merchant.received.length = 0;
  merchant.answer = () => 200;
});

/** Captured at once: with an asynchronous capture a `charge.updated` follows. */
const pay = (more, options) =>
  stripe.paymentIntents.create(card({ capture_method: 'automatic', ...more }), options);
const mode = (name, more = {}) => lone.sim('POST', 'webhooks', { mode: name, ...more });
const flush = async () => (await lone.sim('POST', 'webhooks/flush')).sent;
const deliveries = async () => (await lone.sim('GET', 'webhooks')).deliveries;
const types = (received = merchant.received) => received.map(({ raw }) => JSON.parse(raw).type);
const verified = (webhook, secret = SECRET) =>
  stripe.webhooks.constructEvent(webhook.raw, webhook.headers['stripe-signature'], secret);
const arrived = (count) => until(`${count} webhooks`, () => merchant.received.length >= count);

const adyenPayment = (more = {}, key = 'any') =>
  lone.request('/adyen/checkout/v71/payments', {
    json: {
      amount: { value: 1000, currency: 'EUR' },
      reference: 'pay_1',
      merchantAccount: 'Shop',
      returnUrl: 'https://shop.test/back',
      paymentMethod: { type: 'scheme', storedPaymentMethodId: 'adyen_card_visa' },
      ...more,
    },
    headers: { 'X-API-Key': key },
  });

describe('webhooks', () => {
  test('come by themselves after a change, in order, and as the official package wants them', async () => {
    const intent = await pay({ metadata: { resource: 'pay_1' } }, { idempotencyKey: 'k1' });
    await arrived(3);
    assert.deepEqual(types(), PAID);
    for (const webhook of merchant.received) {
      assert.equal(webhook.path, '/webhooks/stripe');
      const event = verified(webhook);
      assert.deepEqual(
        [event.object, event.livemode, event.request.idempotency_key, event.data.object.metadata.resource],
        ['event', false, 'k1', 'pay_1'],
      );
      assert.equal((await stripe.events.retrieve(event.id)).type, event.type);
    }
    assert.equal(verified(merchant.received[2]).data.object.id, intent.id);
  });

  test('with another secret, or another body, are no webhooks', async () => {
    await pay();
    await arrived(3);
    const [webhook] = merchant.received;
    assert.throws(() => verified(webhook, 'whsec_other'), Stripe.errors.StripeSignatureVerificationError);
    const changed = { ...webhook, raw: webhook.raw.replace('1250', '9250') };
    assert.throws(() => verified(changed), Stripe.errors.StripeSignatureVerificationError);
  });

  test("of Adyen's go where they were set up for their merchant account, signed with its key", async () => {
    const key = 'cd'.repeat(32);
    const settings = { path: '/webhooks/adyen/shop-a', hmac_key: key, basic: btoa('hook:secret') };
    await lone.sim('POST', 'adyen/webhook', { merchant_account: 'Acme_Berlin', ...settings });
    await adyenPayment({ merchantAccount: 'Acme_Berlin' }, 'AQE.Acme_Berlin.1');
    await adyenPayment({});
    await arrived(2);
    const [own, other] = merchant.received;
    assert.deepEqual(
      [own.path, own.headers.authorization],
      ['/webhooks/adyen/shop-a', `Basic ${settings.basic}`],
    );
    assert.deepEqual([other.path, other.headers.authorization], ['/webhooks/adyen', undefined]);
    for (const [{ raw }, hmac] of [
      [own, key],
      [other, ADYEN_KEY],
    ]) {
      const [{ NotificationRequestItem: item }] = JSON.parse(raw).notificationItems;
      const again = signed({ originalReference: '', ...item }, hmac);
      assert.equal(item.additionalData.hmacSignature, again.additionalData.hmacSignature);
    }
  });

  test("of Adyen's carry the signature in the item", async () => {
    const { body: payment } = await adyenPayment({ additionalData: { manualCapture: 'true' } });
    await lone.request(`/adyen/checkout/v71/payments/${payment.pspReference}/captures`, {
      json: { amount: { value: 700, currency: 'EUR' }, merchantAccount: 'Shop', reference: 'capture:1' },
      headers: { 'X-API-Key': 'any' },
    });
    await arrived(2);
    const items = merchant.received.map(({ path, raw }) => {
      assert.equal(path, '/webhooks/adyen');
      const notification = JSON.parse(raw);
      assert.deepEqual([notification.live, notification.notificationItems.length], ['false', 1]);
      return notification.notificationItems[0].NotificationRequestItem;
    });
    assert.deepEqual(
      items.map((item) => [item.eventCode, item.success, item.merchantReference, item.amount.value]),
      [
        ['AUTHORISATION', 'true', 'pay_1', 1000],
        ['CAPTURE', 'true', 'capture:1', 700],
      ],
    );
    for (const item of items) {
      const signed = [
        item.pspReference,
        item.originalReference ?? '',
        item.merchantAccountCode,
        item.merchantReference,
        item.amount.value,
        item.amount.currency,
        item.eventCode,
        item.success,
      ].join(':');
      const expected = createHmac('sha256', Buffer.from(ADYEN_KEY, 'hex')).update(signed).digest('base64');
      assert.equal(item.additionalData.hmacSignature, expected);
    }
  });

  test('tell what time alone does, though nobody asks', async () => {
    await pay({ payment_method: 'pm_card_processing' });
    await arrived(3);
    await lone.advance(60_000);
    await arrived(5);
    assert.deepEqual(types(), [
      'payment_intent.created',
      'charge.pending',
      'payment_intent.processing',
      'charge.succeeded',
      'payment_intent.succeeded',
    ]);
    const asked = merchant.received.map(({ raw }) => JSON.parse(raw).request.id !== null);
    assert.deepEqual(asked, [true, true, true, false, false]);
  });

  test('tell every step of a payment', async () => {
    const reserved = await pay({ capture_method: 'manual' });
    await stripe.paymentIntents.cancel(reserved.id);
    await pay({ payment_method: 'pm_card_threeDSecure2Required', return_url: 'https://shop.test/' });
    await assert.rejects(pay({ payment_method: 'pm_card_chargeDeclined' }));
    const failing = await pay({ payment_method: 'pm_card_refundFail' });
    await stripe.refunds.create({ payment_intent: failing.id });
    await lone.advance(60_000);
    await flush();
    const seen = new Set(types());
    for (const type of [
      'charge.failed',
      'charge.refund.updated',
      'charge.refunded',
      'charge.succeeded',
      'payment_intent.amount_capturable_updated',
      'payment_intent.canceled',
      'payment_intent.created',
      'payment_intent.payment_failed',
      'payment_intent.requires_action',
      'payment_intent.succeeded',
      'refund.created',
      'refund.failed',
      'refund.updated',
    ])
      assert.ok(seen.has(type), type);
  });
});

describe('a webhook that is not taken', () => {
  test('is tried again after growing delays, and holds no other one up', async () => {
    merchant.answer = ({ raw }) => (JSON.parse(raw).type === 'charge.succeeded' ? 500 : 204);
    await pay();
    await flush();
    assert.deepEqual(types(), PAID);
    const delays = [];
    for (const wait of [5_000, 30_000, 120_000]) {
      await lone.advance(wait);
      await flush();
      delays.push(wait);
      assert.deepEqual(types().slice(3), Array(delays.length).fill('charge.succeeded'));
    }
    merchant.answer = () => 200;
    await lone.advance(600_000);
    await flush();
    const [, failing] = await deliveries();
    assert.deepEqual(
      [failing.type, failing.standing, failing.attempts.map(({ status }) => status)],
      ['charge.succeeded', 'delivered', [500, 500, 500, 500, 200]],
    );
    assert.deepEqual(new Set((await deliveries()).map(({ standing }) => standing)), new Set(['delivered']));
  });

  test('is given up three days after the event', async () => {
    merchant.answer = () => 404;
    await pay();
    await flush();
    for (let hours = 0; hours <= 72; hours += 6) {
      await lone.advance(6 * HOUR_MS);
      await flush();
    }
    const all = await deliveries();
    assert.deepEqual(
      all.map(({ standing, due_ms }) => [standing, due_ms]),
      Array(3).fill(['given_up', null]),
    );
    assert.ok(all.every(({ attempts, created_ms }) => attempts.at(-1).at_ms <= created_ms + 3 * DAY_MS));
    const before = merchant.received.length;
    await lone.advance(DAY_MS);
    await flush();
    assert.equal(merchant.received.length, before);
  });

  test('holds no request up, however long the merchant takes', async () => {
    let release;
    const held = new Promise((resolve) => (release = resolve));
    merchant.answer = () => held.then(() => 500);
    await pay();
    await arrived(1);
    await pay();
    await pay();
    assert.equal(merchant.received.length, 1, 'the merchant has not answered the first one');
    merchant.answer = () => 200;
    release();
    await until('the others come', async () => merchant.received.length === 9);
    await lone.advance(5_000);
    await flush();
    assert.equal(merchant.received.length, 10);
  });

  test('is never sent once the simulator was reset', async () => {
    merchant.answer = () => 500;
    await pay();
    await flush();
    const before = merchant.received.length;
    await lone.reset();
    await lone.advance(DAY_MS);
    assert.deepEqual(await flush(), []);
    assert.deepEqual(await deliveries(), []);
    assert.equal(merchant.received.length, before);
  });
});

describe('the mode', () => {
  test('off sends nothing, also not afterwards; by hand one can be sent again', async () => {
    await mode('off');
    await pay();
    await flush();
    await mode('on');
    await flush();
    assert.deepEqual(types(), []);
    const { data } = await stripe.events.list({ type: 'payment_intent.succeeded' });
    const sent = await lone.sim('POST', 'webhooks/resend', { event_id: data[0].id });
    assert.deepEqual([sent.event_id, sent.status], [data[0].id, 200]);
    assert.deepEqual(types(), ['payment_intent.succeeded']);
    assert.equal(verified(merchant.received[0]).id, data[0].id);
    const unknown = await lone.request('/_sim/webhooks/resend', { json: { event_id: 'evt_nowhere' } });
    assert.equal(unknown.status, 404);
  });

  test('off gives up what waits', async () => {
    merchant.answer = () => 500;
    await pay();
    await flush();
    await mode('off');
    await mode('on');
    await lone.advance(HOUR_MS);
    assert.deepEqual(await flush(), []);
    assert.deepEqual(
      (await deliveries()).map(({ standing }) => standing),
      Array(3).fill('dropped'),
    );
  });

  test('doubled sends each twice, the same event', async () => {
    await mode('doubled');
    await pay();
    await arrived(6);
    assert.deepEqual(
      types(),
      PAID.flatMap((type) => [type, type]),
    );
    assert.equal(new Set(merchant.received.map((webhook) => verified(webhook).id)).size, 3);
  });

  test('late sends when the delay is over, not before', async () => {
    await mode('late', { delay_ms: HOUR_MS });
    await pay();
    assert.deepEqual(await flush(), []);
    await lone.advance(HOUR_MS);
    await flush();
    assert.deepEqual(types(), PAID);
  });

  test('shuffled sends in an order that the seed decides', async () => {
    async function order(seed) {
      await lone.reset();
      merchant.received.length = 0;
      await mode('shuffled', { delay_ms: HOUR_MS, seed });
      await pay();
      const reserved = await pay({ capture_method: 'manual' });
      await stripe.paymentIntents.capture(reserved.id);
      await lone.advance(HOUR_MS + 60_000);
      await flush();
      return types();
    }
    const recorded = await order(7);
    assert.equal(recorded.length, 10);
    assert.deepEqual(await order(7), recorded);
    assert.notDeepEqual(await order(8), recorded);
    const events = (await stripe.events.list({ limit: 100 })).data.map(({ type }) => type).reverse();
    assert.notDeepEqual(recorded, events);
    assert.deepEqual([...recorded].sort(), [...events].sort());
  });

  test('is refused where it is none', async () => {
    for (const json of [{ mode: 'often' }, {}, { mode: 'late', delay_ms: -1 }, { mode: 'on', other: 1 }])
      assert.equal((await lone.request('/_sim/webhooks', { json })).status, 400, JSON.stringify(json));
  });
});

test('without a merchant nothing is sent, and nothing waits', async () => {
  const alone = await startSimulator();
  try {
    const form =
      'amount=1250&currency=usd&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true';
    const paid = await alone.request('/v1/payment_intents', {
      method: 'POST',
      body: form,
      headers: {
        Authorization: 'Bearer sk_test_1',
        'Content-Type': 'application/x-www-form-urlencoded',
      },
    });
    assert.equal(paid.status, 200);
    const webhooks = await alone.sim('GET', 'webhooks');
    assert.deepEqual([webhooks.mode, webhooks.destination, webhooks.deliveries], ['off', null, []]);
    assert.deepEqual((await alone.sim('POST', 'webhooks/flush')).sent, []);
    assert.equal((await alone.request('/_sim/webhooks', { json: { mode: 'on' } })).status, 400);
  } finally {
    await alone.close();
  }
});

// Answers a webhook only after it has asked the simulator about the payment: both bindings at once, each way.
const MERCHANT = `const seen = [];
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/seen') return Response.json(seen);
    const { data } = await request.json();
    const asked = await env.STRIPE.fetch('https://stripe.simulator/v1/payment_intents/' + data.object.id, {
      headers: { Authorization: 'Bearer sk_test_any' },
    });
    seen.push([pathname, asked.status]);
    return new Response(null, { status: 204 });
  },
};`;

test('an endpoint of a shop’s own is used as it is, with its own secret', async () => {
  const vars = { WEBHOOK_URL: `${merchant.url}/my/hook?of={provider}`, STRIPE_WEBHOOK_SECRET: 'whsec_mine' };
  const own = await startSimulator({ vars });
  try {
    await own.sim('POST', 'payments', { amount: 1250 });
    await arrived(3);
    assert.deepEqual(
      merchant.received.map(({ path }) => path),
      Array(3).fill('/my/hook?of=stripe'),
    );
    for (const webhook of merchant.received) verified(webhook, 'whsec_mine');
  } finally {
    await own.close();
  }
});

test('over the binding a merchant can ask the simulator before it answers', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'simulator-webhooks-'));
  await writeFile(join(directory, 'merchant.mjs'), MERCHANT);
  const config = {
    name: 'paid-once-demo',
    main: join(directory, 'merchant.mjs'),
    compatibility_date: '2026-10-20',
    services: [{ binding: 'STRIPE', service: 'paid-once-simulator' }],
  };
  const both = await startSimulator({ env: 'demo', beside: [{ config }] });
  try {
    assert.equal((await both.sim('GET', 'webhooks')).destination, 'the binding MERCHANT');
    await both.sim('POST', 'payments', { amount: 1250 });
    await both.sim('POST', 'webhooks/flush');
    const seen = await both.server.getWorker('paid-once-demo').fetch('http://merchant/seen');
    assert.deepEqual(await seen.json(), [
      ['/webhooks/stripe', 200],
      ['/webhooks/stripe', 404],
      ['/webhooks/stripe', 200],
    ]);
    const { deliveries } = await both.sim('GET', 'webhooks');
    assert.deepEqual(
      deliveries.map(({ standing }) => standing),
      Array(3).fill('delivered'),
    );
  } finally {
    await both.close();
    await rm(directory, { recursive: true });
  }
});
