// Every way in which a provider does not answer, or not clearly, for an operation: nobody is told that it failed, the same
// key brings the truth, and it has moved the money once.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { freshKey } from './account.mjs';
import { AT_ONCE, assertProblem, insist, send } from './payments.mjs';
import { until } from './until.mjs';

const TIMEOUT_MS = 400;
/** Longer than any timeout, however late its timer is on a busy machine; what is held goes on when the fault is over. */
const LATE_MS = 60_000;

/** Settings under which the provider is given up soon. */
export const IMPATIENT = {
  PROVIDER_TIMEOUT_MS: `${TIMEOUT_MS}`,
  QUIET_MS: '900',
  LEASE_MS: '60000',
  COMPLETER_MS: '60000',
};

/** Every way not to answer, and whether money may have moved when it is over. */
const faults = [
  { fault: 'request_lost', inDoubt: true },
  { fault: 'response_lost', inDoubt: true },
  { fault: 'slow', delay_ms: LATE_MS, inDoubt: true },
  { fault: 'slow_response', delay_ms: LATE_MS, inDoubt: true },
  { fault: 'error_after', inDoubt: true },
  { fault: 'error_before', inDoubt: true },
  { fault: 'connection_reset', inDoubt: true },
  { fault: 'connection_reset_after', inDoubt: true },
  { fault: 'unreadable_answer', inDoubt: true },
  { fault: 'rate_limited', inDoubt: false },
  { fault: 'lock_timeout', inDoubt: false },
];

/** Every call has this fault, and no look-up is answered: the alarm cannot find out either, until it is over. */
export async function down(site, fault, more) {
  await site.simulator.fault(fault, { ...more, count: 1000 });
  await site.simulator.fault('error_before', { method: 'GET', count: 1000 });
}

/** A key once it has this status. While a try is on its way an unknown outcome is under way again. */
export function keyThatIs(user, key, status) {
  return until(`the key is ${status}`, async () => {
    const shown = (await user.key(key)).json();
    return shown.status === status && shown;
  });
}

/** One effect, as it was asked for; and always the same bytes under the key. */
export async function assertOnce(site, operation, answer) {
  assert.equal(answer.status, operation.status, answer.text);
  assert.deepEqual(await site.simulator.moved(answer.payment), operation.moved);
  const sends = await site.simulator.sends(operation.derivedKey(answer));
  assert.equal(new Set(sends.map(({ body_sha256 }) => body_sha256)).size, 1);
}

/** The tests of one operation. */
export function testUnknownOutcomes(site, user, operation) {
  for (const { fault, delay_ms, inDoubt } of faults) {
    const kind = inDoubt ? 'outcome-unknown' : 'temporarily-unavailable';
    test(`${fault}: ${kind} first, then the true result`, async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      await down(site, fault, { delay_ms });
      const first = await send(user, request, key, AT_ONCE);
      assertProblem(first, 503, kind, { resource: `/payments/${first.payment}` });
      assert.match(first.header('retry-after'), /^[1-9]\d*$/);
      assert.equal(first.header('location'), `/payments/${first.payment}`);
      assert.equal(first.header('idempotent-replayed'), null);
      const shown = await keyThatIs(user, key, inDoubt ? 'unknown' : 'processing');
      assert.deepEqual([shown.response_code, shown.expires_at], [null, null]);

      await site.simulator.calm();
      const answer = await insist(() => send(user, request, key));
      assert.equal(answer.payment, first.payment);
      await assertOnce(site, operation, answer);
      const again = await send(user, request, key);
      assert.deepEqual(again.bytes, answer.bytes, 'no 503 was stored');
      assert.equal((await user.key(key)).json().status, 'complete');
    });
  }
}

/** A request whose answers are lost, those of the alarm's tries too, until `end` brings the truth. */
export async function lost(site, user, request) {
  const key = freshKey();
  await down(site, 'response_lost');
  const unknown = await send(user, request, key, AT_ONCE);
  assert.equal(unknown.status, 503, unknown.text);
  const end = async () => {
    await site.simulator.calm();
    return insist(() => send(user, request, key));
  };
  return { id: unknown.payment, end };
}
