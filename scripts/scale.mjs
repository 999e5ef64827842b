// `npm run scale`: what each part of a deployment has to do against what it may, and from how many payments a second on it may not: of one shop, and
// of ten thousand payments a second. Then, with the real code over models of the platform's documented limits, a day of all of these, and a day of one
// large shop, with 100 payments a second: its reconciliation and its settlement.
//
//     npm run scale -- --parts                                             the tables alone, in a second
//     npm run scale -- --parts --payments=10000 --shops=400 --queues=8     of another deployment; docs/scale.md says what can be set
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { inRoot } from './lib/paths.mjs';
import { endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { table } from './lib/table.mjs';
import { dollarsOfMany } from './scale/dollars.mjs';
import { LARGE_PAYMENTS, PERIODS, large, small } from './scale/deployment.mjs';
import { ceiling, over, parts } from './scale/parts.mjs';
import { played, world } from './scale/world.mjs';
import { setUp } from './setup.mjs';

const DAYS = [
  { name: 'Reconciliation', test: 'reconcile_day', env: { RECONCILE_HOURS: '24' } },
  { name: 'Settlement', test: 'settlement_day', env: { SETTLEMENT_ROWS: '400000' } },
];

const SMALL_PAYMENTS = 0.5;

const short = (number) =>
  number === Infinity ? 'any' : number.toLocaleString('en-US', { maximumSignificantDigits: 3 });

/** Where the counts go, who compares the books of a shop, of how long a time a shard is, and who reads the registry of accounts. */
const CHOICES = {
  metrics: { field: 'metrics', words: ['object', 'analytics'] },
  tasks: { field: 'tasks', words: ['object', 'cron'] },
  by: { field: 'by', words: Object.keys(PERIODS) },
  'accounts-cache': { field: 'accountsCache', words: ['isolate', 'object'] },
};

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  const { onlyParts, asked } = wanted();
  const isOver = asked.flatMap(({ payments, deployment }) => tell(payments, deployment));
  if (onlyParts) {
    if (isOver.length > 0) throw new Stop(`Over a limit: ${isOver.join('; ')}.`);
    return;
  }
  say('Setting up');
  await setUp();
  const failed = [...isOver];
  for (const { payments, deployment } of asked)
    if (deployment.shards > 0) failed.push(...(await playWorld(payments, deployment)));
  for (const { name, test, env } of DAYS) {
    say(`${name}: a day with 100 payments a second`);
    if ((await play(test, 'a_hundred', env, say)) !== 0) failed.push(name);
  }
  if (failed.length > 0) throw new Stop(`Over a limit, or not done in time: ${failed.join(', ')}.`);
});

/** Plays a day by a test of the desk, built as a release. */
async function play(test, name, env, onLine) {
  const args = ['test', '--release', '--package', 'paid-once-desk', '--test', test, '--quiet'];
  const { code } = await run('cargo', [...args, '--', '--nocapture', name], {
    cwd: inRoot(),
    env: { ...process.env, ...env },
    onLine,
  });
  return code;
}

/** Plays a day of a whole deployment, prints what came of it and what it costs, and gives the names of what was over its limit. */
async function playWorld(payments, deployment) {
  say(`A day of ${short(payments)} payments a second (the first time it is built for some minutes)`);
  const lines = [];
  const env = { WORLD: JSON.stringify(world(deployment, payments)) };
  const code = await play('world_day', 'a_world', env, (line) => lines.push(line));
  const found = lines.find((line) => line.startsWith('{'));
  if (code !== 0 || !found) throw new Stop(lines.join('\n'));
  const shown = JSON.parse(found);
  const all = played(shown, deployment, payments);
  const row = ({ name, unit, load, limit }) => ({
    part: name,
    load: short(load),
    limit: `${short(limit)} ${unit}`,
    left: load > limit ? 'OVER' : `${Math.floor((1 - load / limit) * 100)} %`,
  });
  say(
    `${short(shown.payments)} payments were played one by one; ${short(shown.places)} places and ${short(deployment.shops)} shops had ${short(shown.runs)} runs.`,
  );
  say(table(all.map(row)));
  const budget = JSON.parse(readFileSync(inRoot('bench', 'budget.json'), 'utf8'));
  const { lines: costs, once, monthly } = dollarsOfMany(budget, deployment, payments, shown.runs);
  const dollars = (number) => number.toFixed(2);
  const cost = (line) => ({
    ...line,
    'dollars per million payments': dollars(line['dollars per million payments']),
  });
  say(table(costs.map(cost)));
  say(
    `In all ${dollars(once)} dollars per million payments, and ${dollars(monthly)} each month for their objects.`,
  );
  return over(all).map(({ name }) => name);
}

/** The deployment that is asked about, and its payments a second when it is busiest; without one, a small and a large one. */
function wanted() {
  const names = {
    shards: 'shards',
    spread: 'spread',
    shops: 'shops',
    queues: 'queues',
    'hot-days': 'hotDays',
    busy: 'busy',
    'accounts-cache-s': 'accountsCacheS',
    'accounts-cache-shards': 'accountsCacheShards',
  };
  const options = { parts: { type: 'boolean' }, payments: { type: 'string' } };
  for (const name of Object.keys(CHOICES)) options[name] = { type: 'string' };
  for (const name of Object.keys(names)) options[name] = { type: 'string' };
  const { values } = parseArgs({ options });
  const number = (name, least) => {
    const given = Number(values[name]);
    if (!(given >= least)) throw new Stop(`--${name} must be a number of at least ${least}.`);
    return given;
  };
  const deployment = { ...small };
  for (const [name, field] of Object.entries(names))
    if (values[name] !== undefined) deployment[field] = number(name, { shards: 0, busy: 0.001 }[name] ?? 1);
  for (const [name, { field, words }] of Object.entries(CHOICES)) {
    if (values[name] === undefined) continue;
    if (!words.includes(values[name])) throw new Stop(`--${name} must be one of ${words.join(', ')}.`);
    deployment[field] = values[name];
  }
  const { most } = PERIODS[deployment.by];
  if (deployment.shards > most || !Number.isInteger(deployment.shards))
    throw new Stop(`--shards must be a whole number of at most ${most}, where each has a ${deployment.by}.`);
  if (!Number.isInteger(deployment.spread)) throw new Stop('--spread must be a whole number.');
  const payments = values.payments === undefined ? SMALL_PAYMENTS : number('payments', 0.001);
  const { parts: onlyParts = false, ...said } = values;
  const both = [
    { payments: SMALL_PAYMENTS, deployment: small },
    { payments: LARGE_PAYMENTS, deployment: large },
  ];
  return { onlyParts, asked: Object.keys(said).length > 0 ? [{ payments, deployment }] : both };
}

/** Prints the table, and gives the names of the parts that have more to do than they may. */
function tell(payments, deployment) {
  const budget = JSON.parse(readFileSync(inRoot('bench', 'budget.json'), 'utf8')).payment;
  const all = parts(budget, deployment, payments);
  say(`${short(payments)} payments a second when it is busiest: ${JSON.stringify(deployment)}`);
  say(
    table(
      all.map(({ name, unit, load, limit, remedy }, position) => ({
        part: name,
        load: short(load),
        limit: `${short(limit)} ${unit}`,
        'within it up to, payments/s': short(ceiling(budget, deployment, position)),
        '': load > limit ? `OVER: ${remedy}` : '',
      })),
    ),
  );
  return over(all).map(({ name }) => name);
}
