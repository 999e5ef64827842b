// The clients: API clients and browsers, which send the same request under the same key until they know how it ended. Every request has a
// connection of its own, so that what no answer came to is seen by the client, and only the client repeats it.

import { setTimeout as pause } from 'node:timers/promises';

import { send } from '../../crates/once-testing/kill/kill.mjs';
import { entries } from '../worker/support/browser.mjs';
import { contentOf } from '../worker/support/order-link.mjs';

const PAID = 'user@example.com';
const DECLINED = 'user-bad-source@example.com';
/** No client asks this often, unless something is wrong. */
const TRIES_MAX = 300;
/** What a status page waits before it looks again. */
const LOOK_AGAIN_MS = 500;
/** These say "not yet"; every other refusal would be a mistake. */
const NOT_YET = [409, 500, 503];

/** All clients of one load, and what they counted. */
export class Clients {
  counts = { requests: 0, retries: 0, unanswered: 0, statuses: {} };
  /** How many have done what they came for. */
  finished = 0;
  #runtime;
  #underWay;
  #over = new AbortController();
  #awaited = null;

  constructor(runtime, underWay) {
    this.#runtime = runtime;
    this.#underWay = underWay;
  }

  /**
   * A client with a key of its own. `card` is `paid` or `declined`; one that `doubles` sends each request twice at once; one that vanishes
   * tries only once, and hangs up after `vanishesAfterMs`.
   */
  make({ number, channel, card, doubles, vanishesAfterMs }) {
    const client = { number, channel, card, doubles, vanishesAfterMs, answers: [] };
    if (channel === 'api') {
      client.key = `crash-${number}-${crypto.randomUUID()}`;
      client.owner = { authorization: `Bearer ${card === 'paid' ? PAID : DECLINED}` };
      client.headers = { ...client.owner, 'idempotency-key': client.key, 'content-type': 'application/json' };
      client.path = '/payments';
      client.amount = 2000 + (number % 1000);
      client.body = JSON.stringify({ amount: client.amount, currency: 'usd' });
    }
    return client;
  }

  /** Resolves when so many more have finished. */
  moreFinished(count) {
    const { promise, resolve } = Promise.withResolvers();
    this.#awaited = { at: this.finished + count, resolve };
    if (count === 0) resolve();
    return promise;
  }

  /** Sends everybody home. */
  stop() {
    this.#over.abort();
  }

  /** Lets a client do what it came for. */
  async run(client) {
    try {
      await this.#toTheEnd(client);
    } catch (error) {
      if (!this.#over.signal.aborted) throw error;
    } finally {
      this.finished += 1;
      if (this.finished === this.#awaited?.at) this.#awaited.resolve();
    }
  }

  async #toTheEnd(client) {
    if (client.channel === 'form') await this.#openForm(client);
    for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
      this.#over.signal.throwIfAborted();
      await this.#runtime.up();
      if (tries > 1) this.counts.retries += 1;
      const answers = await Promise.all(
        Array.from({ length: client.doubles ? 2 : 1 }, () => this.#try(client)),
      );
      if (client.vanishesAfterMs && answers.some((answer) => answer !== 'refused')) return;
      const ends = answers.filter((answer) => answer.end);
      client.answers.push(...ends.map((answer) => answer.end));
      if (ends.length > 0) return;
      const waitMs = Math.min(...answers.map((answer) => answer.waitMs ?? 0));
      if (waitMs > 0) await pause(waitMs, null, { signal: this.#over.signal });
    }
    throw new Error(`Client ${client.number} had no definitive answer after ${TRIES_MAX} tries`);
  }

  /** The same request once more, to its end. */
  async repeat(client) {
    const answer = await this.#try({ ...client, vanishesAfterMs: null });
    return answer.end ?? { unexpected: answer };
  }

  /** What `GET /idempotency-keys/{key}` says of an API client's key; `null` if it was never taken. */
  async look(client) {
    const path = `/idempotency-keys/${encodeURIComponent(client.key)}`;
    const answer = await this.#ask(path, { headers: client.owner });
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text);
  }

  /** Gives `{ end }` if the outcome is known, else how long to wait; `refused` if the request never left. */
  async #try(client) {
    const form = client.channel === 'form';
    const hangUp = client.vanishesAfterMs ? AbortSignal.timeout(client.vanishesAfterMs) : undefined;
    const headers = form ? { ...client.headers, origin: this.#runtime.origin?.origin } : client.headers;
    let answer;
    try {
      answer = await this.#ask(client.path, { method: 'POST', headers, body: client.body, signal: hangUp });
      if (form && answer.status === 303) return await this.#followed(client, answer);
    } catch (error) {
      if (error.code === 'ECONNREFUSED') return 'refused';
      this.counts.unanswered += 1;
      return {};
    }
    if (NOT_YET.includes(answer.status)) {
      const seconds = answer.headers['retry-after'];
      return { waitMs: seconds ? 1000 * Number(seconds) : LOOK_AGAIN_MS };
    }
    return { end: kept(answer) };
  }

  /** A form is always answered with the way to its order, whose page says whether it is over. */
  async #followed(client, answer) {
    let page = answer;
    while (page.status === 303)
      page = await this.#ask(page.headers.location, { headers: { accept: 'text/html' } });
    const shown = /Thank you for your order/.test(page.text)
      ? page.text
      : /card was declined/.exec(page.text)?.[0];
    if (page.status !== 200 || !shown) return { waitMs: LOOK_AGAIN_MS };
    return { end: { ...kept(answer), shown } };
  }

  /** The form of a new order. */
  async #openForm(client) {
    const accept = 'text/html';
    for (;;) {
      this.#over.signal.throwIfAborted();
      await this.#runtime.up();
      const visit = (path) => this.#ask(path, { headers: { accept } }).catch(() => null);
      const made = await visit('/checkout');
      const page = made && (await visit(made.headers.location));
      if (!page) continue;
      if (page.status !== 200) throw new Error(`The form was answered ${page.status}: ${page.text}`);
      const [, order, , , lines] = contentOf(made.headers.location);
      const form = {
        ...entries(page.text),
        payment_method: client.card === 'paid' ? 'pm_card_visa' : 'pm_card_visa_chargeDeclined',
        email: 'you@example.com',
      };
      client.path = made.headers.location;
      client.order = order;
      client.amount = lines.reduce((sum, [, unit, quantity]) => sum + unit * quantity, 0);
      client.key = form.idempotency_key;
      client.headers = { accept, 'content-type': 'application/x-www-form-urlencoded' };
      client.body = new URLSearchParams(form).toString();
      return;
    }
  }

  async #ask(path, options) {
    this.counts.requests += 1;
    this.#underWay.begin();
    try {
      const origin = this.#runtime.origin;
      if (!origin) throw Object.assign(new Error('down'), { code: 'ECONNREFUSED' });
      const answer = await send(origin, path, options);
      this.counts.statuses[answer.status] = (this.counts.statuses[answer.status] ?? 0) + 1;
      return answer;
    } finally {
      this.#underWay.end();
    }
  }
}

/** What must be the same in every replay, and whether this was one. */
function kept({ status, headers, text }) {
  return {
    status,
    contentType: headers['content-type'],
    location: headers.location,
    text,
    replayed: headers['idempotent-replayed'] === 'true',
  };
}
