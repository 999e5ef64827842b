// What every load under kill -9 has: the Worker in a process that is killed, the simulator in one that never is and so can be believed,
// the provider's faults, and the witnesses' last words.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import {
  Runtime,
  UnderWay,
  killAgain,
  send,
  temporaryDirectory,
} from '../../crates/once-testing/kill/kill.mjs';
import { root } from '../../scripts/lib/paths.mjs';
import { endOf, paymentOf } from '../witness/journal.mjs';
import { objectsIn } from '../witness/objects.mjs';
import { rng } from '../witness/rng.mjs';
import { HANGS_AFTER_MS } from '../worker/support/until.mjs';

export const SEED = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 2 ** 32));

const LOOK_EVERY_MS = 100;
/** Of all who begin, so many at most are not done. On a slow machine the others come later. */
const UNFINISHED_MAX = 25;

/** What must hold when all have ended: there is no queue and no read model here. */
export const HELD_AFTER_KILLS = [
  'nothing is charged or refunded twice',
  'what was answered once is answered for ever',
  'every act has ended',
  'every charge has its object',
  'what was told is what the ledger holds',
  'what was told is what is shown',
  'what is shown is what the ledger holds',
  'a request to the provider never changes',
  'each phase left all of its rows, once',
];

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
/** What the provider does to the next requests, with these weights. */
const FAULTS = {
  ...{ slow_response: 45, slow: 25, connection_reset_after: 8, connection_reset: 4, response_lost: 3 },
  unreadable_answer: 3,
  ...{ request_lost: 3, error_before: 5, error_after: 2, rate_limited: 3, lock_timeout: 2 },
};
/** From how long to how long it takes. */
const DELAYS_MS = {
  slow_response: [50, 400],
  slow: [50, 400],
  response_lost: [2_500, 2_500],
  request_lost: [2_500, 2_500],
};

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
  /** Chance: the same from the same seed. */
  rng;
  /** Who asks: set before anybody is killed. */
  clients;
  endedAfterMs;
  #directory;
  #vars;
  #path;

  /** `path` is what the path of the provider's requests that faults are played on begins with. */
  constructor(name, { seed, vars = {}, path }) {
    this.rng = rng(seed);
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
      entry: 'simulator/src/entry.mjs',
    });
    await this.provider.start();
    this.worker = new Runtime({
      root,
      directory: this.#inside('worker'),
      config: 'wrangler.toml',
      env: 'demo',
      entry: 'src/entry.mjs',
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
    this.clients?.stop();
    try {
      await this.worker?.close();
    } finally {
      // Also where the Worker ended by itself: else the test would not end.
      await this.provider?.close();
    }
  }

  /**
   * Starts and kills the Worker until it was killed so many times and so many clients have come, with faults of the provider in each of its
   * lives. `begin` lets one come, and `lives` gives when a life has seen enough. Ends at the first failure, or as `until` says.
   */
  async run({ kills, factor, wanted, begin, lives, until = async () => false }) {
    const { clients } = this;
    this.underWayAtKill = await killAgain(this.worker, {
      kills,
      factor,
      isDone: () => clients.begun >= wanted,
      prepare: () => this.arm(),
      live: () => {
        const room = Math.min(UNFINISHED_MAX - clients.unfinished, wanted - clients.begun);
        for (let left = Math.min(Math.ceil(wanted / kills), room); left > 0; left -= 1) begin();
        return lives();
      },
      begin: () => clients.unfinished === 0 && begin({ atOnce: true }),
      between: this.rng.between,
      underWay: this.underWay,
      killed: async (killed) => {
        this.kills = killed;
        await this.readRequests();
        if (clients.failures.length > 0) throw clients.failures[0];
        return until();
      },
    });
  }

  /** No more faults: waits for all to end, then asks everybody twice more. Gives what all witnesses say. */
  async settle() {
    const { clients } = this;
    await this.sim('faults', { method: 'DELETE' });
    await this.worker.start();
    const from = Date.now();
    await clients.all();
    await this.#allEnded(from + HANGS_AFTER_MS);
    this.endedAfterMs = Date.now() - from;
    await this.readRequests();

    const shown = new Map();
    await inTurn(clients.acts, async (act) => {
      const hasEnded = act.answers.length > 0 || act.view?.status === 'complete';
      act.replays = hasEnded ? [await clients.repeat(act), await clients.repeat(act)] : [];
      const id = endOf(act) && !act.form && paymentOf(act);
      if (id && !shown.has(id)) shown.set(id, await clients.payment(id, act.owner));
    });
    await this.worker.kill();
    const requests = [...this.requests.values()];
    return { acts: clients.acts, shown, ledger: await this.sim('ledger'), requests, objects: this.objects() };
  }

  /** The rows on disk. */
  objects() {
    return objectsIn(this.worker.objectsOf('KeyObject'));
  }

  /** Looks at each key until it has ended or never was. Looking resumes nothing: that is left to the alarm. */
  async #allEnded(deadline) {
    let open = this.clients.acts.filter(({ key }) => key);
    for (;;) {
      const objects = this.objects();
      await inTurn(open, async (act) => (act.view = await this.clients.look(act, objects)));
      open = open.filter(({ view }) => view && view.status !== 'complete');
      if (open.length === 0 || Date.now() > deadline) return;
      await pause(LOOK_EVERY_MS);
    }
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
    const { between, weighted } = this.rng;
    for (let n = 0; n < ARMED_EACH_LIFE; n += 1) {
      const fault = weighted(FAULTS);
      const delay_ms = DELAYS_MS[fault] && between(...DELAYS_MS[fault]);
      const body = { fault, delay_ms, count: between(1, 5), method: 'POST', path: this.#path };
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

/** What must not be in the log. */
function isComplaint(entry) {
  if (typeof entry === 'string')
    return !OF_ALARMS.some((text) => entry.includes(`warning: NOSENTRY ${text}`));
  // On a slow machine an object may take longer than the edge waits for it. Who never hears the end is found
  // by the witnesses. (TOO_LONG in crates/runtime/src/http_client.rs.)
  if (entry.event === 'object_unreachable' && /took longer than/.test(entry.error)) return false;
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
