// What comes from PyPI: each list of packages in an environment of its own in .tools/, every version pinned.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { inTools } from '../lib/paths.mjs';
import { ask, runStep } from '../lib/run.mjs';
import { Stop } from '../lib/say.mjs';
import { asRoot } from './apt.mjs';

/** Gives the folder of the environment's programs. `requirements` is a file for pip. */
export async function setUpPython(name, requirements) {
  const home = inTools(name);
  const bin = join(home, 'bin');
  const stamp = join(home, 'installed');
  const wanted = readFileSync(requirements, 'utf8');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return bin;

  await needVenv();
  rmSync(home, { recursive: true, force: true });
  await runStep('a Python environment', 'python3', ['-m', 'venv', home]);
  const pip = ['install', '--no-input', '--disable-pip-version-check', '--requirement', requirements];
  await runStep(`Python packages for ${name}`, join(bin, 'pip'), pip, { timeoutMs: 600_000 });
  writeFileSync(stamp, wanted);
  return bin;
}

async function needVenv() {
  const isThere = () => ask('python3', ['-c', 'import ensurepip, venv']) !== null;
  if (isThere()) return;
  if (ask('apt-get', ['--version']) !== null) {
    if (ask('apt-cache', ['show', 'python3-venv']) === null)
      await asRoot('apt package lists', ['apt-get', 'update']);
    await asRoot('Python', ['apt-get', 'install', '--yes', '--no-install-recommends', 'python3-venv']);
  }
  if (!isThere()) throw new Stop('Python 3.10 or newer is needed, with its module venv.');
}
