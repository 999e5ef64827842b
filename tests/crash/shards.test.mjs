// Kill -9 of the whole site while what is in D1 is moved into shards, and payments go on.
//
// Here runs what has a queue, a read model, shards and a desk: `wrangler dev`, on disk. The bank is in a process of its own. Two movers ask the
// desk for the next part again and again; clients pay and capture under the same key until they know how it ended.
//
// Shown, after the last kill:
// - D1 has no payment of before any more, nor a key, an audit record, a refund or a job of one;
// - each payment stands in one shard, once, as its object shows it, and the account's list has each once;
// - and where nobody moves anything, all of before are in D1: the test can fail.
//
// Other numbers:  CRASH_KILLS=20 node --test tests/crash/shards.test.mjs
// The same dice:  CRASH_SEED=12345

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { send } from '../../crates/once-testing/kill/kill.mjs';
import { OWNER } from '../witness/clients.mjs';
import { rng } from '../witness/rng.mjs';
import { SEED, TIMES } from './chaos.mjs';
import { workersWithShards } from '../worker/support/shards.mjs';
import { Site } from './site.mjs';

const KILLS = Number(process.env.CRASH_KILLS ?? 4);
const BEFORE = 120;
const LIFE_MS = [50, 700];
/** Objects look soon which of their jobs are over, and send again what is not. */
const VARS = { ...TIMES, OUTBOX_MS: 1_000, CONFIRM_MS: 2_500 };
const TABLES = {
  payments: 'created_at_ms < ?',
  keys: 'created_at_ms < ?',
  refunds: 'created_at_ms < ?',
  audit_records: 'at_ms < ?',
  jobs: 'staged_at_ms < ?',
};

// No test needs the network: this keeps the runtime from asking where on Earth it runs.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = 'false';
const dice = rng(SEED);
let site;
before(async () => {
  const workers = (options) => workersWithShards({ ...options, migrates: true });
  site = await Site.make('crash-shards', { workers });
});
after(() => site.close());

test('a move that is killed again and again loses nothing and doubles nothing', async (t) => {
  t.after(() => site.kill());
  await site.start(VARS);
  const made = new Map();
  await Promise.all(Array.from({ length: 6 }, () => payers(made, () => made.size < BEFORE)));
  await over();
  await site.kill();
  const fromMs = Date.now();
  // As if an operator had set it some minutes ago.
  site.disk.write((database) =>
    database
      .prepare(
        `INSERT INTO shard_layouts (from_ms, slots, spread, moved_since_ms, moved_at_ms, made_at_ms)
         VALUES (?, 4, '{"account:user@example.com": 4}', 0, ?, ?)`,
      )
      .run(fromMs, fromMs - 600_000, fromMs),
  );
  const wereIn = count('payments', fromMs);
  assert.ok(wereIn >= BEFORE, 'control: where nobody moves anything all of them are in D1');

  let isOver = false;
  const all = [
    ...Array.from({ length: 3 }, () => payers(made, () => !isOver)),
    ...Array.from({ length: 2 }, () => moves(() => !isOver)),
  ];
  const left = [];
  for (let life = 0; life < KILLS; life += 1) {
    await site.start(VARS);
    // The first life ends as soon as something is moved: most of it is not. On a slow machine the others may be over before anything is.
    if (life > 0) await pause(dice.between(...LIFE_MS));
    if (life === 0 || life === KILLS - 1)
      await site.reaches('something is moved', () => count('payments', fromMs) < wereIn, { everyMs: 10 });
    await site.kill();
    left.push(count('payments', fromMs));
  }
  await site.start(VARS);
  isOver = true;
  await Promise.all(all);
  await over();
  await site.reaches('nothing is left in D1', async () => {
    await site.ask('POST', '/admin/api/shards/move');
    return Object.keys(TABLES).every((table) => count(table, fromMs) === 0);
  });
  t.diagnostic(
    `seed ${SEED}: ${made.size} payments, ${wereIn} of them before; left in D1 after each kill: ${left}`,
  );

  assert.ok(
    left.some((number) => number > 0 && number < wereIn),
    `a kill has struck half-way: ${left} of ${wereIn}`,
  );
  const listed = await site.list();
  await site.kill();
  assert.deepEqual(listed.map(({ id }) => id).sort(), [...made.keys()].sort(), 'the list has each once');
  const rows = site.shards('payments', 'SELECT payment_id, status, shown FROM payments');
  assert.deepEqual(
    rows.map(({ payment_id: id }) => id).sort(),
    [...made.keys()].sort(),
    'each is in one shard',
  );
  for (const payment of listed) {
    assert.equal(payment.status, made.get(payment.id), payment.id);
    assert.deepEqual(JSON.parse(rows.find(({ payment_id: id }) => id === payment.id).shown), payment);
  }
  const keys = site.shards('keys', "SELECT status, object || '/' || key_id AS id FROM key_list");
  assert.deepEqual(
    keys.filter(({ status }) => status === 'open'),
    [],
  );
  assert.equal(new Set(keys.map(({ id }) => id)).size, keys.length);
});

/** How many rows of before are in D1. */
const count = (table, fromMs) =>
  site.disk.rows(`SELECT count(*) AS number FROM ${table} WHERE ${TABLES[table]}`, fromMs)[0].number;

/** All that objects have staged is over. */
const over = () =>
  site.reaches('every key is finished and every job is over', () =>
    site
      .objects()
      .every(({ jobs, keys }) => jobs.length === 0 && keys.every(({ status }) => status !== 'open')),
  );

/** Pays and captures, one payment after the other; each request until it is answered. */
async function payers(made, mayGoOn) {
  while (mayGoOn()) {
    const { id } = await insist('/payments', { amount: 2500, currency: 'usd', capture: false }, 201);
    made.set(id, 'requires_capture');
    if (dice.chance(0.5)) continue;
    await insist(`/payments/${id}/capture`, {}, 200);
    made.set(id, 'succeeded');
  }
}

async function insist(path, body, wanted) {
  const key = randomUUID();
  for (;;) {
    const origin = await site.up();
    const headers = { ...OWNER, 'content-type': 'application/json', 'idempotency-key': key };
    const answer = await send(origin, path, { method: 'POST', headers, body: JSON.stringify(body) }).catch(
      () => null,
    );
    if (answer?.status === wanted) return JSON.parse(answer.text);
    assert.ok(!answer || [409, 500, 502, 503].includes(answer.status), answer?.text);
    await pause(50);
  }
}

async function moves(mayGoOn) {
  while (mayGoOn()) {
    await site.up();
    await site.ask('POST', '/admin/api/shards/move').catch(() => {});
    await pause(20);
  }
}
