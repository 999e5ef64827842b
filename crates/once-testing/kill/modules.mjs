import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';

/** The modules that a Worker loads: its entry, a file in the folder `root`, and all that it imports by their paths. */
export function modulesFrom(root, entry) {
  const found = new Set();
  const follow = (module) => {
    if (found.has(module)) return;
    found.add(module);
    if (module.endsWith('.wasm')) return;
    for (const [, path] of readFileSync(`${root}/${module}`, 'utf8').matchAll(IMPORTED)) {
      const imported = posix.join(posix.dirname(module), path);
      // What only looks like an import, in a text, say, has no file.
      if (existsSync(`${root}/${imported}`)) follow(imported);
    }
  };
  follow(posix.normalize(entry));
  return [...found];
}

const IMPORTED = /\b(?:from|import)\s*['"](\.{1,2}\/[^'"]+)['"]/g;
