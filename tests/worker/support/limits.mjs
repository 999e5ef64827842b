// The demo with rate limiting bindings of other sizes than its own.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { demoWorkers, root, startSite } from './harness.mjs';

let started = 0;

/**
 * Starts the demo with these bindings only, by their names: how many a minute each allows. What is left out holds nobody up.
 */
export async function startLimited(limits, options = {}) {
  const dir = join(root, '.wrangler', `limited-${process.pid}-${++started}`);
  mkdirSync(dir, { recursive: true });
  const bindings = Object.entries(limits).map(
    ([name, limit], i) => `
[[env.demo.ratelimits]]
name = "${name}"
namespace_id = "${started}${i}"
simple = { limit = ${limit}, period = 60 }
`,
  );
  const settings = readFileSync(join(root, 'wrangler.toml'), 'utf8')
    .replaceAll(/\[\[env\.demo\.ratelimits\]\]\n(?:\w.*\n)+/g, '')
    .replace('"src/entry.mjs"', '"../../src/entry.mjs"')
    .replaceAll('directory = "build/', 'directory = "../../build/')
    .replaceAll('migrations_dir = "', 'migrations_dir = "../../');
  writeFileSync(join(dir, 'wrangler.toml'), settings + bindings.join(''));
  const [worker, ...others] = demoWorkers(options);
  const limited = { ...worker, configPath: join(dir, 'wrangler.toml') };
  const site = await startSite({ workers: [limited, ...others] });
  const close = async () => {
    await site.close();
    rmSync(dir, { recursive: true, force: true });
  };
  return { ...site, close };
}
