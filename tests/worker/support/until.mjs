// Waits on a signal: asks until `condition` gives something true, and gives that. The deadline only ends what hangs.

import { setTimeout as pause } from 'node:timers/promises';

export async function until(what, condition, { withinMs = 60_000, everyMs = 15 } = {}) {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await pause(everyMs);
  }
}
