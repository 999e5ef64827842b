// A secret of another Stripe account, set while a call is in doubt: nothing is sent there. The call waits, a person is told,
// and with a key of its own account it goes on by itself. The simulator keeps accounts apart by their keys' names.

import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';
import { AT_ONCE, AUTHORISATION, PAYMENT, assertProblem, client, insist, paid } from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const A = 'sk_test_acct_A_1';
const A_ROLLED = 'sk_test_acct_A_2';
const B = 'sk_test_acct_B_1';

/** A run that a new secret has ended is gone on with by the alarm, soon. */
const VARS = { ...IMPATIENT, COMPLETER_MS: '2000', OUTBOX_MS: '2000' };
const ADMIN_TOKEN = 'an-operator-of-the-tests-with-a-long-enough-token';
const workers = (STRIPE_SECRET_KEY) =>
  demoWorkers({ vars: VARS, secrets: { STRIPE_SECRET_KEY, ADMIN_TOKEN } });
const site = await startSite({ workers: workers(A) });
const user = client(site);
after(() => site.close());
beforeEach(() => configure(A));
afterEach(() => site.simulator.calm());

/** Sets another secret: the Worker is deployed anew with it. */
const configure = (secret) => site.deploy(workers(secret));

const accountOf = async (payment, name = 'authorize_1') => {
  const calls = await site.objects.calls(payment);
  const { evidence } = calls.find((call) => call.name === name);
  return JSON.parse(evidence ?? '{}').sent_to;
};

/** The answer to a payment is lost, and so is everything that is sent after it. */
async function lost(key, payment = PAYMENT) {
  await site.simulator.fault('response_lost', { count: 1000 });
  const answer = await user.pay(payment, key, AT_ONCE);
  assertProblem(answer, 503, 'outcome-unknown', { resource: `/payments/${answer.payment}` });
  return answer.payment;
}

const waits = (payment, name) =>
  until('it is known to wait', async () => (await accountOf(payment, name)).away);

const charges = async (payment) => {
  const { charges } = await site.simulator.ledger(payment);
  return charges.filter(({ status }) => status === 'succeeded').map(({ account }) => account);
};

const learned = (payment) => until('its account is known', async () => (await accountOf(payment)).account);

describe('a payment in doubt', () => {
  test('is not sent to another account: it waits, is shown, and ends with a rolled key of its own', async () => {
    const key = freshKey();
    const payment = await lost(key);
    assert.equal(await learned(payment), 'acct_A');
    await configure(B);
    await site.simulator.calm();
    assert.match(await waits(payment), /sent to account acct_A \(test\).* of acct_B \(test\)/);
    assertProblem(await user.pay(PAYMENT, key, AT_ONCE), 503, 'outcome-unknown', {
      resource: `/payments/${payment}`,
    });
    assert.deepEqual(await charges(payment), ['acct_A']);
    const flagged = async () => {
      const [row] = await site.rows(
        'SELECT flagged FROM key_list WHERE object = (SELECT object FROM payments WHERE payment_id = ?)',
        payment,
      );
      return row?.flagged === 1;
    };
    await until('the desk shows it', flagged);
    await configure(A_ROLLED);
    const answer = await insist(() => user.pay(PAYMENT, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await charges(payment), ['acct_A']);
    assert.equal((await accountOf(payment)).away, undefined);
  });

  test('whose account could not be learned waits for the very key', async () => {
    const key = freshKey();
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/account', count: 1000 });
    const payment = await lost(key);
    await configure(A_ROLLED);
    await site.simulator.calm();
    assert.match(await waits(payment), /another key, whose account is not known/);
    assert.deepEqual(await charges(payment), ['acct_A']);
    await configure(A);
    const answer = await insist(() => user.pay(PAYMENT, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await charges(payment), ['acct_A']);
  });

  test('control: where it is not known to which account it went, it is charged again there', async () => {
    const key = freshKey();
    const payment = await lost(key);
    await configure(B);
    await site.simulator.calm();
    await waits(payment);
    await site.objects.sql(payment, 'UPDATE foreign_calls SET evidence = NULL, next_try_at_ms = 0');
    assert.equal((await insist(() => user.pay(PAYMENT, key, AT_ONCE))).status, 201);
    assert.deepEqual((await charges(payment)).sort(), ['acct_A', 'acct_B']);
  });
});

describe('what follows a payment', () => {
  test('is not sent to another account either', async () => {
    const { id } = await paid(user, AUTHORISATION);
    await configure(B);
    const key = freshKey();
    const refused = await user.post(`/payments/${id}/capture`, {}, key, AT_ONCE);
    assert.equal(refused.status, 503, refused.text);
    assert.match(await waits(id, 'capture'), /not in the account of the configured key/);
    assert.equal((await user.payment(id)).json().pending_operation?.type, 'capture');
    await configure(A);
    const answer = await insist(() => user.post(`/payments/${id}/capture`, {}, key, AT_ONCE));
    assert.equal(answer.status, 200, answer.text);
    assert.equal((await site.simulator.moved(id)).captured, 2500);
  });

  test('goes on with a rolled key of the account', async () => {
    const { id } = await paid(user);
    await configure(A_ROLLED);
    const answer = await user.post(`/payments/${id}/refunds`, { amount: 700 }, freshKey());
    assert.equal(answer.status, 201, answer.text);
    assert.equal((await site.simulator.moved(id)).refunded, 700);
  });

  test('asks for nothing while the key is the same', async () => {
    const { id } = await paid(user);
    const before = (await site.simulator.requests()).length;
    assert.equal((await user.post(`/payments/${id}/refunds`, { amount: 700 }, freshKey())).status, 201);
    assert.equal((await site.simulator.requests()).length, before + 1);
  });

  test('is asked for in the right account only', async () => {
    const card = 'pm_card_authenticationRequired';
    const body = { ...PAYMENT, payment_method: card, return_url: 'https://shop.example/back' };
    const made = await user.pay(body, freshKey());
    assert.equal(made.json().status, 'requires_action', made.text);
    await configure(B);
    const { id } = made.json();
    assert.equal((await user.payment(id)).json().status, 'requires_action');
    assert.match(await waits(id), /not in the account of the configured key/);
    await configure(A_ROLLED);
    const isFree = async () => {
      await user.payment(id);
      return (await accountOf(id)).away === undefined;
    };
    await until('it is asked for again', isFree, { everyMs: 500 });
  });
});

describe('a customer', () => {
  const put = (email, content) =>
    user.ask(`/customers/${email}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(content),
    });
  const made = async (email, content) => {
    const answer = await put(email, content);
    assert.equal(answer.status, 201, answer.text);
    return answer.json();
  };
  const ADA = { name: 'Ada', payment_method: 'pm_card_visa' };

  for (const [what, content] of [
    ['the same', ADA],
    ['another name', { name: 'Ada King' }],
    ['another payment method', { name: 'Ada', payment_method: 'pm_card_mastercard' }],
  ])
    test(`is made anew in another account, asked for ${what}, and can be changed and erased there`, async () => {
      const email = `${freshKey()}@shop.example`;
      const first = await made(email, ADA);
      await configure(B);
      const second = await made(email, content);
      assert.notEqual(second.id, first.id);
      const found = await put(email, content);
      assert.deepEqual([found.status, found.json().id], [200, second.id], found.text);
      const changed = await put(email, { name: 'Ada Lovelace' });
      assert.deepEqual([changed.status, changed.json().id], [200, second.id], changed.text);
      const headers = { authorization: `Bearer ${B}` };
      const { metadata } = await site.simulator.stripe(`customers/${second.id}`, { headers });
      const erased = await operator(site, ADMIN_TOKEN).press(
        `/admin/customers/${metadata.resource}/erase`,
        {},
        { accept: 'application/json' },
      );
      assert.equal(erased.status, 200, erased.text);
    });

  test('stays the same with a rolled key of the account', async () => {
    const email = `${freshKey()}@shop.example`;
    const first = await made(email, ADA);
    await configure(A_ROLLED);
    const again = await put(email, ADA);
    assert.deepEqual([again.status, again.json()], [200, first], again.text);
  });
});
