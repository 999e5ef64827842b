// What one run of a shard lets leave for history: batches of 2,500 payments, with their refunds, keys and audit records. It says what they took of
// the runtime's CPU, the run's object and the shard together:
//
//     HISTORY_BATCHES=12 npm test -- history-batch

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { startSite } from './support/harness.mjs';
import { objectOf, placeRuns, readModel } from './support/readmodel.mjs';
import { shards, workersWithShards } from './support/shards.mjs';
import { until } from './support/until.mjs';

const BATCHES = Number(process.env.HISTORY_BATCHES ?? 2);
const OF_BATCH = 2_500;
/** `STEPS_MAX` in desk/src/tasks/history/turns.rs: a batch takes two. */
const BATCHES_OF_A_RUN = 12;
const DAY_MS = 86_400_000;
const MADE_MS = Date.now() - 120 * DAY_MS;
const PLACE = `g1-${new Date(MADE_MS).toISOString().slice(0, 7)}-000`;

const site = await startSite({
  workers: workersWithShards({ vars: { HISTORY_AFTER_DAYS: '90' }, buckets: ['HISTORY'] }),
});
const all = shards(site);
const model = readModel(site);
after(() => site.close());

before(async () => {
  await all.lay(1, { from_ms: MADE_MS - 60 * DAY_MS });
  await model.run('INSERT INTO shards (name, made_at_ms) VALUES (?, 1)', PLACE);
  const numbers =
    'WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?1)';
  const object =
    "substr(printf('%08x', n * 40503 % 1000003) || hex(zeroblob(32)), 1, 56) || printf('%08x', n)";
  const payment = "'pay_' || printf('%043d', n)";
  const data = `json_object('amount', 5450, 'currency', 'usd', 'provider', 'stripe', 'provider_payment', 'pi_' || n)`;
  await all.rowsIn(
    PLACE,
    `INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
        provider_payment, order_id, attempt, shown, created_at_ms, updated_at_ms, key_hash, key_attempts, key_response_status,
        key_finished_at_ms, created_data, captured_data, captured_at_ms, done_jobs, listed_payment, moved_payment)
     ${numbers} SELECT ${payment}, ${object}, 5, 'account:a', 'succeeded', 5450, 5450, 0, 'usd', 'stripe', 'pi_' || printf('%024d', n),
        'order-' || n, 1, '{}', ?2 + n, ?2 + n + 900, hex(printf('%032d', n)), 1, 201, ?2 + n + 900, ${data}, ${data}, ?2 + n + 900,
        '[["send_receipt", 1]]', 'pi_' || printf('%024d', n), 'pi_' || printf('%024d', n) FROM numbers`,
    BATCHES * OF_BATCH,
    MADE_MS,
  );
  // One in ten is given back, under a key of its own, with its audit records.
  const tenth = 'FROM numbers WHERE n % 10 = 0';
  await all.rowsIn(
    PLACE,
    `INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund, created_at_ms,
        updated_at_ms, moved_refund)
     ${numbers} SELECT 're_' || n, ${payment}, 2, 'succeeded', 100, 'usd', 'requested_by_customer', 'stripe', 're_at_' || n, ?2 + n,
        ?2 + n, 're_at_' || n ${tenth}`,
    BATCHES * OF_BATCH,
    MADE_MS,
  );
  await all.rowsIn(
    PLACE,
    `INSERT INTO keys (object, key_id, version, key_hash, owner, operation, status, recovery_point, attempts, failures, in_doubt, flagged,
        response_status, created_at_ms, finished_at_ms, updated_at_ms)
     ${numbers} SELECT ${object}, 2, 2, hex(printf('%032d', -n)), 'account:a', 'refund', 'finished', 'finished', 1, 0, 0, 0, 201, ?2 + n,
        ?2 + n, ?2 + n ${tenth}`,
    BATCHES * OF_BATCH,
    MADE_MS,
  );
  for (const [id, action] of [
    [3, 'refund.created'],
    [4, 'refund.succeeded'],
  ])
    await all.rowsIn(
      PLACE,
      `INSERT INTO audit_records (object, audit_id, at_ms, actor, action, subject, data)
       ${numbers} SELECT ${object}, ${id}, ?2 + n, 'account:a', '${action}', 're_' || n, ${data} ${tenth}`,
      BATCHES * OF_BATCH,
      MADE_MS,
    );
});

/** What the runtimes that this process has started have used of the CPU, in ms. */
function cpuMs() {
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').trim();
        const [, name, rest] = /\((.*)\) \S (.*)$/.exec(stat);
        const fields = rest.split(' ');
        return [{ pid, name, parent: fields[0], ticks: Number(fields[10]) + Number(fields[11]) }];
      } catch {
        return []; // It has ended meanwhile.
      }
    });
  const own = new Set([String(process.pid)]);
  for (let size = 0; size !== own.size;) {
    size = own.size;
    for (const { pid, parent } of processes) if (own.has(parent)) own.add(pid);
  }
  const runtimes = processes.filter(({ pid, name }) => own.has(pid) && name === 'workerd');
  return runtimes.reduce((sum, { ticks }) => sum + ticks * 10, 0);
}

test('as many batches leave in a run as are due, at most twelve', async (t) => {
  const task = `place:${PLACE}`;
  const object = await objectOf(site, task);
  let left = 0;
  for (let runs = 0; left < BATCHES * OF_BATCH; runs += 1) {
    assert.ok(runs <= BATCHES, `${left} in ${runs} runs`);
    const before = (await placeRuns(model.all)).find((run) => run.task === task);
    const cpu = cpuMs();
    await object.hurry();
    const { result } = await until('it has run', async () => {
      const run = (await placeRuns(model.all)).find((run) => run.task === task);
      return run && run.at_ms !== before?.at_ms && run;
    });
    const used = cpuMs() - cpu;
    const { history } = JSON.parse(result);
    assert.equal(history.failed, undefined, result);
    assert.ok(history.left > 0, result);
    assert.ok(history.left <= BATCHES_OF_A_RUN * OF_BATCH);
    const { took_ms: took } = await model.first('SELECT took_ms FROM runs WHERE task = ?', task);
    const batches = history.left / OF_BATCH;
    t.diagnostic(
      `${history.left} payments in ${history.files} files: ${Math.round(took / batches)} ms a batch, ${Math.round(used / batches)} ms of them CPU`,
    );
    left += history.left;
  }
  assert.deepEqual(await all.rowsIn(PLACE, 'SELECT count(*) AS number FROM payments'), [{ number: 0 }]);
});
