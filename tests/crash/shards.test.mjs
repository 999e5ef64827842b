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
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { send } from '../../crates/once-testing/kill/kill.mjs';
import { open } from '../../scripts/lib/dev-server.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { endOnSignals, stopAll } from '../../scripts/lib/run.mjs';
import { until } from '../worker/support/until.mjs';
import { OWNER } from '../witness/clients.mjs';
import { Disk } from '../witness/disk.mjs';
import { objectsIn, rowsIn } from '../witness/objects.mjs';
import { rng } from '../witness/rng.mjs';
import { openBank } from './bank.mjs';
import { SEED, TIMES } from './chaos.mjs';

const KILLS = Number(process.env.CRASH_KILLS ?? 5);
const BEFORE = 120;
const LIFE_MS = [50, 700];
const ENDS_WITHIN_MS = 180_000;
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
endOnSignals({ exitCode: 130 });
const dice = rng(SEED);
let site;
before(async () => {
  site = await makeSite();
});
after(async () => {
  await stopAll();
  rmSync(site.folder, { recursive: true, force: true });
});

test('a move that is killed again and again loses nothing and doubles nothing', async (t) => {
  t.after(() => site.kill());
  await site.start({ isNew: true });
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
    await site.start();
    await pause(dice.between(...LIFE_MS));
    await site.kill();
    left.push(count('payments', fromMs));
  }
  await site.start();
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

  assert.ok(left.at(-1) < wereIn, 'something was moved between the kills');
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

async function makeSite() {
  const { port, state, secrets, shared } = await openBank('crash-shards');
  return new Site({ port, state: join(state, 'site'), shared, secrets });
}

/** The site and its desk with shards, its process group, and its disk. */
class Site {
  folder = inRoot('.wrangler', `crash-shards-${process.pid}`);
  #state;
  #token;
  #options;
  #origin;
  #server = null;
  #up = Promise.withResolvers();

  constructor({ port, state, shared, secrets }) {
    this.#state = state;
    this.#token = secrets.ADMIN_TOKEN;
    this.#origin = new URL(`http://127.0.0.1:${port}`);
    this.disk = new Disk(state);
    const configs = [this.#configOf('.', secrets), this.#configOf('desk', secrets)];
    this.#options = { ...shared, name: 'Paid Once', configs, port, state, vars: VARS };
  }

  /** A configuration with shards, and without what is not here. */
  #configOf(name, secrets) {
    const folder = join(this.folder, name === '.' ? 'site' : name);
    mkdirSync(folder, { recursive: true });
    const back = name === '.' ? '../../..' : `../../../${name}`;
    const script = name === '.' ? '' : 'script_name = "paid-once-demo"\n';
    const migration =
      name === '.' ? '\n[[env.demo.migrations]]\ntag = "v3"\nnew_sqlite_classes = ["ReadModelShard"]\n' : '';
    const text = readFileSync(inRoot(name, 'wrangler.toml'), 'utf8')
      .replace('"src/entry.mjs"', `"${back}/src/entry.mjs"`)
      .replaceAll('directory = "build/', `directory = "${back}/build/`)
      .replaceAll('migrations_dir = "', `migrations_dir = "${back}/`)
      .replace(/\[\[env\.demo\.r2_buckets\]\]\n(?:\w.*\n)+/g, '');
    const shards = `\n[[env.demo.durable_objects.bindings]]\nname = "SHARDS"\nclass_name = "ReadModelShard"\n${script}${migration}`;
    writeFileSync(join(folder, 'wrangler.toml'), text + shards);
    const lines = ['SIGNING_KEY', 'ADMIN_TOKEN'].map((secret) => `${secret}="${secrets[secret]}"\n`);
    writeFileSync(join(folder, '.dev.vars.demo'), lines.join(''), { mode: 0o600 });
    return join(folder, 'wrangler.toml');
  }

  async start({ isNew = false } = {}) {
    const database = isNew ? 'DB' : undefined;
    this.#server = await open({ ...this.#options, database });
    this.#up.resolve(this.#origin);
  }

  up() {
    return this.#up.promise;
  }

  /** kill -9 of all its processes at once. */
  async kill() {
    this.#up = Promise.withResolvers();
    const server = this.#server;
    this.#server = null;
    server?.stop('SIGKILL');
    await server?.ended;
    this.disk.close();
  }

  async ask(method, path) {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    const answer = await send(this.#origin, path, {
      method,
      headers,
      body: method === 'POST' ? '{}' : undefined,
    });
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /** `GET /payments`, all pages. */
  async list() {
    const all = [];
    for (;;) {
      const after = all.length > 0 ? `&starting_after=${all.at(-1).id}` : '';
      const { status, text } = await send(this.#origin, `/payments?limit=100${after}`, { headers: OWNER });
      assert.equal(status, 200, text);
      const page = JSON.parse(text);
      all.push(...page.data);
      if (!page.has_more) return all;
    }
  }

  objects() {
    return objectsIn(join(this.#state, 'v3', 'do', 'paid-once-demo-KeyObject'));
  }

  /** The rows that the shards have on disk. */
  shards(table, sql) {
    const folder = join(this.#state, 'v3', 'do', 'paid-once-demo-ReadModelShard');
    const files = readdirSync(folder).filter(
      (name) => name.endsWith('.sqlite') && name !== 'metadata.sqlite',
    );
    return files.flatMap((name) => rowsIn(join(folder, name), table, sql));
  }

  reaches(what, isThere) {
    return until(what, isThere, { withinMs: ENDS_WITHIN_MS, everyMs: 100 });
  }
}
