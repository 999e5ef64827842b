// `npm start` while its runtime is killed under it: the address answers again by itself, with what was stored, and the terminal
// says so. wrangler runs two workerds, one before the other; it starts either again, and the one in front then stays silent.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { freePorts } from '../../scripts/lib/lab.mjs';
import { HANGS_AFTER_MS, until } from '../worker/support/until.mjs';

const ROOT = new URL('../..', import.meta.url).pathname;

const { port } = await freePorts();
const log = [];
const printed = () => log.join('');
let start;

before(
  async () => {
    start = spawn(process.execPath, [join(ROOT, 'scripts', 'start.mjs')], {
      env: { ...process.env, PORT: `${port}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // Should this process be killed, the pipe breaks, and the server is ended as by Ctrl-C.
    const guard = spawn('sh', ['-c', `cat > /dev/null; kill -INT ${start.pid}`], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
    guard.unref();
    guard.stdin.unref();
    for (const stream of [start.stdout, start.stderr]) stream.on('data', (chunk) => log.push(`${chunk}`));
    const isReady = () => printed().includes('Paid Once is ready') || start.exitCode !== null;
    await until('the demo is ready', isReady, { everyMs: 100 });
    assert.equal(start.exitCode, null, printed());
  },
  { timeout: HANGS_AFTER_MS },
);

after(async () => {
  start.kill('SIGINT');
  if (start.exitCode === null) await once(start, 'exit');
  assert.equal(start.exitCode, 0, printed());
  rmSync(join(ROOT, '.wrangler', `state-${port}`), { recursive: true, force: true });
});

/** The processes below `npm start`, those that were started first in front. */
function below(command) {
  const processes = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,comm='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .map(([pid, parent, name]) => ({ pid: Number(pid), parent: Number(parent), name }));
  const children = (of) =>
    processes.filter(({ parent }) => parent === of).flatMap((child) => [child, ...children(child.pid)]);
  return children(start.pid)
    .filter(({ name }) => name?.endsWith(command))
    .map(({ pid }) => pid)
    .sort((a, b) => a - b);
}

const pay = (key) =>
  fetch(`http://127.0.0.1:${port}/payments`, {
    method: 'POST',
    headers: {
      authorization: 'Bearer user@example.com',
      'idempotency-key': key,
      'content-type': 'application/json',
    },
    body: '{"amount":2500,"currency":"usd"}',
    signal: AbortSignal.timeout(30_000),
  });

const victims = {
  'the first workerd': () => below('workerd').slice(0, 1),
  'the second workerd': () => below('workerd').slice(1, 2),
  'both of them': () => below('workerd'),
};
for (const [name, choose] of Object.entries(victims))
  test(`kill -9 of ${name}: it answers again, and replays what was paid before`, async () => {
    const key = randomUUID();
    const first = await pay(key);
    assert.equal(first.status, 201);
    const body = await first.text();

    const [before, killed] = [printed().length, choose()];
    assert.ok(killed.length > 0, 'a workerd runs');
    for (const pid of killed) process.kill(pid, 'SIGKILL');

    let again;
    const answers = async () => {
      again = await pay(key).catch(() => undefined);
      return again?.status === 201;
    };
    await until('it answers again', answers, { everyMs: 200 });
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(await again.text(), body);

    const said = () => printed().slice(before);
    const isTold = () => /it answers|is ready again/.test(said());
    await until('the terminal says that it is back', isTold, { everyMs: 100 });
    // Of two it may not have seen the one that has just been started.
    const gone = `workerd is gone \\(process .*(${killed.join('|')})`;
    assert.match(said(), new RegExp(`${gone}|wrangler ended by itself`));
  });
