// What processes take, as Linux tells it.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Of /proc/PID/stat: a tick is a hundredth of a second. */
const TICK_MS = 10;

/** User and system time of all their threads, and of their children that have ended. */
export const cpuMs = (pids) => sum(pids, cpuOf);

function cpuOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return sum(fields.slice(11, 15), Number) * TICK_MS;
}

/** What they have of the machine's memory, without files, in bytes; what they share counts once. */
export const memory = (pids) => sum(pids, memoryOf);

function memoryOf(pid) {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const kilobytes = [...rollup.matchAll(/^Pss_(?:Anon|Shmem):\s+(\d+) kB/gm)].map(([, size]) => Number(size));
  return sum(kilobytes, (size) => size * 1024);
}

/** The processes that this one has started. */
export const offspring = (pid) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);

/** What the files of a folder take on the disk, in bytes. */
export function bytesIn(dir) {
  if (!existsSync(dir)) return 0;
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return sum(files, ({ parentPath, name }) => statSync(join(parentPath, name)).blocks * 512);
}

const sum = (all, of) => all.reduce((total, one) => total + of(one), 0);

/** Work that goes on after the answers has ended when this little was done in this long. */
const quiet = { cpuMs: 20, inMs: 200, patienceMs: 20_000 };

/** Resolves when nothing is left to be done and the site rests. */
export async function settled(site, left = () => 0) {
  const end = Date.now() + quiet.patienceMs;
  for (;;) {
    const before = site.cpuMs();
    await sleep(quiet.inMs);
    if (site.cpuMs() - before <= quiet.cpuMs && (await left()) === 0) return;
    if (Date.now() > end) throw new Error('it does not come to rest');
  }
}
