// The rates: all contestants run at the same time, and work in turns, one short slice each. So what else the machine does strikes
// all of them, and a ratio is of two slices that lie beside each other.
import { clients } from './load.mjs';
import { median, quantile } from './stats.mjs';

/** The keys that are replayed: their objects are awake. */
const AWAKE = 100;

const scenarios = [
  { name: 'replay', at: 1, run: (load, ms) => load.replays(1, ms, awake(load)) },
  { name: 'replay', at: 32, run: (load, ms) => load.replays(32, ms, awake(load)) },
  { name: 'replay, read', at: 1, run: (load, ms) => load.replaysRead(1, ms, awake(load)) },
  { name: 'replay, read', at: 32, run: (load, ms) => load.replaysRead(32, ms, awake(load)) },
  { name: 'first payment', at: 1, run: (load, ms) => load.firstPayments(1, ms) },
  { name: 'first payment', at: 32, run: (load, ms) => load.firstPayments(32, ms) },
];

const awake = (load) => [...load.paid.keys()].slice(0, AWAKE);

/** `sites` are those that run, with their `name`, and what they play if not all. Gives what each slice took, by scenario and name. */
export async function playRounds(sites, { rounds, sliceMs, warmUpMs, onRound = () => {} }) {
  for (const site of sites) {
    site.load = clients(site.url);
    await site.load.firstPayments(8, warmUpMs);
    await site.load.fill(8, Math.max(0, AWAKE - site.load.paid.size));
    await site.load.replays(8, warmUpMs, awake(site.load));
    await site.settled();
  }
  const slices = scenarios.map((scenario) => ({ ...scenario, of: {} }));
  for (let round = 0; round < rounds; round += 1) {
    onRound(round);
    const inTurn = round % 2 ? sites.toReversed() : sites;
    for (const slice of slices)
      for (const site of inTurn.filter(({ plays }) => plays?.includes(slice.name) ?? true))
        (slice.of[site.name] ??= []).push(await play(site, slice, sliceMs));
  }
  return slices;
}

async function play(site, { run }, sliceMs) {
  const before = { site: site.cpuMs(), load: process.cpuUsage() };
  const { times, ms } = await run(site.load, sliceMs);
  const { user, system } = process.cpuUsage(before.load);
  // What a payment leaves to be done belongs to it.
  await site.settled();
  return {
    rate: (times.length / ms) * 1000,
    cpuMs: (site.cpuMs() - before.site) / times.length,
    loadCpuMs: (user + system) / 1000 / times.length,
    times,
  };
}

/** One line a scenario: medians of the slices, and of the ratios of neighbours. */
export function summary(slices, base = 'floor') {
  return slices.map(({ name, at, of }) => ({
    name,
    at,
    of: Object.fromEntries(
      Object.entries(of).map(([site, all]) => {
        const times = all.flatMap((one) => one.times);
        const ratioOf = (what) => median(all.map((one, round) => one[what] / of[base][round][what]));
        return [
          site,
          {
            requests: times.length,
            rate_per_s: median(all.map(({ rate }) => rate)),
            rate_ratio: ratioOf('rate'),
            cpu_ms: median(all.map(({ cpuMs }) => cpuMs)),
            cpu_ratio: ratioOf('cpuMs'),
            p50_ms: quantile(times, 0.5),
            p99_ms: quantile(times, 0.99),
            load_cpu_ms: median(all.map(({ loadCpuMs }) => loadCpuMs)),
          },
        ];
      }),
    ),
  }));
}
