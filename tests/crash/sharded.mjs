// The site and its desk with shards of the read model, under kill -9: `wrangler dev`, on disk. The bank is in a process of its own.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { send } from '../../crates/once-testing/kill/kill.mjs';
import { open } from '../../scripts/lib/dev-server.mjs';
import { ownFolder } from '../../scripts/lib/leftovers.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { OWNER } from '../witness/clients.mjs';
import { Disk } from '../witness/disk.mjs';
import { objectsIn, rowsIn } from '../witness/objects.mjs';
import { until } from '../worker/support/until.mjs';
import { openBank } from './bank.mjs';

/** The site and its desk with shards, its process group, and its disk. */
export class Site {
  #folder = ownFolder('crash-shards');
  #state;
  #token;
  #options;
  #deskFirst;
  #origin;
  #server = null;
  #up = Promise.withResolvers();

  /** With `deskFirst` it is the desk that answers and that the clock strikes, with its buckets. */
  static async make(name, { vars, deskFirst = false }) {
    const { port, state, secrets, shared } = await openBank(name);
    return new Site({ port, state: join(state, 'site'), shared, secrets, vars, deskFirst });
  }

  constructor({ port, state, shared, secrets, vars, deskFirst }) {
    this.#state = state;
    this.#token = secrets.ADMIN_TOKEN;
    this.#origin = new URL(`http://127.0.0.1:${port}`);
    this.disk = new Disk(state);
    const configs = ['.', 'desk'].map((name) => this.#configOf(name, secrets, deskFirst));
    this.#deskFirst = deskFirst;
    this.#options = { ...shared, name: 'Paid Once', configs, port, state, vars };
  }

  /** A configuration with shards, and without what is not here. */
  #configOf(name, secrets, buckets) {
    const folder = join(this.#folder, name === '.' ? 'site' : name);
    mkdirSync(folder, { recursive: true });
    const back = name === '.' ? '../../..' : `../../../${name}`;
    const script = name === '.' ? '' : 'script_name = "paid-once-demo"\n';
    const migration =
      name === '.' ? '\n[[env.demo.migrations]]\ntag = "v3"\nnew_sqlite_classes = ["ReadModelShard"]\n' : '';
    const text = readFileSync(inRoot(name, 'wrangler.toml'), 'utf8')
      .replace('"src/entry.mjs"', `"${back}/src/entry.mjs"`)
      .replaceAll('directory = "build/', `directory = "${back}/build/`)
      .replaceAll('migrations_dir = "', `migrations_dir = "${back}/`);
    const kept = buckets ? text : text.replace(/\[\[env\.demo\.r2_buckets\]\]\n(?:\w.*\n)+/g, '');
    const shards = `\n[[env.demo.durable_objects.bindings]]\nname = "SHARDS"\nclass_name = "ReadModelShard"\n${script}${migration}`;
    writeFileSync(join(folder, 'wrangler.toml'), kept + shards);
    const lines = ['SIGNING_KEY', 'ADMIN_TOKEN'].map((secret) => `${secret}="${secrets[secret]}"\n`);
    writeFileSync(join(folder, '.dev.vars.demo'), lines.join(''), { mode: 0o600 });
    return join(folder, 'wrangler.toml');
  }

  async start({ isNew = false } = {}) {
    const database = isNew ? 'DB' : undefined;
    // The payments Worker has the migrations.
    const [site, desk] = this.#options.configs;
    const configs = this.#deskFirst && !isNew ? [desk, site] : [site, desk];
    this.#server = await open({ ...this.#options, configs, database });
    this.#up.resolve(this.#origin);
  }

  up() {
    return this.#up.promise;
  }

  /** kill -9 of all its processes at once. */
  async kill() {
    this.#up = Promise.withResolvers();
    const server = this.#server;
    this.#server = null;
    server?.stop('SIGKILL');
    await server?.ended;
    this.disk.close();
  }

  async ask(method, path) {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    const answer = await send(this.#origin, path, {
      method,
      headers,
      body: method === 'POST' ? '{}' : undefined,
    });
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /** Lets the clock strike. */
  strike() {
    return send(this.#origin, '/cdn-cgi/handler/scheduled?cron=*/5+*+*+*+*');
  }

  /** A page of the desk. */
  async page(path) {
    const headers = { authorization: `Bearer ${this.#token}` };
    const answer = await send(this.#origin, path, { headers });
    assert.equal(answer.status, 200, path);
  }

  /** `GET /payments`, all pages. */
  async list() {
    const all = [];
    for (;;) {
      const after = all.length > 0 ? `&starting_after=${all.at(-1).id}` : '';
      const { status, text } = await send(this.#origin, `/payments?limit=100${after}`, { headers: OWNER });
      assert.equal(status, 200, text);
      const page = JSON.parse(text);
      all.push(...page.data);
      if (!page.has_more) return all;
    }
  }

  objects() {
    return objectsIn(join(this.#state, 'v3', 'do', 'paid-once-demo-KeyObject'));
  }

  /** The rows that the shards have on disk. */
  shards(table, sql) {
    return this.filesOf('paid-once-demo-ReadModelShard').flatMap((file) => rowsIn(file, table, sql));
  }

  /** The databases of the objects of a class. */
  filesOf(name) {
    const folder = join(this.#state, 'v3', 'do', name);
    const names = readdirSync(folder).filter(
      (name) => name.endsWith('.sqlite') && name !== 'metadata.sqlite',
    );
    return names.map((name) => join(folder, name));
  }

  reaches(what, isThere) {
    return until(what, isThere, { everyMs: 100 });
  }
}
