// API clients that pay, reserve, capture, void and refund, in stories of several requests, some of them at the same time. Each request is
// sent again under its key, or without one where the operation makes its own, until it is known how it ended.

import { setTimeout as pause } from 'node:timers/promises';

import { send } from '../../crates/once-testing/kill/kill.mjs';

export const AMOUNT = 2500;
const CURRENCY = 'usd';
const DECLINED_CARD = 'pm_card_visa_chargeDeclined';
export const OWNER = { authorization: 'Bearer user@example.com' };
/** Nobody asks this often, unless something is wrong. */
const TRIES_MAX = 300;
const LOOK_AGAIN_MS = 300;
/** Definitive answers, which are stored; and refusals, which store nothing. */
const ENDS = [200, 201, 402];
const REFUSALS = ['/problems/payment-state', '/problems/amount-too-large'];
const NOT_YET = ['request-in-progress', 'interrupted', 'outcome-unknown', 'temporarily-unavailable'].map(
  (kind) => `/problems/${kind}`,
);

/** One in so many whose request is broken off never comes back: what becomes of it is left to the alarm. */
const GIVES_UP_EACH = 8;
/** Told in turns. */
const STORIES = ['charge', 'reserve', 'charge', 'reserve', 'order', 'reserve', 'charge', 'declined'];

/** All payers of one load, and what they counted. */
export class Payers {
  counts = { requests: 0, unanswered: 0, statuses: {} };
  finished = 0;
  #made = 0;
  #reserved = 0;
  /** How many requests were broken off by a kill. */
  #brokenOff = 0;
  /** How many requests have come to their end. */
  #ended = 0;
  #awaited = null;
  #load;
  #underWay;
  #over = new AbortController();

  /** `load` has the Worker, the dice, and the requests that are under way. */
  constructor(load) {
    this.#load = load;
    this.#underWay = load.underWay;
  }

  /** One that `doubles` sends each request twice at once; one that vanishes gives up a request after one try, and is gone. */
  make(number) {
    const chance = (share) => this.#load.chance(share);
    this.#made += 1;
    const story = STORIES[number % STORIES.length];
    return { number, story, doubles: chance(0.2), vanishes: chance(0.15), acts: [] };
  }

  /** Resolves when so many more requests have come to their end, or all payers have. */
  moreEnded(count) {
    const { promise, resolve } = Promise.withResolvers();
    this.#awaited = { at: this.#ended + count, resolve };
    return promise;
  }

  /** Sends everybody home. */
  stop() {
    this.#over.abort();
  }

  async run(payer) {
    try {
      await this[payer.story](payer);
    } catch (error) {
      if (!this.#over.signal.aborted) throw error;
    } finally {
      this.finished += 1;
      if (this.finished === this.#made) this.#awaited?.resolve();
    }
  }

  /** Paid at once; some of it is given back. */
  async charge(payer) {
    const [id] = await this.#together(payer, [this.#pay({})]);
    if (id) await this.#refunds(payer, id);
  }

  /** Reserved; then captured, or given up, or both at once; then some of it is given back. */
  async reserve(payer) {
    const [id] = await this.#together(payer, [this.#pay({ capture: false })]);
    if (!id) return;
    const capture = () => this.#move('capture', id, { amount: this.#load.between(1, AMOUNT) });
    const give = () => this.#move('void', id, {});
    const moves = [
      [capture()],
      [give()],
      [capture(), give()],
      [capture(), capture()],
      [capture(), give(), capture()],
    ];
    this.#reserved += 1;
    await this.#together(payer, moves[this.#reserved % moves.length]);
    if (payer.acts.every((act) => !act.abandoned)) await this.#refunds(payer, id);
  }

  /** One order, paid under two keys at once. */
  async order(payer) {
    const order_id = `order-${crypto.randomUUID()}`;
    const ids = await this.#together(payer, [this.#pay({ order_id }), this.#pay({ order_id })]);
    const [id] = ids.filter(Boolean);
    if (id) await this.#refunds(payer, id);
  }

  /** A card that is declined. */
  async declined(payer) {
    await this.#together(payer, [this.#pay({ payment_method: DECLINED_CARD })]);
  }

  #pay(more) {
    const body = { amount: AMOUNT, currency: CURRENCY, metadata: { number: crypto.randomUUID() }, ...more };
    return { name: 'pay', path: '/payments', body, key: `crash-${crypto.randomUUID()}` };
  }

  /** Captures, voids and refunds; one in four has no header. */
  #move(name, payment, body) {
    const path = `/payments/${payment}/${name}`;
    const key = this.#load.chance(0.25) ? null : `crash-${crypto.randomUUID()}`;
    return { name, path, payment, body, key };
  }

  /** Up to four at once, which together are often more than there is. */
  async #refunds(payer, id) {
    const reasons = ['requested_by_customer', 'duplicate', 'fraudulent'];
    const refunds = Array.from({ length: this.#load.between(0, 4) }, () =>
      this.#move('refunds', id, {
        amount: this.#load.between(200, 1500),
        reason: reasons[this.#load.between(0, 2)],
      }),
    );
    await this.#together(payer, refunds);
  }

  /** Does these at the same time, each to its end. Gives what they made: nothing where it was refused, or given up. */
  async #together(payer, acts) {
    if (payer.gone) return [];
    for (const act of acts) Object.assign(act, { answers: [], refused: null, abandoned: false });
    payer.acts.push(...acts);
    if (payer.vanishes && this.#load.chance(0.4)) {
      const [act] = acts.filter(({ key }) => key);
      if (act) Object.assign(act, { abandoned: true, afterMs: this.#load.between(10, 300) });
      payer.gone = Boolean(act);
    }
    const toTheEnd = async (act) => {
      const id = await this.#toTheEnd(payer, act);
      this.#ended += 1;
      if (this.#ended === this.#awaited?.at) this.#awaited.resolve();
      return id;
    };
    return Promise.all(acts.map(toTheEnd));
  }

  async #toTheEnd(payer, act) {
    for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
      this.#over.signal.throwIfAborted();
      await this.#load.worker.up();
      const all = await Promise.all(Array.from({ length: payer.doubles ? 2 : 1 }, () => this.#try(act)));
      const ends = all.filter(({ end }) => end).map(({ end }) => end);
      act.answers.push(...ends);
      if (ends.length > 0) return made(ends[0]);
      act.refused = all.find(({ refused }) => refused)?.refused ?? null;
      if (act.key && all.every(({ brokenOff }) => brokenOff)) {
        this.#brokenOff += 1;
        if (this.#brokenOff % GIVES_UP_EACH === 0) act.abandoned = payer.gone = true;
      }
      if (act.refused || (act.abandoned && all.some(({ away }) => !away))) return undefined;
      const waitMs = Math.min(...all.map(({ waitMs = 0 }) => waitMs));
      if (waitMs > 0) await pause(waitMs, null, { signal: this.#over.signal });
    }
    throw new Error(`${act.path} of payer ${payer.number} had no answer after ${TRIES_MAX} tries`);
  }

  /** The same request once more. */
  async repeat(act) {
    const answer = await this.#try({ ...act, abandoned: false });
    return answer.end ?? { unexpected: answer };
  }

  /** What `GET /idempotency-keys/{key}` says; `null` if the key was never taken. */
  async look({ key }) {
    const answer = await this.#ask(`/idempotency-keys/${key}`);
    return answer.status === 404 ? null : JSON.parse(answer.text);
  }

  /** The payment as it is shown. */
  async payment(id) {
    const answer = await this.#ask(`/payments/${id}`);
    return answer.status === 200 ? JSON.parse(answer.text) : null;
  }

  /** Gives `{ end }`, or `{ refused }`, or how long to wait; `away` if the request never left, `brokenOff` if no answer came. */
  async #try({ path, body, key, abandoned, afterMs }) {
    let answer;
    try {
      answer = await this.#ask(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(key ? { 'idempotency-key': key } : {}) },
        body: JSON.stringify(body),
        signal: abandoned ? AbortSignal.timeout(afterMs) : undefined,
      });
    } catch (error) {
      if (error.code === 'ECONNREFUSED') return { away: true };
      this.counts.unanswered += 1;
      return { brokenOff: true };
    }
    if (ENDS.includes(answer.status)) return { end: kept(answer) };
    const { type, state, available } = JSON.parse(answer.text);
    // Two captures without a header are one request: with two amounts one of them is a mistake.
    const isMismatch = !key && type === '/problems/idempotency-key-reused';
    if (isMismatch || REFUSALS.includes(type)) return { refused: { type, state, available } };
    if (!NOT_YET.includes(type)) throw new Error(`${path} was answered ${answer.status}: ${answer.text}`);
    const seconds = answer.headers['retry-after'];
    return { waitMs: seconds ? 1000 * Number(seconds) : LOOK_AGAIN_MS };
  }

  async #ask(path, options = {}) {
    this.counts.requests += 1;
    this.#underWay.begin();
    try {
      const origin = this.#load.worker.origin;
      if (!origin) throw Object.assign(new Error('down'), { code: 'ECONNREFUSED' });
      const answer = await send(origin, path, { ...options, headers: { ...OWNER, ...options.headers } });
      this.counts.statuses[answer.status] = (this.counts.statuses[answer.status] ?? 0) + 1;
      return answer;
    } finally {
      this.#underWay.end();
    }
  }
}

/** The id of the payment that a request for one has made. */
const made = ({ status, text }) => (status === 201 ? JSON.parse(text).id : undefined);

/** What must be the same in every replay, and whether this was one. */
function kept({ status, headers, text }) {
  return {
    status,
    contentType: headers['content-type'],
    location: headers.location,
    original: headers['original-request'],
    text,
    replayed: headers['idempotent-replayed'] === 'true',
  };
}
