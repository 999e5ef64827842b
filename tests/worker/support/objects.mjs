// What lies in the Durable Objects' tables: to look at, and to make a past that took too long to wait for.

import assert from 'node:assert/strict';

/** The hexadecimal id of the object that the id of a ride or a payment, or its address, stands for. */
export function objectId(ride) {
  const [, encoded] = /(?:ride|pay)_([\w-]{43})/.exec(ride) ?? assert.fail(`not a ride or payment: ${ride}`);
  return Buffer.from(encoded, 'base64url').toString('hex');
}

/** A ride's id from the id of its object. */
export const rideOf = (hexId) => `ride_${Buffer.from(hexId, 'hex').toString('base64url')}`;

export function objects(worker) {
  async function sql(ride, statement, ...bindings) {
    const storage = await worker.getDurableObjectStorage('KEYS', { id: objectId(ride) });
    return storage.exec(statement, ...bindings);
  }
  const all = (ride, table) => sql(ride, `SELECT * FROM ${table} ORDER BY 1`);

  return {
    sql,
    /** The row of a ride's first key. */
    key: async (ride) => (await all(ride, 'idempotency_keys'))[0],
    ride: async (ride) => (await all(ride, 'rides'))[0],
    /** All keys of an object, oldest first. */
    keys: (ride) => all(ride, 'idempotency_keys'),
    /** All foreign calls, oldest first. */
    calls: (ride) => all(ride, 'foreign_calls'),
    call: async (ride) => (await all(ride, 'foreign_calls'))[0],
    audit: (ride) => all(ride, 'audit_records'),
    jobs: (ride) => all(ride, 'staged_jobs'),
    timeline: (ride) => all(ride, 'timeline'),
    /** Every row of every table of ours, by table. */
    async dump(ride) {
      const tables = await sql(
        ride,
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_*' AND name NOT GLOB 'sqlite_*'",
      );
      const rows = tables.map(async ({ name }) => [name, await all(ride, name)]);
      return Object.fromEntries(await Promise.all(rows));
    },
    /** Throws the object out of memory, as a deploy or a crash does. Its rows and its alarm stay. */
    evict: (ride) => worker.evictDurableObject('KEYS', { id: objectId(ride) }),
    /** The ids of all objects that have rows. */
    ids: () => worker.listDurableObjectIds('KEYS'),
  };
}
