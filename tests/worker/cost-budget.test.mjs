// What each operation asks of the runtime, counted from outside on raw workerd, against bench/budget.json: a change that makes one
// dearer fails here and is told which.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { budgetFile, countAll, judge } from '../../bench/lib/counts.mjs';

const budget = JSON.parse(readFileSync(budgetFile, 'utf8'));

test('no operation costs more than its budget', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'paid-once-cost-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  let wrong;
  // Most often one run of each shows it. On a busy machine one of them may be dearer: then the medians of three decide.
  for (const runs of [1, 3]) {
    const found = await countAll(join(dir, `${runs}`), { runs, expiring: 3 });
    for (const [operation, counts] of Object.entries(found))
      t.diagnostic(`${operation}: ${JSON.stringify(counts)}`);
    wrong = judge(found, budget);
    if (wrong.length === 0) return;
  }
  assert.deepEqual(wrong, []);
});

test('one more of anything is told by its name, and so is a budget that is too wide or lacks something', () => {
  const rows = 'rows written in objects';
  for (const [operation, counts] of Object.entries(budget))
    for (const [what, count] of Object.entries(counts)) {
      const changed = (value) => ({ ...budget, [operation]: { ...counts, [what]: value } });
      const dearer = judge(changed(Math.floor(count + Math.abs(count) * 0.03) + 1), budget);
      assert.equal(dearer.length, 1);
      assert.match(dearer[0], new RegExp(`^${operation}, ${what}: `));
    }
  const cheap = judge({ ...budget, payment: { ...budget.payment, [rows]: 1 } }, budget);
  assert.match(cheap.join(), /^payment, rows written in objects: 1, .* lower it/);
  const { [rows]: _, ...fewer } = budget.payment;
  assert.equal(judge(budget, { ...budget, payment: fewer }).length, 1);
});
