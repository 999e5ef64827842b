// API clients that pay, reserve, capture, void and refund, in stories of several requests, some of them at the same time. Each request is
// sent again under its key, or without one where the operation makes its own, until it is known how it ended.

import { Clients } from '../witness/clients.mjs';

const AMOUNT = 2500;
const DECLINED_CARD = 'pm_card_visa_chargeDeclined';
/** One in so many whose request is broken off never comes back: what becomes of it is left to the alarm. */
const GIVES_UP_EACH = 8;
/** Told in turns. */
const STORIES = ['charge', 'reserve', 'charge', 'reserve', 'order', 'reserve', 'charge', 'declined'];

export class Payers extends Clients {
  #reserved = 0;
  /** How many requests were broken off by a kill. */
  #brokenOff = 0;
  #rng;

  constructor(load) {
    super(load);
    this.#rng = load.rng;
  }

  /** One that `doubles` sends each request twice at once; one that vanishes gives up a request after one try, and is gone. */
  come() {
    const { chance } = this.#rng;
    const number = this.begun + 1;
    const story = STORIES[number % STORIES.length];
    const who = `payer ${number} (${story})`;
    const payer = { who, copies: chance(0.2) ? 2 : 1, vanishes: chance(0.15), gone: false };
    this.begin(() => this[story](payer));
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
    const capture = () => this.#move('capture', id, { amount: this.#rng.between(1, AMOUNT) });
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
    await this.#refunds(payer, id);
  }

  /** One order, paid under two keys at once. */
  async order(payer) {
    const order_id = `order-${crypto.randomUUID()}`;
    const ids = await this.#together(payer, [this.#pay({ order_id }), this.#pay({ order_id })]);
    const [id] = ids.filter(Boolean);
    if (id) await this.#refunds(payer, id);
  }

  async declined(payer) {
    const expects = { status: 402, text: '"status":"declined"' };
    await this.#together(payer, [{ ...this.#pay({ payment_method: DECLINED_CARD }), expects }]);
  }

  #pay(more) {
    const body = { amount: AMOUNT, currency: 'usd', metadata: { number: crypto.randomUUID() }, ...more };
    return { name: 'pay', path: '/payments', body, key: `crash-${crypto.randomUUID()}` };
  }

  /** Captures, voids and refunds; one in four has no header. */
  #move(name, payment, body) {
    const path = `/payments/${payment}/${name}`;
    const key = this.#rng.chance(0.25) ? null : `crash-${crypto.randomUUID()}`;
    return { name, path, payment, body, key };
  }

  /** Up to four at once, which together are often more than there is. */
  async #refunds(payer, id) {
    const { between, oneOf } = this.#rng;
    const reasons = ['requested_by_customer', 'duplicate', 'fraudulent'];
    const refunds = Array.from({ length: between(0, 4) }, () =>
      this.#move('refunds', id, { amount: between(200, 1500), reason: oneOf(reasons) }),
    );
    await this.#together(payer, refunds);
  }

  /** Does these at the same time, each to its end. Gives the payments that they made: none where it was refused, or given up. */
  async #together(payer, acts) {
    if (payer.gone) return [];
    for (const act of acts) Object.assign(act, { who: payer.who, payer, abandoned: false });
    if (payer.vanishes && this.#rng.chance(0.4)) {
      const act = acts.find(({ key }) => key);
      if (act) Object.assign(act, { abandoned: true, afterMs: this.#rng.between(10, 300) });
      payer.gone = Boolean(act);
    }
    const ends = await Promise.all(acts.map((act) => this.toTheEnd(act, payer)));
    return ends.map((end) => (end?.status === 201 ? JSON.parse(end.text).id : undefined));
  }

  givesUp({ key, payer }, attempts) {
    if (!key || !attempts.every(({ brokenOff }) => brokenOff)) return false;
    this.#brokenOff += 1;
    if (this.#brokenOff % GIVES_UP_EACH !== 0) return false;
    payer.gone = true;
    return true;
  }
}
