// The reconciliation where the desk has no objects for its tasks, of a read model with more shards than a reader asks at once: the cron compares the
// books of a few accounts in each run, and those of one that has left end all the same.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { startSite } from './support/harness.mjs';
import { readModel } from './support/readmodel.mjs';
import { shards, shardsOfDays, workersWithShards } from './support/shards.mjs';

const DAY_MS = 86_400_000;
const [DAYS, SLOTS] = [21, 10];
const NOW = Date.now();
const GONE = 'acct_GONE';
const HERE = 'acct_HERE';
const { nameOf, names } = shardsOfDays(DAYS, SLOTS, NOW);
const OLD = nameOf(DAYS - 1, 3);

const site = await startSite({
  workers: workersWithShards({ tasks: false, vars: { RECONCILE_QUIET_MS: '0' }, secrets: { ADMIN_TOKEN } }),
});
const all = shards(site);
const model = readModel(site);
after(() => site.close());

const payment = (id, account) =>
  all.rowsIn(
    OLD,
    `INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
        stripe_account, attempt, shown, created_at_ms, updated_at_ms)
     VALUES (?1, ?1, 1, 'account:a', 'canceled', 900, 0, 0, 'usd', 'stripe', ?2, 1, '{}', ?3, ?3)`,
    id,
    account,
    NOW - (DAYS - 1) * DAY_MS,
  );
/** The lists of an account that are read. */
const open = async (account) =>
  (
    await model.all(
      "SELECT name FROM cursors WHERE name LIKE 'stripe_%:' || ? AND name NOT LIKE '%since%' AND ended_at_ms IS NULL",
      account,
    )
  ).length;
const rounds = async () =>
  (await model.all("SELECT name FROM reconcile_rounds WHERE name GLOB 'acct_* *' ORDER BY name")).map(
    ({ name }) => name,
  );
/** As many runs as a round of all shards takes: the accounts share the shards of a run. */
async function round() {
  for (let run = 0; run < 2; run += 1) await model.tick();
}

before(async () => {
  await all.lay(SLOTS, { period: 'day', from_ms: NOW - 40 * DAY_MS });
  await all.note(names);
  for (const account of [GONE, HERE])
    for (const list of ['stripe_events', 'stripe_movements', 'stripe_payments'])
      await model.run(
        'INSERT INTO cursors (name, through_ms) VALUES (?, ?)',
        `${list}:${account}`,
        NOW - 60_000,
      );
  await all.open([OLD]);
  await payment('pay_here', HERE);
});

test('the books of an account that has left end once no shard has a payment of it, and no others do', async () => {
  await round();
  assert.deepEqual(await rounds(), [`${GONE} unused`, `${HERE} used`]);
  assert.equal(await open(GONE), 3, 'something may be on its way for a day');
  await model.run(
    'UPDATE reconcile_rounds SET through_ms = through_ms - ? WHERE name = ?',
    2 * DAY_MS,
    `${GONE} unused`,
  );
  await round();
  assert.deepEqual([await open(GONE), await open(HERE)], [0, 3]);
  assert.deepEqual(
    (await rounds()).filter((name) => name.startsWith(GONE)),
    [],
  );
  // It is not compared any more.
  const { reconcile } = await model.tick();
  assert.deepEqual([reconcile.error, reconcile.accounts], [undefined, 2]);
});
