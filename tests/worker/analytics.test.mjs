// The counts by Analytics Engine: written there and nowhere else, read once, weighted where they are sampled; and never shown when they
// cannot be read.

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';

import { account, freshKey, read } from './support/account.mjs';
import {
  ACCOUNT,
  DATASET,
  TOKEN,
  analyticsWorkers,
  pointsOf,
  reading,
  sampled,
  startAnalytics,
} from './support/analytics.mjs';
import { startSite } from './support/harness.mjs';
import { PAYMENT } from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const admin = { authorization: `Bearer ${ADMIN_TOKEN}` };
let site;
const points = () => pointsOf(site);
const api = await startAnalytics(points);
const workers = ({ vars, secrets, ...options } = {}) => {
  const { vars: settings, secrets: token } = reading(api, vars);
  return analyticsWorkers({ vars: settings, secrets: { ADMIN_TOKEN, ...token, ...secrets }, ...options });
};
site = await startSite({ workers: workers() });
const user = account(site);
after(async () => {
  await site.close();
  api.close();
});
afterEach(() => {
  api.answer('well');
  api.keep((all) => all);
});

const ask = async (path) => read(await site.fetch(path, { headers: admin }));
const counts = async () => {
  const answer = await ask('/metrics');
  assert.equal(answer.status, 200, answer.text);
  return parse(answer.text);
};
const seriesOf = ({ blobs }) => blobs[1].split('\n');
const has = (point, ...words) =>
  seriesOf(point).some((series) => words.every((word) => series.split('\t').includes(word)));
const stored = async () => {
  const storage = await site.worker.getDurableObjectStorage('METRICS', { name: 'shard 0' });
  const [{ tables }] = await storage.exec(
    "SELECT count(*) AS tables FROM sqlite_master WHERE name = 'counts'",
  );
  return tables ? storage.exec('SELECT family, labels, number FROM counts') : [];
};
const readTo = async () => (await stored()).find(({ family }) => family === 'analytics_read_to_s')?.number;

/** Waits until all that was written by now is read. */
async function settled() {
  // What is read up to a second is what was written before it.
  const next_s = Math.floor(Date.now() / 1000) + 1;
  await until('it is read', async () => (await counts()) && (await readTo()) >= next_s, { everyMs: 300 });
  return counts();
}

const REPLAYS = 'idempotency_cache_hits_total';

describe('what an invocation has counted', () => {
  test('is a point of each Worker that has a dataset, and nothing goes to the object', async () => {
    assert.equal((await user.pay(PAYMENT, freshKey())).status, 201);
    const isThere = (words) => points().find((point) => has(point, ...words));
    await until('the edge, the object and the jobs have written', () =>
      [
        ['paid_once_requests_total', '/payments', 'POST', 'created', '2xx'],
        ['paid_once_provider_calls_total', 'stripe', 'charged'],
        ['paid_once_jobs_total', 'done'],
      ].every(isThere),
    );
    assert.deepEqual(await stored(), []);
    const written = points();
    assert.deepEqual(
      written.filter(({ refused }) => refused),
      [],
    );
    // The edge's, the object's, and those of the two batches that its jobs come in.
    const ofPayment = written.filter(({ worker }) => worker === 'paid-once-demo');
    assert.ok(ofPayment.length <= 4, JSON.stringify(ofPayment.map(seriesOf)));
    await ask('/metrics');
    await until('the desk has written', () =>
      points().some((point) => point.worker === 'paid-once-demo-desk' && has(point, '/metrics', 'GET')),
    );
  });

  test('comes to be shown, each number once, however many read', async () => {
    const key = freshKey();
    const before = await settled();
    for (const status of [201, 201, 201]) assert.equal((await user.pay(PAYMENT, key)).status, status);
    assert.equal((await user.pay({ ...PAYMENT, amount: 2501 }, key)).status, 422);
    await until('they are shown', async () => {
      const all = await Promise.all([1, 2, 3, 4].map(counts));
      return all[0].sum('idempotency_conflicts_total') > before.sum('idempotency_conflicts_total');
    });
    const now = await settled();
    const more = (...of) => now.sum(...of) - before.sum(...of);
    assert.equal(more('requests_total', { route: '/payments' }), 4);
    assert.equal(more('requests_total', { route: '/payments', outcome: 'replayed' }), 2);
    assert.equal(more(REPLAYS), 2);
    assert.equal(more('charges_saved_total'), 2);
    assert.equal(more('idempotency_conflicts_total'), 1);
    assert.equal(more('provider_calls_total', { outcome: 'charged' }), 1);
    assert.equal(more('provider_call_duration_seconds_count', { provider: 'stripe' }), 1);
    assert.equal(more('payments_total', { status: 'succeeded' }), 1);
    assert.equal(more('keys', { status: 'finished' }), 1);
    assert.equal(now.sum('keys_open'), 0);
  });

  test('says where it comes from, and how exact it is', async () => {
    const now = await settled();
    const exact = now.samples.find(({ name }) => name === 'paid_once_metrics_exact');
    assert.deepEqual([exact.labels, exact.value], [{ source: 'analytics_engine' }, 0]);
    assert.equal(now.sum('metrics_sample_interval_max'), 1);
    assert.ok(now.sum('metrics_behind_seconds') <= 30);
    const page = await ask('/admin');
    assert.match(page.text, /by Analytics Engine up to [^<,]* ago</);
  });

  test('is asked for with nothing but what the API takes', () => {
    assert.ok(api.queries.length > 0);
    for (const sql of api.queries) api.evaluate(sql);
    // It does refuse.
    const [sql] = api.queries;
    for (const wrong of [
      sql.replace('sum(', 'sumUp('),
      sql.replace('max(', 'CASE WHEN ('),
      sql.replace(DATASET, 'another'),
      sql.replace('GROUP BY series', ''),
      sql.replace(/toDateTime\((\d+)\)/, '$1'),
      `${sql}; SHOW TABLES`,
      sql.replace('WHERE', `JOIN ${DATASET} WHERE`),
    ])
      assert.throws(() => api.evaluate(wrong), /Input was invalid/, wrong);
  });

  test('is read by the clock, too', async () => {
    await user.pay(PAYMENT, freshKey());
    const now_s = Math.ceil(Date.now() / 1000);
    await until('the clock has read it', async () => {
      await readModel(site).tick();
      return (await readTo()) >= now_s;
    });
    assert.equal(await isFailing(), 0);
  });
});

/** Of the task that reads: 1 if its newest run has failed. */
const isFailing = async () =>
  (await settled()).samples.find(
    ({ name, labels }) => name === 'paid_once_task_failing' && labels.task === 'counts',
  )?.value;

describe('an API', () => {
  const charges = async () => (await settled()).sum('provider_calls_total', { outcome: 'charged' });
  // What is not read stays to be read: these fail one after the other, and then all is read at once.
  let known;
  let paid = 0;
  before(async () => {
    known = await charges();
  });
  for (const [what, how, says] of [
    ['that refuses the token', 403, /answered 403: ANALYTICS_API_TOKEN needs the permission/],
    ['that fails', 500, /answered 500/],
    ['that limits', 429, /answered 429/],
    ['that does not answer in time', 'never', /no answer within 4000 ms/],
    ['that answers nonsense', () => '<html>', /is no object of JSON/],
    ['that answers with an error', () => '{"success":false,"errors":[]}', /no list `data`/],
    ['whose answer is far too long', { bytes: 33 << 20 }, /more than 33554432 bytes/],
    ['whose answer breaks off', (body) => body.slice(0, body.length / 2), /is no object of JSON/],
    ['that leaves rows out', (body) => body.replace(/"rows":\d+/, '"rows":999'), /another number of rows/],
    ['that leaves a number out', (body) => body.replaceAll('"sum7"', '"sum_7"'), /without the number sum7/],
  ]) {
    test(`${what} is a failure to Prometheus, and nothing counts as read`, async () => {
      api.answer(how);
      paid += 1;
      assert.equal((await user.pay(PAYMENT, freshKey())).status, 201);
      const read_to = await readTo();
      await until('there is something to be read', () => Date.now() / 1000 > read_to + 2.5);
      const [page, ...answers] = await Promise.all(['/admin', '/metrics', '/admin/stats'].map(ask));
      assert.equal(page.status, 200, 'no page waits for it');
      for (const answer of answers) {
        assert.equal(answer.status, 503, answer.text);
        assert.equal(answer.header('content-type'), 'application/problem+json');
        assert.match(answer.json().detail, says);
        assert.doesNotMatch(answer.text, /paid_once_/);
      }
      assert.equal(await readTo(), read_to);
      const said = JSON.stringify(site.logs().filter(({ message }) => !message.startsWith('data point')));
      assert.ok(!said.includes(TOKEN));
    });
  }

  test('that has failed when the clock asked it is told of on the desk, until the clock asks again', async () => {
    const read_to = await readTo();
    await until('there is something to be read', () => Date.now() / 1000 > read_to + 2.5);
    api.answer(500);
    await readModel(site).tick();
    assert.match((await ask('/admin')).text, /<dt>counts<[^]*?<dd>error [^<]*answered 500/);
    api.answer('well');
    assert.equal(await isFailing(), 1);
    await readModel(site).tick();
    assert.equal(await isFailing(), 0);
  });

  test('that answers again has lost nothing', async () => {
    assert.equal(await charges(), known + paid);
  });

  test('whose answer is as long as a page of payments with much metadata is read', async () => {
    api.answer((body) => body.padEnd(16 << 20));
    assert.equal((await user.pay(PAYMENT, freshKey())).status, 201);
    await until('it is read', async () => (await charges()) === known + paid + 1);
  });

  test('that forgets, or estimates less, makes no counter go back', async () => {
    const before = (await settled()).sum('requests_total');
    const query = (from_s) =>
      `SELECT sum(_sample_interval * double1) AS sum1 FROM ${DATASET} WHERE timestamp >= toDateTime(${from_s})`;
    const [{ sum1 }] = api.evaluate(query(0));
    api.keep((all) => sampled(1000)(all).slice(0, 1));
    // What would have been shown, had it been summed up anew.
    assert.notEqual(api.evaluate(query(0))[0].sum1, sum1);
    api.keep(() => []);
    assert.equal(api.evaluate(query(0))[0].sum1, null);
    assert.ok((await counts()).sum('requests_total') >= before);
  });

  // Last, because what is deployed then is replaced by what follows.
  test('that is down is a failure, too', async () => {
    const gone = await startAnalytics(points);
    gone.close();
    const read_to = await readTo();
    await until('there is something to be read', () => Date.now() / 1000 > read_to + 2.5);
    await site.deploy(workers({ vars: { ANALYTICS_API_BASE: `${gone.url}/client/v4` } }));
    const answer = await ask('/metrics');
    assert.equal(answer.status, 503);
    assert.match(answer.json().detail, /Analytics Engine could not be read: .*(no answer|fetch failed)/);
  });
});

describe('a dataset that nobody reads', () => {
  after(async () => {
    await site.deploy(workers());
    await settled();
  });

  test('is told, instead of counts that stand still', async () => {
    const { ANALYTICS_ACCOUNT_ID: _, ...vars } = reading(api).vars;
    const without = analyticsWorkers({ vars, secrets: { ADMIN_TOKEN } });
    await site.deploy(without);
    const answer = await ask('/metrics');
    assert.equal(answer.status, 503, answer.text);
    assert.match(answer.json().detail, /ANALYTICS_ACCOUNT_ID.*wrangler secret put ANALYTICS_API_TOKEN/);
    assert.match(
      (await ask('/admin')).text,
      /not counted any more: Analytics Engine is written to, and not read/,
    );
  });

  test("wrangler's own, which forgets, is written to without harm", async () => {
    await site.deploy(workers({ keeps: false }));
    await settled();
    const before = await stored();
    const written = points().length;
    assert.equal((await user.pay(PAYMENT, freshKey())).status, 201);
    assert.equal((await ask('/metrics')).status, 200);
    assert.equal(points().length, written);
    // Not all: what was asked for before may be written late, on a machine that is slow.
    const numbers = (rows) =>
      rows.filter(({ labels }) => labels.includes('/payments') || labels.includes('charged'));
    assert.deepEqual(numbers(await stored()), numbers(before), 'and no object has it instead');
  });
});

// From here on the counts of this site are estimates.
describe('a sampled set', () => {
  test('counts each point for as many as it stands for', async () => {
    const before = await settled();
    const [many, every] = [40, 10];
    api.keep(sampled(every));
    const first_s = Math.floor(Date.now() / 1000);
    await Promise.all(Array.from({ length: many }, () => site.fetch('/healthz')));
    const isLook = (point) => point.at_ms >= first_s * 1000 && has(point, '/healthz');
    await until('all are written', () => points().filter(isLook).length >= many);
    // Sampled by their index: what was there before must not shift which are kept.
    const all = points().filter(isLook);
    const sum = all.reduce((total, { doubles }) => total + doubles[0], 0);
    assert.equal(sum, many);
    api.keep((any) => [...any.filter((point) => !isLook(point)), ...sampled(every)(any.filter(isLook))]);
    const kept = sampled(every)(all);
    const weighted = kept.reduce((total, { doubles }) => total + doubles[0] * every, 0);
    await until('they are shown', async () => (await counts()).sum('metrics_sample_interval_max') === every);
    const now = await settled();
    const more =
      now.sum('requests_total', { route: '/healthz' }) - before.sum('requests_total', { route: '/healthz' });
    assert.equal(more, weighted);
    assert.ok(kept.length < all.length && weighted > kept.length, 'without weights it would be less');
  });

  test('has no gauges of changes any more, and the open keys by the read model', async () => {
    const now = await settled();
    assert.equal(now.samples.filter(({ name }) => /^paid_once_(keys|payments)$/.test(name)).length, 0);
    assert.deepEqual(
      now.samples.filter(({ name }) => name === 'paid_once_keys_open').map(({ value }) => value),
      [0],
    );
    assert.ok(now.sum('payments_total') > 0);
    const { keys, payments, requests } = (await ask('/admin/stats')).json();
    assert.deepEqual([keys, payments], [null, null]);
    assert.ok(requests.total > 0);
    assert.match((await ask('/admin')).text, /ago, an estimate/);
  });
});

test('the account and the token are in no query', () => {
  for (const sql of api.queries) assert.ok(!sql.includes(ACCOUNT) && !sql.includes(TOKEN));
});
