// What the objects hold on disk, read without our code. Nothing that a process has open is touched: a copy is read. An object that begins
// does not wait for a locked file, and to open one locks it, even for reading: after a kill the first who opens it recovers the log.

import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { SELECT_ROWS, tablesOf } from '../../scripts/lib/object-tables.mjs';
import { temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';

/** The rows of every object of a class that has taken a key. What a live process is writing is in them, or is not. */
export function objectsIn(directory) {
  return readdirSync(directory)
    .filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))
    .map((name) => rowsIn(join(directory, name), 'timeline', SELECT_ROWS))
    .filter((rows) => rows.length > 0)
    .map(tablesOf)
    .filter(({ idempotency_keys: keys }) => keys.length > 0)
    .map(rowsOf);
}

/** An object's rows, by what they are. */
export const rowsOf = (tables) => ({
  keys: tables.idempotency_keys,
  payments: tables.payments,
  refunds: tables.refunds,
  calls: tables.foreign_calls,
  audits: tables.audit_records,
  jobs: tables.staged_jobs,
  timeline: tables.timeline,
});

/** What a statement finds in a copy of a database and its log; nothing where the table is not there yet. */
export function rowsIn(file, table, sql) {
  const copy = copyOf(file);
  const database = new DatabaseSync(copy);
  try {
    const isThere = database.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(table);
    return isThere ? database.prepare(sql).all() : [];
  } finally {
    database.close();
  }
}

let copies;

/** Where the copy lies, until the next one. Database and log are of one moment when two readings agree. */
function copyOf(file) {
  copies ??= temporaryDirectory('witness');
  let read = bothOf(file);
  for (let again = bothOf(file); !isSame(read, again); again = bothOf(file)) read = again;
  const copy = join(copies, 'copy.sqlite');
  for (const of of ['', '-wal', '-shm']) rmSync(`${copy}${of}`, { force: true });
  writeFileSync(copy, read.database);
  if (read.log) writeFileSync(`${copy}-wal`, read.log);
  return copy;
}

function bothOf(file) {
  return { log: ifThere(`${file}-wal`), database: readFileSync(file) };
}

/** The log goes when the object leaves memory. */
function ifThere(file) {
  try {
    return readFileSync(file);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return null;
  }
}

const isSame = (one, other) =>
  one.database.equals(other.database) &&
  (one.log && other.log ? one.log.equals(other.log) : one.log === other.log);
