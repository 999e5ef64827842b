// `npm run bench`: ours and the floor on raw workerd, in turns, on the release and with objects on disk. Prints a table, and keeps it as
// JSON in .wrangler/bench. It fails if an answer is not what it should be, or if the provider was not asked for each payment once.
//
//   npm run bench -- --quick        in about a minute, with less rest in its numbers
//   npm run bench -- --peers        with others' ways to do it: hono, fastify with Redis, and with Postgres (apt installs both)
//   npm run bench -- --keys=100000  how many keys are stored when growth is measured
//   npm run bench -- --shop         the desk's pages and the scheduled tasks with 10,000, 100,000 and 1,000,000 payments
//   npm run bench -- --shop --shards=10   the same with the read model in ten shards a month
//   npm run bench -- --gate         what the gate adds to a shop, and a Worker that only passes on
//   npm run bench -- --budget       writes what each operation costs, as counts, to bench/budget.json
//   npm run bench -- --profile=replay   a CPU profile of ours, and a flame graph; or --profile=payment
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';

import { build } from './build.mjs';
import { inRoot } from './lib/paths.mjs';
import { ask, endOnSignals } from './lib/run.mjs';
import { Stop, say, script, step } from './lib/say.mjs';
import { table } from './lib/table.mjs';
import { setUp } from './setup.mjs';
import { setUpPeers } from './setup/peers.mjs';

const modes = {
  full: { rounds: 7, sliceMs: 2_000, warmUpMs: 4_000, keys: 5_000, starts: 7, growthRounds: 3 },
  quick: { rounds: 3, sliceMs: 600, warmUpMs: 1_000, keys: 400, starts: 3, growthRounds: 1 },
};
const FEW_KEYS = 100;

const results = inRoot('.wrangler', 'bench');
const scratch = join(results, `run-${process.pid}`);

endOnSignals({ exitCode: 130 });
await script(async () => {
  const wanted = options(process.argv.slice(2));
  say('Setting up');
  await setUp();
  say('Building our Worker');
  if (wanted.shop) await build({ profile: 'release' });
  else if (wanted.gate) await build({ names: ['gate'], profile: 'release' });
  else await build({ names: ['paid-once'], profile: wanted.profile ? 'named' : 'release' });
  mkdirSync(scratch, { recursive: true });
  try {
    if (wanted.budget) await writeBudget();
    else if (wanted.shop) await tellShop(wanted);
    else if (wanted.gate) await tellGate();
    else if (wanted.profile) await writeProfile(wanted.profile);
    else await tell(await measure(wanted.quick ? 'quick' : 'full', wanted));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
});

function options(args) {
  const forms = [
    /^--(quick)$/,
    /^--(peers)$/,
    /^--(keys)=(\d+)$/,
    /^--(budget)$/,
    /^--(shop)$/,
    /^--(shards)=(\d+)$/,
    /^--(gate)$/,
    /^--(profile)=(replay|payment)$/,
  ];
  const wanted = {};
  for (const argument of args) {
    const [, name, value = true] = forms.map((form) => form.exec(argument)).find(Boolean) ?? [];
    if (!name) throw new Stop(`There is no option ${argument}: -- --help says which there are.`);
    wanted[name] = value;
  }
  if (wanted.keys && !(wanted.keys > FEW_KEYS)) throw new Stop(`--keys must be more than ${FEW_KEYS}.`);
  return wanted;
}

async function tell(found) {
  const { report } = await import('../bench/lib/report.mjs');
  say(`\n${report(found)}\n`);
  const file = join(results, `${found.at.replaceAll(':', '-')}.json`);
  writeFileSync(file, `${JSON.stringify(found, null, 2)}\n`);
  say(`Kept in ${file}`);
  say('Every replay had the identical bytes, and every payment was charged once.');
}

async function writeBudget() {
  const { budgetFile, countAll } = await import('../bench/lib/counts.mjs');
  const shown = step('counting');
  const found = await countAll(scratch, { onOperation: shown.detail });
  shown.done();
  writeFileSync(budgetFile, `${JSON.stringify(found, null, 2)}\n`);
  say(`Written to ${budgetFile}: what has grown must be worth it.`);
}

async function tellShop({ shards }) {
  const { SIZES, shop } = await import('../bench/lib/shop.mjs');
  const { short } = await import('../bench/lib/stats.mjs');
  const shown = step('measuring the desk');
  const found = await shop({ rounds: 5, shards: Number(shards ?? 0), onStep: shown.detail });
  shown.done();
  const row = ({ name, ms }) => ({
    page: name,
    ...Object.fromEntries(
      SIZES.map((size, index) => [`ms with ${size.toLocaleString('en')}`, short(ms[index])]),
    ),
    'a million : 10,000': short(ms.at(-1) / ms[0]),
  });
  say(table(found.map(row)));
}

async function tellGate() {
  const { gateBench } = await import('../bench/lib/gate.mjs');
  const { short } = await import('../bench/lib/stats.mjs');
  const shown = step('measuring the gate');
  const { found, bytes } = await gateBench({ rounds: 5, requests: 100, onStep: shown.detail });
  shown.done();
  const row = ({ name, ms: [alone, passed, gated], cpu: [, passedCpu, gatedCpu] }) => ({
    request: name,
    'shop alone, ms': short(alone),
    'passed on, ms': short(passed),
    'gate, ms': short(gated),
    'gate : passed on': short(gated / passed),
    'CPU passed on, ms': short(passedCpu),
    'CPU gate, ms': short(gatedCpu),
  });
  say(table(found.map(row)));
  const mb = (count) => short(count / 2 ** 20);
  say(
    `\nMemory of the gate's process: ${mb(bytes.before)} MB, after twenty uploads of 8 MB that it only passes on ${mb(bytes.after)} MB.`,
  );
}

async function writeProfile(what) {
  const { contestants } = await import('../bench/lib/contestants.mjs');
  const { profile } = await import('../bench/lib/profile.mjs');
  const { short } = await import('../bench/lib/stats.mjs');
  const beside = await startBeside();
  const [ours] = contestants(beside.addresses);
  const site = await ours.start(join(scratch, 'ours'), { inspected: true });
  const shown = step(`profiling: ${what}`);
  const file = join(results, `profile-${what}`);
  const functions = await profile(site, what, file);
  shown.done();
  await site.stop();
  await beside.stop();
  say(
    table(
      functions
        .slice(0, 25)
        .map(({ name, part }) => ({ function: name.slice(0, 100), '% itself': short(part * 100) })),
    ),
  );
  say(`\n${file}.svg is the flame graph; ${file}.cpuprofile is for the developer tools of a browser.`);
}

/** The provider and the database of the read model. */
async function startBeside() {
  // Set-up installs what these need.
  const { startWorkerd } = await import('../bench/lib/workerd.mjs');
  const { migrate, neighbours } = await import('../bench/lib/sites.mjs');
  const beside = await startWorkerd(join(scratch, 'beside'), await neighbours());
  const [provider, database] = ['provider', 'database'].map((socket) => beside.origin(socket));
  await migrate(database);
  return { ...beside, addresses: { provider, database } };
}

async function measure(name, { keys, peers = false }) {
  const mode = { ...modes[name], ...(keys && { keys: Number(keys) }) };
  const { contestants } = await import('../bench/lib/contestants.mjs');
  const { judge } = await import('../bench/lib/ledger.mjs');
  if (peers) await setUpPeers((await import('../bench/lib/peers.mjs')).postgresBin);
  const beside = await startBeside();
  const all = contestants({ ...beside.addresses, isWide: peers }).map((one) => ({
    ...one,
    dir: join(scratch, one.name.replace(/\W+/g, '-')),
  }));
  const paid = {};
  const found = {
    at: new Date().toISOString(),
    commit: ask('git', ['-C', inRoot(), 'describe', '--always', '--dirty']),
    machine: `${cpus().length} × ${cpus()[0]?.model}`,
    mode,
    ...(await load(all, mode, paid)),
    startups: await starts(all, mode, paid),
    growth: await grow(
      all.filter(({ isPeer }) => !isPeer),
      mode,
      paid,
    ),
    promises: all.map(({ name, promises }) => ({ name, promises })),
  };
  const { charges } = await beside.ask('provider', '/_bench/ledger');
  await beside.stop();
  const wrong = judge(charges, paid);
  if (wrong.length > 0) throw new Stop(['This must not be:', ...wrong.slice(0, 10)].join('\n  '));
  return found;
}

async function load(all, { rounds, sliceMs, warmUpMs }, paid) {
  const { playRounds, summary } = await import('../bench/lib/rounds.mjs');
  const shown = step(`load: ${rounds} rounds`);
  const sites = [];
  for (const { name, plays, start, dir } of all) sites.push({ name, plays, ...(await start(dir)) });
  const onRound = (round) => shown.detail(`round ${round + 1}`);
  const scenarios = summary(await playRounds(sites, { rounds, sliceMs, warmUpMs, onRound }));
  const memories = sites.map((site) => site.memory());
  for (const site of sites) {
    paid[site.name] = new Map(site.load.paid);
    await site.load.close();
    await site.stop();
  }
  const resources = all.map(({ name, dir, bytesOfKeys }, i) => ({
    name,
    memory_bytes: memories[i],
    keys: paid[name].size,
    bytes_a_key: bytesOfKeys(dir) / paid[name].size,
  }));
  shown.done();
  return { scenarios, resources };
}

async function starts(all, { starts: rounds }, paid) {
  const { startUps } = await import('../bench/lib/startup.mjs');
  const shown = step(`process starts: ${rounds} of each`);
  const { startups, paid: more } = await startUps(all, { rounds });
  for (const { name } of all) for (const [key, bytes] of more[name]) paid[name].set(key, bytes);
  shown.done();
  return startups;
}

async function grow(all, { keys, growthRounds: rounds, sliceMs, warmUpMs }, paid) {
  const { fill, growth } = await import('../bench/lib/growth.mjs');
  const shown = step(`growth: ${FEW_KEYS} and ${keys} keys`);
  const found = [];
  for (const contestant of all) {
    shown.detail(contestant.name);
    const { name, dir } = contestant;
    const few = { dir: `${dir}-few`, paid: new Map() };
    const many = { dir, paid: paid[name] };
    await fill(contestant, few, FEW_KEYS);
    await fill(contestant, many, keys);
    const points = await growth(contestant, [few, many], { rounds, sliceMs, warmUpMs });
    for (const [key, bytes] of few.paid) paid[name].set(key, bytes);
    found.push({ name, points });
  }
  shown.done();
  return found;
}
