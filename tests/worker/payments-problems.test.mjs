// Every kind of problem that payments can run into, each met once: as the API's document says, with a page that explains
// it. And every parameter that is wrong, named, without a trace.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, describe, test } from 'node:test';

import { USER, account, freshKey } from './support/account.mjs';
import { withoutEffect } from './support/effects.mjs';
import { demoWorkers, root, shareSite, startSite } from './support/harness.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  DECLINED_CARD,
  PATIENT,
  PAYMENT,
  assertProblem,
  client,
  held,
  insist,
  operations,
  paid,
  send,
} from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';

const site = await shareSite({ vars: IMPATIENT });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

/** As the program has them. */
const slugs = [
  ...readFileSync(`${root}/crates/web/src/problem.rs`, 'utf8').matchAll(/^\s+\d{3}, "([a-z-]+)", /gm),
].map(([, slug]) => slug);

/** Those that payments cannot meet here, and where they are shown. */
const elsewhere = {
  forbidden: 'a form of another site: checkout.test.mjs',
  'request-timeout': 'needs a slow line: abuse-edge.test.mjs',
  'rate-limited': 'needs a limiter: manners.test.mjs',
  'try-too-soon': 'of one order: abuse-checkout.test.mjs',
  'limit-reached': 'of one order: abuse-checkout.test.mjs',
  'order-link-expired': 'a page of the checkout: checkout.test.mjs',
  'order-link-replaced': 'a page of the checkout: abuse-checkout.test.mjs',
  'order-link-ended': 'a page of the checkout: abuse-checkout.test.mjs',
  'order-link-revision': 'of a link: abuse-checkout.test.mjs',
  misconfigured: 'below, with settings of its own',
};

const xml = { 'content-type': 'application/xml' };
const fresh = (payment = PAYMENT, headers) => user.pay(payment, freshKey(), headers);

/** How a payment is answered that does not come to its end. It does at once, or its alarm would send what a later test's fault is meant for. */
async function unfinished(payment, fault) {
  const key = freshKey();
  if (fault) await site.simulator.fault(fault);
  const answer = await user.pay(payment, key, AT_ONCE);
  await site.simulator.calm();
  await insist(() => user.pay(PAYMENT, key));
  return answer;
}

/** How each is met, and its status. */
const kinds = {
  'idempotency-key-missing': [400, () => user.pay(PAYMENT)],
  'webhook-signature': [400, () => user.post('/webhooks/stripe', {})],
  'idempotency-key-invalid': [400, () => user.pay(PAYMENT, 'two words')],
  'bad-request': [400, () => fresh('{"amount":')],
  unauthorized: [401, () => client(site, 'nobody').pay(PAYMENT, freshKey())],
  'payment-failed': [402, () => fresh({ ...PAYMENT, payment_method: DECLINED_CARD })],
  'operation-refused': [
    402,
    async () => {
      const { id, provider_payment: theirs } = await paid(user, AUTHORISATION);
      const bank = site.server.getWorker('paid-once-simulator');
      await bank.fetch(`https://stripe.simulator/v1/payment_intents/${theirs}/cancel`, {
        method: 'POST',
        headers: { authorization: 'Bearer sk_test_demo' },
      });
      return user.post(`/payments/${id}/capture`, undefined, freshKey());
    },
  ],
  'https-required': [
    403,
    () =>
      user.ask('http://pay.example.com/payments', { method: 'POST', headers: { 'idempotency-key': 'a' } }),
  ],
  'not-found': [404, () => user.payment(`pay_${Buffer.alloc(32).toString('base64url')}`)],
  'method-not-allowed': [405, () => user.ask('/payments', { method: 'DELETE' })],
  'request-in-progress': [
    409,
    async () => {
      const key = freshKey();
      const { answer } = await held(site, () => user.pay(PAYMENT, key, PATIENT));
      const refused = await user.pay(PAYMENT, key, AT_ONCE);
      await site.simulator.calm();
      await answer;
      return refused;
    },
  ],
  'idempotency-key-expired': [
    409,
    async () => {
      const key = freshKey();
      await user.pay(PAYMENT, key);
      await user.forget(key);
      return user.pay(PAYMENT, key);
    },
  ],
  'payment-state': [
    409,
    async () => user.post(`/payments/${(await paid(user)).id}/capture`, undefined, freshKey()),
  ],
  'revision-mismatch': [
    412,
    () =>
      user.ask('/customers/problems@example.com', {
        method: 'PUT',
        headers: { 'content-type': 'application/json', 'if-match': '"7"' },
        body: '{}',
      }),
  ],
  'content-too-large': [413, () => fresh({ ...PAYMENT, description: 'x'.repeat(65_536) })],
  'unsupported-media-type': [415, () => fresh('<amount/>', xml)],
  'invalid-parameters': [422, () => fresh({ ...PAYMENT, amount: 0 })],
  'idempotency-key-reused': [
    422,
    async () => {
      const key = freshKey();
      await user.pay(PAYMENT, key);
      return user.pay(AUTHORISATION, key);
    },
  ],
  'amount-too-large': [
    422,
    async () => user.post(`/payments/${(await paid(user)).id}/refunds`, { amount: 9999 }, freshKey()),
  ],
  interrupted: [500, () => unfinished({ ...PAYMENT, raise_error: 'true' })],
  'outcome-unknown': [503, () => unfinished(PAYMENT, 'connection_reset_after')],
  'temporarily-unavailable': [503, () => unfinished(PAYMENT, 'rate_limited')],
  'cannot-be-shown': [
    503,
    async () => {
      const { id } = await paid(user);
      await site.objects.stored(id, "UPDATE timeline SET state = '{}' WHERE id = 0");
      return user.payment(id);
    },
  ],
};

describe('the problem', () => {
  for (const [kind, [status, meet]] of Object.entries(kinds))
    test(`${kind} is answered as documented, and explained`, async () => {
      const answer = await meet();
      const problem = assertProblem(answer, status, kind);
      const own = ['payment-failed', 'operation-refused'].includes(kind)
        ? problem.instance.startsWith('/payments/pay_')
        : problem.instance === answer.header('request-id');
      assert.ok(own, 'it speaks of this very request, or of the payment that it is stored with');
      assert.equal(answer.header('cache-control'), 'private, no-store');

      const page = await user.ask(problem.type, { headers: { accept: 'text/html' } });
      assert.equal(page.status, 200);
      assert.match(page.header('content-type'), /^text\/html/);
      const escaped = problem.title.replaceAll('&', '&#38;').replaceAll("'", '&#39;');
      assert.ok(page.text.includes(escaped), page.text);
    });

  test('of every kind is met by this file or by the one that is named', () => {
    assert.equal(new Set(slugs).size, slugs.length);
    assert.deepEqual(slugs.toSorted(), Object.keys({ ...kinds, ...elsewhere }).sort());
  });

  test('comes as a page for who prefers one', async () => {
    const answer = await account(site).pay(PAYMENT, undefined, { accept: 'text/html' });
    assert.equal(answer.status, 400);
    assert.match(answer.header('content-type'), /^text\/html/);
  });

  test('is read by a program that likes pages best only because its library does', async () => {
    const accept = 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2'; // Java's HttpURLConnection
    assertProblem(await user.pay(PAYMENT, undefined, { accept }), 400, 'idempotency-key-missing');
    const page = await site.fetch('/payments', { headers: { accept } });
    assert.match(page.headers.get('content-type'), /^text\/html/);
  });

  test('says with a token that nobody has that it is the token', async () => {
    const bearer = (token) =>
      site.fetch('/payments', { headers: token && { authorization: `Bearer ${token}` } });
    const challenge = async (token) => (await bearer(token)).headers.get('www-authenticate');
    assert.equal(await challenge(), 'Bearer realm="paid-once"');
    assert.equal(await challenge('nobodys'), 'Bearer realm="paid-once", error="invalid_token"');
  });
});

// On a site of its own: who counts all effects of a site is alone there.
describe('a parameter that is wrong', async () => {
  const site = await startSite();
  const user = client(site);
  after(() => site.close());

  const wrong = {
    payment: [
      [{}, ['amount', 'currency']],
      [{ amount: 0, currency: 'usd' }, ['amount']],
      [{ amount: -1, currency: 'usd' }, ['amount']],
      [{ amount: 12.5, currency: 'usd' }, ['amount']],
      [{ amount: 49, currency: 'usd' }, ['amount']],
      [{ amount: 100_000_000, currency: 'usd' }, ['amount']],
      [{ amount: 1005, currency: 'kwd' }, ['amount']],
      [{ amount: [2500], currency: 'usd' }, ['amount']],
      [{ ...PAYMENT, currency: 'dollar' }, ['currency']],
      [{ ...PAYMENT, capture: 'perhaps' }, ['capture']],
      [{ ...PAYMENT, provider: 'cash' }, ['provider']],
      [{ ...PAYMENT, order_id: 'x'.repeat(65) }, ['order_id']],
      [{ ...PAYMENT, order_id: 'two words' }, ['order_id']],
      [{ ...PAYMENT, description: 'x'.repeat(501) }, ['description']],
      [{ ...PAYMENT, return_url: 'javascript:alert(1)' }, ['return_url']],
      [{ ...PAYMENT, metadata: 'text' }, ['metadata']],
      [{ ...PAYMENT, metadata: { resource: 'mine' } }, ['metadata[resource]']],
      [{ ...PAYMENT, fallback: { provider: 'stripe' } }, ['fallback[provider]']],
      [{ ...PAYMENT, ammount: 1 }, ['ammount']],
      [{ ...PAYMENT, amount: 0, currency: 'x', capture: 2 }, ['amount', 'capture', 'currency']],
    ],
    capture: [
      [{ amount: 0 }, ['amount']],
      [{ amount: 1.5 }, ['amount']],
      [{ reason: 'duplicate' }, ['reason']],
    ],
    void: [[{ amount: 1 }, ['amount']]],
    refund: [
      [{ amount: 0 }, ['amount']],
      [{ amount: '1e9' }, ['amount']],
      [{ reason: 'because' }, ['reason']],
      [{ amount: 'x', reason: 'y', more: 1 }, ['amount', 'more', 'reason']],
    ],
  };
  const byName = Object.fromEntries(operations.map((operation) => [operation.name.split(' ')[1], operation]));
  for (const [name, cases] of Object.entries(wrong))
    test(`of a ${name} is named, nothing is kept, and the key is still free`, async () => {
      const [request, key] = [await byName[name].prepare(user), freshKey()];
      for (const [body, fields] of cases) {
        const refused = await withoutEffect(site, () => send(user, { ...request, body }, key));
        const { errors } = assertProblem(refused, 422, 'invalid-parameters');
        assert.deepEqual(errors.map(({ field }) => field).sort(), fields, JSON.stringify(body));
        assert.ok(errors.every(({ message }) => message.length > 0));
        assertProblem(await user.key(key), 404, 'not-found');
      }
      const answer = await send(user, request, key);
      assert.equal(answer.status, byName[name].status, answer.text);
      assert.equal(answer.header('idempotent-replayed'), null);
    });

  test('hides no wrong key, and a wrong key no missing credentials', async () => {
    const all = { path: '/payments', body: { amount: 'x' } };
    assertProblem(await send(client(site, 'nobody'), all, 'two words'), 401, 'unauthorized');
    assertProblem(await send(user, all, 'two words'), 400, 'idempotency-key-invalid');
    assertProblem(await send(user, all, freshKey()), 422, 'invalid-parameters');
  });
});

describe('a service that is not set up', () => {
  test('says so to whoever pays, and runs nothing', async () => {
    const [demo, ...others] = demoWorkers();
    const unset = { ...demo, secrets: { SIGNING_KEY: 'short' } };
    const broken = await startSite({ workers: [unset, ...others] });
    try {
      const operator = client(broken, USER);
      assertProblem(await operator.pay(PAYMENT, freshKey()), 503, 'misconfigured');
      assert.deepEqual(await broken.simulator.requests(), []);
    } finally {
      await broken.close();
    }
  });
});
