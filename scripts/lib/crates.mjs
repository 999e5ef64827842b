// The crates that a Worker is made of, as its Cargo.lock has them.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { wasmTarget } from './paths.mjs';
import { Stop } from './say.mjs';

const known = new Map();

/** The packages that cargo resolves for a crate: `target` alone, or for every platform, tests included. It is asked once. */
export function resolved(dir, { target } = {}) {
  const name = `${dir} ${target}`;
  if (!known.has(name)) known.set(name, metadata(dir, target));
  return known.get(name);
}

function metadata(dir, target) {
  const args = ['metadata', '--format-version', '1', '--locked'];
  if (target) args.push('--filter-platform', target);
  const asked = spawnSync('cargo', args, { cwd: dir, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (asked.status !== 0) throw new Stop(`cargo metadata failed in ${dir}:\n${asked.stderr}`);
  return JSON.parse(asked.stdout);
}

/** The crates of others that end up in the Worker's WebAssembly: normal dependencies of the target, without macros and what only builds or tests. */
export function shipped(dir) {
  const { packages, resolve } = resolved(dir, { target: wasmTarget });
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const macros = new Set(
    packages
      .filter(({ targets }) => targets.some(({ kind }) => kind.includes('proc-macro')))
      .map(({ id }) => id),
  );
  const found = new Set();
  const visit = (id) => {
    if (found.has(id) || macros.has(id)) return;
    found.add(id);
    for (const { pkg, dep_kinds: kinds } of nodes.get(id).deps)
      if (kinds.some(({ kind }) => kind === null)) visit(pkg);
  };
  visit(resolve.root);
  return packages.filter(({ id, source }) => found.has(id) && source !== null);
}

/** `name version` → SHA-256 of the crate's archive. */
export function checksums(dir) {
  const lock = readFileSync(join(dir, 'Cargo.lock'), 'utf8');
  const entry = /^name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"/gm;
  return new Map([...lock.matchAll(entry)].map(([, name, version, sum]) => [`${name} ${version}`, sum]));
}
