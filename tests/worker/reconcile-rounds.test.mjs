// The reconciliation of a read model with more shards than a reader asks at once: what is late or missing in an old one is found all the same, by
// the run of its books, or by the run of its place.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';

import { BATCH_STATEMENTS, ROUND_STATEMENTS, RUN_STATEMENTS } from '../../scripts/scale/parts.mjs';
import { startSite } from './support/harness.mjs';
import { ADMIN_TOKEN, registry, secretKey } from './support/own-keys.mjs';
import { PAYMENT, paid } from './support/payments.mjs';
import { objectOf, ownRuns, placeRuns, readModel } from './support/readmodel.mjs';
import { shards, shardsOfDays, workersWithShards } from './support/shards.mjs';
import { sent } from './support/statements.mjs';
import { until } from './support/until.mjs';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const [DAYS, SLOTS] = [24, 10];
const NOW = Date.now();
const OWN = 'reconcile:deployment';
const { nameOf, names } = shardsOfDays(DAYS, SLOTS, NOW);
/** In the order in which they are asked these are the last ones. */
const OLD = nameOf(DAYS - 1, 3);
const DOWN = nameOf(DAYS - 1, 7);

const site = await startSite({
  looksAtStatements: true,
  workers: workersWithShards({
    vars: { RECONCILE_QUIET_MS: '0', ACCOUNTS_CACHE_MS: '0' },
    secrets: {
      ADMIN_TOKEN,
      STRIPE_SECRET_KEY: secretKey('Deployment'),
      CREDENTIALS_KEY: randomBytes(32).toString('base64'),
    },
  }),
});
const all = shards(site);
const model = readModel(site);
after(() => site.close());

const payment = (id, provider, status, at, fields = {}) =>
  all.rowsIn(
    fields.place ?? OLD,
    `INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
        provider_payment, listed_payment, moved_payment, stripe_account, attempt, shown, created_at_ms, updated_at_ms)
     VALUES (?1, ?2, 1, 'account:a', ?3, 900, 900, 0, 'usd', ?4, ?5, ?6, ?7, ?8, 1, '{}', ?9, ?9)`,
    id,
    `object-of-${id}`,
    status,
    provider,
    fields.provider_payment ?? null,
    fields.listed ?? null,
    fields.moved ?? null,
    fields.stripe_account ?? null,
    at,
  );
const broken = async (kind) => {
  const sql = 'SELECT resource, state FROM breaks WHERE kind = ? ORDER BY break_id';
  return [...(await model.all(sql, kind)), ...(await all.rowsIn(OLD, sql, kind))];
};

/** Hurries the run of a task, and gives what came of it. */
async function ran(task) {
  const runs = async () =>
    [...(await ownRuns(model.all)), ...(await placeRuns(model.all))].find((run) => run.task === task);
  const before = await runs();
  await (await objectOf(site, task)).hurry();
  const { result } = await until(`${task} has run`, async () => {
    const run = await runs();
    return run && run.at_ms > (before?.at_ms ?? 0) && run;
  });
  return JSON.parse(result);
}

before(async () => {
  await all.lay(SLOTS, { period: 'day', from_ms: NOW - 40 * DAY_MS });
  await all.note(names);
});

// First: later most shards rest, and an account without a payment has no run then.
test('entries that are looked for together in shards take no more statements than `npm run scale` takes them to', async (t) => {
  const shop = await registry(site).shop();
  const name = `keys:${shop.id}`;
  const counted = async () => {
    const seen = site.logs().length;
    const { error } = await ran(`reconcile:${name}`);
    assert.equal(error, undefined);
    return sent(site.logs().slice(seen)).length;
  };
  const least = async (runs) => {
    const counts = [];
    for (let run = 0; run < runs; run += 1) counts.push(await counted());
    t.diagnostic(`${counts}`);
    return Math.min(...counts);
  };
  await counted();
  const without = await least(2);
  const { id } = await paid(shop.client, PAYMENT);
  /** Whether it stands in a shard of today, and this is so. */
  const isThere = async (condition) => {
    for (let slot = 0; slot < SLOTS; slot += 1) {
      const sql = `SELECT 1 FROM payments WHERE payment_id = ? AND ${condition}`;
      if ((await all.rowsIn(nameOf(0, slot), sql, id)).length > 0) return true;
    }
    return false;
  };
  await until('its payment is in a shard', () => isThere('true'));
  // Until it is in all three lists; these overlap, so each run reads it again.
  const counts = [];
  await until('it was compared', async () => {
    counts.push(await counted());
    return isThere('moved_payment IS NOT NULL AND listed_payment IS NOT NULL');
  });
  const [most, again] = [Math.max(...counts), await least(3)].map((count) => (count - without) / 3);
  t.diagnostic(`of each list ${most} where it is new, and ${again} later`);
  assert.ok(again > 0 && again <= most && most <= BATCH_STATEMENTS, `${most}, ${again}`);
});

test('a run asks all of them, says so, and sends D1 as many statements as `npm run scale` takes it to', async (t) => {
  const { error, missing, shards: asked, shards_lag_ms: lag } = await ran(OWN);
  assert.deepEqual([error, missing, asked, lag], [undefined, undefined, DAYS * SLOTS, 0]);
  const counts = [];
  for (let run = 0; run < 3; run += 1) {
    const seen = site.logs().length;
    await ran(OWN);
    counts.push(sent(site.logs().slice(seen)).length);
  }
  t.diagnostic(`${counts}`);
  assert.ok(Math.min(...counts) <= RUN_STATEMENTS + ROUND_STATEMENTS, `${counts}`);
  await model.run(
    "UPDATE cursors SET through_ms = ? WHERE name IN ('stripe_movements_since', 'stripe_payments_since')",
    NOW - 60 * DAY_MS,
  );
});

test('money that is late is found in an old one, until it has moved', async () => {
  const fields = { provider_payment: 'pi_unmoved', listed: 'pi_unmoved' };
  await payment('pay_unmoved', 'stripe', 'succeeded', NOW - 23 * DAY_MS, fields);
  // One that does not answer holds up no other, and is told of.
  await all.takeDown(DOWN);
  const run = await ran(OWN);
  assert.deepEqual([run.error, run.unmoved], [undefined, 1]);
  assert.match(run.missing, new RegExp(`^1 of ${DAYS * SLOTS} shards did not answer \\(${DOWN}\\)`));
  assert.deepEqual(await broken('unmoved'), [{ resource: 'pay_unmoved', state: 'open' }]);
  const late = await ran(OWN);
  assert.equal(late.unmoved, 0, 'once');
  assert.ok(late.shards_lag_ms > 0, 'the round left something out');
  await all.putUp(DOWN);
  await all.rowsIn(OLD, 'UPDATE payments SET moved_payment = provider_payment');
  const { missing, shards_lag_ms: lag, resolved } = await ran(OWN);
  assert.deepEqual([missing, lag, resolved], [undefined, 0, 1]);
  assert.deepEqual(await broken('unmoved'), [{ resource: 'pay_unmoved', state: 'resolved' }]);
});

test('a payment of which Adyen tells nothing is found by the run of its place, until it does', async () => {
  await payment('pay_silent', 'adyen', 'processing', NOW - 23 * DAY_MS);
  await payment('pay_young', 'adyen', 'processing', NOW - HOUR_MS);
  const { sweep } = await ran(`place:${OLD}`);
  assert.equal(sweep.silent, 1);
  assert.deepEqual(await broken('silent'), [{ resource: 'pay_silent', state: 'open' }]);
  await all.rowsIn(OLD, "UPDATE payments SET status = 'succeeded' WHERE provider = 'adyen'");
  await ran(`place:${OLD}`);
  assert.deepEqual(await broken('silent'), [{ resource: 'pay_silent', state: 'resolved' }]);
});

test('a payment that Stripe does not have is found in an old one, until we do not hold it to be taken', async () => {
  const fields = { provider_payment: 'pi_missing', moved: 'pi_missing' };
  await payment('pay_missing', 'stripe', 'succeeded', NOW - 23 * DAY_MS, fields);
  const { error, breaks, shards: asked } = await ran(OWN);
  assert.deepEqual([error, breaks, asked], [undefined, 1, DAYS * SLOTS]);
  assert.deepEqual(await broken('missing'), [{ resource: 'pay_missing', state: 'open' }]);
  // Those from which all has left rest.
  const days = [0, 1, DAYS - 1].map((day) => nameOf(day, 0).slice(3, -4));
  await model.run(
    'UPDATE shards SET rests_since_ms = 1 WHERE period NOT IN (SELECT value FROM json_each(?))',
    JSON.stringify(days),
  );
  await all.rowsIn(OLD, "UPDATE payments SET status = 'canceled' WHERE payment_id = 'pay_missing'");
  await ran(OWN);
  const [{ resource, state }] = await broken('missing');
  assert.equal(resource, 'pay_missing');
  assert.match(state, /^(?:resolved|repaired)$/);
});

test('books of an account with keys of its own need the shards of that account alone', async () => {
  const shop = await registry(site).shop();
  const name = `keys:${shop.id}`;
  const { id } = await paid(shop.client, PAYMENT);
  const [{ shard }] = await until('its payment is in a shard', async () => {
    const rows = await all.rows('SELECT 1 FROM payments WHERE payment_id = ?', id);
    return rows.length > 0 && rows;
  });
  const first = await ran(`reconcile:${name}`);
  assert.deepEqual([first.error, first.shards], [undefined, 3], 'one a day');
  await model.run(
    "UPDATE cursors SET through_ms = ? WHERE name = 'stripe_movements_since:' || ?",
    NOW - 60 * DAY_MS,
    name,
  );
  const place = nameOf(DAYS - 1, Number(shard.slice(-3)));
  const late = { place, stripe_account: name, provider_payment: 'pi_late', listed: 'pi_late' };
  await payment('pay_late', 'stripe', 'succeeded', NOW - 23 * DAY_MS, late);
  assert.equal((await ran(OWN)).unmoved, 0, 'it is in no other books');
  assert.equal((await ran(`reconcile:${name}`)).unmoved, 1);
});

test('the books of an account that has left end once no shard has a payment of it, however many there are', async () => {
  const GONE = 'acct_GONE';
  const task = `reconcile:${GONE}`;
  // An earlier test has let most of them rest.
  await model.run('UPDATE shards SET rests_since_ms = NULL');
  await payment('pay_gone', 'stripe', 'canceled', NOW - 23 * DAY_MS, { stripe_account: GONE });
  const rounds = async () =>
    (await model.all('SELECT name FROM reconcile_rounds WHERE name GLOB ?', `${GONE} *`)).map(
      ({ name }) => name,
    );
  assert.equal((await ran(task)).error, undefined);
  assert.deepEqual(await rounds(), [`${GONE} used`], 'it was found, in an old one');

  await all.rowsIn(OLD, "DELETE FROM payments WHERE payment_id = 'pay_gone'");
  await all.takeDown(DOWN);
  await ran(task);
  assert.ok(!(await rounds()).includes(`${GONE} unused`), 'one that does not answer may have some');
  await all.putUp(DOWN);
  await ran(task);
  assert.deepEqual(await rounds(), [`${GONE} unused`]);
  await ran(task);
  assert.deepEqual(await rounds(), [`${GONE} unused`], 'something may be on its way for a day');

  await model.run(
    'UPDATE reconcile_rounds SET through_ms = through_ms - ? WHERE name GLOB ?',
    2 * DAY_MS,
    `${GONE} *`,
  );
  await (await objectOf(site, task)).hurry();
  await until('it has ended', async () => !(await ownRuns(model.all)).some((run) => run.task === task));
  assert.deepEqual(await rounds(), []);
  const lists = await model.all(
    "SELECT ended_at_ms FROM cursors WHERE name LIKE ? AND name NOT LIKE '%since%'",
    `%:${GONE}`,
  );
  assert.ok(lists.length >= 3 && lists.every(({ ended_at_ms: ended }) => ended > 0), JSON.stringify(lists));
});
