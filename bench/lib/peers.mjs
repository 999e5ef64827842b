// The peers that are no Workers: a process of Node, and Redis or Postgres of Debian beside it, each on a folder of its own and reached
// from this machine alone. What they take is the sum of their processes.
import { execFileSync, fork, spawn } from 'node:child_process';
import {
  chownSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { inRoot } from '../../scripts/lib/paths.mjs';
import { bytesIn, cpuMs, memory, offspring, settled } from './proc.mjs';

const PATIENCE_MS = 20_000;
const started = new Set();
process.on('exit', () => started.forEach((child) => child.kill('SIGKILL')));

/** `provider` is its address. */
export const peers = (provider) => [
  peer('fastify, Redis', 'fastify-redis.mjs', provider, {
    startStore: startRedis,
    bytesOf: bytesIn,
    promises: 'one box; synced once a second; a crash leaves the key locked for a day, nobody comes back',
  }),
  peer('fastify, Postgres', 'postgres.mjs', provider, {
    startStore: startPostgres,
    bytesOf: (data) => bytesIn(join(data, 'base')) - Number(readFileSync(join(data, EMPTY), 'utf8')),
    promises: 'one box; each phase is synced; resumed from its recovery point when the client asks again',
  }),
];

/** What a new cluster's tables take, in a file of its folder. */
const EMPTY = 'bytes-when-empty';

const peer = (name, script, provider, { startStore, bytesOf, promises }) => ({
  name,
  isPeer: true,
  promises,
  bytesOfKeys: (dir) => bytesOf(join(dir, 'data')),
  start: async (dir) => {
    const startedAt = performance.now();
    const data = join(dir, 'data');
    mkdirSync(data, { recursive: true });
    const log = join(dir, 'log');
    const store = await startStore(data, log);
    const child = fork(inRoot('bench', 'peers', script), {
      env: { ...process.env, ...store.env, PROVIDER: provider, STRIPE_SECRET_KEY: 'sk_test_bench' },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    const node = watch(child, log);
    const port = await Promise.race([
      new Promise((resolve) => child.once('message', (message) => resolve(message.port))),
      node.ended.then(() =>
        Promise.reject(new Error(`${name} ended:\n${readFileSync(log, 'utf8').slice(-2000)}`)),
      ),
    ]);
    const pids = () => [child.pid, store.pid, ...offspring(store.pid)];
    const site = {
      startedAt,
      url: `http://127.0.0.1:${port}`,
      cpuMs: () => cpuMs(pids()),
      memory: () => memory(pids()),
    };
    const stop = async () => {
      child.kill('SIGTERM');
      await node.ended;
      await store.stop();
    };
    return { ...site, settled: () => settled(site), stop };
  },
});

function watch(child, log) {
  started.add(child);
  child.stderr.pipe(createWriteStream(log, { flags: 'a' }));
  const ended = new Promise((resolve) => child.once('exit', resolve)).finally(() => started.delete(child));
  return { ended };
}

async function startRedis(data, log) {
  const port = await freePort();
  const args = [
    '--port',
    port,
    '--bind',
    '127.0.0.1',
    '--dir',
    data,
    '--appendonly',
    'yes',
    '--appendfsync',
    'everysec',
  ];
  const child = spawn('redis-server', [...args, '--save', '', '--daemonize', 'no'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const { ended } = watch(child, log);
  const isReady = () =>
    execFileSync('redis-cli', ['-p', port, 'ping'], { stdio: ['ignore', 'pipe', 'ignore'] });
  await until(() => `${isReady()}`.includes('PONG'), log);
  return {
    pid: child.pid,
    env: { REDIS: `redis://127.0.0.1:${port}` },
    stop: () => stopped(child, 'SIGTERM', ended),
  };
}

/** The newest of Debian's, as its own user where we are root: it does not run as root. It listens on a socket in its folder only. */
async function startPostgres(data, log) {
  const bin = postgresBin();
  const [command, ...prefix] =
    process.getuid() === 0 ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups', '--'] : [];
  const as = (program, args) =>
    command ? [command, [...prefix, join(bin, program), ...args]] : [join(bin, program), args];
  if (!existsSync(join(data, 'PG_VERSION'))) {
    if (command) chownSync(data, userId('postgres'), -1);
    execFileSync(
      ...as('initdb', ['--pgdata', data, '--username=postgres', '--auth=trust', '--encoding=UTF8']),
      { stdio: 'ignore' },
    );
    writeFileSync(join(data, EMPTY), `${bytesIn(join(data, 'base'))}`);
    writeFileSync(join(data, 'postgresql.auto.conf'), "listen_addresses = ''\nmax_connections = 64\n");
  }
  // The path of a socket has to be short.
  const sockets = mkdtempSync(join(tmpdir(), 'paid-once-'));
  if (command) chownSync(sockets, userId('postgres'), -1);
  const child = spawn(...as('postgres', ['-D', data, '-k', sockets]), {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const { ended } = watch(child, log);
  const isReady = () =>
    execFileSync(join(bin, 'pg_isready'), ['-h', sockets], { stdio: ['ignore', 'pipe', 'ignore'] });
  await until(() => `${isReady()}`.includes('accepting'), log);
  const stop = async () => {
    // A fast shutdown: who is connected is sent away.
    await stopped(child, 'SIGINT', ended);
    rmSync(sockets, { recursive: true, force: true });
  };
  return { pid: child.pid, env: { POSTGRES_SOCKET: sockets }, stop };
}

export function postgresBin() {
  const dir = '/usr/lib/postgresql';
  const versions = existsSync(dir)
    ? readdirSync(dir).filter((one) => existsSync(join(dir, one, 'bin', 'initdb')))
    : [];
  const newest = versions.sort((a, b) => b - a)[0];
  return newest && join(dir, newest, 'bin');
}

const userId = (name) => Number(execFileSync('id', ['-u', name]));

async function stopped(child, signal, ended) {
  child.kill(signal);
  await ended;
}

async function until(isReady, log) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      if (isReady()) return;
    } catch {
      // It does not answer yet.
    }
    if (Date.now() > end) throw new Error(`nothing answers:\n${readFileSync(log, 'utf8').slice(-2000)}`);
    await sleep(10);
  }
}

/** One that the system has given and that is free again. */
const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(`${port}`));
    });
  });
