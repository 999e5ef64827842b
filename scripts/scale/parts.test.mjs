import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { limits } from './limits.mjs';
import { large, ofFullest, small } from './deployment.mjs';
import { ceiling, over, parts } from './parts.mjs';

const budget = JSON.parse(readFileSync(new URL('../../bench/budget.json', import.meta.url), 'utf8')).payment;
test('a small shop is within all limits, and ten thousand payments a second are not on what it has deployed', () => {
  assert.deepEqual(over(parts(budget, small, 0.5)), []);
  const names = over(parts(budget, small, 10_000)).map(({ name }) => name);
  for (const part of ['Stripe', 'a queue: messages', 'writes of one place', 'days in D1'])
    assert.ok(
      names.some((name) => name.includes(part)),
      `${part} among ${names}`,
    );
});

test('more of what is short helps', () => {
  const isOver = (deployment, what) =>
    over(parts(budget, deployment, 10_000)).some(({ name }) => name.includes(what));
  for (const what of [
    'Stripe',
    'a queue: messages',
    'consumers at once',
    'writes of one place',
    'metrics',
    'in the fullest shard',
    'a page of a list',
  ])
    assert.equal(isOver(large, what), false, what);
  assert.ok(isOver({ ...large, queues: 1 }, 'consumers at once'));
  assert.ok(isOver({ ...large, shards: 20 }, 'writes of one place'));
  assert.ok(isOver({ ...large, by: 'month', shards: 100 }, 'in the fullest shard'));
});

test('the fullest slot counts: a large shop in one slot of a day is too much where two meet', () => {
  const isOver = (deployment) =>
    over(parts(budget, { ...large, ...deployment }, 10_000)).some(({ name }) =>
      name.includes('fullest shard'),
    );
  assert.ok(isOver({ spread: 1 }));
  assert.ok(isOver({ shards: 300 }));
  assert.equal(isOver({ by: 'hour', shards: 100, spread: 1 }), false);
  assert.ok(ofFullest(400, 480, 1) > 3 / 400, 'three and more shops in one');
  assert.ok(ofFullest(400, 480, 480) < 1.01 / 480, 'all of them in all');
});

test('shops fall on the slots that the read model gives them', () => {
  // The same numbers are in `as_many_shops_are_in_the_fullest_slot_as_the_table_of_the_scale_says` of crates/messages/src/placement.rs.
  assert.equal(ofFullest(1, 10, 3), 1 / 3);
  assert.equal(Math.round(ofFullest(400, 480, 1) * 400), 4);
  assert.equal(Math.round(ofFullest(400, 480, 40) * 400 * 40), 45);
});

test('an object for each shop ends what the runs of the cron share, and all shops share D1', () => {
  const isOver = (deployment, payments, what) =>
    over(parts(budget, { ...large, ...deployment }, payments)).some(({ name }) => name.includes(what));
  for (const what of ['reconciliation of one shop, a run', 'until each shop has had its turn'])
    assert.equal(isOver({}, 10_000, what), false, what);
  for (const what of ['reconciliation of all shops, a run', 'until each shop has had its turn'])
    assert.ok(isOver({ tasks: 'cron' }, 10_000, what), what);
  assert.equal(isOver({ shops: 5_000 }, 10, 'statements of D1'), false);
  assert.ok(isOver({ shops: 100_000 }, 10, 'statements of D1'));
});

test('a round of all shards ends within a day, unless there are too many for one shop', () => {
  const round = (deployment) =>
    parts(budget, { ...large, ...deployment }, 10_000).find(({ name }) => name.includes('a round of all'));
  assert.equal(round({}).load, 220, 'three hours and forty minutes of 43,200');
  assert.deepEqual(over([round({}), round({ by: 'hour', shards: 100, spread: 1 })]), []);
  assert.equal(over([round({ hotDays: 700 })]).length, 1);
  assert.equal(round({ shards: 0 }), undefined);
});

test('history leaves from each place by itself where tasks have objects, and else from all within one run', () => {
  const history = (deployment, payments = 10_000) =>
    over(
      parts(budget, { ...large, ...deployment }, payments).filter(({ name }) => name.startsWith('history')),
    );
  assert.deepEqual(history({}), []);
  assert.deepEqual(history({ by: 'hour', shards: 100, spread: 1 }), []);
  assert.equal(history({ tasks: 'cron' }).length, 1);
  assert.deepEqual(history({ tasks: 'cron' }, 400), []);
  assert.equal(history({ by: 'month', shards: 10, spread: 10 }).length, 1);
});

test('a run asks the shards of its shop, however many there are', () => {
  const shardsOf = (deployment) =>
    parts(budget, { ...large, ...deployment }, 10_000).find(({ name }) =>
      name.includes('requests to shards'),
    );
  assert.deepEqual([shardsOf({}).load, shardsOf({ hotDays: 400 }).load], [2440, 2440]);
  assert.ok(shardsOf({}).load < shardsOf({}).limit);
  assert.ok(shardsOf({ tasks: 'cron' }).load > shardsOf({ tasks: 'cron' }).limit);
  assert.ok(shardsOf({ spread: 480 }).load > shardsOf({ spread: 480 }).limit);
});

test('objects that read the registry for all isolates keep it from D1, and are enough of them', () => {
  const isOver = (deployment, payments, what) =>
    over(parts(budget, { ...large, ...deployment }, payments)).some(({ name }) => name.includes(what));
  const objects = { accountsCache: 'object', accountsCacheShards: 32 };
  assert.ok(isOver({ accountsCache: 'isolate' }, 10_000, 'registry of accounts: reads of D1'));
  assert.equal(isOver(objects, 10_000, 'registry of accounts'), false);
  assert.ok(isOver({ ...objects, accountsCacheShards: 8 }, 10_000, 'registry of accounts: requests'));
  assert.ok(isOver({ ...objects, shops: 4_000 }, 10_000, 'registry of accounts: reads of D1'));
  const [one] = parts(budget, small, 0.5).filter(({ name }) => name.includes('registry'));
  assert.equal(one.load, 0.2, 'a name is read again when its time is over');
});

test('each place settles by itself where tasks have objects, and all of them share D1', () => {
  const isOver = (deployment, what) =>
    over(parts(budget, { ...large, ...deployment }, 10_000)).some(({ name }) => name.includes(what));
  assert.equal(isOver({}, 'settlement files, a run of one place'), false);
  assert.ok(isOver({ tasks: 'cron' }, 'settlement files, a run of all places'));
  assert.ok(isOver({ shards: 10 }, 'settlement files, a run of one place'));
  for (const what of ['shards of a new period', 'all that asks D1']) {
    assert.equal(isOver({ hotDays: 90 }, what), false, what);
    assert.ok(isOver({ shards: 20_000, hotDays: 90 }, what), what);
  }
});

test('at its ceiling a part is just within its limit', () => {
  for (const [position, { name }] of parts(budget, small, 1).entries()) {
    const most = ceiling(budget, small, position);
    if (most === Infinity) continue;
    const at = (payments) => parts(budget, small, payments)[position];
    assert.ok(at(most).load <= at(most).limit, name);
    assert.ok(at(most * 1.01 + 0.02).load > at(most * 1.01 + 0.02).limit, name);
  }
});

test('each limit says where it is documented', () => {
  for (const [name, { value, source }] of Object.entries(limits)) {
    assert.ok(value > 0, name);
    assert.match(source, /^https:\/\/(developers\.cloudflare\.com|docs\.stripe\.com)\//, name);
  }
});
