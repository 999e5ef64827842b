// How long the desk's pages and the scheduled tasks take in a shop of 10,000, of 100,000 and of 1,000,000 payments, in turns: in D1, or in shards.
import { ADMIN_TOKEN } from '../../tests/worker/support/abandoned.mjs';
import { PAGES } from '../../tests/worker/support/desk-pages.mjs';
import { startSite } from '../../tests/worker/support/harness.mjs';
import { hash } from '../../scripts/scale/deployment.mjs';
import { SHOPS, largeShop, largeShopInShards } from '../../tests/worker/support/large-shop.mjs';
import { readModel } from '../../tests/worker/support/readmodel.mjs';
import { shards as ofSite, workersWithShards } from '../../tests/worker/support/shards.mjs';
import { median } from './stats.mjs';

export const SIZES = [10_000, 100_000, 1_000_000];
const TASKS = 'scheduled tasks';

/** Between two payments in shards: a million are those of 23 days, so that a month's shards have many. */
const STEP_MS = 2_000;

/**
 * For each page and for the tasks, the median of the ms in each size. With `shards`, so many a month have the payments. `onStep` is told what is done.
 */
export async function shop({ rounds, shards, onStep }) {
  const newestMs = Date.now() - 3_600_000;
  const sites = [];
  try {
    for (const payments of SIZES) {
      onStep(`${payments} payments`);
      const secrets = { ADMIN_TOKEN };
      const site = await startSite(shards ? { workers: workersWithShards({ secrets }) } : { secrets });
      sites.push({ site, times: {} });
      if (shards) await fillShards(site, { slots: shards, payments, newestMs });
      else await largeShop(site.worker, { payments, newestMs });
      await site.rows('ANALYZE');
    }
    const works = [
      ...PAGES.map((path) => [path, (site) => look(site, path)]),
      [TASKS, (site) => readModel(site).tick()],
    ];
    onStep('what is over is summed');
    for (const { site } of sites) await summed(site);
    // What is due once is done, and everything has been looked at.
    for (let round = -2; round < rounds; round += 1) {
      onStep(`round ${round + 3} of ${rounds + 2}`);
      for (const [name, work] of works)
        for (const { site, times } of round % 2 ? sites.toReversed() : sites) {
          const began = performance.now();
          await work(site);
          if (round >= 0) (times[name] ??= []).push(performance.now() - began);
        }
    }
    return works.map(([name]) => ({ name, ms: sites.map(({ times }) => median(times[name])) }));
  } finally {
    for (const { site } of sites) await site.close();
  }
}

/** Runs the tasks until all that is over is summed, as runs of every five minutes have done long ago. */
async function summed(site) {
  for (let run = 0; run < 20; run += 1) {
    const { plots } = await readModel(site).tick();
    if (run > 0 && !plots.left) return;
  }
  throw new Error('the plots are not summed after 20 runs');
}

/** Each payment goes to the shard of its account in the month in which it was made: as `home` in crates/messages/src/placement.rs says. */
async function fillShards(site, { slots, payments, newestMs }) {
  const { lay, rowsIn } = ofSite(site);
  const oldestMs = newestMs - payments * STEP_MS;
  await lay(slots, { from_ms: oldestMs - 1 });
  const slotOf = (shop) => Number(hash('owner', `account:shop-${shop}`) % BigInt(slots));
  const each = [];
  for (const { month, fromMs, untilMs } of months(oldestMs, newestMs))
    for (let slot = 0; slot < slots; slot += 1) {
      const shops = [...Array(SHOPS).keys()].filter((shop) => slotOf(shop) === slot);
      if (shops.length === 0) continue;
      const name = `g1-${month}-${String(slot).padStart(3, '0')}`;
      await site.rows('INSERT INTO shards (name, made_at_ms) VALUES (?1, ?2)', name, fromMs);
      const at = `${newestMs} - n * ${STEP_MS}`;
      const isHere = `n % ${SHOPS} IN (${shops}) AND ${at} >= ${fromMs} AND ${at} < ${untilMs}`;
      each.push({ isHere, run: (sql) => rowsIn(name, sql) });
    }
  await largeShopInShards(site.worker, each, { payments, newestMs, stepMs: STEP_MS });
  for (const { run } of each) await run('ANALYZE');
}

/** The months (UTC) of a time, and when they begin and end. */
function months(fromMs, untilMs) {
  const found = [];
  for (let beginsMs = fromMs; beginsMs <= untilMs;) {
    const day = new Date(beginsMs);
    const endsMs = Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + 1);
    found.push({
      month: day.toISOString().slice(0, 7),
      fromMs: Date.UTC(day.getUTCFullYear(), day.getUTCMonth()),
      untilMs: endsMs,
    });
    beginsMs = endsMs;
  }
  return found;
}

async function look(site, path) {
  const answer = await site.fetch(path, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  await answer.text();
  if (answer.status !== 200) throw new Error(`${path} is answered ${answer.status}`);
}
