// Runs Workers locally under `wrangler dev`, and says when they answer.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';

import { inRoot } from './paths.mjs';
import { runStep, start } from './run.mjs';
import { Stop, say, step } from './say.mjs';

const host = '127.0.0.1';
const readyWithinMs = 90_000;

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

/** Serves until the process is ended; gives how wrangler ended when it did so by itself. */
export async function serve({ onReady, ...options }) {
  const server = await open(options);
  onReady();
  return server.ended;
}

/**
 * Resolves when the server answers: gives its `pid`, `stop()` and the promise `ended`. `database` is the D1 binding whose
 * migrations are applied first; `shows` says which lines are shown.
 */
export async function open({
  name,
  configs,
  env = [],
  vars = {},
  port,
  state,
  database,
  readyPath,
  isReady = ({ status }) => status === 200,
  shows = () => true,
}) {
  if (database) await migrate({ database, config: configs[0], env, state });
  const shown = step(`starting ${name}`);

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
      '--show-interactive-dev-session=false',
    ],
    { cwd: inRoot(), onLine: (line) => print(line) },
  );

  let gone = null;
  server.ended.then((result) => (gone = result));
  if (!(await answers(`http://${host}:${port}${readyPath}`, isReady, () => gone))) {
    server.stop();
    shown.fail();
    throw new Stop([...early.slice(-60), '', `${name} did not start.`].join('\n'));
  }
  shown.done();

  // What [env.demo] does not inherit, it shall not have.
  const isNews = (line) => /warn|error/i.test(line) && !/Processing \S+ configuration/.test(line);
  early.filter(isNews).forEach((line) => say(plain(line)));
  print = (line) => line.trim() && shows(line) && say(plain(line));
  return server;
}

/** Brings a local database up to date. */
async function migrate({ database, config, env, state }) {
  const where = ['--local', '--config', config, '--persist-to', state];
  const which = env.flatMap((environment) => ['--env', environment]);
  await runStep('the read model', 'wrangler', ['d1', 'migrations', 'apply', database, ...where, ...which], {
    cwd: inRoot(),
    timeoutMs: readyWithinMs,
  });
}

/** The demo's secrets: this machine's own, kept so that forms and logins of before a restart stay valid. Gives them. */
export function makeSecrets() {
  const file = inRoot('.dev.vars.demo');
  let text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const secret = (name) => new RegExp(`^${name}="?([^"\\n]*)"?$`, 'm').exec(text)?.[1];
  const names = ['SIGNING_KEY', 'ADMIN_TOKEN'];
  const missing = names.filter((name) => !secret(name));
  if (missing.length > 0) {
    const made = missing.map((name) => `${name}="${randomBytes(32).toString('base64')}"\n`);
    text = [text && !text.endsWith('\n') ? `${text}\n` : text, ...made].join('');
    writeFileSync(file, text, { mode: 0o600 });
    say(`  ✓ secrets of your own, in .dev.vars.demo: ${missing.join(', ')}`);
  }
  return Object.fromEntries(names.map((name) => [name, secret(name)]));
}

const plain = (line) => line.replace(/^\[wrangler:info\] /, '');

async function answers(url, isReady, isGone) {
  const deadline = Date.now() + readyWithinMs;
  while (Date.now() < deadline && !isGone()) {
    try {
      if (isReady(await fetch(url, { signal: AbortSignal.timeout(5_000) }))) return true;
    } catch {
      // not listening yet
    }
    await new Promise((next) => setTimeout(next, 100));
  }
  return false;
}
