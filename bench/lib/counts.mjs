// What each operation costs, as counts: they are the same on every machine. bench/budget.json has them, and `release: cost-budget` of
// `npm test` holds the Worker to it.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

import { inRoot } from '../../scripts/lib/paths.mjs';
import { TOKEN, counted, migrate, neighbours } from './sites.mjs';
import { median } from './stats.mjs';
import { startWorkerd } from './workerd.mjs';

export const budgetFile = inRoot('bench', 'budget.json');

/** With it what is sent after an answer is sent, too. */
const services = {
  RESEND_API_BASE: 'https://resend.example',
  RESEND_API_KEY: 're_bench',
  RECEIPT_FROM: 'Paid Once <receipts@paid-once.example>',
  // An object looks what is over, as ever, but nobody waits half a minute for it.
  OUTBOX_MS: '1000',
  // What isolates do now and then belongs to no operation: on a slow machine it would come more often in one.
  METRICS_INTERVAL_MS: '25000',
  ACCOUNTS_CACHE_MS: '60000',
};
/** Nothing more comes when nothing came for so long. */
const quietMs = 1_500;
/** Longer than a payment's jobs take, also where the machine is busy. */
const RETENTION_MS = 12_000;
const PAYMENT = { amount: 2500, currency: 'usd', receipt_email: 'jenny@example.com' };

/**
 * The counts of each operation: the medians of `runs`. On a busy machine a run that takes long is told of, and of two steps in the same
 * millisecond the second may have nothing to write. `expiring` payments expire together, and share what is done once.
 */
export async function countAll(dir, { runs, expiring = runs, onOperation = () => {} }) {
  const beside = await startWorkerd(join(dir, 'beside'), await neighbours());
  await migrate(beside.origin('database'));
  const start = async (name, vars) => {
    const [provider, database] = ['provider', 'database'].map((socket) => beside.origin(socket));
    const options = { provider, database, batchTimeoutS: 0, vars: { ...services, ...vars } };
    return startWorkerd(join(dir, name), await counted(options));
  };
  const found = {};
  const site = await start('site', { REPLAY_CACHE_MS: '0' });
  const meter = meterOf(site, beside);
  // What is made once: the metrics' object, and what an isolate keeps.
  await pay(site, PAYMENT);
  for (const [name, operation] of Object.entries(operations)) {
    onOperation(name);
    const all = [];
    for (let run = 0; run < runs; run += 1) all.push(await operation(site, meter));
    found[name] = medians(all);
  }
  await site.stop();

  onOperation('replay at the edge');
  const edge = await start('edge', {});
  await pay(edge, PAYMENT);
  const [replays, verbatim] = [[], []];
  for (let run = 0; run < runs; run += 1) {
    replays.push(await operations.replay(edge, meterOf(edge, beside)));
    verbatim.push(await operations['the very same replay'](edge, meterOf(edge, beside)));
  }
  found['replay at the edge'] = medians(replays);
  found['the very same replay at the edge'] = medians(verbatim);
  await edge.stop();

  const brief = await start('brief', { RETENTION_MS: `${RETENTION_MS}` });
  onOperation('expiry');
  found.expiry = await expiry(brief, meterOf(brief, beside), expiring);
  await brief.stop();
  await beside.stop();
  return { ...found, wasm: { 'KB gzipped': wasmKilobytes() } };
}

const medians = (all) =>
  Object.fromEntries(Object.keys(all[0]).map((what) => [what, median(all.map((counts) => counts[what]))]));

const operations = {
  payment: (site, meter) => meter(() => pay(site, PAYMENT)),
  'capture with a key': async (site, meter) => {
    const { id } = await meter.settled(() => pay(site, { ...PAYMENT, capture: false }));
    return meter(() => post(site, `/payments/${id}/capture`, {}, 200));
  },
  'refund with a key': async (site, meter) => {
    const { id } = await meter.settled(() => pay(site, PAYMENT));
    return meter(() => post(site, `/payments/${id}/refunds`, { amount: 1000 }, 201));
  },
  // White space says nothing, and makes a request that was not read before.
  replay: (site, meter) => again(site, meter, JSON.stringify(PAYMENT, null, 1)),
  'the very same replay': (site, meter) => again(site, meter, PAYMENT),
};

/** A payment once more, and what that costs. */
async function again(site, meter, payment) {
  const key = randomUUID();
  const first = await meter.settled(() => pay(site, PAYMENT, key));
  return meter(async () => assertSame(await pay(site, payment, key), first));
}

/** The responses of some payments expire together; of one each. */
async function expiry(site, meter, payments) {
  await pay(site, PAYMENT);
  const begun = Date.now();
  await meter.settled(() => Promise.all(Array.from({ length: payments - 1 }, () => pay(site, PAYMENT))));
  const before = await meter.read();
  if (Date.now() - begun > RETENTION_MS - 1_000)
    throw new Error('too busy: a response expired before its jobs were done');
  await sleep(begun + RETENTION_MS - Date.now());
  const after = await meter.rest();
  return Object.fromEntries(
    Object.entries(difference(after, before)).map(([what, count]) => [what, Math.round(count / payments)]),
  );
}

const pay = (site, payment, key) => post(site, '/payments', payment, 201, key);

async function post(site, path, body, wanted, key = randomUUID()) {
  const answer = await fetch(`${site.origin('http')}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', 'idempotency-key': key },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  if (answer.status !== wanted) throw new Error(`${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

function assertSame(one, other) {
  if (JSON.stringify(one) !== JSON.stringify(other)) throw new Error('a replay that is another answer');
}

/** Counts what comes of an act, up to the last job. */
function meterOf(site, beside) {
  const read = async () => {
    const [own, queue, database] = await Promise.all([
      site.ask('http', '/_bench/counts'),
      site.ask('queue', '/stats'),
      beside.ask('database', '/stats'),
    ]);
    // What is counted itself is added up now and then, by whatever request comes then: it belongs to no operation.
    const { MetricsObject: _, ...classes } = own.objects;
    const sum = (what) => Object.values(classes).reduce((total, one) => total + one[what], 0);
    return {
      'rows written in objects': sum('rows_written'),
      'SQL statements in objects': sum('statements'),
      'alarms set': sum('alarms'),
      'requests to objects': sum('requests'),
      'new objects': sum('objects'),
      'bytes in objects': sum('bytes'),
      'rows written in the read model': database.rows_written,
      'statements in the read model': database.statements,
      // Each message is written, read whenever it is delivered, and deleted.
      'queue operations': 2 * queue.messages + queue.deliveries,
      'calls from wasm to JavaScript': own.crossings,
    };
  };
  const rest = async () => {
    let last = await read();
    for (let since = Date.now(); Date.now() - since < quietMs;) {
      await sleep(100);
      const now = await read();
      if (JSON.stringify(now) !== JSON.stringify(last)) since = Date.now();
      last = now;
    }
    return last;
  };
  const settled = async (act) => {
    const result = await act();
    await rest();
    return result;
  };
  const meter = async (act) => {
    const before = await rest();
    await act();
    return difference(await rest(), before);
  };
  return Object.assign(meter, { settled, read, rest });
}

const difference = (after, before) =>
  Object.fromEntries(Object.entries(after).map(([what, count]) => [what, count - before[what]]));

const wasmKilobytes = () => Math.ceil(gzipSync(readFileSync(inRoot('build', 'index_bg.wasm'))).length / 1024);

/** What differs between the counts and the budget: more than it allows, or so much less that it does not hold any more. */
export function judge(found, budget) {
  const wrong = [];
  for (const operation of new Set([...Object.keys(found), ...Object.keys(budget)]))
    for (const what of new Set([
      ...Object.keys(found[operation] ?? {}),
      ...Object.keys(budget[operation] ?? {}),
    ])) {
      const [count, allowed] = [found[operation]?.[what], budget[operation]?.[what]];
      const line = `${operation}, ${what}: ${count}, bench/budget.json says ${allowed}`;
      if (count === undefined || allowed === undefined) wrong.push(line);
      else if (count > allowed * (1 + tolerance(what))) wrong.push(line);
      else if (count < allowed - Math.abs(allowed) * SLACK)
        wrong.push(`${line}: lower it, npm run bench -- --budget`);
    }
  return wrong;
}

/** The budget would not notice much if less than what is allowed were counted by more than this part of it. */
const SLACK = 0.1;
/** Another compiler makes another size, and a future that is polled once more a few calls. */
const tolerance = (what) => ({ 'KB gzipped': 0.01, 'calls from wasm to JavaScript': 0.02 })[what] ?? 0;
