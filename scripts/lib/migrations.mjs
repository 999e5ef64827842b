// Whether a deployment's D1 has the tables of what is to be deployed: whether all migrations are applied there.
import { inRoot } from './paths.mjs';
import { run } from './run.mjs';
import { Stop, say, step } from './say.mjs';

const FILE = /\b\d{4}_\w+\.sql\b/g;

/** Stops where one is not, and where wrangler does not say so, unless D1 may be away. `options` are wrangler's, such as --env. */
export async function needMigrations(options = [], { mayBeAway = false } = {}) {
  const of = ['d1', 'migrations', 'DB', '--remote', '--config', 'wrangler.toml', ...options];
  const command = (verb) => ['wrangler', ...of.toSpliced(2, 0, verb)];
  const shown = step('looking whether all migrations of D1 are applied');
  const [wrangler, ...args] = command('list');
  const { ok, lines } = await run(wrangler, args, { cwd: inRoot(), timeoutMs: 120_000 });
  const open = lines.flatMap((line) => line.match(FILE) ?? []);
  if (ok && open.length === 0 && lines.some((line) => line.includes('No migrations to apply')))
    return shown.done();
  shown.fail();
  if (mayBeAway && open.length === 0)
    return say(
      '    It is not known which migrations are applied. A release that needs a newer one fails on D1.',
    );
  throw new Stop(
    ok && open.length > 0
      ? [
          `Not applied to the database: ${open.join(', ')}. What is deployed would fail on it. Nothing was deployed. First run`,
          `  npx ${command('apply').join(' ')}`,
        ].join('\n')
      : [
          ...lines,
          '',
          `Nothing was deployed: this does not say which migrations are open: ${command('list').join(' ')}`,
          'While D1 is away: npm run deploy -- --without-d1',
        ].join('\n'),
  );
}
