// Ends what the test started, even if the test itself is killed: it listens to a pipe that breaks when the test is gone. The lines are
// `+ pid`, `- pid` and `d directory`.

import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';

const pids = new Set();
const directories = [];

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const what = line.slice(2);
  if (line[0] === '+') pids.add(Number(what));
  if (line[0] === '-') pids.delete(Number(what));
  if (line[0] === 'd') directories.push(what);
});
lines.on('close', () => {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // gone already
    }
  }
  for (const directory of directories)
    rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});
