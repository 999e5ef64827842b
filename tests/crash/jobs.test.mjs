// Kill -9 of the whole site while payments are made, moved and given back: what becomes of the jobs.
//
// Here runs what has a queue, a read model and a mailbox (site.mjs). The bank and the mailbox are in a process of their own,
// which is never killed and so can be believed. The local queue lives in memory: whatever it holds dies with the process, and only the
// objects know that a job is not over.
//
// Shown, after the last kill:
// - each receipt that a payment, a refund or a void calls for is in the mailbox once, and nothing else is;
// - every job is forgotten by its object, and done or in the dead letters;
// - the list of payments says what the objects say, and no key is open;
// - and where nothing is sent again (CONFIRM_MS), a receipt that died with the queue stays away: the test can fail.
//
// Other numbers:  CRASH_KILLS=20 node --test tests/crash/jobs.test.mjs
// The same dice:  CRASH_SEED=12345

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import { until } from '../worker/support/until.mjs';
import { OWNER } from '../witness/clients.mjs';
import { judge } from '../witness/invariants.mjs';
import { receiptOf, receiptsOf } from '../witness/mail.mjs';
import { rng } from '../witness/rng.mjs';
import { SEED, TIMES } from './chaos.mjs';
import { Payers } from './payers.mjs';
import { Site } from './site.mjs';
import { UnderWay, send } from '../../crates/once-testing/kill/kill.mjs';

/** What must hold when all is over. */
const HELD = [
  'nothing is charged or refunded twice',
  'what was answered once is answered for ever',
  'every charge has its object',
  'what was told is what is shown',
  'what is shown is what the ledger holds',
  'the read model says what is shown',
  'nothing is left open',
  'each receipt is in the mailbox once',
];
const KILLS = Number(process.env.CRASH_KILLS ?? 4);
const PAYERS_EACH_LIFE = 8;
/** The process lives until so many more requests have ended, and then so many ms. This is the load, not a wait. */
const ENDED_EACH_LIFE = [4, 10];
const LIFE_MS = [0, 300];
const LIFE_MAX_MS = 4_000;
/** After how long an object sends again what is not over. */
const CONFIRM_MS = 2_500;
const NEVER_MS = 3_600_000;
/** How soon it looks there first. */
const OUTBOX_MS = 1_000;

// No test needs the network: this keeps the runtime from asking where on Earth it runs.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = 'false';
let site;
before(async () => {
  site = await Site.make('crash-jobs');
});
after(() => site.close());

test('whatever dies with the queue is done once, and the lists say what is true', async (t) => {
  const load = new Load(site);
  t.after(() => {
    load.clients.stop();
    return site.kill();
  });
  await load.run();
  const seen = await load.settle();
  const figures = {
    kills: KILLS,
    emails: seen.emails.length,
    sentAgain: await sentAgain(),
    ...load.figures(),
  };
  t.diagnostic(`seed ${SEED}: ${JSON.stringify(figures)}`);

  assert.deepEqual(judge(seen, HELD), []);
  const receipts = seen.objects.flatMap((object) => Object.values(receiptsOf(object)).flat());
  assert.deepEqual(seen.emails.map(receiptOf).sort(), receipts.sort(), 'the mailbox has each receipt once');
  assert.ok(seen.emails.length > KILLS, 'there were receipts');
  assert.ok(figures.sentAgain > 0, 'some jobs died with the queue and left again');
  assert.ok(figures.struck > 0, 'some kills struck requests that were under way');
  const listed = await site.list();
  assert.equal(listed.length, seen.shown.size, 'the list has every payment once');
  for (const payment of listed) assert.deepEqual(payment, seen.shown.get(payment.id));
});

test('control: where nothing is sent again, what dies with the queue is never sent', async () => {
  await site.start({ ...TIMES, CONFIRM_MS: NEVER_MS, OUTBOX_MS });
  await sim('faults', { method: 'POST', body: { fault: 'connection_reset', count: 100, path: '/resend/' } });
  const lost = await Promise.all([pay(), pay(), pay()]);
  const receipts = lost.map((id) => `${id}_receipt`);
  // The queue has all of them, and every one has failed once: they wait there for the next try.
  await site.reaches('the receipts have failed', () => {
    const failed = site.disk
      .rows("SELECT job_id FROM jobs WHERE state = 'tried'")
      .map(({ job_id }) => job_id);
    return receipts.every((id) => failed.includes(id) && site.staged().some((job) => isSent(job, id)));
  });
  await site.kill();
  await sim('faults', { method: 'DELETE' });

  await site.start({ ...TIMES, CONFIRM_MS: NEVER_MS, OUTBOX_MS });
  const last = await pay();
  await site.reaches('a later receipt', async () => (await mailbox()).includes(`${last}_receipt`));
  const sent = await mailbox();
  assert.deepEqual(
    receipts.filter((id) => sent.includes(id)),
    [],
    'they died with the queue',
  );
  const staged = site.staged().map(({ job_id }) => job_id);
  assert.deepEqual(
    receipts.filter((id) => !staged.includes(id)),
    [],
    'only the objects know of them',
  );
});

const isSent = (job, id) => job.job_id === id && job.sends > 0;

/** Clients of the API who pay, move and give back, while the site is killed. */
class Load {
  worker;
  underWay = new UnderWay();
  rng = rng(SEED);
  clients = new Payers(this);
  #struck = 0;

  constructor(worker) {
    this.worker = worker;
  }

  async run() {
    const { between } = this.rng;
    for (let life = 0; life < KILLS; life += 1) {
      await this.#arm();
      await this.worker.start({ ...TIMES, CONFIRM_MS });
      for (let n = 0; n < PAYERS_EACH_LIFE; n += 1) this.clients.come();
      const enough = this.clients.moreEnded(between(...ENDED_EACH_LIFE));
      await Promise.race([enough, pause(LIFE_MAX_MS, null, { ref: false })]);
      // Every other kill strikes requests for certain; the others may strike jobs alone.
      if (life % 2 === 0) await this.underWay.some(between);
      else await pause(between(...LIFE_MS));
      if (this.underWay.count > 0) this.#struck += 1;
      await this.worker.kill();
      if (this.clients.failures.length > 0) throw this.clients.failures[0];
    }
  }

  /** No more faults: waits until all clients know how it ended, and every object how its jobs did. Gives what all witnesses say. */
  async settle() {
    await sim('faults', { method: 'DELETE' });
    await this.worker.start({ ...TIMES, CONFIRM_MS });
    await this.clients.all();
    // A request that its client has given up may come to an object while the witnesses are asked: then they tell of different times.
    return this.worker.reaches('nothing happens while all witnesses are asked', async () => {
      await this.worker.reaches('every key is finished and every job is over', () => {
        const objects = this.worker.objects();
        const isOpen = ({ status }) => status === 'open';
        if (objects.some(({ keys }) => keys.some(isOpen))) return false;
        return objects.every(({ jobs }) => jobs.length === 0);
      });
      const seen = await this.#witnesses();
      return isDeepStrictEqual(this.worker.objects(), seen.objects) && seen;
    });
  }

  async #witnesses() {
    const objects = this.worker.objects();
    const shown = new Map();
    for (const { payment_id: id } of objects.flatMap(({ payments }) => payments))
      shown.set(id, (await this.worker.read(`/payments/${id}`)).body);
    const { disk } = this.worker;
    const rowsOf = (table) => disk.rows(`SELECT * FROM ${table}`);
    const rows = {
      payments: rowsOf('payments'),
      refunds: rowsOf('refunds'),
      // Also those that were done at once, and have no row in `jobs`.
      jobs: rowsOf('job_list'),
      breaks: rowsOf('breaks'),
    };
    const { emails } = await sim('mailbox.json');
    return { acts: this.clients.acts, objects, shown, rows, emails, ledger: await sim('ledger') };
  }

  figures() {
    return { ...this.clients.counts, struck: this.#struck };
  }

  /** Kills strike while emails are on their way; some of them are sent, and nobody hears of it. */
  async #arm() {
    for (const fault of [
      { fault: 'slow_response', delay_ms: 2_000, count: 3, path: '/resend/' },
      { fault: 'connection_reset', count: 2, path: '/resend/' },
      { fault: 'slow_response', delay_ms: this.rng.between(50, 400), count: 5, path: '/v1/' },
    ])
      await sim('faults', { method: 'POST', body: { ...fault, method: 'POST' } });
  }
}

const sim = (path, init) => site.sim(path, init);

const emailRequests = async () =>
  (await sim('requests?limit=1000')).requests.filter(({ path }) => path.startsWith('/resend/'));

/** For each email in the mailbox, the id of the job that it must come from. */
const mailbox = async () => (await sim('mailbox.json')).emails.map(receiptOf).sort();

/** How many emails were asked for more than once. */
async function sentAgain() {
  const byKey = Map.groupBy(await emailRequests(), ({ idempotency_key }) => idempotency_key);
  return [...byKey.values()].filter((sends) => sends.length > 1).length;
}

/** Pays, as a client does: where a slow machine was late it asks again under the same key. */
async function pay() {
  const key = randomUUID();
  const paid = await until('it is paid', async () => {
    const { status, text } = await send(site.origin, '/payments', {
      method: 'POST',
      headers: { ...OWNER, 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ amount: 2500, currency: 'usd' }),
    });
    assert.ok([201, 409, 503].includes(status), text);
    return status === 201 && text;
  });
  return JSON.parse(paid).id;
}
