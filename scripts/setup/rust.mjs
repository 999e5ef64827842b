// A Rust toolchain that can compile to wasm32-unknown-unknown: the machine's own if it can, else with rustup's help,
// else Debian's (see rust-debian.mjs).
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { inRoot, inTools, wasmTarget } from '../lib/paths.mjs';
import { ask, run } from '../lib/run.mjs';
import { Stop, step } from '../lib/say.mjs';
import * as debian from './rust-debian.mjs';

export async function setUpRust({ lints }) {
  const isComplete = canBuildWasm() && (!lints || canLint());
  if (!isComplete && debian.isReady()) debian.use();
  if (!canBuildWasm()) await addWasmTarget();
  if (lints && !canLint()) await addLints();
  forgetOtherToolchain();
}

async function addWasmTarget() {
  if (await rustup(`Rust's ${wasmTarget} target`, ['target', 'add', wasmTarget])) return;
  await useDebian(`rustup could not add the target ${wasmTarget}`);
}

async function addLints() {
  if (await rustup('rustfmt and clippy', ['component', 'add', 'rustfmt', 'clippy'])) return;
  await useDebian('rustup could not add rustfmt and clippy');
}

/** True when it worked. Two minutes are enough for a download; a network without an answer must not hold us longer. */
async function rustup(title, args) {
  if (ask('rustup', ['--version']) === null) return false;
  const shown = step(`${title} by rustup`);
  const { ok } = await run('rustup', args, {
    timeoutMs: 120_000,
    onLine: (line) => shown.detail(line.trim()),
  });
  if (ok) shown.done();
  else shown.fail();
  return ok;
}

async function useDebian(reason) {
  const problem = ask('rustc', ['--version']) === null ? 'there is no working rustc on PATH' : reason;
  if (!debian.isPossible()) {
    throw new Stop(
      `Rust is not complete: ${problem}.\nInstall it with rustup (https://rustup.rs), then run:\n` +
        `  rustup target add ${wasmTarget}\n  rustup component add rustfmt clippy`,
    );
  }
  if (!debian.isReady()) await debian.install(problem);
  debian.use();
}

function canBuildWasm() {
  const sysroot = ask('rustc', ['--print', 'sysroot']);
  const std = sysroot && join(sysroot, 'lib', 'rustlib', wasmTarget, 'lib');
  return Boolean(std) && existsSync(std) && readdirSync(std).some((file) => /^libstd-.*\.rlib$/.test(file));
}

const canLint = () => ['fmt', 'clippy'].every((tool) => ask('cargo', [tool, '--version']) !== null);

/** Which compiler and which standard library: what a wasm build depends on beside its sources. */
export const toolchain = () => `${ask('rustc', ['-vV'])}\n${ask('rustc', ['--print', 'sysroot'])}`;

/** cargo does not notice another build of the standard library under the same compiler, and fails at the link. */
function forgetOtherToolchain() {
  const stamp = inTools('stamps', 'toolchain');
  const now = toolchain();
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return;
  const target = process.env.CARGO_TARGET_DIR ?? inRoot('target');
  rmSync(join(target, wasmTarget), { recursive: true, force: true });
  mkdirSync(inTools('stamps'), { recursive: true });
  writeFileSync(stamp, now);
}
