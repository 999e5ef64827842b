// People who mean harm, at the door: what a request costs before it has shown who sends it.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { SIGNING_KEY, productionWorkers, root, startSite } from './support/harness.mjs';
import { asksFor, beforeTheAlarm } from './support/polling.mjs';
import { ENDLESS, begin, declared } from './support/raw.mjs';
import { signature } from './support/signing.mjs';
import { until } from './support/until.mjs';

// `wrangler dev` reads every body to its end, for the sake of its own proxy. No deployed Worker does.
process.env.WRANGLER_DISABLE_REQUEST_BODY_DRAINING = 'true';

const ADMIN_TOKEN = 'the-secret-of-the-operator-of-the-tests';
const STRIPE_WEBHOOK_SECRET = 'whsec_of_the_tests';
const ADYEN_WEBHOOK_AUTH = 'adyen:a-password-of-the-tests';
const TOKEN = 'the-token-of-an-account-of-the-tests';
const STRANGER = { authorization: 'Bearer nobody-has-this-token' };
const ELSEWHERE = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
/** Only ends what hangs: an answer that needs no body comes by itself. */
const LONG_MS = 60_000;
const HOUR_MS = 3_600_000;

/**
 * Keeps whoever tried a secret last waiting until the `end`, however slow the machine is; `pauseMs` is how long it was to be.
 */
async function hold(site) {
  const of = 'WHERE last_at_ms = (SELECT max(last_at_ms) FROM login_attempts)';
  const [row] = await site.rows(
    `UPDATE login_attempts SET next_at_ms = next_at_ms + ? ${of} RETURNING address, next_at_ms - last_at_ms AS held_ms`,
    HOUR_MS,
  );
  return {
    pauseMs: row.held_ms - HOUR_MS,
    end: () => site.rows('UPDATE login_attempts SET next_at_ms = 0 WHERE address = ?', row.address),
  };
}

/** What somebody is told who is kept waiting. */
const assertHeld = (wait) => assert.ok(Number(wait) > 3_000 && Number(wait) <= 3_602, wait);

/** Of many guesses at once five are judged, one more after a second, and another two seconds later, and so on. */
function assertFewAreJudged(statuses, sinceMs) {
  const more = Math.floor(Math.log2(1 + (Date.now() - sinceMs) / 1000));
  const judged = statuses.filter((status) => status === 401).length;
  assert.ok(judged >= 5 && judged <= 5 + more, statuses.join());
  assert.equal(statuses.filter((status) => status === 429).length, statuses.length - judged);
}

/** Every address of the code, from the tables of routes. */
const routes = [
  ...new Set(
    ['src/edge/routes.rs', 'desk/src/routes.rs']
      .map((table) => readFileSync(join(root, table), 'utf8'))
      .flatMap((table) => [...table.matchAll(/^ {4}(?:Get|Post|Put|Delete)\S* +"(\/[^"]*)"/gm)])
      .map(([, pattern]) => pattern),
  ),
];

/** An address of each: nothing has to be there. */
const example = (route) =>
  ({
    '/payments/{id}/return': '/payments/pay_x/return',
    '/admin/payments/{id}/{action}': '/admin/payments/pay_x/refund',
    '/admin/payments/{id}/calls/{number}': '/admin/payments/pay_x/calls/1',
    '/admin/payments/{id}/calls/{number}/review': '/admin/payments/pay_x/calls/1/review',
    '/admin/payments/{id}/calls/{number}/{action}': '/admin/payments/pay_x/calls/1/settle-by-hand',
    '/admin/keys/{object}/{key}/{action}': '/admin/keys/ab/1/resume',
    '/admin/accounts/{id}/{action}': '/admin/accounts/x/close',
    '/admin/accounts/{id}/tokens/{token}/{action}': '/admin/accounts/x/tokens/ab/revoke',
    '/admin/accounts/{id}/credentials/{kind}/{action}':
      '/admin/accounts/x/credentials/stripe_secret_key/remove',
    '/customers/{email}': '/customers/ada@example.com',
    '/admin/gate/{key}/{number}/{action}': '/admin/gate/ab/1/done',
    '/admin/keys/{object}/{key}': '/admin/keys/ab/1',
    '/admin/gate/{key}/{number}': '/admin/gate/ab/1',
    '/admin/history/{batch}/{kind}': '/admin/history/1/payments',
    '/admin/history/{shard}/{batch}/{kind}': '/admin/history/g1-2026-10-003/1/payments',
    '/admin/dead-letters/requeue-all/{kind}': '/admin/dead-letters/requeue-all/webhook',
    '/admin/dead-letters/{job}/{action}': '/admin/dead-letters/x/requeue',
    '/admin/api/dead-letters/{kind}/requeue': '/admin/api/dead-letters/webhook/requeue',
    '/admin/breaks/accept-all/{kind}': '/admin/breaks/accept-all/orphan',
    '/admin/breaks/{id}/{action}': '/admin/breaks/x/accept',
  })[route] ?? route.replaceAll(/\{\w+\}/g, 'x');

/** What a POST of somebody else is answered. A new address has to say it here. */
const refusals = {
  '/payments': [401, STRANGER],
  '/payments/{id}/capture': [401, STRANGER],
  '/payments/{id}/void': [401, STRANGER],
  '/payments/{id}/refunds': [401, STRANGER],
  '/payments/{id}/refund': [401, STRANGER],
  '/checkout/sessions': [401, STRANGER],
  '/checkout/sessions/{order}/expire': [401, STRANGER],
  '/webhook-endpoint/test': [401, STRANGER],
  '/webhook-endpoint/deliveries/{webhook_id}/requeue': [401, STRANGER],
  '/checkout/{token}': [404, {}],
  '/webhooks/stripe': [400, { 'stripe-signature': 't=1,v1=00' }],
  '/webhooks/stripe/{account}': [400, { 'stripe-signature': 't=1,v1=00' }],
  '/webhooks/adyen': [401, { authorization: `Basic ${btoa('adyen:guessed')}` }],
  '/webhooks/adyen/{account}': [401, { authorization: `Basic ${btoa('adyen:guessed')}` }],
  '/admin/payments/{id}/erase': [401, STRANGER],
  '/admin/customers/{id}/erase': [401, STRANGER],
  '/admin/payments/{id}/project': [401, STRANGER],
  '/admin/settlement/answers': [401, STRANGER],
  '/admin/settlement/reports': [401, STRANGER],
  '/admin/api/shards': [401, STRANGER],
  '/admin/api/shards/move': [401, STRANGER],
  '/admin/reports': [401, STRANGER],
  '/admin/login': [403, ELSEWHERE],
  '/admin/logout': [403, ELSEWHERE],
  '/admin/payments/{id}/{action}': [401, STRANGER],
  '/admin/payments/{id}/calls/{number}/review': [401, STRANGER],
  '/admin/payments/{id}/calls/{number}/{action}': [401, STRANGER],
  '/admin/keys/{object}/{key}/{action}': [401, STRANGER],
  '/admin/gate/{key}/{number}/{action}': [401, STRANGER],
  '/admin/dead-letters/requeue-all': [401, STRANGER],
  '/admin/dead-letters/requeue-all/{kind}': [401, STRANGER],
  '/admin/dead-letters/{job}/{action}': [401, STRANGER],
  '/admin/api/dead-letters/{kind}/requeue': [401, STRANGER],
  '/admin/breaks/accept-all/{kind}': [401, STRANGER],
  '/admin/breaks/{id}/{action}': [401, STRANGER],
  '/admin/tasks/run': [401, STRANGER],
  '/admin/accounts/new': [401, STRANGER],
  '/admin/accounts/{id}/edit': [401, STRANGER],
  '/admin/accounts/{id}/tokens': [401, STRANGER],
  '/admin/accounts/{id}/tokens/{token}/{action}': [401, STRANGER],
  '/admin/accounts/{id}/credentials': [401, STRANGER],
  '/admin/accounts/{id}/credentials/{kind}/{action}': [401, STRANGER],
  '/admin/accounts/{id}/{action}': [401, STRANGER],
};

describe('a body is read only when it may come', () => {
  let site;
  before(async () => {
    const API_ACCOUNTS = JSON.stringify({
      acme: {
        token_sha256: createHash('sha256').update(TOKEN).digest('hex'),
        payment_method: 'pm_of_acme',
      },
    });
    const secrets = {
      SIGNING_KEY,
      STRIPE_SECRET_KEY: 'sk_test_of_the_tests',
      API_ACCOUNTS,
      ADMIN_TOKEN,
      STRIPE_WEBHOOK_SECRET,
      ADYEN_API_KEY: 'of-the-tests',
      ADYEN_HMAC_KEY: 'ab'.repeat(32),
      ADYEN_WEBHOOK_AUTH,
    };
    const vars = {
      ADYEN_API_BASE: 'https://adyen.example/v71',
      ADYEN_MERCHANT_ACCOUNT: 'Tests',
      STRIPE_PUBLISHABLE_KEY: 'pk_test_of_the_tests',
      // Megabytes are sent, and a slow machine takes long for them.
      BODY_TIMEOUT_MS: '60000',
    };
    site = await startSite({ workers: productionWorkers({ vars, secrets }) });
  });
  after(() => site.close());

  /** The status of a request whose body does not come; undefined if the body is waited for. */
  let strangers = 0;
  async function asked(method, path, headers, waitMs = LONG_MS) {
    // Each of another address: who guesses has to wait.
    const address = `198.51.100.${++strangers % 250}`;
    const request = begin(site.url, method, path, { 'cf-connecting-ip': address, ...headers });
    try {
      return await request.status(waitMs);
    } finally {
      request.end();
    }
  }
  const allowed = async (path) =>
    (await site.fetch(path, { method: 'OPTIONS' })).headers.get('allow').split(', ');

  test('the table has every address that takes a POST, and no other', async () => {
    assert.ok(routes.length > 40, `${routes.length} addresses were found in the code`);
    const posts = [];
    for (const route of routes) if ((await allowed(example(route))).includes('POST')) posts.push(route);
    assert.deepEqual(posts.sort(), Object.keys(refusals).sort());
  });

  for (const [route, [status, headers]] of Object.entries(refusals)) {
    test(`POST ${route}: a stranger is refused at once, whatever body he promises`, async () => {
      for (const body of [ENDLESS, declared(10_000_000_000)])
        assert.equal(
          await asked('POST', example(route), { ...headers, ...body }),
          status,
          JSON.stringify(body),
        );
    });
  }

  test('PUT: a stranger is refused at once, whatever body he promises', async () => {
    const puts = [];
    for (const route of routes) if ((await allowed(example(route))).includes('PUT')) puts.push(route);
    assert.deepEqual(puts.sort(), [
      '/admin/api/accounts/{id}',
      '/admin/api/accounts/{id}/credentials/{kind}',
      '/admin/api/accounts/{id}/tokens/{token}',
      '/customers/{email}',
      '/webhook-endpoint',
    ]);
    for (const route of puts)
      for (const body of [ENDLESS, declared(10_000_000_000)])
        assert.equal(await asked('PUT', example(route), { ...STRANGER, ...body }), 401, route);
  });

  test('no other method has a body', async () => {
    for (const route of routes) {
      const path = example(route);
      const methods = await allowed(path);
      for (const method of ['GET', 'DELETE', 'OPTIONS', 'PUT', 'PATCH']) {
        const status = await asked(method, path, { ...STRANGER, ...ENDLESS });
        assert.ok(status, `${method} ${path} waits for its body`);
        assert.equal(status === 405, !methods.includes(method), `${method} ${path}: ${status}`);
      }
      if (!methods.includes('POST')) assert.equal(await asked('POST', path, ENDLESS), 405, path);
    }
    assert.equal(await asked('POST', '/nowhere', ENDLESS), 404);
  });

  const mine = {
    authorization: `Bearer ${TOKEN}`,
    'idempotency-key': 'k',
    'content-type': 'application/json',
  };
  const operators = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const signed = { 'stripe-signature': `t=1,v1=${'0'.repeat(64)}` };
  const adyens = { authorization: `Basic ${btoa(ADYEN_WEBHOOK_AUTH)}` };
  const known = [
    ['/payments', mine, 65_536],
    ['/webhooks/stripe', signed, 262_144],
    ['/webhooks/adyen', adyens, 262_144],
    ['/admin/settlement/answers', operators, 1_048_576],
    ['/admin/settlement/reports', operators, 25_165_824],
  ];

  test('who is known is waited for, as the control', async () => {
    for (const [path, headers] of known) {
      assert.equal(await asked('POST', path, { ...headers, ...ENDLESS }, 300), undefined, path);
      const request = begin(site.url, 'POST', path, { ...headers, ...ENDLESS });
      request.write('0\r\n\r\n');
      assert.ok((await request.status(LONG_MS)) >= 400, `${path}: the body has ended`);
      request.end();
    }
  });

  test('but for no longer than the limit, declared or not', async () => {
    for (const [path, headers, limit] of known) {
      assert.equal(await asked('POST', path, { ...headers, ...declared(limit + 1) }), 413, path);
      assert.equal(await asked('POST', path, { ...headers, ...declared(limit) }, 300), undefined, path);
      const request = begin(site.url, 'POST', path, { ...headers, ...ENDLESS }, limit + 1);
      assert.equal(await request.status(LONG_MS), 413, `${path}: it never ends`);
      request.end();
    }
  });
});

describe('a body that comes slowly', () => {
  const BODY = JSON.stringify({ amount: 2500, currency: 'usd' });
  let site;
  before(async () => {
    site = await startSite({ vars: { BODY_TIMEOUT_MS: '1000' } });
  });
  after(() => site.close());

  /** A payment of which half the body is sent. */
  function half(key, headers) {
    const fields = {
      authorization: 'Bearer user@example.com',
      'idempotency-key': key,
      'content-type': 'application/json',
      ...declared(BODY.length),
      ...headers,
    };
    const request = begin(site.url, 'POST', '/payments', fields);
    request.write(BODY.slice(0, 10));
    return request;
  }

  for (const [who, headers, type] of [
    ['a program', {}, 'application/problem+json'],
    ['a person', { accept: 'text/html' }, 'text/html; charset=utf-8'],
  ])
    test(`and does not come whole is 408 for ${who}, runs nothing and uses up no key`, async () => {
      const key = freshKey();
      const asks = (await site.simulator.requests()).length;
      const request = half(key, headers);
      const head = await request.head(LONG_MS);
      request.end();
      assert.match(head, /^HTTP\/1\.1 408 /);
      assert.match(head, /^retry-after: 1\r?$/im);
      assert.equal(/^content-type: (.*?)\r?$/im.exec(head)?.[1], type);
      assert.equal((await site.simulator.requests()).length, asks);
      const whole = await account(site).pay(JSON.parse(BODY), key);
      assert.equal(whole.status, 201, whole.text);
    });

  test('a form has no other limit', async () => {
    const { path } = await browser(site).openOrder();
    const fields = { accept: 'text/html', origin: site.url.origin, ...declared(100) };
    const type = 'application/x-www-form-urlencoded';
    const request = begin(site.url, 'POST', path, { ...fields, 'content-type': type });
    request.write('payment_method=1');
    assert.equal(await request.status(LONG_MS), 408);
    request.end();
  });

  test('and is read if it comes in time, as the control', async () => {
    const patient = await startSite({ vars: { BODY_TIMEOUT_MS: '60000' } });
    const mine = site;
    try {
      site = patient;
      const request = half(freshKey());
      assert.equal(await request.status(2_500), undefined);
      request.write(BODY.slice(10));
      assert.equal(await request.status(LONG_MS), 201);
      request.end();
    } finally {
      site = mine;
      await patient.close();
    }
  });
});

describe("somebody else's payment", () => {
  let site;
  const other = 'the-token-of-another-account';
  before(async () => {
    const API_ACCOUNTS = JSON.stringify({
      other: {
        token_sha256: createHash('sha256').update(other).digest('hex'),
        payment_method: 'pm_card_visa',
      },
    });
    site = await startSite({ secrets: { API_ACCOUNTS } });
  });
  after(() => site.close());

  test('costs nothing at the provider, whatever is asked of it', async () => {
    const owner = account(site);
    const payment = { amount: 1250, currency: 'eur', payment_method: 'pm_card_authenticationRequired' };
    await beforeTheAlarm(async () => {
      const made = await owner.pay({ ...payment, return_url: 'https://shop.example/' }, freshKey());
      assert.equal(made.json().status, 'requires_action', made.text);
      const asks = () => asksFor(site, made.json().next_action.redirect_to_url.url);
      const before = await asks();
      const stranger = account(site, other);
      for (const path of [`/payments/${made.payment}`, `/payments/${made.payment}/refunds`]) {
        assert.equal((await stranger.ask(path)).status, 404);
        const cookie = `session=${'a'.repeat(32)}`;
        assert.equal((await site.fetch(path, { headers: { cookie } })).status, 404, 'a session of nobody');
      }
      for (const move of ['capture', 'void', 'refunds'])
        assert.equal(
          (await stranger.post(`/payments/${made.payment}/${move}`, {}, freshKey())).status,
          404,
          move,
        );
      const after = await asks();
      return async () => {
        assert.equal(after, before);
        // The control: for its owner the provider is asked.
        assert.equal((await owner.payment(made.payment)).status, 200);
        assert.ok((await asks()) > before);
      };
    });
  });
});

describe('the login of the desk', () => {
  let site;
  before(async () => {
    site = await startSite({ secrets: { ADMIN_TOKEN } });
  });
  after(() => site.close());

  const from = (address) => ({ 'cf-connecting-ip': address });
  const login = (visitor, token, address) =>
    visitor.send('/admin/login?to=%2Fadmin%2Fkeys', { token }, from(address));
  const overview = async (cookie) =>
    (await site.fetch('/admin', { headers: { accept: 'text/html', cookie } })).status;

  test('a session ends when its operator logs out, wherever its cookie has got to', async () => {
    const [ada, bob] = [browser(site), browser(site)];
    for (const operator of [ada, bob])
      assert.equal((await login(operator, ADMIN_TOKEN, '192.0.2.1')).status, 303);
    const stolen = ada.cookies();
    assert.equal(await overview(stolen), 200, 'the control: it is good until then');
    assert.equal((await ada.send('/admin/logout', {})).status, 303);
    assert.equal(await overview(stolen), 401);
    assert.equal(await overview(bob.cookies()), 200, 'nobody else is logged out');
  });

  test('who has the signing key alone makes no session', async () => {
    const ada = browser(site);
    await login(ada, ADMIN_TOKEN, '192.0.2.1');
    const owner = createHash('sha256');
    for (const part of ['admin token', ADMIN_TOKEN]) {
      const length = Buffer.alloc(8);
      length.writeBigUInt64BE(BigInt(part.length));
      owner.update(length).update(part);
    }
    const genuine = Buffer.from(ada.cookie('desk'), 'base64url');
    const sealed = (body) => {
      const parts = [body, `account:\0desk ${owner.copy().digest('hex')}`];
      return Buffer.concat([body, signature(SIGNING_KEY, 'desk sessions', ...parts)]).toString('base64url');
    };
    const body = genuine.subarray(0, 42);
    assert.equal(sealed(body), ada.cookie('desk'), 'the control: this is how they are made');
    const other = Buffer.from(body);
    other.fill(7, 10);
    assert.equal(await overview(`desk=${sealed(other)}`), 401);
  });

  test('waits longer after each wrong secret, for that address alone, and without reading on', async () => {
    const eve = browser(site);
    for (let tried = 0; tried < 5; tried++)
      assert.equal((await login(eve, `wrong ${tried}`, '192.0.2.7')).status, 401);
    const first = await hold(site);
    assert.equal(first.pauseMs, 1_000);
    const refused = await login(eve, ADMIN_TOKEN, '192.0.2.7');
    assert.equal(refused.status, 429, 'the right one has to wait, too');
    assertHeld(refused.header('retry-after'));
    assert.match(
      refused.text,
      /There were too many attempts to log in from your address[^<]*Wait \d+ minutes, then enter the secret again\./,
    );
    assert.match(refused.text, /<form [^>]*action="\/admin\/login\?to=%2Fadmin%2Fkeys"/, 'with its form');
    assert.ok(!refused.text.includes(ADMIN_TOKEN));
    const headers = { ...from('192.0.2.7'), origin: site.url.origin, ...ENDLESS };
    const request = begin(site.url, 'POST', '/admin/login', headers);
    assert.equal(await request.status(LONG_MS), 429);
    request.end();
    assert.equal(
      (await login(browser(site), ADMIN_TOKEN, '192.0.2.8')).status,
      303,
      'somebody else need not',
    );

    await first.end();
    assert.equal((await login(eve, 'wrong again', '192.0.2.7')).status, 401);
    const second = await hold(site);
    assert.equal(second.pauseMs, 2_000);
    assert.equal((await login(eve, ADMIN_TOKEN, '192.0.2.7')).status, 429);
    await second.end();
    assert.equal((await login(eve, ADMIN_TOKEN, '192.0.2.7')).status, 303);
    assert.equal((await login(eve, 'wrong once more', '192.0.2.7')).status, 401, 'a login forgets it all');
  });

  test('many tries at once are as many tries, and all addresses of one IPv6 network are one', async () => {
    const began = Date.now();
    const tries = Array.from({ length: 30 }, (_, n) =>
      login(browser(site), `wrong ${n}`, `2001:db8:1:2::${n + 1}`),
    );
    assertFewAreJudged(
      (await Promise.all(tries)).map(({ status }) => status),
      began,
    );
    assert.equal((await login(browser(site), 'wrong', '2001:db8:1:3::1')).status, 401);
  });
});

describe("the operator's secret as a bearer token", () => {
  let site;
  before(async () => {
    site = await startSite({ secrets: { ADMIN_TOKEN } });
  });
  after(() => site.close());

  const bear = async (path, token, address, headers) => {
    const fields = { authorization: `Bearer ${token}`, 'cf-connecting-ip': address, ...headers };
    const answer = await site.fetch(path, { headers: fields });
    return { status: answer.status, wait: answer.headers.get('retry-after'), text: await answer.text() };
  };
  const guess = (path, address) => bear(path, `a wrong one for ${path}`, address);

  for (const [path, net] of [
    ['/admin', '192.0.2'],
    ['/metrics', '198.51.100'],
    ['/admin/stats', '203.0.113'],
  ])
    test(`${path}: guesses wait longer each time, and nobody else does`, async () => {
      const [eve, ada] = [`${net}.1`, `${net}.2`];
      for (let tried = 0; tried < 5; tried++) assert.equal((await guess(path, eve)).status, 401);
      const first = await hold(site);
      assert.equal(first.pauseMs, 1_000);
      const refused = await guess(path, eve);
      assert.equal(refused.status, 429);
      assertHeld(refused.wait);
      assert.match(refused.text, /rate-limited/);
      const right = await bear(path, ADMIN_TOKEN, eve);
      assert.equal(right.status, 429, 'the right one is not told from it');
      assertHeld(right.wait);
      assert.equal((await bear(path, ADMIN_TOKEN, ada)).status, 200, 'from elsewhere it opens');
      await first.end();
      assert.equal((await guess(path, eve)).status, 401);
      const second = await hold(site);
      assert.equal(second.pauseMs, 2_000);
      assert.equal((await guess(path, eve)).status, 429);
      await second.end();
      assert.equal((await bear(path, ADMIN_TOKEN, eve)).status, 200, 'and after its time from there, too');
    });

  test('many at once are as many guesses, of one IPv6 network, at all addresses and in the form together', async () => {
    const paths = ['/admin', '/metrics', '/admin/stats'];
    const began = Date.now();
    const guesses = Array.from({ length: 30 }, (_, n) => guess(paths[n % 3], `2001:db8:7:7::${n + 1}`));
    assertFewAreJudged(
      (await Promise.all(guesses)).map(({ status }) => status),
      began,
    );
    // Until the wait is long enough for the form to be sent within it, however slow the machine is.
    const isLong = async () => Number((await guess('/metrics', '2001:db8:7:7::98')).wait) > 3;
    await until('the wait is long', isLong, { everyMs: 100 });
    const form = await browser(site).send(
      '/admin/login',
      { token: ADMIN_TOKEN },
      { 'cf-connecting-ip': '2001:db8:7:7::99' },
    );
    assert.equal(form.status, 429);
  });

  test('the right one may be sent as often as one likes, as the control', async () => {
    for (let sent = 0; sent < 30; sent++)
      assert.equal((await bear('/metrics', ADMIN_TOKEN, '192.0.2.50')).status, 200);
    assert.equal(
      (await site.fetch('/metrics', { headers: { 'cf-connecting-ip': '192.0.2.51' } })).status,
      401,
    );
  });

  test('opens while the tries cannot be read', async () => {
    const { DB } = await site.server.getWorker().getEnv();
    await DB.exec('ALTER TABLE login_attempts RENAME TO away');
    try {
      assert.equal((await bear('/metrics', ADMIN_TOKEN, '192.0.2.60')).status, 200);
      assert.equal((await guess('/metrics', '192.0.2.60')).status, 401);
    } finally {
      await DB.exec('ALTER TABLE away RENAME TO login_attempts');
    }
  });
});
