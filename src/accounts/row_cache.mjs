// The rows that a statement gives for a name, read at most once in a while however many ask. Pure: the clock and the reading are given to it.

/** How much is kept of names that have rows, in characters. */
const FOUND_CHARS = 1_000_000;
/** How much is kept of names that have none: whoever makes names up drives out only these. */
const ABSENT_CHARS = 200_000;
/** What an entry takes beside its name and its rows, about. */
const ENTRY_CHARS = 100;

export class RowCache {
  #now;
  #readRows;
  #found;
  #absent;
  /** The newest reading of each name that is under way. */
  #reading = new Map();

  /** `readRows` gives the rows of a name, as JSON; `now` the time in ms. */
  constructor({ readRows, now, foundChars = FOUND_CHARS, absentChars = ABSENT_CHARS }) {
    this.#readRows = readRows;
    this.#now = now;
    this.#found = new Bounded(foundChars);
    this.#absent = new Bounded(absentChars);
  }

  /**
   * The rows of a name, as JSON, and their age in ms: of a reading that began less than `lastsMs` ago, or of a new one. What is written while they
   * are read may not be among them, so their age counts from the beginning.
   */
  async get(name, lastsMs) {
    const known = this.#found.use(name) ?? this.#absent.use(name);
    const { rows, beganAtMs } = this.#isFresh(known, lastsMs) ? known : await this.#read(name, lastsMs);
    return { rows, ageMs: Math.max(0, this.#now() - beganAtMs) };
  }

  /** A clock that was set back makes nothing younger. */
  #isFresh(reading, lastsMs) {
    const ageMs = this.#now() - reading?.beganAtMs;
    return ageMs >= 0 && ageMs < lastsMs;
  }

  /** Joins a reading that is under way, if it is not too old; begins one if not. */
  #read(name, lastsMs) {
    const underWay = this.#reading.get(name);
    if (this.#isFresh(underWay, lastsMs)) return underWay.done;
    const reading = { beganAtMs: this.#now() };
    reading.done = this.#finish(name, reading);
    this.#reading.set(name, reading);
    return reading.done;
  }

  async #finish(name, reading) {
    const { beganAtMs } = reading;
    try {
      const entry = { rows: await this.#readRows(name), beganAtMs };
      this.#keep(name, entry);
      return entry;
    } finally {
      if (this.#reading.get(name) === reading) this.#reading.delete(name);
    }
  }

  /** Of two readings the one that began later stays, whichever ends first. */
  #keep(name, entry) {
    const kept = this.#found.get(name) ?? this.#absent.get(name);
    if (kept && kept.beganAtMs > entry.beganAtMs) return;
    const [is, isNot] = entry.rows === '[]' ? [this.#absent, this.#found] : [this.#found, this.#absent];
    isNot.delete(name);
    is.set(name, entry);
  }
}

/** Entries up to a number of characters. What was used least recently gives way. */
class Bounded {
  #most;
  #chars = 0;
  /** The order of a map is that of its insertions: the first one was used least recently. */
  #entries = new Map();

  constructor(most) {
    this.#most = most;
  }

  get(name) {
    return this.#entries.get(name);
  }

  use(name) {
    const entry = this.#entries.get(name);
    if (entry) {
      this.#entries.delete(name);
      this.#entries.set(name, entry);
    }
    return entry;
  }

  set(name, entry) {
    this.delete(name);
    this.#entries.set(name, entry);
    this.#chars += size(name, entry);
    for (const oldest of this.#entries.keys()) {
      if (this.#chars <= this.#most) return;
      this.delete(oldest);
    }
  }

  delete(name) {
    const entry = this.#entries.get(name);
    if (entry) this.#chars -= size(name, entry);
    this.#entries.delete(name);
  }
}

const size = (name, { rows }) => name.length + rows.length + ENTRY_CHARS;
