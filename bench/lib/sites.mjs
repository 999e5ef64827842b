// What is measured, as workerd's configuration: ours as wrangler.toml has it for production, and the floor. Beside them, in a process
// of its own, stands what both only call: the provider, and the database of the read model.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { build } from 'esbuild';

import { inRoot } from '../../scripts/lib/paths.mjs';
import { embed, nothing } from './capnp.mjs';

export const TOKEN = 'the-token-of-the-account-of-the-bench';

const SECRETS = {
  SIGNING_KEY: 'the-signing-key-of-the-bench-is-long-enough',
  STRIPE_SECRET_KEY: 'sk_test_bench',
  ADMIN_TOKEN: 'the-operator-of-the-bench-has-this-secret',
  API_ACCOUNTS: JSON.stringify({
    bench: {
      token_sha256: createHash('sha256').update(TOKEN).digest('hex'),
      payment_method: 'pm_card_visa',
    },
  }),
};

const bench = (file) => readFileSync(inRoot('bench', file), 'utf8');
const disk = { name: 'disk', disk: { path: 'objects', writable: true } };
const socket = (name, service) => ({ name, address: '127.0.0.1:0', http: {}, service: service ?? name });
const external = (name, origin) => ({ name, external: { address: new URL(origin).host, http: {} } });
const text = ([name, value]) => ({ name, text: value });

/** A service of one module. */
const plain = (name, date, file, more = {}) => ({
  name,
  worker: {
    modules: [{ name: file, esModule: embed(file) }],
    compatibilityDate: date,
    compatibilityFlags: ['service_binding_extra_handlers', 'experimental'],
    ...more,
  },
});

async function wranglerConfig() {
  const { unstable_readConfig: readConfig } = await import('wrangler');
  return readConfig({ config: inRoot('wrangler.toml') }, { hideWarnings: true });
}

/** The provider and the database. */
export async function neighbours() {
  const { compatibility_date: date } = await wranglerConfig();
  return {
    files: {
      'provider.mjs': bench('workers/provider.mjs'),
      'database.mjs': bench('workers/database.mjs'),
      'objects/.keep': '',
    },
    settings: {
      services: [
        plain('provider', date, 'provider.mjs'),
        plain('database', date, 'database.mjs', {
          durableObjectNamespaces: [{ className: 'Database', uniqueKey: 'database', enableSql: true }],
          durableObjectStorage: { localDisk: 'disk' },
          bindings: [{ name: 'DATABASE', durableObjectNamespace: 'Database' }],
        }),
        disk,
      ],
      sockets: [socket('provider'), socket('database')],
    },
  };
}

export const floor = async (provider) => keyed(provider, bench('floor/worker.mjs'), []);

/** A peer on the same runtime. */
export const hono = async (provider) =>
  keyed(
    provider,
    await bundle("export * from './bench/peers/hono.mjs'; export { default } from './bench/peers/hono.mjs';"),
    ['nodejs_compat'],
  );

/** A Worker with an object a key, and nothing else. */
async function keyed(provider, module, compatibilityFlags) {
  const { compatibility_date: date } = await wranglerConfig();
  return {
    files: { 'worker.mjs': module, 'objects/.keep': '' },
    settings: {
      services: [
        plain('http', date, 'worker.mjs', {
          compatibilityFlags,
          durableObjectNamespaces: [{ className: 'Key', uniqueKey: 'keys', enableSql: true }],
          durableObjectStorage: { localDisk: 'disk' },
          bindings: [
            { name: 'KEYS', durableObjectNamespace: 'Key' },
            text(['STRIPE_SECRET_KEY', SECRETS.STRIPE_SECRET_KEY]),
          ],
          globalOutbound: 'provider',
        }),
        disk,
        external('provider', provider),
      ],
      sockets: [socket('http')],
    },
  };
}

/** Ours, as it is built and as wrangler.toml has it. `entry` may stand around src/entry.mjs; `vars` go before all settings, and the queues of the bindings in `without` are not there. */
export async function ours({
  provider,
  database,
  entry = plainEntry,
  vars = {},
  batchTimeoutS,
  preventEviction,
  without = [],
}) {
  const wrangler = await wranglerConfig();
  const date = wrangler.compatibility_date;
  const [queue] = wrangler.queues.consumers;
  const producers = wrangler.queues.producers.filter(({ binding }) => !without.includes(binding));
  const objects = wrangler.durable_objects.bindings;
  const bound = (list, make) => (list ?? []).map(make);
  return {
    files: {
      'worker.mjs': await bundle(entry(objects)),
      'index_bg.wasm': readFileSync(inRoot('build', 'index_bg.wasm')),
      'queue.mjs': bench('workers/queue.mjs'),
      'limiter.mjs': bench('workers/limiter.mjs'),
      'nothing.mjs': bench('workers/nothing.mjs'),
      'objects/.keep': '',
    },
    settings: {
      services: [
        {
          name: 'http',
          worker: {
            modules: [
              { name: 'worker.mjs', esModule: embed('worker.mjs') },
              { name: 'index_bg.wasm', wasm: embed('index_bg.wasm') },
            ],
            compatibilityDate: date,
            compatibilityFlags: wrangler.compatibility_flags ?? [],
            durableObjectNamespaces: objects.map(({ class_name: className }) => ({
              className,
              uniqueKey: className,
              enableSql: true,
              preventEviction,
            })),
            durableObjectStorage: { localDisk: 'disk' },
            bindings: [
              ...Object.entries({ ...wrangler.vars, ...SECRETS, ...vars }).map(text),
              ...objects.map(({ name, class_name: durableObjectNamespace }) => ({
                name,
                durableObjectNamespace,
              })),
              ...bound(wrangler.ratelimits, ({ name }) => wrapped(name, 'bench:limiter')),
              ...bound(producers, ({ binding }) => ({ name: binding, queue: 'queue' })),
              ...bound(wrangler.d1_databases, ({ binding }) =>
                wrapped(binding, 'cloudflare-internal:d1-api', [{ name: 'fetcher', service: 'database' }]),
              ),
              ...bound(wrangler.r2_buckets, ({ binding }) => ({ name: binding, r2Bucket: 'nothing' })),
              ...bound(wrangler.services, ({ binding }) => ({ name: binding, service: 'nothing' })),
              ...bound(wrangler.assets && [wrangler.assets], ({ binding }) => ({
                name: binding,
                service: 'nothing',
              })),
            ],
            globalOutbound: 'provider',
          },
        },
        plain('queue', date, 'queue.mjs', {
          durableObjectNamespaces: [{ className: 'Broker', uniqueKey: 'broker', preventEviction: true }],
          durableObjectStorage: { inMemory: nothing },
          bindings: [
            { name: 'BROKER', durableObjectNamespace: 'Broker' },
            { name: 'CONSUMER', service: 'http' },
            text(['QUEUE_NAME', queue.queue]),
            { name: 'BATCH_SIZE', json: JSON.stringify(queue.max_batch_size) },
            { name: 'BATCH_TIMEOUT_S', json: JSON.stringify(batchTimeoutS ?? queue.max_batch_timeout) },
          ],
        }),
        plain('nothing', date, 'nothing.mjs'),
        disk,
        external('provider', provider),
        external('database', database),
      ],
      extensions: [{ modules: [{ name: 'bench:limiter', internal: true, esModule: embed('limiter.mjs') }] }],
      sockets: [socket('http'), socket('queue')],
    },
  };
}

const wrapped = (name, moduleName, innerBindings = []) => ({ name, wrapped: { moduleName, innerBindings } });

/** One module, as wrangler would upload it; the WebAssembly stays beside it. */
async function bundle(contents) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: inRoot() },
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    external: ['./index_bg.wasm', 'cloudflare:*', 'node:*'],
    alias: { crypto: inRoot('bench', 'peers', 'crypto.mjs') },
    logLevel: 'error',
  });
  return outputFiles[0].text;
}

const plainEntry = () => `export * from './src/entry.mjs'; export { default } from './src/entry.mjs';`;

/**
 * Ours, counted: `GET /_bench/counts` gives the counts, and how many messages of the queue were received. `POST /_bench/ring?within_ms=…` rings the next alarm, `POST /_bench/pass` ends the timers that run,
 * and `POST /_bench/evict` takes the objects out of memory. Nothing else does: the runtime's own time for it is by the machine's clock. `dearer`
 * is the text of a function that makes a class of another that does more.
 */
export const counted = ({ dearer = '(Class) => Class', ...options }) =>
  ours({ ...options, entry: (objects) => countedEntry(objects, dearer), preventEviction: true });

const countedEntry = (objects, dearer) => `
  import { counted, counts, evict, pass, ring, watched } from './bench/counted/watch.mjs';
  import Site, * as entry from './src/entry.mjs';
  const BINDINGS = ${JSON.stringify(Object.fromEntries(objects.map(({ name, class_name }) => [class_name, name])))};
  let received = 0;
  const asked = {
    '/_bench/counts': () => ({ ...counts(), received }),
    '/_bench/ring': (objectOf, { searchParams }) => ring(Number(searchParams.get('within_ms')), objectOf),
    '/_bench/pass': () => pass(),
    '/_bench/evict': (objectOf) => evict(objectOf),
    '/_bench/own': (_, __, { ctx, env }) =>
      new entry.Operations(ctx, env).fetch(new Request('https://operations/counts')).then((answer) => answer.json()),
  };
  export default class extends Site {
    async fetch(request) {
      const url = new URL(request.url);
      const ask = asked[url.pathname];
      if (!ask) return watched(() => super.fetch(request));
      const objectOf = (name, id) => this.env[BINDINGS[name]].get(this.env[BINDINGS[name]].idFromString(id));
      return Response.json((await ask(objectOf, url, this)) ?? null);
    }
    queue(batch) {
      received += batch.messages.length;
      return watched(() => super.queue(batch));
    }
  }
  ${objects.map(({ class_name: name }) => `export const ${name} = counted((${dearer})(entry.${name}), '${name}');`).join('\n')}
`;

/** The tables of the read model, as `wrangler d1 migrations apply` would make them. */
export async function migrate(database) {
  const dir = inRoot('migrations');
  for (const file of readdirSync(dir).sort()) {
    const answer = await fetch(`${database}/query`, {
      method: 'POST',
      body: JSON.stringify({ sql: readFileSync(join(dir, file), 'utf8') }),
    });
    const { success, error } = [await answer.json()].flat()[0];
    if (!success) throw new Error(`${file}: ${error}`);
  }
}
