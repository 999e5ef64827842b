// The demo with a payments Worker that differs from the one in wrangler.toml.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { ownFolder } from '../../../scripts/lib/leftovers.mjs';
import { demoWorkers, root, startSite } from './harness.mjs';

let started = 0;

/** Starts it with the text of wrangler.toml as `change` gives it. `files` lie beside it, by their names: two folders below the root. */
export async function startChanged(change, { files = {}, ...options } = {}) {
  const dir = ownFolder(`changed-${++started}`);
  const settings = readFileSync(join(root, 'wrangler.toml'), 'utf8')
    .replace('"src/entry.mjs"', '"../../src/entry.mjs"')
    .replaceAll('directory = "build/', 'directory = "../../build/')
    .replaceAll('migrations_dir = "', 'migrations_dir = "../../');
  const all = { 'wrangler.toml': change(settings), ...files };
  for (const [name, text] of Object.entries(all)) writeFileSync(join(dir, name), text);
  const [worker, ...others] = demoWorkers(options);
  const changed = { ...worker, configPath: join(dir, 'wrangler.toml') };
  return startSite({ workers: [changed, ...others] });
}

/** Starts it with objects as a release before had them: `method` is what they are asked by, and they have no other. */
export function startWithObjectsOfBefore(method, options) {
  const change = (settings) => settings.replace('"../../src/entry.mjs"', '"before.mjs"');
  return startChanged(change, { ...options, files: { 'before.mjs': objectsOfBefore(method) } });
}

const objectsOfBefore = (method) => `
import { DurableObject } from 'cloudflare:workers';
import { KeyObject as Newest } from '../../src/entry.mjs';

export * from '../../src/entry.mjs';
export { default } from '../../src/entry.mjs';

export class KeyObject extends DurableObject {
  #newest;

  constructor(ctx, env) {
    super(ctx, env);
    this.#newest = new Newest(ctx, env);
  }
${method}
  alarm() {
    return this.#newest.alarm();
  }
}
`;
