// `npm run deploy`: looks whether all migrations are applied, builds the Workers, makes the queues that are missing, and deploys the Workers, each after
// those that it is bound to.
// What stands behind `--` goes to wrangler, such as --dry-run. Names of Workers there deploy these alone: `npm run deploy -- desk`. The gate, which stands
// by itself, is deployed by its name only.
import { build } from './build.mjs';
import { needMigrations } from './lib/migrations.mjs';
import { inRoot } from './lib/paths.mjs';
import { makeQueues, queuesOf } from './lib/queues.mjs';
import { endOnSignals, runStep } from './lib/run.mjs';
import { script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

/** In their order: the desk is bound to the payments Worker's objects. The demo and the simulator are for this machine alone. */
const all = [
  { name: 'paid-once', config: 'wrangler.toml' },
  { name: 'desk', config: 'desk/wrangler.toml' },
  { name: 'gate', config: 'gate/wrangler.toml', byName: true },
];
const args = process.argv.slice(2);
const isNamed = ({ name }) => args.includes(name);
const wanted = all.some(isNamed) ? all.filter(isNamed) : all.filter(({ byName }) => !byName);
const forWrangler = args.filter((arg) => !all.some(({ name }) => name === arg));

endOnSignals({ exitCode: 130 });
await script(async () => {
  await setUp();
  const isDryRun = forWrangler.includes('--dry-run');
  const configs = await configsOf(wanted);
  if (!isDryRun && configs.some(hasReadModel)) await needMigrations(environment());
  await build({ names: wanted.map(({ name }) => name) });
  if (!isDryRun) await makeQueues([...new Set(configs.flatMap(({ queues }) => queuesOf(queues)))]);
  for (const { name, config } of wanted) {
    const outdir = inRoot('.wrangler', 'deployed', name);
    await runStep(
      `deploying ${name}`,
      'wrangler',
      ['deploy', '--config', config, '--outdir', outdir, ...forWrangler],
      { cwd: inRoot() },
    );
  }
});

async function configsOf(workers) {
  const { unstable_readConfig: readConfig } = await import('wrangler');
  return workers.map(({ config }) => readConfig({ config: inRoot(config) }, { hideWarnings: true }));
}

/** Whether a Worker is bound to the read model, whose migrations wrangler.toml names. */
const hasReadModel = ({ d1_databases: databases }) => databases.some(({ binding }) => binding === 'DB');

/** Of which environment wrangler is told to deploy it. */
const environment = () =>
  forWrangler.flatMap((arg, at) => {
    if (/^(?:-e|--env)=/.test(arg)) return [arg];
    return ['-e', '--env'].includes(arg) ? [arg, forWrangler[at + 1]] : [];
  });
