// What surrounds every answer of the API: OPTIONS and CORS, where the time went, the rate limit, the markers of a replay.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { shareSite, startSite } from './support/harness.mjs';
import { startLimited } from './support/limits.mjs';
import { assertProblem, client } from './support/payments.mjs';

const SHOP = 'https://shop.example';
const PAYMENT = { amount: 1250, currency: 'eur' };

describe('a site with an allowed origin', () => {
  let site;
  let api;
  before(async () => {
    site = await shareSite({ vars: { CORS_ORIGINS: `${SHOP}, https://www.shop.example` } });
    api = account(site);
  });
  after(() => site.close());

  const preflight = (path, origin, method = 'POST') =>
    api.ask(path, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': method },
    });

  test('OPTIONS says what an address allows', async () => {
    for (const [path, allow] of [
      ['/payments', 'GET, HEAD, POST, OPTIONS'],
      ['/payments/x/refunds', 'GET, HEAD, POST, OPTIONS'],
      ['/idempotency-keys/x', 'GET, HEAD, DELETE, OPTIONS'],
      ['/healthz', 'GET, HEAD, OPTIONS'],
    ]) {
      const answer = await api.ask(path, { method: 'OPTIONS' });
      assert.equal(answer.status, 204, path);
      assert.equal(answer.header('allow'), allow);
      assert.equal(answer.header('access-control-allow-origin'), null);
      assert.equal(answer.bytes.length, 0);
    }
    assert.equal((await api.ask('/nowhere', { method: 'OPTIONS' })).status, 404);
  });

  test('its scripts may send a key and read what an answer says about it', async () => {
    const allowed = await preflight('/payments', SHOP);
    assert.equal(allowed.status, 204);
    assert.equal(allowed.header('access-control-allow-origin'), SHOP);
    assert.equal(allowed.header('access-control-allow-methods'), 'GET, HEAD, POST, OPTIONS');
    assert.match(
      allowed.header('access-control-allow-headers'),
      /Authorization.*Idempotency-Key.*Prefer.*Traceparent/,
    );
    assert.equal(allowed.header('access-control-allow-credentials'), null);

    const paid = await api.pay(PAYMENT, freshKey(), { origin: SHOP });
    assert.equal(paid.status, 201);
    assert.equal(paid.header('access-control-allow-origin'), SHOP);
    assert.equal(paid.header('vary'), 'Origin');
    for (const name of ['Idempotent-Replayed', 'Original-Request', 'Request-Id', 'Retry-After', 'Location'])
      assert.match(paid.header('access-control-expose-headers'), new RegExp(`\\b${name}\\b`));
    const refused = await api.pay({ ...PAYMENT, amount: 1 }, freshKey(), { origin: SHOP });
    assert.equal(refused.header('access-control-allow-origin'), SHOP, 'a problem can be read too');
  });

  test('no other origin may, and pages may be read by none', async () => {
    for (const origin of [
      'https://evil.example',
      'http://shop.example',
      'https://shop.example:8443',
      'null',
    ]) {
      const answer = await preflight('/payments', origin);
      assert.equal(answer.header('access-control-allow-origin'), null, origin);
      assert.equal(answer.header('access-control-allow-methods'), null, origin);
    }
    for (const path of ['/', '/checkout', '/metrics', '/admin/stats'])
      assert.equal((await preflight(path, SHOP, 'GET')).header('access-control-allow-origin'), null, path);
  });

  test('every answer tells where its time went', async () => {
    const key = freshKey();
    const first = await api.pay(PAYMENT, key);
    const replay = await api.pay(PAYMENT, key);
    for (const answer of [first, replay, await api.ask('/healthz')]) {
      const timing = answer.header('server-timing');
      const [, total, object, provider] = /^total;dur=(\d+), object;dur=(\d+), provider;dur=(\d+)$/.exec(
        timing,
      );
      assert.ok(Number(total) >= Number(object) && Number(object) >= Number(provider), timing);
    }
    assert.match(replay.header('server-timing'), /provider;dur=0$/, 'a replay asks no provider');
  });

  test('a slow provider is named as what took the time', async () => {
    await site.simulator.fault('slow_response', { delay_ms: 300, path: '/v1/payment_intents' });
    const answer = await api.pay(PAYMENT, freshKey());
    const provider = Number(/provider;dur=(\d+)/.exec(answer.header('server-timing'))[1]);
    assert.ok(provider >= 300, answer.header('server-timing'));
  });
});

describe('where the settings ask for other manners', () => {
  let site;
  let api;
  before(async () => {
    site = await startSite({
      vars: { REPLAY_MARKER: 'body', MISMATCH_STATUS: '409', KEY_POLICY: 'optional' },
    });
    api = account(site);
  });
  after(() => site.close());

  test('a JSON body says whether it is a replay, and is the same otherwise', async () => {
    const key = freshKey();
    const first = (await api.pay(PAYMENT, key)).json();
    const replay = await api.pay(PAYMENT, key);
    assert.equal(first.cached, false);
    assert.deepEqual(replay.json(), { ...first, cached: true });
    assert.equal(replay.header('idempotent-replayed'), 'true');
  });

  test('a mismatch is a 409, in status and body', async () => {
    const key = freshKey();
    await api.pay(PAYMENT, key);
    const other = await api.pay({ ...PAYMENT, amount: 9999 }, key);
    assert.equal(other.status, 409);
    assert.equal(other.json().status, 409);
    assert.equal(other.json().type, '/problems/idempotency-key-reused');
    assert.deepEqual(other.json().fields, ['amount']);
  });

  test('so is one of a link to an order', async () => {
    const [key, order_id] = [freshKey(), freshKey()];
    const link = (unit_amount) => {
      const lines = [{ name: 'Mug', quantity: 1, unit_amount }];
      return api.post('/checkout/sessions', { order_id, currency: 'usd', lines }, key);
    };
    assert.equal((await link(900)).status, 201);
    const other = await link(800);
    assert.equal(other.status, 409, other.text);
    assert.deepEqual([other.json().status, other.json().type], [409, '/problems/idempotency-key-reused']);
  });

  test('a payment without a key is run, warned of in the log, and charged each time', async () => {
    const ids = [];
    for (let i = 0; i < 2; i++) {
      const paid = await api.pay({ ...PAYMENT, description: 'No key!' });
      assert.equal(paid.status, 201);
      assert.equal(paid.json().cached, false);
      ids.push(paid.json().id);
    }
    assert.notEqual(ids[0], ids[1]);
    const warnings = site
      .logs()
      .map(({ message }) => String(message))
      .filter((line) => line.includes('"key_missing"'));
    assert.equal(warnings.length, 2);
    assert.match(warnings[0], /"level":"warn".*"request_id":"req_/);
  });
});

describe('the convention of tutorials', () => {
  let site;
  let api;
  before(async () => {
    const vars = { CREATED_STATUS: '200', KEY_ECHO: 'body', ERROR_MEMBER: 'error', DEFAULT_CURRENCY: 'eur' };
    site = await startSite({ vars });
    api = account(site);
  });
  after(() => site.close());

  test('what is made is a 200 that names its key, and so is a replay', async () => {
    const key = freshKey();
    for (const sent of [key, `"${key}"`]) {
      const paid = await api.pay({ amount: 100 }, sent);
      assert.equal(paid.status, 200, paid.text);
      assert.equal(paid.header('idempotency-key'), key);
      assert.equal(paid.json().idempotency_key, key);
      assert.deepEqual([paid.json().amount, paid.json().currency], [100, 'eur']);
    }
    assert.equal((await api.key(key)).json().response_code, 201);
  });

  test('a natural key is not named: the client has sent none', async () => {
    const { id } = (await api.pay({ amount: 100 }, freshKey())).json();
    const refund = await api.post(`/payments/${id}/refunds`, {});
    assert.deepEqual([refund.status, refund.header('idempotency-key')], [200, null]);
    assert.equal(refund.json().idempotency_key, undefined);
  });

  test('a problem says its title in `error`, too, and is the same otherwise', async () => {
    const key = freshKey();
    await api.pay({ amount: 100 }, key);
    const mismatch = await api.pay({ amount: 200 }, key);
    const wrong = await api.pay({ amount: 100, currency: 'euro' }, freshKey());
    for (const answer of [mismatch, wrong]) {
      assert.equal(answer.status, 422);
      assert.equal(answer.header('content-type'), 'application/problem+json');
      assert.equal(answer.json().error, answer.json().title);
    }
    assert.equal(mismatch.header('idempotency-key'), key);
    assert.deepEqual(
      wrong.json().errors.map(({ field }) => field),
      ['currency'],
    );
  });

  test("the demo's own rides are paid all the same", async () => {
    const booked = await api.book(freshKey());
    assert.equal(booked.status, 201, booked.text);
    assert.equal(booked.json().ride.status, 'paid');
  });

  test('what is not an operation is as everywhere', async () => {
    const key = freshKey();
    const { id } = (await api.pay({ amount: 100 }, key)).json();
    const shown = await api.payment(id);
    assert.deepEqual([shown.status, shown.header('idempotency-key')], [200, null]);
    assert.equal(shown.json().idempotency_key, undefined);
  });
});

describe('what stays for good is limited, too, though it is refused', () => {
  const LIMIT = 4;
  let site;
  before(async () => {
    site = await startLimited({ RATE_LIMITER: LIMIT });
  });
  after(() => site.close());

  test('the first links of orders, apart from operations', async () => {
    const api = client(site);
    const made = async (order_id, key) => {
      const lines = [{ name: 'Mug', unit_amount: 2500, quantity: 1 }];
      return (await api.post('/checkout/sessions', { order_id, currency: 'usd', lines }, key)).status;
    };
    const orders = Array.from({ length: LIMIT }, freshKey);
    for (const order of orders) assert.equal(await made(order, freshKey()), 201);
    assert.equal(await made(freshKey(), freshKey()), 429);
    assert.equal(await made(orders[0], freshKey()), 201, 'of an order that is known');
    assert.equal((await api.pay(PAYMENT, freshKey())).status, 201);
  });

  test('the ending of links, of orders that nobody knows, too', async () => {
    const { post } = client(site);
    const ended = async (order) => (await post(`/checkout/sessions/${order}/expire`, {})).status;
    const orders = Array.from({ length: LIMIT }, freshKey);
    for (const order of orders) assert.equal(await ended(order), 200);
    assert.equal(await ended(freshKey()), 429);
  });

  test('keys that are bound to a payment: each is counted once, whatever becomes of it', async () => {
    const api = account(site, 'user-bad-source@example.com');
    const payment = await api.pay({ ...PAYMENT, payment_method: 'pm_card_visa' }, freshKey());
    assert.equal(payment.status, 201, payment.text);
    const refund = (amount, key) => api.post(`/payments/${payment.json().id}/refunds`, { amount }, key);
    const key = freshKey();
    for (let times = 0; times < 2; times += 1) assert.equal((await refund(100, key)).status, 201);
    const statuses = [];
    for (let tries = 0; tries < 10; tries += 1) statuses.push((await refund(9_999_999, freshKey())).status);
    const refused = LIMIT - 2;
    assert.deepEqual(statuses, [...Array(refused).fill(422), ...Array(10 - refused).fill(429)]);
    assertProblem(await refund(9_999_999, key), 422, 'idempotency-key-reused');
  });
});

describe('an account with a rate limit', () => {
  const LIMIT = 4;
  let site;
  let api;
  before(async () => {
    site = await startLimited({ RATE_LIMITER: LIMIT }, { vars: { RATE_LIMIT_PER_MINUTE: String(LIMIT) } });
    api = client(site);
  });
  after(() => site.close());

  test('is refused what is new beyond it, without using up the key, but never a replay', async () => {
    const keys = Array.from({ length: LIMIT }, freshKey);
    for (const key of keys) {
      const paid = await api.pay(PAYMENT, key);
      assert.equal(paid.status, 201, paid.text);
      assert.equal(paid.header('ratelimit-policy'), `"new-operations";q=${LIMIT};w=60`);
      assert.equal((await api.pay(PAYMENT, key)).header('idempotent-replayed'), 'true');
    }
    const late = freshKey();
    const refused = await api.pay(PAYMENT, late);
    assert.equal(refused.status, 429);
    assert.equal(refused.json().type, '/problems/rate-limited');
    assert.ok(Number(refused.header('retry-after')) > 0);
    assert.equal((await api.key(late)).status, 404, 'the key is still free');

    const [key] = keys;
    const again = await api.pay(PAYMENT, key);
    assert.equal(again.status, 201);
    assert.equal(again.header('idempotent-replayed'), 'true');
    const bound = await api.post(`/payments/${again.json().id}/refunds`, {}, freshKey());
    assert.equal(bound.status, 429, 'a refund is a new operation');
    const other = account(site, 'user-bad-source@example.com');
    assert.equal((await other.pay(PAYMENT, freshKey())).status, 402, 'another account has its own');
  });

  test('a person at the checkout is asked to wait, and pays with the same form later', async () => {
    const order = {
      order_id: freshKey(),
      currency: 'usd',
      lines: [{ name: 'Mug', unit_amount: 2500, quantity: 1 }],
    };
    const shop = account(site, 'user-bad-source@example.com');
    const path = new URL((await shop.post('/checkout/sessions', order)).json().url).pathname;
    const visitor = browser(site);
    const form = (await visitor.visit(path)).entries;
    const used = [];
    for (;;) {
      const answer = await shop.pay(PAYMENT, freshKey());
      if (answer.status === 429) break;
      used.push(answer);
      assert.ok(used.length <= LIMIT);
    }
    const refused = await visitor.send(path, { ...form, payment_method: 'pm_card_visa' });
    assert.equal(refused.status, 429, refused.text);
    assert.ok(Number(refused.header('retry-after')) > 0);
    assert.match(refused.text, /One moment, please[^]*Nothing was charged/);
    assert.equal(refused.entries.idempotency_key, form.idempotency_key, 'the key is still free');
  });
});
