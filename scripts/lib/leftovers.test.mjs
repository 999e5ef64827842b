// What is left of a process goes once the process has ended, and not before.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';

import { ownNames, removeLeftovers } from './leftovers.mjs';
import { inRoot } from './paths.mjs';

/** A process as wrangler's: it makes its folders, tells them, and goes on. */
const MAKER = `
  import { mkdirSync } from 'node:fs';
  import fs from 'node:fs';
  import { ownFolder, temporaryInMemory } from './scripts/lib/leftovers.mjs';
  const tmp = process.cwd() + '/.wrangler/tmp/';
  mkdirSync(tmp, { recursive: true });
  const { TMPDIR } = process.env;
  const memory = temporaryInMemory().TMPDIR ?? TMPDIR;
  console.log(JSON.stringify([fs.mkdtempSync(tmp + 'dev-'), ownFolder('test'), TMPDIR, memory]));
  process.stdin.resume();
  process.stdin.on('end', () => process.exit());
`;

async function make(t) {
  const child = spawn(process.execPath, ['--require', ownNames, '--input-type=module', '--eval', MAKER], {
    cwd: inRoot(),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [line] = await once(child.stdout, 'data');
  const folders = JSON.parse(line);
  return { child, folders, there: () => folders.filter(existsSync) };
}

test('what a killed process leaves is removed, and what another one has meanwhile is not', async (t) => {
  const [killed, running] = [await make(t), await make(t)];
  killed.child.kill('SIGKILL');
  await once(killed.child, 'exit');
  assert.deepEqual(killed.there(), killed.folders);
  const removed = removeLeftovers();
  for (const folder of killed.folders) assert.ok(removed.includes(folder), folder);
  assert.deepEqual(killed.there(), []);
  assert.deepEqual(running.there(), running.folders);
  running.child.kill('SIGKILL');
  await once(running.child, 'exit');
  removeLeftovers();
  assert.deepEqual(running.there(), []);
});

test('a process that ends by itself leaves neither its own folders nor what is temporary', async (t) => {
  const { child, folders } = await make(t);
  child.stdin.end();
  await once(child, 'exit');
  const [bundle, ...others] = folders;
  assert.deepEqual(others.filter(existsSync), []);
  // wrangler removes it, where it may.
  assert.ok(removeLeftovers().includes(bundle));
});
