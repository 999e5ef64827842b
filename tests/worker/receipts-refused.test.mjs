// Receipts while Resend refuses our key, as after it was rolled: they wait, and none is lost. What was given up all the same is requeued by a command.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { after, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { root, startSite } from './support/harness.mjs';
import { objectId } from './support/objects.mjs';
import { client, paid } from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { until } from './support/until.mjs';

const DAY_MS = 86_400_000;
// Keys of Resend begin with `re_`.
const site = await startSite({ vars: { RESEND_API_KEY: 'rolled' }, secrets: { ADMIN_TOKEN } });
const user = client(site);
after(() => site.close());

const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
const rowOf = async (job) => (await site.rows('SELECT * FROM job_list WHERE job_id = ?', job))[0];
const becomes = (job, state) =>
  until(`${job} is ${state}`, async () => {
    const row = await rowOf(job);
    return row?.state === state && row;
  });
const errors = ({ history }) => JSON.parse(history).map(({ error }) => error);

/** Gives the queue the message of a receipt once more, as it does itself after a pause. */
async function deliver(payment, job_id) {
  const { payload } = await rowOf(job_id);
  const job = {
    version: 1,
    job_id,
    kind: 'send_receipt',
    object: objectId(payment),
    staged_at_ms: Date.now(),
  };
  const { JOBS } = await site.worker.getEnv();
  await JOBS.send(JSON.stringify({ ...job, payload: JSON.parse(payload) }), { contentType: 'text' });
}

/** A receipt that was tried once. */
async function refused() {
  const { id } = await paid(user);
  const job = `${id}_receipt`;
  await becomes(job, 'tried');
  return { id, job };
}

test('a receipt waits for a key that is taken, however often it is tried, until it can be sent no more', async () => {
  const { id, job } = await refused();
  assert.deepEqual(errors(await rowOf(job)), ['403 invalid_api_key']);
  // As if the pauses of some hours were over.
  await site.rows('UPDATE jobs SET attempts = 9 WHERE job_id = ?', job);
  await deliver(id, job);
  const again = await until('it was tried again', async () => {
    const row = await rowOf(job);
    return row.attempts === 10 && row;
  });
  assert.equal(again.state, 'tried');
  await site.rows('UPDATE jobs SET first_at_ms = ? WHERE job_id = ?', Date.now() - DAY_MS, job);
  await deliver(id, job);
  assert.match(errors(await becomes(job, 'dead')).at(-1), /can no longer be found out/);
});

const run = async (kind) => {
  const env = { ...process.env, PAID_ONCE_URL: String(site.url), ADMIN_TOKEN };
  const command = ['scripts/operate.mjs', 'requeue', kind];
  return (await promisify(execFile)(process.execPath, command, { cwd: root, env })).stdout;
};

test('all dead letters of a kind are counted, and requeued by a command, page by page', async () => {
  const { id, job } = await refused();
  const { payload } = await rowOf(job);
  await site.rows("UPDATE jobs SET state = 'purged' WHERE state = 'dead'");
  const bury = (kind, number) =>
    site.rows(
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       SELECT ?1 || '_' || value, ?1, ?2, 'dead', 5, ?3, ?4, '[]', ?4, ?4 + value FROM json_each(?5)`,
      ...[kind, objectId(id), payload, Date.now() - 3_600_000],
      JSON.stringify(Array.from({ length: number }, (_, at) => at)),
    );
  await bury('send_receipt', 120);
  await bury('project', 1);
  const dead = async () => {
    const { sum } = parse(await (await site.fetch('/metrics', { headers })).text());
    return ['send_receipt', 'project', 'webhook'].map((kind) => sum('dead_letters', { kind }));
  };
  assert.deepEqual(await dead(), [120, 1, 0]);
  assert.match(await run('send_receipt'), /^120 are tried again\.$/m);
  assert.deepEqual(await dead(), [0, 1, 0]);
  const log = await site.rows('SELECT action, subject, outcome FROM operator_actions ORDER BY at_ms, rowid');
  const line = (number) => ({
    action: 'requeue-all',
    subject: 'all dead letters: send_receipt',
    outcome: `${number} are tried again`,
  });
  assert.deepEqual(log, [line(50), line(50), line(20)]);
  assert.match(await run('send_receipt'), /^0 are tried again\.$/m);
});

test('what dies again while they are requeued is left to the next time', async () => {
  const path = '/admin/api/dead-letters/project/requeue';
  const ask = async (after, more = headers) => {
    const answer = await site.fetch(`${path}?after=${after}`, { method: 'POST', headers: more });
    return { status: answer.status, ...(await answer.json()) };
  };
  await site.rows('UPDATE jobs SET updated_at_ms = ? WHERE job_id = ?', Date.now(), 'project_0');
  const { requeued, next } = await ask(Date.now() - 60_000);
  assert.deepEqual([requeued, next], [0, null]);
  assert.equal((await rowOf('project_0')).state, 'dead');
  assert.equal((await ask('x')).status, 422);
  assert.equal((await ask('', {})).status, 401);
  assert.equal(
    (await site.fetch('/admin/api/dead-letters/else/requeue', { method: 'POST', headers })).status,
    404,
  );
  await assert.rejects(run('else'), /Say of which payments/);
});
