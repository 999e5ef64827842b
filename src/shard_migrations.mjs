/**
 * Brings the tables of a shard up to date: the migrations of D1, each once, in their order. Each is a transaction of its own, so that what is done stays
 * done where the next one fails, or takes longer than an invocation may: the next start goes on with it.
 */
export function migrate(storage, migrations) {
  const { sql } = storage;
  sql.exec('CREATE TABLE IF NOT EXISTS shard_migrations (name TEXT PRIMARY KEY) WITHOUT ROWID');
  const rows = sql.exec('SELECT name FROM shard_migrations').toArray();
  const done = new Set(rows.map(({ name }) => name));
  for (const [name, text] of migrations.filter(([name]) => !done.has(name))) {
    storage.transactionSync(() => {
      sql.exec(text);
      sql.exec('INSERT INTO shard_migrations (name) VALUES (?)', name);
    });
  }
}
