// The bank of the example crates/once-object/examples/transfers: a server outside of what is killed, whose books everything is judged by.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

export const IBAN = 'DE02 1203 0000 0000 2020 51';

/** Of whom the accounts are (`TOKENS` of the example). */
export const SHOP = { authorization: 'Bearer token-of-the-shop' };

/** A request of the example's: a transfer from the account `name`. */
export const transfer = (name, key, { cents = 700, to = IBAN } = {}) => ({
  path: `/accounts/${name}`,
  method: 'POST',
  headers: { ...SHOP, 'idempotency-key': key, 'content-type': 'application/json' },
  body: JSON.stringify({ to, cents }),
});

/** Executes each key once, unless it looks at none. */
export class Bank {
  executed = [];
  requests = 0;
  /** So many requests were given up before they were answered. */
  givenUp = 0;
  /** It answers late, or not at all. */
  isSlow = false;
  /** It executes, and answers nobody. */
  holds = false;
  /** It neither takes notices nor refuses them. */
  holdsNotices = false;
  /** It begins to answer, and comes to no end: this many bytes at once, again and again. */
  pours = 0;
  #answers = new Map();
  #notices = new Set();
  #waiting = [];
  #options;
  #server;

  constructor(options = {}) {
    this.#options = { looksAtKeys: true, ...options };
    this.#server = createServer((request, response) => this.#serve(request, response));
  }

  async start() {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.origin = `http://127.0.0.1:${this.#server.address().port}`;
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** So many requests were given up. */
  leftAlone(count) {
    return this.#until(() => this.givenUp >= count);
  }

  /** So many requests have come. */
  reached(count) {
    return this.#until(() => this.requests >= count);
  }

  /** So many payees were told. */
  told(count) {
    return this.#until(() => this.#notices.size >= count);
  }

  #until(isSo) {
    const { promise, resolve } = Promise.withResolvers();
    this.#waiting.push({ isSo, resolve });
    this.#look();
    return promise;
  }

  #look() {
    this.#waiting = this.#waiting.filter(({ isSo, resolve }) => !isSo() || resolve());
  }

  async #serve(request, response) {
    const key = request.headers['idempotency-key'];
    response.once('close', () => {
      if (response.writableFinished) return;
      this.givenUp += 1;
      this.#look();
    });
    const chunks = await Array.fromAsync(request);
    const text = Buffer.concat(chunks).toString();
    if (this.holdsNotices && request.url === '/notices') return;
    const answer = request.url === '/notices' ? this.#notice(key) : this.#transfer(request.method, key, text);
    this.#look();
    if (this.holds) return;
    if (this.pours > 0) return this.#pour(response);
    if (this.isSlow) await pause(this.#options.between(20, 300));
    if (this.isSlow && this.#options.between(1, 8) === 1) return response.destroy();
    response
      .writeHead(answer.status, { 'content-type': 'application/json' })
      .end(JSON.stringify(answer.body));
  }

  async #pour(response) {
    response.writeHead(200, { 'content-type': 'application/json' });
    while (!response.destroyed) {
      response.write(' '.repeat(this.pours));
      await pause(20);
    }
  }

  #notice(id) {
    this.#notices.add(id);
    return { status: 200, body: {} };
  }

  #transfer(method, key, text) {
    const { looksAtKeys } = this.#options;
    const known = this.#answers.get(key);
    if (method === 'GET') return known ? { ...known, status: 200 } : { status: 404, body: {} };
    this.requests += 1;
    if (known && looksAtKeys) return known;
    const { to, cents } = JSON.parse(text);
    this.executed.push({ key, to, cents });
    const isKnown = to !== 'nobody';
    // It says more than the example knows of, as a bank does one day.
    const body = isKnown
      ? { status: 'booked', reference: `tr_${this.executed.length}`, fee_cents: 0 }
      : { status: 'rejected', reason: 'no such account', code: { number: 17 } };
    const answer = { status: isKnown ? 200 : 422, body };
    this.#answers.set(key, answer);
    return answer;
  }
}
