// `npm run schemathesis`: makes requests from the API's document, thousands of them, good ones and spoiled ones, and
// holds every answer against it. It looks for what the document does not foresee: a status, a media type, a header or
// a body; and for any answer of 5xx.
//
//   npm run schemathesis -- --seed 7                  other requests
//   npm run schemathesis -- --include-path /payments  one address; all other options of `schemathesis run` work too
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { build } from './build.mjs';
import { inRoot, inTools } from './lib/paths.mjs';
import { endOnSignals, run, start } from './lib/run.mjs';
import { Stop, say, script, step } from './lib/say.mjs';
import { setUpPython } from './setup/python.mjs';
import { setUp } from './setup.mjs';

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
];
const seconds = 120;

/** Opens what accounts may see and what the operator may see. */
const token = randomUUID();
const requirements = inRoot('scripts', 'schemathesis', 'requirements.txt');

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  say('Setting up');
  await setUp();
  const bin = await setUpPython('schemathesis', requirements);
  say('Building the Workers');
  await build({ profile: 'dev' });

  say(`Asking the demo for ${seconds} s whatever its document allows, and what it does not`);
  const site = await serve();
  try {
    await attack(join(bin, 'schemathesis'), site.origin, process.argv.slice(2));
  } finally {
    site.stop();
    await site.ended;
  }
});

/** The site as the tests have it: on a free port, its state thrown away at the end. */
async function serve() {
  const shown = step('starting Paid Once and its simulator');
  let listen;
  const listening = new Promise((resolve) => (listen = resolve));
  const site = start('node', [inRoot('scripts', 'schemathesis', 'site.mjs')], {
    cwd: inRoot(),
    env: { ...process.env, TOKEN: token },
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

async function attack(program, origin, more) {
  const work = mkdtempSync(inTools('schemathesis-'));
  const shown = step('requests');
  const args = [
    ...['run', `${origin}/openapi.json`],
    ...['--checks', checks.join(','), '--max-time', `${seconds}`, '--seed', '1'],
    ...['--header', `Authorization: Bearer ${token}`, '--max-redirects', '0'],
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
