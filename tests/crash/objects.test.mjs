// The witness of what is on disk (tests/witness/objects.mjs): it reads all that a killed process has committed, and disturbs no living one. And the
// command that prints an object.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';

import { temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { SELECT_ROWS } from '../../scripts/lib/object-tables.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { rowsIn } from '../witness/objects.mjs';

/** Commits a row to the database and two that stay in its log, and leaves a fourth one uncommitted. */
const WRITER = `
  import { DatabaseSync } from 'node:sqlite';
  const database = new DatabaseSync(process.argv[1]);
  database.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE lines (id INTEGER PRIMARY KEY)');
  database.exec('INSERT INTO lines VALUES (1); PRAGMA wal_checkpoint(TRUNCATE)');
  database.exec('INSERT INTO lines VALUES (2); INSERT INTO lines VALUES (3); BEGIN IMMEDIATE; INSERT INTO lines VALUES (4)');
  console.log('written');
  setInterval(() => {}, 1000);
`;
const SELECT = 'SELECT id FROM lines ORDER BY id';

const bytesIn = (directory) =>
  Object.fromEntries(
    readdirSync(directory).map((name) => [name, readFileSync(join(directory, name)).toString('hex')]),
  );

/** The file of a process that writes, and the process. */
async function writer(t) {
  const directory = temporaryDirectory('objects');
  const file = join(directory, 'object.sqlite');
  const child = spawn(process.execPath, ['--input-type=module', '--eval', WRITER, file]);
  t.after(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  const kill = () => (child.kill('SIGKILL'), once(child, 'exit'));
  return { directory, file, kill };
}

const ids = (file) => rowsIn(file, 'lines', SELECT).map(({ id }) => id);

test('all that was committed is read, while the process lives and after it was killed', async (t) => {
  const { directory, file, kill } = await writer(t);
  assert.deepEqual(ids(file), [1, 2, 3]);
  await kill();
  const left = bytesIn(directory);
  assert.deepEqual(ids(file), [1, 2, 3]);
  assert.deepEqual(bytesIn(directory), left, 'not a byte was touched');
  assert.deepEqual(rowsIn(file, 'others', SELECT), [], 'a table that is not there yet');
});

test('control: to open the file itself changes what the process has left', async (t) => {
  const { directory, file, kill } = await writer(t);
  await kill();
  const left = bytesIn(directory);
  const database = new DatabaseSync(file);
  assert.equal(database.prepare(SELECT).all().length, 3);
  database.close();
  assert.notDeepEqual(bytesIn(directory), left);
});

test('control: without its log what was committed last is missing', async (t) => {
  const { file, kill } = await writer(t);
  await kill();
  const alone = join(temporaryDirectory('alone'), 'object.sqlite');
  copyFileSync(file, alone);
  assert.deepEqual(ids(alone), [1]);
});

test('npm run object prints an object: from its file, and from its rows as JSON', () => {
  // The state of the first object of this file that has rows beside it, and before it.
  const objects = readFileSync(inRoot('tests', 'simulation', 'objects', 'state-2.sql'), 'utf8');
  const sql = objects
    .split(/^-- object .*\n-- shows .*\n/m)
    .find((part) => /^INSERT .* VALUES \(1,/m.test(part) && part.includes('"audit"'));
  const file = join(temporaryDirectory('printed'), 'object.sqlite');
  const database = new DatabaseSync(file);
  database.exec(sql);
  const rows = database.prepare(SELECT_ROWS).all();
  database.close();
  const print = (name, input) =>
    execFileSync(process.execPath, [inRoot('scripts', 'object.mjs'), name], {
      input,
      encoding: 'utf8',
      stdio: ['pipe', 'pipe', 'ignore'],
    });
  const printed = print(file);
  const written = (column) =>
    [...rows.slice(1), rows[0]].map((row) => JSON.parse(row[column] ?? 'null') ?? []);
  const lines = written('lines').flat();
  const audit = written('facts').flatMap((facts) => facts.audit ?? []);
  assert.ok(lines.length > 0 && audit.length > 0);
  const column = (name) =>
    [...printed.matchAll(new RegExp(`  ${name}=(\\S+)`, 'g'))].map(([, value]) => value);
  assert.deepEqual(
    column('event').slice(0, lines.length),
    lines.map(({ event }) => event),
  );
  assert.deepEqual(
    column('audit_id'),
    audit.map(({ audit_id: id }) => `${id}`),
  );
  for (const { key_hash: hash } of JSON.parse(rows[0].state).state.keys)
    assert.ok(printed.includes(`key_hash=${hash}`));
  assert.equal(print('-', JSON.stringify(rows)), printed);
});
