// What is captured and given back in parts: at every moment authorised ≥ captured ≥ refunded, however many ask at once and
// however late the provider answers. The simulator's ledger is the judge.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  PATIENT,
  assertProblem,
  client,
  insist,
  moved,
  paid,
} from './support/payments.mjs';
import { until } from './support/until.mjs';

const site = await startSite({ vars: { PROVIDER_TIMEOUT_MS: '2000', QUIET_MS: '3000', LEASE_MS: '60000' } });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const refund = (id, amount, headers) => user.post(`/payments/${id}/refunds`, { amount }, freshKey(), headers);
const together = (count, act) => Promise.all(Array.from({ length: count }, act));

/** The ledger's sums and ours are the same, and in order. */
async function assertSums(id, expected) {
  const { amount, amount_captured, amount_refunded } = (await user.payment(id)).json();
  const { captured, refunded } = await site.simulator.moved(id);
  assert.deepEqual({ captured, refunded }, expected);
  assert.deepEqual({ captured: amount_captured, refunded: amount_refunded }, expected);
  assert.ok(amount >= captured && captured >= refunded);
  const { data } = (await user.refunds(id)).json();
  const given = data.filter(({ status }) => status !== 'failed');
  assert.equal(
    given.reduce((sum, one) => sum + one.amount, 0),
    refunded,
  );
}

describe('a capture', () => {
  test('of a part gives the rest free', async () => {
    const { id } = await paid(user, AUTHORISATION);
    const captured = await moved(user, id, 'capture', { amount: 1 });
    assert.deepEqual(
      [captured.status, captured.amount_captured, captured.amount_capturable],
      ['succeeded', 1, 0],
    );
    await assertSums(id, { captured: 1, refunded: 0 });
  });

  test('of more than was authorised is refused, and uses up neither the key nor the payment', async () => {
    const { id } = await paid(user, AUTHORISATION);
    const key = freshKey();
    const tooMuch = await user.post(`/payments/${id}/capture`, { amount: 2501 }, key);
    assertProblem(tooMuch, 422, 'amount-too-large', { available: 2500, resource: `/payments/${id}` });
    assertProblem(await user.key(key), 404, 'not-found');
    await moved(user, id, 'capture', { amount: 2500 });
    await assertSums(id, { captured: 2500, refunded: 0 });
  });

  test('asked for by ten at once under ten keys happens once', async () => {
    const { id } = await paid(user, AUTHORISATION);
    await site.simulator.fault('slow', { delay_ms: 200 });
    const answers = await together(10, () =>
      user.post(`/payments/${id}/capture`, { amount: 2000 }, freshKey()),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(9).fill(409)]);
    await assertSums(id, { captured: 2000, refunded: 0 });
  });

  test('and a void at once: one of them happens', async () => {
    const { id } = await paid(user, AUTHORISATION);
    const answers = await Promise.all(
      ['capture', 'void'].map((move) => user.post(`/payments/${id}/${move}`, undefined, freshKey())),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409]);
    const { captured, voided } = await site.simulator.moved(id);
    assert.equal((captured > 0 ? 1 : 0) + voided, 1);
  });
});

describe('refunds', () => {
  test('of parts add up to what was captured, never to more', async () => {
    const { id } = await paid(user, AUTHORISATION);
    await moved(user, id, 'capture', { amount: 1000 });
    for (const amount of [400, 599]) await moved(user, id, 'refunds', { amount });
    assertProblem(await refund(id, 2), 422, 'amount-too-large', { available: 1 });
    assert.equal((await moved(user, id, 'refunds')).amount, 1, 'all that is left');
    assertProblem(await refund(id, 1), 422, 'amount-too-large', { available: 0 });
    await assertSums(id, { captured: 1000, refunded: 1000 });
    const { data } = (await user.refunds(id)).json();
    for (const refund of data)
      assert.deepEqual((await user.ask(`/payments/${id}/refunds/${refund.id}`)).json(), refund);
    assertProblem(await user.ask(`/payments/${id}/refunds/re_${'A'.repeat(16)}`), 404, 'not-found');
    assert.deepEqual(
      data.map(({ amount }) => amount),
      [1, 599, 400],
      'newest first',
    );
  });

  test('ten at once, of 300 each, stop at what was captured', async () => {
    const { id } = await paid(user);
    const answers = await together(10, () => refund(id, 300));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(8).fill(201), 422, 422]);
    for (const answer of answers.filter(({ status }) => status === 422))
      assertProblem(answer, 422, 'amount-too-large', { available: 100 });
    await assertSums(id, { captured: 2500, refunded: 2400 });
  });

  test('ten of the whole at once: one, also while the provider is slow', async () => {
    const { id } = await paid(user);
    await site.simulator.fault('slow', { delay_ms: 400 });
    const answers = await together(10, () => user.post(`/payments/${id}/refunds`, undefined, freshKey()));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array(9).fill(422)]);
    await assertSums(id, { captured: 2500, refunded: 2500 });
  });

  test('ten at once with a provider that loses every first answer: each is one, and the sum holds', async () => {
    const { id } = await paid(user);
    await site.simulator.fault('connection_reset_after', { count: 10 });
    const keys = Array.from({ length: 10 }, freshKey);
    const ask = (key) => user.post(`/payments/${id}/refunds`, { amount: 300 }, key, PATIENT);
    const answers = await Promise.all(keys.map((key) => insist(() => ask(key))));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(8).fill(201), 422, 422]);
    await assertSums(id, { captured: 2500, refunded: 2400 });
  });

  test('that nobody has the answer of are counted all the same', async () => {
    const { id } = await paid(user);
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const open = refund(id, 2400, PATIENT);
    await until('the provider has it', async () => (await site.simulator.faults()).length === 0);
    assertProblem(await refund(id, 101, AT_ONCE), 422, 'amount-too-large', { available: 100 });
    assert.equal((await user.payment(id)).json().amount_refunded, 2400);
    await site.simulator.calm();
    assert.equal((await open).status, 201);
    await assertSums(id, { captured: 2500, refunded: 2400 });
  });

  test('that the provider refuses give their amount free again', async () => {
    const { id, provider_payment: theirs } = await paid(user);
    // Somebody gave the money back on the provider's own pages.
    const bank = site.server.getWorker('paid-once-simulator');
    const outside = await bank.fetch('https://stripe.simulator/v1/refunds', {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_demo', 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ payment_intent: theirs, amount: '2000' }).toString(),
    });
    assert.equal(outside.status, 200, await outside.text());
    const key = freshKey();
    const ask = () => user.post(`/payments/${id}/refunds`, { amount: 600 }, key);
    const refused = await ask();
    const { refund: shown } = assertProblem(refused, 402, 'operation-refused');
    assert.deepEqual([shown.status, shown.amount, shown.payment], ['failed', 600, id]);
    assert.deepEqual((await ask()).bytes, refused.bytes, 'it is stored');
    assert.equal((await user.payment(id)).json().amount_refunded, 2000, 'what was given back is asked for');
    await moved(user, id, 'refunds', { amount: 500 });
    assert.equal((await site.simulator.moved(id)).refunded, 2500);
  });
});

describe('a capture that the provider refuses', () => {
  test('is a 402 that says how the payment stands now', async () => {
    const { id, provider_payment: theirs } = await paid(user, AUTHORISATION);
    const bank = site.server.getWorker('paid-once-simulator');
    const outside = await bank.fetch(`https://stripe.simulator/v1/payment_intents/${theirs}/cancel`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_demo' },
    });
    assert.equal(outside.status, 200, await outside.text());
    const key = freshKey();
    const ask = () => user.post(`/payments/${id}/capture`, undefined, key);
    const refused = await ask();
    const { payment } = assertProblem(refused, 402, 'operation-refused');
    assert.deepEqual([payment.id, payment.status, payment.amount_captured], [id, 'canceled', 0]);
    assert.deepEqual((await ask()).bytes, refused.bytes);
    assert.equal((await user.payment(id)).json().status, 'canceled');
  });
});
