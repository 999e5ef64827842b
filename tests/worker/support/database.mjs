// Runs a statement in the read model. From outside the runtime each step on a binding is a request of its own: as in the documentation, a
// statement would be five, and tests that wait ask often.

/** Statements that are prepared, by database: a start of the Workers makes a new one. */
const prepared = new WeakMap();

/**
 * Statements that are on their way. Miniflare lets go in the runtime what nobody holds here any more, and that may arrive before the request that names
 * it: where this process is slow, its garbage is collected while the request waits to be sent.
 */
const held = new Set();

/** What D1 gives for a statement: `results` and `meta`. `worker` is one that has the database. */
export async function query(worker, sql, ...values) {
  const { DB } = await worker.getEnv();
  if (!prepared.has(DB)) prepared.set(DB, new Map());
  const statements = prepared.get(DB);
  if (!statements.has(sql)) statements.set(sql, DB.prepare(sql));
  const statement = statements.get(sql);
  const asked = values.length > 0 ? statement.bind(...values) : statement;
  held.add(asked);
  try {
    const [found] = await DB.batch([asked]);
    return found;
  } finally {
    held.delete(asked);
  }
}
