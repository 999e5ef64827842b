// Every suite of `npm test`, in order: the quick checks first, then the pure tests, then those that need a runtime.
//
// A suite is one command. `kind` says how its results are counted (see count.mjs): a `check` is one pass or failure.
// One with `byName` runs only when it is asked for, and `asked` is what it is asked for by, if not by its name. Its `stage` says when it
// runs (see `stages` in scripts/test.mjs). One with `maySkip` may leave out a test and pass. A whole run has the payments Worker as it would be
// deployed (`BUILD_PROFILE=tested`). Some suites alone run what is built fast.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';

import { examples, inRoot, libraries, root, workers, workspaces } from '../lib/paths.mjs';
import { firefoxDiffers, inTurn, long, longOfCargo, longest, together } from './groups.mjs';

const minutes = (n) => n * 60_000;
/** The last resort: what a test waits for is given up by itself (`HANGS_AFTER_MS`). A suite on a machine that is slow or busy is not ended. */
const compiled = minutes(90);
const served = minutes(180);
/** What is counted: on the release alone, which is what is billed. */
const onReleaseOnly = ['cost', 'cost-budget'];

export const suites = () => [
  ...[...workspaces, { name: 'scripts/bindgen', dir: inRoot('scripts', 'bindgen') }].map((worker) =>
    cargoCheck('format', worker, ['fmt', '--all', '--check', '--', '--color', 'never']),
  ),
  check('check: format of scripts, tests and pages', [
    ...['prettier', '--check', '--log-level', 'warn', '.'],
    ...['--cache', '--cache-strategy', 'content', '--cache-location', '.wrangler/prettier'],
  ]),
  check('check: unused dependencies', ['node', 'scripts/test/unused-dependencies.mjs']),
  check('check: licences, hashes and bill of materials', ['node', 'scripts/test/supply-chain.mjs']),
  check('check: tidy (modules, lengths, names, documents)', ['node', 'scripts/test/tidy.mjs']),
  nodeCheck('what each part may do', 'scripts/scale/parts.test.mjs'),
  nodeCheck('the cache of rows', 'src/accounts/row_cache.test.mjs'),
  nodeCheck('the tables of a shard', 'src/shard_migrations.test.mjs'),
  nodeCheck('what killed processes leave', 'scripts/lib/leftovers.test.mjs'),
  nodeCheck(
    'the JavaScript around a Worker',
    'scripts/lib/glue.test.mjs',
    'crates/runtime/src/bounded.test.mjs',
  ),
  nodeCheck('what commands say', 'scripts/lib/say.test.mjs', 'scripts/lib/rebuild.test.mjs'),
  nodeCheck('what is deployed', 'scripts/lib/migrations.test.mjs', 'scripts/lib/deployment.test.mjs'),
  nodeCheck('what is packed', 'scripts/setup/pack.test.mjs'),
  nodeCheck(
    'the rules of tidy, and what is run',
    'scripts/test/tidy.test.mjs',
    'scripts/test/suites.test.mjs',
  ),
  ...workspaces.map((worker) =>
    cargoCheck('clippy', worker, ['clippy', '--workspace', '--all-targets', '--', '-D', 'warnings']),
  ),
  ...workspaces.map((worker) =>
    cargoCheck('docs', worker, ['doc', '--workspace', '--no-deps'], { RUSTDOCFLAGS: '-D warnings' }),
  ),
  { ...cargoCheck('doc tests', workspaces[0], ['test', '--workspace', '--doc']), kind: 'cargo' },
  // At once, so that what is large is compiled beside all the rest. Who asks for one suite waits for no other's build.
  ...workspaces.map((worker) => ({
    ...cargoCheck('build of the tests', worker, ['test', '--workspace', '--no-run']),
    asked: 'all',
    buildsTests: true,
  })),
  ...workspaces.flatMap(cargoTests),
  ...['model', 'simulation'].map(thorough),
  check('build: the Workers', ['node', 'scripts/build.mjs'], {
    timeoutMs: compiled,
    builds: 'dev',
    stage: 'build',
  }),
  ...examples.map(({ name }) =>
    check(`build: the example ${name}`, ['node', 'scripts/build.mjs', name], {
      timeoutMs: compiled,
      builds: 'dev',
      stage: 'build',
    }),
  ),
  check('build: compile what would be deployed', ['node', 'scripts/build.mjs', '--compile', 'paid-once'], {
    timeoutMs: compiled,
    env: { BUILD_PROFILE: 'release' },
    builds: 'release',
    stage: 'compile',
  }),
  // Those that take longest first, so that none is left over alone.
  ...['crash', 'browser', 'clients', 'lab', 'worker', 'load', 'soak'].flatMap(nodeTests),
  {
    ...nodeSuite([join('tests', 'crash', 'kill.test.mjs')]),
    name: 'thorough: crash kill',
    env: { CRASH_KEYS: '1000', CRASH_KILLS: '110' },
    byName: true,
    asked: 'thorough',
  },
  check('build: what would be deployed', ['node', 'scripts/deploy.mjs', '--dry-run', 'paid-once'], {
    timeoutMs: compiled,
    env: { BUILD_PROFILE: 'release' },
    builds: 'release',
    stage: 'release',
    // wrangler notes there when it has looked for a newer one.
    isTemporary: true,
  }),
  ...['desk', 'gate'].map((name) =>
    check(`build: the ${name} as it would be deployed`, ['node', 'scripts/deploy.mjs', '--dry-run', name], {
      timeoutMs: compiled,
      env: { BUILD_PROFILE: 'release' },
      stage: 'release',
      byName: true,
    }),
  ),
  ...[...onReleaseOnly, 'payments-keys', 'payments-states', 'checkout'].map(onRelease),
];

/** A suite of the Worker's on what would be deployed: without it there is no cost to count. In a whole run the others run on it anyway. */
function onRelease(name) {
  const file = join('tests', 'worker', `${name}.test.mjs`);
  const again = !onReleaseOnly.includes(name);
  return {
    ...nodeSuite([file]),
    name: `release: ${name}`,
    runs: 'release',
    stage: 'on the release',
    byName: again,
    asked: again ? 'release' : undefined,
  };
}

/** Bounds and numbers of histories that take many minutes. */
function thorough(name) {
  return {
    name: `thorough: ${name}`,
    kind: 'cargo',
    stage: 'cargo tests',
    command: ['cargo', 'test', '--test', name],
    cwd: root,
    env: { THOROUGH: '1' },
    timeoutMs: minutes(60),
    byName: true,
    asked: 'thorough',
  };
}

function check(name, command, more = {}) {
  return { name, kind: 'check', command, cwd: root, timeoutMs: minutes(10), stage: 'cargo', ...more };
}

/** Tests of what runs beside the Workers. `node` would run the first of several files alone. */
function nodeCheck(what, ...files) {
  return check(`check: ${what}`, ['node', '--test-reporter=spec', inOneProcess, ...files], { kind: 'node' });
}

function cargoCheck(what, worker, args, env) {
  return check(`check: ${what} of ${worker.name}`, ['cargo', ...args], {
    cwd: worker.dir,
    timeoutMs: compiled,
    env,
  });
}

/**
 * The unit tests of a workspace, those in tests/ that take long, and all others by one command, since cargo looks at the whole workspace each
 * time. Each of the others can be asked for by its name. All with `--workspace`: by itself a crate would be compiled once more, because what it
 * depends on has fewer features then.
 */
function cargoTests(workspace) {
  const cargo = (suite, args) => ({
    name: `cargo: ${suite} of ${workspace.name}`,
    kind: 'cargo',
    stage: 'cargo tests',
    command: ['cargo', 'test', '--workspace', ...args],
    cwd: workspace.dir,
    timeoutMs: compiled,
  });
  const crates = [...workers, ...libraries].filter((crate) => crate.workspace === workspace.dir);
  // Two crates may have a file of the same name: cargo runs both by it.
  const tests = new Set(crates.flatMap(({ dir }) => integrationTests(join(dir, 'tests'))));
  const one = (test) => cargo(test, ['--test', test]);
  const others = [...tests].filter((test) => !longOfCargo.includes(test));
  const all = others.flatMap((test) => ['--test', test]);
  return [
    ...longOfCargo.filter((test) => tests.has(test)).map(one),
    cargo('unit tests', ['--lib']),
    { ...cargo('the other tests', all), asked: 'together' },
    ...others.map((test) => ({ ...one(test), byName: true })),
  ];
}

/** As cargo finds them: tests/NAME.rs and tests/NAME/main.rs. */
function integrationTests(dir) {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .filter((entry) => entry.endsWith('.rs') || existsSync(join(dir, entry, 'main.rs')))
    .map((entry) => entry.replace(/\.rs$/, ''))
    .sort();
}

/**
 * One suite a file, or a few of them, so that one that hangs takes no more down. Run without `--test`, whose runner would count a
 * file with no test in it as a test that passed.
 */
function nodeTests(folder) {
  const dir = inRoot('tests', folder);
  const files = existsSync(dir)
    ? readdirSync(dir)
        .filter((name) => name.endsWith('.test.mjs'))
        .filter((name) => !onReleaseOnly.includes(name.replace('.test.mjs', '')))
        .sort()
    : [];
  const path = (file) => relative(root, join(dir, file));
  const groupsOf = (all) => Object.entries(all[folder] ?? {});
  const grouped = [together, inTurn].flatMap(groupsOf).flatMap(([, names]) => names);
  const suite = (file) => ({
    ...nodeSuite([path(file)]),
    name: `${folder}: ${file.replace('.test.mjs', '')}`,
    needs: folder,
    // Prometheus cannot be fetched everywhere.
    maySkip: folder === 'lab' && file === 'monitoring.test.mjs',
    byName:
      ['load.test.mjs', 'outside.test.mjs', 'soak.test.mjs'].includes(file) ||
      grouped.includes(file.replace('.test.mjs', '')),
  });
  const group = (runner, what, names) => ({
    ...nodeSuite([runner, ...names.map((name) => path(`${name}.test.mjs`))]),
    name: `${folder}: ${what}`,
    needs: folder,
    asked: 'together',
  });
  const among = (names) => (folder === 'worker' ? names.map((name) => `${name}.test.mjs`) : []);
  const [first, second] = [among(longest), among(long)];
  const others = files.filter((file) => !first.includes(file) && !second.includes(file));
  return [
    ...(folder === 'browser' ? inFirefox(files) : []),
    ...groupsOf(inTurn).map(([what, names]) => group(oneAfterTheOther, `${what}, in turn`, names)),
    ...first.map(suite),
    ...groupsOf(together).map(([what, names]) => group(inOneProcess, what, names)),
    ...[...second, ...others].map(suite),
  ];
}

/** What takes longest, so it begins. In one process, because a Firefox takes long to start. */
function inFirefox(files) {
  const path = (name) => join('tests', 'browser', `${name}.test.mjs`);
  // It cannot do all that is tested.
  const firefox = { needs: 'browser', env: { BROWSER: 'firefox' }, maySkip: true };
  const sources = firefoxDiffers.files.map((name) => readFileSync(inRoot(path(name)), 'utf8')).join();
  const gone = firefoxDiffers.tests.filter((name) => !sources.includes(name));
  if (gone.length > 0)
    throw new Error(`No test for Firefox has this in its name any more: ${gone.join(', ')}`);
  const { command, ...suite } = nodeSuite([inOneProcess, ...firefoxDiffers.files.map(path)]);
  const [node, ...args] = command;
  const names = `--test-name-pattern=${firefoxDiffers.tests.join('|')}`;
  return [
    {
      ...suite,
      ...firefox,
      name: 'browser: what Firefox does in its own way',
      command: [node, names, ...args],
    },
    ...files.map((file) => {
      const name = file.replace('.test.mjs', '');
      return {
        ...nodeSuite([path(name)]),
        ...firefox,
        name: `thorough: ${name} in Firefox`,
        byName: true,
        asked: 'thorough',
      };
    }),
  ];
}

const inOneProcess = join('tests', 'worker', 'support', 'together.mjs');
const oneAfterTheOther = join('tests', 'worker', 'support', 'in-turn.mjs');

function nodeSuite(files) {
  return {
    kind: 'node',
    runs: 'dev',
    command: ['node', '--test-reporter=spec', ...files],
    cwd: root,
    timeoutMs: served,
    // They wait for the runtime and for alarms more than they compute.
    stage: 'runtime',
    // What is stored goes with the suite; what is to outlast a kill has a folder in .wrangler.
    isTemporary: true,
  };
}
