// wrangler's test harness, and what makes it start in half the time: a process of its own for each suite pays for it.

import '../../../scripts/lib/own-names.mjs';
import '../../../scripts/lib/message-growth.mjs';

import { readFileSync, statSync } from 'node:fs';
import { createRequire, enableCompileCache, registerHooks } from 'node:module';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

import { spare } from './runtime-config.mjs';
import * as log from './runtime-log.mjs';

// What wrangler has for people who look at a Worker: a page of everything stored, and a trace of each request, kept in a database. Both cost each
// start and each request a fifth of the runtime's time.
process.env.X_LOCAL_EXPLORER ??= 'false';
process.env.X_LOCAL_OBSERVABILITY ??= 'false';

// Compiled once, not in each process. And required, not imported: Node would first read its 15 MB for names of exports.
enableCompileCache(fileURLToPath(new URL('../../../.wrangler/compiled', import.meta.url)));
const require = createRequire(import.meta.url);

// What is left out of the configuration that the runtime is given: runtime-config.mjs. Should miniflare change, nothing is replaced.
// No pattern looks behind: with such a one Node looks at each of the six million characters.
const SERIALIZE = /(function serializeConfig\((\w+)\) \{)/;
globalThis[Symbol.for('paid-once.spare')] = spare;
// Who asks for a binding waits for a thread, which miniflare starts for each runtime: that takes a tenth of a start. Here a process has one, and
// may end while it has it. The same holds: all of it is replaced, or nothing.
const FETCHER = [
  [/(\bsync =) (new SynchronousFetcher\(\))/, "$1 (globalThis[Symbol.for('paid-once.fetcher')] ??= $2)"],
  [/\bthis\.#worker = worker;/, '$& worker.unref();'],
  [/\breturn this\.sync\.dispose\(\);/, ''],
];
// What the runtime writes is a file's, and not a pipe's: runtime-log.mjs.
const PROCESS = /(\bruntimeProcess = [\w.]+\.spawn\(command, args, \{\s+stdio: \["pipe", )"pipe"/;
const OUTPUT = /\bruntimeProcess\.stdout(?=\.pipe\()/;
globalThis[Symbol.for('paid-once.log')] = log;
// workerd closes a connection that was idle for some seconds. A process that comes late, as on a busy machine, would send a request on one that is
// closed, and nobody may send it again. So there is one for each request.
const KEPT = /\bkeepAliveTimeout: 1e3,\s+keepAliveMaxTimeout: 1e3,/;
// miniflare's rate limiter counts in the minutes of the clock, and begins anew when one turns: what a test has counted up to then would
// depend on when it began. Here the first window never ends. A test counts with an account, an address or an order of its own.
const LIMITER = /"ratelimit\/ratelimit-object\.worker\.js"\);\s+\w+ = [\w.]+\(filePath, "utf8"\)/;
const WINDOW = 'Math.floor(Date.now() / (period * 1e3))';
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith('/miniflare/dist/src/index.js')) return loaded;
    const source = String(loaded.source).replace(
      SERIALIZE,
      "$1globalThis[Symbol.for('paid-once.spare')]($2);",
    );
    const limiter = readFileSync(new URL('workers/ratelimit/ratelimit-object.worker.js', url), 'utf8');
    if (!LIMITER.test(source) || !limiter.includes(WINDOW))
      throw new Error("miniflare's rate limiter has changed: its windows would end in the middle of a test.");
    if (!PROCESS.test(source) || !OUTPUT.test(source))
      throw new Error('miniflare starts the runtime in another way: a test could wait for it for ever.');
    if (!KEPT.test(source))
      throw new Error('miniflare asks the runtime in another way: a request could be lost.');
    const hasFetcher = FETCHER.every(([found]) => found.test(source));
    return {
      ...loaded,
      source: (hasFetcher ? FETCHER : [])
        .reduce((changed, [found, instead]) => changed.replace(found, instead), source)
        .replace(LIMITER, (read) => `${read}.replace(${JSON.stringify(WINDOW)}, '0')`)
        .replace(KEPT, 'pipelining: 0,')
        .replace(PROCESS, "$1globalThis[Symbol.for('paid-once.log')].open()")
        .replace(OUTPUT, "globalThis[Symbol.for('paid-once.log')].read(runtimeProcess)"),
    };
  },
});

const wrangler = require('wrangler');

/**
 * In the place of wrangler's proxy, which is a workerd of its own before that of the Workers: an address that stays when they are replaced. It hands
 * on bytes, and knows nothing of what they say.
 */
export class Address {
  ready = Promise.withResolvers();
  #server;
  #port;
  #open = new Set();

  onConfigUpdate() {}
  onBundleStart() {}
  onReloadStart() {}

  onReloadComplete({ proxyData: { userWorkerUrl } }) {
    this.#port = Number(userWorkerUrl.port);
    this.open();
  }

  /** Listens. Until Workers are there, and while they are gone, a connection breaks. */
  open() {
    if (this.#server) return;
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#handOn(client));
    this.#server.listen(0, '127.0.0.1', () =>
      this.ready.resolve({ url: new URL(`http://127.0.0.1:${this.#server.address().port}`) }),
    );
  }

  #handOn(client) {
    if (!this.#port) return client.destroy();
    const runtime = connect({ port: this.#port, host: '127.0.0.1', allowHalfOpen: true });
    client.pipe(runtime).pipe(client);
    for (const [one, other] of [
      [client, runtime],
      [runtime, client],
    ]) {
      this.#open.add(one);
      one.setNoDelay();
      one.on('error', () => other.destroy());
      one.on('close', () => this.#open.delete(one));
    }
  }

  async teardown() {
    this.#server?.close();
    this.isGone();
  }

  /** Nobody is there any more, or for now. */
  isGone() {
    this.#port = undefined;
    for (const socket of this.#open) socket.destroy();
  }
}

/** One that stays over the lives of several harnesses. */
export class LastingAddress extends Address {
  close() {
    return super.teardown();
  }

  async teardown() {
    this.isGone();
  }
}

/**
 * For the harness that is started next, which has no settings for these: the `folder` in which it keeps what it stores (without one, nothing is
 * kept), and the `address` at which it listens.
 */
export const next = { folder: null, address: null };

const { unstable_DevEnv: DevEnv } = wrangler;
wrangler.unstable_DevEnv = class extends DevEnv {
  constructor(options) {
    super({ proxyFactory: () => next.address ?? new Address(), ...options });
    bundleOnce(this.bundler);
    if (next.folder) keepIn(next.folder, this.config);
    const [runtime] = this.runtimes;
    if (runtime.numWorkers > 1 && !Object.hasOwn(runtime, 'onBundleComplete')) startOnce(this, runtime);
  }
};

function keepIn(folder, config) {
  const set = config.set.bind(config);
  config.set = (input, ...more) => set({ ...input, dev: { ...input.dev, persist: folder } }, ...more);
}

/**
 * Several Workers are bundled beside each other, and each that is ready while others are not starts a runtime anew, which the next one ends. Here
 * it is told of all at once, as soon as all are there: then it starts one. wrangler gives the first Worker its configuration first.
 */
function startOnce({ config }, runtime) {
  const ready = new Map();
  const tell = runtime.onBundleComplete.bind(runtime);
  const set = config.set.bind(config);
  config.set = (...given) => {
    ready.clear();
    return set(...given);
  };
  runtime.onBundleComplete = (bundled) => {
    ready.set(bundled.config.name, bundled);
    if (ready.size === runtime.numWorkers) ready.forEach((each) => tell(each));
  };
}

const bundles = new Map();

/**
 * What one Worker was bundled to serves all that have the same entry: it differs by what the runtime is told beside it. wrangler bundles each Worker
 * for each start anew, which takes a tenth of it.
 */
function bundleOnce(bundler) {
  const bundle = bundler.onConfigUpdate.bind(bundler);
  const tell = bundler.emitBundleCompleteEvent.bind(bundler);
  const sourceOf = ({ entrypoint, build, compatibilityDate, compatibilityFlags }) =>
    JSON.stringify([entrypoint, statSync(entrypoint).mtimeMs, build, compatibilityDate, compatibilityFlags]);
  bundler.onConfigUpdate = ({ config, ...event }) => {
    const known = bundles.get(sourceOf(config));
    if (!known) return bundle({ config, ...event });
    bundler.emitBundleStartEvent(config);
    tell(config, known);
  };
  bundler.emitBundleCompleteEvent = (config, bundled) => {
    bundles.set(sourceOf(config), bundled);
    tell(config, bundled);
  };
}

export const { createTestHarness, unstable_readConfig: readConfig } = wrangler;
