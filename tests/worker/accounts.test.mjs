// API accounts of the registry: made at the desk or by the operator's API, known to the payments Worker by their tokens.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { inRoot } from '../../scripts/lib/paths.mjs';
import { freshKey, read } from './support/account.mjs';
import { startWithAccountsCache } from './support/accounts-cache.mjs';
import { demoWorkers, productionWorkers, SIGNING_KEY, startSite } from './support/harness.mjs';
import { formOf, operator, wrongEntry } from './support/operator.mjs';
import { until } from './support/until.mjs';
import { AUTHORISATION, PAYMENT, assertProblem, client, paid } from './support/payments.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const CONFIGURED_TOKEN = 'the-token-of-an-account-that-is-configured';
const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const API_ACCOUNTS = JSON.stringify({
  configured: { token_sha256: sha256(CONFIGURED_TOKEN), payment_method: 'pm_card_visa' },
});

const site = await startSite({
  workers: demoWorkers({ vars: { ACCOUNTS_CACHE_MS: '0' }, secrets: { ADMIN_TOKEN, API_ACCOUNTS } }),
});
after(() => site.close());
const { asked, bearer, look, press, logOf } = operator(site, ADMIN_TOKEN);

/** The operator's API. */
const api = async (method, path, body) =>
  read(
    await site.fetch(`/admin/api/accounts${path}`, {
      method,
      headers: { ...bearer, ...(body && { 'content-type': 'application/json' }) },
      body: body && JSON.stringify(body),
    }),
  );
const freshId = () => `shop-${randomUUID()}`;
const freshToken = () => randomBytes(32).toString('base64url');
const CARD = { payment_method: 'pm_card_visa' };

/** A new account with a token of its own. */
async function made(settings = {}, id = freshId()) {
  const token = freshToken();
  const put = await api('PUT', `/${id}`, { settings: { ...CARD, ...settings } });
  assert.equal(put.status, 200, put.text);
  const good = await api('PUT', `/${id}/tokens/${sha256(token)}`, { name: 'server' });
  assert.equal(good.status, 200, good.text);
  return { id, token, client: client(site, token) };
}
const ownerOf = async (payment) =>
  (await site.rows('SELECT owner FROM payments WHERE payment_id = ?', payment))[0]?.owner;
const tokensOf = (id) => site.rows('SELECT * FROM account_tokens WHERE account = ?', id);

describe('at the desk', () => {
  const id = freshId();
  const entries = {
    id,
    payment_method: 'pm_card_visa',
    shop_name: 'Ada’s <shop>',
    shop_support: 'help@shop.example',
    currencies: 'usd 30.00, eur',
  };

  test('an account is made by a form, which says what is wrong and keeps what was entered', async () => {
    const page = await look('/admin/accounts/new');
    const form = formOf(page, '/admin/accounts/new');
    for (const [wrong, said] of [
      [{ id: 'a b' }, /letters, digits/],
      [{ id: 'new' }, /is not “new”/],
      [{ payment_method: '' }, /payment method is missing/],
      [{ currencies: 'usd much' }, /The most in usd/],
      [{ shop_name: '' }, /Enter the shop’s name/],
    ]) {
      const refused = await press(form.path, { ...form.entries, ...entries, ...wrong });
      assert.deepEqual([refused.status, wrongEntry(refused)], [422, Object.keys(wrong)[0]]);
      assert.match(refused.text, said);
      assert.ok(refused.text.includes('value="help@shop.example"'), 'the entries are kept');
    }
    const answers = await Promise.all([1, 2].map(() => press(form.path, { ...form.entries, ...entries })));
    for (const answer of answers) assert.equal(answer.status, 303, answer.text);
    const shown = await look(answers[0].header('location'));
    for (const text of [
      'Ada’s &#60;shop&#62;',
      'EUR, USD up to 30.00 a payment',
      'Make the account',
      'active',
    ])
      assert.ok(shown.text.includes(text), `${text} in ${shown.text}`);
    assert.equal((await logOf(`account ${id}`)).length, 1, 'pressed twice it was made once');

    const again = formOf(await look('/admin/accounts/new'), '/admin/accounts/new');
    const other = await press(again.path, { ...again.entries, ...entries, shop_name: 'Another' });
    assert.equal(other.status, 409, 'an id is one account');
    assert.match(other.text, /already, with other settings/);
  });

  test('a token is shown once more only to the same form, and pays', async () => {
    const page = await look(`/admin/accounts/${id}`);
    const form = formOf(page, '/tokens');
    const [first, second] = await Promise.all(
      [1, 2].map(() => press(form.path, { ...form.entries, name: 'server' })),
    );
    const tokenIn = (answer) => /<code class="token">([^<]+)</.exec(answer.text)?.[1];
    const token = tokenIn(first);
    assert.match(token ?? first.text, /^paidonce_[\w-]{48}$/);
    assert.equal(tokenIn(second), token, 'a double click makes one');
    assert.deepEqual(
      (await tokensOf(id)).map(({ token_sha256, name }) => [token_sha256, name]),
      [[sha256(token), 'server']],
    );
    assert.equal(tokenIn(await look(`/admin/accounts/${id}`)), undefined, 'it is not shown again');
    const stored = await site.rows('SELECT * FROM operator_actions');
    assert.ok(!JSON.stringify(stored).includes(token), 'it stands in no log');

    const shop = client(site, token);
    const payment = await paid(shop);
    assert.equal((await shop.payment(payment.id)).json().amount, 2500);
    const renamed = await press(form.path, { ...form.entries, name: 'another server' });
    assert.equal(renamed.status, 422);
    assert.match(renamed.text, /sent before, with other entries/);
  });

  test('what it may charge is told before anything is charged', async () => {
    const { client: shop } = await made({ currencies: { usd: { amount_max: 3000 }, eur: {} } });
    const wrong = async (body) =>
      (await shop.pay({ ...PAYMENT, ...body }, freshKey())).json().errors?.map(({ field }) => field);
    assert.deepEqual(await wrong({ amount: 3001 }), ['amount']);
    assert.deepEqual(await wrong({ currency: 'gbp' }), ['currency']);
    assert.equal((await shop.pay({ ...PAYMENT, amount: 3000 }, freshKey())).status, 201);
    const order = (unit_amount) => ({
      order_id: randomUUID(),
      currency: 'usd',
      lines: [{ name: 'Mug', quantity: 3, unit_amount }],
    });
    const link = await shop.post('/checkout/sessions', order(1001), freshKey());
    assertProblem(link, 422, 'invalid-parameters');
    assert.match(link.text, /at most 3000 in usd/);
    assert.equal((await shop.post('/checkout/sessions', order(1000), freshKey())).status, 201);
  });

  test('settings that two change at once are not lost', async () => {
    const edit = await look(`/admin/accounts/${id}/edit`);
    assert.ok(edit.text.includes('value="eur, usd 30.00"'), edit.text);
    const [mine, theirs] = [formOf(edit, '/edit'), formOf(await look(`/admin/accounts/${id}/edit`), '/edit')];
    const { id: _, ...settings } = entries;
    const first = await press(theirs.path, { ...theirs.entries, ...settings, shop_name: 'Theirs' });
    assert.equal(first.status, 303, first.text);
    const second = await press(mine.path, { ...mine.entries, ...settings, shop_name: 'Mine' });
    assert.equal(second.status, 409);
    assert.match(second.text, /changed since this page was loaded/);
    assert.ok((await look(`/admin/accounts/${id}`)).text.includes('Theirs'));
  });

  test('a token is replaced without a gap, and another is revoked at once', async () => {
    const { id, client: old } = await made();
    const page = await look(`/admin/accounts/${id}`);
    const form = formOf(page, '/tokens');
    const answer = await press(form.path, { ...form.entries, name: 'new server', replaces: 'on' });
    assert.match(answer.text, /The others end in 24 hours/);
    const token = /<code class="token">([^<]+)</.exec(answer.text)[1];
    const key = freshKey();
    const first = await old.pay(PAYMENT, key);
    assert.equal(first.status, 201, 'the old one is good for a day');
    const again = await client(site, token).pay(PAYMENT, key);
    assert.equal(
      again.header('idempotent-replayed'),
      'true',
      'the key is the account’s, whatever token it comes with',
    );
    const inADay = (await tokensOf(id)).find(({ ends_at_ms }) => ends_at_ms);
    assert.ok(Math.abs(inADay.ends_at_ms - Date.now() - 86_400_000) < 120_000);

    const { path, entries } = await asked(page, `/tokens/${inADay.token_sha256}/revoke`);
    assert.equal((await press(path, entries)).status, 303);
    assertProblem(await old.pay(PAYMENT, key), 401, 'unauthorized');
    assert.equal((await client(site, token).pay(PAYMENT, key)).status, 201);
    assert.ok((await look(`/admin/accounts/${id}`)).text.includes('ended'));
  });

  test('a closed account is refused with all its tokens and links, and can be opened again', async () => {
    const { id, client: shop } = await made({ shop: { name: 'A shop of the registry' } });
    const link = await shop.post(
      '/checkout/sessions',
      { order_id: 'order-1', currency: 'usd', lines: [{ name: 'Mug', quantity: 1, unit_amount: 1000 }] },
      freshKey(),
    );
    const path = new URL(link.json().url).pathname;
    const order = async () => read(await site.fetch(path, { headers: { accept: 'text/html' } }));
    const open = await order();
    assert.equal(open.status, 200);
    assert.ok(open.text.includes('A shop of the registry'));
    const page = await look(`/admin/accounts/${id}`);
    const close = await asked(page, '/close');
    assert.equal((await press(close.path, close.entries)).status, 303);
    assertProblem(await shop.pay(PAYMENT, freshKey()), 401, 'unauthorized');
    assert.equal((await order()).status, 404);
    assert.ok((await look('/admin/accounts?q=' + id)).text.includes('closed'));
    const reopen = formOf(await look(`/admin/accounts/${id}`), '/reopen');
    assert.equal((await press(reopen.path, reopen.entries)).status, 303);
    assert.equal((await order()).status, 200);
    await paid(shop);
  });

  test('an account that is configured gets tokens there, too', async () => {
    const list = await look('/admin/accounts');
    assert.ok(list.text.includes('href="/admin/accounts/configured"'), list.text);
    const page = await look('/admin/accounts/configured');
    assert.match(page.text, /API_ACCOUNTS/);
    const form = formOf(page, '/tokens');
    const answer = await press(form.path, { ...form.entries, name: 'second server' });
    const token = /<code class="token">([^<]+)</.exec(answer.text)[1];
    const key = freshKey();
    const first = await client(site, CONFIGURED_TOKEN).pay(PAYMENT, key);
    const again = await client(site, token).pay(PAYMENT, key);
    assert.equal(again.payment, first.payment, 'both are the same account');
    assert.equal((await look('/admin/accounts/nobody')).status, 404);
  });

  test('a key of an account is found by both', async () => {
    const { id, client: shop } = await made();
    const key = freshKey();
    const { payment } = await shop.pay(PAYMENT, key);
    await until('the read model is told', () => ownerOf(payment));
    assert.equal(await ownerOf(payment), `account:${id}`);
    const linksOf = async (search) =>
      [
        ...(await look(`/admin/keys?q=${encodeURIComponent(search)}`)).text.matchAll(
          /href="\/admin\/keys\/\w/g,
        ),
      ].length;
    assert.equal(await linksOf(`${id} ${key}`), 1);
    assert.equal(await linksOf(`configured ${key}`), 0);
  });
});

describe('the operator’s API', () => {
  test('says how something is to be: sent again it changes nothing', async () => {
    const id = freshId();
    const settings = { ...CARD, shop: { name: 'Ada' }, currencies: { usd: { amount_max: 100 } } };
    const first = await api('PUT', `/${id}`, { settings });
    assert.equal(first.status, 200, first.text);
    const again = await api('PUT', `/${id}`, { settings });
    assert.deepEqual(again.json(), first.json(), 'not even its time has changed');
    const { object, state, settings: kept } = first.json();
    assert.deepEqual({ object, state, kept }, { object: 'account', state: 'active', kept: settings });

    const hash = sha256(freshToken());
    const token = await api('PUT', `/${id}/tokens/${hash}`, { name: 'server' });
    assert.deepEqual((await api('PUT', `/${id}/tokens/${hash}`, { name: 'server' })).json(), token.json());
    const shown = (await api('GET', `/${id}`)).json();
    assert.deepEqual(shown.tokens, [token.json()]);
    assert.equal((await api('DELETE', `/${id}/tokens/${hash}`)).status, 204);
    assert.equal((await api('DELETE', `/${id}/tokens/${hash}`)).status, 204);
    assertProblem(await api('PUT', `/${id}/tokens/${hash}`, { name: 'server' }), 422, 'invalid-parameters');
    assert.ok((await tokensOf(id))[0].ends_at_ms <= Date.now(), 'what has ended stays so');
    assert.equal((await api('PUT', `/${id}`, { settings, state: 'closed' })).json().state, 'closed');
  });

  test('what was ended at the desk stays so, unless a PUT says otherwise', async () => {
    const { id, token, client: shop } = await made();
    const page = () => look(`/admin/accounts/${id}`);
    for (const { path, entries } of [formOf(await page(), '/retire'), await asked(await page(), '/close')])
      assert.equal((await press(path, entries)).status, 303);
    const [{ ends_at_ms: end }] = await tokensOf(id);
    assert.ok(end > Date.now());
    const puts = async (account, ends = {}) => [
      (await api('PUT', `/${id}`, { settings: CARD, ...account })).json(),
      (await api('PUT', `/${id}/tokens/${sha256(token)}`, { name: 'server', ...ends })).json(),
    ];
    // As a program sends it every night, and with a change.
    for (const settings of [CARD, { ...CARD, shop: { name: 'Ada' } }]) {
      const [account, { ends_at }] = await puts({ settings });
      assert.deepEqual(account.settings, settings);
      assert.deepEqual([account.state, Date.parse(ends_at)], ['closed', end]);
    }
    assertProblem(await shop.pay(PAYMENT, freshKey()), 401, 'unauthorized');
    const [{ state }, { ends_at }] = await puts({ state: 'active' }, { ends_at: null });
    assert.deepEqual([state, ends_at], ['active', null]);
    await paid(shop);
  });

  test('shows the tokens that are good before those that have ended, and says that there are more', async () => {
    const { id, token } = await made();
    await site.rows(
      `INSERT INTO account_tokens SELECT printf('%064x', value + ?1), ?2, 'test', ?3 + value, ?3
       FROM json_each(?4)`,
      Math.floor(Math.random() * 1e12),
      id,
      Date.now(),
      JSON.stringify(Array.from({ length: 100 }, (_, number) => number)),
    );
    const { tokens, has_more_tokens } = (await api('GET', `/${id}`)).json();
    assert.deepEqual([tokens.length, tokens[0].name, has_more_tokens], [100, 'server', true]);
    const page = await look(`/admin/accounts/${id}`);
    assert.match(page.text, /100 are shown/);
    const { path, entries } = await asked(page, `/tokens/${sha256(token)}/revoke`);
    assert.equal((await press(path, entries)).status, 303);
  });

  test('a token ends by itself at its time', async () => {
    const { id, client: shop, token } = await made();
    await paid(shop);
    const endsIn = async (ms) => {
      const ends_at = new Date(Date.now() + ms).toISOString();
      const put = await api('PUT', `/${id}/tokens/${sha256(token)}`, { name: 'server', ends_at });
      assert.equal(put.json().ends_at, ends_at, put.text);
      return Date.parse(ends_at);
    };
    await endsIn(3_600_000);
    assert.equal((await shop.pay(PAYMENT, freshKey())).status, 201);
    const endsAtMs = await endsIn(1000);
    while (Date.now() < endsAtMs) await new Promise((go) => setTimeout(go, 100));
    assertProblem(await shop.pay(PAYMENT, freshKey()), 401, 'unauthorized');
  });

  test('lists the accounts by their ids', async () => {
    const ids = [1, 2, 3].map((number) => `list-${number}`);
    for (const id of ids) assert.equal((await api('PUT', `/${id}`, { settings: CARD })).status, 200);
    const page = (await api('GET', '?after=list-&limit=2')).json();
    assert.deepEqual([page.data.map(({ id }) => id), page.has_more], [ids.slice(0, 2), true]);
    const next = (await api('GET', `?after=${page.data.at(-1).id}&limit=1`)).json();
    assert.equal(next.data[0].id, ids[2]);
    assertProblem(await api('GET', '?limit=none'), 422, 'invalid-parameters');
  });

  test('says what is wrong, and changes nothing', async () => {
    const { id } = await made();
    const hash = sha256(freshToken());
    for (const [path, body, said] of [
      ['/a%20b', { settings: CARD }, /letters/],
      [`/${id}`, { settings: {} }, /payment_method/],
      [`/${id}`, { settings: { ...CARD, surprise: 1 } }, /surprise/],
      [`/${id}`, { settings: { ...CARD, token_sha256: hash } }, /token_sha256/],
      [`/${id}`, { settings: { ...CARD, stripe_account: 'B' } }, /acct_/],
      [`/${id}`, { settings: { ...CARD, currencies: { xxx: {} } } }, /currenc/],
      [`/${id}`, { settings: CARD, state: 'gone' }, /gone/],
      [`/${id}/tokens/abc`, { name: 'server' }, /64 lower-case/],
      [`/${id}/tokens/${hash}`, { name: '' }, /characters/],
      [`/${id}/tokens/${hash}`, { name: 'server', ends_at: '2020-01-01T00:00:00Z' }, /to come/],
    ]) {
      const answer = await api('PUT', path, body);
      assertProblem(answer, 422, 'invalid-parameters');
      assert.match(answer.text, said);
    }
    const other = await made();
    const taken = await api('PUT', `/${id}/tokens/${sha256(other.token)}`, { name: 'server' });
    assert.match(taken.text, /another account/);
    for (const [method, path] of [
      ['GET', '/nobody'],
      ['PUT', `/nobody/tokens/${hash}`],
      ['DELETE', `/${id}/tokens/${hash}`],
      ['DELETE', `/${id}/tokens/${sha256(other.token)}`],
    ])
      assert.equal((await api(method, path, method === 'PUT' ? { name: 'server' } : undefined)).status, 404);
    await paid(other.client);
  });

  test('takes the commands of docs/operations.md as they stand there', async () => {
    const [, chapter] = readFileSync(inRoot('docs', 'operations.md'), 'utf8').split('### API accounts');
    const [, commands] = /^```sh\n([^]*?)^```$/m.exec(chapter);
    const env = { ...process.env, ADMIN_TOKEN, PAID_ONCE_URL: site.url.origin };
    const script = `set -eu\n${commands.replaceAll('curl ', 'curl -sS --fail-with-body ')}\necho; printf %s "$TOKEN"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { env });
    assert.match(stdout, /"id":"ada".*"token_sha256"/s);
    const payment = await paid(client(site, stdout.trim().split('\n').at(-1)));
    assert.equal(payment.status, 'succeeded');
  });

  test('is closed to all others', async () => {
    const { id, token } = await made();
    for (const headers of [{}, { authorization: `Bearer ${token}` }])
      for (const method of ['GET', 'PUT'])
        assert.equal((await site.fetch(`/admin/api/accounts/${id}`, { method, headers })).status, 401);
  });
});

/** Does something while nobody's tokens can be read. */
async function away(site, work) {
  await site.rows('ALTER TABLE account_tokens RENAME TO account_tokens_away');
  try {
    await work();
  } finally {
    await site.rows('ALTER TABLE account_tokens_away RENAME TO account_tokens');
  }
}

describe('while the registry cannot be read', () => {
  test('who was known goes on, and nobody else is called unknown', async () => {
    const { client: known } = await made();
    const { client: unknown } = await made();
    await paid(known);
    await away(site, async () => {
      await paid(known);
      await paid(client(site, CONFIGURED_TOKEN));
      const refused = await unknown.pay(PAYMENT, freshKey());
      assertProblem(refused, 503, 'temporarily-unavailable');
      assert.ok(refused.header('retry-after'));
    });
    await paid(unknown);
  });
});

test('an account whose settings this release cannot read is refused at once, and no other is', async () => {
  const [shop, other] = [await made(), await made()];
  await paid(shop.client);
  // As of a later release, with a restriction that is unknown here.
  const set = (sql) => site.rows(`UPDATE accounts SET settings = ${sql} WHERE id = ?`, shop.id);
  await set("json_set(settings, '$.pays_only_on_weekdays', json('true'))");
  const key = freshKey();
  assertProblem(await shop.client.pay(PAYMENT, key), 503, 'misconfigured');
  assert.ok(
    site.logs().some(({ message }) => message.includes('account_unusable') && message.includes(shop.id)),
    'the log names it',
  );
  await paid(other.client);
  // What was read before does not count either while the registry cannot be read.
  await away(site, async () =>
    assertProblem(await shop.client.pay(PAYMENT, key), 503, 'temporarily-unavailable'),
  );
  await set("json_remove(settings, '$.pays_only_on_weekdays')");
  assert.equal((await shop.client.pay(PAYMENT, key)).status, 201);
});

describe('many accounts', () => {
  const NUMBER = 100_000;

  test(`the last of ${NUMBER} pays, is listed and is found as the first is`, async () => {
    const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${NUMBER})`;
    const settings = JSON.stringify(CARD);
    await site.rows(
      `INSERT INTO accounts ${numbers} SELECT printf('many-%06d', i), ?, 'active', 1, i, i FROM n`,
      settings,
    );
    await site.rows(
      `INSERT INTO account_tokens ${numbers} SELECT printf('%064x', i), printf('many-%06d', i), 'server', i, NULL FROM n`,
    );
    for (const id of ['many-000001', `many-${NUMBER}`]) {
      const token = freshToken();
      const put = await api('PUT', `/${id}/tokens/${sha256(token)}`, { name: 'second' });
      assert.equal(put.status, 200, put.text);
      const payment = await paid(client(site, token));
      assert.equal(payment.status, 'succeeded');
      const list = await look(`/admin/accounts?q=${id}`);
      assert.ok(list.text.includes(`href="/admin/accounts/${id}"`), list.text);
      assert.equal((await look(`/admin/accounts/${id}`)).status, 200);
    }
  });
});

describe('objects that read the registry for all isolates', () => {
  const WINDOW_MS = 4_000;
  let many;
  before(async () => {
    many = await startWithAccountsCache({ ACCOUNTS_CACHE_MS: String(WINDOW_MS) });
  });
  after(() => many?.close());

  /** The token of a new account. */
  async function tokenOfNew(settings = CARD) {
    const [id, token, now] = [freshId(), freshToken(), Date.now()];
    await many.rows(
      "INSERT INTO accounts VALUES (?1, ?2, 'active', 1, ?3, ?3)",
      id,
      JSON.stringify(settings),
      now,
    );
    await many.rows("INSERT INTO account_tokens VALUES (?, ?, 'server', ?, NULL)", sha256(token), id, now);
    return token;
  }
  /** What the Workers answer, in isolates of their own, when all are asked at once. */
  async function statuses(token, init) {
    const headers = { authorization: `Bearer ${token}`, ...init?.headers };
    const answers = await many.askAll('/payments', { ...init, headers });
    return [...new Set(await Promise.all(answers.map(async (answer) => (await read(answer)).status)))];
  }
  const OF_TOKENS = 'SELECT t.account';

  test('a token that is revoked is good nowhere after the window', async () => {
    const token = await tokenOfNew();
    assert.deepEqual(await statuses(token), [200]);
    const revoke = 'UPDATE account_tokens SET ends_at_ms = ? WHERE token_sha256 = ?';
    await many.rows(revoke, Date.now(), sha256(token));
    const revokedAtMs = Date.now();
    while (Date.now() < revokedAtMs + WINDOW_MS) await new Promise((go) => setTimeout(go, 100));
    assert.deepEqual(await statuses(token), [401]);
  });

  test('ask D1 once for all, also for what is not there', async () => {
    const keyless = await tokenOfNew({ ...CARD, own_stripe_keys: true });
    const charge = {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': freshKey() },
      body: JSON.stringify(PAYMENT),
    };
    for (const [sql, ask] of [
      [OF_TOKENS, async (token) => assert.deepEqual(await statuses(token), [200])],
      [OF_TOKENS, async () => assert.deepEqual(await statuses('a-token-of-nobody'), [401])],
      ['SELECT kind, sealed', async () => assert.deepEqual(await statuses(keyless, charge), [503])],
    ]) {
      const token = await tokenOfNew();
      const [before, beganAtMs] = [many.reads(sql), Date.now()];
      for (let times = 0; times < 3; times += 1) await ask(token);
      const readings = 1 + Math.floor((Date.now() - beganAtMs) / (WINDOW_MS / 2));
      await until('D1 was asked', () => many.reads(sql) > before);
      assert.ok(many.reads(sql) - before <= readings, `${sql}: ${many.reads(sql) - before}, ${readings}`);
    }
  });

  test('say that D1 cannot be read, and then nobody is called unknown', async () => {
    const [known, unknown] = [await tokenOfNew(), await tokenOfNew()];
    assert.deepEqual(await statuses(known), [200]);
    const readAtMs = Date.now();
    await away(many, async () => {
      assert.deepEqual(await statuses(unknown), [503]);
      while (Date.now() < readAtMs + WINDOW_MS) await new Promise((go) => setTimeout(go, 100));
      assert.deepEqual(await statuses(known), [200], 'who was known goes on');
    });
    assert.deepEqual(await statuses(unknown), [200]);
    assert.ok(!many.logs().some(({ message }) => message.includes('row_cache_silent')), 'they have answered');
  });

  test('while they do not answer each isolate asks D1 itself', async () => {
    const token = await tokenOfNew();
    await many.takeDown();
    const before = many.reads(OF_TOKENS);
    assert.deepEqual(await statuses(token), [200]);
    await until('each has asked', () => many.reads(OF_TOKENS) - before === many.isolates);
  });
});

test('whoever makes tokens up does not get to the registry', async () => {
  const closed = await startSite({
    workers: productionWorkers({
      secrets: { SIGNING_KEY, STRIPE_SECRET_KEY: 'sk_test_of_the_tests', API_ACCOUNTS, ADMIN_TOKEN },
    }),
  });
  try {
    const guess = async (address, token = freshToken()) =>
      read(
        await closed.fetch('/payments', {
          headers: { authorization: `Bearer ${token}`, 'cf-connecting-ip': address },
        }),
      );
    const SHOPS = 310;
    await closed.rows("INSERT INTO accounts VALUES ('egress', ?1, 'active', 1, 1, 1)", JSON.stringify(CARD));
    const tokens = Array.from({ length: SHOPS }, freshToken);
    await closed.rows(
      "INSERT INTO account_tokens SELECT value, 'egress', 'server', 1, NULL FROM json_each(?)",
      JSON.stringify(tokens.map(sha256)),
    );
    for (const token of tokens) assert.equal((await guess('198.51.100.7', token)).status, 200);
    assert.equal((await guess('198.51.100.7')).status, 401, 'good ones were not counted');

    let statuses = [];
    for (let round = 0; round < 20 && !statuses.includes(429); round += 1)
      statuses = (await Promise.all(Array.from({ length: 50 }, () => guess('198.51.100.7')))).map(
        ({ status }) => status,
      );
    assert.ok(statuses.includes(429), 'after some hundreds');
    const refused = await guess('198.51.100.7');
    assertProblem(refused, 429, 'rate-limited');
    assert.equal(refused.header('retry-after'), '60');
    assert.equal((await guess('203.0.113.9')).status, 401, 'others are asked for as before');
    assert.equal(
      (await guess('198.51.100.7', CONFIGURED_TOKEN)).status,
      200,
      'who is configured needs no look',
    );
  } finally {
    await closed.close();
  }
});

test('receipts of an account whose settings this release cannot read wait, and go out once it can', async () => {
  const shop = await made({ shop: { name: 'Ada’s shop' } });
  const { id, provider_payment: intent } = await paid(shop.client, {
    ...AUTHORISATION,
    receipt_email: 'ada@example.com',
  });
  const set = (sql) => site.rows(`UPDATE accounts SET settings = ${sql} WHERE id = ?`, shop.id);
  await set("json_set(settings, '$.pays_only_on_weekdays', json('true'))");
  // Somebody gives the reservation up at Stripe: the object is told, whoever may ask for payments.
  await site.simulator.webhooks('on');
  await site.simulator.stripe(`payment_intents/${intent}/cancel`, { method: 'POST' });
  await site.simulator.flush();
  const job = () =>
    site.rows('SELECT state, attempts, history FROM job_list WHERE job_id = ?', `${id}_void_1_receipt`);
  const emails = async () => (await site.simulator.emails(id)).length;
  const { state, history } = await until('it was tried', async () => (await job())[0]);
  assert.equal(state, 'tried');
  assert.match(history, new RegExp(`the settings of ${shop.id} cannot be read`));
  assert.equal(await emails(), 0);
  await set("json_remove(settings, '$.pays_only_on_weekdays')");
  await until('it is sent', async () => (await job())[0].state === 'done');
  assert.equal(await emails(), 1);
  await site.simulator.webhooks('off');
});
