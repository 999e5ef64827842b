// A provider that costs next to nothing: it takes `POST /v1/payment_intents` as Stripe does, answers with what a codec reads of it,
// and remembers each idempotency key. `GET /_bench/ledger` gives what was charged; with `?from=n` from the n-th charge on.

const answers = new Map();
const charges = [];
let requests = 0;

export default {
  async fetch(request) {
    const path = new URL(request.url).pathname;
    if (path === '/_bench/ledger')
      return Response.json({ requests, charges: charges.slice(from(request.url)) });
    requests += 1;
    if (request.method === 'POST' && path === '/v1/payment_intents') return pay(request);
    if (request.method === 'POST' && path === '/v1/refunds') return once(request, refund);
    const [, intent, move] = /^\/v1\/payment_intents\/(\w+)\/(capture|cancel)$/.exec(path) ?? [];
    if (request.method === 'POST' && move) return once(request, (asked) => moved(intent, move, asked));
    // Emails and text messages.
    if (/\/(emails|messages)$/.test(path)) return once(request, () => ({ id: crypto.randomUUID() }));
    return Response.json(
      { error: { type: 'invalid_request_error', message: `no ${path} here` } },
      { status: 404 },
    );
  },
};

const from = (url) => Number(new URL(url).searchParams.get('from') ?? 0);

/** A key's answer is made once. */
async function once(request, make) {
  const key = request.headers.get('idempotency-key') ?? crypto.randomUUID();
  let answer = answers.get(key);
  if (answer === undefined) {
    answer = JSON.stringify(make(new URLSearchParams(await request.text())));
    answers.set(key, answer);
  }
  return new Response(answer, { headers: { 'content-type': 'application/json', 'request-id': 'req_bench' } });
}

const pay = (request) =>
  once(request, (asked) => {
    const resource = asked.get('metadata[resource]');
    charges.push(resource);
    const amount = Number(asked.get('amount'));
    const isHeld = asked.get('capture_method') === 'manual';
    const id = `ch_${charges.length}`;
    const card = { brand: 'mastercard', last4: '4444' };
    const charge = { id, object: 'charge', payment_method_details: { type: 'card', card } };
    return {
      id: `pi_${charges.length}`,
      object: 'payment_intent',
      amount,
      amount_capturable: isHeld ? amount : 0,
      amount_received: isHeld ? 0 : amount,
      currency: asked.get('currency'),
      capture_method: asked.get('capture_method') ?? 'automatic',
      status: isHeld ? 'requires_capture' : 'succeeded',
      latest_charge: asked.get('expand[0]') === 'latest_charge' ? charge : id,
      livemode: true,
      metadata: { resource, idempotency_key: asked.get('metadata[idempotency_key]') ?? undefined },
    };
  });

const moved = (intent, move, asked) => ({
  id: intent,
  object: 'payment_intent',
  amount_received: move === 'capture' ? Number(asked.get('amount_to_capture')) : 0,
  status: move === 'capture' ? 'succeeded' : 'canceled',
  latest_charge: 'ch_1',
  metadata: {},
});

const refund = (asked) => ({
  id: `re_${crypto.randomUUID().replaceAll('-', '')}`,
  object: 'refund',
  amount: Number(asked.get('amount')),
  payment_intent: asked.get('payment_intent'),
  status: 'succeeded',
  metadata: { idempotency_key: asked.get('metadata[idempotency_key]') },
});
