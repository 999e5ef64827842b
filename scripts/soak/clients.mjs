// Clients of the soak: they pay, reserve, capture, void, refund, order the same twice and go to the bank. Each sends its
// request again under its key until it is answered for good, whatever happens on the way.
import { setTimeout as pause } from 'node:timers/promises';

import { DECLINED_USER, USER, account } from '../../tests/worker/support/account.mjs';
import { browser } from '../../tests/worker/support/browser.mjs';
import { meaning } from '../../tests/witness/journal.mjs';
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
  #rng;
  #user;
  #declined;
  #over = false;
  #givesUpAt = Infinity;

  constructor(site, rng) {
    this.#site = site;
    this.#rng = rng;
    this.#user = account(site, USER);
    this.#declined = account(site, DECLINED_USER);
  }

  /** Runs so many clients, one story after the other, until `stop()`; resolves when all have ended what they had begun. */
  run(count) {
    return Promise.all(Array.from({ length: count }, () => this.#live(this.#rng.fork())));
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

  async #live(rng) {
    while (!this.#over) {
      const story = rng.weighted(STORIES);
      this.stories[story] = (this.stories[story] ?? 0) + 1;
      try {
        await this[story](rng);
      } catch (error) {
        this.wrong.push(`a client of the story ${story}: ${error.stack}`);
      }
    }
  }

  async charge(rng) {
    const order = rng.chance(0.4) ? { order_id: `order-${rng.uuid()}` } : {};
    const id = await this.#do(rng, this.#pay(rng, { ...order, ...somewhere(rng) }));
    if (id) await this.#refunds(rng, id);
  }

  async reserve(rng) {
    const id = await this.#do(rng, this.#pay(rng, { capture: false, ...somewhere(rng) }));
    if (!id) return;
    const capture = () => this.#move(rng, 'capture', id, { amount: rng.between(1, AMOUNT) });
    const give = () => this.#move(rng, 'void', id, {});
    const moves = rng.oneOf([
      [capture()],
      [capture()],
      [give()],
      [capture(), give()],
      [capture(), capture()],
    ]);
    await Promise.all(moves.map((move) => this.#do(rng, move)));
    await this.#refunds(rng, id);
  }

  /** One order, paid under two keys at once. */
  async order(rng) {
    const order_id = `order-${rng.uuid()}`;
    const pays = [this.#pay(rng, { order_id }), this.#pay(rng, { order_id })];
    const made = await Promise.all(pays.map((pay) => this.#do(rng, pay)));
    const ids = made.filter(Boolean);
    if (new Set(ids).size > 1) this.wrong.push(`the order ${order_id} has two payments: ${ids.join(', ')}`);
    if (ids[0]) await this.#refunds(rng, ids[0]);
  }

  async declined(rng) {
    const where = somewhere(rng);
    const payment_method = rng.oneOf(where.provider ? DECLINED_AT_ADYEN : DECLINED_CARDS);
    await this.#do(rng, this.#pay(rng, { payment_method, ...where }));
  }

  /** Accepted first, decided later. */
  async slow(rng) {
    const id = await this.#do(rng, this.#pay(rng, { payment_method: rng.oneOf(SLOW_CARDS) }));
    if (id && rng.chance(0.3)) await this.#do(rng, this.#move(rng, 'void', id, {}));
  }

  /** 3-D Secure: the person accepts, fails, or goes away. */
  async bank(rng) {
    const more = { payment_method: BANK_CARD, return_url: RETURN_URL, capture: rng.chance(0.7) };
    const act = this.#pay(rng, more);
    const id = await this.#do(rng, act);
    const payment = id && JSON.parse(act.answers[0].text);
    if (payment?.status !== 'requires_action') return;
    const decision = rng.weighted({ accept: 7, fail: 2, leave: 1 });
    if (decision === 'leave') return void (await this.#do(rng, this.#move(rng, 'void', id, {})));
    const { pathname } = new URL(payment.next_action.redirect_to_url.url);
    const back = await this.#insist(async () => {
      const answer = await this.#site.fetch(`${pathname}/${decision}`, { method: 'POST' });
      return answer.status === 303
        ? answer.headers.get('location')
        : answer.status === 200
          ? 'over'
          : undefined;
    });
    if (back?.startsWith('http') && rng.chance(0.7)) {
      const { pathname: path, search } = new URL(back);
      await this.#ask(this.#user, path + search, {}).catch(() => {});
    }
  }

  /** A person who presses the button twice, in one tab or in two. */
  async checkout(rng) {
    const body = { order_id: `order-${rng.uuid()}`, currency: 'usd', lines: LINES };
    const link = await this.#insist(async () => {
      const made = await this.#user.post('/checkout/sessions', body);
      return made.status === 201 ? new URL(made.json().url).pathname : undefined;
    });
    if (!link) return;
    const tabs = [browser(this.#site), browser(this.#site)];
    const email = 'ada@example.com';
    const cards = rng.chance(0.3) ? ['pm_card_visa_chargeDeclined'] : [];
    this.counts.operations += 1;
    const page = await this.#insist(async () => {
      const page = await tabs[0].visit(link);
      this.counts.requests += 1;
      if (page.text.includes('Thank you for your order')) return page;
      if (!page.entries?.payment_method) return undefined;
      const payment_method = cards.pop() ?? 'pm_card_visa';
      const senders = rng.chance(0.5) ? tabs : [tabs[0], tabs[0]];
      const send = async (tab) => {
        const own = tab === tabs[0] ? page : await tab.visit(link);
        if (own.entries) await tab.send(link, { ...own.entries, payment_method, email });
      };
      await Promise.all(senders.map((tab) => send(tab).catch(() => {})));
      return undefined;
    });
    if (!page) return this.wrong.push(`the checkout ${body.order_id} came to no receipt`);
    const payment = /pay_[\w-]{43}/.exec(page.text)?.[0];
    this.acts.push({ name: 'checkout', path: link, payment, answers: [{ status: 201, text: '' }] });
    if (payment && rng.chance(0.5)) await this.#refunds(rng, payment);
  }

  /** Up to three, which together may be more than there is. */
  async #refunds(rng, id) {
    const refunds = Array.from({ length: rng.between(0, 3) }, () =>
      this.#move(rng, 'refunds', id, { amount: rng.between(200, 1500) }),
    );
    await Promise.all(refunds.map((refund) => this.#do(rng, refund)));
  }

  #pay(rng, more) {
    const receipt = rng.chance(0.3) ? { receipt_email: `soak-${rng.between(1, 99)}@example.com` } : {};
    const body = { amount: AMOUNT, currency: 'usd', ...receipt, ...more };
    return { name: 'pay', path: '/payments', body, key: `soak-${rng.uuid()}`, user: this.#user };
  }

  #move(rng, name, payment, body) {
    const path = `/payments/${payment}/${name}`;
    return { name, path, payment, body, key: `soak-${rng.uuid()}`, user: this.#user };
  }

  /** Does a request to its end, some of them twice at once, and some once more afterwards. Gives the payment that it made. */
  async #do(rng, act) {
    this.counts.operations += 1;
    Object.assign(act, { answers: [], refused: null });
    this.acts.push(act);
    const times = rng.chance(0.25) ? 2 : 1;
    await Promise.all(Array.from({ length: times }, () => this.#toTheEnd(rng, act)));
    if (act.answers.length > 0 && rng.chance(0.2)) {
      this.counts.replays += 1;
      await this.#toTheEnd(rng, act);
    }
    const [first] = act.answers;
    return act.name === 'pay' && first?.status === 201 ? JSON.parse(first.text).id : undefined;
  }

  async #toTheEnd(rng, act) {
    for (let tries = 0; !this.#isLate; tries += 1) {
      if (tries > 0) {
        this.counts.retries += 1;
        await pause(AGAIN_MS);
      }
      const hangsUp = rng.chance(0.04);
      const signal = AbortSignal.timeout(hangsUp ? rng.between(5, 300) : ANSWER_MS);
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
      const { end, refused, waitMs } = meaning(answer, act);
      if (end) return void act.answers.push(end);
      if (refused) return void (act.refused = refused);
      const open = /pay_[\w-]{43}/.exec(answer.headers.location ?? '')?.[0];
      if (open && answer.status === 503) this.inDoubt.push(open);
      if (waitMs === undefined && answer.status < 500)
        return void this.wrong.push(`${act.path} was answered ${answer.status}: ${answer.text}`);
    }
    this.wrong.push(`${act.path} under ${act.key} was never answered`);
  }

  async #ask(user, path, init) {
    this.counts.requests += 1;
    const { status, headers, text } = await user.ask(path, init);
    this.statuses[status] = (this.statuses[status] ?? 0) + 1;
    return { status, headers: Object.fromEntries(headers), text };
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
const somewhere = (rng) => (rng.chance(0.25) ? { provider: 'adyen' } : {});
