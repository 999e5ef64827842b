// A process of workerd, the binary of the npm package, with nothing between it and who asks: its start, its end, and what it takes.
import { spawn } from 'node:child_process';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

import { config } from './capnp.mjs';
import { cpuMs, memory } from './proc.mjs';

/** The one that wrangler has. */
const binary = createRequire(import.meta.resolve('wrangler'))('workerd').default;

const started = new Set();
process.on('exit', () => started.forEach((child) => child.kill('SIGKILL')));

const never = new Promise(() => {});
const startPatienceMs = 120_000;

/**
 * Starts what `worker` describes: `files` by their names, the `settings` of workerd.capnp, and the names of its `sockets`. Resolves
 * once all of them listen.
 */
export async function startWorkerd(dir, { files, settings }, { inspected = false } = {}) {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), content);
  }
  writeFileSync(join(dir, 'config.capnp'), config(settings));
  const log = createWriteStream(join(dir, 'workerd.log'), { flags: 'a' });
  const inspector = inspected ? ['--inspector-addr=127.0.0.1:0'] : [];
  const before = performance.now();
  const child = spawn(binary, ['serve', '--experimental', '--control-fd=3', ...inspector, 'config.capnp'], {
    cwd: dir,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  started.add(child);
  child.stderr.pipe(log);
  const ended = new Promise((resolve) => {
    child.on('exit', (code) => {
      started.delete(child);
      resolve(code);
    });
  });
  const ports = await Promise.race([
    // Where not all of them listen it has ended, or nothing comes any more.
    listening(child.stdio[3], settings.sockets.length + inspector.length).then((all) => all ?? never),
    ended.then((code) => fail(`workerd ended with ${code}`)),
    new Promise((_, reject) =>
      setTimeout(() => reject(new Error('nothing listens')), startPatienceMs).unref(),
    ),
  ]).catch((error) => fail(error.message));

  function fail(reason) {
    child.kill('SIGKILL');
    throw new Error(`${dir}: ${reason}\n${readFileSync(join(dir, 'workerd.log'), 'utf8').slice(-3000)}`);
  }
  const { pid } = child;
  return {
    pid,
    startedAt: before,
    inspector: ports.inspector,
    origin: (socket) => `http://127.0.0.1:${ports[socket]}`,
    /** A question to one of its sockets, answered in JSON. */
    ask: async (socket, path, init) => (await fetch(`http://127.0.0.1:${ports[socket]}${path}`, init)).json(),
    cpuMs: () => cpuMs([pid]),
    memory: () => memory([pid]),
    stop: () => {
      child.kill('SIGTERM');
      return ended;
    },
  };
}

/** The ports, by the names of the sockets. */
async function listening(control, sockets) {
  const ports = {};
  for await (const line of createInterface({ input: control })) {
    const { event, socket, port } = JSON.parse(line);
    if (event === 'listen') ports[socket] = port;
    if (event === 'listen-inspector') ports.inspector = port;
    if (Object.keys(ports).length === sockets) {
      control.resume();
      return ports;
    }
  }
}
