// `npm run soak` for a moment, and its control. It takes minutes, so it runs only when it is asked for: `npm test -- soak`.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { start } from '../../scripts/lib/run.mjs';

const ROOT = new URL('../..', import.meta.url).pathname;
const ENDS_WITHIN_MS = 300_000;

/** Runs the script to its end; with the test ends whatever it has started. */
async function soak(t, DURATION, ...options) {
  const env = { ...process.env, DURATION, SEED: '1' };
  const script = start(process.execPath, ['scripts/soak.mjs', ...options], { cwd: ROOT, env });
  t.after(() => script.stop());
  const { code, lines } = await script.ended;
  return { code, output: lines.join('\n') };
}

describe('npm run soak', { timeout: ENDS_WITHIN_MS }, () => {
  test('ends with ledger, objects, read model and receipts that say the same', async (t) => {
    const { code, output } = await soak(t, '10s');
    assert.equal(code, 0, output);
    assert.match(output, /^Ledger, objects, read model and receipts say the same\.$/m);
    for (const what of ['paid', 'refunds', 'given back'])
      assert.match(output, new RegExp(`^  ${what} +[1-9]`, 'm'));
    assert.match(output, /fault +\w+: [1-9]/);
    assert.match(output, /[1-9]\d* evictions/);
  });

  test('control: where no derived key reaches the provider cards are charged twice, and it fails', async (t) => {
    // Long enough for many faults to strike, on a busy machine too.
    const { code, output } = await soak(t, '40s', '--unprotected');
    assert.equal(code, 1, output);
    assert.match(output, /was charged \d+ times/);
  });
});
