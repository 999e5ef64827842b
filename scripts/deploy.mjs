// `npm run deploy`: looks whether each Worker has an address, has no variable that is too long and keeps nobody's addresses, and whether all migrations are applied, builds the Workers, makes the queues that are missing,
// and deploys the Workers, each after those that it is bound to. It shows wrangler's warnings, and what went where. Last it asks the payments
// Worker at /healthz, where it knows its address, and ends with 1 if that is not well.
// `-- --without-d1` deploys also where D1 does not say which migrations are applied, as in an outage.
// What else stands behind `--` goes to wrangler, such as --dry-run, which shows the bindings. Names of Workers there deploy these alone: `npm run deploy -- desk`.
// The gate, which stands by itself, is deployed by its name only.
import { readFileSync } from 'node:fs';

import { build } from './build.mjs';
import {
  askHealth,
  environmentOf,
  healthAddress,
  keepsAddresses,
  told,
  tooLong,
  unreachable,
} from './lib/deployment.mjs';
import { needMigrations } from './lib/migrations.mjs';
import { inRoot } from './lib/paths.mjs';
import { makeQueues, queuesOf } from './lib/queues.mjs';
import { endOnSignals, runStep } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

/** In their order: the desk is bound to the payments Worker's objects. The demo and the simulator are for this machine alone. */
const all = [
  { name: 'paid-once', path: 'wrangler.toml' },
  { name: 'desk', path: 'desk/wrangler.toml' },
  { name: 'gate', path: 'gate/wrangler.toml', byName: true },
];
const args = process.argv.slice(2);
const isNamed = ({ name }) => args.includes(name);
const isWanted = all.some(isNamed) ? isNamed : ({ byName }) => !byName;
const WITHOUT_D1 = '--without-d1';
const forWrangler = args.filter((arg) => arg !== WITHOUT_D1 && !all.some(({ name }) => name === arg));
const env = environmentOf(forWrangler);

endOnSignals({ exitCode: 130 });
await script(async () => {
  await setUp();
  const isDryRun = forWrangler.includes('--dry-run');
  const workers = await configured();
  const wanted = workers.filter(isWanted);
  const configs = workers.map(({ config }) => config);
  const wrong = wanted
    .flatMap((worker) => [unreachable(worker, configs, forWrangler), tooLong(worker), keepsAddresses(worker)])
    .filter(Boolean);
  if (wrong.length > 0 && !isDryRun) throw new Stop([...wrong, 'Nothing was deployed.'].join('\n\n'));
  if (!isDryRun && wanted.some(hasReadModel))
    await needMigrations(env ? ['--env', env] : [], { mayBeAway: args.includes(WITHOUT_D1) });
  await build({ names: wanted.map(({ name }) => name) });
  if (!isDryRun) await makeQueues([...new Set(wanted.flatMap(({ config }) => queuesOf(config.queues)))]);
  let health = null;
  for (const { name, path, config } of wanted) {
    const outdir = inRoot('.wrangler', 'deployed', name);
    const lines = await runStep(
      `deploying ${name}`,
      'wrangler',
      [
        'deploy',
        '--config',
        path,
        '--outdir',
        outdir,
        ...forWrangler,
        ...(env === undefined ? ['--env='] : []),
      ],
      { cwd: inRoot() },
    );
    told(lines).forEach((line) => say(line && `    ${line}`));
    if (name === 'paid-once' && !isDryRun)
      health = healthAddress({ config, lines: told(lines), options: forWrangler });
  }
  if (health !== null) {
    const { said, isIll } = await askHealth(health);
    say(`\n${said}`);
    if (isIll) process.exitCode = 1;
  }
  if (wrong.length > 0) say(`\n${wrong.join('\n\n')}\n\nWithout --dry-run nothing is deployed so.`);
});

/** With what their configurations say, in the environment that is deployed. */
async function configured() {
  const { unstable_readConfig: readConfig } = await import('wrangler');
  return all.map((worker) => ({
    ...worker,
    config: readConfig({ config: inRoot(worker.path), env: env ?? '' }, { hideWarnings: true }),
    text: readFileSync(inRoot(worker.path), 'utf8'),
  }));
}

/** Whether a Worker is bound to the read model, whose migrations wrangler.toml names. */
const hasReadModel = ({ config: { d1_databases: databases } }) =>
  databases.some(({ binding }) => binding === 'DB');
