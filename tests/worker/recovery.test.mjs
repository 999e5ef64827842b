// A retry goes on from wherever the first request stopped, and the rows tell the truth at every point.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { jobsOf } from './support/jobs.mjs';
import { AT_ONCE, PAYMENT, assertProblem, held } from './support/payments.mjs';

const site = await startSite({ vars: { COMPLETER_MS: '3600000' } });
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

/** A request that stopped after the payment was created. */
async function interrupted(key) {
  const { payment, status } = await user.pay({ ...PAYMENT, raise_error: 'true' }, key);
  assert.equal(status, 500);
  return payment;
}

/** A finished payment that is put back to where its answer is at hand, as a crash before the next commit leaves it. */
async function backToItsAnswer(key) {
  const { answer } = await held(site, () => user.pay(PAYMENT, key));
  const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
  const before = await site.objects.dump(payment);
  await site.simulator.calm();
  const finished = await answer;
  assert.equal(finished.status, 201);
  await jobsOf(site, payment);
  await site.objects.sql(
    payment,
    `UPDATE idempotency_keys SET status = 'open', recovery_point = 'reserved', operation = ?, resume_at_ms = ?,
       last_run_at_ms = 0, failures = 0, lease_holder = 'an instance that is gone', lease_until_ms = ?,
       response_status = NULL, response_headers = NULL, response_body = NULL, finished_at_ms = NULL,
       expires_at_ms = NULL`,
    before.idempotency_keys[0].operation,
    Date.now() + 3_600_000,
    Date.now() + 3_600_000,
  );
  for (const table of ['payments', 'tries'])
    await site.objects.sql(payment, `UPDATE ${table} SET details = ?`, before[table][0].details);
  await site.objects.sql(payment, "DELETE FROM audit_records WHERE action = 'payment.captured'");
  // The payment takes the card out of the answer.
  await site.objects.sql(
    payment,
    "UPDATE foreign_calls SET settlement = json_set(settlement, '$.answered.result.card', json(?))",
    JSON.stringify(finished.json().payment_method_details),
  );
  return finished;
}

/** Everything that a payment must have left behind, once. */
async function assertWhole(payment) {
  const jobs = await jobsOf(site, payment);
  const { idempotency_keys: keys, payments, foreign_calls: calls } = await site.objects.dump(payment);
  const audit = await site.objects.audit(payment);
  assert.equal(await site.simulator.charges(payment), 1);
  assert.deepEqual([keys.length, payments.length, calls.length], [1, 1, 1]);
  assert.deepEqual(
    [keys[0].status, keys[0].recovery_point, keys[0].lease_holder],
    ['finished', 'finished', null],
  );
  assert.equal(calls[0].status, 'settled');
  assert.equal(payments[0].status, 'succeeded');
  assert.deepEqual(
    audit.map(({ action, subject, actor }) => [action, subject, actor]),
    ['payment.created', 'payment.captured'].map((action) => [action, payment, 'account:user@example.com']),
  );
  assert.deepEqual(
    jobs.map(({ job_id: id, kind, state }) => [id, kind, state]),
    [[`${payment}_receipt`, 'send_receipt', 'done']],
  );
  assert.equal((await site.simulator.emails(payment)).length, 1);
}

describe('a retry goes on from', () => {
  test('reserved: the payment is not created again', async () => {
    const key = freshKey();
    const payment = await interrupted(key);
    const { created_at_ms: created } = await site.objects.payment(payment);
    assert.equal((await site.objects.audit(payment)).length, 1);
    const answer = await user.pay(PAYMENT, key);
    assert.equal(answer.status, 201);
    assert.equal((await site.objects.payment(payment)).created_at_ms, created);
    await assertWhole(payment);
  });

  test('reserved with a charge that is frozen but was never sent: it is sent', async () => {
    const key = freshKey();
    // However often the alarm tries meanwhile.
    await site.simulator.fault('rate_limited', { count: 1000 });
    const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
    assert.notEqual((await site.objects.call(payment)).status, 'settled');
    await site.simulator.calm();
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    await assertWhole(payment);
  });

  test('reserved with a send on its way when the instance died: it is sent again under the same key', async () => {
    const key = freshKey();
    // However often the alarm tries meanwhile.
    await site.simulator.fault('connection_reset_after', { count: 1000 });
    const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
    await site.objects.putOff(payment);
    await site.simulator.calm();
    const before = await site.simulator.payments(payment);
    await site.objects.sql(
      payment,
      `UPDATE foreign_calls SET status = 'in_flight', maybe_executed = 0, next_try_at_ms = 0`,
    );
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    const sends = await site.simulator.payments(payment);
    assert.equal(sends.length, before.length + 1);
    // Of those whose connection was reset the bank has noted no answer.
    const answered = sends.filter(({ status }) => status !== null);
    assert.deepEqual(
      answered.map(({ replayed }) => replayed),
      [true],
      'executed before, and answered from its memory',
    );
    assert.equal(new Set(sends.map(({ body_sha256 }) => body_sha256)).size, 1);
    await assertWhole(payment);
  });

  test('reserved with the answer of the bank at hand: it is not asked again', async () => {
    const key = freshKey();
    const before = await backToItsAnswer(key);
    const answer = await user.pay(PAYMENT, key);
    assert.equal(answer.status, 201);
    assert.equal(answer.text, before.text);
    assert.equal((await site.simulator.payments(answer.payment)).length, 1);
    await assertWhole(answer.payment);
  });

  test('finished: there is nothing left to do', async () => {
    const key = freshKey();
    const { payment } = await user.pay(PAYMENT, key);
    await jobsOf(site, payment);
    const rows = await site.objects.dump(payment);
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    assert.deepEqual(await site.objects.dump(payment), rows, 'nothing is written');
    await assertWhole(payment);
  });
});

test('in a pause whoever does not wait runs nothing, however often: no try has failed for that', async () => {
  const key = freshKey();
  await site.simulator.fault('connection_reset', { count: 1000 });
  const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
  // Less than a request waits that says nothing.
  await site.objects.putOff(payment, 8_000);
  const before = await site.objects.dump(payment);
  for (let poll = 0; poll < 16; poll += 1)
    assertProblem(await user.pay(PAYMENT, key, AT_ONCE), 503, 'outcome-unknown');
  assert.deepEqual(await site.objects.dump(payment), before, 'nothing is written');
  await site.simulator.calm();
  assert.equal((await user.pay(PAYMENT, key)).status, 201, 'who waits is answered');
  await assertWhole(payment);
});

describe('a step that fails', () => {
  test('is rolled back as a whole; the lease is free at once, and the retry succeeds', async () => {
    const key = freshKey();
    const payment = await interrupted(key);
    // The phase that finishes the payment meets a row that is in its way.
    await site.objects.stored(
      payment,
      `CREATE TRIGGER in_the_way BEFORE INSERT ON timeline WHEN NEW.state LIKE '%"kind":"send_receipt"%'
         BEGIN SELECT RAISE(ABORT, 'in the way'); END`,
    );
    const failed = await user.pay(PAYMENT, key);
    assert.equal(failed.status, 500);
    assert.equal(failed.json().type, '/problems/interrupted');
    const row = await site.objects.key(payment);
    assert.deepEqual([row.status, row.recovery_point, row.lease_holder], ['open', 'reserved', null]);
    assert.equal(row.failures, 2);
    const actions = (await site.objects.audit(payment)).map(({ action }) => action);
    assert.deepEqual(actions, ['payment.created'], 'no audit record without its effect');

    await site.objects.stored(payment, 'DROP TRIGGER in_the_way');
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    assert.equal((await site.simulator.payments(payment)).length, 1);
    await assertWhole(payment);
  });
});

describe('the rows', () => {
  test('of a declined payment hold no receipt, and say that nothing was charged', async () => {
    const { payment } = await account(site, DECLINED_USER).pay(PAYMENT, freshKey());
    assert.deepEqual(await jobsOf(site, payment), []);
    const actions = (await site.objects.audit(payment)).map(({ action }) => action);
    assert.deepEqual(actions, ['payment.created', 'payment.failed']);
    assert.equal((await site.objects.payment(payment)).status, 'declined');
  });

  test('of a request that was answered are enough for all that comes after', async () => {
    const { payment } = await user.pay(PAYMENT, freshKey());
    await assertWhole(payment);
  });

  test('of an object from before replays were counted are brought up to date', async () => {
    const key = freshKey();
    const { payment, text } = await user.pay(PAYMENT, key);
    await jobsOf(site, payment);
    const rows = await site.objects.tables(payment);
    // As version 4 of the tables has left them, which did not know to which account a call was sent.
    for (const call of rows.foreign_calls) call.evidence = null;
    await site.objects.asBefore(payment);
    await site.objects.evict(payment);
    assert.equal((await user.key(key)).json().status, 'complete');
    assert.deepEqual(await site.objects.tables(payment), rows, 'the rows are as they would be');
    const again = await user.pay(PAYMENT, key);
    assert.deepEqual([again.text, again.header('idempotent-replayed')], [text, 'true']);
    await assertWhole(payment);
  });

  test('keep a timeline of bounded length: its beginning and its end', async () => {
    const key = freshKey();
    const payment = await interrupted(key);
    await site.objects.sql(
      payment,
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
       INSERT INTO timeline (key_id, at_ms, attempt, event, detail) SELECT 1, 0, 1, 'noise', CAST(i AS TEXT) FROM n`,
    );
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    const { timeline } = (await user.key(key)).json();
    assert.ok(timeline.length <= 200, `${timeline.length} lines`);
    assert.equal(timeline[0].event, 'key_created');
    assert.equal(timeline.at(-1).event, 'finished');
  });
});
