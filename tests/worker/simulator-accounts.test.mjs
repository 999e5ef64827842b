// Accounts of the embedded Stripe simulator, each with its own objects and keys, driven by the official `stripe` package.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';

import { DAY_MS, card, shareSimulator } from './support/lone-simulator.mjs';

const lone = await shareSimulator();
const { origin, ledger, advance, sim } = lone;
after(lone.close);
beforeEach(lone.reset);

const client = (secret, options) => lone.stripe({ secret, ...options });

const platform = client('sk_test_any');
const one = client('sk_test_acct_A_1');
const other = client('sk_test_acct_B_1');
const key = (idempotencyKey) => ({ idempotencyKey });

const missing = (promise) => assert.rejects(promise, { code: 'resource_missing' });
const ids = (list) => list.data.map((object) => object.id);

describe('two secret keys of two accounts', () => {
  test('each say which account they are of', async () => {
    assert.equal((await platform.accounts.retrieve()).id, 'acct_simulator');
    assert.equal((await one.accounts.retrieve()).id, 'acct_A');
    assert.equal((await other.accounts.retrieve('acct_B')).id, 'acct_B');
    await assert.rejects(one.accounts.retrieve('acct_B'), { statusCode: 403, code: 'account_invalid' });
  });

  test('see nothing of each other, by id or in lists', async () => {
    const customer = await one.customers.create({ email: 'a@example.com' });
    const payment = await one.paymentIntents.create(card({ customer: customer.id }));
    const refund = await one.refunds.create({ payment_intent: payment.id, amount: 100 });
    const [event] = (await one.events.list()).data;
    for (const stranger of [other, platform]) {
      await missing(stranger.paymentIntents.retrieve(payment.id));
      await missing(stranger.paymentIntents.update(payment.id, { description: 'mine' }));
      await missing(stranger.charges.retrieve(payment.latest_charge));
      await missing(stranger.refunds.retrieve(refund.id));
      await missing(stranger.refunds.create({ payment_intent: payment.id }));
      await missing(stranger.customers.retrieve(customer.id));
      await missing(stranger.paymentIntents.create(card({ customer: customer.id })));
      await missing(stranger.events.retrieve(event.id));
      await missing(stranger.paymentMethods.retrieve(payment.payment_method));
      await missing(stranger.charges.list({ starting_after: payment.latest_charge }));
      for (const list of ['paymentIntents', 'charges', 'refunds', 'customers', 'events']) {
        assert.deepEqual((await stranger[list].list()).data, [], list);
      }
    }
    await advance(61_000);
    const query = `customer:'${customer.id}'`;
    assert.deepEqual(ids(await one.paymentIntents.search({ query })), [payment.id]);
    assert.deepEqual(ids(await other.paymentIntents.search({ query })), []);
  });

  test('have a name space of idempotency keys each: the same bytes charge again in another account', async () => {
    const first = await one.paymentIntents.create(card(), key('k1'));
    const elsewhere = await other.paymentIntents.create(card(), key('k1'));
    assert.notEqual(elsewhere.id, first.id);
    assert.equal((await ledger()).totals.succeeded_charges, 2);
    assert.equal((await ledger('?account=acct_A')).totals.succeeded_charges, 1);
    assert.deepEqual(
      (await ledger()).charges.map((line) => line.account),
      ['acct_A', 'acct_B'],
    );
    // Other parameters under the key are no mismatch there: it is another key.
    await other.paymentIntents.create(card({ amount: 999 }), key('k2'));
    await one.paymentIntents.create(card({ amount: 777 }), key('k2'));
  });

  test('a rolled key of the same account replays', async () => {
    const first = await one.paymentIntents.create(card(), key('k1'));
    const rolled = await client('sk_test_acct_A_2').paymentIntents.create(card(), key('k1'));
    assert.equal(rolled.id, first.id);
    assert.equal((await ledger()).totals.succeeded_charges, 1);
  });
});

describe('Stripe-Account', () => {
  test('acts for a connected account, whose objects the platform does not see without it', async () => {
    const connected = { stripeAccount: 'acct_B' };
    const payment = await platform.paymentIntents.create(card(), { ...connected, ...key('k1') });
    await missing(platform.paymentIntents.retrieve(payment.id));
    assert.equal((await platform.paymentIntents.retrieve(payment.id, {}, connected)).id, payment.id);
    assert.equal((await other.paymentIntents.retrieve(payment.id)).id, payment.id);
    // The key is the account's, too.
    assert.notEqual((await platform.paymentIntents.create(card(), key('k1'))).id, payment.id);
    const replayed = await platform.paymentIntents.create(card(), { ...connected, ...key('k1') });
    assert.equal(replayed.id, payment.id);
    const [event] = (await platform.events.list({ type: 'payment_intent.succeeded' }, connected)).data;
    assert.equal(event.account, 'acct_B');
    const [own] = (await platform.events.list({ type: 'payment_intent.succeeded' })).data;
    assert.equal('account' in own, false);
  });

  test('that is no account is refused', async () => {
    for (const stripeAccount of ['B', 'acct_', 'acct_B C']) {
      await assert.rejects(platform.paymentIntents.create(card(), { stripeAccount }), {
        statusCode: 403,
        code: 'account_invalid',
      });
    }
  });
});

test('what time changes, and what the card holder decides, stays in its account', async () => {
  const reserved = await one.paymentIntents.create(card({ capture_method: 'manual' }));
  const asked = await one.paymentIntents.create(
    card({ payment_method: 'pm_card_authenticationRequired', return_url: 'https://shop.test/back' }),
  );
  const decided = await lone.request(`/_sim/3ds/${asked.id}/accept`, { method: 'POST' });
  assert.equal(decided.status, 303);
  assert.equal((await one.paymentIntents.retrieve(asked.id)).status, 'succeeded');
  await sim('POST', `payments/${asked.id}/refunds`, { amount: 50 });
  assert.equal((await one.refunds.list()).data.length, 1);
  await advance(7 * DAY_MS + 1000);
  // Another account's request settles it, and it is still the first one's.
  assert.deepEqual((await other.events.list()).data, []);
  assert.equal((await one.paymentIntents.retrieve(reserved.id)).status, 'canceled');
  assert.equal((await one.events.list({ type: 'charge.expired' })).data.length, 1);
  const made = await sim('POST', 'payments', { amount: 1000, account: 'acct_B' });
  assert.deepEqual(ids(await other.paymentIntents.list()), [made.id]);
});
