// Whether it matters how many keys are stored: the same load on a folder with few keys and on one with many, in turns.
import { clients } from './load.mjs';
import { median } from './stats.mjs';

const AWAKE = 100;

/** `dirs` are the folders with few and with many keys; `paid` has the keys of each. */
export async function growth(contestant, stores, { rounds, sliceMs, warmUpMs }) {
  const sites = [];
  for (const { dir, paid } of stores) {
    const site = await contestant.start(dir);
    const load = clients(site.url, paid);
    const awake = [...paid.keys()].slice(0, AWAKE);
    sites.push({ site, load, awake, found: { keys: paid.size, replay: [], first: [] } });
  }
  for (const { load, awake } of sites) {
    await load.replays(8, warmUpMs, awake);
    await load.firstPayments(8, warmUpMs);
  }
  for (let round = 0; round < rounds; round += 1)
    for (const { site, load, awake, found } of round % 2 ? sites.toReversed() : sites) {
      await site.settled();
      found.replay.push(rate(await load.replays(32, sliceMs, awake)));
      found.first.push(rate(await load.firstPayments(32, sliceMs)));
    }
  for (const { site, load } of sites) {
    await site.settled();
    await load.close();
    await site.stop();
  }
  return sites.map(({ found: { keys, replay, first } }) => ({
    keys,
    replay_per_s: median(replay),
    first_payment_per_s: median(first),
  }));
}

const rate = ({ times, ms }) => (times.length / ms) * 1000;

/** New payments in a store, until it has so many. */
export async function fill(contestant, { dir, paid }, keys) {
  const missing = keys - paid.size;
  if (missing <= 0) return;
  const site = await contestant.start(dir);
  const load = clients(site.url, paid);
  await load.fill(8, missing);
  await site.settled();
  await load.close();
  await site.stop();
}
