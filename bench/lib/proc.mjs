// What processes take, as Linux tells it.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Of /proc/PID/stat: a tick is a hundredth of a second. */
const TICK_MS = 10;

/** User and system time of all their threads. */
export const cpuMs = (pids) => sum(pids, cpuOf);

function cpuOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** What is their own in the machine's memory, in bytes. */
export const memory = (pids) => sum(pids, privateOf);

function privateOf(pid) {
  const [, kilobytes] =
    /^Private_Dirty:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}

/** What the files of a folder take on the disk, in bytes. */
export function bytesIn(dir) {
  if (!existsSync(dir)) return 0;
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return sum(files, ({ parentPath, name }) => statSync(join(parentPath, name)).blocks * 512);
}

const sum = (all, of) => all.reduce((total, one) => total + of(one), 0);
