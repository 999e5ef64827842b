// The read model's tables in a new database. wrangler's `applyD1Migrations` asks the runtime for each statement, which takes most of the time
// of a start; here all go at once. What is deployed is migrated by wrangler: `npm start`, and the crash tests, do that.

import { readFileSync, readdirSync } from 'node:fs';

const folder = new URL('../../../migrations/', import.meta.url);

/** `worker` is one that has the database. */
export async function migrate(worker) {
  const files = readdirSync(folder).sort();
  const statements = files.flatMap((file) => statementsOf(readFileSync(new URL(file, folder), 'utf8')));
  const { DB } = await worker.getEnv();
  await DB.exec(statements.join('\n'));
}

/**
 * Each on one line. None of ours has a semicolon or two dashes in a text: such a piece would be no SQL, and be refused. A trigger has one
 * inside, and ends with END.
 */
function statementsOf(sql) {
  const bare = sql.replaceAll(/--.*$/gm, '').replaceAll(/\s+/g, ' ');
  const statements = bare.match(/\s*CREATE TRIGGER .*? END(?=;)|[^;]+/g) ?? [];
  return statements.map((statement) => statement.trim()).filter(Boolean);
}
