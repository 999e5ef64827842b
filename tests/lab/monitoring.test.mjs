// The files of monitoring/ against the counts of the demo: every query names what is there. Where Prometheus is to be had (here, or by
// apt), it reads them too, plays the alerts' own tests, and reads the counts of a lab.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { freePorts } from '../../scripts/lib/lab.mjs';
import { startPrometheus } from '../../scripts/lib/monitoring.mjs';
import { prometheus } from '../../scripts/setup/prometheus.mjs';
import { account, freshKey, read } from '../worker/support/account.mjs';
import { startSite, root } from '../worker/support/harness.mjs';
import { parse } from '../worker/support/prometheus.mjs';
import { until } from '../worker/support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const folder = join(root, 'monitoring');
const text = (name) => readFileSync(join(folder, name), 'utf8');
// Fetched where apt is; elsewhere the tests that need them are skipped. Nothing is awaited once there are tests: they would run and
// end, and the site with them, before the last ones are there.
const programs = await prometheus().catch((error) => console.log(error.message));
const needsPrograms = { skip: programs ? false : 'Prometheus cannot be fetched here' };
// A lab, whose counts Prometheus may read as it is.
const site = await startSite({ vars: { LAB: 'true' }, secrets: { ADMIN_TOKEN } });
after(() => site.close());

const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
const counts = async () => parse((await read(await site.fetch('/metrics', { headers }))).text);

const dashboard = JSON.parse(text('grafana/dashboards/idempotency-keys.json'));
const drawn = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
const alerts = text('alerts.yml');
const watched = [...alerts.matchAll(/^ {8}expr: (?:>-\n)?([^]*?)(?=^ {8}\w)/gm)].map(([, expr]) => expr);
const names = (expr) => expr.match(/paid_once_\w+/g) ?? [];

test('every count that is drawn or watched is there', async () => {
  const { families } = await counts();
  for (const expr of [...drawn, ...watched])
    for (const name of names(expr)) {
      const family = name.replace(/_bucket$/, '');
      assert.ok(families.has(family), `${name}, in ${expr}`);
      assert.equal(families.get(family) === 'histogram', family !== name, name);
      const isRate = new RegExp(`(?:rate|increase)\\(${name}\\b`).test(expr);
      if (isRate) assert.notEqual(families.get(family), 'gauge', `a rate of a gauge: ${expr}`);
    }
});

test('and has the labels by which it is chosen', async () => {
  const paid = await account(site).pay({ amount: 2500, currency: 'usd' }, freshKey());
  assert.equal(paid.status, 201);
  const { samples } = await counts();
  const labelsOf = (wanted) =>
    new Set(samples.filter(({ name }) => name === wanted).flatMap(({ labels }) => Object.keys(labels)));
  const matchers = [...drawn, ...watched].flatMap((expr) => [
    ...[...expr.matchAll(/(paid_once_\w+)\{(\w+)=/g)].map(([, name, label]) => [name, label]),
    ...[...expr.matchAll(/by \(([^)]*)\)[^p]*(paid_once_\w+)/g)].flatMap(([, labels, name]) =>
      labels.split(', ').map((label) => [name, label]),
    ),
  ]);
  assert.ok(matchers.length > 8, matchers.join('; '));
  // Nothing has gone wrong yet: these have no sample.
  const later = ['paid_once_jobs_total', 'paid_once_reconciliation_lag_seconds', 'paid_once_task_failing'];
  for (const [name, label] of matchers.filter(([name]) => !later.includes(name)))
    assert.ok(labelsOf(name).has(label), `${name} has no label ${label}`);
});

test('it is counted how large the read model is', async () => {
  const { sum } = await counts();
  const [{ pages }] = await site.rows('SELECT count(*) AS pages FROM sqlite_schema WHERE rootpage > 0');
  assert.ok(sum('read_model_bytes', { place: 'd1' }) >= pages * 4096, 'each table and index has a page');
});

test('an open break is counted', async () => {
  assert.equal((await counts()).sum('breaks_open'), 0);
  await site.rows(`INSERT INTO breaks (break_id, kind, provider, provider_payment, state, first_seen_at_ms, last_seen_at_ms)
    VALUES ('b1', 'orphan', 'stripe', 'pi_1', 'open', 1, 1), ('b2', 'orphan', 'stripe', 'pi_2', 'accepted', 1, 1)`);
  const { sum } = await counts();
  assert.equal(sum('breaks_open'), 1);
  assert.deepEqual([sum('breaks_open', { kind: 'orphan' }), sum('breaks_open', { kind: 'silent' })], [1, 0]);
});

test('keys that are unknown, late or in need of a person are counted anew each time', async () => {
  const known = async () => {
    const { sum } = await counts();
    return [sum('keys_unknown'), sum('keys_late_or_flagged')];
  };
  assert.deepEqual(await known(), [0, 0]);
  const key = (id, { status = 'open', doubt = 0, flagged = 0, wakes = Date.now() + 60_000 }) =>
    site.rows(
      `INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
          wake_at_ms, created_at_ms, updated_at_ms) VALUES ('counted', ?, 1, ?, 'account:a', ?, 'reserved', 1, 0, ?, ?, ?, 1, 1)`,
      ...[id, `${id}`, status, doubt, flagged, wakes],
    );
  await key(1, {});
  await key(2, { doubt: 1 });
  await key(3, { flagged: 1 });
  await key(4, { wakes: Date.now() - 600_000 });
  await key(5, { status: 'finished', doubt: 1, flagged: 1 });
  assert.deepEqual(await known(), [1, 2]);
  await site.rows("DELETE FROM keys WHERE object = 'counted'");
  assert.deepEqual(await known(), [0, 0]);
});

test('a task whose newest run has failed is told of, and one that has run again is not', async () => {
  const ran = (task, result) =>
    site.rows(
      'INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?, ?, 1, ?)',
      task,
      Date.now(),
      result,
    );
  await ran('settle', '{"error":"no"}');
  await ran('sweep', '{"late":0}');
  await ran('reconcile:acct_1', '{"error":"no"}');
  const failing = async (task) => (await counts()).sum('task_failing', { task });
  assert.deepEqual([await failing('settle'), await failing('sweep'), await failing('reconcile')], [1, 0, 1]);
  await site.rows("DELETE FROM runs WHERE task = 'settle'");
  await ran('settle', '{"written":[]}');
  assert.equal(await failing('settle'), 0);
});

test('each alert is in its own test, silent and firing, and in docs/operations.md', () => {
  const tests = text('alerts.test.yml');
  const named = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  assert.equal(named.length, watched.length);
  assert.ok(named.length >= 9);
  const operations = readFileSync(join(root, 'docs', 'operations.md'), 'utf8');
  for (const name of named) {
    assert.ok(tests.split(name).length - 1 >= 2, `${name} is not tested twice`);
    assert.ok(operations.includes(`\`${name}\``), `${name} is not in docs/operations.md`);
  }
});

test('the panels do not overlap, and each has a title and queries', () => {
  const cells = new Set();
  const ids = new Set(dashboard.panels.map(({ id }) => id));
  assert.equal(ids.size, dashboard.panels.length);
  for (const { title, targets, gridPos } of dashboard.panels) {
    assert.ok(title && targets.length > 0);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1)
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        assert.ok(x < 24 && !cells.has(`${x},${y}`), `${title} lies on another panel`);
        cells.add(`${x},${y}`);
      }
  }
});

test('what the composition mounts is there', () => {
  const mounted = [...text('compose.yml').matchAll(/- \.\/([\w./-]+):/g)].map(([, path]) => path);
  assert.equal(mounted.length, 4);
  for (const path of mounted) assert.ok(existsSync(join(folder, path)), path);
  const datasource = /uid: (\S+)/.exec(text('grafana/provisioning/datasources/prometheus.yml'))[1];
  for (const panel of dashboard.panels) assert.equal(panel.datasource.uid, datasource);
});

test(
  'Prometheus takes rules, configurations and queries, and the alerts pass their tests',
  needsPrograms,
  (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'monitoring-'));
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    for (const name of readdirSync(folder).filter((name) => name.endsWith('.yml')))
      writeFileSync(join(directory, name), text(name));
    writeFileSync(join(directory, 'metrics_token'), 'secret');
    const queries = drawn.map((expr, n) => ({
      record: `drawn_${n}`,
      expr: expr.replaceAll('$__range', '1h').replaceAll('$__rate_interval', '1m'),
    }));
    writeFileSync(
      join(directory, 'drawn.yml'),
      JSON.stringify({ groups: [{ name: 'drawn', rules: queries }] }),
    );
    const check = (...args) => execFileSync(programs.promtool, args, { cwd: directory, encoding: 'utf8' });
    assert.match(check('check', 'rules', 'alerts.yml', 'drawn.yml'), /SUCCESS/);
    check('check', 'config', 'prometheus.yml', 'lab.yml');
    check('test', 'rules', 'alerts.test.yml');
  },
);

test('Prometheus itself reads the counts of a lab, and sees an open break', needsPrograms, async (t) => {
  const state = mkdtempSync(join(tmpdir(), 'prometheus-'));
  // The control: where Prometheus does not even read this, it is this machine that keeps it from reading.
  const control = createServer((_, response) => {
    response.setHeader('content-type', 'text/plain; version=0.0.4');
    response.end('paid_once_control 1\n');
  }).listen(0, '127.0.0.1');
  await once(control, 'listening');
  const { port } = await freePorts();
  const server = await startPrometheus({
    program: programs.prometheus,
    port,
    target: Number(site.url.port),
    state,
    jobs: `  - { job_name: control, static_configs: [{ targets: ['127.0.0.1:${control.address().port}'] }] }\n`,
  });
  t.after(async () => {
    server.stop('SIGKILL');
    await server.ended.catch(() => {});
    control.close();
    rmSync(state, { recursive: true, force: true });
  });
  const asked = async (path) => (await (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)).json()).data;
  const value = async (name) => (await asked(`query?query=${name}`)).result[0]?.value[1];
  const targets = async () => {
    const { activeTargets } = await asked('targets');
    return activeTargets.map(({ labels, health, lastError }) => [labels.job, health, lastError].join(' '));
  };
  const isRead = (name) => until(`${name} is read`, () => value(name)).catch(() => undefined);
  const [breaks, other] = await Promise.all(['sum(paid_once_breaks_open)', 'paid_once_control'].map(isRead));
  if (other === undefined) {
    t.skip(`Prometheus reads nothing on this machine: ${(await targets()).join('; ')}`);
    return;
  }
  assert.equal(breaks, '1', (await targets()).join('; '));
  const rule = await until('the alert is near', async () => {
    const rules = (await asked('rules')).groups.flatMap((group) => group.rules);
    return rules.find(({ name, state }) => name === 'PaidOnceBreaks' && state !== 'inactive');
  });
  assert.ok(['pending', 'firing'].includes(rule.state), rule.state);
});
