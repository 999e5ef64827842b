// An application from npm, in a folder of its own in .tools/, every version pinned by its lock file.
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { inTools } from '../lib/paths.mjs';
import { runStep } from '../lib/run.mjs';

/**
 * Gives the folder in which `source` is installed: its files, and what its package-lock.json names. Nothing of theirs is run for it.
 * `optional`: with its optional packages, such as binaries for this machine.
 */
export async function setUpNpmApp(name, source, { optional = false } = {}) {
  const home = inTools(name);
  const stamp = join(home, 'installed');
  const wanted = readFileSync(join(source, 'package-lock.json'), 'utf8');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted) {
    rmSync(home, { recursive: true, force: true });
    mkdirSync(home, { recursive: true });
    cpSync(source, home, { recursive: true });
    const args = [
      'ci',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      ...(optional ? [] : ['--omit=optional']),
    ];
    await runStep(`npm packages for ${name}`, 'npm', args, { cwd: home, timeoutMs: 600_000 });
    writeFileSync(stamp, wanted);
  }
  cpSync(source, home, { recursive: true });
  return home;
}
