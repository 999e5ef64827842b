// A site on disk that is killed: its Workers run in one workerd, which dies with all that listens, computes or waits there. It is started by the harness
// of tests/worker, in this process: the command `wrangler dev` takes four times as much of the processor, and no deployment has anything like it.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import { send, temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { root } from '../../scripts/lib/paths.mjs';
import { migrate } from '../../scripts/lib/read-model.mjs';
import { OWNER } from '../witness/clients.mjs';
import { Disk } from '../witness/disk.mjs';
import { objectsIn, rowsIn } from '../witness/objects.mjs';
import { demoWorkers } from '../worker/support/harness.mjs';
import { elsewhere } from '../worker/support/runtime-config.mjs';
import { runtimes } from '../worker/support/runtime-log.mjs';
import { until } from '../worker/support/until.mjs';
import { LastingAddress, createTestHarness, next } from '../worker/support/wrangler.mjs';
import { openBank } from './bank.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const AS_OPERATOR = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' };
const DESK = 'paid-once-demo-desk';

export class Site {
  disk;
  /** Where the bank listens, if there is one. */
  bank;
  /** Where it listens, in each of its lives. */
  origin;
  /** Within which time it starts, mostly: twice as long as it took last. */
  startsWithinMs = 0;
  #state;
  #workers;
  #address;
  #closeBank;
  #server = null;
  #runtimes = [];
  #up = Promise.withResolvers();

  /** A site of its own, with the tables and nothing in them; and a bank, which outlives each kill. `workers` gives the demo's, with settings. */
  static async make(name, { workers = demoWorkers, hasBank = true } = {}) {
    const state = join(temporaryDirectory(name), 'site');
    await migrate({ database: 'DB', config: 'wrangler.toml', env: ['demo'], state });
    const address = new LastingAddress();
    address.open();
    const { url } = await address.ready.promise;
    const bank = hasBank ? await openBank(url) : { origin: null, close: async () => {} };
    return new Site({ state, workers, address, origin: new URL(url), bank });
  }

  constructor({ state, workers, address, origin, bank }) {
    this.#state = state;
    this.#workers = workers;
    this.#address = address;
    this.#closeBank = bank.close;
    this.origin = origin;
    this.bank = bank.origin;
    this.disk = new Disk(state);
  }

  async start(vars = {}) {
    if (this.#server) throw new Error('the site is up');
    // Who reads what a killed process has left stands in the way of the next one.
    this.disk.close();
    const since = Date.now();
    const before = new Set(runtimes);
    const texts = Object.fromEntries(Object.entries(vars).map(([name, value]) => [name, String(value)]));
    const workers = this.#workers({ vars: texts, secrets: { ADMIN_TOKEN } });
    Object.assign(next, { folder: this.#state, address: this.#address });
    if (this.bank) elsewhere.set('paid-once-simulator', this.bank.host);
    this.#server = createTestHarness({ root, workers });
    await this.#server.listen().finally(() => Object.assign(next, { folder: null, address: null }));
    this.#runtimes = [...runtimes].filter((runtime) => !before.has(runtime));
    assert.equal(this.#runtimes.length, 1, 'there is one runtime, and it is known');
    this.startsWithinMs = 2 * (Date.now() - since);
    this.#up.resolve(this.origin);
  }

  /** Resolves at once while it is up, else when it is again. */
  up() {
    return this.#up.promise;
  }

  /** kill -9. */
  async kill() {
    const server = this.#server;
    if (!server) return;
    this.#server = null;
    this.#up = Promise.withResolvers();
    // Both at once: a runtime that dies of itself miniflare starts again.
    await Promise.all([...this.#runtimes.map(killed), server.close()]);
    this.disk.close();
  }

  async close() {
    await this.kill();
    elsewhere.clear();
    await this.#address.close();
    await this.#closeBank();
  }

  /** Lets the clock strike. Resolves when all is done, and also when the site was killed. */
  async strike() {
    const server = this.#server;
    try {
      await server.getWorker(DESK).scheduled({ cron: '*/5 * * * *' });
    } catch (error) {
      if (server === this.#server) throw error;
    }
  }

  /** As the operator. */
  async ask(method, path) {
    const body = method === 'POST' ? '{}' : undefined;
    const answer = await send(this.origin, path, { method, headers: AS_OPERATOR, body });
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /** A file that the operator sends. Resolves when it is answered, and also when the site was killed. */
  async sendFile(path, text) {
    const server = this.#server;
    const headers = { ...AS_OPERATOR, 'content-type': 'text/csv' };
    try {
      const answer = await send(this.origin, path, { method: 'POST', headers, body: text });
      assert.equal(answer.status, 200, answer.text);
    } catch (error) {
      if (server === this.#server) throw error;
    }
  }

  /** A page of the desk. */
  async page(path) {
    const answer = await send(this.origin, path, { headers: AS_OPERATOR });
    assert.equal(answer.status, 200, path);
  }

  /** What an account sees. */
  async read(path) {
    const { status, text } = await send(this.origin, path, { headers: OWNER });
    return { status, body: JSON.parse(text) };
  }

  /** `GET /payments`, all pages. */
  async list() {
    const all = [];
    for (;;) {
      const after = all.length > 0 ? `&starting_after=${all.at(-1).id}` : '';
      const { status, body } = await this.read(`/payments?limit=100${after}`);
      assert.equal(status, 200, JSON.stringify(body));
      all.push(...body.data);
      if (!body.has_more) return all;
    }
  }

  /** The bank's control surface. */
  async sim(path, { method = 'GET', body } = {}) {
    const answer = await send(this.bank, `/_sim/${path}`, { method, body: body && JSON.stringify(body) });
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /** The rows of every object. */
  objects() {
    return objectsIn(this.#folderOf('paid-once-demo-KeyObject'));
  }

  /** What the objects have not heard the end of. */
  staged() {
    return this.objects().flatMap(({ jobs }) => jobs);
  }

  /** The rows that the shards have on disk. */
  shards(table, sql) {
    return this.filesOf('paid-once-demo-ReadModelShard').flatMap((file) => rowsIn(file, table, sql));
  }

  /** The databases of the objects of a class. */
  filesOf(name) {
    const folder = this.#folderOf(name);
    const isObject = (file) => file.endsWith('.sqlite') && file !== 'metadata.sqlite';
    return readdirSync(folder)
      .filter(isObject)
      .map((file) => join(folder, file));
  }

  #folderOf(name) {
    return join(this.#state, 'v3', 'do', name);
  }

  reaches(what, isThere, { everyMs = 100 } = {}) {
    return until(what, isThere, { everyMs });
  }
}

function killed(runtime) {
  if (runtime.exitCode !== null || runtime.signalCode !== null) return null;
  const exit = new Promise((resolve) => runtime.once('exit', resolve));
  runtime.kill('SIGKILL');
  return exit;
}
