// The overview says what an operator has to look at, and why.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { shareSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await shareSite({ secrets: { ADMIN_TOKEN } });
after(() => site.close());

const { look } = operator(site, ADMIN_TOKEN);
const HOUR_MS = 3_600_000;

test('a task that fails, or has stopped, is no “All clear”, and its error is there to its end', async (t) => {
  const ran = (task, ago, result) =>
    site.rows(
      'INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?, ?, 5, ?)',
      ...[task, Date.now() - ago, JSON.stringify(result)],
    );
  const verdict = async () => /<div class="notice ([^"]*)">([^]*?)<\/div>/.exec((await look('/admin')).text);
  t.after(() => site.rows('DELETE FROM runs'));
  await site.rows('DELETE FROM runs');
  await ran('sweep', 60_000, { woken: 0 });
  const [, before] = await verdict();
  assert.notEqual(before, 'warning', 'the control');

  const error =
    'D1_ERROR: no such column: captured_minor at offset 217: SQLITE_ERROR (the statement of the day)';
  await ran('plots', 2 * HOUR_MS, { summed: 12 });
  await ran('settle', 60_000, { error });
  const [, tone, said] = await verdict();
  assert.equal(tone, 'warning');
  assert.doesNotMatch(said, /All clear/);
  assert.match(said, /<a href="#tasks">The task plots has not run for 2 h<\/a>/);
  assert.ok(said.includes(`<a href="#tasks">The task settle has failed: ${error}</a>`), said);
  const { text } = await look('/admin');
  assert.ok(text.includes(`<dd>error ${error}</dd>`), 'and with its run');
});
