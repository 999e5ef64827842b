// `npm run deploy`: builds the Workers, makes the queues that are missing, and deploys the Workers, each after those that it is bound to.
// What stands behind `--` goes to wrangler, such as --dry-run. `npm run deploy -- gate` deploys the gate instead, which stands by itself.
import { build } from './build.mjs';
import { inRoot } from './lib/paths.mjs';
import { makeQueues, queuesOf } from './lib/queues.mjs';
import { endOnSignals, runStep } from './lib/run.mjs';
import { script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

/** The desk is bound to the payments Worker's objects. The demo and the simulator are for this machine alone. */
const deployed = [
  { name: 'paid-once', config: 'wrangler.toml' },
  { name: 'desk', config: 'desk/wrangler.toml' },
];

const gate = [{ name: 'gate', config: 'gate/wrangler.toml' }];
const args = process.argv.slice(2);
const wanted = args.includes('gate') ? gate : deployed;
const forWrangler = args.filter((arg) => arg !== 'gate');

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
