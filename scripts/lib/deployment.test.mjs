// No Worker is deployed that nobody could reach, and what wrangler says is shown.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { unstable_readConfig as readConfig } from 'wrangler';

import {
  askHealth,
  environmentOf,
  healthAddress,
  keepsAddresses,
  told,
  tooLong,
  unreachable,
} from './deployment.mjs';
import { inRoot } from './paths.mjs';

const folder = mkdtempSync(join(tmpdir(), 'deployment-'));
after(() => rmSync(folder, { recursive: true }));

const files = ['wrangler.toml', 'desk/wrangler.toml', 'gate/wrangler.toml'];
/** As it is, with its text changed. */
function worker(path, change = (text) => text) {
  const text = change(readFileSync(inRoot(path), 'utf8'));
  const file = join(folder, 'wrangler.toml');
  writeFileSync(file, text);
  return { path, text, config: readConfig({ config: file, env: '' }, { hideWarnings: true }) };
}
const uncommented = (text) => text.replace(/^# (routes = )/m, '$1');

for (const path of files)
  test(`${path}: without an address it is said what to write, and where`, () => {
    const as = worker(path);
    const said = unreachable(as, [as.config]);
    const [route] = as.text.match(/(?<=^# )routes = .*$/m);
    assert.ok(said.includes(path) && said.includes('above [build]') && said.includes(`  ${route}\n`), said);
    // Where it is told to write it, it counts.
    assert.equal(unreachable(worker(path, uncommented), []), null);
    const atTheEnd = worker(path, (text) => `${text}\n${route}\n`);
    assert.ok(unreachable(atTheEnd, []), 'there it belongs to the last table');
    assert.equal(
      unreachable(
        worker(path, (text) => text.replace('workers_dev = false\n', '')),
        [],
      ),
      null,
    );
    for (const option of ['--route', '--domain=pay.example', '--domains'])
      assert.equal(unreachable(as, [], [option]), null);
  });

for (const path of files)
  test(`${path}: Cloudflare keeps no address of its requests`, () => {
    assert.equal(keepsAddresses(worker(path)), null);
    for (const setting of ['invocation_logs = false', 'traces]\nenabled = false']) {
      const without = worker(path, (text) => text.replace(setting, setting.replace('false', 'true')));
      const said = keepsAddresses(without);
      assert.ok(said.includes(path) && said.includes('  invocation_logs = false\n'), said);
    }
    const silent = worker(path, (text) => text.replace(/\[observability\][^]*?traces\]\n.*\n/, ''));
    assert.equal(silent.config.observability, undefined);
    assert.ok(keepsAddresses(silent), 'it is on where nothing is said');
  });

test('a variable that is longer than Cloudflare takes is named, and what to do', () => {
  for (const path of files) assert.equal(tooLong(worker(path)), null, path);
  const route = (name, letters) =>
    `\n[[vars.${name}.routes]]\norigin = "https://a"\nforms = ["POST /${'ä'.repeat(letters)}"]\n`;
  const long = worker('gate/wrangler.toml', (text) => text + route('GATE', 2_600));
  assert.match(
    tooLong(long),
    /^The variable GATE in gate\/wrangler\.toml has 5\d{3} bytes: Cloudflare takes 5120\./,
  );
  assert.match(tooLong(long), /\[\[vars\.GATE_2\.routes\]\]/);
  assert.equal(tooLong(worker('gate/wrangler.toml', (text) => text + route('GATE_2', 2_500))), null);
  const next = worker('gate/wrangler.toml', (text) => text + route('GATE_2', 2_600));
  assert.match(tooLong(next), /^The variable GATE_2 .*\n.*vars\.GATE_3\.routes/);
  const other = worker('wrangler.toml');
  other.config.vars.CORS_ORIGINS = 'x'.repeat(5_121);
  assert.equal(
    tooLong(other),
    'The variable CORS_ORIGINS in wrangler.toml has 5121 bytes: Cloudflare takes 5120.',
  );
});

/** What wrangler would send to where `tag` is deployed: the classes behind it. */
function classesBehind(migrations, tag) {
  const at = migrations.findIndex((migration) => migration.tag === tag);
  return migrations.slice(at + 1).flatMap(({ new_sqlite_classes: classes }) => classes);
}

test('a binding is only to be uncommented: its class has a migration, and none stands before one that may be deployed', () => {
  const { config, text } = worker('wrangler.toml');
  const [production] = text.split('\n[env.demo]');
  const bound = [...production.matchAll(/^(?:# )?class_name = "(\w+)"$/gm)].map(([, name]) => name);
  const made = classesBehind(config.migrations, undefined);
  assert.deepEqual(made, ['KeyObject', 'MetricsObject', 'ReadModelShard', 'AccountsCacheObject']);
  assert.deepEqual(bound, made);
  assert.deepEqual(classesBehind(config.migrations, 'v2'), ['ReadModelShard', 'AccountsCacheObject']);
  assert.deepEqual(classesBehind(config.migrations, 'v3'), ['AccountsCacheObject']);
  // Where v3 was never deployed and v4 was: by docs/development-log.md it comes as v5.
  const [v3] = text.match(/\[\[migrations\]\]\ntag = "v3"\n.*\n/);
  const [v4] = text.match(/\[\[migrations\]\]\ntag = "v4"\n.*\n/);
  const moved = worker('wrangler.toml', (all) =>
    all.replace(v3, '').replace(v4, `${v4}\n${v3.replace('v3', 'v5')}`),
  );
  assert.deepEqual(classesBehind(moved.config.migrations, 'v4'), ['ReadModelShard']);
});

test('a desk that the payments Worker is bound to needs no address', () => {
  const bound = (text) => `${text}\n[[services]]\nbinding = "DESK"\nservice = "paid-once-desk"\n`;
  const [site, desk] = [worker('wrangler.toml', bound), worker('desk/wrangler.toml')];
  assert.equal(unreachable(desk, [site.config, desk.config]), null);
  // The desk's binding to an entrypoint is none of the internet's.
  assert.ok(unreachable(site, [site.config, desk.config]));
});

test('the environment is the one that wrangler takes', () => {
  const variables = { CLOUDFLARE_ENV: 'staging' };
  assert.equal(environmentOf(['--dry-run'], {}), undefined);
  assert.equal(environmentOf(['--dry-run'], variables), 'staging');
  for (const options of [['--env', 'test'], ['-e', 'test'], ['--env=test'], ['-e=test']])
    assert.equal(environmentOf(options, variables), 'test');
  assert.equal(environmentOf(['--env='], variables), '');
});

test('of what wrangler says, warnings, bindings and targets are shown', () => {
  const said = [
    '',
    ' ⛅️ wrangler 4.156.0',
    '────────────────────',
    '[custom build] Running: npm run --silent build -- desk',
    '[custom build] ',
    '\u001b[33m▲ \u001b[43;33m[\u001b[43;30mWARNING\u001b[43;33m]\u001b[0m \u001b[1mProcessing wrangler.toml configuration:\u001b[0m',
    '',
    '    - Unexpected fields found in top-level field: "rotues"',
    '',
    '',
    '🌀 Starting asset upload...',
    '+ /docs/docs.css',
    'Uploaded 1 of 3 assets',
    'Total Upload: 5.95 KiB / gzip: 2.77 KiB',
    'env.KEYS (KeyObject)      Durable Object    ',
    'Uploaded paid-once (4.51 sec)',
    'No targets deployed for paid-once (0.52 sec)',
    'Current Version ID: 0a1b',
    '',
  ];
  assert.deepEqual(told(said), [
    '▲ [WARNING] Processing wrangler.toml configuration:',
    '',
    '    - Unexpected fields found in top-level field: "rotues"',
    '',
    'Total Upload: 5.95 KiB / gzip: 2.77 KiB',
    'env.KEYS (KeyObject)      Durable Object',
    'Uploaded paid-once (4.51 sec)',
    'No targets deployed for paid-once (0.52 sec)',
    'Current Version ID: 0a1b',
  ]);
});

test('it is known where a Worker says how it is, if one host has that address', () => {
  const at = (config, options, lines) => healthAddress({ config, options, lines });
  const custom = { pattern: 'pay.example', custom_domain: true };
  assert.equal(at({ routes: [custom] }), 'https://pay.example/healthz');
  assert.equal(at({ route: 'https://pay.example/*' }), 'https://pay.example/healthz');
  const zone = { pattern: 'pay.example/*', zone_name: 'example' };
  assert.equal(at({ routes: ['*.pay.example/*', zone] }), 'https://pay.example/healthz');
  for (const pattern of ['*.pay.example/*', '*/*', 'pay.example/payments*', 'pay.example/'])
    assert.equal(at({ routes: [pattern] }), null, pattern);
  assert.equal(at({ routes: [custom] }, ['--domain=new.example']), 'https://new.example/healthz');
  assert.equal(at({}, ['--route', 'new.example/*']), 'https://new.example/healthz');
  const said = ['Deployed paid-once triggers (0.5 sec)', '  https://paid-once.ada.workers.dev'];
  assert.equal(at({}, [], said), 'https://paid-once.ada.workers.dev/healthz');
  assert.equal(at({ routes: [] }, [], ['No targets deployed for paid-once']), null);
});

/** Answers with these, one after the other. */
function asked(...answers) {
  return async () => {
    const next = answers.shift();
    if (next instanceof Error) throw next;
    return new Response(next === 200 ? '{"status":"ok"}' : '{\n"detail": "A setting is missing."}', {
      status: next,
    });
  };
}

test('a Worker that was deployed is asked until it is well, and what it says else is shown', async () => {
  const health = (...answers) =>
    askHealth('https://pay.example/healthz', {
      ask: asked(...answers),
      tries: answers.length,
      pauseMs: 0,
    });
  const well = { said: 'https://pay.example/healthz answers 200: {"status":"ok"}', isIll: false };
  assert.deepEqual(await health(200), well);
  assert.deepEqual(await health(new Error('not there yet'), 404, 200), well);
  const ill = await health(503, 503);
  assert.ok(ill.isIll);
  assert.match(ill.said, /answers 503, not 200: \{ "detail": "A setting is missing\."\}/);
  const unknown = await health(new TypeError('fetch failed', { cause: new Error('no such host') }));
  assert.ok(!unknown.isIll);
  assert.match(unknown.said, /could not be asked: no such host/);
});
