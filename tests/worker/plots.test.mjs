// The plots of the desk's overview: what is over is summed once, in D1 alone and in shards, and the page shows the same before and after, whatever
// changes later.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { startSite } from './support/harness.mjs';
import { largeShop, largeShopInShards } from './support/large-shop.mjs';
import { readModel } from './support/readmodel.mjs';
import { shards, workersWithShards } from './support/shards.mjs';

/** So many payments, each half a minute older than the one before it. */
const PAYMENTS = 900;
const newestMs = Date.now() - 600_000;
const secrets = { ADMIN_TOKEN };

/** The statements of one place: of payments `isHere`, in D1 or in a shard. */
async function inD1() {
  const site = await startSite({ secrets });
  await largeShop(site.worker, { payments: PAYMENTS, newestMs });
  return { site, places: [(sql, ...values) => site.rows(sql, ...values)] };
}

async function inShards() {
  const site = await startSite({ workers: workersWithShards({ secrets }) });
  const { lay, rowsIn } = shards(site);
  await lay(2, { from_ms: newestMs - 86_400_000 });
  const month = new Date(newestMs).toISOString().slice(0, 7);
  const each = [0, 1].map((slot) => {
    const name = `g1-${month}-00${slot}`;
    return { name, isHere: `n % 2 = ${slot}`, run: (sql, ...values) => rowsIn(name, sql, ...values) };
  });
  for (const { name } of each)
    await site.rows('INSERT INTO shards (name, made_at_ms) VALUES (?1, ?2)', name, newestMs);
  await largeShopInShards(site.worker, each, { payments: PAYMENTS, newestMs, stepMs: 30_000 });
  return { site, places: each.map(({ run }) => run) };
}

for (const [where, begin] of [
  ['in D1', inD1],
  ['in shards', inShards],
])
  describe(`plots of payments ${where}`, () => {
    let site;
    let places;
    before(async () => {
      ({ site, places } = await begin());
    });
    after(() => site.close());

    /** The numbers and the plots of the overview, without what the runs themselves change. */
    async function looked(range = 'day') {
      const answer = await site.fetch(`/admin?range=${range}`, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      const text = await answer.text();
      assert.equal(answer.status, 200);
      const [paid] = /Paid<\/a><\/h2>\s*<p class="tile-value">([\d,]+)/.exec(text)?.slice(1) ?? [];
      const [plots] = /<div class="plots">[^]*?<\/div>/.exec(text) ?? [];
      assert.ok(plots?.includes('<svg') && paid, 'the page has both');
      return { paid: Number(paid.replaceAll(',', '')), plots };
    }
    const ofAll = async () => ({
      hour: await looked('hour'),
      day: await looked('day'),
      week: await looked('week'),
    });
    const number = async (sql) => {
      const each = await Promise.all(places.map((run) => run(`SELECT count(*) AS number FROM ${sql}`)));
      return each.reduce((sum, [row]) => sum + row.number, 0);
    };
    const tick = async () => {
      const { plots } = await readModel(site).tick();
      assert.equal(plots.error ?? plots.missing, undefined);
      return plots;
    };

    test('are the same once all that is over is summed, and it is summed once', async () => {
      const counted = await ofAll();
      assert.ok(counted.week.paid > PAYMENTS / 2);
      assert.equal(await number('plot_sums'), 0);
      await tick();
      assert.ok((await number('plot_sums WHERE slice_ms = 60000')) > PAYMENTS / 4);
      assert.ok((await number('plot_sums WHERE slice_ms = 10800000')) > 0);
      // A minute may be over by now: the windows of the hour begin with another one.
      const { day, week } = await ofAll();
      assert.deepEqual([day.paid, week], [counted.day.paid, counted.week]);
      // It is not counted anew: what is not summed is nothing.
      await Promise.all(places.map((run) => run("UPDATE plot_sums SET sums = '[]' WHERE slice_ms > 0")));
      assert.equal((await looked('week')).paid, 0);
      await Promise.all(places.map((run) => run('DELETE FROM plot_summed WHERE id = 1')));
      assert.deepEqual(await looked('week'), counted.week);
      await tick();
      assert.deepEqual(await looked('week'), counted.week);
    });

    test('say at once what changes of a payment that was summed', async () => {
      const before = await looked('week');
      const one = `(SELECT payment_id FROM payments WHERE status = 'succeeded' ORDER BY created_at_ms LIMIT 1)`;
      const [place] = places;
      await place(`UPDATE payments SET status = 'canceled', captured_minor = 0 WHERE payment_id = ${one}`);
      assert.equal(await number('plot_changes'), 1);
      const changed = await looked('week');
      assert.equal(changed.paid, before.paid - 1);
      await tick();
      assert.equal(await number('plot_changes'), 0);
      assert.deepEqual(await looked('week'), changed);
    });

    test('control: where nobody notes what changes the sum is wrong', async () => {
      const before = await looked('week');
      const [place] = places;
      await place('DROP TRIGGER plots_payment_gone');
      await place(
        `DELETE FROM payments WHERE payment_id = (SELECT payment_id FROM payments WHERE status = 'succeeded' ORDER BY created_at_ms LIMIT 1)`,
      );
      assert.equal((await looked('week')).paid, before.paid);
    });
  });
