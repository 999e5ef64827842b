// The Workers on real workerd, in one process: the site, its desk, the demo and the simulator beside it. One harness a file; every test
// makes its own keys, so that tests do not see each other.
//
//     const site = await startSite({ vars: { RETENTION_MS: '200' } });
//     const answer = await site.fetch('/rides', { method: 'POST', … });
//     await site.simulator.fault('response_lost');
//     await site.close();

import { join, resolve } from 'node:path';

import { query } from './database.mjs';
import { migrate } from './migrations.mjs';
import { readAll } from './runtime-log.mjs';
import { sharing } from './shared.mjs';
import * as statements from './statements.mjs';
import { createTestHarness, readConfig } from './wrangler.mjs';

import { simulator } from './simulator.mjs';
import { objects } from './objects.mjs';

// No test needs the network: this keeps the runtime from asking where on Earth it runs.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = 'false';

export const root = new URL('../../..', import.meta.url).pathname;

export const SIGNING_KEY = 'a signing key for the tests, long enough'.replaceAll(' ', '-');

/** The Workers of the demo, without what `npm start` has put into .dev.vars.demo. Times and other settings are overridden by `vars`, as strings. */
export function demoWorkers({ vars = {}, secrets = {} } = {}) {
  return [
    { configPath: 'wrangler.toml', env: 'demo', vars, secrets: { SIGNING_KEY, ...secrets } },
    {
      configPath: 'desk/wrangler.toml',
      env: 'demo',
      vars,
      secrets: { SIGNING_KEY, ADMIN_TOKEN: '', ...secrets },
    },
    { configPath: 'demo/wrangler.toml', env: 'demo', vars, secrets: { SIGNING_KEY, ...secrets } },
    // Who wants webhooks turns them on: POST /_sim/webhooks. To all others they would only be noise.
    { configPath: 'simulator/wrangler.toml', env: 'demo', vars: { WEBHOOKS: 'off' } },
  ];
}

/**
 * The Workers as they are deployed, with the simulator in reach: nothing may go there. Here the desk is at the same address.
 */
export function productionWorkers({ vars = {}, secrets = {} } = {}) {
  const config = productionConfig([{ binding: 'DESK', service: 'paid-once-desk' }]);
  return [
    // As in the demo: objects are looked at, and changed behind their backs, so replays must ask them.
    { config, vars: { REPLAY_CACHE_MS: '0', ...vars }, secrets },
    { config: deployed('desk'), vars, secrets },
    { configPath: 'simulator/wrangler.toml' },
  ];
}

/** The payments Worker's configuration in production, with these service bindings. */
export const productionConfig = (services) => ({ ...deployed('.'), services });

/** A Worker's configuration in production. All are built before the tests: to ask at each start takes as long as the start itself. */
export const deployed = (folder) => configured({ configPath: join(folder, 'wrangler.toml') });

/** Where the file names no trigger the reader gives what the harness refuses. */
const withoutTriggers = (config) => ({
  ...config,
  build: {},
  triggers: { crons: config.triggers?.crons ?? [] },
});

/** The sites that are not closed yet. */
export const open = new Set();

/** Starts the demo, or any other list of Workers whose first one is the site. */
export async function startSite({ workers, looksAtStatements, ...options } = {}) {
  const looks = looksAtStatements ?? Boolean(statements.folder);
  const toStart = (workers) =>
    workers.map((worker) => (looks ? lookedAt(worker, Boolean(looksAtStatements)) : withConfig(worker)));
  const first = toStart(workers ?? demoWorkers(options));
  const server = createTestHarness({ root, workers: first });
  let running = JSON.stringify(first);
  const { url } = await server.listen();
  const worker = server.getWorker();
  const logs = () => {
    readAll();
    return server.getLogs();
  };
  await migrate(worker);
  process.once('exit', (failed) => failed && tellTroubles(server));
  const site = {
    server,
    worker,
    /** Where it listens: for browsers and other clients of the network. */
    url,
    /** A request whose redirects are not followed. An absolute address chooses host and scheme. */
    fetch: (path, init) => worker.fetch(new URL(path, url), { redirect: 'manual', ...init }),
    simulator: simulator(server),
    /** The read model: rows of a query. */
    rows: async (sql, ...values) => (await query(worker, sql, ...values)).results,
    objects: objects(worker),
    /** The demo's desk, which runs the scheduled tasks. */
    desk: () => server.getWorker('paid-once-demo-desk'),
    /** Runs other Workers from now on, as if they were deployed. What runs already is left alone: each time takes seconds. */
    deploy: async (workers) => {
      const next = toStart(workers);
      const wanted = JSON.stringify(next);
      if (wanted === running) return;
      running = '';
      await server.update({ root, workers: next });
      running = wanted;
    },
    /** All that its Workers have written until now. */
    logs,
    close: () => {
      open.delete(site);
      if (statements.folder) statements.keep(logs());
      return server.close();
    },
  };
  open.add(site);
  return site;
}

/** A Worker whose statements are looked at: each time, or once each. */
const lookedAt = (worker, tellsEach) => statements.seen(worker, root, configured, tellsEach);

/** A Worker with the configuration that its file has; one of a test's own stays as it is. */
function withConfig({ configPath, env, ...settings }) {
  if (!configPath || configPath.startsWith('/')) return { configPath, env, ...settings };
  return { ...settings, config: configured({ configPath, env }) };
}

const read = new Map();

/**
 * What a file says for an environment, read once. Nothing is said of what an environment has not, which in a demo is meant: to format that
 * takes wrangler a process of its own.
 */
function configured({ configPath, env }) {
  const name = `${configPath} ${env}`;
  if (!read.has(name))
    read.set(
      name,
      withoutTriggers(readConfig({ config: resolve(root, configPath), env }, { hideWarnings: true })),
    );
  return structuredClone(read.get(name));
}

/**
 * The same, for a file that others may see the site of: those with equal settings that run in one process have it together. Such a file
 * counts what its own keys and ids have done, and leaves no fault armed.
 */
export const shareSite = sharing(startSite);

/** What the Workers of a suite that has failed complained of last. */
function tellTroubles(server) {
  const troubles = server.getLogs().filter(({ message }) => /"level":"(warn|error)"/.test(message));
  for (const { message } of troubles.slice(-30)) console.log(message.trim().slice(0, 500));
}
