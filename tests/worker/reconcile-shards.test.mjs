// Stripe's lists are compared with payments in several hundred shards: each is looked for where it can be, and what is not found there in all the
// others. Only what is in none of them is unknown.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { startSite } from './support/harness.mjs';
import { LOOKS_SOON, jobsForgotten } from './support/jobs.mjs';
import { PAYMENT, client, moved, paid } from './support/payments.mjs';
import { atStripe, readModel } from './support/readmodel.mjs';
import { apiAccounts, shards, workersWithShards } from './support/shards.mjs';
import { until } from './support/until.mjs';

const DAY_MS = 86_400_000;
const MADE_ELSEWHERE = {
  amount: '4200',
  currency: 'eur',
  payment_method: 'pm_card_visa',
  'payment_method_types[]': 'card',
  confirm: 'true',
};
const NAMED = ['one', 'two', 'three'];
const SLOTS = 4;

describe('more than three hundred shards', async () => {
  const site = await startSite({
    workers: workersWithShards({
      vars: { ...LOOKS_SOON, RECONCILE_QUIET_MS: '0', SHARDS_CACHE_MS: '0' },
      secrets: { ADMIN_TOKEN: '', API_ACCOUNTS: apiAccounts(NAMED) },
      // One run of the cron: the runs of so many places are others' tests.
      tasks: false,
    }),
  });
  const all = shards(site);
  const model = readModel(site);
  const users = NAMED.map((id) => client(site, `token-of-${id}`));
  const old = Array.from({ length: 320 }, (_, number) => {
    const day = new Date(Date.now() - (90 - Math.floor(number / SLOTS)) * DAY_MS).toISOString().slice(0, 10);
    return `g1-${day}-00${number % SLOTS}`;
  });
  after(() => site.close());

  const breaks = () => model.all('SELECT break_id, state FROM breaks ORDER BY break_id');
  const breakOf = async ({ id }) =>
    (await breaks()).find(({ break_id }) => break_id === `orphan:stripe:${id}`);
  /** The rows of those that have some. */
  const rows = async (sql, ...values) => {
    const names = (await all.names()).filter((name) => !old.includes(name)).concat(old[7], old[200]);
    const each = names.map(async (shard) =>
      (await all.rowsIn(shard, sql, ...values)).map((row) => ({ ...row, shard })),
    );
    return (await Promise.all(each)).flat();
  };
  const rowOf = async (id) => (await rows('SELECT * FROM payments WHERE payment_id = ?', id))[0];
  /** The row of a payment of which Stripe has no id of ours, in a shard of long ago. */
  async function astray(name, intent) {
    const id = `pay_astray_${intent.id}`;
    await all.rowsIn(
      name,
      `INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
          provider_payment, attempt, shown, created_at_ms, updated_at_ms)
       VALUES (?, ?, 1, 'account:one', 'succeeded', 4200, 4200, 0, 'eur', 'stripe', ?, 1, '{}', 1, 1)`,
      id,
      `object-${intent.id}`,
      intent.id,
    );
    return id;
  }

  before(async () => {
    await all.lay(SLOTS, { period: 'day', spread: { all: SLOTS } });
    await all.note(old);
    await all.open([old[7], old[200]]);
  });

  test('payments are found and marked where they stand, with their refunds', async () => {
    const made = [];
    for (let number = 0; number < 6; number += 1) made.push(await paid(users[number % users.length]));
    await moved(users[0], made[0].id, 'refunds', { amount: 300 });
    for (const { id } of made) await jobsForgotten(site, id);
    await model.tick();
    assert.deepEqual(await breaks(), []);
    for (const { id } of made) {
      const row = await rowOf(id);
      assert.deepEqual([row.listed_payment, row.moved_payment], [row.provider_payment, row.provider_payment]);
    }
    const [{ moved_refund: marked, provider_refund: own }] = await rows('SELECT * FROM refunds');
    assert.ok(own);
    assert.equal(marked, own);
  });

  test('one that was made elsewhere is unknown, and one that stands where nobody expects it is not', async () => {
    const [orphan, ours] = [
      await atStripe(site, 'payment_intents', MADE_ELSEWHERE),
      await atStripe(site, 'payment_intents', MADE_ELSEWHERE),
    ];
    const id = await astray(old[7], ours);
    await model.tick();
    assert.equal((await breakOf(orphan)).state, 'open');
    assert.equal(await breakOf(ours), undefined);
    // Its money may have moved in the second up to which the list of movements was read.
    const row = await until('its money is found', async () => {
      await model.tick();
      const row = await rowOf(id);
      return row.moved_payment && row;
    });
    assert.deepEqual([row.listed_payment, row.moved_payment], [ours.id, ours.id]);
    assert.equal((await breaks()).length, 1);
    assert.deepEqual(await model.all('SELECT * FROM payment_searches'), []);
  });

  test('nothing is unknown while a shard does not answer', async () => {
    const [orphan, ours] = [
      await atStripe(site, 'payment_intents', MADE_ELSEWHERE),
      await atStripe(site, 'payment_intents', MADE_ELSEWHERE),
    ];
    const id = await astray(old[200], ours);
    await all.takeDown(old[200]);
    await model.tick();
    assert.deepEqual([await breakOf(orphan), await breakOf(ours)], [undefined, undefined]);
    assert.ok((await model.all('SELECT * FROM payment_searches')).length > 0);
    await all.putUp(old[200]);
    await model.tick();
    await model.tick();
    assert.equal((await breakOf(orphan)).state, 'open');
    assert.equal(await breakOf(ours), undefined);
    await until('its money is found', async () => {
      await model.tick();
      return (await rowOf(id)).moved_payment === ours.id;
    });
  });

  test('one of which Stripe says nothing usable holds up no other, is asked for again, and is given up where all can see it', async () => {
    const [odd, orphan] = [
      await atStripe(site, 'payment_intents', MADE_ELSEWHERE),
      await atStripe(site, 'payment_intents', MADE_ELSEWHERE),
    ];
    const path = `/v1/payment_intents/${odd.id}`;
    await site.simulator.fault('forbidden', { method: 'GET', path, count: 1_000 });
    const { reconcile } = await model.tick();
    assert.equal(reconcile.error, undefined);
    assert.ok(reconcile.unanswered > 0);
    assert.equal((await breakOf(orphan)).state, 'open');
    assert.equal(await breakOf(odd), undefined);
    const waits = () =>
      model.all("SELECT tries, after FROM payment_searches WHERE payment = ? AND due = 'again'", odd.id);
    assert.deepEqual(await waits(), [{ tries: 1, after: null }]);

    const untold = async () =>
      (await model.all('SELECT * FROM breaks WHERE break_id = ?', `unanswered:stripe:${odd.id}`))[0];
    const due = (tries) =>
      model.run('UPDATE payment_searches SET tries = ?, next_at_ms = 0 WHERE payment = ?', tries, odd.id);
    await due(4);
    await model.tick();
    assert.deepEqual([await untold(), (await waits())[0].tries], [undefined, 5]);
    await due(9);
    await model.tick();
    const { state, kind, theirs } = await untold();
    assert.deepEqual([state, kind], ['open', 'unanswered']);
    assert.match(theirs, /answered 403/);

    await site.simulator.calm();
    await model.tick();
    assert.equal((await untold()).state, 'resolved');
    assert.equal((await breakOf(odd)).state, 'open');
  });

  test('one in our name that the read model lacks is told of at once, and repaired', async () => {
    const { id } = await paid(users[1]);
    await jobsForgotten(site, id);
    const { shard, provider_payment: intent } = await rowOf(id);
    await all.rowsIn(shard, 'DELETE FROM payments WHERE payment_id = ?', id);
    await model.tick();
    assert.ok(await breakOf({ id: intent }));
    await jobsForgotten(site, id);
    await model.tick();
    assert.equal((await breakOf({ id: intent })).state, 'repaired');
  });

  test('an account of the registry has its books compared, wherever its payments are', async () => {
    const lists = () => model.all("SELECT name FROM cursors WHERE name LIKE '%acct_quiet%'");
    assert.deepEqual(await lists(), [], 'control: of an account of which nothing says that it is there');
    await model.run(
      `INSERT INTO accounts (id, settings, state, version, created_at_ms, changed_at_ms)
       VALUES ('quiet', json_object('payment_method', 'pm_card_visa', 'stripe_account', 'acct_quiet'), 'active', 1, 1, 1)`,
    );
    await model.tick();
    assert.ok((await lists()).length >= 3);
  });
});
