// npm run object -- FILE: prints what an object holds, as tables.
//
// FILE is the object's SQLite file (npm start keeps them below .wrangler/state), or what
// `SELECT id, state, lines, facts FROM timeline ORDER BY id` has given for it in Cloudflare's Data Studio, as JSON. `-` reads that from the standard input.

import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

import { SELECT_ROWS, tablesOf } from './lib/object-tables.mjs';

const [file] = process.argv.slice(2);
if (!file) {
  console.error(
    'npm run object -- FILE: an object’s SQLite file, or its rows as JSON; - reads these from the standard input',
  );
  process.exit(2);
}

function rowsOf(file) {
  const bytes = readFileSync(file === '-' ? 0 : file);
  if (!bytes.subarray(0, 6).equals(Buffer.from('SQLite'))) return JSON.parse(bytes.toString());
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return database.prepare(SELECT_ROWS).all();
  } finally {
    database.close();
  }
}

for (const [name, rows] of Object.entries(tablesOf(rowsOf(file)))) {
  if (rows.length === 0) continue;
  console.log(`\n${name}`);
  for (const row of rows) {
    const shown = Object.entries(row).filter(([, value]) => value !== null);
    const text = (value) => (value instanceof Uint8Array ? Buffer.from(value).toString() : String(value));
    console.log(`  ${shown.map(([column, value]) => `${column}=${text(value)}`).join('  ')}`);
  }
}
