// The floor: the least that a Worker can do to answer `POST /payments` under an idempotency key. One SQLite object a key reads the
// key's row; without one it calls the provider once, stores the answer, and gives it.
//
// What it promises: a replay that comes after the answer was stored gives the same bytes, also after the process has ended.
//
// What it does not promise: it asks nobody who they are, and judges neither the key nor the body. Two requests at the same time call
// twice (only the provider's own key makes one charge of them). Nothing is written before the send: what crashes in between is
// forgotten, and nobody comes back for it. Another request under the same key gets the first one's answer. A refusal of the provider
// is an error of ours. There are no jobs, no list, no receipt, no expiry, no log, no metrics, no limit, and no second operation.
//
// An answer goes from the object to the edge as one string, which costs less than an object does; its first letter says whether it is
// a replay.
import { DurableObject } from 'cloudflare:workers';

const NEW = 'n';
const REPLAYED = 'r';
const headers = {
  [NEW]: { 'content-type': 'application/json' },
  [REPLAYED]: { 'content-type': 'application/json', 'idempotent-replayed': 'true' },
};

export default {
  async fetch(request, env) {
    if (request.method !== 'POST') return new Response(null, { status: 404 });
    const key = request.headers.get('idempotency-key');
    const answer = await env.KEYS.getByName(key).pay(key, await request.text());
    return new Response(answer.slice(1), { status: 201, headers: headers[answer[0]] });
  },
};

export class Key extends DurableObject {
  async pay(key, body) {
    const stored = this.ctx.storage.kv.get('answer');
    if (stored) return REPLAYED + stored;

    const { amount, currency } = JSON.parse(body);
    const id = `pay_${this.ctx.id}`;
    const answer = await fetch('https://api.stripe.com/v1/payment_intents', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.env.STRIPE_SECRET_KEY}`,
        'content-type': 'application/x-www-form-urlencoded',
        'idempotency-key': key,
      },
      body: `amount=${amount}&currency=${currency}&capture_method=automatic&payment_method=pm_card_visa&confirm=true&metadata%5Bresource%5D=${id}`,
    });
    const { status } = await answer.json();
    if (status !== 'succeeded') throw new Error(`the provider says ${status}`);
    const text = JSON.stringify({ id, object: 'payment', amount, currency, status });
    this.ctx.storage.kv.put('answer', text);
    return NEW + text;
  }
}
