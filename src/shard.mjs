// A shard of the read model: the tables of D1 in an object's own SQLite. It runs the statements that it is given, all or none, and decides
// nothing. Plain JavaScript: no trap of the WebAssembly can take it down.
import { DurableObject } from 'cloudflare:workers';

import { migrations } from '../build/migrations.mjs';

export class ReadModelShard extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.transactionSync(() => migrate(ctx.storage.sql));
  }

  /** By RPC, a text for a text: `{"statements": [[sql, [value, …]], …]}` for `{"results": [{"rows", "changes", "written"}, …]}`. */
  ask(text) {
    const { statements } = JSON.parse(text);
    const { sql } = this.ctx.storage;
    const results = this.ctx.storage.transactionSync(() =>
      statements.map(([statement, values]) => run(sql, statement, values)),
    );
    return JSON.stringify({ results });
  }
}

function run(sql, statement, values) {
  const before = changed(sql);
  const cursor = sql.exec(statement, ...values);
  const rows = cursor.toArray();
  return { rows, changes: changed(sql) - before, written: cursor.rowsWritten };
}

/** How many rows were changed since the storage was opened. */
const changed = (sql) => sql.exec('SELECT total_changes() AS number').one().number;

/** Brings the tables up to date: the migrations of D1, each once, in their order. */
function migrate(sql) {
  sql.exec('CREATE TABLE IF NOT EXISTS shard_migrations (name TEXT PRIMARY KEY) WITHOUT ROWID');
  const done = new Set(
    sql
      .exec('SELECT name FROM shard_migrations')
      .toArray()
      .map(({ name }) => name),
  );
  for (const [name, text] of migrations) {
    if (done.has(name)) continue;
    sql.exec(text);
    sql.exec('INSERT INTO shard_migrations (name) VALUES (?)', name);
  }
}
