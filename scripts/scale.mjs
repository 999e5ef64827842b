// `npm run scale`: plays a day of a large shop, with the real code over models of the platform's documented limits, and prints what each part
// has used of them: the reconciliation and the settlement, with 100 payments a second.
import { inRoot } from './lib/paths.mjs';
import { endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

const PARTS = [
  { name: 'Reconciliation', test: 'reconcile_day', env: { RECONCILE_HOURS: '24' } },
  { name: 'Settlement', test: 'settlement_day', env: { SETTLEMENT_ROWS: '400000' } },
];

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  say('Setting up');
  await setUp();
  const failed = [];
  for (const { name, test, env } of PARTS) {
    say(`${name}: a day with 100 payments a second (the first time it is built for some minutes)`);
    const args = ['test', '--release', '--package', 'paid-once-desk', '--test', test, '--quiet'];
    const { code } = await run('cargo', [...args, '--', '--nocapture', 'a_hundred'], {
      cwd: inRoot(),
      env: { ...process.env, ...env },
      onLine: say,
    });
    if (code !== 0) failed.push(name);
  }
  if (failed.length > 0) throw new Stop(`Over a limit, or not done in time: ${failed.join(', ')}.`);
});
