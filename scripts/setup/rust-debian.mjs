// The way out where rustup cannot download: Debian's own Rust (the packages *-web of bookworm-security). It has no
// standard library for wasm but brings its sources, so we compile one, in about half a minute.
//
// The packages are unpacked inside .tools/ and not installed: that needs no root, and leaves the machine as it was.
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  existsSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, join } from 'node:path';

import { inTools, wasmTarget } from '../lib/paths.mjs';
import { ask, cargoProgress, runStep } from '../lib/run.mjs';
import { Stop, say } from '../lib/say.mjs';
import { asRoot } from './apt.mjs';

const packages = ['rustc-web', 'cargo-web', 'rust-web-src', 'rust-web-clippy', 'rustfmt-web'];
const programs = ['rustc', 'rustdoc', 'cargo', 'cargo-clippy', 'clippy-driver', 'cargo-fmt', 'rustfmt'];

const home = inTools('rust-debian');
const usr = join(home, 'usr');
const bin = join(home, 'bin');
const stamp = join(home, 'ready');

export const isReady = () => existsSync(stamp);
export const isPossible = () =>
  ask('apt-get', ['--version']) !== null && ask('dpkg-deb', ['--version']) !== null;

/** Puts this toolchain before every other one, rustup's included, for all children. */
export function use() {
  delete process.env.RUSTUP_TOOLCHAIN;
  const cargoBin = join(process.env.CARGO_HOME ?? join(process.env.HOME, '.cargo'), 'bin');
  // cargo looks for `cargo clippy` in its own bin folder first, unless PATH says where that folder ranks.
  process.env.PATH = [bin, process.env.PATH, cargoBin].join(delimiter);
}

export async function install(problem) {
  say(
    `  ${problem}: taking Debian's Rust instead, into .tools/rust-debian (900 MB; about two minutes, once).`,
  );
  rmSync(home, { recursive: true, force: true });
  mkdirSync(bin, { recursive: true });
  await download(await packageNames());
  await unpack();
  makePrograms();
  await compileStandardLibrary();
  writeFileSync(stamp, '');
}

/** The packages and what they need that this machine does not have, as apt resolves it. */
async function packageNames() {
  const resolve = () =>
    ask('apt-get', [
      'install',
      '--print-uris',
      '--yes',
      '--reinstall',
      '--no-install-recommends',
      ...packages,
    ]);
  let uris = resolve();
  if (uris === null) {
    // A container image usually comes without apt's lists.
    await asRoot('apt package lists', ['apt-get', 'update']);
    uris = resolve();
  }
  if (uris === null)
    throw new Stop(
      `apt does not know the packages ${packages.join(', ')}: install Rust with https://rustup.rs`,
    );

  const names = new Set([...uris.matchAll(/^'[^']+' ([^_\s]+)_/gm)].map(([, name]) => name));
  // Also when they are installed: the compiler must find its libraries beside itself, and a linker of its own LLVM.
  const needed = ask('apt-cache', ['depends', 'rustc-web', 'libstd-rust-web-dev', 'rust-web-clippy']) ?? '';
  for (const [, name] of needed.matchAll(/Depends: (libstd-rust-web-\S+)/g)) names.add(name);
  const llvm = (
    ask('apt-cache', ['depends', ...[...names].filter((name) => /^libstd-rust-web-\d/.test(name))]) ?? ''
  ).match(/libllvm(\d+)/);
  if (llvm) names.add(llvm[0]).add(`lld-${llvm[1]}`);
  return [...names];
}

async function download(names) {
  await runStep(`Debian's Rust: ${names.length} packages`, 'apt-get', ['download', ...names], {
    cwd: home,
    timeoutMs: 600_000,
  });
}

async function unpack() {
  const each =
    'for file in *.deb; do echo "$file"; dpkg-deb --extract "$file" . && rm "$file" || exit 1; done';
  await runStep("unpacking Debian's Rust", 'sh', ['-c', each], { cwd: home });
}

/** The programs, each told where its libraries are, and the linker where rustc looks for it. */
function makePrograms() {
  const libraries = join(usr, 'lib', multiarch());
  for (const program of programs) {
    const file = join(bin, program);
    writeFileSync(
      file,
      `#!/bin/sh\nLD_LIBRARY_PATH="${libraries}:$LD_LIBRARY_PATH" exec "${join(usr, 'bin', program)}" "$@"\n`,
    );
    chmodSync(file, 0o755);
  }

  const host = ask(join(bin, 'rustc'), ['-vV'])?.match(/^host: (.*)$/m)?.[1];
  if (!host) throw new Stop(`Debian's rustc does not start: try ${join(bin, 'rustc')} -vV`);
  const llvm = readdirSync(join(usr, 'lib')).find((name) => name.startsWith('llvm-'));
  const linkers = join(usr, 'lib', 'rustlib', host, 'bin');
  mkdirSync(linkers, { recursive: true });
  symlinkSync(join(usr, 'lib', llvm, 'bin', 'lld'), join(linkers, 'rust-lld'));
}

const multiarch = () => readdirSync(join(usr, 'lib')).find((name) => name.endsWith('-linux-gnu'));

/** Builds an empty crate together with the standard library, and keeps the library. */
async function compileStandardLibrary() {
  const crate = join(home, 'wasm-std');
  mkdirSync(join(crate, 'src'), { recursive: true });
  writeFileSync(join(crate, 'Cargo.toml'), '[package]\nname = "wasm-std"\nedition = "2021"\n\n[workspace]\n');
  writeFileSync(join(crate, 'src', 'lib.rs'), '#![no_std]\n');

  await runStep(
    `the standard library for ${wasmTarget}`,
    join(bin, 'cargo'),
    ['build', '--release', '--target', wasmTarget, '-Zbuild-std=std,panic_abort,proc_macro'],
    {
      cwd: crate,
      detail: cargoProgress(),
      env: {
        ...process.env,
        CARGO_TARGET_DIR: join(crate, 'target'),
        RUSTC: join(bin, 'rustc'),
        RUSTC_BOOTSTRAP: '1', // -Zbuild-std on a stable compiler
        RUSTFLAGS: '-Cembed-bitcode=yes', // for lto = "fat"
      },
    },
  );

  const built = join(crate, 'target', wasmTarget, 'release', 'deps');
  const kept = join(usr, 'lib', 'rustlib', wasmTarget, 'lib');
  mkdirSync(kept, { recursive: true });
  for (const file of readdirSync(built)) {
    if (file.endsWith('.rlib') && !file.startsWith('libwasm_std'))
      copyFileSync(join(built, file), join(kept, file));
  }
  rmSync(crate, { recursive: true, force: true });
}
