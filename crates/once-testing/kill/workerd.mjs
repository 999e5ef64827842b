// One Worker in one workerd process of its own, with its objects on disk. There is no development server in between: what is killed is the
// process that serves, nothing starts it again in secret, and nothing repeats a request on the way.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';

import { modulesFrom } from './modules.mjs';

const STARTS_WITHIN_MS = 120_000;
const LINES_KEPT = 40;

// Whatever happens to the test, no process and no directory stays behind.
const reaper = spawn(process.execPath, [new URL('reaper.mjs', import.meta.url).pathname], {
  stdio: ['pipe', 'ignore', 'inherit'],
  detached: true,
});
reaper.unref();
reaper.stdin.unref();
const tellReaper = (line) => reaper.stdin.write(`${line}\n`);

/** A new directory, removed when the test is over, however it ends. */
export function temporaryDirectory(name) {
  const directory = mkdtempSync(join(tmpdir(), `once-${name}-`));
  tellReaper(`d ${directory}`);
  return directory;
}

/**
 * A Worker that is not started yet.
 *
 * `config` is its wrangler.toml in the folder `root`, which has the packages workerd and wrangler, `env` the environment in it, and `entry` the
 * module there that is its entry; all that it loads is copied, so that a build meanwhile changes nothing. `vars` replace those of the environment. Service bindings are left out: calls go over the network.
 * Without a `port` it takes a free one, another one at each start.
 */
export class Runtime {
  /** Called with each line that the Worker logs, parsed where it is JSON. */
  onLog = () => {};
  origin = null;
  /** The directory of a class's objects. */
  objectsOf;
  #config;
  #configure;
  #child = null;
  #closed = false;
  #workerd;
  #lines = [];
  #up = Promise.withResolvers();

  constructor({ root, directory, config, env, entry, vars = {}, port = 0 }) {
    const require = createRequire(join(resolve(root), 'package.json'));
    this.#workerd = require('workerd').default;
    // Loaded here: whoever only sends requests needs none of its 15 MB.
    const { unstable_readConfig: readConfig } = require('wrangler');
    const settings = readConfig({ config: join(root, config), env }, { hideWarnings: true });
    const objects = settings.durable_objects.bindings;
    const modules = modulesFrom(resolve(root), entry);
    for (const module of modules) {
      mkdirSync(dirname(join(directory, module)), { recursive: true });
      copyFileSync(join(root, module), join(directory, module));
    }
    mkdirSync(join(directory, 'objects'));
    // One namespace a class: the runtime delivers alarms by it.
    const uniqueKey = (className) => `${settings.name}-${className}`;
    this.objectsOf = (className) => join(directory, 'objects', uniqueKey(className));
    this.#config = join(directory, 'workerd.capnp');
    this.#configure = (vars) => writeFileSync(this.#config, configOf({ ...settings.vars, ...vars }));
    const configOf = (bindings) => `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "worker", worker = .worker),
    (name = "internet", network = (allow = ["public", "private"])),
    (name = "objects", disk = (path = ${text(join(directory, 'objects'))}, writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "worker")],
);
const worker :Workerd.Worker = (
  modules = [${modules.map((name) => `(name = ${text(name)}, ${kind(name)} = embed ${text(relative(directory, join(directory, name)))})`)}],
  compatibilityDate = ${text(settings.compatibility_date)},
  compatibilityFlags = [${settings.compatibility_flags.map(text)}],
  bindings = [${[
    ...Object.entries(bindings).map(([name, value]) => `(name = ${text(name)}, text = ${text(value)})`),
    ...objects.map(
      (object) => `(name = ${text(object.name)}, durableObjectNamespace = ${text(object.class_name)})`,
    ),
  ]}],
  durableObjectNamespaces = [${objects.map(
    (object) =>
      `(className = ${text(object.class_name)}, uniqueKey = ${text(uniqueKey(object.class_name))}, enableSql = true)`,
  )}],
  durableObjectStorage = (localDisk = "objects"),
);
`;
    this.#configure(vars);
  }

  /** The number of the process, while there is one. */
  get pid() {
    return this.#child?.pid;
  }

  /** Starts the process; resolves as soon as it listens. Its port is another one each time. With `vars` it has these from now on: as if it was deployed. */
  async start(vars) {
    if (this.#closed) throw new Error('the test is over');
    if (vars) this.#configure(vars);
    const child = spawn(this.#workerd, ['serve', this.#config, '--control-fd=3'], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    });
    tellReaper(`+ ${child.pid}`);
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => this.#line(line));

    const listening = new Promise((resolve) => {
      createInterface({ input: child.stdio[3] }).on('line', (line) => {
        const event = JSON.parse(line);
        if (event.event === 'listen') resolve(event.port);
      });
    });
    const gone = once(child, 'exit').then(() => 'gone');
    gone.then(() => tellReaper(`- ${child.pid}`));
    const late = AbortSignal.timeout(STARTS_WITHIN_MS);
    const port = await Promise.race([listening, gone, once(late, 'abort')]);
    if (typeof port !== 'number') throw new Error(['workerd did not start', ...this.#lines].join('\n'));
    this.origin = new URL(`http://127.0.0.1:${port}`);
    this.#up.resolve();
  }

  /** Resolves at once while the process listens, else when it does again. */
  up() {
    return this.#up.promise;
  }

  /** kill -9, and nothing else: whatever was under way is gone. Resolves when the process is. */
  async kill() {
    const child = this.#child;
    if (!child) return;
    this.#child = null;
    this.origin = null;
    this.#up = Promise.withResolvers();
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(['workerd ended by itself', ...this.#lines].join('\n'));
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  /** Kills it for good. */
  async close() {
    this.#closed = true;
    await this.kill();
  }

  #line(line) {
    this.#lines.push(line);
    if (this.#lines.length > LINES_KEPT) this.#lines.shift();
    let entry = line;
    try {
      entry = JSON.parse(line);
    } catch {
      // not one of ours
    }
    this.onLog(entry);
  }
}

const kind = (name) => (name.endsWith('.wasm') ? 'wasm' : 'esModule');
// What Cap'n Proto and JSON call a string is the same.
const text = (value) => JSON.stringify(String(value));
