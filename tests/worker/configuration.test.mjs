// The settings: production is complete and speaks to Stripe itself, or it says what is missing and does nothing.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, beforeEach, describe, test } from 'node:test';

import { account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import {
  SIGNING_KEY,
  demoWorkers,
  deployed,
  productionConfig,
  productionWorkers,
  root,
  startSite,
} from './support/harness.mjs';
import { AT_ONCE, PAYMENT } from './support/payments.mjs';

const TOKEN = 'acme-production-token';
const STRIPE_SECRET_KEY = 'sk_live_of_the_tests';
const SECRETS = {
  SIGNING_KEY,
  STRIPE_SECRET_KEY,
  API_ACCOUNTS: JSON.stringify({
    acme: {
      token_sha256: createHash('sha256').update(TOKEN).digest('hex'),
      payment_method: 'pm_of_acme',
      customer: 'cus_acme',
    },
  }),
};

/** The top level of wrangler.toml, with the simulator in reach: nothing may go there. */
const production = ({ secrets = SECRETS, vars = {} } = {}) => [
  { config: deployed('.'), vars, secrets },
  { configPath: 'simulator/wrangler.toml' },
];

// What the Workers send to the Internet lands here.
const outbound = [];
const internet = globalThis.fetch;
let stripe;
globalThis.fetch = async (input, init) => {
  const request = new Request(input, init);
  outbound.push({
    method: request.method,
    url: request.url,
    headers: Object.fromEntries(request.headers),
    body: await request.text(),
  });
  return stripe();
};
const charged = () =>
  Response.json({
    id: 'pi_of_stripe',
    object: 'payment_intent',
    status: 'succeeded',
    amount: 2500,
    amount_received: 2500,
    currency: 'usd',
  });
beforeEach(() => {
  outbound.length = 0;
  stripe = charged;
});

const site = await startSite({ workers: production() });
after(() => {
  globalThis.fetch = internet;
  return site.close();
});
const acme = account(site, TOKEN);

describe('in production', () => {
  test('a payment goes to Stripe itself, with a pinned version and a derived key', async () => {
    const answer = await acme.pay(PAYMENT, freshKey());
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.json().provider_payment, 'pi_of_stripe');
    const [request, ...more] = outbound;
    assert.deepEqual(more, []);
    assert.equal(`${request.method} ${request.url}`, 'POST https://api.stripe.com/v1/payment_intents');
    assert.equal(request.headers.authorization, `Bearer ${STRIPE_SECRET_KEY}`);
    assert.equal(request.headers['stripe-version'], '2026-08-26.dahlia');
    assert.equal(request.headers['idempotency-key'], `${answer.payment}_auth`);
    assert.equal(request.headers['content-type'], 'application/x-www-form-urlencoded');
    assert.deepEqual(Object.fromEntries(new URLSearchParams(request.body)), {
      amount: '2500',
      currency: 'usd',
      capture_method: 'automatic',
      payment_method: 'pm_of_acme',
      'payment_method_types[0]': 'card',
      confirm: 'true',
      off_session: 'true',
      customer: 'cus_acme',
      'metadata[resource]': answer.payment,
      'metadata[idempotency_key]': `${answer.payment}_auth`,
      'expand[0]': 'latest_charge',
    });
    assert.deepEqual(await site.simulator.requests(), []);
  });

  test('a redirect of the provider is not followed: the secret goes nowhere else', async () => {
    stripe = () => new Response(null, { status: 302, headers: { location: 'https://evil.example/' } });
    const key = freshKey();
    const answer = await acme.pay(PAYMENT, key, AT_ONCE);
    assert.equal(answer.status, 503);
    assert.equal(answer.json().type, '/problems/outcome-unknown');
    stripe = charged;
    assert.equal((await acme.pay(PAYMENT, key)).status, 201);
    assert.deepEqual(new Set(outbound.map(({ url }) => new URL(url).host)), new Set(['api.stripe.com']));
  });

  test('a wrong secret of the provider charges nothing, and is not the fault of the client', async () => {
    stripe = () => Response.json({ error: { type: 'invalid_request_error' } }, { status: 401 });
    const key = freshKey();
    const answer = await acme.pay(PAYMENT, key, AT_ONCE);
    assert.equal(answer.status, 503);
    assert.equal(answer.json().type, '/problems/temporarily-unavailable');
    stripe = charged; // the secret is mended
    assert.equal((await acme.pay(PAYMENT, key)).status, 201);
  });

  test('raise_error is refused, and nothing runs', async () => {
    for (const raise_error of ['true', 'crash']) {
      const answer = await acme.pay({ ...PAYMENT, raise_error }, freshKey());
      assert.equal(answer.status, 422);
      assert.equal(answer.json().errors[0].field, 'raise_error');
    }
    assert.deepEqual(outbound, []);
  });

  test("the article's users do not exist, and a token needs its scheme", async () => {
    for (const user of ['user@example.com', 'user-bad-source@example.com'])
      assert.equal((await account(site, user).pay(PAYMENT, freshKey())).status, 401);
    const headers = { authorization: TOKEN, 'idempotency-key': freshKey() };
    assert.equal((await site.fetch('/payments', { method: 'POST', headers })).status, 401);
    assert.deepEqual(outbound, []);
  });

  test('there is no lab, neither to see nor to press', async () => {
    for (const path of ['/lab', `/lab/${'a'.repeat(24)}`])
      assert.equal((await site.fetch(path)).status, 404, path);
    const body = new URLSearchParams({ fault: 'none', times: '5', round: 'a'.repeat(24) });
    const pressed = await site.fetch(`/lab/${'a'.repeat(24)}/pay`, { method: 'POST', body });
    assert.equal(pressed.status, 404);
    assert.deepEqual(outbound, []);
    assert.deepEqual(await site.simulator.requests(), []);
  });

  test('there is no order with test cards', async () => {
    const visitor = browser(site);
    const page = await visitor.visit('/checkout');
    assert.equal(page.status, 404);
    assert.equal(page.entries, undefined);
    assert.doesNotMatch((await visitor.visit('/')).text, /simulated/);
    assert.deepEqual(outbound, []);
  });
});

describe('security.txt', () => {
  test('says to whom a weakness is reported, until when, where that is set', async () => {
    assert.equal((await site.fetch('/.well-known/security.txt')).status, 404);
    const vars = {
      SECURITY_CONTACT: 'mailto:security@shop.example',
      SECURITY_EXPIRES: '2027-11-01T00:00:00Z',
    };
    await site.server.update({ root, workers: production({ vars }) });
    const answer = await read(await site.fetch('https://pay.example/.well-known/security.txt'));
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'text/plain; charset=utf-8');
    assert.deepEqual(answer.text.trimEnd().split('\n'), [
      'Contact: mailto:security@shop.example',
      'Expires: 2027-11-01T00:00:00Z',
      'Preferred-Languages: en',
      'Canonical: https://pay.example/.well-known/security.txt',
    ]);
    await site.server.update({ root, workers: production() });
  });
});

describe('the checkout in production', () => {
  const ORDER = {
    order_id: 'order-1',
    currency: 'usd',
    lines: [{ name: 'Mug', unit_amount: 1250, quantity: 2 }],
  };

  test('without a publishable key sells nothing at all', async () => {
    const answer = await acme.post('/checkout/sessions', ORDER);
    assert.equal(answer.status, 503);
    assert.equal(answer.json().type, '/problems/misconfigured');
    assert.match(answer.json().detail, /STRIPE_PUBLISHABLE_KEY is not set/);
  });

  test('with one the card is typed at Stripe, and its token is charged once, with a way back from the bank', async () => {
    const vars = { STRIPE_PUBLISHABLE_KEY: 'pk_live_of_the_tests' };
    const shop = await startSite({ workers: production({ vars }) });
    try {
      const made = await account(shop, TOKEN).post('/checkout/sessions', ORDER);
      assert.equal(made.status, 201, made.text);
      const path = new URL(made.json().url).pathname;
      const visitor = browser(shop);
      const page = await visitor.visit(path);
      assert.match(page.text, /data-key="pk_live_of_the_tests"/);
      assert.doesNotMatch(page.text, /simulated|4242/);
      const empty = await visitor.send(path, { ...page.entries, payment_method: '' });
      assert.equal(empty.status, 422);
      assert.deepEqual(outbound, []);

      const sent = { ...page.entries, payment_method: 'pm_1OfTheElement' };
      const paid = [await visitor.send(path, sent), await visitor.send(path, sent)];
      assert.deepEqual(
        paid.map(({ status }) => status),
        [303, 303],
      );
      const [request, ...more] = outbound;
      assert.deepEqual(more, []);
      const body = Object.fromEntries(new URLSearchParams(request.body));
      const { amount, currency, payment_method, confirm, customer } = body;
      assert.deepEqual(
        { amount, currency, payment_method, confirm, customer },
        {
          amount: '2500',
          currency: 'usd',
          payment_method: 'pm_1OfTheElement',
          confirm: 'true',
          customer: undefined,
        },
      );
      assert.match(
        body.return_url,
        new RegExp(`^${shop.url.origin}/payments/pay_[\\w-]{43}/return\\?k=[\\w-]{70}$`),
      );
      assert.match((await visitor.visit(path)).text, /Thank you for your order/);
    } finally {
      await shop.close();
    }
  });
});

describe('a setting that is missing or impossible', () => {
  const without = (name) => {
    const { [name]: _, ...rest } = SECRETS;
    return rest;
  };
  const accounts = (value) => ({ secrets: { ...SECRETS, API_ACCOUNTS: value } });
  const cases = [
    ['no SIGNING_KEY', { secrets: without('SIGNING_KEY') }, /The secret SIGNING_KEY is not set/],
    [
      'no STRIPE_SECRET_KEY',
      { secrets: without('STRIPE_SECRET_KEY') },
      /The secret STRIPE_SECRET_KEY is not set/,
    ],
    ['no API_ACCOUNTS', { secrets: without('API_ACCOUNTS') }, /The secret API_ACCOUNTS is not set/],
    ['a short SIGNING_KEY', { secrets: { ...SECRETS, SIGNING_KEY: 'short' } }, /SIGNING_KEY is too short/],
    ['no STRIPE_API_BASE', { vars: { STRIPE_API_BASE: '' } }, /STRIPE_API_BASE is not set/],
    ['API_ACCOUNTS that are no JSON', accounts('{'), /API_ACCOUNTS is not valid/],
    ['UNPROTECTED outside the demo', { vars: { UNPROTECTED: 'true' } }, /UNPROTECTED is for the demo only/],
    [
      'copies that last long',
      { vars: { REPLAY_CACHE_MS: '86400000' } },
      /REPLAY_CACHE_MS must be at most 60000/,
    ],
    ['no time for a body', { vars: { BODY_TIMEOUT_MS: '0' } }, /BODY_TIMEOUT_MS must be at least 1/],
    ['a time that is no number', { vars: { LEASE_MS: '90s' } }, /LEASE_MS must be a whole number/],
    [
      'a call that outlives the lease',
      { vars: { LEASE_MS: '1000', PROVIDER_TIMEOUT_MS: '1000' } },
      /PROVIDER_TIMEOUT_MS must be below LEASE_MS/,
    ],
  ];
  for (const [what, options, says] of cases) {
    test(`${what}: every request is a 503 that says so, and nothing runs`, async () => {
      await site.server.update({ root, workers: production(options) });
      const answer = await acme.pay(PAYMENT, freshKey());
      assert.equal(answer.status, 503, answer.text);
      const problem = answer.json();
      assert.equal(problem.type, '/problems/misconfigured');
      assert.match(problem.detail, says);
      assert.match(problem.detail, /\.dev\.vars/, 'where it is set on this machine');
      const health = await acme.ask('/healthz');
      assert.equal(health.status, 503);
      assert.match(health.json().detail, says);
      for (const secret of [SIGNING_KEY, STRIPE_SECRET_KEY]) assert.ok(!answer.text.includes(secret));
      assert.deepEqual(outbound, []);
      assert.deepEqual(await site.simulator.requests(), []);
    });
  }

  test('what can be done without stops nothing else, and the log says what is missing', async () => {
    const ADYEN_API_KEY = 'AQE_of_the_tests';
    await site.server.update({ root, workers: production({ secrets: { ...SECRETS, ADYEN_API_KEY } }) });
    stripe = charged;
    assert.equal((await acme.pay(PAYMENT, freshKey())).status, 201);
    const there = await acme.pay({ ...PAYMENT, provider: 'adyen' }, freshKey());
    assert.equal(there.status, 422, there.text);
    assert.match(there.text, /is not set up here: use stripe/);
    const health = await acme.ask('/healthz');
    assert.deepEqual([health.status, health.json()], [200, { status: 'incomplete' }]);
    const logs = JSON.stringify(site.logs());
    assert.match(
      logs,
      /ADYEN_API_KEY is set without ADYEN_API_BASE and ADYEN_MERCHANT_ACCOUNT: it counts as not set/,
    );
    assert.ok(!logs.includes(ADYEN_API_KEY));
  });

  test('in public nobody is told which: the log has it', async () => {
    await site.server.update({ root, workers: production({ secrets: without('SIGNING_KEY') }) });
    for (const accept of ['application/json', 'text/html']) {
      const answer = await read(await site.fetch('https://pay.example/payments', { headers: { accept } }));
      assert.equal(answer.status, 503);
      assert.match(answer.text, /A setting of this service is missing or invalid/);
      assert.doesNotMatch(answer.text, /SIGNING_KEY|wrangler/);
    }
    assert.match(JSON.stringify(site.logs()), /The secret SIGNING_KEY is not set/);
    await site.server.update({ root, workers: production() });
    const closed = await read(await site.fetch('https://pay.example/webhooks/stripe', { method: 'POST' }));
    assert.equal(closed.status, 400);
    assert.doesNotMatch(closed.text, /STRIPE_WEBHOOK_SECRET|wrangler/);
  });

  test('without a secret the desk is closed, and in public nobody is told which', async () => {
    const path = '/admin/settlement/answers';
    const ask = async (at) => read(await at.fetch(`https://pay.example${path}`, { method: 'POST' }));
    assert.equal((await ask(site)).status, 404, 'where it is not bound it is not there');
    const both = await startSite({ workers: productionWorkers({ secrets: SECRETS }) });
    try {
      const closed = await ask(both);
      assert.equal(closed.status, 401);
      assert.doesNotMatch(closed.text, /ADMIN_TOKEN|wrangler/);
      const accept = { headers: { accept: 'text/html' } };
      const page = await read(await both.fetch('https://pay.example/admin', accept));
      assert.match(page.text, /<footer/);
      assert.doesNotMatch(page.text, /href="\/docs"/, 'the document is on the host of the payments Worker');
      const guide = await read(await both.fetch('https://pay.example/guide'));
      assert.equal(guide.status, 404, 'the documents are pages of the demo alone');
    } finally {
      await both.close();
    }
  });

  test('nothing stands for a provider but its address', async () => {
    for (const binding of ['STRIPE', 'ADYEN', 'RESEND']) {
      const config = productionConfig([{ binding, service: 'paid-once-simulator' }]);
      const [worker, simulator] = production();
      await site.server.update({ root, workers: [{ ...worker, config }, simulator] });
      const answer = await acme.pay(PAYMENT, freshKey());
      assert.equal(answer.status, 503, answer.text);
      assert.match(answer.json().detail, new RegExp(`service binding ${binding} stands for a provider`));
      assert.deepEqual(await site.simulator.requests(), []);
    }
  });

  test('a person sees it as a page', async () => {
    await site.server.update({ root, workers: production({ secrets: without('SIGNING_KEY') }) });
    for (const path of ['/', '/checkout']) {
      const page = await browser(site).visit(path);
      assert.equal(page.status, 503);
      assert.match(page.header('content-type'), /^text\/html/);
      assert.match(page.text, /SIGNING_KEY/);
      assert.equal(page.header('x-content-type-options'), 'nosniff');
    }
  });
});

describe('the demo', () => {
  const signedBy = (key) => {
    const [demo, ...others] = demoWorkers();
    return { root, workers: [{ ...demo, secrets: { SIGNING_KEY: key } }, ...others] };
  };

  test('sends nothing to the Internet, needs a signing key, and lets it be rotated', async () => {
    const demo = await startSite();
    try {
      const visitor = browser(demo);
      const { path, form } = await visitor.openOrder();
      const answer = await account(demo).pay(PAYMENT, freshKey());
      assert.equal(answer.status, 201, answer.text);
      assert.equal(await demo.simulator.charges(answer.payment), 1);
      assert.deepEqual(outbound, []);

      await demo.server.update(signedBy(`another-key-for-signing-just-as-long ${SIGNING_KEY}`));
      const booked = await visitor.send(path, form);
      assert.equal(booked.status, 303, 'a form signed with the key before is still good');
      assert.equal(await demo.simulator.charges((await visitor.visit(path)).payment), 1);

      await demo.server.update(signedBy(''));
      const refused = await account(demo).pay(PAYMENT, freshKey());
      assert.equal(refused.status, 503, 'there is no built-in key');
      assert.match(refused.json().detail, /SIGNING_KEY/);
    } finally {
      await demo.close();
    }
  });
});
