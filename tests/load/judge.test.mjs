// What the judge of `npm run load` makes of answers and ledgers that must not be.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { judge } from '../../scripts/load/judge.mjs';

describe('the judge', () => {
  const answer = (key, payment, more = {}) => ({
    ...{ scenario: 'retries', key, payment, status: 201, problem: null, replayed: false, sha256: 'a', ms: 9 },
    ...more,
  });
  const notNow = (key) => answer(key, null, { status: 503 });
  const charge = (resource, status = 'succeeded') => ({ status, metadata: { resource } });

  test('is content with one charge for each key', () => {
    const answers = [answer('k', 'pay_1'), answer('k', 'pay_1', { replayed: true }), answer(null, 'pay_2')];
    const { wrong, rows } = judge(answers, [charge('pay_1'), charge('pay_2'), charge('pay_1', 'failed')]);
    assert.deepEqual(wrong, []);
    const [{ requests, keys, payments, charges, replays }] = rows;
    assert.deepEqual([requests, keys, payments, charges, replays], [3, 1, 2, 2, 1]);
  });

  for (const [what, answers, charges, wrong] of [
    [
      'two payments',
      [answer('k', 'pay_1'), answer('k', 'pay_2')],
      ['pay_1', 'pay_2'],
      /2 payments and 2 charges/,
    ],
    ['one payment, charged twice', [answer('k', 'pay_1')], ['pay_1', 'pay_1'], /1 payments and 2 charges/],
    ['a payment and no charge', [answer('k', 'pay_1')], [], /1 payments and 0 charges/],
    ['no payment', [notNow('k')], [], /0 payments and 0 charges/],
    [
      'two answers',
      [answer('k', 'pay_1'), answer('k', 'pay_1', { sha256: 'b' })],
      ['pay_1'],
      /2 different answers/,
    ],
  ])
    test(`objects to ${what} for a key`, () => {
      const found = judge(
        answers,
        charges.map((payment) => charge(payment)),
      ).wrong;
      assert.match(found.join('\n'), wrong);
    });

  test('objects to a payment without a key that was charged twice, or never', () => {
    for (const charges of [[], ['pay_1', 'pay_1']]) {
      const { wrong } = judge(
        [answer(null, 'pay_1')],
        charges.map((payment) => charge(payment)),
      );
      assert.match(wrong.join('\n'), new RegExp(`was charged ${charges.length} times`));
    }
  });

  test('objects to a charge that nobody was told of, unless somebody without a key had no answer', () => {
    const { wrong } = judge([answer('k', 'pay_1')], [charge('pay_1'), charge('pay_2')]);
    assert.match(wrong.join('\n'), /1 payments were charged that nobody was told of/);
    assert.deepEqual(judge([notNow(null)], [charge('pay_2')]).wrong, []);
  });
});
