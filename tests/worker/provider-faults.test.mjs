// What the network and the payment provider do on a bad day. Whatever it is: the card is charged once at most, no
// answer says "failed" while money may have moved, and in the end the client has the true result.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { putOff } from './support/objects.mjs';
import { AT_ONCE, PATIENT, PAYMENT, insist as insistOn } from './support/payments.mjs';
import { until } from './support/until.mjs';

const HOUR_MS = 3_600_000;
const TIMEOUT_MS = 300;
const QUIET_MS = 900;
const vars = {
  PROVIDER_TIMEOUT_MS: `${TIMEOUT_MS}`,
  QUIET_MS: `${QUIET_MS}`,
  // Nothing here is completed by the provider later.
  QUARANTINE_MS: `${QUIET_MS}`,
  LEASE_MS: '60000',
  // The alarm leaves the work to the clients here.
  COMPLETER_MS: '60000',
};
const site = await startSite({ vars });
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

/** Sends the request again and again until it is answered for good. */
const insist = (key) => insistOn(() => user.pay(PAYMENT, key, AT_ONCE));

/** What holds after every story: one charge, one receipt, the same bytes under the same key at each send. */
async function assertPaidOnce(answer) {
  assert.equal(answer.status, 201, answer.text);
  const { charges, totals } = await site.simulator.ledger(answer.payment);
  assert.equal(totals.succeeded_charges, 1);
  assert.equal(answer.json().provider_payment, charges[0].payment_intent);
  const sends = await site.simulator.payments(answer.payment);
  assert.equal(new Set(sends.map(({ body_sha256 }) => body_sha256)).size, 1);
  assert.deepEqual(await receiptsOf(site, answer.payment), [`${answer.payment}_receipt`]);
  const { provider_payment } = await site.objects.payment(answer.payment);
  assert.equal(provider_payment, charges[0].payment_intent);
}

describe('one request outlasts the fault', () => {
  for (const { fault, delay_ms } of [
    { fault: 'response_lost' },
    { fault: 'slow', delay_ms: TIMEOUT_MS * 2 },
    { fault: 'error_before' },
    { fault: 'rate_limited' },
  ])
    test(`${fault}: it is paid once, and the client notices nothing but the time`, async () => {
      await site.simulator.fault(fault, { delay_ms });
      const answer = await user.pay(PAYMENT, freshKey());
      await assertPaidOnce(answer);
      assert.equal(answer.header('idempotent-replayed'), null);
      assert.deepEqual(await site.simulator.faults(), [], 'the fault was played');
    });
});

describe('the provider is down for a while', () => {
  test('one kind of fault after the other: still one charge', async () => {
    const key = freshKey();
    const stories = ['connection_reset', 'rate_limited', 'response_lost'];
    for (const fault of stories) await site.simulator.fault(fault);
    const answer = await user.pay(PAYMENT, key, PATIENT);
    await assertPaidOnce(answer);
    assert.equal((await site.simulator.payments(answer.payment)).length, stories.length + 1);
  });

  test('each try waits longer than the one before', async () => {
    await site.simulator.fault('rate_limited', { count: 2 });
    const answer = await user.pay(PAYMENT, freshKey(), PATIENT);
    await assertPaidOnce(answer);
    const at = (await site.simulator.payments(answer.payment)).map(({ at_ms }) => at_ms);
    const pauses = at.slice(1).map((ms, i) => ms - at[i]);
    // Half a second, then one; half of each is random.
    const least = [250, 500];
    assert.equal(pauses.length, 2);
    pauses.forEach((pause, i) => assert.ok(pause >= least[i] - 20, `pause ${i}: ${pause} ms`));
  });

  test('a duplicate during the outage waits for the same payment', async () => {
    const key = freshKey();
    await site.simulator.fault('response_lost');
    const answers = await Promise.all(Array.from({ length: 10 }, () => user.pay(PAYMENT, key)));
    for (const answer of answers) assert.equal(answer.text, answers[0].text);
    await assertPaidOnce(answers[0]);
  });
});

describe('the look-up at the provider', () => {
  const lookUps = async () =>
    (await site.simulator.requests()).filter(({ method, path }) => method === 'GET' && path !== '/v1/account')
      .length;

  test('finds the charge behind a stored 500, without another send', async () => {
    const before = await lookUps();
    await site.simulator.fault('error_after');
    const answer = await user.pay(PAYMENT, freshKey());
    await assertPaidOnce(answer);
    assert.equal((await site.simulator.payments(answer.payment)).length, 1);
    assert.equal(await lookUps(), before + 1);
  });

  test('is repeated until it succeeds', async () => {
    await site.simulator.fault('error_after');
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/payment_intents', count: 1 });
    const key = freshKey();
    const first = await user.pay(PAYMENT, key, AT_ONCE);
    assert.equal(first.status, 503);
    // After a look-up that failed the next one comes much later: make that past.
    const again = await until('the look-up failed', async () => {
      const answer = await user.pay(PAYMENT, key, AT_ONCE);
      // 409: the run that asks has not written down yet what came of it.
      return (await site.simulator.faults()).length === 0 && answer.status !== 409 && answer;
    });
    assert.equal(again.status, 503);
    await site.objects.sql(first.payment, 'UPDATE foreign_calls SET next_try_at_ms = 0');
    await assertPaidOnce(await insist(key));
  });

  test('believes that nothing is there only after a quiet time; then the payment has failed', async () => {
    const key = freshKey();
    await site.simulator.fault('request_lost', { count: 1000 });
    const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
    // A run would write over what the test writes.
    await putOff(site.objects.sql, payment);
    await site.simulator.calm();
    const sends = (await site.simulator.payments(payment)).length;
    // As if the provider had said that the key will never give another answer.
    const lastSent = (await site.objects.call(payment)).last_sent_at_ms;
    const wasSent = (at) =>
      site.objects.sql(
        payment,
        'UPDATE foreign_calls SET answer_is_stored = 1, next_try_at_ms = 0, last_sent_at_ms = ?',
        at,
      );
    // So long as it is in the time to come, the quiet time is not over, however slow the machine is.
    await wasSent(lastSent + 600_000);
    const early = await user.pay(PAYMENT, key, AT_ONCE);
    assert.equal(early.status, 503, 'it could still be on its way');
    await putOff(site.objects.sql, payment);
    await wasSent(lastSent);
    const answer = await insist(key);
    assert.equal(answer.status, 402);
    assert.equal(answer.json().code, 'payment_not_completed');
    assert.ok((await site.objects.key(payment)).finished_at_ms >= lastSent + QUIET_MS);
    assert.equal((await site.simulator.payments(payment)).length, sends, 'and nothing was sent again');
    assert.equal(await site.simulator.charges(payment), 0);
    assert.deepEqual(await receiptsOf(site, payment), []);
  });
});

describe("the provider's window", () => {
  /** A charge that nobody here knows of, under a key that the provider has forgotten since. */
  async function forgotten(key, before = () => {}) {
    // The alarm's tries are lost too, until it is forgotten.
    await site.simulator.fault('response_lost', { count: 1000 });
    const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
    assert.equal(await site.simulator.charges(payment), 1);
    await before(payment);
    await site.simulator.advance(25 * HOUR_MS);
    await site.simulator.calm();
    return payment;
  }
  afterEach(() => site.simulator.reset()); // and its clock

  test('is over: the payment is looked up, never sent again', async () => {
    const key = freshKey();
    const sentAtMs = Date.now() - 25 * HOUR_MS;
    let sends;
    const payment = await forgotten(key, async (payment) => {
      // Who is at work on it at this moment may still send it, and writes when it was sent first.
      await until('nobody sends it any more', async () => {
        await site.objects.sql(payment, 'UPDATE foreign_calls SET first_sent_at_ms = ?', sentAtMs);
        const [{ rests }] = await site.objects.sql(
          payment,
          `SELECT count(*) AS rests FROM idempotency_keys JOIN foreign_calls
           WHERE lease_holder IS NULL AND first_sent_at_ms = ?`,
          sentAtMs,
        );
        return rests === 1;
      });
      sends = (await site.simulator.payments(payment)).length;
    });
    const answer = await insist(key);
    assert.equal(answer.status, 201);
    assert.equal(await site.simulator.charges(payment), 1);
    assert.equal((await site.simulator.payments(payment)).length, sends);
  });

  test('matters: with a wrong clock on our side the same story charges twice', async () => {
    const key = freshKey();
    const payment = await forgotten(key);
    await insist(key);
    assert.equal(await site.simulator.charges(payment), 2, 'the control must be able to fail');
  });
});
