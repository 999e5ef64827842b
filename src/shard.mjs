// A shard of the read model: the tables of D1 in an object's own SQLite. It runs the statements that it is given, all or none, and decides
// nothing; but one that is marked as at rest takes no change that leaves its mark (crates/runtime/src/rest.rs). Plain JavaScript: no trap of the WebAssembly can take it down.
import { DurableObject } from 'cloudflare:workers';

import { migrations } from '../build/migrations.mjs';
import { migrate } from './shard_migrations.mjs';

export class ReadModelShard extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    migrate(ctx.storage, migrations);
  }

  /**
   * By RPC, a text for a text: `{"statements": [[sql, [value, …]], …]}` for `{"results": [{"rows", "changes", "written"}, …], "bytes"}`,
   * where the last says how large the shard is, or for `{"at_rest": mark}`: then nothing was changed.
   */
  ask(text) {
    const { statements } = JSON.parse(text);
    const { sql } = this.ctx.storage;
    try {
      const results = this.ctx.storage.transactionSync(() => {
        const [mark, before] = [markOf(sql), changed(sql)];
        const results = statements.map(([statement, values]) => run(sql, statement, values));
        if (mark !== undefined && changed(sql) > before && markOf(sql) === mark) throw new AtRest(mark);
        return results;
      });
      return JSON.stringify({ results, bytes: sql.databaseSize });
    } catch (error) {
      if (error instanceof AtRest) return JSON.stringify({ at_rest: error.mark });
      throw error;
    }
  }
}

class AtRest extends Error {
  constructor(mark) {
    super('the shard is at rest');
    this.mark = mark;
  }
}

/** The mark of a shard at rest. */
const markOf = (sql) => sql.exec('SELECT mark FROM shard_rest').toArray()[0]?.mark;

function run(sql, statement, values) {
  const before = changed(sql);
  const cursor = sql.exec(statement, ...values);
  const rows = cursor.toArray();
  return { rows, changes: changed(sql) - before, written: cursor.rowsWritten };
}

/** How many rows were changed since the storage was opened. */
const changed = (sql) => sql.exec('SELECT total_changes() AS number').one().number;
