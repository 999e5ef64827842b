// The demo with a D1 that can be made to answer nothing at all: who reads the tables named waits for ever.

import { join } from 'node:path';

import { demoWorkers, root, startSite } from './harness.mjs';
import { ownEntry } from './own-entry.mjs';
import { readConfig } from './wrangler.mjs';

const SILENT = 'test-silent-tables';

/** `silence` takes the names of tables; those that were silent before answer again. */
export async function startWithSilentDatabase({ vars, secrets } = {}) {
  const config = readConfig({ config: join(root, 'wrangler.toml'), env: 'demo' }, { hideWarnings: true });
  const [{ configPath: _path, env: _env, ...first }, ...others] = demoWorkers({ vars, secrets });
  const own = { ...config, build: {}, triggers: { crons: [] }, main: entry() };
  const site = await startSite({ workers: [{ ...first, config: own }, ...others] });
  return {
    ...site,
    silence: (...tables) => site.fetch('/', { headers: { [SILENT]: tables.join(' ') } }),
  };
}

const entry = () =>
  ownEntry(
    'silent-database',
    join(root, 'src', 'entry.mjs'),
    (path) => `import { env } from 'cloudflare:workers';
import Site from ${path};
export * from ${path};
let silent = [];
const database = Object.getPrototypeOf(env.DB);
const statement = Object.getPrototypeOf(env.DB.prepare('SELECT 1'));
const texts = new WeakMap();
const { prepare } = database;
const { bind, all } = statement;
database.prepare = function (sql) {
  const made = prepare.call(this, sql);
  texts.set(made, sql);
  return made;
};
statement.bind = function (...values) {
  const made = bind.apply(this, values);
  texts.set(made, texts.get(this));
  return made;
};
statement.all = function (...options) {
  const isSilent = silent.some((table) => texts.get(this).includes(table));
  return isSilent ? new Promise(() => {}) : all.apply(this, options);
};
export default class extends Site {
  fetch(request) {
    const tables = request.headers.get('${SILENT}');
    if (tables === null) return super.fetch(request);
    silent = tables.split(' ').filter(Boolean);
    return new Response(null, { status: 204 });
  }
}
`,
  );
