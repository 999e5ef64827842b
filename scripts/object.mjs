// `npm run object -- FILE`: prints what an object holds, as tables.
//
// FILE is the object's SQLite file (npm start keeps them below .wrangler/state), or what
// `SELECT id, state, lines, facts FROM timeline ORDER BY id` has given for it in Cloudflare's Data Studio, as JSON. `-` reads that from the standard input.
import { existsSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

import { SELECT_ROWS, tablesOf } from './lib/object-tables.mjs';
import { Stop, say, script } from './lib/say.mjs';

await script(async () => {
  const [file] = process.argv.slice(2);
  if (!file)
    throw new Stop(
      'Say of which object: npm run object -- FILE, its SQLite file or its rows as JSON; - reads these from the standard input',
    );
  if (file !== '-' && !existsSync(file)) throw new Stop(`There is no file ${file}.`);
  for (const [name, rows] of Object.entries(tablesOf(rowsOf(file)))) {
    if (rows.length === 0) continue;
    say(`\n${name}`);
    for (const row of rows) {
      const shown = Object.entries(row).filter(([, value]) => value !== null);
      say(`  ${shown.map(([column, value]) => `${column}=${text(value)}`).join('  ')}`);
    }
  }
});

function text(value) {
  return value instanceof Uint8Array ? Buffer.from(value).toString() : String(value);
}

function rowsOf(file) {
  const bytes = readFileSync(file === '-' ? 0 : file);
  if (!bytes.subarray(0, 6).equals(Buffer.from('SQLite'))) return rowsOfJson(bytes.toString());
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return database.prepare(SELECT_ROWS).all();
  } catch (error) {
    throw new Stop(`${file} is no object of Paid Once: ${error.message}`);
  } finally {
    database.close();
  }
}

function rowsOfJson(json) {
  const wrong = new Stop('What was given is neither a SQLite file nor the rows of an object as JSON.');
  let rows;
  try {
    rows = JSON.parse(json);
  } catch {
    throw wrong;
  }
  if (!Array.isArray(rows) || !rows.some(({ id, state }) => id === 0 && state)) throw wrong;
  return rows;
}
