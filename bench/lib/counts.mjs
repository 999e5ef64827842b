// What each operation costs, as counts: they are the same on every machine. bench/budget.json has them, and `release: cost-budget` of
// `npm test` holds the Worker to it.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { inRoot } from '../../scripts/lib/paths.mjs';
import { TOKEN, counted, migrate, neighbours } from './sites.mjs';
import { startWorkerd } from './workerd.mjs';

export const budgetFile = inRoot('bench', 'budget.json');

/** With it what is sent after an answer is sent, too. */
const services = {
  RESEND_API_BASE: 'https://resend.example',
  RESEND_API_KEY: 're_bench',
  RECEIPT_FROM: 'Paid Once <receipts@paid-once.example>',
  // An object looks what is over, as ever, but soon: the clock goes on by that each time.
  OUTBOX_MS: '1000',
  // What isolates do now and then belongs to no operation.
  METRICS_INTERVAL_MS: '25000',
  ACCOUNTS_CACHE_MS: '60000',
};
/** Nor does it that they look once a second whether an account has an endpoint for webhooks. */
const without = ['DELIVERIES'];
/** How many payments make what an isolate keeps, and the metrics' object. */
const PAID_AT_START = 2;
/** Nothing that is counted takes so long, on whatever machine. */
const STUCK_MS = 60_000;
/** How often in turn nothing is found to be under way. */
const ALIKE = 3;
/** What an operation brings with it comes within an hour. */
const HOUR_MS = 3_600_000;
/** Where it is counted how responses expire, within less: that is soon there, but after the jobs are over. */
const JOBS_WITHIN_MS = 5_000;
const RETENTION_MS = 12_000;
export const PAYMENT = { amount: 2500, currency: 'usd', receipt_email: 'jenny@example.com' };

/** The counts of each operation. */
export async function countAll(dir, { onOperation = () => {} } = {}) {
  const { start, stop } = await neighbourhood(dir);
  const found = {};
  try {
    const site = await start('site', { REPLAY_CACHE_MS: '0' });
    for (const [name, operation] of Object.entries(operations)) {
      onOperation(name);
      found[name] = await operation(site);
    }
    await site.stop();

    onOperation('replay at the edge');
    const edge = await start('edge', {});
    found['replay at the edge'] = await operations.replay(edge);
    found['the very same replay at the edge'] = await operations['the very same replay'](edge);
    await edge.stop();

    onOperation('expiry');
    const brief = await start('brief', { RETENTION_MS: `${RETENTION_MS}` }, { withinMs: JOBS_WITHIN_MS });
    found.expiry = await expiry(brief);
  } finally {
    await stop();
  }
  return { ...found, wasm: { 'KB gzipped': wasmKilobytes() } };
}

/**
 * What all counted sites call. `start` starts one that has done once what is done once; of an act `meter` counts what it costs, and `own` what the Worker
 * itself counts of it for its metrics. `stop` ends all that were started, also where one of them has failed.
 */
export async function neighbourhood(dir) {
  const beside = await startWorkerd(join(dir, 'beside'), await neighbours());
  const running = [beside];
  await migrate(beside.origin('database'));
  const [provider, database] = ['provider', 'database'].map((socket) => beside.origin(socket));
  const start = async (name, vars, { withinMs = HOUR_MS, dearer } = {}) => {
    const options = { provider, database, batchTimeoutS: 0, dearer, without, vars: { ...services, ...vars } };
    const runtime = await startWorkerd(join(dir, name), await counted(options));
    running.push(runtime);
    const site = metered(runtime, beside, withinMs);
    await site.settled(() => pay(site, PAYMENT));
    // The first time it sends its counts soon, and then not before all is counted.
    await site.pass();
    await again(site, PAYMENT);
    return site;
  };
  return { start, stop: () => Promise.all(running.map((runtime) => runtime.stop())) };
}

const operations = {
  payment: (site) => site.meter(() => pay(site, PAYMENT)),
  'capture with a key': async (site) => {
    const { id } = await site.settled(() => pay(site, { ...PAYMENT, capture: false }));
    return site.meter(() => post(site, `/payments/${id}/capture`, {}, 200));
  },
  'refund with a key': async (site) => {
    const { id } = await site.settled(() => pay(site, PAYMENT));
    return site.meter(() => post(site, `/payments/${id}/refunds`, { amount: 1000 }, 201));
  },
  // White space says nothing, and makes a request that was not read before.
  replay: (site) => again(site, JSON.stringify(PAYMENT, null, 1)),
  'the very same replay': (site) => again(site, PAYMENT),
};

/** A payment once more, and what that costs. */
async function again(site, payment) {
  const key = randomUUID();
  const first = await site.settled(() => pay(site, PAYMENT, key));
  return site.meter(async () => assertSame(await pay(site, payment, key), first));
}

/** The responses of all payments of a site expire; of one each. Nobody has asked for these payments for long. */
async function expiry(site) {
  await site.settled(() => pay(site, PAYMENT));
  await site.evict();
  const counts = await site.meter(() => site.ring(RETENTION_MS));
  const payments = PAID_AT_START + 1;
  return Object.fromEntries(
    Object.entries(counts).map(([what, count]) => [what, Math.round(count / payments)]),
  );
}

export const pay = (site, payment, key) => post(site, '/payments', payment, 201, key);

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

/** A site whose costs are counted: of an act with what comes of it within the next `withinMs` of its clock. */
function metered(runtime, beside, withinMs) {
  const told = async () => {
    const [own, queue, database] = await Promise.all([
      runtime.ask('http', '/_bench/counts'),
      runtime.ask('queue', '/stats'),
      beside.ask('database', '/stats'),
    ]);
    return { own, queue, database };
  };
  /** How many timers may be left: the isolate's, to send its counts, and one more after each time that these were asked for. */
  let sends = 1;
  const tell = (what) => runtime.ask('http', `/_bench/${what}`, { method: 'POST' });
  const ring = (withinMs) => tell(`ring?within_ms=${withinMs}`);

  /** Waits until nothing is under way any more: neither in the Worker, nor in the queue. */
  const still = async () => {
    let last;
    let since = performance.now();
    // One call may have been on its way from one to the other.
    for (let alike = 0; alike < ALIKE;) {
      const all = await told();
      const now = JSON.stringify(all);
      if (now !== last) since = performance.now();
      const { own, queue } = all;
      // What is received is under way until its handler ends. Its batch ends later: the isolate's timer to send counts may belong to it.
      const isStill = own.under_way === 0 && queue.waiting === 0 && queue.deliveries === own.received;
      alike = isStill && now === last ? alike + 1 : 0;
      last = now;
      if (!isStill && performance.now() - since > STUCK_MS)
        throw new Error(`Something waits for a timer, and these stand still: ${now}`);
    }
    const { timers } = JSON.parse(last).own;
    if (timers > sends) throw new Error(`${timers} timers are left, and ${sends} are to send counts`);
  };
  /** The same, and again after each alarm that rings: then nothing more comes. */
  const rest = async () => {
    do await still();
    while (await ring(withinMs));
  };
  const meter = (read) => async (act) => {
    await rest();
    const before = await read();
    await act();
    await rest();
    return difference(await read(), before);
  };
  return {
    ...runtime,
    ring,
    evict: () => tell('evict'),
    pass: () => tell('pass'),
    settled: async (act) => {
      const result = await act();
      await rest();
      return result;
    },
    meter: meter(async () => counts(await told())),
    own: meter(async () => {
      sends += 1;
      return ownCounts(await runtime.ask('http', '/_bench/own'));
    }),
  };
}

function counts({ own, queue, database }) {
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
}

/** By the names that they have in `counts`. */
function ownCounts(rows) {
  const sum = (name, ...wanted) =>
    rows
      .filter(
        ([of, labels]) => of === `paid_once_${name}_total` && wanted.every((label) => labels.includes(label)),
      )
      .reduce((total, [, , , number]) => total + number, 0);
  return {
    'requests to objects': sum('object_requests'),
    'rows written in objects': sum('rows_written', 'object'),
    'rows written in the read model': sum('rows_written', 'read_model'),
    'queue operations': 3 * sum('queue_messages'),
  };
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
