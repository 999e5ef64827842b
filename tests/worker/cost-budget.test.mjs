// What each operation asks of the runtime, counted from outside on raw workerd, against bench/budget.json: a change that makes one
// dearer fails here and is told which.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { PAYMENT, budgetFile, countAll, judge, neighbourhood, pay } from '../../bench/lib/counts.mjs';

const budget = JSON.parse(readFileSync(budgetFile, 'utf8'));

const dir = mkdtempSync(join(tmpdir(), 'paid-once-cost-'));
after(() => rmSync(dir, { recursive: true, force: true }));

test('no operation costs more than its budget', async (t) => {
  const found = await countAll(join(dir, 'all'));
  for (const [operation, counts] of Object.entries(found))
    t.diagnostic(`${operation}: ${JSON.stringify(counts)}`);
  assert.deepEqual(judge(found, budget), []);
});

test('a payment that runs one more statement, and writes a row by it, is told', async (t) => {
  const { start, stop } = await neighbourhood(join(dir, 'dearer'));
  t.after(stop);
  const dearer = `(Class) => class extends Class {
    ask(question) {
      this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS more (n); INSERT INTO more VALUES (1)');
      return super.ask(question);
    }
  }`;
  const site = await start('site', { REPLAY_CACHE_MS: '0' }, { dearer });
  const payment = await site.meter(() => pay(site, PAYMENT));
  const told = judge({ ...budget, payment }, budget);
  for (const what of ['rows written in objects', 'SQL statements in objects'])
    assert.equal(told.filter((line) => line.startsWith(`payment, ${what}: `)).length, 1, told.join('\n'));
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
