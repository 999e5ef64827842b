// The read model's tables in a new database. wrangler's `applyD1Migrations` asks the runtime for each statement, which takes most of the time of a
// start; and of the migrations most are changes, for each of which SQLite reads all tables again. So here they are run once, on a database of this
// process, and the runtime is told at once what has come of them. What is deployed is migrated by wrangler: `npm start`, and the crash tests, do that.

import { readFileSync, readdirSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

const folder = new URL('../../../migrations/', import.meta.url);

let made;

/** `worker` is one that has the database. */
export async function migrate(worker) {
  made ??= statements(migrated()).join('\n');
  const { DB } = await worker.getEnv();
  await DB.exec(made);
}

function migrated() {
  const database = new DatabaseSync(':memory:');
  for (const file of readdirSync(folder).sort()) database.exec(readFileSync(new URL(file, folder), 'utf8'));
  return database;
}

/** What makes such a database: its tables, their rows, and then indexes and triggers. Each statement is on one line. */
function statements(database) {
  const all = database
    .prepare(
      "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
    )
    .all();
  const tables = all.filter(({ type }) => type === 'table');
  const others = all.filter(({ type }) => type !== 'table');
  const sqlOf = ({ sql }) => `${onOneLine(sql)};`;
  return [...tables.map(sqlOf), ...tables.flatMap(({ name }) => rows(database, name)), ...others.map(sqlOf)];
}

/** None of ours has two dashes in a text: such a piece would be no SQL, and be refused. */
const onOneLine = (sql) => sql.replaceAll(/--.*$/gm, '').replaceAll(/\s+/g, ' ').trim();

function rows(database, table) {
  const columns = database.prepare('SELECT name FROM pragma_table_info(?)').all(table);
  const values = columns.map(({ name }) => `quote("${name}")`).join(` || ', ' || `);
  const inserts = database.prepare(
    `SELECT 'INSERT INTO "${table}" VALUES (' || ${values} || ');' AS sql FROM "${table}"`,
  );
  return inserts.all().map(({ sql }) => sql);
}
