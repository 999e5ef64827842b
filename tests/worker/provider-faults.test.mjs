// What the network and the payment provider do on a bad day. Whatever it is: the card is charged once at most, no
// answer says "failed" while money may have moved, and in the end the client has the true result.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, TRIP, account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { down, keyThatIs } from './support/unknown.mjs';
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

const AT_ONCE = { prefer: 'wait=0' };
const LATE_MS = TIMEOUT_MS * 2;
/** Longer than the timeout, however late its timer is on a busy machine: it is held until the fault is over. */
const HELD_MS = 60_000;

/** Every fault, and whether the card may have been charged when the first try of it is over. */
const faults = [
  { fault: 'request_lost', inDoubt: true },
  { fault: 'response_lost', inDoubt: true },
  { fault: 'slow', delay_ms: LATE_MS, inDoubt: true },
  { fault: 'slow_response', delay_ms: LATE_MS, inDoubt: true },
  { fault: 'error_before', inDoubt: true },
  { fault: 'error_after', inDoubt: true },
  { fault: 'connection_reset', inDoubt: true },
  { fault: 'connection_reset_after', inDoubt: true },
  { fault: 'rate_limited', inDoubt: false },
  { fault: 'lock_timeout', inDoubt: false },
];

/** Sends the request again and again until it is answered for good. */
async function insist(key, client = user) {
  const once = async () => {
    const answer = await client.book(key, TRIP, AT_ONCE);
    if (![409, 503].includes(answer.status)) return answer;
    assert.match(answer.header('retry-after'), /^[1-9]\d*$/);
    return undefined;
  };
  return until('a final answer', once, { everyMs: 50 });
}

/** What holds after every story: one charge, one receipt, the same bytes under the same key at each send. */
async function assertPaidOnce(answer) {
  assert.equal(answer.status, 201, answer.text);
  const { charges, totals } = await site.simulator.ledger(answer.ride);
  assert.equal(totals.succeeded_charges, 1);
  assert.equal(answer.json().ride.charge, charges[0].payment_intent);
  const payments = await site.simulator.payments(answer.ride);
  assert.equal(new Set(payments.map((payment) => payment.body_sha256)).size, 1);
  assert.deepEqual(await receiptsOf(site, answer.ride), [`${answer.ride}_receipt`]);
  assert.equal((await site.objects.ride(answer.ride)).state.includes(answer.json().ride.charge), true);
}

describe('one request outlasts the fault', () => {
  const typical = ['response_lost', 'slow', 'error_before', 'rate_limited'];
  for (const { fault, delay_ms } of faults.filter((one) => typical.includes(one.fault))) {
    test(`${fault}: it is paid once, and the client notices nothing but the time`, async () => {
      await site.simulator.fault(fault, { delay_ms });
      const answer = await user.book(freshKey());
      await assertPaidOnce(answer);
      assert.equal(answer.header('idempotent-replayed'), null);
      assert.deepEqual(await site.simulator.faults(), [], 'the fault was played');
    });
  }
});

describe('the first answer does not wait for the end', () => {
  for (const { fault, delay_ms, inDoubt } of faults) {
    const slug = inDoubt ? 'outcome-unknown' : 'temporarily-unavailable';
    test(`${fault}: ${slug} first, then the true result`, async () => {
      const key = freshKey();
      await site.simulator.fault(fault, { delay_ms: delay_ms && HELD_MS });
      const first = await user.book(key, TRIP, AT_ONCE);
      await site.simulator.calm();
      assert.equal(first.status, 503);
      assert.equal(first.json().type, `/problems/${slug}`);
      assert.match(first.header('retry-after'), /^[1-9]\d*$/);
      assert.equal(first.header('location'), `/rides/${first.ride}`);
      assert.equal(first.header('idempotent-replayed'), null);

      const answer = await insist(key);
      assert.equal(answer.ride, first.ride);
      await assertPaidOnce(answer);
      const again = await user.book(key);
      assert.deepEqual([again.status, again.text], [201, answer.text], 'no 503 was stored');
    });
  }
});

describe('the provider is down for a while', () => {
  test('one kind of fault after the other: still one charge', async () => {
    const key = freshKey();
    const stories = ['connection_reset', 'rate_limited', 'response_lost'];
    for (const fault of stories) await site.simulator.fault(fault);
    const answer = await user.book(key, TRIP, { prefer: 'wait=30' });
    await assertPaidOnce(answer);
    assert.equal((await site.simulator.payments(answer.ride)).length, stories.length + 1);
  });

  test('each try waits longer than the one before', async () => {
    await site.simulator.fault('rate_limited', { count: 2 });
    const answer = await user.book(freshKey(), TRIP, { prefer: 'wait=30' });
    await assertPaidOnce(answer);
    const at = (await site.simulator.payments(answer.ride)).map((payment) => payment.at_ms);
    const pauses = at.slice(1).map((ms, i) => ms - at[i]);
    // Half a second, then one; half of each is random.
    const least = [250, 500];
    assert.equal(pauses.length, 2);
    pauses.forEach((pause, i) => assert.ok(pause >= least[i] - 20, `pause ${i}: ${pause} ms`));
  });

  test('a duplicate during the outage waits for the same payment', async () => {
    const key = freshKey();
    await site.simulator.fault('response_lost');
    const answers = await Promise.all(Array.from({ length: 10 }, () => user.book(key)));
    for (const answer of answers) assert.equal(answer.text, answers[0].text);
    await assertPaidOnce(answers[0]);
  });

  test('a declined card stays declined, and is not charged', async () => {
    const declined = account(site, DECLINED_USER);
    for (const fault of ['response_lost', 'error_after', 'rate_limited']) {
      await site.simulator.fault(fault);
      const answer = await declined.book(freshKey());
      assert.equal(answer.status, 402, `${fault}: ${answer.text}`);
      assert.equal(answer.json().code, 'card_declined');
      assert.equal(await site.simulator.charges(answer.ride), 0);
    }
  });
});

describe('an unknown outcome', () => {
  test('is a status of its own for the key, and for the ride', async () => {
    const key = freshKey();
    await down(site, 'response_lost');
    const { ride } = await user.book(key, TRIP, AT_ONCE);
    const unknown = await keyThatIs(user, key, 'unknown');
    assert.equal(unknown.recovery_point, 'ride_created');
    assert.deepEqual([unknown.response_code, unknown.expires_at], [null, null]);
    const isUnknown = async () => (await user.ride(ride)).json().status === 'unknown';
    await until('so is what the ride says', isUnknown);
    assert.equal((await user.ride(ride)).json().charge, null);
    assert.equal(await site.simulator.charges(ride), 1, 'the card was charged, but nobody here knows');
    await site.simulator.calm();
    await assertPaidOnce(await insist(key));
    assert.equal((await user.key(key)).json().status, 'complete');
    assert.equal((await user.ride(ride)).json().status, 'paid');
  });

  test('is not what a refusal leaves behind: nothing was charged, and we know it', async () => {
    const key = freshKey();
    // However often the alarm tries meanwhile.
    await site.simulator.fault('rate_limited', { count: 1000 });
    const { ride } = await user.book(key, TRIP, AT_ONCE);
    assert.equal((await user.key(key)).json().status, 'processing');
    assert.equal((await user.ride(ride)).json().status, 'pending');
    await site.simulator.calm();
    await assertPaidOnce(await insist(key));
  });
});

describe('the look-up at the provider', () => {
  const lookUps = async () =>
    (await site.simulator.requests()).filter(({ method, path }) => method === 'GET' && path !== '/v1/account')
      .length;

  test('finds the charge behind a stored 500, without another send', async () => {
    const before = await lookUps();
    await site.simulator.fault('error_after');
    const answer = await user.book(freshKey());
    await assertPaidOnce(answer);
    assert.equal((await site.simulator.payments(answer.ride)).length, 1);
    assert.equal(await lookUps(), before + 1);
  });

  test('is repeated until it succeeds', async () => {
    await site.simulator.fault('error_after');
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/payment_intents', count: 1 });
    const key = freshKey();
    const first = await user.book(key, TRIP, AT_ONCE);
    assert.equal(first.status, 503);
    // After a look-up that failed the next one comes much later: make that past.
    const again = await until('the look-up failed', async () => {
      const answer = await user.book(key, TRIP, AT_ONCE);
      // 409: the run that asks has not written down yet what came of it.
      return (await site.simulator.faults()).length === 0 && answer.status !== 409 && answer;
    });
    assert.equal(again.status, 503);
    await site.objects.sql(first.ride, 'UPDATE foreign_calls SET next_try_at_ms = 0');
    await assertPaidOnce(await insist(key));
  });

  test('believes that nothing is there only after a quiet time; then the payment has failed', async () => {
    const key = freshKey();
    await site.simulator.fault('request_lost');
    const { ride } = await user.book(key, TRIP, AT_ONCE);
    // As if the provider had said that the key will never give another answer.
    await site.objects.sql(ride, 'UPDATE foreign_calls SET answer_is_stored = 1, next_try_at_ms = 0');
    const lastSent = (await site.objects.call(ride)).last_sent_at_ms;
    const early = await user.book(key, TRIP, AT_ONCE);
    assert.equal(early.status, 503, 'it could still be on its way');
    const answer = await insist(key);
    assert.equal(answer.status, 402);
    assert.equal(answer.json().code, 'payment_not_completed');
    assert.ok((await site.objects.key(ride)).finished_at_ms >= lastSent + QUIET_MS);
    assert.equal((await site.simulator.payments(ride)).length, 1, 'and nothing was sent again');
    assert.equal(await site.simulator.charges(ride), 0);
    assert.equal((await site.objects.jobs(ride)).length, 0);
  });
});

describe("the provider's window", () => {
  /** A charge that nobody here knows of, under a key that the provider has forgotten since. */
  async function forgotten(key, before = () => {}) {
    // The alarm's tries are lost too, until it is forgotten.
    await site.simulator.fault('response_lost', { count: 1000 });
    const { ride } = await user.book(key, TRIP, AT_ONCE);
    assert.equal(await site.simulator.charges(ride), 1);
    await before(ride);
    await site.simulator.advance(25 * HOUR_MS);
    await site.simulator.calm();
    return ride;
  }
  afterEach(() => site.simulator.reset()); // and its clock

  test('is over: the payment is looked up, never sent again', async () => {
    const key = freshKey();
    const sentAtMs = Date.now() - 25 * HOUR_MS;
    let sends;
    const ride = await forgotten(key, async (ride) => {
      // Who is at work on it at this moment may still send it, and writes when it was sent first.
      await until('nobody sends it any more', async () => {
        await site.objects.sql(ride, 'UPDATE foreign_calls SET first_sent_at_ms = ?', sentAtMs);
        const [{ rests }] = await site.objects.sql(
          ride,
          `SELECT count(*) AS rests FROM idempotency_keys JOIN foreign_calls
           WHERE lease_holder IS NULL AND first_sent_at_ms = ?`,
          sentAtMs,
        );
        return rests === 1;
      });
      sends = (await site.simulator.payments(ride)).length;
    });
    const answer = await insist(key);
    assert.equal(answer.status, 201);
    assert.equal(await site.simulator.charges(ride), 1);
    assert.equal((await site.simulator.payments(ride)).length, sends);
  });

  test('matters: with a wrong clock on our side the same story charges twice', async () => {
    const key = freshKey();
    const ride = await forgotten(key);
    await insist(key);
    assert.equal(await site.simulator.charges(ride), 2, 'the control must be able to fail');
  });
});

describe('control: without derived keys at the provider', () => {
  test('a lost response is a second charge', async () => {
    const unprotected = await startSite({ vars: { ...vars, UNPROTECTED: 'true' } });
    try {
      await unprotected.simulator.fault('response_lost');
      const answer = await account(unprotected).book(freshKey());
      assert.equal(answer.status, 201);
      assert.equal(await unprotected.simulator.charges(answer.ride), 2);
    } finally {
      await unprotected.close();
    }
  });
});
