// Clients that send the same request again until they know how it ended, while the process that serves them is killed. Every request has a
// connection of its own, so that what no answer came to is seen by the client, and only the client repeats it.

import { setTimeout as pause } from 'node:timers/promises';

import { send } from '../../crates/once-testing/kill/kill.mjs';
import { USER } from '../worker/support/account.mjs';
import { HANGS_AFTER_MS } from '../worker/support/until.mjs';
import { meaning } from './journal.mjs';

export const OWNER = { authorization: `Bearer ${USER}` };

/**
 * Who waits longer than this is forgotten. A call that has failed often is put off for five minutes, and on a machine that is slow it fails
 * again then. How often somebody asks meanwhile says nothing.
 */
const FORGOTTEN_AFTER_MS = 3 * HANGS_AFTER_MS;

/** All clients of one load, their acts, and what they counted. */
export class Clients {
  counts = { requests: 0, retries: 0, unanswered: 0, statuses: {} };
  /** What they asked for, and what they were told of it (journal.mjs). */
  acts = [];
  failures = [];
  begun = 0;
  finished = 0;
  /** How many acts have come to their end. */
  #ended = 0;
  #awaited = null;
  #runs = [];
  #load;
  #over = new AbortController();
  /** Aborted when all are sent home. */
  over = this.#over.signal;

  /** `load` has the Worker and the requests that are under way. */
  constructor(load) {
    this.#load = load;
  }

  get unfinished() {
    return this.begun - this.finished;
  }

  /** Lets somebody do what they came for. */
  begin(work) {
    this.begun += 1;
    const run = work()
      .catch((error) => this.over.aborted || this.failures.push(error))
      .finally(() => {
        this.finished += 1;
        if (this.unfinished === 0) this.#awaited?.resolve();
      });
    this.#runs.push(run);
  }

  /** Resolves when all who have begun are done. Rejects with what went wrong first, or with who is still told to wait. */
  async all() {
    await Promise.race([Promise.all(this.#runs), pause(FORGOTTEN_AFTER_MS, null, { ref: false })]);
    if (this.failures.length > 0) throw this.failures[0];
    if (this.unfinished === 0) return;
    const waiting = this.acts
      .filter(({ told }) => told)
      .map(({ who, path, told }) => `${who}, ${path}: ${told}`);
    throw new Error(
      [`${this.unfinished} have no answer within ${FORGOTTEN_AFTER_MS} ms`, ...waiting].join('\n'),
    );
  }

  /** Resolves when so many more acts have come to their end, or all clients have. */
  moreEnded(count) {
    this.#awaited = { at: this.#ended + count, ...Promise.withResolvers() };
    if (count === 0 || this.unfinished === 0) this.#awaited.resolve();
    return this.#awaited.promise;
  }

  /** Sends everybody home. */
  stop() {
    this.#over.abort();
  }

  /** Does what an act asks for, with so many `copies` at once, to its end. An abandoned one is tried once, and given up `afterMs`. */
  async toTheEnd(act, { copies = 1 } = {}) {
    this.acts.push(Object.assign(act, { owner: act.owner ?? OWNER, answers: [], refused: null }));
    for (let isRetry = false; ; isRetry = true) {
      this.over.throwIfAborted();
      await this.#load.worker.up();
      if (isRetry) this.counts.retries += 1;
      const all = await Promise.all(Array.from({ length: copies }, () => this.attempt(act)));
      act.answers.push(...all.filter(({ end }) => end).map(({ end }) => end));
      if (act.answers.length === 0) act.refused = all.find(({ refused }) => refused)?.refused ?? null;
      act.abandoned ||= this.givesUp(act, all);
      act.told = undefined;
      if (act.answers.length > 0 || act.refused || (act.abandoned && all.some(({ away }) => !away))) {
        this.#ended += 1;
        if (this.#ended === this.#awaited?.at) this.#awaited.resolve();
        return act.answers[0];
      }
      act.told = all.map(({ told }) => told ?? 'nothing').join(', ');
      const waitMs = Math.min(...all.map(({ waitMs = 0 }) => waitMs));
      if (waitMs > 0) await pause(waitMs, null, { signal: this.over });
    }
  }

  /** Whether somebody whose request was broken off never comes back. */
  givesUp() {
    return false;
  }

  /** The same request once more, to its end. */
  async repeat(act) {
    const answer = await this.attempt({ ...act, abandoned: false });
    return answer.end ?? { unexpected: answer };
  }

  /** What an answer means, or `away` if the request never left, or `brokenOff` if no answer came. */
  async attempt(act) {
    const { path, owner, key, body, abandoned, afterMs } = act;
    const { answer, ...none } = await this.hear(path, {
      method: 'POST',
      headers: { ...owner, 'content-type': 'application/json', ...(key && { 'idempotency-key': key }) },
      body: JSON.stringify(body),
      signal: abandoned ? AbortSignal.timeout(afterMs) : undefined,
    });
    if (!answer) return none;
    const meant = meaning(answer, act);
    if (Object.keys(meant).length === 0)
      throw new Error(`${path} was answered ${answer.status}: ${answer.text}`);
    return meant;
  }

  /** What `GET /idempotency-keys/{key}` says; `null` if the key was never taken. */
  look({ key, owner }) {
    return this.#json(`/idempotency-keys/${encodeURIComponent(key)}`, owner);
  }

  /** The payment as it is shown. */
  payment(id, owner) {
    return this.#json(`/payments/${id}`, owner);
  }

  async #json(path, headers) {
    const { status, text } = await this.ask(path, { headers });
    if (status === 404) return null;
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
    return JSON.parse(text);
  }

  /** `{ answer }`, or why there is none. */
  async hear(path, options) {
    try {
      return { answer: await this.ask(path, options) };
    } catch (error) {
      if (error.code === 'ECONNREFUSED') return { away: true };
      this.counts.unanswered += 1;
      return { brokenOff: true };
    }
  }

  async ask(path, options) {
    const { worker, underWay } = this.#load;
    this.counts.requests += 1;
    underWay.begin();
    try {
      if (!worker.origin) throw Object.assign(new Error('down'), { code: 'ECONNREFUSED' });
      const answer = await send(worker.origin, path, options);
      this.counts.statuses[answer.status] = (this.counts.statuses[answer.status] ?? 0) + 1;
      return answer;
    } finally {
      underWay.end();
    }
  }
}
