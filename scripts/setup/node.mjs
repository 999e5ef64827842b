// Node and the npm packages. The scripts begin with whatever Node the machine has; wrangler wants 22, which comes as
// an npm package, so that nobody must change their own.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

import { inRoot, inTools } from '../lib/paths.mjs';
import { ask, runStep } from '../lib/run.mjs';
import { Stop } from '../lib/say.mjs';

const oldest = 20;
const ourNode = inRoot('node_modules', '.bin', 'node');
const stamp = inTools('stamps', 'npm');

export function checkNodeVersion() {
  if (Number(process.versions.node.split('.')[0]) >= oldest) return;
  throw new Stop(
    `Node ${oldest} or newer is needed to begin; this is ${process.version}. See https://nodejs.org`,
  );
}

export async function setUpNode() {
  const wanted = createHash('sha256')
    .update(readFileSync(inRoot('package-lock.json')))
    .digest('hex');
  const installed = existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted;
  if (installed && existsSync(ourNode)) return;

  // Without our own node_modules/.bin on PATH: npm is about to delete the Node in there.
  const PATH = process.env.PATH.split(':')
    .filter((dir) => !dir.endsWith('node_modules/.bin'))
    .join(':');
  await runStep('npm packages', 'npm', ['ci', '--no-audit', '--no-fund'], {
    cwd: inRoot(),
    env: { ...process.env, PATH },
    // npm tells the reason first, then all its options.
    excerpt: (lines) => lines.filter((line) => line.startsWith('npm error')).slice(0, 20),
  });
  await makeNodeWork(PATH);

  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, wanted);
}

/** The package `node` fetches its binary in an install script, which an npm may be told not to run. */
async function makeNodeWork(PATH) {
  if (nodeWorks()) return;
  await runStep('Node 22', process.execPath, ['installArchSpecificPackage.js'], {
    cwd: inRoot('node_modules', 'node'),
    env: { ...process.env, PATH },
  });
  if (!nodeWorks()) throw new Stop(`${ourNode} does not work on this machine.`);
}

const nodeWorks = () => ask(ourNode, ['--version'])?.startsWith('v22.') ?? false;
