// Fails when a crate is named in a Cargo.toml and nowhere in the code. A name found in a comment is taken for a use:
// this is a quick guard and no proof. Exceptions stand, as for cargo-machete, in
//   [package.metadata.cargo-machete]
//   ignored = ["crate-that-is-needed-for-a-feature-only"]
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { examples, libraries, workers } from '../lib/paths.mjs';

for (const { name, dir } of [...workers, ...libraries, ...examples]) {
  const manifest = readFileSync(join(dir, 'Cargo.toml'), 'utf8');
  const code = ['src', 'tests', 'examples', 'benches', 'build.rs']
    .flatMap((path) => rustFiles(join(dir, path)))
    .join('\n');
  const unused = dependencies(manifest).filter(
    (crate) => !new RegExp(`\\b${crate.replaceAll('-', '_')}\\b`).test(code),
  );
  for (const crate of unused) {
    console.log(`${name}: ${crate} is not used; remove it from ${join(dir, 'Cargo.toml')}`);
    process.exitCode = 1;
  }
}

function dependencies(manifest) {
  const ignored = manifest.match(/^ignored\s*=\s*\[([^\]]*)\]/m)?.[1] ?? '';
  const found = new Set();
  let section = '';
  for (const line of manifest.split('\n')) {
    section = line.match(/^\[+([^\]]+(?:\][^\]]+)*)\]+/)?.[1] ?? section;
    const crate = /dependencies$/.test(section) && line.match(/^([\w-]+)\s*[.=]/)?.[1];
    if (crate) found.add(crate);
    const ownSection = line.match(/^\[(?:.*\.)?(?:dev-|build-)?dependencies\.([\w-]+)\]/)?.[1];
    if (ownSection) found.add(ownSection);
  }
  return [...found].filter((crate) => !ignored.includes(`"${crate}"`));
}

function rustFiles(path) {
  if (!existsSync(path)) return [];
  if (path.endsWith('.rs')) return [readFileSync(path, 'utf8')];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() || entry.name.endsWith('.rs'))
    .flatMap((entry) => rustFiles(join(path, entry.name)));
}
