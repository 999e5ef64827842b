// Kill -9 of a Worker while requests run, again and again, on the same disk: for a flow of your own.
//
//   const worker = new Runtime({ root, directory: temporaryDirectory('mine'), config: 'wrangler.toml', entry, vars });
//   const callers = new Callers(worker, { isEnd: ({ status }) => status < 500 });
//   await killAgain(worker, { kills: 30, between, isDone: …, underWay: callers.underWay, live() { callers.begin(request); … } });
//   await worker.start();
//   await callers.all();        // everybody has been answered
//   …                           // judge: what each was told, against what your provider has executed
//
// What is killed is workerd itself (workerd.mjs). Your provider runs elsewhere, so that it can be believed.

import { request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

import { UnderWay } from './under-way.mjs';

export { UnderWay } from './under-way.mjs';
export { Runtime, temporaryDirectory } from './workerd.mjs';

/**
 * How long the process lives, in ms, if what it is to live for does not happen; then twice as long each time until it does. On a busy machine
 * a process may need longer than that to begin, and if it were always killed before, nothing would ever happen.
 */
const LIFE_MS = 3_000;
const LIFE_MAX_MS = 60_000;
/** No client asks this often, unless something is wrong. */
const TRIES_MAX = 1_000;
/** How long a client waits before it asks again, in ms. */
const ASK_AGAIN_MS = 100;

/**
 * Starts the Worker and kills it, until it was killed so many times and all `isDone`. `prepare` goes before each start. `live` begins what this
 * life is for, and gives a promise of when it has happened; then the kill waits for requests that are `underWay`, and `begin` lets somebody come if
 * all have gone. `killed` goes after each kill, and ends it all by `true`. Gives how many requests were under way at each kill.
 */
export async function killAgain(
  worker,
  {
    kills,
    factor = 6,
    between,
    isDone,
    prepare = async () => {},
    live,
    underWay,
    begin = () => {},
    killed = async () => false,
  },
) {
  const struck = [];
  let lifeMs = LIFE_MS;
  while ((struck.length < kills || !isDone()) && struck.length < kills * factor) {
    await prepare();
    await worker.start();
    const hasLived = live().then(() => true);
    const isOver = await Promise.race([hasLived, pause(lifeMs, false, { ref: false })]);
    lifeMs = isOver ? LIFE_MS : Math.min(2 * lifeMs, LIFE_MAX_MS);
    struck.push(await underWay.some(between, begin));
    await worker.kill();
    if (await killed(struck.length)) break;
  }
  return struck;
}

/** Clients that send a request again under the same key until they know how it ended. */
export class Callers {
  underWay = new UnderWay();
  ended = 0;
  /** Of each caller, its request and the answers that were ends: none where it has given up. */
  callers = [];
  #worker;
  #isEnd;
  #awaited = null;
  #runs = [];
  #over = new AbortController();

  constructor(worker, { isEnd }) {
    this.#worker = worker;
    this.#isEnd = isEnd;
  }

  /** Begins with a request: `{ path, method, headers, body }`. One of several `copies` sends so many at once. */
  begin(asked, { copies = 1 } = {}) {
    const caller = { asked, answers: [] };
    this.callers.push(caller);
    this.#runs.push(this.#toTheEnd(caller, copies));
  }

  /** Resolves when so many more have ended, or all. */
  moreEnded(count) {
    const { promise, resolve } = Promise.withResolvers();
    this.#awaited = { at: this.ended + count, resolve };
    this.#look();
    return promise;
  }

  #look() {
    if (this.ended === this.#awaited?.at || this.ended === this.callers.length) this.#awaited?.resolve();
  }

  /** Resolves when all have ended. */
  all() {
    return Promise.all(this.#runs);
  }

  /** Sends everybody home. */
  stop() {
    this.#over.abort();
  }

  /** The same request once more. */
  repeat({ asked }) {
    return send(this.#worker.origin, asked.path, asked);
  }

  async #toTheEnd(caller, copies) {
    for (let tries = 1; tries <= TRIES_MAX && !this.#over.signal.aborted; tries += 1) {
      await this.#worker.up();
      const answers = await Promise.all(Array.from({ length: copies }, () => this.#try(caller.asked)));
      caller.answers.push(...answers.filter((answer) => answer && this.#isEnd(answer)));
      if (caller.answers.length > 0) break;
      await pause(ASK_AGAIN_MS);
    }
    this.ended += 1;
    this.#look();
  }

  async #try(asked) {
    this.underWay.begin();
    try {
      return await send(this.#worker.origin, asked.path, { ...asked, signal: this.#over.signal });
    } catch {
      return null; // it was killed, or is not up yet
    } finally {
      this.underWay.end();
    }
  }
}

/** One request, read to its end. Rejects if the connection is refused or breaks. */
export function send(origin, path, { method = 'GET', headers = {}, body, signal } = {}) {
  return new Promise((resolve, reject) => {
    const outgoing = request(new URL(path, origin), { method, headers, signal, agent: false }, (incoming) => {
      const chunks = [];
      incoming.on('data', (chunk) => chunks.push(chunk));
      incoming.on('error', reject);
      incoming.on('end', () => {
        const bytes = Buffer.concat(chunks);
        resolve({ status: incoming.statusCode, headers: incoming.headers, text: bytes.toString() });
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** Mulberry32: the same numbers from the same seed. */
export function dice(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Whole numbers from … to …, both included, by the dice of this seed. */
export function between(seed) {
  const random = dice(seed);
  return (from, to) => from + Math.floor(random() * (to - from + 1));
}
