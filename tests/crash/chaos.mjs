// What every load under kill -9 has: the Worker in a process that is killed, the simulator in one that never is and so can be believed,
// the provider's faults, and the dice.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import {
  Runtime,
  UnderWay,
  dice,
  killAgain,
  send,
  temporaryDirectory,
} from '../../crates/once-testing/kill/kill.mjs';
import { root } from '../../scripts/lib/paths.mjs';

export { dice };

export const SEED = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 2 ** 32));

export const LOOK_EVERY_MS = 100;

/** The site's times, short enough for a test. */
export const TIMES = {
  LEASE_MS: 5_000,
  WAIT_MS: 3_000,
  COMPLETER_MS: 1_500,
  PROVIDER_TIMEOUT_MS: 2_000,
  QUIET_MS: 3_000,
};

/** Each is for up to five requests; after that the provider is well until the process starts again. */
const ARMED_EACH_LIFE = 3;
/** What the provider does to the next requests: weight, fault, and from how long to how long it takes. */
const FAULTS = [
  [45, 'slow_response', 50, 400],
  [25, 'slow', 50, 400],
  [8, 'connection_reset_after'],
  [4, 'connection_reset'],
  [3, 'response_lost', 2_500, 2_500],
  [3, 'request_lost', 2_500, 2_500],
  [5, 'error_before'],
  [2, 'error_after'],
  [3, 'rate_limited'],
  [2, 'lock_timeout'],
];

/** Both Workers, each in a process of its own. */
export class Chaos {
  kills = 0;
  /** The clients' requests. */
  underWay = new UnderWay();
  /** How many requests were under way at each kill. */
  underWayAtKill = [];
  resumedByAlarm = 0;
  /** What the Worker or workerd complained of. */
  errors = [];
  /** The requests that reached the provider, by their id. */
  requests = new Map();
  #random;
  #directory;
  #vars;
  #path;

  /** `path` is what the path of the provider's requests that faults are played on begins with. */
  constructor(name, { seed, vars = {}, path }) {
    this.#random = dice(seed);
    this.#directory = temporaryDirectory(name);
    this.#vars = vars;
    this.#path = path;
  }

  async start() {
    this.provider = new Runtime({
      root,
      directory: this.#inside('simulator'),
      config: 'simulator/wrangler.toml',
      env: 'demo',
      modules: ['simulator/src/entry.mjs', 'simulator/build/index.js', 'simulator/build/index_bg.wasm'],
    });
    await this.provider.start();
    this.worker = new Runtime({
      root,
      directory: this.#inside('worker'),
      config: 'wrangler.toml',
      env: 'demo',
      modules: [
        'src/entry.mjs',
        'crates/once-object/guard.mjs',
        'crates/runtime/interrupted.mjs',
        'build/index.js',
        'build/index_bg.wasm',
      ],
      vars: {
        STRIPE_API_BASE: this.provider.origin.origin,
        SIGNING_KEY: 'one-for-all-starts-of-the-process',
        ...TIMES,
        ...this.#vars,
      },
    });
    this.worker.onLog = (entry) => {
      if (entry.event === 'resumed_by_alarm') this.resumedByAlarm += 1;
      if (isComplaint(entry)) this.errors.push(entry);
    };
  }

  async end() {
    await this.worker?.close();
    await this.provider?.close();
  }

  /** Kills the Worker again and again, with faults of the provider in each of its lives. Ends at the first of `failures`, or as `until` says. */
  async killAgain({ failures, until, ...load }) {
    this.underWayAtKill = await killAgain(this.worker, {
      ...load,
      between: (from, to) => this.between(from, to),
      underWay: this.underWay,
      prepare: () => this.arm(),
      killed: async (kills) => {
        this.kills = kills;
        await this.readRequests();
        if (failures.length > 0) throw failures[0];
        return until();
      },
    });
  }

  /** The simulator's control surface. */
  async sim(path, { method = 'GET', body } = {}) {
    const answer = await send(this.provider.origin, `/_sim/${path}`, {
      method,
      body: body && JSON.stringify(body),
    });
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /** Gives the provider the faults of one life of the process. */
  async arm() {
    const total = FAULTS.reduce((sum, [weight]) => sum + weight, 0);
    for (let n = 0; n < ARMED_EACH_LIFE; n += 1) {
      let left = this.#random() * total;
      const [, fault, from, to] = FAULTS.find(([weight]) => (left -= weight) < 0) ?? FAULTS[0];
      const delay_ms = from && this.between(from, to);
      const body = { fault, delay_ms, count: this.between(1, 5), method: 'POST', path: this.#path };
      await this.sim('faults', { method: 'POST', body });
    }
  }

  /** The simulator keeps its last 1000 requests only. */
  async readRequests() {
    const { requests } = await this.sim('requests?limit=1000');
    const known =
      this.requests.size === 0 || requests.length < 1000 || this.requests.has(requests[0].request_id);
    assert.ok(known, 'no request was missed');
    for (const request of requests) this.requests.set(request.request_id, request);
  }

  between(from, to) {
    return from + Math.floor(this.#random() * (to - from + 1));
  }

  chance(share) {
    return this.#random() < share;
  }

  #inside(name) {
    const directory = join(this.#directory, name);
    mkdirSync(directory);
    return directory;
  }
}

/** What the runtime says of alarms that it finds moved, or overdue, after a kill: it sets them anew, or runs them. */
const OF_ALARMS = [
  'SQLite alarm handler canceled',
  'SQLite alarm overdue, running despite AlarmManager mismatch',
];

/**
 * The judge looks into the files of objects while the process lives. An alarm that opens one at that moment finds it locked, and the runtime
 * tries it again. A stack follows its exception, which is a complaint or none.
 */
const OF_THE_JUDGE = ['database is locked: SQLITE_BUSY', 'stack: '];

/** What must not be in the log. */
function isComplaint(entry) {
  if (typeof entry === 'string')
    return ![...OF_ALARMS.map((text) => `warning: NOSENTRY ${text}`), ...OF_THE_JUDGE].some((text) =>
      entry.includes(text),
    );
  // There is no queue here: what is staged stays staged, and is judged.
  return entry.level === 'error' && !['request', 'outbox_failed'].includes(entry.event);
}

/** A few at a time. */
export async function inTurn(all, work) {
  const queue = all.values();
  const worker = async () => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}
