// `npm run gate:apps`: applications of others behind the gate, each with its own database, in which is counted. It fetches them, so it is no
// part of `npm test`.
import { build } from './build.mjs';
import { inRoot } from './lib/paths.mjs';
import { endOnSignals, run } from './lib/run.mjs';
import { say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

endOnSignals({ exitCode: 130 });
await script(async () => {
  await setUp();
  await build({ names: ['gate'], profile: 'dev' });
  const { ok } = await run(
    'node',
    ['--disable-warning=ExperimentalWarning', '--test', '--test-reporter=spec', 'tests/apps/*.test.mjs'],
    {
      cwd: inRoot(),
      onLine: (line) => say(line),
    },
  );
  if (!ok) process.exitCode = 1;
});
