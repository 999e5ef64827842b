// Paid Once and its simulated bank in the tests of a shop: docs/testing.md, "Use it in your tests". It imports no package, so that it goes with the
// wrangler of whoever calls it.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { modulesFrom } from '../crates/once-testing/kill/modules.mjs';

/** The folder of Paid Once, which must be built: `npm run build`. */
export const root = fileURLToPath(new URL('..', import.meta.url));

const secrets = { SIGNING_KEY: 'at-least-32-characters-without-any-space' };
const folders = ['.', 'simulator', 'desk', 'demo'];

/** What wrangler's `createTestHarness` takes: all Workers of the demo, as their files describe them. */
export const harness = {
  root,
  workers: folders.map((folder) => ({
    configPath: join(folder, 'wrangler.toml'),
    env: 'demo',
    secrets,
  })),
};

/**
 * The payments Worker and the bank as Miniflare (by its `convertV4MiniflareOptions`) and the Vitest plugin take them; `wrangler` is the
 * imported package. The payments Worker is `paid-once-demo`, the bank `paid-once-simulator`.
 */
export function miniflareWorkers({ unstable_getMiniflareWorkerOptions: read }) {
  const worker = (name, folder) => {
    const { modulesRules: _, ...options } = read(join(root, folder, 'wrangler.toml'), 'demo').workerOptions;
    const modules = modulesFrom(root, join(folder, 'src/entry.mjs')).map((path) => ({
      type: path.endsWith('.wasm') ? 'CompiledWasm' : 'ESModule',
      path: join(root, path),
    }));
    // The lab and the desk are other Workers, which are not started.
    const { DESK, DEMO_SITE, ...serviceBindings } = options.serviceBindings;
    const bindings = { ...options.bindings, ...secrets };
    return { ...options, name, modules, modulesRoot: root, bindings, serviceBindings };
  };
  return [worker('paid-once-demo', '.'), worker('paid-once-simulator', 'simulator')];
}

/** Makes the tables of a D1 database of Miniflare's; `wrangler` is the imported package. Without them payments go on, but no list shows them. */
export async function migrate(database, { unstable_splitSqlQuery: split }) {
  const folder = join(root, 'migrations');
  for (const file of readdirSync(folder).sort())
    for (const sql of split(readFileSync(join(folder, file), 'utf8'))) await database.prepare(sql).run();
}

/** What `fetch` takes for `POST /payments`, under a new key; sent again it is the same payment. `amount` is in minor units. */
export const payment = ({ amount = 2500, currency = 'usd', ...more } = {}) => ({
  method: 'POST',
  headers: {
    authorization: 'Bearer user@example.com',
    'content-type': 'application/json',
    'idempotency-key': crypto.randomUUID(),
  },
  body: JSON.stringify({ amount, currency, ...more }),
});
