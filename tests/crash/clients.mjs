// API clients, and browsers that pay an order by its form.

import { Clients } from '../witness/clients.mjs';
import { kept, notYet } from '../witness/journal.mjs';
import { DECLINED_USER } from '../worker/support/account.mjs';
import { entries } from '../worker/support/browser.mjs';
import { contentOf } from '../worker/support/order-link.mjs';

const HTML = { accept: 'text/html' };
/** These say "not yet"; every other refusal would be a mistake. */
const NOT_YET = [409, 500, 503];

export class Shoppers extends Clients {
  #worker;

  constructor(load) {
    super(load);
    this.#worker = load.worker;
  }

  /**
   * One payment of somebody's. `declines` says what the card does; one that `doubles` sends each request twice at once; one that vanishes tries only
   * once, and hangs up after `vanishesAfterMs`.
   */
  async pay({ number, form, declines, doubles, vanishesAfterMs: afterMs }) {
    const act = { name: 'pay', form, declines, doubles, abandoned: Boolean(afterMs), afterMs };
    act.who = `client ${number} (${form ? 'form' : 'api'}, ${declines ? 'declined' : 'paid'})`;
    if (form) Object.assign(act, await this.#openForm(declines));
    else Object.assign(act, asked(number, declines));
    await this.toTheEnd(act, { copies: doubles ? 2 : 1 });
  }

  async attempt(act) {
    if (!act.form) return super.attempt(act);
    const { answer, ...none } = await this.hear(act.path, {
      method: 'POST',
      headers: {
        ...HTML,
        'content-type': 'application/x-www-form-urlencoded',
        origin: this.#worker.origin?.origin,
      },
      body: act.sent,
      signal: act.abandoned ? AbortSignal.timeout(act.afterMs) : undefined,
    });
    if (!answer) return none;
    if (answer.status === 303) return this.#followed(answer);
    return NOT_YET.includes(answer.status) ? notYet(answer) : { end: kept(answer) };
  }

  /** A form is always answered with the way to its order, whose page says whether it is over. */
  async #followed(answer) {
    let page = answer;
    while (page.status === 303) {
      const { answer: next, ...none } = await this.hear(page.headers.location, { headers: HTML });
      if (!next) return none;
      page = next;
    }
    const shown = /Thank you for your order/.test(page.text)
      ? page.text
      : /card was declined/.exec(page.text)?.[0];
    // What is stored names the request that it answered. One that came before may lead to a page that says the end by now.
    const isStored = Boolean(answer.headers['original-request']);
    return isStored && page.status === 200 && shown ? { end: { ...kept(answer), shown } } : notYet(page);
  }

  /** The form of a new order. */
  async #openForm(declines) {
    for (;;) {
      this.over.throwIfAborted();
      await this.#worker.up();
      const { answer: made } = await this.hear('/checkout', { headers: HTML });
      const { answer: page } = made ? await this.hear(made.headers.location, { headers: HTML }) : {};
      if (!page) continue;
      if (page.status !== 200) throw new Error(`The form was answered ${page.status}: ${page.text}`);
      const path = made.headers.location;
      const [, order, , , lines] = contentOf(path);
      const form = {
        ...entries(page.text),
        payment_method: declines ? 'pm_card_visa_chargeDeclined' : 'pm_card_visa',
        email: 'you@example.com',
      };
      return {
        path,
        order,
        amount: lines.reduce((sum, [, unit, quantity]) => sum + unit * quantity, 0),
        key: form.idempotency_key,
        sent: new URLSearchParams(form).toString(),
        expects: { status: 303, text: declines ? 'card was declined' : 'Thank you for your order' },
      };
    }
  }

  /** Where a key stands. That of a form is for nobody to ask for: it is read from the rows on disk. */
  look(act, objects) {
    if (!act.form) return super.look(act);
    const order = objects.find(({ payments: [payment] }) => payment?.order_id === act.order);
    if (!order) return null;
    const [key] = order.keys;
    return {
      ...key,
      status: key.status === 'finished' ? 'complete' : key.status,
      response_code: key.response_status,
      resource: `/payments/${order.payments[0].payment_id}`,
      attempts: key.attempt,
      timeline: order.timeline.map((line) => ({ ...line, at: new Date(line.at_ms).toISOString() })),
    };
  }
}

function asked(number, declines) {
  const body = { amount: 2000 + (number % 1000), currency: 'usd' };
  return {
    path: '/payments',
    key: `crash-${number}-${crypto.randomUUID()}`,
    body,
    ...(declines && { owner: { authorization: `Bearer ${DECLINED_USER}` } }),
    expects: declines
      ? { status: 402, text: '"status":"declined"' }
      : { status: 201, text: '"status":"succeeded"' },
  };
}
