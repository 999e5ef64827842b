// The demo with objects that read the registry of accounts for all isolates, and with more payments Workers, each in isolates of its own, before the
// same objects and the same D1. The objects are down as long as D1 has a table that says so.

import { join } from 'node:path';

import { SIGNING_KEY, demoWorkers, root, startSite } from './harness.mjs';
import { ownEntry } from './own-entry.mjs';
import { readConfig } from './wrangler.mjs';

const CACHE = { name: 'ACCOUNTS_CACHE', class_name: 'AccountsCacheObject' };
const FRONTS = 2;
const MARK = 'prepared: ';

export async function startWithAccountsCache(vars) {
  const config = readConfig({ config: join(root, 'wrangler.toml'), env: 'demo' }, { hideWarnings: true });
  const [, ...others] = demoWorkers({ vars });
  const { bindings } = config.durable_objects;
  const all = { vars, secrets: { SIGNING_KEY } };
  const own = { ...config, build: {}, triggers: { crons: [] }, main: entry() };
  const first = {
    ...own,
    durable_objects: { bindings: [...bindings, CACHE] },
    migrations: [...config.migrations, { tag: 'v3', new_sqlite_classes: [CACHE.class_name] }],
  };
  const fronts = Array.from({ length: FRONTS }, (_, number) => ({
    ...own,
    name: `front-${number}`,
    queues: { ...config.queues, consumers: [] },
    durable_objects: {
      bindings: [...bindings, CACHE].map((binding) => ({ ...binding, script_name: config.name })),
    },
    migrations: [],
  }));
  const workers = [{ config: first, ...all }, ...others, ...fronts.map((config) => ({ config, ...all }))];
  const site = await startSite({ workers });
  const each = [site.worker, ...fronts.map(({ name }) => site.server.getWorker(name))];
  return {
    ...site,
    /** Asks each of the Workers at once. */
    askAll: (path, init) => Promise.all(each.map((worker) => worker.fetch(new URL(path, site.url), init))),
    isolates: each.length,
    /** How often D1 was asked by a statement that begins so. */
    reads: (sql) => site.logs().filter(({ message }) => message.startsWith(MARK + sql)).length,
    takeDown: () => site.rows('CREATE TABLE accounts_cache_is_down (it INTEGER)'),
  };
}

/** The payments Worker, which tells what it asks D1, and whose objects can be taken down. */
const entry = () =>
  ownEntry(
    'accounts-cache',
    join(root, 'src', 'entry.mjs'),
    (path) => `import { env } from 'cloudflare:workers';
import { AccountsCacheObject as Newest } from ${path};
export * from ${path};
export { default } from ${path};
const database = Object.getPrototypeOf(env.DB);
const { prepare } = database;
database.prepare = function (sql) {
  console.log(${JSON.stringify(MARK)} + sql);
  return prepare.call(this, sql);
};
export class AccountsCacheObject extends Newest {
  async ask(text) {
    const sql = "SELECT 1 FROM sqlite_master WHERE name = 'accounts_cache_is_down'";
    if ((await this.env.DB.prepare(sql).all()).results.length > 0) throw new Error('it is down, for a test');
    return super.ask(text);
  }
}
`,
  );
