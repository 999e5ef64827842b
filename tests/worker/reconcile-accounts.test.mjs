// The reconciliation reads the books of each account in which money is taken, and those of no other: of another account's key it
// says so, instead of missing everything there.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { account, freshKey } from './support/account.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const A = 'sk_test_acct_A_1';
const A_ROLLED = 'sk_test_acct_A_2';
const B = 'sk_test_acct_B_1';
const PAYMENT = { amount: 2500, currency: 'usd' };
const card = (token) => ({
  token_sha256: createHash('sha256').update(token).digest('hex'),
  payment_method: 'pm_card_visa',
});
const API_ACCOUNTS = JSON.stringify({
  own: card('own-token'),
  connected: { ...card('connected-token'), stripe_account: 'acct_C' },
});

const workers = (STRIPE_SECRET_KEY, accounts = API_ACCOUNTS) =>
  demoWorkers({
    vars: { RECONCILE_QUIET_MS: '0' },
    secrets: { STRIPE_SECRET_KEY, API_ACCOUNTS: accounts },
  });
const site = await startSite({ workers: workers(A) });
const model = readModel(site);
const own = account(site, 'own-token');
const connected = account(site, 'connected-token');
after(() => site.close());
const configure = (...settings) => site.deploy(workers(...settings));
beforeEach(() => configure(A));
afterEach(() => model.run('DELETE FROM breaks'));

async function paid(user) {
  const { id } = (await user.pay(PAYMENT, freshKey())).json();
  return { id, ...(await model.reaches(id, 'succeeded')) };
}

const breaks = () => model.all('SELECT break_id, stripe_account FROM breaks ORDER BY break_id');
const booked = (id) =>
  model.first('SELECT listed_payment, moved_payment FROM payments WHERE payment_id = ?', id);
const refundedAt = (intent, key, account) =>
  site.simulator.stripe('refunds', {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/x-www-form-urlencoded',
      ...(account && { 'stripe-account': account }),
    },
    body: `payment_intent=${intent}&amount=300`,
  });

describe('the reconciliation', () => {
  test('reads the books of the own account and of connected ones', async () => {
    const payments = [await paid(own), await paid(connected)];
    const { reconcile } = await model.tick();
    assert.equal(reconcile.accounts, 2, JSON.stringify(reconcile));
    assert.equal(reconcile.complete, true);
    assert.deepEqual(await breaks(), []);
    for (const { id, provider_payment: intent } of payments)
      assert.deepEqual(await booked(id), { listed_payment: intent, moved_payment: intent });
    const cursors = await model.all('SELECT name FROM cursors');
    for (const name of ['stripe_events', 'stripe_payments:acct_C', 'stripe_movements_since:acct_C'])
      assert.ok(
        cursors.some((cursor) => cursor.name === name),
        name,
      );
  });

  test('finds what was given back at the dashboard of a connected account, and mends it', async () => {
    const { id, provider_payment: intent } = await paid(connected);
    await model.tick();
    await refundedAt(intent, A, 'acct_C');
    await model.tick();
    assert.deepEqual(await breaks(), [{ break_id: `amount:stripe:${intent}`, stripe_account: 'acct_C' }]);
    await until('the object knows', async () => {
      const { amount_refunded: refunded } = (await connected.payment(id)).json();
      return refunded === 300;
    });
  });

  test('control: without its account a payment of a connected one is missing, or unknown there', async () => {
    const { id, provider_payment: intent } = await paid(connected);
    await model.run('UPDATE payments SET stripe_account = NULL WHERE payment_id = ?', id);
    await model.tick();
    // Each account has a run of its own: the one that is first has its object asked, which mends the row.
    const found = (await breaks()).filter(({ break_id: id }) => id.endsWith(intent));
    const wrong = [
      { break_id: `missing:stripe:${intent}`, stripe_account: null },
      { break_id: `orphan:stripe:${intent}`, stripe_account: 'acct_C' },
    ];
    assert.ok(found.length > 0, 'nothing was found');
    for (const one of found)
      assert.ok(
        wrong.some((other) => isDeepStrictEqual(other, { ...one })),
        JSON.stringify(one),
      );
    await model.run("UPDATE payments SET stripe_account = 'acct_C' WHERE payment_id = ?", id);
  });

  test('goes on with an account that is not configured any more', async () => {
    const { id, provider_payment: intent } = await paid(connected);
    await configure(A, JSON.stringify({ own: card('own-token') }));
    const { reconcile } = await model.tick();
    assert.equal(reconcile.accounts, 2);
    assert.equal((await booked(id)).listed_payment, intent);
    assert.deepEqual(await breaks(), []);
  });

  test("compares nothing with another account's key, and says so", async () => {
    const { id, provider_payment: intent } = await paid(own);
    await configure(B);
    const { reconcile } = await model.tick();
    assert.equal(
      reconcile.error,
      'the configured key is of acct_B (test); payments of acct_A (test) are not compared',
    );
    assert.deepEqual(await breaks(), []);
    assert.equal((await booked(id)).listed_payment, null);
    await configure(A_ROLLED);
    assert.equal((await model.tick()).reconcile.error, undefined, 'a rolled key of the account');
    assert.equal((await booked(id)).listed_payment, intent);
  });

  test('control: where it is not known whose books they were, everything is missing there', async () => {
    const { provider_payment: intent } = await paid(own);
    await configure(B);
    await model.run('DELETE FROM compared_account');
    await model.tick();
    assert.ok((await breaks()).some(({ break_id: id }) => id === `missing:stripe:${intent}`));
    await model.run('DELETE FROM compared_account');
  });

  test('compares nothing while the key may not say of which account it is', async () => {
    await configure(A_ROLLED);
    await model.run("UPDATE compared_account SET credential = 'test:0000000000000000'");
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/account' });
    assert.match((await model.tick()).reconcile.error, /answered 500: allow it to read the account/);
    await site.simulator.calm();
    assert.equal((await model.tick()).reconcile.error, undefined);
  });
});
