// `npm run build`: builds the Workers, each into its own build/ folder. A Worker whose inputs did not change is left alone.
//
//   npm run build -- desk               these Workers alone
//   npm run build -- --compile          nothing is put into build/
//   BUILD_PROFILE=dev npm run build     fast: for tests, and to try them on this machine. What is deployed or measured is built without it
//   BUILD_PROFILE=tested npm run build  as a whole `npm test` runs them: the payments Worker as it is deployed, the others fast
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

import { adapted } from './lib/glue.mjs';
import { demo, examples, inRoot, root, wasmTarget, workers } from './lib/paths.mjs';
import { cargoProgress, endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script, step } from './lib/say.mjs';
import { setUp } from './setup.mjs';
import { bindgen, bindgenDigest } from './setup/bindgen.mjs';
import { toolchain } from './setup/rust.mjs';

// All that a Worker is made of. What a crate includes from elsewhere at compile time must be added here.
const ownInputs = [
  'src',
  'crates',
  'templates',
  'static',
  'migrations',
  'build.rs',
  'Cargo.toml',
  'Cargo.lock',
  'askama.toml',
];
const sharedInputs = ['crates', 'static', 'Cargo.toml', 'Cargo.lock'];
// What is made beside them, as in the folder of an example, is none of it.
const made = ['build', '.wrangler'];

/** The files and folders that a Worker is made of, from its own folder. */
export const inputsOf = ({ dir, workspace }) => [
  ...ownInputs,
  ...(dir === root ? documents : []),
  ...(dir === workspace ? [] : sharedInputs.map((input) => relative(dir, join(workspace, input)))),
];

// Static files beside the Worker, by their folders in build/assets.
const assets = {
  'paid-once': {
    docs: ['static/docs.css', 'static/docs.js', 'static/guide.css'],
    pages: [
      'checkout.css',
      'preview.png',
      'cards.svg',
      'lift-off.svg',
      'patch.svg',
      'mug.svg',
      'star-map.svg',
    ].map((file) => `static/${file}`),
  },
};

// Programs that write more of them, into the folder named. They are made for the machine that builds, and are no part of a Worker.
const writers = {
  'paid-once': [
    { crate: 'paid-once', program: 'api-document', folder: 'docs' },
    { crate: 'paid-once-guide', program: 'write-guide', folder: 'guide', args: [root] },
  ],
};
/** What they read beside the inputs of their Worker: the documents. */
const documents = [
  'docs',
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'simulator/README.md',
];

// A library of Rust's beside it has rustc leave LTO away, as what is deployed was measured.
const release = { profile: 'release', folder: 'release', types: 'cdylib,rlib' };

/**
 * What cargo calls them and their folder, and whether functions keep their names: for the stack of a trap, and for a profile of the release.
 * `settings` are beside those of Cargo.toml. `types` are what the Worker's crate is compiled into.
 */
const profiles = {
  // Cargo's own, so that macros and build scripts are those of the tests: a profile of another name has them all compiled once more.
  dev: {
    profile: 'dev',
    folder: 'debug',
    types: 'cdylib',
    named: true,
    settings: {
      // For size, as the release: what is smaller is compiled as soon, and a runtime starts with it in less time. Tests start hundreds.
      CARGO_PROFILE_DEV_OPT_LEVEL: 'z',
      CARGO_PROFILE_DEV_CODEGEN_UNITS: '256',
      CARGO_PROFILE_DEV_DEBUG: 'none',
      CARGO_PROFILE_DEV_DEBUG_ASSERTIONS: 'false',
      CARGO_PROFILE_DEV_OVERFLOW_CHECKS: 'false',
    },
  },
  release: { ...release, named: false },
  named: { ...release, named: true },
};

/**
 * Builds the Workers named, by default those of the demo. `profile` is what `BUILD_PROFILE` says, where it says anything. With `compiles` it compiles
 * the WebAssembly alone, and leaves build/ as it is: a later build has little left to do.
 */
export async function build({
  names = demo.map(({ name }) => name),
  profile = 'release',
  compiles = false,
} = {}) {
  const wanted = process.env.BUILD_PROFILE ?? profile;
  if (wanted !== TESTED && !Object.hasOwn(profiles, wanted))
    throw new Stop(`BUILD_PROFILE is "${wanted}": set it to dev, release, named or tested, or leave it out.`);
  const work = compiles ? compileWorker : buildWorker;
  for (const worker of [...workers, ...examples].filter(({ name }) => names.includes(name)))
    await work(worker, profiles[wanted === TESTED ? testedAs(worker) : wanted]);
}

/** The release of the payments Worker is compiled for a whole `npm test` anyway: then it is what all suites run, and is compiled once. */
const TESTED = 'tested';
const testedAs = ({ dir }) => (dir === root ? 'release' : 'dev');

async function compileWorker(worker, profile) {
  const shown = step(`compiling ${worker.name}`);
  try {
    await compile(worker, profile, shown);
  } catch (error) {
    shown.fail();
    throw error;
  }
  shown.done();
}

async function buildWorker(worker, profile) {
  const { name, dir } = worker;
  const out = join(dir, 'build');
  const stamp = join(out, '.inputs');
  const wanted = digest(worker, JSON.stringify(profile), Object.values(assets[name] ?? {}).flat());
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted && existsSync(join(out, 'index_bg.wasm'))) {
    return say(`  ✓ ${name} is built already (${wasmSize(out)})`);
  }

  rmSync(stamp, { force: true });
  const shown = step(`building ${name}`);
  try {
    const [wasm] = await Promise.all([compile(worker, profile, shown), compileWriters(worker)]);
    await bind(wasm, out, profile);
    if (dir === root) writeMigrations(out);
    copyAssets(dir, out, assets[name] ?? {});
    await writeAssets(worker, out);
  } catch (error) {
    shown.fail();
    throw error;
  }
  writeFileSync(stamp, wanted);
  shown.done(`${name} is built: ${wasmSize(out)}`);
}

/** Set-up sets it; a test that builds an example may be run without. */
const targetFolder = () => process.env.CARGO_TARGET_DIR ?? inRoot('target');

/**
 * The programs that write the Worker's other static files, if it has any. Cargo compiles them with the tests, too, at their level and with what
 * their crates ask of others: where these are built already (`TESTS_ARE_BUILT`), to compile them by themselves would compile all crates once more.
 */
async function compileWriters({ name, dir }) {
  const programs = writers[name] ?? [];
  if (programs.length === 0) return;
  const built = process.env.TESTS_ARE_BUILT
    ? ['test', '--workspace', '--no-run']
    : ['build', ...programs.flatMap(({ crate, program }) => ['--package', crate, '--bin', program])];
  const { ok, lines } = await run('cargo', [...built, '--locked'], {
    cwd: dir,
    env: { ...process.env, CARGO_TARGET_DIR: targetFolder() },
  });
  if (!ok)
    throw new Stop([...lines.slice(-60), '', 'Building the writers of the static files failed.'].join('\n'));
}

async function writeAssets({ name }, out) {
  for (const { program, folder, args = [] } of writers[name] ?? []) {
    const writer = join(targetFolder(), 'debug', program);
    const { ok, lines } = await run(writer, [...args, join(out, 'assets', folder)]);
    if (!ok) throw new Stop([...lines, '', `${program} failed.`].join('\n'));
  }
}

/** The WebAssembly as the compiler leaves it. */
async function compile({ name, dir }, { profile, folder, types, settings }, shown) {
  const progress = cargoProgress();
  const target = targetFolder();
  const { ok, lines } = await run(
    'cargo',
    ['rustc', '--lib', '--crate-type', types, '--locked', '--target', wasmTarget, '--profile', profile],
    {
      cwd: dir,
      // The bindings of futures are js-sys' own, as worker-build has it: wasm-bindgen-futures is not needed then.
      env: { ...process.env, ...settings, CARGO_TARGET_DIR: target, WASM_BINDGEN_USE_JS_SYS: '1' },
      onLine: (line) => shown.detail(progress(line)),
    },
  );
  if (!ok) throw new Stop([...lines.slice(-60), '', `Building ${name} failed.`].join('\n'));
  const [, crate] = readFileSync(join(dir, 'Cargo.toml'), 'utf8').match(/^name = "(.*)"/m);
  return join(target, wasmTarget, folder, `${crate.replaceAll('-', '_')}.wasm`);
}

/**
 * `index_bg.wasm`, and `index.js` that gives it to JavaScript: what src/entry.mjs of each Worker builds on. As worker-build of
 * workers-rs does it, without its shim: ours begins anew after a trap by itself.
 */
async function bind(wasm, out, { named }) {
  const raw = `${out}.raw`;
  rmSync(raw, { recursive: true, force: true });
  const { ok, lines } = await run(bindgen(), [wasm, raw, ...(named ? [] : ['--without-names'])]);
  if (!ok) throw new Stop([...lines, '', `wasm-bindgen failed for ${wasm}.`].join('\n'));
  const glue = join(raw, 'index.js');
  writeFileSync(glue, adapted(readFileSync(glue, 'utf8')));
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const { build: bundle } = await import('esbuild'); // set-up installs it
  await bundle({
    entryPoints: [glue],
    outfile: join(out, 'index.js'),
    bundle: true,
    minify: true,
    format: 'esm',
    external: ['./index_bg.wasm', 'cloudflare:*'],
    logLevel: 'error',
  });
  copyFileSync(join(raw, 'index_bg.wasm'), join(out, 'index_bg.wasm'));
  rmSync(raw, { recursive: true });
}

/** The migrations as a module: a shard of the read model makes the tables of D1 by itself. */
function writeMigrations(out) {
  const folder = inRoot('migrations');
  const files = readdirSync(folder).filter((file) => file.endsWith('.sql'));
  const migrations = files.sort().map((file) => [file, readFileSync(join(folder, file), 'utf8')]);
  writeFileSync(join(out, 'migrations.mjs'), `export const migrations = ${JSON.stringify(migrations)};\n`);
}

function copyAssets(dir, out, folders) {
  for (const [folder, files] of Object.entries(folders)) {
    mkdirSync(join(out, 'assets', folder), { recursive: true });
    for (const file of files) copyFileSync(join(dir, file), join(out, 'assets', folder, basename(file)));
  }
}

function digest(worker, profile, more) {
  const { dir } = worker;
  const hash = createHash('sha256').update(toolchain()).update(bindgenDigest()).update(profile);
  hash.update(readFileSync(inRoot('scripts', 'lib', 'glue.mjs')));
  for (const file of [...inputsOf(worker), ...more].flatMap((input) => filesIn(dir, input))) {
    hash.update(`\0${file}\0`).update(readFileSync(join(dir, file)));
  }
  return hash.digest('hex');
}

function filesIn(dir, path) {
  const full = join(dir, path);
  if (!existsSync(full) || made.includes(basename(path))) return [];
  if (!statSync(full).isDirectory()) return [path];
  return readdirSync(full)
    .sort()
    .flatMap((name) => filesIn(dir, join(path, name)));
}

function wasmSize(out) {
  const wasm = readFileSync(join(out, 'index_bg.wasm'));
  return `${Math.round(gzipSync(wasm).length / 1024)} KB of wasm gzipped`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  endOnSignals({ exitCode: 130 });
  await script(async () => {
    const args = process.argv.slice(2);
    const compiles = args.includes('--compile');
    const named = args.filter((name) => name !== '--compile');
    const names = named.length > 0 ? named : workers.map(({ name }) => name);
    await setUp();
    // `wrangler dev` builds anew after each change, and tells its build command that it is that.
    const profile = process.env.WRANGLER_COMMAND === 'dev' ? 'dev' : 'release';
    await build({ names, profile, compiles });
  });
}
