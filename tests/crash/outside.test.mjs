// A Worker with the engine in a project of somebody else: an empty folder outside of this repository, with what the README of once-object
// says, built by worker-build. To compile that takes minutes, once: this is run when it is asked for.

import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';

import { Runtime, send, temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { inRoot, inTools } from '../../scripts/lib/paths.mjs';
import { run } from '../../scripts/lib/run.mjs';
import { bindgen } from '../../scripts/setup/bindgen.mjs';
import { Bank, transfer } from './transfer-bank.mjs';

const EXAMPLES = [
  'crates/once-object/examples/transfers/src/lib.rs',
  'crates/once/examples/transfer/flow.rs',
];
const README = readFileSync(inRoot('crates/once-object/README.md'), 'utf8');
const project = temporaryDirectory('outside');

before(async () => {
  const [, version] = README.match(/cargo install (worker-build@[\d.]+)/);
  const tools = inTools('worker-build');
  // What is installed already is left alone.
  await done('cargo', ['install', version, '--locked', '--debug', '--root', tools]);
  write();
  await done(join('node_modules', '.bin', 'wrangler'), ['deploy', '--dry-run', '--outdir', 'bundle'], {
    cwd: project,
    env: {
      ...process.env,
      PATH: `${join(tools, 'bin')}:${process.env.PATH}`,
      CARGO_NET_OFFLINE: 'true',
      CARGO_TARGET_DIR: inRoot('target', 'outside'),
      // Otherwise it fetches both from the network.
      ESBUILD_BIN: inRoot('node_modules', '.bin', 'esbuild'),
      WASM_BINDGEN_BIN: join(project, 'wasm-bindgen'),
    },
  });
});

test('the Worker of the README executes an operation once, and goes on after a panic', async (t) => {
  const bank = new Bank();
  await bank.start();
  const worker = new Runtime({
    root: project,
    directory: temporaryDirectory('outside-worker'),
    config: 'wrangler.toml',
    entry: 'bundle/entry.js',
    vars: { BANK: bank.origin },
  });
  t.after(async () => {
    await worker.close();
    bank.close();
  });
  await worker.start();
  const asked = transfer('shop', 'k1');
  const ask = () => send(worker.origin, asked.path, asked);

  bank.holds = true;
  const underWay = ask();
  await bank.reached(1);
  assert.equal((await send(worker.origin, '/panics')).status, 500);
  assert.equal((await underWay).status, 500);
  bank.holds = false;

  const [answer, replay] = [await ask(), await ask()];
  assert.deepEqual([answer.status, answer.text], [200, 'sent']);
  assert.deepEqual([replay.status, replay.text], [200, 'sent']);
  assert.equal(replay.headers['idempotent-replayed'], 'true');
  assert.equal(bank.executed.length, 1);
  await bank.told(1);
});

/** The project: what the README shows, with this checkout for its `../paid-once`. It is built fast, and another path than an account's panics. */
function write() {
  for (const file of ['Cargo.toml', 'wrangler.toml', 'entry.mjs']) {
    const [, text] = README.match(new RegExp(`^\`\`\`\\w+\n(?:#|//) ${file}\n(.*?)^\`\`\``, 'ms'));
    const fast = text
      .replaceAll('../paid-once', inRoot())
      .replace('worker-build --release', 'worker-build --dev');
    writeFileSync(join(project, file), fast);
  }
  mkdirSync(join(project, 'src'));
  const [lib, flow] = EXAMPLES.map((file) => readFileSync(inRoot(file), 'utf8'));
  const panics = lib.replace(/^#\[path.*\n/m, '').replace('Response::error("not found", 404)', 'panic!()');
  writeFileSync(join(project, 'src', 'lib.rs'), panics);
  writeFileSync(join(project, 'src', 'flow.rs'), flow);
  copyFileSync(inRoot('Cargo.lock'), join(project, 'Cargo.lock'));
  symlinkSync(inRoot('node_modules'), join(project, 'node_modules'));
  // As worker-build calls it: WASM --out-dir FOLDER …
  writeFileSync(join(project, 'wasm-bindgen'), `#!/bin/sh\nexec '${bindgen()}' "$1" "$3"\n`, { mode: 0o755 });
}

async function done(command, args, options) {
  const { ok, lines } = await run(command, args, options);
  assert.ok(ok, [command, ...args, ...lines.slice(-60)].join('\n'));
}
