// How a shard comes to its tables, in SQLite as the runtime has it.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';

import { migrate } from './shard_migrations.mjs';

/** The storage of an object. */
function storage() {
  const database = new DatabaseSync(':memory:');
  const names = () => database.prepare('SELECT name FROM shard_migrations ORDER BY name').all();
  return {
    sql: {
      exec(text, ...values) {
        if (values.length === 0 && !text.startsWith('SELECT')) return database.exec(text);
        const rows = database.prepare(text).all(...values);
        return { toArray: () => rows };
      },
    },
    transactionSync(work) {
      database.exec('BEGIN');
      try {
        work();
      } catch (error) {
        database.exec('ROLLBACK');
        throw error;
      }
      database.exec('COMMIT');
    },
    applied: () => names().map(({ name }) => name),
    count: (table) => database.prepare(`SELECT count(*) AS number FROM ${table}`).get().number,
  };
}

const FIRST = ['0001_a.sql', 'CREATE TABLE a (id INTEGER); INSERT INTO a VALUES (1);'];
const BROKEN = ['0002_b.sql', 'CREATE TABLE b (id INTEGER); INSERT INTO nothing VALUES (1);'];
const MENDED = ['0002_b.sql', 'CREATE TABLE b (id INTEGER); INSERT INTO b VALUES (1);'];
const LAST = ['0003_c.sql', 'CREATE TABLE c (id INTEGER);'];

test('what is done stays done where the next one fails, and that one leaves nothing', () => {
  const shard = storage();
  assert.throws(() => migrate(shard, [FIRST, BROKEN, LAST]), /nothing/);
  assert.deepEqual(shard.applied(), ['0001_a.sql']);
  assert.throws(() => shard.count('b'), /no such table/);

  migrate(shard, [FIRST, MENDED, LAST]);
  assert.deepEqual(shard.applied(), ['0001_a.sql', '0002_b.sql', '0003_c.sql']);
  assert.deepEqual([shard.count('a'), shard.count('b')], [1, 1], 'each once');
});

test('a shard that is up to date changes nothing', () => {
  const shard = storage();
  migrate(shard, [FIRST]);
  shard.transactionSync = () => assert.fail('it begins a transaction');
  migrate(shard, [FIRST]);
});
