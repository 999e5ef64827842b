// `npm run deploy`: builds the Workers and deploys them, each after those that it is bound to. What stands behind `--` goes to wrangler,
// such as --dry-run.
import { build } from './build.mjs';
import { inRoot } from './lib/paths.mjs';
import { endOnSignals, runStep } from './lib/run.mjs';
import { script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

/** The desk is bound to the payments Worker's objects. The demo and the simulator are for this machine alone. */
const deployed = [
  { name: 'paid-once', config: 'wrangler.toml' },
  { name: 'desk', config: 'desk/wrangler.toml' },
];

endOnSignals({ exitCode: 130 });
await script(async () => {
  await setUp();
  await build({ names: deployed.map(({ name }) => name) });
  for (const { name, config } of deployed) {
    const args = ['deploy', '--config', config, '--outdir', inRoot('.wrangler', 'deployed', name)];
    await runStep(`deploying ${name}`, 'wrangler', [...args, ...process.argv.slice(2)], { cwd: inRoot() });
  }
});
