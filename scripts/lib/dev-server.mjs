// Runs Workers locally under `wrangler dev`, and says when they answer.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';

import { isAlive, ownNames, removeLeftovers } from './leftovers.mjs';
import { inRoot } from './paths.mjs';
import { migrate } from './read-model.mjs';
import { ask, start } from './run.mjs';
import { Stop, say, step } from './say.mjs';

const host = '127.0.0.1';
/** What hangs is ended. A slow or busy machine takes minutes, and says meanwhile what it does. */
const readyWithinMs = 600_000;
const lookEveryMs = 1_000;
/** How long wrangler has to start a runtime that died; where a start takes long, twice as long as that. */
const backWithinMs = 6_000;
/** What dies more often will not be mended by starting it again. */
const startsInAMinute = 5;
/** How often it is tried to start where a port was taken by somebody else meanwhile. */
const launchesAtMost = 3;

/** What is loaded before wrangler. */
const before = [ownNames, inRoot('scripts', 'lib', 'message-growth.mjs')];
/** As NODE_OPTIONS has it, whatever the path is. */
const required = (file) => `--require=${JSON.stringify(file)}`;

export function portFrom(value, standard) {
  const port = Number(value ?? standard);
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw new Stop(`PORT must be a number from 1 to 65535, not "${value}".`);
}

/** Asked before the long work, so that nobody waits for a build and then cannot start. */
export async function checkPortIsFree(port) {
  await new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', (error) => {
      const reason =
        error.code === 'EADDRINUSE' ? 'is in use by another program' : `cannot be opened (${error.code})`;
      reject(
        new Stop(
          `Port ${port} ${reason}. Stop that program, or choose another port, such as PORT=${port + 10}.`,
        ),
      );
    });
    probe.listen(port, host, () => probe.close(resolve));
  });
}

/**
 * Serves until the process is ended. Of a workerd that is gone the person is told. wrangler starts it again; where the site
 * does not answer after that, or wrangler is gone as well, all is started again, on the same data.
 */
export async function serve({ onReady, ...options }) {
  let server = await open(options);
  // Looked for before anybody is told: whoever kills one at once is noticed.
  let known = runtimes(server);
  onReady();
  const starts = [];
  for (;;) {
    say(`\n${await death(server, known, options)} Starting ${options.name} again.`);
    starts.push(Date.now());
    if (starts.filter((at) => Date.now() - at < 60_000).length > startsInAMinute)
      throw new Stop(`${options.name} does not stay up: see what is printed above.`);
    await end(server);
    server = await open({ ...options, database: undefined });
    known = runtimes(server);
    say(`${options.name} is ready again: http://localhost:${options.port}\n`);
  }
}

/** Resolves when a server, whose processes of workerd were `known`, has to be started again: says why. */
async function death(server, known, { port, readyPath, isReady }) {
  let gone = null;
  server.ended.then((result) => (gone = result));
  const withinMs = Math.min(Math.max(backWithinMs, 2 * server.startedInMs), readyWithinMs);
  for (;;) {
    await new Promise((next) => setTimeout(next, lookEveryMs));
    if (gone) return `wrangler ended by itself (code ${gone.code ?? gone.signal}).`;
    // By one look: what died between a look at those that were known and one for those that are new would be neither.
    const running = runtimes(server).filter(isAlive);
    const dead = known.filter((pid) => !running.includes(pid));
    // wrangler goes on replacing them for a moment after it answers again.
    known = running;
    if (dead.length === 0) continue;
    say(`\nworkerd is gone (process ${dead.join(', ')}): killed, crashed, or replaced by wrangler.`);
    const url = `http://${host}:${port}${readyPath}`;
    if (!(await answers(url, { isReady, isGone: () => gone, withinMs }))) {
      if (gone) continue;
      return 'It does not answer any more.';
    }
    known = runtimes(server);
    say('wrangler has started it again: it answers.\n');
  }
}

/** The processes of workerd in the group of a server. */
function runtimes({ pid: group }) {
  const processes = (ask('ps', ['-A', '-o', 'pid=,pgid=,comm=']) ?? '').split('\n');
  return processes
    .map((line) => line.trim().split(/\s+/))
    .filter(([, pgid, command]) => Number(pgid) === group && command?.endsWith('workerd'))
    .map(([pid]) => Number(pid));
}

async function end(server) {
  server.stop();
  const patience = setTimeout(() => server.stop('SIGKILL'), 3_000);
  await server.ended;
  clearTimeout(patience);
}

/**
 * Resolves when the server answers: gives its `pid`, `stop()` and the promise `ended`. `database` is the D1 binding whose
 * migrations are applied first; `shows` says which lines are shown.
 */
export async function open({ database, ...options }) {
  const { name, configs, env = [], state } = options;
  if (database) await migrate({ database, config: configs[0], env, state });
  for (let tries = 1; ; tries++) {
    const { server, output } = await launch({ ...options, inspectorPort: tries > 1 ? 0 : undefined });
    if (server) return server;
    // Beside `port` wrangler opens one for debuggers, 9229 or the next that is free, and another program may be faster.
    const isRace = output.some((line) => /Address already in use \(socket "direct:/.test(line));
    if (!isRace || tries === launchesAtMost)
      throw new Stop([...output.slice(-60), '', `${name} did not start.`].join('\n'));
    say('A port that wrangler had found free was taken meanwhile: once more.');
  }
}

/** Gives the `server` when it answers; if it never does, what it printed. */
async function launch({
  name,
  configs,
  env = [],
  vars = {},
  port,
  state,
  readyPath,
  isReady,
  shows = () => true,
  inspectorPort,
}) {
  const shown = step(`starting ${name}`);
  const beganAtMs = Date.now();

  const early = []; // wrangler's banners: worth reading only if something is wrong
  let print = (line) => early.push(line);
  const server = start(
    'wrangler',
    [
      'dev',
      ...configs.flatMap((config) => ['--config', config]),
      ...env.flatMap((environment) => ['--env', environment]),
      ...Object.entries(vars).flatMap(([variable, value]) => ['--var', `${variable}:${value}`]),
      ...['--ip', host, '--port', String(port), '--persist-to', state],
      // 0 is one that the system finds free as it is opened: so nobody else takes it.
      ...(inspectorPort === undefined ? [] : ['--inspector-port', String(inspectorPort)]),
      '--show-interactive-dev-session=false',
    ],
    {
      cwd: inRoot(),
      env: { ...process.env, NODE_OPTIONS: [process.env.NODE_OPTIONS, ...before.map(required)].join(' ') },
      onLine: (line) => print(line),
    },
  );

  let gone = null;
  server.ended.then((result) => {
    gone = result;
    removeLeftovers();
  });
  const url = `http://${host}:${port}${readyPath}`;
  if (!(await answers(url, { isReady, isGone: () => gone, withinMs: readyWithinMs }))) {
    await end(server);
    shown.fail();
    return { output: early };
  }
  shown.done();

  // What [env.demo] does not inherit, it shall not have.
  const isNews = (line) => /warn|error/i.test(line) && !/Processing \S+ configuration/.test(line);
  early.filter(isNews).forEach((line) => say(plain(line)));
  print = (line) => line.trim() && shows(line) && say(plain(line));
  return { server: Object.assign(server, { startedInMs: Date.now() - beganAtMs }) };
}

/** The demo's secrets: this machine's own, kept so that forms and logins of before a restart stay valid. Gives them. */
export function makeSecrets() {
  return {
    ...secretsIn('.dev.vars.demo', ['SIGNING_KEY']),
    ...secretsIn(join('demo', '.dev.vars.demo'), ['SIGNING_KEY']),
    ...secretsIn(join('desk', '.dev.vars.demo'), ['SIGNING_KEY', 'ADMIN_TOKEN']),
  };
}

/** The secrets of a Worker, from its file; what is missing is made. */
function secretsIn(name, names) {
  const file = inRoot(name);
  let text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const secret = (name) => new RegExp(`^${name}="?([^"\\n]*)"?$`, 'm').exec(text)?.[1];
  const missing = names.filter((name) => !secret(name));
  if (missing.length > 0) {
    const made = missing.map((name) => `${name}="${randomBytes(32).toString('base64')}"\n`);
    text = [text && !text.endsWith('\n') ? `${text}\n` : text, ...made].join('');
    writeFileSync(file, text, { mode: 0o600 });
    say(`  ✓ secrets of your own, in ${name}: ${missing.join(', ')}`);
  }
  return Object.fromEntries(names.map((name) => [name, secret(name)]));
}

const plain = (line) => line.replace(/^\[wrangler:info\] /, '');

async function answers(url, { isReady = ({ status }) => status === 200, isGone, withinMs }) {
  const deadline = Date.now() + withinMs;
  while (Date.now() < deadline && !isGone()) {
    try {
      const signal = AbortSignal.timeout(Math.min(5_000, deadline - Date.now()));
      if (isReady(await fetch(url, { signal }))) return true;
    } catch {
      // not listening yet
    }
    await new Promise((next) => setTimeout(next, 100));
  }
  return false;
}
