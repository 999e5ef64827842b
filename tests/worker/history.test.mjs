// History: payments that are over and old leave the read model for Parquet files in R2. They are found again, and leave again once they have
// changed. The files are read by a reader that shares nothing with what writes them.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { after, describe, test } from 'node:test';

import { parquetMetadata, parquetReadObjects } from 'hyparquet';

import { ownFolder } from '../../scripts/lib/leftovers.mjs';
import { account, freshKey } from './support/account.mjs';
import { demoWorkers, root, startSite } from './support/harness.mjs';
import { jobsOver } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { operator } from './support/operator.mjs';
import { PAYMENT, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';
import { readConfig } from './support/wrangler.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const DAY_MS = 86_400_000;
const AGE_MS = 150 * DAY_MS;
const TABLES = { payments: 'object', keys: 'object', audit_records: 'object', refunds: 'payment_id' };
const PERSONAL = { description: 'Dinner for Ada Lovelace', metadata: { nickname: 'enchantress' } };

const dir = ownFolder('history');
// Stripe has made these payments today, however old they are made here: its list is not compared, be the tests ever so slow.
const vars = { HISTORY_AFTER_DAYS: '100', RECONCILE_QUIET_MS: '86400000' };
const site = await startSite({ workers: withFailingBucket(demoWorkers({ secrets: { ADMIN_TOKEN }, vars })) });
const user = account(site);
const model = readModel(site);
const { look } = operator(site, ADMIN_TOKEN);
const { HISTORY: bucket } = await site.desk().getEnv();
after(() => site.close());

/** The desk with a bucket that writes no file of a kind for which there is an object `fails/{kind}`. */
function withFailingBucket(workers) {
  const config = readConfig({ config: join(root, 'desk', 'wrangler.toml'), env: 'demo' });
  const entry = join(dir, 'desk.mjs');
  const main = JSON.stringify(relative(dir, join(root, 'desk', 'src', 'entry.mjs')));
  writeFileSync(
    entry,
    `import { env } from 'cloudflare:workers';
const bucket = Object.getPrototypeOf(env.HISTORY);
const { put } = bucket;
bucket.put = async function (name, ...rest) {
  const [, kind] = name.split('/');
  if (name.startsWith('history/') && (await this.head('fails/' + kind))) throw new Error('R2 is down');
  return put.call(this, name, ...rest);
};
export * from ${main};
export { default } from ${main};
`,
  );
  const [shop, { vars, secrets }, ...others] = workers;
  const desk = { config: { ...config, build: {}, main: entry }, vars, secrets };
  return [shop, desk, ...others];
}

/** A payment that was made and finished long ago. */
async function old(more = {}) {
  const { id } = await paid(user, { ...PAYMENT, ...PERSONAL, ...more });
  await model.reaches(id, 'succeeded');
  await jobsOver(site, id);
  await grow(id);
  return id;
}

/** Lets a payment be as old as one that may leave. */
async function grow(id) {
  const object = objectId(id);
  const then = Date.now() - AGE_MS;
  await model.run(
    `UPDATE payments SET created_at_ms = ?2, updated_at_ms = ?2, captured_at_ms = iif(captured_at_ms IS NULL, NULL, ?2),
       key_finished_at_ms = ?2, key_expires_at_ms = ?2, wake_at_ms = NULL WHERE payment_id = ?1`,
    id,
    then,
  );
  await model.run(
    'UPDATE refunds SET created_at_ms = ?2, updated_at_ms = ?2 WHERE payment_id = ?1',
    id,
    then,
  );
  await model.run(
    'UPDATE keys SET created_at_ms = ?2, updated_at_ms = ?2, finished_at_ms = ?2, expires_at_ms = ?2 WHERE object = ?1',
    object,
    then,
  );
}

async function refunded(id, amount) {
  const answer = await user.post(`/payments/${id}/refunds`, { amount }, freshKey());
  assert.equal(answer.status, 201, answer.text);
  const { id: refund } = answer.json();
  await until('the refund is told', () =>
    model.first("SELECT 1 FROM refunds WHERE refund_id = ? AND status = 'succeeded'", refund),
  );
  await until('its audit is told', () =>
    model.first("SELECT 1 FROM audit_records WHERE subject = ? AND action = 'refund.succeeded'", refund),
  );
  return refund;
}

const tick = async () => (await model.tick()).history;
/** How many rows the read model has of a payment, by table. */
async function rowsOf(id) {
  const counts = {};
  for (const [table, column] of Object.entries(TABLES)) {
    const value = column === 'object' ? objectId(id) : id;
    const sql = `SELECT count(*) AS n FROM ${table} WHERE ${column} = ?`;
    counts[table] = (await model.first(sql, value)).n;
  }
  return counts;
}
const GONE = { payments: 0, keys: 0, audit_records: 0, refunds: 0 };

const bytesOf = async (name) => (await bucket.get(name)).arrayBuffer();
/** The rows of all listed files of a kind. Each file is what the list says of it. */
async function inFiles(kind) {
  const files = await model.all('SELECT * FROM history_files WHERE kind = ? ORDER BY batch', kind);
  const all = [];
  for (const file of files) {
    const bytes = await bytesOf(file.name);
    assert.equal(createHash('sha256').update(Buffer.from(bytes)).digest('hex'), file.sha256);
    assert.deepEqual([bytes.byteLength, Number(parquetMetadata(bytes).num_rows)], [file.bytes, file.rows]);
    all.push(...(await parquetReadObjects({ file: bytes })));
  }
  return all;
}
const only = (rows, column, value) => rows.filter((row) => row[column] === value);
const twice = (rows, ...columns) => {
  const keys = rows.map((row) => columns.map((column) => String(row[column])).join(' '));
  return keys.filter((key, index) => keys.indexOf(key) !== index);
};

describe('history', async () => {
  test('a payment that is over and old leaves for files, with all that is known of it', async () => {
    const id = await old({ order_id: 'an-old-order' });
    const refund = await refunded(id, 500);
    await grow(id);
    const young = (await paid(user, PAYMENT)).id;
    await model.reaches(young, 'succeeded');
    const shown = (await user.ask(`/payments/${id}`)).json();
    // As one that was made with a key of its account's own at Adyen.
    await model.run("UPDATE payments SET merchant_account = 'Shop_A' WHERE payment_id = ?", id);
    const row = await model.first('SELECT * FROM payments WHERE payment_id = ?', id);
    assert.equal((await tick()).left, 1);
    assert.deepEqual(await rowsOf(id), GONE);
    assert.equal((await rowsOf(young)).payments, 1, 'what is young stays');

    const [payment, ...others] = only(await inFiles('payments'), 'payment_id', id);
    assert.deepEqual(others, []);
    const { created_at, updated_at, captured_at, version, ...rest } = payment;
    assert.deepEqual(
      [created_at, updated_at, captured_at].map((time) => time.getTime()),
      [row.created_at_ms, row.updated_at_ms, row.captured_at_ms],
    );
    assert.equal(Number(version), row.version);
    const done = Object.entries(JSON.parse(row.done_jobs));
    assert.ok(
      done.some(([, [, email]]) => email !== ''),
      'control: the read model has the id of an email',
    );
    assert.deepEqual(
      JSON.parse(rest.done_jobs),
      Object.fromEntries(done.map(([job, [kind, , ...times]]) => [job, [kind, '', ...times]])),
    );
    const texts = ['status', 'currency', 'provider_payment', 'order_id', 'owner'];
    for (const column of [...texts, 'stripe_account', 'merchant_account'])
      assert.equal(rest[column] ?? null, row[column], column);
    for (const column of ['amount_minor', 'captured_minor', 'refunded_minor'])
      assert.equal(Number(rest[column]), row[column], column);
    const audit = only(await inFiles('audit'), 'object', objectId(id));
    assert.deepEqual(
      audit.map(({ audit_id }) => Number(audit_id)),
      audit.map((_, index) => index + 1),
    );
    const actions = audit.map(({ action }) => action);
    for (const action of ['payment.created', 'payment.captured', 'refund.succeeded'])
      assert.ok(actions.includes(action), `${action}: ${actions}`);
    assert.deepEqual(
      only(await inFiles('refunds'), 'payment_id', id).map(({ refund_id }) => refund_id),
      [refund],
    );
    assert.equal(only(await inFiles('keys'), 'object', objectId(id)).length, 2);

    assert.deepEqual((await user.ask(`/payments/${id}`)).json(), shown, 'its object has it all the same');
    const listed = (await user.ask('/payments?limit=100')).json().data.map((it) => it.id);
    assert.ok(!listed.includes(id) && listed.includes(young), 'the list has those that have not left');
  });

  test('no file has personal data', async () => {
    for (const { name } of await model.all('SELECT name FROM history_files')) {
      const text = Buffer.from(await bytesOf(name)).toString('latin1');
      for (const trace of ['Lovelace', 'enchantress', 'last4']) assert.ok(!text.includes(trace), name);
    }
  });

  test('is found by all that it is called by, and is where its object is', async () => {
    const id = await old({ order_id: 'order-to-find' });
    const refund = await refunded(id, 100);
    await grow(id);
    const { provider_payment } = await model.first('SELECT * FROM payments WHERE payment_id = ?', id);
    const { provider_refund } = await model.first('SELECT * FROM refunds WHERE refund_id = ?', refund);
    const page = await look(`/admin/payments/${id}`);
    const [, reference] = /([0-9A-Z]{4}-[0-9A-Z]{4})/.exec(page.text);
    assert.ok(!page.text.includes('from history'));
    assert.equal((await tick()).left, 1);
    for (const text of [id, provider_payment, 'order-to-find', refund, provider_refund, reference]) {
      const found = await look(`/admin/payments?q=${encodeURIComponent(text)}`);
      assert.deepEqual([found.status, found.header('location')], [303, `/admin/payments/${id}`], text);
    }
    const other = await look('/admin/payments?q=another+order');
    assert.equal(other.status, 200);
    assert.match(other.text, /No payments match/);
    const after = await look(`/admin/payments/${id}`);
    assert.equal(after.status, 200, after.text);
    assert.match(after.text, /from history/);
    assert.match(after.text, /refund succeeded|Refunded/i, 'its object has its timeline');
  });

  test('the desk lists the files and gives them out', async () => {
    const page = await look('/admin/history');
    assert.equal(page.status, 200, page.text);
    const files = await model.all('SELECT * FROM history_files');
    assert.ok(files.length >= 4);
    for (const { name, sha256, batch, kind } of files) {
      assert.ok(page.text.includes(name) && page.text.includes(sha256), name);
      const answer = await site.fetch(`/admin/history/${batch}/${kind}`, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      assert.equal(answer.status, 200);
      assert.match(answer.headers.get('content-disposition'), /attachment; filename=".*\.parquet"/);
      assert.deepEqual(Buffer.from(await answer.arrayBuffer()), Buffer.from(await bytesOf(name)));
    }
    const wrong = await look('/admin/history?q=2026-13');
    assert.match(wrong.text, /That is no month and no day/);
    assert.ok(!files.some(({ name }) => wrong.text.includes(name)));
    assert.equal((await look('/admin/history/99999/payments')).status, 404);
    assert.equal((await look('/admin/history/1/else')).status, 404);
    assert.equal((await site.fetch('/admin/history/1/payments')).status, 401);
  });

  test('the personal data of a payment that has left is erased where it is: in its object', async () => {
    const id = await old();
    assert.equal((await tick()).left, 1);
    assert.deepEqual(await rowsOf(id), GONE);
    const traces = async () => {
      const held = JSON.stringify(await site.objects.dump(id));
      return ['Lovelace', 'enchantress'].filter((trace) => held.includes(trace));
    };
    assert.equal((await traces()).length, 2);
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const answer = await site.fetch(`/admin/payments/${id}/erase`, { method: 'POST', headers });
    assert.equal(answer.status, 200, await answer.text());
    assert.deepEqual(await traces(), []);
    await model.reaches(id, 'succeeded');
    await until('the read model has that it was', () =>
      model.first("SELECT 1 FROM audit_records WHERE subject = ? AND action = 'personal_data.erased'", id),
    );
    await jobsOver(site, id);
    await grow(id);
    assert.equal((await tick()).left, 1);
    const audit = only(await inFiles('audit'), 'object', objectId(id));
    assert.equal(
      only(audit, 'action', 'personal_data.erased').length,
      1,
      'by this the files say whose is gone',
    );
    assert.deepEqual(twice(audit, 'audit_id'), []);
  });

  test('a payment that changes after it has left is listed again, and leaves again as a newer version', async () => {
    const id = await old();
    assert.equal((await tick()).left, 1);
    const before = only(await inFiles('payments'), 'payment_id', id);
    const refund = await refunded(id, 700);
    const row = await model.first('SELECT * FROM payments WHERE payment_id = ?', id);
    assert.deepEqual([row.status, row.refunded_minor, row.amount_minor], ['succeeded', 700, 2500]);
    assert.match((await look(`/admin/payments?q=${refund}`)).text, /\$7\.00 refunded/);
    assert.match((await look(`/admin/payments/${id}`)).text, /changed since/);
    assert.equal((await tick()).left, 0, 'it has only just changed');
    await grow(id);
    assert.equal((await tick()).left, 1);
    assert.deepEqual(await rowsOf(id), GONE);
    const versions = only(await inFiles('payments'), 'payment_id', id);
    assert.equal(versions.length, before.length + 1);
    const newest = versions.reduce((a, b) => (a.version > b.version ? a : b));
    assert.deepEqual([Number(newest.version), Number(newest.refunded_minor)], [row.version, 700]);
    assert.deepEqual(twice(versions, 'version'), []);
    const audit = only(await inFiles('audit'), 'object', objectId(id));
    assert.deepEqual(
      audit.map(({ audit_id }) => Number(audit_id)),
      audit.map((_, index) => index + 1),
      'all records, each once',
    );
  });

  test('what is written anew into the read model does not stand in a second file', async () => {
    const id = await old();
    await tick();
    const audit = only(await inFiles('audit'), 'object', objectId(id)).length;
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const anew = await site.fetch(`/admin/payments/${id}/project`, { method: 'POST', headers });
    assert.equal(anew.status, 200);
    await model.reaches(id, 'succeeded');
    await until('its audit is told', async () => {
      const { n } = await model.first('SELECT count(*) AS n FROM audit_trail WHERE object = ?', objectId(id));
      return n >= audit;
    });
    await grow(id);
    assert.equal((await tick()).left, 1);
    assert.deepEqual(await rowsOf(id), GONE);
    assert.equal(only(await inFiles('audit'), 'object', objectId(id)).length, audit);
    assert.deepEqual(twice(await inFiles('payments'), 'payment_id', 'version'), []);
  });

  test('a bucket that fails in the middle of a batch loses nothing and doubles nothing', async () => {
    const ids = [await old(), await old()];
    await bucket.put('fails/audit', 'yes');
    const failed = await tick();
    assert.match(failed.error, /R2 is down/);
    const [{ batch }] = await model.all("SELECT batch FROM history_batches WHERE state = 'writing'");
    for (const id of ids) assert.equal((await rowsOf(id)).payments, 1, 'nothing has gone');
    assert.equal((await model.all('SELECT 1 FROM history_files WHERE batch = ?', batch)).length, 0);
    // The files before it are there: the next run finds them, and writes the rest.
    assert.equal((await bucket.list({ prefix: 'history/payments/' })).objects.length > 0, true);
    await bucket.delete('fails/audit');
    assert.equal((await tick()).left, 2);
    for (const id of ids) {
      assert.deepEqual(await rowsOf(id), GONE);
      assert.equal(only(await inFiles('payments'), 'payment_id', id).length, 1);
    }
    assert.deepEqual(twice(await inFiles('audit'), 'object', 'audit_id'), []);
  });

  test('a payment that changes while its batch is written makes the batch void, and leaves with another', async () => {
    const [id, other] = [await old(), await old()];
    await bucket.put('fails/audit', 'yes');
    assert.match((await tick()).error, /R2 is down/);
    await bucket.delete('fails/audit');
    const [{ batch }] = await model.all("SELECT batch FROM history_batches WHERE state = 'writing'");
    await refunded(id, 100);
    const done = await tick();
    assert.deepEqual([done.void, done.left], [1, 1]);
    assert.deepEqual([(await rowsOf(id)).payments, await rowsOf(other)], [1, GONE]);
    const listed = (await model.all('SELECT name FROM history_files')).map(({ name }) => name);
    const there = (await bucket.list({ prefix: 'history/' })).objects.map(({ key }) => key);
    assert.deepEqual(there.sort(), listed.sort(), 'its files are gone');
    const { text: page } = await look('/admin/history');
    assert.ok(there.some((name) => page.includes(name)));
    assert.doesNotMatch(page, new RegExp(`batch ${batch}\\b`), 'and it is not listed');
    assert.equal(
      (await model.first('SELECT state FROM history_batches WHERE batch = ?', batch)).state,
      'void',
    );
  });

  test('two runs at once do the work once', async () => {
    const ids = [await old(), await old(), await old()];
    await Promise.all([0, 1, 2].map(() => site.desk().scheduled({ cron: '*/5 * * * *' })));
    await tick();
    for (const id of ids) {
      assert.deepEqual(await rowsOf(id), GONE);
      assert.equal(only(await inFiles('payments'), 'payment_id', id).length, 1);
    }
    assert.deepEqual(twice(await inFiles('audit'), 'object', 'audit_id'), []);
    assert.deepEqual(twice(await inFiles('payments'), 'payment_id', 'version'), []);
  });

  test('no reconciliation misses what has left', async () => {
    assert.deepEqual(await model.all("SELECT kind, resource FROM breaks WHERE state = 'open'"), []);
  });
});
