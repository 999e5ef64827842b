// An entry of the tests' own around a Worker's: it changes the runtime's classes, which workers-rs takes as they are, before the Worker is loaded.

import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';

import { ownFolder } from '../../../scripts/lib/leftovers.mjs';

/**
 * Writes it, and gives its file. `sourceOf` makes its source of the Worker's `main`, as text that can be imported. It has a folder of this process's
 * own: wrangler starts a Worker anew when its entry is written.
 */
export function ownEntry(folder, main, sourceOf, name = 'entry') {
  const dir = ownFolder(folder);
  const file = join(dir, `${name}.mjs`);
  writeFileSync(file, sourceOf(JSON.stringify(relative(dir, main))));
  return file;
}
