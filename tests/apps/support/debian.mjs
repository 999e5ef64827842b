// Packages of Debian in a folder of their own, so that the machine stays as it is.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { inTools } from '../../../scripts/lib/paths.mjs';
import { ask, runStep } from '../../../scripts/lib/run.mjs';
import { asRoot } from '../../../scripts/setup/apt.mjs';

const RELEASE = 'bookworm';

/** Why there can be none here; `undefined` where they can be. */
export const cannot = () =>
  process.getuid() === 0 && ask('apt-get', ['--version']) !== null
    ? undefined
    : 'it needs root, and apt, to unpack packages of Debian into a folder';

/** The folder in which they are installed; `prepare` is done in it once. It takes a minute the first time, and is kept in .tools/. */
export async function debian(name, packages, prepare) {
  const folder = inTools(`debian-${name}`);
  const stamp = join(folder, 'prepared');
  if (existsSync(stamp)) return folder;
  rmSync(folder, { recursive: true, force: true });
  if (ask('debootstrap', ['--version']) === null)
    await asRoot('debootstrap', ['apt-get', 'install', '--yes', '--no-install-recommends', 'debootstrap']);
  mkdirSync(folder, { recursive: true });
  await runStep(`Debian for ${name}`, 'debootstrap', ['--variant=minbase', RELEASE, folder], {
    timeoutMs: 600_000,
  });
  // Nothing is started when it is installed.
  writeFileSync(join(folder, 'usr/sbin/policy-rc.d'), '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  const install = `export DEBIAN_FRONTEND=noninteractive; apt-get update && apt-get install --yes --no-install-recommends ${packages.join(' ')}`;
  await runStep(`packages for ${name}`, 'chroot', [folder, 'sh', '-c', install], { timeoutMs: 600_000 });
  prepare(folder);
  writeFileSync(stamp, '');
  return folder;
}

/** Runs a command in it to its end. */
export function within(folder, command) {
  const { status, stdout, stderr } = spawnSync('chroot', [folder, 'sh', '-c', command], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command}: ${stdout}${stderr}`);
  return stdout;
}

/** Starts a server in it; `stop` ends it with all of its processes. */
export function serve(folder, command) {
  const server = spawn('chroot', [folder, 'sh', '-c', `exec ${command}`], {
    stdio: 'ignore',
    detached: true,
  });
  return { stop: () => process.kill(-server.pid) };
}
