// `npm run schemathesis`: makes requests from the API's document, thousands of them, good ones and spoiled ones, and
// holds every answer against it. It looks for what the document does not foresee: a status, a media type, a header or
// a body; and for any answer of 5xx.
//
//   npm run schemathesis -- --seed 7                  other requests
//   npm run schemathesis -- --include-path /rides     one address; all other options of `schemathesis run` work too
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { build } from './build.mjs';
import { inRoot, inTools } from './lib/paths.mjs';
import { ask, endOnSignals, run, runStep, start } from './lib/run.mjs';
import { Stop, say, script, step } from './lib/say.mjs';
import { setUp } from './setup.mjs';

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
];
const seconds = 120;

const requirements = inRoot('scripts', 'schemathesis', 'requirements.txt');
const home = inTools('schemathesis');
const program = join(home, 'bin', 'schemathesis');

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  say('Setting up');
  await setUp();
  await install();
  say('Building both Workers');
  await build();

  say(`Asking the demo for ${seconds} s whatever its document allows, and what it does not`);
  const site = await serve();
  try {
    await attack(site.origin, process.argv.slice(2));
  } finally {
    site.stop();
    await site.ended;
  }
});

/** A Python environment of the project's own. */
async function install() {
  const wanted = readFileSync(requirements, 'utf8');
  const stamp = join(home, 'installed');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;

  if (ask('python3', ['-c', 'import ensurepip, venv']) === null)
    throw new Stop('Schemathesis needs Python 3.10 or newer with venv (Debian: apt install python3-venv).');
  rmSync(home, { recursive: true, force: true });
  await runStep('a Python environment', 'python3', ['-m', 'venv', home]);
  const pip = ['install', '--no-input', '--disable-pip-version-check', '--requirement', requirements];
  await runStep('Schemathesis', join(home, 'bin', 'pip'), pip, { timeoutMs: 600_000 });
  writeFileSync(stamp, wanted);
}

/** The site as the tests have it: on a free port, its state thrown away at the end. */
async function serve() {
  const shown = step('starting Paid Once and its simulator');
  let listen;
  const listening = new Promise((resolve) => (listen = resolve));
  const site = start('node', [inRoot('scripts', 'schemathesis', 'site.mjs')], {
    cwd: inRoot(),
    onLine: (line) => line.startsWith('listening at ') && listen(line.split(' ').pop()),
  });
  const origin = await Promise.race([listening, site.ended]);
  if (typeof origin === 'string') {
    shown.done();
    return { ...site, origin };
  }
  shown.fail();
  throw new Stop([...origin.lines.slice(-60), '', 'Paid Once did not start.'].join('\n'));
}

async function attack(origin, more) {
  const work = mkdtempSync(inTools('schemathesis-'));
  const shown = step('requests');
  const args = [
    ...['run', `${origin}/openapi.json`],
    ...['--checks', checks.join(','), '--max-time', `${seconds}`, '--seed', '1'],
    ...['--header', 'Authorization: Bearer user@example.com', '--max-redirects', '0'],
    ...['--generation-database', 'none', '--no-color', ...more],
  ];
  const { ok, lines } = await run(program, args, {
    cwd: work,
    timeoutMs: (seconds + 60) * 1000,
    onLine: (line) => line.trim() && shown.detail(line.trim().slice(0, 80)),
  });
  rmSync(work, { recursive: true, force: true });
  if (ok) shown.done();
  else shown.fail();
  say(lines.join('\n'));
  if (!ok) throw new Stop('Schemathesis has found something, see above.');
}
