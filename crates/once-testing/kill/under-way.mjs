// The requests that are under way, so that a kill strikes some: one that strikes between two requests shows nothing.

import { setTimeout as pause } from 'node:timers/promises';

/** After the first of them is sent, the process lives so many ms more, from and to: the kill strikes anywhere on the way of a request. */
const STRIKES_AFTER_MS = [0, 150];
/** Nobody waits longer than this for requests that are to be struck. */
const STRIKES_WITHIN_MS = 3_000;

/** Counts requests that are under way. */
export class UnderWay {
  count = 0;
  #awaited = Promise.withResolvers();

  begin() {
    this.count += 1;
    this.#awaited.resolve();
    this.#awaited = Promise.withResolvers();
  }

  end() {
    this.count -= 1;
  }

  /** Resolves when the next one begins. */
  next() {
    return this.#awaited.promise;
  }

  /**
   * Waits for a moment at which some are under way: a kill that strikes between two requests shows nothing. `begin` lets somebody come if all
   * have gone. Gives how many there are: 0 if none came in time.
   */
  async some(between, begin = () => {}) {
    const late = Date.now() + STRIKES_WITHIN_MS;
    for (;;) {
      if (this.count === 0) {
        const next = this.next();
        begin();
        await Promise.race([next, pause(Math.max(0, late - Date.now()), null, { ref: false })]);
      }
      await pause(between(...STRIKES_AFTER_MS));
      if (this.count > 0 || Date.now() >= late) return this.count;
    }
  }
}
