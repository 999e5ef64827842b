// `npm run load` for a moment, and its control. It fetches k6, so it runs only when it is asked for: `npm test -- load`.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { start } from '../../scripts/lib/run.mjs';

const ROOT = new URL('../..', import.meta.url).pathname;
/** A first time set-up fetches k6. */
const ENDS_WITHIN_MS = 240_000;

/** Runs the script to its end; with the test ends whatever it has started. */
async function load(t, ...options) {
  const env = { ...process.env, DURATION: '2s' };
  const script = start(process.execPath, ['scripts/load.mjs', ...options], { cwd: ROOT, env });
  t.after(() => script.stop());
  const { code, lines } = await script.ended;
  return { code, output: lines.join('\n') };
}

describe('npm run load', { timeout: ENDS_WITHIN_MS }, () => {
  test('with their keys all clients pay once', async (t) => {
    const { code, output } = await load(t);
    assert.equal(code, 0, output);
    for (const scenario of ['new_payments', 'retries', 'duplicates', 'conflicts', 'storm'])
      assert.match(output, new RegExp(`^  ${scenario} +\\d`, 'm'));
    assert.match(output, /^One charge for each key\.$/m);
    assert.doesNotMatch(output, /✗/);
  });

  test('the load script of tutorials passes as it stands', async (t) => {
    const { code, output } = await load(t, '--tutorial');
    assert.equal(code, 0, output);
    assert.match(output, /checks_succeeded\S* 100\.00%/);
    assert.match(output, /^The bank's ledger: \d+ charges, one for each payment\.$/m);
  });

  test('control: without their keys the same clients are charged twice, and it fails', async (t) => {
    const { code, output } = await load(t, '--without-keys');
    assert.equal(code, 1, output);
    assert.match(output, /✗ second_ids count==0/);
    assert.match(output, /✗ mismatches_refused rate==1/);
    assert.match(output, /the key \S+ made \d+ payments and \d+ charges/);
  });
});
