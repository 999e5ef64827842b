// `npm run fmt`: formats everything that the checks look at.
import { root, workspaces } from './lib/paths.mjs';
import { endOnSignals, runStep } from './lib/run.mjs';
import { script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

endOnSignals({ exitCode: 130 });
await script(async () => {
  await setUp({ lints: true });
  for (const { name, dir } of workspaces)
    await runStep(`the Rust of ${name}`, 'cargo', ['fmt', '--all'], { cwd: dir });
  await runStep('scripts, tests, styles and data', 'prettier', ['--write', '--log-level', 'warn', '.'], {
    cwd: root,
  });
});
