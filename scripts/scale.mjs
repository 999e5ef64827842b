// `npm run scale`: plays a day of a large shop, with the real code over models of the platform's documented limits, and prints what each part
// has used of them. So far: the reconciliation, with 100 payments a second.
import { inRoot } from './lib/paths.mjs';
import { endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  say('Setting up');
  await setUp();
  say('Reconciliation: a day with 100 payments a second (the first time it is built for some minutes)');
  const args = ['test', '--release', '--package', 'paid-once-desk', '--test', 'reconcile_day', '--quiet'];
  const env = { ...process.env, RECONCILE_HOURS: '24' };
  const { code } = await run('cargo', [...args, '--', '--nocapture', 'a_hundred'], {
    cwd: inRoot(),
    env,
    onLine: say,
  });
  if (code !== 0) throw new Stop('A part is over its limit, or something was not compared in time.');
});
