// The demo with shards of the read model, as docs/operations.md says how they are bound. A shard can be taken down: it is, as long as its
// storage has a table that says so.

import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { migrations } from '../../../build/migrations.mjs';
import { ownFolder } from '../../../scripts/lib/leftovers.mjs';
import { SIGNING_KEY, demoWorkers, root } from './harness.mjs';
import { folder } from './statements.mjs';
import { readConfig } from './wrangler.mjs';

const SHARDS = { name: 'SHARDS', class_name: 'ReadModelShard' };

/** `API_ACCOUNTS` with these accounts, whose payments are spread over the shards; each has the token `token-of-ID`. */
export function apiAccounts(ids) {
  const sha256 = (text) => createHash('sha256').update(text).digest('hex');
  const account = (id) => ({ token_sha256: sha256(`token-of-${id}`), payment_method: 'pm_card_visa' });
  return JSON.stringify(Object.fromEntries(ids.map((id) => [id, account(id)])));
}

/**
 * The Workers of the demo, with shards, and with the buckets of these bindings. Without `tasks` the desk knows its objects by a name that it does not.
 * A new shard gets its tables at once, or with `migrates` as where it is deployed, by each migration, which takes five times as long.
 */
export function workersWithShards({
  vars = {},
  secrets = {},
  buckets = [],
  tasks = true,
  migrates = false,
} = {}) {
  const read = (folder) =>
    readConfig({ config: join(root, folder, 'wrangler.toml'), env: 'demo' }, { hideWarnings: true });
  const [site, desk] = [read('.'), read('desk')];
  const named = (binding) =>
    binding.name === 'TASKS' && !tasks ? { ...binding, name: 'OF_BEFORE' } : binding;
  const bound = (config, binding) => [...config.durable_objects.bindings.map(named), binding];
  const all = { vars, secrets: { SIGNING_KEY, ADMIN_TOKEN: '', ...secrets } };
  const [, , ...others] = demoWorkers({ vars, secrets });
  return [
    {
      config: {
        ...site,
        build: {},
        triggers: { crons: [] },
        main: entry(migrates),
        durable_objects: { bindings: bound(site, SHARDS) },
        migrations: [...site.migrations, { tag: 'v3', new_sqlite_classes: [SHARDS.class_name] }],
      },
      ...all,
    },
    {
      config: {
        ...desk,
        build: {},
        r2_buckets: desk.r2_buckets.filter(({ binding }) => buckets.includes(binding)),
        durable_objects: { bindings: bound(desk, { ...SHARDS, script_name: site.name }) },
      },
      ...all,
    },
    ...others,
  ];
}

/** The payments Worker, whose shards can be taken down. */
function entry(migrates) {
  const dir = ownFolder(migrates ? 'shards-that-migrate' : 'shards');
  const file = join(dir, 'entry.mjs');
  const path = JSON.stringify(relative(dir, join(root, 'src', 'entry.mjs')));
  // The statements of shards are collected with those of D1, each once.
  const tells = folder ? 'tell(JSON.parse(text).statements);\n    ' : '';
  writeFileSync(
    file,
    `import { ReadModelShard as Newest } from ${path};
export * from ${path};
export { default } from ${path};
const told = new Set();
const tell = (statements) => {
  for (const [sql] of statements) {
    const about = sql.replace(/\\d{6,}/g, '0');
    if (!told.has(about)) console.log('read model: ' + JSON.stringify([sql, 0]));
    told.add(about);
  }
};
const tables = ${JSON.stringify(migrates ? '' : migrated())};
export class ReadModelShard extends Newest {
  constructor(ctx, env) {
    const { sql } = ctx.storage;
    const isNew = () => sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'shard_migrations'").toArray().length === 0;
    if (tables && isNew()) ctx.storage.transactionSync(() => sql.exec(tables));
    super(ctx, env);
  }

  ask(text) {
    const down = this.ctx.storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'is_down'").toArray();
    if (down.length > 0) throw new Error('the shard is down, for a test');
    ${tells}return super.ask(text);
  }
}
`,
  );
  return file;
}

/** What an empty shard is once all migrations have run, as SQL. */
export function migrated() {
  const db = new DatabaseSync(':memory:');
  for (const [, text] of migrations) db.exec(text);
  const all = db
    .prepare(
      "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid",
    )
    .all();
  const value = (it) => (typeof it === 'string' ? `'${it.replaceAll("'", "''")}'` : `${it}`);
  const rows = all
    .filter(({ type }) => type === 'table')
    .flatMap(({ name }) =>
      db
        .prepare(`SELECT * FROM ${name}`)
        .all()
        .map((row) => `INSERT OR REPLACE INTO ${name} VALUES (${Object.values(row).map(value)})`),
    );
  db.close();
  const names = migrations.map(([name]) => `(${value(name)})`);
  return [
    ...all.map(({ sql }) => sql),
    ...rows,
    'CREATE TABLE shard_migrations (name TEXT PRIMARY KEY) WITHOUT ROWID',
    `INSERT INTO shard_migrations (name) VALUES ${names}`,
  ].join(';\n');
}

/** The names of a day's shards for so many days back from `nowMs`, the newest first, and of one of them by its day and slot. */
export function shardsOfDays(days, slots, nowMs) {
  const dayOf = (day) => new Date(nowMs - day * 86_400_000).toISOString().slice(0, 10);
  const nameOf = (day, slot) => `g1-${dayOf(day)}-${String(slot).padStart(3, '0')}`;
  const names = Array.from({ length: days * slots }, (_, at) => nameOf(Math.floor(at / slots), at % slots));
  return { nameOf, names };
}

/** What a test does with the shards of a site. */
export function shards(site, { now = () => Date.now() } = {}) {
  const names = async () =>
    (await site.rows('SELECT name FROM shards ORDER BY name')).map(({ name }) => name);
  const storage = (name) => site.worker.getDurableObjectStorage('SHARDS', { name });
  const rowsIn = async (name, sql, ...values) => (await storage(name)).exec(sql, ...values);
  return {
    names,
    rowsIn,
    /** The rows of all shards, each with the name of its shard. */
    rows: async (sql, ...values) => {
      const each = (await names()).map(async (name) =>
        (await rowsIn(name, sql, ...values)).map((row) => ({ ...row, shard: name })),
      );
      return (await Promise.all(each)).flat();
    },
    /** A layout as of now. An operator can make one of the future only. */
    lay: (
      slots,
      {
        from_ms = now() - 60_000,
        period = 'month',
        spread = {},
        moved_since_ms = null,
        moved_at_ms = null,
      } = {},
    ) =>
      site.rows(
        `INSERT INTO shard_layouts (from_ms, slots, spread, moved_since_ms, moved_at_ms, made_at_ms, period)
         VALUES (?1, ?2, ?3, ?4, ?5, ?1, ?6)`,
        from_ms,
        slots,
        JSON.stringify(spread),
        moved_since_ms,
        moved_at_ms,
        period,
      ),
    /** As if payments had been written there. */
    note: (names) =>
      site.rows(
        'INSERT INTO shards (name, made_at_ms) SELECT value, 1 FROM json_each(?)',
        JSON.stringify(names),
      ),
    /** Whoever asks a shard makes its tables. */
    async open(names) {
      const { SHARDS } = await site.desk().getEnv();
      for (const name of names)
        await SHARDS.get(SHARDS.idFromName(name)).ask(JSON.stringify({ statements: [] }));
    },
    takeDown: (name) => rowsIn(name, 'CREATE TABLE IF NOT EXISTS is_down (it INTEGER)'),
    putUp: (name) => rowsIn(name, 'DROP TABLE IF EXISTS is_down'),
  };
}
