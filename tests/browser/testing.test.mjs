// docs/testing.md, "Use it in your tests": each file is run as it stands there, by `node --test`, from a folder that is not this one.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { inRoot, root } from '../../scripts/lib/paths.mjs';
import { start } from '../../scripts/lib/run.mjs';
import { setUpNpmApp } from '../../scripts/setup/npm-app.mjs';
import { HANGS_AFTER_MS } from '../worker/support/until.mjs';

const [, chapter] = readFileSync(inRoot('docs', 'testing.md'), 'utf8').split('## Use it in your tests');
const all = [...chapter.matchAll(/^```js\n\/\/ (\S+)\n([^]*?)^```$/gm)];
const files = all.filter(([, name]) => name.endsWith('.test.mjs'));
const ofVitest = all.filter((file) => !files.includes(file));

const folder = mkdtempSync(join(tmpdir(), 'a-shop-'));
after(() => rmSync(folder, { recursive: true, force: true }));
// What `npm install` would put there.
symlinkSync(inRoot('node_modules'), join(folder, 'node_modules'));

/** Runs a file of the shop's. */
async function run(name, source) {
  writeFileSync(join(folder, name), source);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  if (env.CHROMIUM_HEADLESS_SHELL) env.CHROMIUM = env.CHROMIUM_HEADLESS_SHELL;
  const args = ['--test', '--test-reporter=tap', name];
  const options = { cwd: folder, env: { ...env, PAID_ONCE: root, CLOUDFLARE_CF_FETCH_ENABLED: 'false' } };
  return new Promise((resolve) =>
    execFile(process.execPath, args, { ...options, timeout: HANGS_AFTER_MS }, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, output: stdout + stderr }),
    ),
  );
}

test('there are four ways', () =>
  assert.deepEqual(
    all.map(([, name]) => name),
    ['harness.test.mjs', 'miniflare.test.mjs', 'vitest.config.mjs', 'shop.spec.mjs', 'browser.test.mjs'],
  ));

for (const [, name, source] of files)
  test(`${name} passes in a project of somebody else's`, async () => {
    const { code, output } = await run(name, source);
    assert.equal(code, 0, output);
    assert.match(output, /^# pass 1$/m);
  });

test('control: a shop that makes a key for each try is told so by the first one', async () => {
  const [[, , source]] = files;
  const forgetful = source.replace(
    'fetch(new URL',
    "(same.headers['idempotency-key'] += '.') && fetch(new URL",
  );
  assert.notEqual(forgetful, source);
  const { code, output } = await run('control.test.mjs', forgetful);
  assert.equal(code, 1);
  assert.match(output, /actual: ~|'true'/);
});

test('Vitest passes in another project, with packages of its own', async () => {
  const home = await setUpNpmApp('vitest', inRoot('tests', 'browser', 'vitest'), { optional: true });
  const play = async (change = (source) => source) => {
    for (const [, name, source] of ofVitest) writeFileSync(join(home, name), change(source));
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const more = { PAID_ONCE: root, CLOUDFLARE_CF_FETCH_ENABLED: 'false', NO_COLOR: '1' };
    const { code, lines } = await start('node', ['node_modules/vitest/vitest.mjs', 'run'], {
      cwd: home,
      env: { ...env, ...more },
      timeoutMs: HANGS_AFTER_MS,
    }).ended;
    return { code, output: lines.join('\n') };
  };
  const { code, output } = await play();
  assert.equal(code, 0, output);
  assert.match(output, /Tests +1 passed \(1\)/);
  // Control: a key for each try is told.
  const forgetful = await play((source) =>
    source.replace('env.PAID_ONCE.fetch', "(headers['idempotency-key'] += '.') && env.PAID_ONCE.fetch"),
  );
  assert.equal(forgetful.code, 1, forgetful.output);
  assert.match(forgetful.output, /expected null to be 'true'/);
});
