// worker-build and wasm-bindgen, at the very versions that the crates are locked to, in .tools/bin.
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { inTools, tools, workers } from '../lib/paths.mjs';
import { ask, cargoProgress, runStep } from '../lib/run.mjs';
import { Stop } from '../lib/say.mjs';

export async function setUpTools() {
  await setUpTool({ program: 'worker-build', crate: 'worker-build', version: lockedVersion('worker') });
  await setUpTool({
    program: 'wasm-bindgen',
    crate: 'wasm-bindgen-cli',
    version: lockedVersion('wasm-bindgen'),
  });
  rmSync(inTools('target'), { recursive: true, force: true });
}

async function setUpTool({ program, crate, version }) {
  const ours = inTools('bin', program);
  if (existsSync(ours) && isVersion(ours, version)) return;

  rmSync(ours, { force: true }); // an older version, or a link to a program that is gone
  const onPath = process.env.PATH.split(delimiter)
    .map((dir) => join(dir, program))
    .find((file) => existsSync(file) && isVersion(file, version));
  if (onPath) {
    mkdirSync(inTools('bin'), { recursive: true });
    symlinkSync(onPath, ours);
    return;
  }

  await runStep(
    `${crate} ${version} (two or three minutes, once)`,
    'cargo',
    ['install', '--force', '--root', tools, `${crate}@${version}`],
    {
      detail: cargoProgress(),
      env: { ...process.env, CARGO_TARGET_DIR: inTools('target') },
    },
  );
}

const isVersion = (file, version) => ask(file, ['--version'])?.split(' ').pop() === version;

/** wasm-bindgen refuses code of any other version than its own, so the two crates must agree. */
function lockedVersion(crate) {
  const found = workers.map(({ name, dir }) => {
    const file = join(dir, 'Cargo.lock');
    const lock = existsSync(file) ? readFileSync(file, 'utf8') : '';
    return { name, file, version: lock.match(new RegExp(`^name = "${crate}"\nversion = "(.*)"`, 'm'))?.[1] };
  });

  for (const { file, version } of found)
    if (!version) throw new Stop(`${file} does not lock ${crate}: run cargo generate-lockfile there.`);
  if (new Set(found.map(({ version }) => version)).size === 1) return found[0].version;
  throw new Stop(
    `The two Workers are locked to different versions of ${crate}:\n` +
      found.map(({ name, version }) => `  ${name}: ${version}\n`).join('') +
      `Bring them together with: cargo update -p ${crate} --precise <version>`,
  );
}
