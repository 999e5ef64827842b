// Several shops, several Stripe accounts: accounts of the registry with keys of their own. Each payment goes with the key of its own shop, or nowhere.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { formOf, operator } from './support/operator.mjs';
import {
  ADMIN_TOKEN,
  publishableKey,
  registry,
  restrictedKey,
  secretKey,
  standNowhere,
  webhookSecret,
} from './support/own-keys.mjs';
import { AT_ONCE, AUTHORISATION, PAYMENT, assertProblem, insist, paid } from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const DEPLOYMENTS = secretKey('Deployment');
const CREDENTIALS_KEY = randomBytes(32).toString('base64');
const OTHER_KEY = randomBytes(32).toString('base64');
const workers = (more = {}) =>
  demoWorkers({
    vars: { ...IMPATIENT, ACCOUNTS_CACHE_MS: '0' },
    secrets: { ADMIN_TOKEN, STRIPE_SECRET_KEY: DEPLOYMENTS, CREDENTIALS_KEY, ...more },
  });

const site = await startSite({ workers: workers() });
after(() => site.close());
afterEach(() => site.simulator.calm());
const { shop } = registry(site);
const { asked, look, press, logOf } = operator(site, ADMIN_TOKEN);

/** At which accounts of Stripe a payment was charged. */
const chargedAt = async (payment) => {
  const { charges } = await site.simulator.ledger(payment);
  return charges.filter(({ status }) => status === 'succeeded').map(({ account }) => account);
};
const charges = async () => (await site.simulator.ledger()).charges.length;
const awayOf = async (payment, name) => {
  const calls = await site.objects.calls(payment);
  const { evidence } = calls.find((call) => call.name === name);
  return JSON.parse(evidence ?? '{}').sent_to?.away;
};

describe('two shops with a key each', () => {
  test('are charged, captured and refunded at their own account alone', async () => {
    const shops = [await shop(), await shop(), await shop({ own: false, key: null })];
    const expected = [shops[0].stripe, shops[1].stripe, 'acct_Deployment'];
    for (const [at, { client: user }] of shops.entries()) {
      const { id } = await paid(user, AUTHORISATION);
      const captured = await user.post(`/payments/${id}/capture`, { amount: 2000 }, freshKey());
      assert.equal(captured.status, 200, captured.text);
      const refund = await user.post(`/payments/${id}/refunds`, { amount: 700 }, freshKey());
      assert.equal(refund.status, 201, refund.text);
      assert.deepEqual(await chargedAt(id), [expected[at]]);
      assert.deepEqual(await site.simulator.moved(id), {
        charges: 1,
        captured: 2000,
        refunded: 700,
        voided: 0,
      });
    }
  });

  test('have customers each', async () => {
    const [one, other] = [await shop(), await shop()];
    const put = (user) =>
      user.ask('/customers/ada@example.com', {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'Ada' }),
      });
    const made = await Promise.all([one, other].map(({ client: user }) => put(user)));
    for (const answer of made) assert.equal(answer.status, 201, answer.text);
    assert.notEqual(
      made[0].json().provider_customer ?? made[0].text,
      made[1].json().provider_customer ?? made[1].text,
    );
  });

  test('find a payment again whose answer was lost, each at its own account', async () => {
    const { client: user, stripe } = await shop();
    const key = freshKey();
    await site.simulator.fault('response_lost', { count: 1000 });
    assertProblem(await user.pay(PAYMENT, key, AT_ONCE), 503, 'outcome-unknown');
    await site.simulator.calm();
    const answer = await insist(() => user.pay(PAYMENT, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await chargedAt(answer.payment), [stripe]);
  });
});

describe('what is entered', () => {
  test('is never shown again, and stands nowhere but sealed', async () => {
    const own = await shop({ key: secretKey('Quiet') });
    const pairs = [
      ['stripe_secret_key', own.secret],
      ['stripe_publishable_key', publishableKey()],
      ['stripe_webhook_secret', webhookSecret()],
    ];
    for (const [kind, value] of pairs) {
      const set = await own.set(kind, value);
      assert.equal(set.status, 200, set.text);
      assert.equal(set.json().hint.slice(-5), `…${value.slice(-4)}`);
      assert.deepEqual((await own.set(kind, value)).json(), set.json(), 'sent again it changes nothing');
    }
    const { id } = await paid(own.client);
    const shown = await own.shown();
    assert.deepEqual(
      shown.credentials.map(({ kind, mode, stripe_account: of }) => [kind, mode, of]),
      [
        ['stripe_publishable_key', 'test', null],
        ['stripe_secret_key', 'test', 'acct_Quiet'],
        ['stripe_webhook_secret', null, null],
      ],
    );
    await until(
      'the read model has it',
      async () => (await site.rows('SELECT 1 FROM payments WHERE payment_id = ?', id))[0],
    );
    const seen = [shown, await look(`/admin/accounts/${own.id}`), await site.objects.calls(id)];
    await standNowhere(site, pairs, { id, seen });
    const outcomes = (await logOf(`account ${own.id}`)).map(({ action, outcome }) => `${action}: ${outcome}`);
    assert.ok(
      outcomes.some((line) => /^set keys: stripe_secret_key sk_test_…0000: set: .*of acct_Quiet/.test(line)),
      outcomes.join(),
    );
  });

  test('is refused where it cannot be right, and says what to enter', async () => {
    const own = await shop();
    const [other] = [await shop()];
    for (const [kind, value, said] of [
      ['stripe_secret_key', publishableKey(), /publishable key: the secret key begins with sk_/],
      ['stripe_publishable_key', own.secret, /is a secret key/],
      ['stripe_publishable_key', publishableKey('live'), /demo/],
      ['stripe_secret_key', 'sk_test_short', /has 13 characters/],
      ['stripe_secret_key', `${own.secret} `, /without spaces/],
      ['stripe_webhook_secret', own.secret, /begin with whsec_/],
      ['stripe_secret_key', secretKey('Elsewhere'), /replace is of acct_S\w+: .* make another account/],
      ['stripe_secret_key', 'sk_live_0123456789abcdefghijklmn', /demo/],
    ]) {
      const answer = await own.set(kind, value);
      assertProblem(answer, 422, 'invalid-parameters');
      assert.match(answer.text, said);
      assert.ok(!answer.text.includes(value.trim()), 'it is not repeated');
    }
    const taken = await shop({ key: null });
    assert.match(
      (await taken.set('stripe_secret_key', other.secret)).text,
      new RegExp(`so is that of the account ${other.id}`),
    );
    assert.match((await taken.set('stripe_secret_key', DEPLOYMENTS)).text, /as STRIPE_SECRET_KEY is/);
    assert.equal((await taken.set('stripe_webhook_secret_before', webhookSecret())).status, 404);
    assert.equal((await taken.set('adyen_client_key', 'x')).status, 404);
    const garbled = await taken.set('stripe_secret_key', { text: 'a-secret-that-is-not-quoted' });
    assertProblem(garbled, 422, 'invalid-parameters');
    assert.ok(!garbled.text.includes('not-quoted'));

    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/account' });
    const unsure = await taken.set('stripe_secret_key', taken.secret);
    assert.equal(unsure.status, 503, unsure.text);
    assert.match(unsure.text, /Nothing was changed: try it again/);
    await site.simulator.calm();
    assert.deepEqual((await taken.shown()).credentials, [], 'nothing of all that was stored');
    assert.equal((await taken.set('stripe_secret_key', taken.secret)).status, 200, 'control');
  });
});

describe('a restricted key that may not say of which account it is', () => {
  const mute = () => site.simulator.fault('forbidden', { method: 'GET', path: '/v1/account', count: 1000 });

  test('does not replace one of a known account: new payments would go elsewhere', async () => {
    const own = await shop();
    await mute();
    const answer = await own.set('stripe_secret_key', restrictedKey('Elsewhere'));
    assertProblem(answer, 422, 'invalid-parameters');
    assert.match(answer.text, new RegExp(`the one it would replace is of ${own.stripe}: allow it to read`));
    const mutes = restrictedKey(own.stripe.slice('acct_'.length));
    assert.equal((await own.set('stripe_secret_key', mutes)).status, 422, 'nobody knows that it is the same');
    await site.simulator.calm();
    assert.deepEqual(await chargedAt((await paid(own.client)).id), [own.stripe]);
    assert.equal((await own.set('stripe_secret_key', mutes)).status, 200, 'control: it may say it');
  });

  test('is taken where no key of a known account is, and asked again once it is entered again', async () => {
    const own = await shop({ key: null });
    const known = async () => {
      const [{ stripe_account: of, changed_at_ms: at }] = await site.rows(
        'SELECT stripe_account, changed_at_ms FROM account_credentials WHERE account = ?',
        own.id,
      );
      return { of, at };
    };
    const value = restrictedKey(own.stripe.slice('acct_'.length));
    await mute();
    assert.equal((await own.set('stripe_secret_key', value)).status, 200);
    const first = await known();
    assert.equal(first.of, null);
    assert.equal((await own.set('stripe_secret_key', value)).status, 200);
    assert.deepEqual(await known(), first, 'as long as it may not, nothing is different');
    await site.simulator.calm();
    assert.equal((await own.set('stripe_secret_key', value)).status, 200);
    assert.equal((await known()).of, own.stripe);
    const asked = (await site.simulator.requests()).length;
    assert.equal((await own.set('stripe_secret_key', value)).status, 200);
    assert.equal((await site.simulator.requests()).length, asked, 'what is known is not asked');
  });
});

describe('what was begun', () => {
  test('with the deployment’s key ends there, whatever keys the shop gets', async () => {
    const own = await shop({ own: false, key: null });
    const { id } = await paid(own.client, AUTHORISATION);
    assert.equal((await own.set('stripe_secret_key', own.secret)).status, 200);
    assert.equal((await own.use(true)).status, 200);
    const captured = await own.client.post(`/payments/${id}/capture`, {}, freshKey());
    assert.equal(captured.status, 200, captured.text);
    assert.deepEqual(await chargedAt(id), ['acct_Deployment']);
    assert.deepEqual(await chargedAt((await paid(own.client)).id), [own.stripe]);
    assert.equal((await own.use(false)).status, 200);
    const refund = async (payment) =>
      (await own.client.post(`/payments/${payment}/refunds`, { amount: 100 }, freshKey())).status;
    assert.equal(await refund(id), 201);
    assert.deepEqual(await chargedAt((await paid(own.client)).id), ['acct_Deployment']);
  });

  test('goes on with a rolled key of the same account', async () => {
    const own = await shop();
    const { id } = await paid(own.client);
    const key = freshKey();
    await site.simulator.fault('response_lost', { count: 1000 });
    const lost = await own.client.pay(PAYMENT, key, AT_ONCE);
    assertProblem(lost, 503, 'outcome-unknown');
    await until('its account is known', async () => {
      const [call] = await site.objects.calls(lost.payment);
      return JSON.parse(call.evidence ?? '{}').sent_to?.account === own.stripe;
    });
    await site.simulator.calm();
    assert.equal((await own.set('stripe_secret_key', own.rolled)).status, 200);
    const answer = await insist(() => own.client.pay(PAYMENT, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await chargedAt(answer.payment), [own.stripe]);
    const refund = await own.client.post(`/payments/${id}/refunds`, { amount: 700 }, freshKey());
    assert.equal(refund.status, 201, refund.text);
  });

  test('waits where the shop has moved to another account, and ends with the first key', async () => {
    const own = await shop();
    const { id } = await paid(own.client, AUTHORISATION);
    assert.equal((await own.remove('stripe_secret_key')).status, 204);
    assert.equal((await own.set('stripe_secret_key', secretKey('Moved'))).status, 200);
    const key = freshKey();
    const refused = await own.client.post(`/payments/${id}/capture`, {}, key, AT_ONCE);
    assert.equal(refused.status, 503, refused.text);
    const away = await until('it is known to wait', () => awayOf(id, 'capture'));
    assert.match(away, /not in the account of the configured key/);
    const next = await paid(own.client);
    assert.deepEqual(await chargedAt(next.id), ['acct_Moved'], 'new payments are made there');
    assert.equal((await own.remove('stripe_secret_key')).status, 204);
    assert.equal((await own.set('stripe_secret_key', own.secret)).status, 200);
    const answer = await insist(() => own.client.post(`/payments/${id}/capture`, {}, key, AT_ONCE));
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await chargedAt(id), [own.stripe]);
  });
});

describe('a key that cannot be used', () => {
  /** A new payment and a refund are refused, and nothing is charged anywhere. */
  async function isRefused(own, payment) {
    const before = [await charges(), (await site.simulator.requests()).length];
    for (const answer of [
      await own.client.pay(PAYMENT, freshKey()),
      await own.client.post(`/payments/${payment}/refunds`, { amount: 100 }, freshKey()),
    ]) {
      assertProblem(answer, 503, 'temporarily-unavailable');
      assert.match(answer.text, /keys of its own at the provider/);
    }
    assert.deepEqual([await charges(), (await site.simulator.requests()).length], before);
  }
  /** What a run of the scheduled tasks says of the keys that it has sealed anew. */
  async function resealed() {
    const before = site.logs().length;
    const { outcome } = await site.desk().scheduled({ cron: '*/5 * * * *' });
    assert.equal(outcome, 'ok');
    const said = () =>
      site
        .logs()
        .slice(before)
        .find(({ message }) => message.includes('"event":"resealed"'));
    const { message } = await until('it is said', said);
    return JSON.parse(JSON.parse(message).result);
  }
  const refunded = async (own, payment) => {
    const answer = await own.client.post(`/payments/${payment}/refunds`, { amount: 100 }, freshKey());
    assert.equal(answer.status, 201, answer.text);
  };

  test('since it was removed charges nothing, also not with the deployment’s', async () => {
    const own = await shop();
    const key = freshKey();
    const first = await own.client.pay(PAYMENT, key);
    await own.remove('stripe_secret_key');
    await isRefused(own, first.payment);
    const again = await own.client.pay(PAYMENT, key);
    assert.equal(again.header('idempotent-replayed'), 'true', 'what was done is still told');
    assert.match((await look(`/admin/accounts/${own.id}`)).text, /none is set: its payments are refused/);
    await own.set('stripe_secret_key', own.secret);
    await refunded(own, first.payment);
  });

  test('since it was moved to another row, is not that row’s', async () => {
    const [own, thief] = [await shop(), await shop()];
    const { id } = await paid(thief.client);
    const moved =
      'UPDATE account_credentials SET sealed = (SELECT sealed FROM account_credentials WHERE account = ?1 AND kind = ?3) WHERE account = ?2 AND kind = ?3';
    const [{ sealed }] = await site.rows(
      'SELECT sealed FROM account_credentials WHERE account = ?',
      thief.id,
    );
    await site.rows(moved, own.id, thief.id, 'stripe_secret_key');
    await isRefused(thief, id);
    await site.rows('UPDATE account_credentials SET sealed = ? WHERE account = ?', sealed, thief.id);
    await refunded(thief, id);
  });

  test('under another CREDENTIALS_KEY charges nothing; sealed anew it outlives the old one', async () => {
    const own = await shop();
    const { id } = await paid(own.client);
    await site.deploy(workers({ CREDENTIALS_KEY: OTHER_KEY }));
    await isRefused(own, id);
    await site.deploy(workers({ CREDENTIALS_KEY: `${OTHER_KEY} ${CREDENTIALS_KEY}` }));
    await refunded(own, id);
    const [{ number }] = await site.rows('SELECT count(*) AS number FROM account_credentials');
    assert.deepEqual(await resealed(), { left: 0, resealed: number, unopened: 0 });
    assert.deepEqual(await resealed(), { left: 0, resealed: 0, unopened: 0 }, 'it is said that it is over');
    await site.deploy(workers({ CREDENTIALS_KEY: OTHER_KEY }));
    await refunded(own, id);
    await site.deploy(workers({ CREDENTIALS_KEY: `${CREDENTIALS_KEY} ${OTHER_KEY}` }));
    await resealed();
    await site.deploy(workers());
  });

  test('is passed over when the others are sealed anew, a slice in each run, however many cannot be opened', async () => {
    const own = await shop();
    const { id } = await paid(own.client);
    // They stand before the shop's own: most under the key that is replaced, and three under one that nobody has.
    const SLICE = 100;
    await site.rows(
      `INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, changed_at_ms)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
       SELECT 'a-broken-' || i, 'stripe_secret_key', 'AAAA', CASE WHEN i > 3 THEN own.sealed_with ELSE '0' END, '', 0
       FROM n CROSS JOIN account_credentials own WHERE own.account = ?`,
      own.id,
    );
    await site.deploy(workers({ CREDENTIALS_KEY: `${OTHER_KEY} ${CREDENTIALS_KEY}` }));
    const runs = [];
    while (runs.at(-1)?.left !== 297) {
      runs.push(await resealed());
      const { resealed: number, unopened } = runs.at(-1);
      assert.ok(number + unopened <= SLICE + 3, JSON.stringify(runs));
      assert.ok(runs.length <= 5, JSON.stringify(runs));
    }
    assert.ok(runs.length >= 3, 'control: those before it fill two runs');
    assert.equal((await resealed()).left, 297, 'it begins again with those that cannot be opened');
    await site.rows("DELETE FROM account_credentials WHERE account LIKE 'a-broken-%'");
    await site.deploy(workers({ CREDENTIALS_KEY: OTHER_KEY }));
    await refunded(own, id);
    await site.deploy(workers({ CREDENTIALS_KEY: `${CREDENTIALS_KEY} ${OTHER_KEY}` }));
    while ((await resealed()).left > 0);
    await site.deploy(workers());
  });

  test('while none is set at the Worker, nothing is stored', async () => {
    await site.deploy(workers({ CREDENTIALS_KEY: '' }));
    const own = await shop({ key: null });
    const answer = await own.set('stripe_secret_key', own.secret);
    assertProblem(answer, 422, 'invalid-parameters');
    assert.match(answer.text, /wrangler secret put CREDENTIALS_KEY/);
    await site.deploy(workers());
  });
});

describe('the checkout', () => {
  const orderOf = async ({ client: user }) => {
    const link = await user.post('/checkout/sessions', {
      order_id: freshKey(),
      currency: 'usd',
      lines: [{ name: 'Mug', unit_amount: 800, quantity: 1 }],
    });
    assert.equal(link.status, 201, link.text);
    return new URL(link.json().url).pathname;
  };

  test('takes cards with the shop’s own publishable key, for its own account', async () => {
    const own = await shop();
    const key = publishableKey();
    assert.equal((await own.set('stripe_publishable_key', key)).status, 200);
    const path = await orderOf(own);
    const visitor = browser(site);
    const page = await visitor.visit(path);
    assert.match(page.text, new RegExp(`data-key="${key}"`));
    assert.doesNotMatch(page.text, /data-account/);
    const sent = await visitor.send(path, { ...page.entries, payment_method: 'pm_card_visa' });
    assert.equal(sent.status, 303, sent.text);
    const { charges: all } = await site.simulator.ledger();
    assert.equal(all.at(-1).account, own.stripe);

    const other = await visitor.visit(await orderOf(await shop({ own: false, key: null })));
    assert.ok(!other.text.includes(key), 'no other shop’s page has it');
  });

  test('of a shop whose key cannot be used takes none, and still shows what was paid', async () => {
    const own = await shop();
    const [open, done] = [await orderOf(own), await orderOf(own)];
    const visitor = browser(site);
    const { entries } = await visitor.visit(done);
    assert.equal((await visitor.send(done, { ...entries, payment_method: 'pm_card_visa' })).status, 303);
    const form = await visitor.visit(open);
    await own.remove('stripe_secret_key');
    const before = await charges();
    const link = await own.client.ask('/checkout/sessions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        order_id: freshKey(),
        currency: 'usd',
        lines: [{ name: 'Mug', unit_amount: 800, quantity: 1 }],
      }),
    });
    assertProblem(link, 503, 'temporarily-unavailable');
    assert.equal((await visitor.send(open, { ...form.entries, payment_method: 'pm_card_visa' })).status, 503);
    assert.equal((await visitor.visit(open)).status, 503);
    assert.equal(await charges(), before);
    assert.equal((await visitor.visit(done)).status, 200);
  });
});

describe('at the desk', () => {
  test('keys are set and removed by a form, which keeps nothing of what was entered', async () => {
    const own = await shop({ key: null });
    const page = await look(`/admin/accounts/${own.id}`);
    const form = formOf(page, '/credentials');
    const wrong = await press(form.path, { ...form.entries, stripe_publishable_key: own.secret });
    assert.equal(wrong.status, 422);
    assert.match(wrong.text, /The publishable key is a secret key/);
    assert.ok(!wrong.text.includes(own.secret));
    const entries = {
      ...form.entries,
      stripe_secret_key: ` ${own.secret} `,
      stripe_webhook_secret: webhookSecret(),
    };
    const answers = await Promise.all([1, 2].map(() => press(form.path, entries)));
    for (const answer of answers) assert.equal(answer.status, 303, answer.text);
    const shown = await look(answers[0].header('location'));
    assert.ok(shown.text.includes('sk_test_…0000') && shown.text.includes(own.stripe), shown.text);
    assert.ok(shown.text.includes(`/webhooks/stripe/${own.id}`));
    assert.ok(!shown.text.includes(own.secret));
    assert.equal(
      (await logOf(`account ${own.id}`)).filter(({ action }) => action.startsWith('set keys')).length,
      1,
    );
    assert.deepEqual(await chargedAt((await paid(own.client)).id), [own.stripe]);

    const remove = await asked(shown, '/credentials/stripe_secret_key/remove');
    assert.equal((await press(remove.path, remove.entries)).status, 303);
    assert.deepEqual(
      (await own.shown()).credentials.map(({ kind }) => kind),
      ['stripe_webhook_secret'],
    );
    const outcomes = (await logOf(`account ${own.id}`)).map(({ outcome }) => outcome);
    assert.match(outcomes.join(), /within a minute, or ten while D1 cannot be read\. If it leaked, roll it/);
    const edit = formOf(await look(`/admin/accounts/${own.id}/edit`), '/edit');
    const off = await press(edit.path, { ...edit.entries, payment_method: 'pm_card_visa' });
    assert.equal(off.status, 303, off.text);
    assert.equal((await own.shown()).settings.own_stripe_keys, undefined, 'the box was not checked');
  });

  test('an account of API_ACCOUNTS can have none', async () => {
    const page = await look('/admin/accounts/user%40example.com');
    assert.equal(page.status, 200, page.text);
    assert.ok(!page.text.includes('Own keys'));
  });
});
