// Waits on a signal: asks until `condition` gives something true, and gives that. The deadline only ends what hangs. The longer it
// has waited the less often it asks: a question costs the processor some ten milliseconds, of which the other suites have more use.

import { setTimeout as pause } from 'node:timers/promises';

/** What takes longer hangs: no machine is that slow. */
export const HANGS_AFTER_MS = 10 * 60_000;

/** `what` is waited for, in words, or a function that gives them when it has not come. */
export async function until(what, condition, { withinMs = HANGS_AFTER_MS, everyMs = 15 } = {}) {
  const since = Date.now();
  for (;;) {
    const found = await condition();
    if (found) return found;
    const waitedMs = Date.now() - since;
    if (waitedMs > withinMs)
      throw new Error(`not within ${withinMs} ms: ${what instanceof Function ? what() : what}`);
    await pause(Math.max(everyMs, Math.min(waitedMs / 4, 500)));
  }
}
