// API accounts whose money is in an account of their own at Stripe, connected to the one of the secret key: every call about
// their payments goes there, whatever is configured later, and nobody else's tokens are worth anything there.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import Stripe from 'stripe';

import { freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { AT_ONCE, AUTHORISATION, PAYMENT, assertProblem, client, insist, paid } from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const KEY = 'sk_test_acct_A_1';
const WEBHOOK_SECRET = 'whsec_demo_0123456789abcdef0123456789abcdef';
const token_sha256 = (token) => createHash('sha256').update(token).digest('hex');
const card = (token) => ({ token_sha256: token_sha256(token), payment_method: 'pm_card_visa' });
const ACCOUNTS = {
  own: card('own-token'),
  connected: { ...card('connected-token'), stripe_account: 'acct_B' },
};

const workers = (accounts = ACCOUNTS, vars = {}) =>
  demoWorkers({
    vars: { ...IMPATIENT, ...vars },
    secrets: { STRIPE_SECRET_KEY: KEY, API_ACCOUNTS: JSON.stringify(accounts) },
  });
const site = await startSite({ workers: workers() });
const own = client(site, 'own-token');
const connected = client(site, 'connected-token');
after(() => site.close());
afterEach(() => site.simulator.calm());

const configure = (accounts, vars) => site.deploy(workers(accounts, vars));

/** In which accounts a payment was charged. */
const charges = async (payment) =>
  (await site.simulator.ledger(payment)).charges
    .filter(({ status }) => status === 'succeeded')
    .map(({ account }) => account);

describe('a payment of an account that is connected', () => {
  test('is made, captured, given back, given up and asked for there', async () => {
    const { id } = await paid(connected, AUTHORISATION);
    const captured = await connected.post(`/payments/${id}/capture`, {}, freshKey());
    assert.equal(captured.status, 200, captured.text);
    const refund = await connected.post(`/payments/${id}/refunds`, { amount: 700 }, freshKey());
    assert.equal(refund.status, 201, refund.text);
    assert.deepEqual(await charges(id), ['acct_B']);
    assert.deepEqual(await site.simulator.moved(id), {
      charges: 1,
      captured: 2500,
      refunded: 700,
      voided: 0,
    });

    const reserved = await paid(connected, AUTHORISATION);
    const voided = await connected.post(`/payments/${reserved.id}/void`, {}, freshKey());
    assert.equal(voided.status, 200, voided.text);
    assert.equal((await site.simulator.moved(reserved.id)).voided, 1);

    const slow = await connected.pay({ ...PAYMENT, payment_method: 'pm_card_processing' }, freshKey());
    assert.equal(slow.json().status, 'processing', slow.text);
    const isDecided = async () =>
      (await connected.payment(slow.json().id)).json().status !== 'processing' || undefined;
    await site.simulator.advance(86_400_000);
    await until('its end is known', isDecided, { everyMs: 500 });
  });

  test('control: of an account without one it is made in the account of the key', async () => {
    assert.deepEqual(await charges((await paid(own)).id), ['acct_A']);
  });
});

describe('a payment in doubt', () => {
  const lost = async (key) => {
    await site.simulator.fault('response_lost', { count: 1000 });
    await site.simulator.fault('error_before', { method: 'GET', count: 1000 });
    const answer = await connected.pay(PAYMENT, key, AT_ONCE);
    assertProblem(answer, 503, 'outcome-unknown', { resource: `/payments/${answer.payment}` });
    return answer.payment;
  };
  const moved = { ...ACCOUNTS, connected: { ...ACCOUNTS.connected, stripe_account: 'acct_C' } };
  after(() => configure());

  test('ends where it was sent, though another account is configured meanwhile', async () => {
    const key = freshKey();
    const payment = await lost(key);
    await configure(moved);
    await site.simulator.calm();
    const answer = await insist(() => connected.pay(PAYMENT, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await charges(payment), ['acct_B']);
    const refund = await connected.post(`/payments/${payment}/refunds`, {}, freshKey());
    assert.equal(refund.status, 201, refund.text);
    assert.deepEqual(
      await charges((await paid(connected)).id),
      ['acct_C'],
      'what is new goes to the new one',
    );
  });

  test('control: where the call does not say its account, it is charged again in another one', async () => {
    await configure();
    const key = freshKey();
    const payment = await lost(key);
    await site.objects.sql(
      payment,
      "UPDATE foreign_calls SET request = json_remove(request, '$.account'), next_try_at_ms = 0",
    );
    await site.simulator.calm();
    assert.equal((await insist(() => connected.pay(PAYMENT, key, AT_ONCE))).status, 201);
    assert.deepEqual((await charges(payment)).sort(), ['acct_A', 'acct_B']);
  });
});

describe("another account's token", () => {
  const customerOf = async (account) => {
    const { id } = await site.simulator.stripe('customers', {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, ...(account && { 'stripe-account': account }) },
    });
    return id;
  };
  const charge = (user, customer) => user.pay({ ...PAYMENT, customer }, freshKey());

  test('is worth nothing: the customers of one are not in the other', async () => {
    for (const [user, account] of [
      [connected, undefined],
      [own, 'acct_B'],
    ]) {
      const refused = await charge(user, await customerOf(account));
      assert.equal(refused.status, 402, refused.text);
      assert.deepEqual(await charges(refused.json().payment.id), []);
    }
  });

  test('control: each may use its own', async () => {
    for (const [user, account] of [
      [connected, 'acct_B'],
      [own, undefined],
    ]) {
      const answer = await charge(user, await customerOf(account));
      assert.equal(answer.status, 201, answer.text);
    }
  });
});

describe('an event', () => {
  const stripe = new Stripe(KEY);
  let number = 0;
  const tell = async (payment, account) => {
    const payload = JSON.stringify({
      id: `evt_connected_${(number += 1)}`,
      object: 'event',
      type: 'payment_intent.succeeded',
      livemode: false,
      ...(account && { account }),
      data: { object: { id: 'pi_told', object: 'payment_intent', metadata: { resource: payment } } },
    });
    const header = stripe.webhooks.generateTestHeaderString({ payload, secret: WEBHOOK_SECRET });
    const answer = await read(
      await site.fetch('/webhooks/stripe', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'stripe-signature': header },
        body: payload,
      }),
    );
    assert.equal(answer.status, 200, answer.text);
    const { timeline } = await site.objects.dump(payment);
    return timeline.filter(({ event }) => event === 'webhook').length;
  };

  test('is taken in when it is of the account of the payment, and of no other', async () => {
    const there = await paid(connected);
    assert.equal(await tell(there.id, 'acct_C'), 0);
    assert.equal(await tell(there.id), 0);
    assert.equal(await tell(there.id, 'acct_B'), 1);
    const here = await paid(own);
    assert.equal(await tell(here.id, 'acct_B'), 0);
    assert.equal(await tell(here.id), 1);
  });
});

test('the page of an order takes cards for the account that sells it', async () => {
  await configure(ACCOUNTS, { STRIPE_PUBLISHABLE_KEY: 'pk_test_1' });
  const page = async (user) => {
    const link = await user.post('/checkout/sessions', {
      order_id: freshKey(),
      currency: 'usd',
      lines: [{ name: 'Mug', unit_amount: 800, quantity: 1 }],
    });
    assert.equal(link.status, 201, link.text);
    return (await read(await site.fetch(new URL(link.json().url).pathname))).text;
  };
  assert.match(await page(connected), /data-account="acct_B"/);
  assert.doesNotMatch(await page(own), /data-account/);
});

test('an order of an account that is not configured any more is not paid, in whichever account', async () => {
  await configure(ACCOUNTS);
  const order = {
    order_id: freshKey(),
    currency: 'usd',
    lines: [{ name: 'Mug', unit_amount: 800, quantity: 1 }],
  };
  const made = await connected.post('/checkout/sessions', order);
  const path = new URL(made.json().url).pathname;
  const visitor = browser(site);
  const { entries } = await visitor.visit(path);
  const before = (await site.simulator.ledger()).charges.length;

  await configure({ own: ACCOUNTS.own });
  const page = await visitor.visit(path);
  assert.equal(page.status, 404);
  assert.match(page.text, /does not take payments here any more/);
  const sent = await visitor.send(path, { ...entries, payment_method: 'pm_card_visa' });
  assert.equal(sent.status, 404, sent.text);
  const refused = await connected.post('/checkout/sessions', order);
  assertProblem(refused, 401, 'unauthorized');
  assert.equal((await site.simulator.ledger()).charges.length, before);

  // Control: with the account back the same form is paid, in its own account.
  await configure(ACCOUNTS);
  const paidNow = await visitor.send(path, { ...entries, payment_method: 'pm_card_visa' });
  assert.ok([200, 303].includes(paidNow.status), paidNow.text);
  const { charges: all } = await site.simulator.ledger();
  assert.deepEqual([all.length, all.at(-1).account], [before + 1, 'acct_B']);
});
