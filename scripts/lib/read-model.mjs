// A local read model that is up to date. For each migration wrangler starts a runtime: a new database is made in one go instead, once, in
// .wrangler/, and others begin with a copy of that.
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

import { inRoot } from './paths.mjs';
import { runStep } from './run.mjs';

/** A slow or busy machine takes minutes, and says meanwhile what it does. */
const withinMs = 600_000;

/** Brings the D1 database of a binding up to date, in the folder `state` of a site that does not run. */
export async function migrate({ database, config, env = [], state }) {
  const wanted = digest(config, env);
  const [tables, stamp] = [tablesIn(state), join(state, 'read-model')];
  if (existsSync(tables)) {
    if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
    await apply({ database, config, env, state });
  } else {
    const made = inRoot('.wrangler', 'read-models', wanted);
    if (!existsSync(made)) await make({ database, config, env }, made);
    put(tablesIn(made), tables);
  }
  writeFileSync(stamp, wanted);
}

const tablesIn = (state) => join(state, 'v3', 'd1');

/** What the files of a database follow from. */
function digest(config, env) {
  const hash = createHash('sha256').update(createRequire(import.meta.url)('wrangler/package.json').version);
  const names = readFileSync(resolve(inRoot(), config), 'utf8').match(/^database_\w+ = .*$/gm);
  hash.update(JSON.stringify([names, env]));
  for (const file of readdirSync(inRoot('migrations')).sort())
    hash.update(`\0${file}\0`).update(readFileSync(inRoot('migrations', file)));
  return hash.digest('hex');
}

/** Two may make it at once: the first one's is kept. */
async function make(what, made) {
  const own = `${made}.${process.pid}`;
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own, { recursive: true });
  const file = join(own, 'migrations.sql');
  writeFileSync(file, all());
  await wrangler({ ...what, state: own }, ['execute'], ['--file', file]);
  rmSync(file);
  try {
    renameSync(own, made);
  } catch (error) {
    if (!existsSync(made)) throw error;
    rmSync(own, { recursive: true });
  }
}

/** All of it, or nothing where this process ends in between. */
function put(from, to) {
  const half = `${to}.${process.pid}`;
  rmSync(half, { recursive: true, force: true });
  cpSync(from, half, { recursive: true });
  renameSync(half, to);
}

/** All migrations, and what wrangler keeps of those that it has applied: it goes on from there. */
function all() {
  const migrations = readdirSync(inRoot('migrations')).sort();
  const applied = migrations.map((name) => `('${name}')`).join(', ');
  return [
    ...migrations.map((name) => readFileSync(inRoot('migrations', name), 'utf8')),
    `CREATE TABLE d1_migrations (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      name TEXT UNIQUE,
      applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
    );`,
    `INSERT INTO d1_migrations (name) VALUES ${applied};`,
  ].join('\n');
}

const apply = (what) => wrangler(what, ['migrations', 'apply']);

async function wrangler({ database, config, env, state }, command, more = []) {
  const where = ['--local', '--config', config, '--persist-to', state, ...more];
  const which = env.flatMap((environment) => ['--env', environment]);
  await runStep('the read model', 'wrangler', ['d1', ...command, database, ...where, ...which], {
    cwd: inRoot(),
    timeoutMs: withinMs,
  });
}
