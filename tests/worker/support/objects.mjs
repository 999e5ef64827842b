// What is kept in the Durable Objects: to look at, and to make a past that took too long to wait for.

import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

import { COLUMNS, SELECT_ROWS, query, tablesOf } from '../../../scripts/lib/object-tables.mjs';
import { until } from './until.mjs';

/** The hexadecimal id of the object that the id of a ride, a payment or a customer (ours), or its address, stands for. */
export function objectId(id) {
  const [, encoded] = /(?:ride|pay|cust)_([\w-]{43})/.exec(id) ?? assert.fail(`not an id of ours: ${id}`);
  return Buffer.from(encoded, 'base64url').toString('hex');
}

/** A payment's id from the id of its object. */
export const paymentOf = (hexId) => `pay_${Buffer.from(hexId, 'hex').toString('base64url')}`;

/** A ride's id from the id of its object. */
export const rideOf = (hexId) => `ride_${Buffer.from(hexId, 'hex').toString('base64url')}`;

/**
 * Waits until nobody works on what is open in an object, and nobody will for so many ms. A run that is under way still writes when it wants to
 * go on: then it is told again. `sql` runs statements on the object's tables. Gives the time to which all is put off.
 */
export async function putOff(sql, id, forMs = 3_600_000) {
  let later;
  await until('nobody works on it, and nobody will', async () => {
    later = Date.now() + forMs;
    await sql(id, "UPDATE foreign_calls SET next_try_at_ms = ? WHERE status <> 'settled'", later);
    await sql(id, "UPDATE idempotency_keys SET resume_at_ms = ? WHERE status = 'open'", later);
    const [{ others }] = await sql(
      id,
      `SELECT (SELECT count(*) FROM foreign_calls WHERE status <> 'settled' AND next_try_at_ms <> ?1)
         + (SELECT count(*) FROM idempotency_keys
            WHERE status = 'open' AND (lease_holder IS NOT NULL OR resume_at_ms <> ?1)) AS others`,
      later,
    );
    return others === 0;
  });
  return later;
}

export function objects(worker) {
  /** A statement on what is stored as it is. */
  async function stored(id, statement, ...bindings) {
    const storage = await worker.getDurableObjectStorage('KEYS', { id: objectId(id) });
    return storage.exec(statement, ...bindings);
  }

  /** The rows as they are stored; none where nothing was ever written. */
  const rowsOf = (id) =>
    stored(id, SELECT_ROWS).catch((error) =>
      /no such table/.test(error.message) ? [] : Promise.reject(error),
    );

  /** A statement on the tables that stand for them. What it changes is stored, unless the object has changed meanwhile: then it runs again. */
  async function sql(id, statement, ...bindings) {
    for (;;) {
      const rows = await rowsOf(id);
      assert.ok(rows.length > 0, `${id} has no rows`);
      const { found, instead } = query(rows, statement, ...bindings);
      if (!instead || (await put(id, rows, instead))) return found;
    }
  }

  /** Stores these rows instead, if the state is still that one. */
  async function put(id, [was, ...others], [now, ...rows]) {
    const swap = 'UPDATE timeline SET state = ? WHERE id = 0 AND state = ? RETURNING id';
    if ((await stored(id, swap, now.state, was.state)).length === 0) return false;
    if (isDeepStrictEqual(tablesOf([{ ...was, state: now.state }, ...others]), tablesOf([now, ...rows])))
      return true;
    await stored(id, 'UPDATE timeline SET lines = NULL, facts = NULL WHERE id = 0');
    for (const row of rows)
      await stored(
        id,
        'INSERT OR REPLACE INTO timeline (id, lines, facts) VALUES (?, ?, ?)',
        row.id,
        row.lines,
        row.facts,
      );
    await stored(id, 'DELETE FROM timeline WHERE id > ?', rows.length);
    return true;
  }

  const tables = async (id) => {
    const rows = await rowsOf(id);
    return rows.length > 0 ? tablesOf(rows) : {};
  };
  const all = async (id, table) => (await tables(id))[table];
  const dump = async (id) => {
    const rows = await rowsOf(id);
    if (rows.length === 0) return {};
    const stored = rows.map(({ state, lines, facts }) =>
      [state, lines, facts].map((text) => JSON.parse(text)),
    );
    return { ...tablesOf(rows), stored };
  };

  return {
    sql,
    stored,
    putOff: (id, forMs) => putOff(sql, id, forMs),
    /** The row of the first key. */
    key: async (id) => (await all(id, 'idempotency_keys'))[0],
    payment: async (id) => (await all(id, 'payments'))[0],
    /** All keys of an object, oldest first. */
    keys: (id) => all(id, 'idempotency_keys'),
    /** All foreign calls, oldest first. */
    calls: (id) => all(id, 'foreign_calls'),
    call: async (id) => (await all(id, 'foreign_calls'))[0],
    audit: (id) => all(id, 'audit_records'),
    jobs: (id) => all(id, 'staged_jobs'),
    timeline: (id) => all(id, 'timeline'),
    /**
     * Every row of every table, by table, and as `stored` all that is there, also what no table has: a body as the text that it is. Without any where
     * nothing was ever written.
     */
    dump,
    /** The same without what is `stored`. */
    tables,
    /** Puts what is there into tables as a release of before had them, which did not count replays nor keep tries and order links. */
    async asBefore(id) {
      const rows = await tables(id);
      await stored(id, 'DROP TABLE timeline');
      const unknown = ['replays', 'evidence', 'audit_newest'];
      for (const [name, all] of Object.entries(rows).filter(
        ([name]) => !['tries', 'order_links'].includes(name),
      )) {
        const columns = COLUMNS[name].split(/\s+/).filter((column) => !unknown.includes(column));
        const entry = name === 'timeline' ? 'entry_id INTEGER PRIMARY KEY, ' : '';
        await stored(id, `CREATE TABLE ${name} (${entry}${columns.join(', ')})`);
        const insert = `INSERT INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`;
        for (const row of all) await stored(id, insert, ...columns.map((column) => row[column]));
      }
      await stored(id, 'CREATE TABLE schema_version (id INTEGER PRIMARY KEY, version INTEGER NOT NULL)');
      await stored(id, 'INSERT INTO schema_version VALUES (1, 4)');
    },
    /** Throws the object out of memory, as a deploy or a crash does. Its rows and its alarm stay. */
    evict: (id) => worker.evictDurableObject('KEYS', { id: objectId(id) }),
    /** The ids of all objects that have rows. */
    ids: () => worker.listDurableObjectIds('KEYS'),
  };
}
