// A retry goes on from wherever the first request stopped, and the rows tell the truth at every point.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, TRIP, account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { jobsOf } from './support/jobs.mjs';

const site = await startSite({ vars: { COMPLETER_MS: '3600000' } });
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

/** A request that stopped after the ride was created. */
async function interrupted(key) {
  const { ride, status } = await user.book(key, { ...TRIP, raise_error: 'true' });
  assert.equal(status, 500);
  return ride;
}

/** A finished booking whose key is put back to an earlier point, as a crash before the next commit leaves it. */
async function backTo(point, key) {
  const ride = await interrupted(key);
  const { operation } = await site.objects.key(ride);
  const finished = await user.book(key);
  assert.equal(finished.status, 201);
  await site.objects.sql(
    ride,
    `UPDATE idempotency_keys SET status = 'open', recovery_point = ?, operation = ?, resume_at_ms = ?,
       last_run_at_ms = 0, failures = 0, lease_holder = 'an instance that is gone', lease_until_ms = ?,
       response_status = NULL, response_headers = NULL, response_body = NULL, finished_at_ms = NULL,
       expires_at_ms = NULL`,
    point,
    operation,
    Date.now() + 3_600_000,
    Date.now() + 3_600_000,
  );
  await jobsOf(site, ride);
  await site.objects.sql(ride, "DELETE FROM audit_records WHERE action LIKE '%.staged'");
  if (point === 'ride_created') {
    await site.objects.sql(ride, `UPDATE rides SET state = '{"state":"created"}'`);
    await site.objects.sql(ride, "DELETE FROM audit_records WHERE action = 'ride.charged'");
  }
  return finished;
}

/** Everything that a paid ride must have left behind, once. */
async function assertWhole(ride) {
  const jobs = await jobsOf(site, ride);
  const { idempotency_keys: keys, rides, foreign_calls: calls } = await site.objects.dump(ride);
  const audit = await site.objects.audit(ride);
  assert.equal(await site.simulator.charges(ride), 1);
  assert.deepEqual([keys.length, rides.length, calls.length], [1, 1, 1]);
  assert.deepEqual(
    [keys[0].status, keys[0].recovery_point, keys[0].lease_holder],
    ['finished', 'finished', null],
  );
  assert.equal(calls[0].status, 'settled');
  assert.equal(JSON.parse(rides[0].state).state, 'paid');
  assert.deepEqual(
    audit.map(({ action, subject, actor }) => [action, subject, actor]),
    ['ride.created', 'ride.charged', 'receipt.staged', 'dispatch.staged'].map((action) => [
      action,
      ride,
      'account:user@example.com',
    ]),
  );
  assert.deepEqual(
    jobs.map(({ job_id: id, kind, state }) => [id, kind, state]),
    [
      [`${ride}_dispatch`, 'send_message', 'done'],
      [`${ride}_receipt`, 'send_receipt', 'done'],
    ],
  );
  assert.equal((await site.simulator.messages(`${ride}_dispatch`)).length, 1);
  assert.equal((await site.simulator.emails(ride)).length, 1);
}

describe('a retry goes on from', () => {
  test('started: nothing had happened yet', async () => {
    const key = freshKey();
    const ride = await interrupted(key);
    await site.objects.sql(ride, "UPDATE idempotency_keys SET recovery_point = 'started'");
    await site.objects.sql(ride, 'DELETE FROM rides');
    await site.objects.sql(ride, 'DELETE FROM audit_records');
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    await assertWhole(ride);
  });

  test('ride_created: the ride is not created again', async () => {
    const key = freshKey();
    const ride = await interrupted(key);
    const { created_at_ms: created } = await site.objects.ride(ride);
    assert.equal((await site.objects.audit(ride)).length, 1);
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    assert.equal((await site.objects.ride(ride)).created_at_ms, created);
    await assertWhole(ride);
  });

  test('ride_created with a charge that is frozen but was never sent: it is sent', async () => {
    const key = freshKey();
    // However often the alarm tries meanwhile.
    await site.simulator.fault('rate_limited', { count: 1000 });
    const { ride } = await user.book(key, TRIP, { prefer: 'wait=0' });
    assert.notEqual((await site.objects.call(ride)).status, 'settled');
    await site.simulator.calm();
    assert.equal((await user.book(key)).status, 201);
    await assertWhole(ride);
  });

  test('ride_created with a send on its way when the instance died: it is sent again under the same key', async () => {
    const key = freshKey();
    // However often the alarm tries meanwhile.
    await site.simulator.fault('connection_reset_after', { count: 1000 });
    const { ride } = await user.book(key, TRIP, { prefer: 'wait=0' });
    await site.objects.putOff(ride);
    await site.simulator.calm();
    const before = await site.simulator.payments(ride);
    await site.objects.sql(
      ride,
      `UPDATE foreign_calls SET status = 'in_flight', maybe_executed = 0, next_try_at_ms = 0`,
    );
    assert.equal((await user.book(key)).status, 201);
    const payments = await site.simulator.payments(ride);
    assert.equal(payments.length, before.length + 1);
    const [first, ...others] = payments.map(({ replayed }) => replayed);
    assert.ok(!first && others.every(Boolean), 'executed once, and answered from its memory since');
    assert.equal(new Set(payments.map(({ body_sha256 }) => body_sha256)).size, 1);
    await assertWhole(ride);
  });

  test('ride_created with the answer of the bank at hand: it is not asked again', async () => {
    const key = freshKey();
    const before = await backTo('ride_created', key);
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    assert.equal(answer.text, before.text);
    assert.equal((await site.simulator.payments(answer.ride)).length, 1);
    await assertWhole(answer.ride);
  });

  test('charge_created: only the receipt and the response are left to do', async () => {
    const key = freshKey();
    const before = await backTo('charge_created', key);
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    assert.equal(answer.text, before.text);
    assert.equal((await site.simulator.payments(answer.ride)).length, 1);
    await assertWhole(answer.ride);
  });

  test('finished: there is nothing left to do', async () => {
    const key = freshKey();
    const { ride } = await user.book(key);
    await jobsOf(site, ride);
    const rows = await site.objects.dump(ride);
    assert.equal((await user.book(key)).status, 201);
    const { idempotency_keys: keys, timeline, ...rest } = await site.objects.dump(ride);
    const replayed = timeline.pop();
    assert.equal(replayed.event, 'replayed');
    const [key1] = keys;
    assert.equal(key1.replays, 1);
    const before = { ...rest, timeline, idempotency_keys: [{ ...key1, replays: 0 }] };
    assert.deepEqual(before, rows, 'nothing but the replay is written');
    await assertWhole(ride);
  });
});

describe('a step that fails', () => {
  test('is rolled back as a whole; the lease is free at once, and the retry succeeds', async () => {
    const key = freshKey();
    const ride = await interrupted(key);
    // The phase that books the ride meets a row that is in its way.
    await site.objects.stored(
      ride,
      `CREATE TRIGGER in_the_way BEFORE INSERT ON timeline WHEN NEW.state LIKE '%"kind":"send_receipt"%'
         BEGIN SELECT RAISE(ABORT, 'in the way'); END`,
    );
    const failed = await user.book(key);
    assert.equal(failed.status, 500);
    assert.equal(failed.json().type, '/problems/interrupted');
    const row = await site.objects.key(ride);
    assert.deepEqual([row.status, row.recovery_point, row.lease_holder], ['open', 'charge_created', null]);
    assert.equal(row.failures, 2);
    const actions = (await site.objects.audit(ride)).map(({ action }) => action);
    assert.deepEqual(actions, ['ride.created', 'ride.charged'], 'no audit record without its effect');

    await site.objects.stored(ride, 'DROP TRIGGER in_the_way');
    assert.equal((await user.book(key)).status, 201);
    assert.equal((await site.simulator.payments(ride)).length, 1);
    await assertWhole(ride);
  });
});

describe('the rows', () => {
  test('of a declined payment hold no receipt, and say that nothing was charged', async () => {
    const { ride } = await account(site, DECLINED_USER).book(freshKey());
    assert.deepEqual(await jobsOf(site, ride), []);
    const actions = (await site.objects.audit(ride)).map(({ action }) => action);
    assert.deepEqual(actions, ['ride.created', 'ride.not_charged']);
    assert.equal(JSON.parse((await site.objects.ride(ride)).state).state, 'unpaid');
  });

  test('of a request that was answered are enough for all that comes after', async () => {
    const { ride } = await user.book(freshKey());
    await assertWhole(ride);
  });

  test('of an object from before replays were counted are brought up to date, and the count begins', async () => {
    const key = freshKey();
    const { ride, text } = await user.book(key);
    await jobsOf(site, ride);
    const rows = await site.objects.dump(ride);
    // As version 4 of the tables has left them, which did not know to which account a call was sent.
    for (const call of rows.foreign_calls) call.evidence = null;
    await site.objects.asBefore(ride);
    await site.objects.evict(ride);
    assert.equal((await user.key(key)).json().status, 'complete');
    assert.deepEqual(await site.objects.dump(ride), rows, 'the rows are as they would be');
    const again = await user.book(key);
    assert.deepEqual([again.text, again.header('idempotent-replayed')], [text, 'true']);
    assert.equal((await site.objects.key(ride)).replays, 1);
    await assertWhole(ride);
  });

  test('keep a timeline of bounded length: its beginning and its end', async () => {
    const key = freshKey();
    const ride = await interrupted(key);
    await site.objects.sql(
      ride,
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
       INSERT INTO timeline (key_id, at_ms, attempt, event, detail) SELECT 1, 0, 1, 'noise', CAST(i AS TEXT) FROM n`,
    );
    assert.equal((await user.book(key)).status, 201);
    const { timeline } = (await user.key(key)).json();
    assert.ok(timeline.length <= 200, `${timeline.length} lines`);
    assert.equal(timeline[0].event, 'key_created');
    assert.equal(timeline.at(-1).event, 'finished');
  });
});
