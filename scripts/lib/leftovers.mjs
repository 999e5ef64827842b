// What processes leave that could not end by themselves: wrangler's bundles, some megabytes each time, and temporary folders. Each is named by the
// process that it is of (own-names.mjs), and goes once that does not run any more.
import { mkdirSync, readFileSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { inRoot, workers } from './paths.mjs';

/**
 * What wrangler is to be started with, so that its folders are known by their process. By `--require`: with `--import` Node loads wrangler itself as an
 * ES module would be loaded, and reads its 15 MB for names of exports first.
 */
export const ownNames = inRoot('scripts', 'lib', 'own-names.mjs');

const own = new Set();

/** The folder in .wrangler/ that this process has for something. It is removed when the process ends. */
export const ownFolder = (what) => owned(inRoot('.wrangler', `of-${process.pid}-${what}`));

function owned(folder) {
  mkdirSync(folder, { recursive: true });
  if (own.size === 0)
    process.once('exit', () => own.forEach((folder) => rmSync(folder, { recursive: true, force: true })));
  own.add(folder);
  return folder;
}

/** A file system in memory, where Linux has one. */
const MEMORY = '/dev/shm';
const inMemory = join(MEMORY, `paid-once-of-${process.pid}`);
/** More than all suites that run at once store, and beside it more than they compute with. */
const ROOM = { stored: 4 * 2 ** 30, available: 8 * 2 ** 30 };

/**
 * The environment of children that have what is temporary in memory, if there is room; it goes with this process. The runtime stores each change for
 * good before it goes on, which on a disk takes suites up to a third of their processor time.
 */
export function temporaryInMemory() {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    const hasRoom = bavail * bsize > ROOM.stored && process.availableMemory() > ROOM.available;
    return hasRoom ? { TMPDIR: owned(inMemory) } : {};
  } catch {
    return {};
  }
}

/** Removes what is left of processes that have ended, and nothing of one that runs. Gives what it has removed. */
export function removeLeftovers() {
  return [
    ...[tmpdir(), MEMORY, inMemory].flatMap((folder) => leftIn(folder, /^paid-once-of-(\d+)$/)),
    ...leftIn(inRoot('.wrangler'), /^of-(\d+)-/),
    ...workers.flatMap(({ dir }) => leftIn(join(dir, '.wrangler', 'tmp'), /^[a-z-]+-(\d+)-\w{6}$/)),
  ];
}

function leftIn(folder, named) {
  return entriesOf(folder)
    .filter((name) => named.test(name) && !isAlive(Number(named.exec(name)[1])))
    .map((name) => join(folder, name))
    .filter(isRemoved);
}

function entriesOf(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Another user's stays. */
function isRemoved(path) {
  try {
    rmSync(path, { recursive: true });
    return true;
  } catch {
    return false;
  }
}

/** Whether a process runs. One that was killed is known to the kernel until its parent has heard of it. */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
  return !/\) Z /.test(statusOf(pid));
}

/** proc(5), where there is one. */
function statusOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}
