// `npm run deploy`: builds the Workers, makes the queues that are missing, and deploys the Workers, each after those that it is bound to.
// What stands behind `--` goes to wrangler, such as --dry-run. Names of Workers there deploy these alone: `npm run deploy -- desk`. The gate, which stands
// by itself, is deployed by its name only.
import { build } from './build.mjs';
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
  await build({ names: wanted.map(({ name }) => name) });
  if (!forWrangler.includes('--dry-run')) await makeQueues(await named(wanted));
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

/** All queues that these Workers' configurations name. */
async function named(workers) {
  const { unstable_readConfig: readConfig } = await import('wrangler');
  const all = workers.map(
    ({ config }) => readConfig({ config: inRoot(config) }, { hideWarnings: true }).queues,
  );
  return [...new Set(all.flatMap(queuesOf))];
}
