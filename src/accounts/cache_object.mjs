// What one isolate after the other would read of the registry of accounts, read once for all of them: an object that stores nothing, off without the
// binding `ACCOUNTS_CACHE`. What it knows is what D1 has: hashes of tokens, settings, sealed keys. Plain JavaScript: no trap of the WebAssembly makes
// it forget.
import { DurableObject } from 'cloudflare:workers';

import { RowCache } from './row_cache.mjs';

/** How long D1 may take. Who asks waits a second longer: that the object is there and D1 is not is not the same as no object. */
const READING_MS = 2_000;

export class AccountsCacheObject extends DurableObject {
  /** Of each statement the rows of many values. */
  #caches = new Map();

  /**
   * By RPC, a text for a text: `{"sql", "value", "lasts_ms"}` for `{"rows": […], "age_ms"}`, or for `{"unreadable": "why"}`: then D1 did not answer.
   */
  async ask(text) {
    const { sql, value, lasts_ms } = JSON.parse(text);
    try {
      const { rows, ageMs } = await inTime(this.#of(sql).get(value, lasts_ms));
      return `{"rows":${rows},"age_ms":${ageMs}}`;
    } catch (error) {
      return JSON.stringify({ unreadable: String(error) });
    }
  }

  #of(sql) {
    const known = this.#caches.get(sql);
    if (known) return known;
    const readRows = async (value) =>
      JSON.stringify((await this.env.DB.prepare(sql).bind(value).all()).results);
    const cache = new RowCache({ readRows, now: Date.now });
    this.#caches.set(sql, cache);
    return cache;
  }
}

/** What is late is kept all the same, for who asks next. */
async function inTime(reading) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`D1 took longer than ${READING_MS / 1000} s`)), READING_MS);
  });
  try {
    return await Promise.race([reading, late]);
  } finally {
    clearTimeout(timer);
  }
}
