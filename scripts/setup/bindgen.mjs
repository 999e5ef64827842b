// The program that writes the JavaScript around a compiled Worker: scripts/bindgen, in .tools/bin. It is the one part of
// wasm-bindgen's command line and of worker-build that we need, and compiles in a minute instead of ten.
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { inRoot, inTools, workspaces } from '../lib/paths.mjs';
import { cargoProgress, runStep } from '../lib/run.mjs';
import { Stop } from '../lib/say.mjs';

const crate = inRoot('scripts', 'bindgen');
const stamp = inTools('stamps', 'bindgen');

/** The program, once it is set up. */
export const bindgen = () => inTools('bin', 'paid-once-bindgen');

/** Of what it is made of: another one may write other files for the same Worker. */
export function bindgenDigest() {
  const hash = createHash('sha256');
  for (const file of ['Cargo.toml', 'Cargo.lock', 'src/main.rs', 'src/pack.rs'])
    hash.update(readFileSync(join(crate, file)));
  return hash.digest('hex');
}

export async function setUpBindgen() {
  versionsAgree();
  const digest = bindgenDigest();
  if (existsSync(bindgen()) && existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return;

  const target = inTools('target');
  await runStep('wasm-bindgen (about a minute, once)', 'cargo', ['build', '--locked'], {
    cwd: crate,
    detail: cargoProgress(),
    env: { ...process.env, CARGO_TARGET_DIR: target },
  });
  mkdirSync(inTools('bin'), { recursive: true });
  mkdirSync(inTools('stamps'), { recursive: true });
  copyFileSync(join(target, 'debug', 'paid-once-bindgen'), bindgen());
  rmSync(target, { recursive: true, force: true });
  writeFileSync(stamp, digest);
}

/** wasm-bindgen refuses code of any other version than its own. */
function versionsAgree() {
  const ours = lockedVersion(crate, 'wasm-bindgen-cli-support');
  for (const { name, dir } of workspaces) {
    const theirs = lockedVersion(dir, 'wasm-bindgen');
    if (theirs === ours) continue;
    throw new Stop(
      `${name} is locked to wasm-bindgen ${theirs}, and scripts/bindgen to ${ours}. Bring them together: set the version in ` +
        `scripts/bindgen/Cargo.toml, or run cargo update -p wasm-bindgen --precise ${ours} in ${dir}.`,
    );
  }
}

function lockedVersion(dir, name) {
  const file = join(dir, 'Cargo.lock');
  const lock = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const version = lock.match(new RegExp(`^name = "${name}"\nversion = "(.*)"`, 'm'))?.[1];
  if (!version) throw new Stop(`${file} does not lock ${name}: run cargo generate-lockfile there.`);
  return version;
}
