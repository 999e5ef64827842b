// What the site keeps under its state folder beside the objects: the read model (D1) and the bucket (R2), read without our code.

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const READ = { readOnly: true, timeout: 5_000 };

/** What the site keeps under `state`: D1 and the bucket. It can be read while the site runs, and written to while it does not. */
export class Disk {
  #state;
  #open = new Map();

  constructor(state) {
    this.#state = join(state, 'v3');
  }

  /** Rows of the read model. */
  rows(sql, ...values) {
    return this.#read('d1/miniflare-D1DatabaseObject', 'runs', sql, values);
  }

  /** The bucket's objects, without their bytes. */
  objects(prefix) {
    const sql = 'SELECT key, blob_id, etag FROM _mf_objects WHERE key >= ? AND key < ? ORDER BY key';
    return this.#read('r2/miniflare-R2BucketObject', '_mf_objects', sql, [prefix, `${prefix}~`]);
  }

  bytes({ blob_id }) {
    const bucket = readdirSync(join(this.#state, 'r2')).find((name) => name.endsWith('-settlement'));
    return readFileSync(join(this.#state, 'r2', bucket, 'blobs', blob_id));
  }

  /** Past the Worker; only while nothing runs. */
  write(work) {
    this.#change('d1/miniflare-D1DatabaseObject', 'runs', work);
  }

  /** Takes an object away; only while nothing runs. */
  drop(key) {
    this.#change('r2/miniflare-R2BucketObject', '_mf_objects', (database) =>
      database.prepare('DELETE FROM _mf_objects WHERE key = ?').run(key),
    );
  }

  /** Before the files are copied or changed from elsewhere. */
  close() {
    for (const database of this.#open.values()) database.close();
    this.#open.clear();
  }

  /** A bucket that nobody has used has no file yet. */
  #read(folder, table, sql, values) {
    const file = this.#file(folder, table);
    if (!file) return [];
    if (!this.#open.has(file)) this.#open.set(file, new DatabaseSync(file, READ));
    const rows = this.#open.get(file).prepare(sql);
    return rows.all(...values).map((row) => ({ ...row }));
  }

  #change(folder, table, work) {
    this.close();
    const database = new DatabaseSync(this.#file(folder, table));
    database.exec('BEGIN');
    work(database);
    database.exec('COMMIT');
    database.close();
  }

  #files = new Map();
  #file(folder, table) {
    if (this.#files.has(folder)) return this.#files.get(folder);
    const directory = join(this.#state, folder);
    const names = existsSync(directory) ? readdirSync(directory) : [];
    for (const name of names.filter((name) => name.endsWith('.sqlite') && name !== 'metadata.sqlite')) {
      const database = new DatabaseSync(join(directory, name), READ);
      const isIt = database.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(table);
      database.close();
      if (!isIt) continue;
      this.#files.set(folder, join(directory, name));
      return this.#files.get(folder);
    }
  }
}
