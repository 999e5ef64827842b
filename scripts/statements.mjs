// `npm run statements`: collects the SQL that the suites make the Workers send to the read model, into tests/worker/support/statements.json.
// tests/worker/statements.test.mjs asks SQLite how it goes about each, and says when this must be run again.
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { build } from './build.mjs';
import { demo, inRoot } from './lib/paths.mjs';
import { endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

const file = inRoot('tests', 'worker', 'support', 'statements.json');
/** What is counted on the release, and what asks for the file itself. */
const others = ['cost.test.mjs', 'cost-budget.test.mjs', 'statements.test.mjs'];

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  say('Setting up');
  await setUp();
  say('Building the Workers');
  process.env.BUILD_PROFILE = 'dev';
  await build({ names: [...demo.map(({ name }) => name), 'gate'] });
  say('Running the suites of tests/worker: some ten minutes');
  const folder = mkdtempSync(join(tmpdir(), 'paid-once-statements-'));
  try {
    const dir = inRoot('tests', 'worker');
    const tests = readdirSync(dir).filter((name) => name.endsWith('.test.mjs') && !others.includes(name));
    const args = [
      '--test',
      '--test-concurrency=2',
      '--test-reporter=dot',
      ...tests.map((name) => join(dir, name)),
    ];
    await run(process.execPath, args, { env: { ...process.env, STATEMENTS_TO: folder } });
    const kept = readdirSync(folder).flatMap((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
    if (kept.length === 0) throw new Stop('No suite has sent a statement.');
    const statements = [...new Set(kept)].sort();
    writeFileSync(file, `${JSON.stringify(statements, null, 2)}\n`);
    say(`${statements.length} statements are in ${file}.`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
