// Prometheus and its promtool: this machine's own, or Debian's package unpacked into .tools, so that nothing is installed and no service starts.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { inTools } from '../lib/paths.mjs';
import { ask, runStep } from '../lib/run.mjs';
import { asRoot, isRoot } from './apt.mjs';

const unpacked = inTools('prometheus');

/** Where a program is that the variable names, or the path has, or that was unpacked here; undefined if nowhere. */
function find(program) {
  const named = process.env[program.toUpperCase()];
  const inPath = process.env.PATH.split(delimiter).map((dir) => join(dir, program));
  return [named, ...inPath, join(unpacked, 'usr', 'bin', program)].filter(Boolean).find(existsSync);
}

/** `{ prometheus, promtool }`, fetched if need be; null on a machine that has neither them nor apt. */
export async function prometheus() {
  const found = () => ({ prometheus: find('prometheus'), promtool: find('promtool') });
  const isThere = ({ prometheus, promtool }) => Boolean(prometheus && promtool);
  if (isThere(found())) return found();
  if (ask('apt-get', ['--version']) === null) return null;
  mkdirSync(inTools(), { recursive: true });
  const folder = mkdtempSync(inTools('prometheus-'));
  try {
    // Old lists name packages that are gone. Who is not root goes by those that are there.
    if (isRoot()) await asRoot('apt package lists', ['apt-get', 'update']);
    await runStep('Prometheus', 'apt-get', ['download', 'prometheus'], { cwd: folder });
    const [file] = readdirSync(folder);
    await runStep('Prometheus, unpacked', 'dpkg-deb', ['-x', file, 'files'], { cwd: folder });
    rmSync(unpacked, { recursive: true, force: true });
    renameSync(join(folder, 'files'), unpacked);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return isThere(found()) ? found() : null;
}
