// How long the desk's pages and the scheduled tasks take in a shop of 10,000, of 100,000 and of 1,000,000 payments, in turns.
import { ADMIN_TOKEN } from '../../tests/worker/support/abandoned.mjs';
import { PAGES } from '../../tests/worker/support/desk-pages.mjs';
import { startSite } from '../../tests/worker/support/harness.mjs';
import { largeShop } from '../../tests/worker/support/large-shop.mjs';
import { readModel } from '../../tests/worker/support/readmodel.mjs';
import { median } from './stats.mjs';

export const SIZES = [10_000, 100_000, 1_000_000];
const TASKS = 'scheduled tasks';

/** For each page and for the tasks, the median of the ms in each size. `onStep` is told what is done. */
export async function shop({ rounds, onStep }) {
  const newestMs = Date.now() - 3_600_000;
  const sites = [];
  try {
    for (const payments of SIZES) {
      onStep(`${payments} payments`);
      const site = await startSite({ secrets: { ADMIN_TOKEN } });
      sites.push({ site, times: {} });
      await largeShop(site.worker, { payments, newestMs });
      await site.rows('ANALYZE');
    }
    const works = [
      ...PAGES.map((path) => [path, (site) => look(site, path)]),
      [TASKS, (site) => readModel(site).tick()],
    ];
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

async function look(site, path) {
  const answer = await site.fetch(path, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  await answer.text();
  if (answer.status !== 200) throw new Error(`${path} is answered ${answer.status}`);
}
