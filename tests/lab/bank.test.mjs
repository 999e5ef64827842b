// A lab without its bank is none: it ends, and says so.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { checkPortIsFree } from '../../scripts/lib/dev-server.mjs';
import { freePorts } from '../../scripts/lib/lab.mjs';
import { HANGS_AFTER_MS, until } from '../worker/support/until.mjs';

const ROOT = new URL('../..', import.meta.url).pathname;

const { port, bank } = await freePorts();
const state = join(ROOT, '.wrangler', `lab-${port}`);
after(() => rmSync(state, { recursive: true, force: true }));

test('when the bank dies the lab ends, and nothing stays behind', { timeout: HANGS_AFTER_MS }, async (t) => {
  const lab = spawn(process.execPath, [join(ROOT, 'scripts', 'lab.mjs')], {
    env: { ...process.env, PORT: `${port}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => lab.kill());
  let output = '';
  for (const stream of [lab.stdout, lab.stderr]) stream.on('data', (chunk) => (output += chunk));
  const isReady = () => output.includes('The lab is ready') || lab.exitCode !== null;
  await until('the lab is ready', isReady, { everyMs: 100 });
  assert.equal(lab.exitCode, null, output);

  const ended = once(lab, 'close');
  process.kill(-Number(readFileSync(join(state, 'bank.pid'), 'utf8')), 'SIGKILL');
  const [code] = await ended;
  assert.equal(code, 1);
  assert.match(output, /The bank ended by itself/);
  assert.doesNotMatch(output, /It is started again/);
  for (const one of [port, bank])
    await until(`port ${one} is free again`, () =>
      checkPortIsFree(one).then(
        () => true,
        () => false,
      ),
    );
});
