// Clients of the soak: they pay, reserve, capture, void, refund, order the same twice and go to the bank. Each sends its
// request again under its key until it is answered for good, whatever happens on the way.
import { setTimeout as pause } from 'node:timers/promises';

import { DECLINED_USER, USER, account } from '../../tests/worker/support/account.mjs';
import { browser } from '../../tests/worker/support/browser.mjs';
import { ANSWER_MS } from './site.mjs';

const AMOUNT = 2500;
const DECLINED_CARDS = [
  'pm_card_visa_chargeDeclined',
  'pm_card_chargeDeclinedInsufficientFunds',
  'pm_card_chargeDeclinedExpiredCard',
];
const DECLINED_AT_ADYEN = ['adyen_card_refused', 'adyen_card_not_enough_balance', 'adyen_card_expired'];
const BANK_CARD = 'pm_card_authenticationRequired';
const SLOW_CARDS = ['pm_card_processing', 'pm_card_processingDeclined'];
const RETURN_URL = 'https://shop.example/thanks';
const LINES = [{ name: 'Enamel mug', unit_amount: 1250, quantity: 2 }];

/** 202: the provider has taken it over, and tells later. */
const ENDS = [200, 201, 202, 402];
/** These store nothing: the operation cannot be done any more. */
const REFUSALS = ['/problems/payment-state', '/problems/amount-too-large'];
const NOT_YET = ['request-in-progress', 'interrupted', 'outcome-unknown', 'temporarily-unavailable'].map(
  (kind) => `/problems/${kind}`,
);
/** Told with these weights. */
const STORIES = { charge: 8, reserve: 4, order: 2, declined: 1, bank: 2, slow: 1, checkout: 2 };
/** Retry-After is in whole seconds; a soak has fewer of them. */
const AGAIN_MS = 300;

export class Clients {
  counts = { operations: 0, requests: 0, retries: 0, lost: 0, 'hung up': 0, replays: 0 };
  stories = {};
  statuses = {};
  /** All requests, each with what it was answered for good. */
  acts = [];
  /** Payments whose outcome somebody was told is not known yet, the newest last. */
  inDoubt = [];
  /** What cannot be, as it was seen on the way. */
  wrong = [];
  #site;
  #dice;
  #user;
  #declined;
  #over = false;
  #givesUpAt = Infinity;

  constructor(site, dice) {
    this.#site = site;
    this.#dice = dice;
    this.#user = account(site, USER);
    this.#declined = account(site, DECLINED_USER);
  }

  /** Runs so many clients, one story after the other, until `stop()`; resolves when all have ended what they had begun. */
  run(count) {
    return Promise.all(Array.from({ length: count }, () => this.#live(this.#dice.fork())));
  }

  /** No new stories. What is not answered in `patienceMs` is given up, and that is a finding. */
  stop(patienceMs) {
    this.#over = true;
    this.#givesUpAt = Date.now() + patienceMs;
  }

  /** Whether anything is still to be told. */
  get #isLate() {
    return Date.now() > this.#givesUpAt;
  }

  async #live(dice) {
    while (!this.#over) {
      const story = dice.weighted(STORIES);
      this.stories[story] = (this.stories[story] ?? 0) + 1;
      try {
        await this[story](dice);
      } catch (error) {
        this.wrong.push(`a client of the story ${story}: ${error.stack}`);
      }
    }
  }

  async charge(dice) {
    const order = dice.chance(0.4) ? { order_id: `order-${dice.uuid()}` } : {};
    const id = await this.#do(dice, this.#pay(dice, { ...order, ...somewhere(dice) }));
    if (id) await this.#refunds(dice, id);
  }

  async reserve(dice) {
    const id = await this.#do(dice, this.#pay(dice, { capture: false, ...somewhere(dice) }));
    if (!id) return;
    const capture = () => this.#move(dice, 'capture', id, { amount: dice.between(1, AMOUNT) });
    const give = () => this.#move(dice, 'void', id, {});
    const moves = dice.oneOf([
      [capture()],
      [capture()],
      [give()],
      [capture(), give()],
      [capture(), capture()],
    ]);
    await Promise.all(moves.map((move) => this.#do(dice, move)));
    await this.#refunds(dice, id);
  }

  /** One order, paid under two keys at once. */
  async order(dice) {
    const order_id = `order-${dice.uuid()}`;
    const pays = [this.#pay(dice, { order_id }), this.#pay(dice, { order_id })];
    const made = await Promise.all(pays.map((pay) => this.#do(dice, pay)));
    const ids = made.filter(Boolean);
    if (new Set(ids).size > 1) this.wrong.push(`the order ${order_id} has two payments: ${ids.join(', ')}`);
    if (ids[0]) await this.#refunds(dice, ids[0]);
  }

  async declined(dice) {
    const where = somewhere(dice);
    const payment_method = dice.oneOf(where.provider ? DECLINED_AT_ADYEN : DECLINED_CARDS);
    await this.#do(dice, this.#pay(dice, { payment_method, ...where }));
  }

  /** Accepted first, decided later. */
  async slow(dice) {
    const id = await this.#do(dice, this.#pay(dice, { payment_method: dice.oneOf(SLOW_CARDS) }));
    if (id && dice.chance(0.3)) await this.#do(dice, this.#move(dice, 'void', id, {}));
  }

  /** 3-D Secure: the person accepts, fails, or goes away. */
  async bank(dice) {
    const more = { payment_method: BANK_CARD, return_url: RETURN_URL, capture: dice.chance(0.7) };
    const act = this.#pay(dice, more);
    const id = await this.#do(dice, act);
    const payment = id && JSON.parse(act.end.text);
    if (payment?.status !== 'requires_action') return;
    const decision = dice.weighted({ accept: 7, fail: 2, leave: 1 });
    if (decision === 'leave') return void (await this.#do(dice, this.#move(dice, 'void', id, {})));
    const { pathname } = new URL(payment.next_action.redirect_to_url.url);
    const back = await this.#insist(async () => {
      const answer = await this.#site.fetch(`${pathname}/${decision}`, { method: 'POST' });
      return answer.status === 303
        ? answer.headers.get('location')
        : answer.status === 200
          ? 'over'
          : undefined;
    });
    if (back?.startsWith('http') && dice.chance(0.7)) {
      const { pathname: path, search } = new URL(back);
      await this.#ask(this.#user, path + search, {}).catch(() => {});
    }
  }

  /** A person who presses the button twice, in one tab or in two. */
  async checkout(dice) {
    const body = { order_id: `order-${dice.uuid()}`, currency: 'usd', lines: LINES };
    const link = await this.#insist(async () => {
      const made = await this.#user.post('/checkout/sessions', body);
      return made.status === 201 ? new URL(made.json().url).pathname : undefined;
    });
    if (!link) return;
    const tabs = [browser(this.#site), browser(this.#site)];
    const email = 'ada@example.com';
    const cards = dice.chance(0.3) ? ['pm_card_visa_chargeDeclined'] : [];
    this.counts.operations += 1;
    const page = await this.#insist(async () => {
      const page = await tabs[0].visit(link);
      this.counts.requests += 1;
      if (page.text.includes('Thank you for your order')) return page;
      if (!page.entries?.payment_method) return undefined;
      const payment_method = cards.pop() ?? 'pm_card_visa';
      const senders = dice.chance(0.5) ? tabs : [tabs[0], tabs[0]];
      const send = async (tab) => {
        const own = tab === tabs[0] ? page : await tab.visit(link);
        if (own.entries) await tab.send(link, { ...own.entries, payment_method, email });
      };
      await Promise.all(senders.map((tab) => send(tab).catch(() => {})));
      return undefined;
    });
    if (!page) return this.wrong.push(`the checkout ${body.order_id} came to no receipt`);
    const payment = /pay_[\w-]{43}/.exec(page.text)?.[0];
    this.acts.push({ name: 'checkout', path: link, payment, end: { status: 201, text: '' }, answers: [] });
    if (payment && dice.chance(0.5)) await this.#refunds(dice, payment);
  }

  /** Up to three, which together may be more than there is. */
  async #refunds(dice, id) {
    const refunds = Array.from({ length: dice.between(0, 3) }, () =>
      this.#move(dice, 'refunds', id, { amount: dice.between(200, 1500) }),
    );
    await Promise.all(refunds.map((refund) => this.#do(dice, refund)));
  }

  #pay(dice, more) {
    const receipt = dice.chance(0.3) ? { receipt_email: `soak-${dice.between(1, 99)}@example.com` } : {};
    const body = { amount: AMOUNT, currency: 'usd', ...receipt, ...more };
    return { name: 'pay', path: '/payments', body, key: `soak-${dice.uuid()}`, user: this.#user };
  }

  #move(dice, name, payment, body) {
    const path = `/payments/${payment}/${name}`;
    return { name, path, payment, body, key: `soak-${dice.uuid()}`, user: this.#user };
  }

  /** Does a request to its end, some of them twice at once, and some once more afterwards. Gives the payment that it made. */
  async #do(dice, act) {
    this.counts.operations += 1;
    Object.assign(act, { answers: [], end: null, refused: null });
    this.acts.push(act);
    const times = dice.chance(0.25) ? 2 : 1;
    await Promise.all(Array.from({ length: times }, () => this.#toTheEnd(dice, act)));
    if (act.end && dice.chance(0.2)) {
      this.counts.replays += 1;
      await this.#toTheEnd(dice, act);
    }
    const [first] = act.answers;
    act.end = first ?? null;
    return act.name === 'pay' && first?.status === 201 ? JSON.parse(first.text).id : undefined;
  }

  async #toTheEnd(dice, act) {
    for (let tries = 0; !this.#isLate; tries += 1) {
      if (tries > 0) {
        this.counts.retries += 1;
        await pause(AGAIN_MS);
      }
      const hangsUp = dice.chance(0.04);
      const signal = AbortSignal.timeout(hangsUp ? dice.between(5, 300) : ANSWER_MS);
      let answer;
      try {
        answer = await this.#ask(act.user, act.path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'idempotency-key': act.key },
          body: JSON.stringify(act.body),
          signal,
        });
      } catch {
        this.counts[hangsUp ? 'hung up' : 'lost'] += 1;
        continue;
      }
      if (ENDS.includes(answer.status)) {
        act.answers.push({ status: answer.status, text: answer.text, location: answer.header('location') });
        act.end = act.answers[0];
        return;
      }
      const { type } = problem(answer);
      if (REFUSALS.includes(type)) return void (act.refused = type);
      const open = /pay_[\w-]{43}/.exec(answer.header('location') ?? '')?.[0];
      if (open && answer.status === 503) this.inDoubt.push(open);
      if (!NOT_YET.includes(type) && answer.status < 500)
        return void this.wrong.push(`${act.path} was answered ${answer.status}: ${answer.text}`);
    }
    this.wrong.push(`${act.path} under ${act.key} was never answered`);
  }

  async #ask(user, path, init) {
    this.counts.requests += 1;
    const answer = await user.ask(path, init);
    this.statuses[answer.status] = (this.statuses[answer.status] ?? 0) + 1;
    return answer;
  }

  /** Tries until it gives something; nothing if that takes too long. */
  async #insist(act) {
    while (!this.#isLate) {
      const found = await act().catch(() => undefined);
      if (found) return found;
      this.counts.retries += 1;
      await pause(AGAIN_MS);
    }
    return undefined;
  }
}

/** Most are paid with the provider of the configuration, some with the other one. */
const somewhere = (dice) => (dice.chance(0.25) ? { provider: 'adyen' } : {});

function problem({ text }) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
