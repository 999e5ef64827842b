// Several shops, several merchant accounts at Adyen: accounts of the registry with an API key of their own. Each payment goes with the key of its own
// shop into its own merchant account, or nowhere.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { formOf, operator } from './support/operator.mjs';
import {
  ADMIN_TOKEN,
  adyenKey,
  freshMerchant,
  hmacKey,
  registry,
  secretKey,
  standNowhere,
} from './support/own-keys.mjs';
import { AT_ONCE, AUTHORISATION, PAYMENT, assertProblem, insist, paid } from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const CREDENTIALS_KEY = randomBytes(32).toString('base64');
const OTHER_KEY = randomBytes(32).toString('base64');
const DEPLOYMENTS = 'PaidOnceDemo';
const ADYEN = { provider: 'adyen' };
const workers = (more = {}) =>
  demoWorkers({
    vars: { ...IMPATIENT, ACCOUNTS_CACHE_MS: '0' },
    secrets: { ADMIN_TOKEN, CREDENTIALS_KEY, ...more },
  });

const site = await startSite({ workers: workers() });
after(() => site.close());
afterEach(() => site.simulator.calm());
const { adyenShop, shop } = registry(site);
const { asked, look, press, logOf } = operator(site, ADMIN_TOKEN);

/** In which merchant accounts a payment was charged. */
const chargedIn = async (payment) => {
  const { charges } = await site.simulator.ledger(payment);
  return charges.filter(({ paid: is }) => is).map(({ merchant_account: merchant }) => merchant);
};
const seen = async () => [
  (await site.simulator.ledger()).charges.length,
  (await site.simulator.requests()).length,
];
/** Adyen tells all that it knows of a payment, where that is told. */
async function toldOf(user, id) {
  const { provider_payment: psp } = (await user.payment(id)).json();
  const { notificationItems } = await site.simulator.notifications(psp);
  for (const { NotificationRequestItem: item } of notificationItems)
    assert.equal(await site.simulator.tell(`${item.pspReference}:${item.eventCode}`), 200);
}
/** Adyen tells of the shop's merchant account at the shop's address. */
const listens = ({ merchant, webhook, hmac, auth }) =>
  site.simulator.adyenWebhook({
    merchant_account: merchant,
    path: webhook,
    hmac_key: hmac,
    basic: Buffer.from(auth).toString('base64'),
  });
const send = (own, payment, move, body, key = freshKey()) =>
  own.client.post(`/payments/${payment}/${move}`, body, key);

describe('two shops with a merchant account each', () => {
  test('are charged, captured and refunded there alone, and hear there how it ended', async () => {
    const shops = [await adyenShop(), await adyenShop(), await adyenShop({ own: false, key: null })];
    const expected = [shops[0].merchant, shops[1].merchant, DEPLOYMENTS];
    for (const [at, own] of shops.entries()) {
      if (at < 2) await listens(own);
      const { id } = await paid(own.client, { ...AUTHORISATION, ...ADYEN });
      const captured = await send(own, id, 'capture', { amount: 2000 });
      assert.equal(captured.status, 202, captured.text);
      await toldOf(own.client, id);
      await until(
        'it is captured',
        async () => (await own.client.payment(id)).json().amount_captured === 2000,
      );
      const refund = await send(own, id, 'refunds', { amount: 700 });
      assert.equal(refund.status, 201, refund.text);
      await toldOf(own.client, id);
      await until(
        'it is given back',
        async () => (await own.client.payment(id)).json().amount_refunded === 700,
      );
      assert.deepEqual(await chargedIn(id), [expected[at]]);
      assert.deepEqual(await site.simulator.moved(id), {
        charges: 1,
        captured: 2000,
        refunded: 700,
        voided: 0,
      });
      const given = await paid(own.client, { ...AUTHORISATION, ...ADYEN });
      assert.equal((await send(own, given.id, 'void')).status, 202);
      await toldOf(own.client, given.id);
      await until(
        'it is given up',
        async () => (await own.client.payment(given.id)).json().status === 'canceled',
      );
      const [row] = await until('the read model has it', async () => {
        const rows = await site.rows('SELECT merchant_account FROM payments WHERE payment_id = ?', id);
        return rows.length && rows;
      });
      assert.equal(row.merchant_account, at < 2 ? expected[at] : null);
    }
  });

  test('find a payment again whose answer was lost, under the same key at Adyen', async () => {
    const own = await adyenShop();
    const key = freshKey();
    await site.simulator.fault('response_lost', { path: '/adyen/', count: 1000 });
    const lost = await own.client.pay({ ...PAYMENT, ...ADYEN }, key, AT_ONCE);
    assertProblem(lost, 503, 'outcome-unknown');
    await site.simulator.calm();
    const answer = await insist(() => own.client.pay({ ...PAYMENT, ...ADYEN }, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual((await own.client.pay({ ...PAYMENT, ...ADYEN }, key)).bytes, answer.bytes);
    assert.deepEqual(await chargedIn(answer.payment), [own.merchant]);
  });

  test('take over where Stripe has declined, if there is a key; else the payment is declined', async () => {
    const own = await adyenShop();
    const order = {
      ...PAYMENT,
      payment_method: 'pm_card_visa_chargeDeclined',
      fallback: { provider: 'adyen', payment_method: 'adyen_card_visa' },
    };
    const rerouted = await paid(own.client, order);
    assert.equal(rerouted.provider, 'adyen');
    assert.deepEqual(await chargedIn(rerouted.id), [own.merchant]);
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    const declined = await own.client.pay(order, freshKey());
    assert.equal(declined.status, 402, declined.text);
    assert.deepEqual(await chargedIn(declined.payment), []);
  });
});

describe('what is entered', () => {
  test('is never shown again, and stands nowhere but sealed', async () => {
    const own = await adyenShop();
    const pairs = [
      ['adyen_api_key', own.adyenSecret],
      ['adyen_hmac_key', own.hmac],
      ['adyen_webhook_auth', own.auth],
    ];
    for (const [kind, value] of pairs)
      assert.equal((await own.set(kind, value)).status, 200, 'sent again it changes nothing');
    const { id } = await paid(own.client, { ...PAYMENT, ...ADYEN });
    const shown = await own.shown();
    assert.deepEqual(
      shown.credentials.map(({ kind, mode, merchant_account: of, hint }) => [kind, mode, of, hint]),
      [
        ['adyen_api_key', 'test', own.merchant, '…xxxx'],
        ['adyen_hmac_key', 'test', null, `…${own.hmac.slice(-4)}`],
        ['adyen_webhook_auth', 'test', null, 'hook:…'],
      ],
    );
    const seen = [
      shown,
      await look(`/admin/accounts/${own.id}`),
      await site.objects.calls(id),
      await site.objects.dump(id),
    ];
    await standNowhere(site, pairs, { id, seen });
    const outcomes = (await logOf(`account ${own.id}`)).map(({ action, outcome }) => `${action}: ${outcome}`);
    assert.ok(
      outcomes.some(
        (line) =>
          line.startsWith('set keys: adyen_api_key …xxxx: set: …xxxx') && line.includes(`of ${own.merchant}`),
      ),
      outcomes.join(),
    );
  });

  test('is refused where it cannot be right, and says what to enter', async () => {
    const own = await adyenShop();
    for (const [kind, value, said] of [
      ['adyen_api_key', secretKey('Stripes'), /is a key of Stripe’s/],
      ['adyen_api_key', own.hmac, /is the HMAC key of a webhook/],
      ['adyen_api_key', 'AQE.short', /has 9 characters/],
      ['adyen_hmac_key', own.adyenSecret, /64 hexadecimal digits/],
      ['adyen_webhook_auth', 'without-a-password', /user:password/],
      ['adyen_api_key', `${adyenKey(own.merchant)}.revoked`, /Adyen refuses it \(401\)/],
      [
        'adyen_api_key',
        adyenKey('Other_ECOM'),
        /does not let it into the merchant account S\w+_ECOM \(403\)/,
      ],
      ['adyen_api_key', `no-key-of-its-company-${'x'.repeat(20)}`, /\(403\)/],
    ]) {
      const answer = await own.set(kind, value);
      assertProblem(answer, 422, 'invalid-parameters');
      assert.match(answer.text, said);
      assert.ok(!answer.text.includes(value), 'it is not repeated');
    }
    const double = await adyenShop({ merchant: own.merchant, key: null });
    assert.match(
      (await double.set('adyen_api_key', own.adyenSecret)).text,
      new RegExp(`so is that of the account ${own.id}`),
    );
    // A merchant account for tests has no live one's name, as reports know it by its name.
    const [named, taker] = [await adyenShop({ key: null }), await adyenShop({ key: null })];
    await site.rows(
      `INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, mode, merchant_account, changed_at_ms)
       VALUES ('${named.id}', 'adyen_api_key', '', '', '', 'live', '${taker.merchant}', 1)`,
    );
    assert.match(
      (await taker.set('adyen_api_key', taker.adyenSecret)).text,
      new RegExp(`so is that of the account ${named.id}`),
    );
    await site.rows(
      `DELETE FROM account_credentials WHERE account = '${named.id}' AND kind = 'adyen_api_key'`,
    );
    assert.equal((await taker.set('adyen_api_key', taker.adyenSecret)).status, 200, 'control');
    const deployments = await adyenShop({ merchant: DEPLOYMENTS, key: null });
    assert.match(
      (await deployments.set('adyen_api_key', adyenKey(DEPLOYMENTS))).text,
      /ADYEN_MERCHANT_ACCOUNT/,
    );
    const unnamed = await shop({ own: false, key: null });
    assert.match((await unnamed.set('adyen_api_key', own.adyenSecret)).text, /name its merchant account/);
    assert.equal((await own.set('adyen_hmac_key_before', hmacKey())).status, 404);
    const live = await adyenShop({
      key: null,
      hmac: null,
      auth: null,
      more: { adyen_account: { merchant_account: 'L_1', live_prefix: '17-L' } },
    });
    assert.match((await live.set('adyen_api_key', adyenKey('L_1'))).text, /demo/);

    const taken = await adyenShop({ key: null });
    await site.simulator.fault('error_before', { path: '/adyen/checkout/v71/paymentMethods' });
    const unsure = await taken.set('adyen_api_key', taken.adyenSecret);
    assert.equal(unsure.status, 503, unsure.text);
    assert.match(unsure.text, /Nothing was changed: try it again/);
    await site.simulator.calm();
    assert.equal((await taken.set('adyen_api_key', taken.adyenSecret)).status, 200, 'control');
  });

  test('as settings must name a merchant account and no address', async () => {
    const own = await adyenShop();
    for (const adyen_account of [
      { merchant_account: 'a/b' },
      { merchant_account: 'Shop', live_prefix: 'https://evil.example/' },
      undefined,
    ])
      assertProblem(await own.use(false, { own_adyen_keys: true, adyen_account }), 422, 'invalid-parameters');
  });
});

describe('what was begun', () => {
  test('in the deployment’s merchant account ends there, whatever the shop gets', async () => {
    const own = await adyenShop({ own: false });
    const { id } = await paid(own.client, { ...AUTHORISATION, ...ADYEN });
    assert.equal((await own.move(own.merchant, true)).status, 200);
    assert.equal((await send(own, id, 'capture')).status, 202);
    assert.deepEqual(await chargedIn(id), [DEPLOYMENTS]);
    const next = await paid(own.client, { ...PAYMENT, ...ADYEN });
    assert.deepEqual(await chargedIn(next.id), [own.merchant]);
    assert.equal((await own.move(own.merchant, false)).status, 200);
    assert.equal(
      (await send(own, next.id, 'refunds', { amount: 100 })).status,
      201,
      'with its own key still',
    );
    assert.deepEqual(await chargedIn((await paid(own.client, { ...PAYMENT, ...ADYEN })).id), [DEPLOYMENTS]);
  });

  test('goes on with the next key of the same merchant account, and charges once', async () => {
    const own = await adyenShop();
    const key = freshKey();
    await site.simulator.fault('response_lost', { path: '/adyen/', count: 1000 });
    const lost = await own.client.pay({ ...PAYMENT, ...ADYEN }, key, AT_ONCE);
    assertProblem(lost, 503, 'outcome-unknown');
    await site.simulator.calm();
    assert.equal((await own.set('adyen_api_key', adyenKey(own.merchant, 2))).status, 200);
    const answer = await insist(() => own.client.pay({ ...PAYMENT, ...ADYEN }, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await chargedIn(answer.payment), [own.merchant]);
    const sends = (await site.simulator.requests()).filter(
      ({ provider, path }) => provider === 'adyen' && path.endsWith('/payments'),
    );
    assert.ok(sends.length >= 2, 'control: it was sent again');
  });

  test('waits where the shop has moved to another merchant account, and ends with a key of the first', async () => {
    const own = await adyenShop();
    const { id } = await paid(own.client, { ...AUTHORISATION, ...ADYEN });
    const key = freshKey();
    // Its alarm tries it as well: it hears nothing as long as its key is there.
    await site.simulator.fault('response_lost', { path: '/adyen/checkout/v71/payments', count: 1000 });
    const lost = await own.client.pay({ ...PAYMENT, ...ADYEN }, key, AT_ONCE);
    assertProblem(lost, 503, 'outcome-unknown');
    const moved = freshMerchant();
    assert.equal((await own.move(moved)).status, 200);
    // The key is of the first one: nothing is charged in the other with it, and what it is of goes on.
    const between = await own.client.pay({ ...PAYMENT, ...ADYEN }, freshKey());
    assertProblem(between, 503, 'temporarily-unavailable');
    assert.match((await look(`/admin/accounts/${own.id}`)).text, /Its API key is of the merchant account/);
    assert.match(
      (await own.set('adyen_api_key', adyenKey(moved))).text,
      new RegExp(`replace is of ${own.merchant}`),
    );
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    assert.equal((await own.set('adyen_api_key', adyenKey(moved))).status, 200);
    await site.simulator.calm();
    const requests = (await site.simulator.requests()).length;
    // While its alarm tries it, it is only said to be under way.
    const again = await until('nobody tries it', async () => {
      const answer = await own.client.pay({ ...PAYMENT, ...ADYEN }, key, AT_ONCE);
      return answer.status !== 409 && answer;
    });
    assertProblem(again, 503, 'outcome-unknown');
    assertProblem(await send(own, id, 'capture'), 503, 'temporarily-unavailable');
    assert.equal((await site.simulator.requests()).length, requests, 'nothing was sent with the other key');
    assert.deepEqual(await chargedIn((await paid(own.client, { ...PAYMENT, ...ADYEN })).id), [moved]);
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    assert.equal((await own.move(own.merchant)).status, 200);
    assert.equal((await own.set('adyen_api_key', own.adyenSecret)).status, 200);
    const answer = await insist(() => own.client.pay({ ...PAYMENT, ...ADYEN }, key, AT_ONCE));
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await chargedIn(answer.payment), [own.merchant]);
    assert.equal((await send(own, id, 'capture')).status, 202);
  });
});

describe('a key that cannot be used', () => {
  /** A new payment and a refund are refused, and nothing is sent anywhere. */
  async function isRefused(own, payment) {
    const before = await seen();
    for (const answer of [
      await own.client.pay({ ...PAYMENT, ...ADYEN }, freshKey()),
      await send(own, payment, 'refunds', { amount: 100 }),
    ]) {
      assertProblem(answer, 503, 'temporarily-unavailable');
      assert.match(answer.text, /keys of its own at the provider/);
    }
    assert.deepEqual(await seen(), before);
  }
  const refunded = async (own, payment) => {
    const answer = await send(own, payment, 'refunds', { amount: 100 });
    assert.equal(answer.status, 201, answer.text);
  };

  test('since it was removed charges nothing, also not with the deployment’s', async () => {
    const own = await adyenShop();
    const key = freshKey();
    const first = await own.client.pay({ ...PAYMENT, ...ADYEN }, key);
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    await isRefused(own, first.payment);
    const again = await own.client.pay({ ...PAYMENT, ...ADYEN }, key);
    assert.equal(again.header('idempotent-replayed'), 'true', 'what was done is still told');
    assert.match((await look(`/admin/accounts/${own.id}`)).text, /none is set: its payments are refused/);
    // At Stripe it has none of its own, and pays with the deployment's.
    assert.equal((await own.client.pay(PAYMENT, freshKey())).status, 201);
    await own.set('adyen_api_key', own.adyenSecret);
    await refunded(own, first.payment);
  });

  test('of another row, or moved to another merchant account in the row, is not taken', async () => {
    const [own, thief] = [await adyenShop(), await adyenShop()];
    const { id } = await paid(thief.client, { ...PAYMENT, ...ADYEN });
    const rowOf = async ({ id: account }) =>
      (
        await site.rows(
          "SELECT sealed, merchant_account FROM account_credentials WHERE account = ? AND kind = 'adyen_api_key'",
          account,
        )
      )[0];
    const put = ({ sealed, merchant_account: merchant }) =>
      site.rows(
        "UPDATE account_credentials SET sealed = ?, merchant_account = ? WHERE account = ? AND kind = 'adyen_api_key'",
        sealed,
        merchant,
        thief.id,
      );
    const [kept, others] = [await rowOf(thief), await rowOf(own)];
    await put({ ...kept, sealed: others.sealed });
    await isRefused(thief, id);
    await put({ ...kept, merchant_account: 'Elsewhere_ECOM' });
    await isRefused(thief, id);
    await put(kept);
    await refunded(thief, id);
  });

  test('under another CREDENTIALS_KEY charges nothing; sealed anew it outlives the old one', async () => {
    const own = await adyenShop();
    const { id } = await paid(own.client, { ...PAYMENT, ...ADYEN });
    await site.deploy(workers({ CREDENTIALS_KEY: OTHER_KEY }));
    await isRefused(own, id);
    await site.deploy(workers({ CREDENTIALS_KEY: `${OTHER_KEY} ${CREDENTIALS_KEY}` }));
    await refunded(own, id);
    const [{ number }] = await site.rows('SELECT count(*) AS number FROM account_credentials');
    const before = site.logs().length;
    assert.equal((await site.desk().scheduled({ cron: '*/5 * * * *' })).outcome, 'ok');
    const { message } = await until('it is said', () =>
      site
        .logs()
        .slice(before)
        .find(({ message: line }) => line.includes('"event":"resealed"')),
    );
    assert.deepEqual(JSON.parse(JSON.parse(message).result), { left: 0, resealed: number, unopened: 0 });
    await site.deploy(workers({ CREDENTIALS_KEY: OTHER_KEY }));
    await refunded(own, id);
    await site.deploy(workers({ CREDENTIALS_KEY: `${OTHER_KEY} ${CREDENTIALS_KEY}` }));
  });
});

describe('at the desk', () => {
  test('a merchant account is named, and its keys are set and removed by a form', async () => {
    const own = await adyenShop({ own: false, key: null, hmac: null, auth: null });
    const plain = await shop({ own: false, key: null });
    assert.ok(!(await look(`/admin/accounts/${plain.id}`)).text.includes('Own keys at Adyen'));
    const edit = formOf(await look(`/admin/accounts/${own.id}/edit`), '/edit');
    const settings = {
      payment_method: 'pm_card_visa',
      adyen_payment_method: 'adyen_card_visa',
      adyen_customer: 'ada',
    };
    const unnamed = await press(edit.path, { ...edit.entries, ...settings, own_adyen_keys: 'on' });
    assert.equal(unnamed.status, 422, 'no merchant account is named');
    const named = { ...settings, adyen_merchant_account: own.merchant, own_adyen_keys: 'on' };
    const on = await press(edit.path, { ...edit.entries, ...named });
    assert.equal(on.status, 303, on.text);
    const page = await look(`/admin/accounts/${own.id}`);
    assert.match(page.text, /charged with its own API key, and none is set/);
    assert.ok(page.text.includes(own.webhook));
    const form = formOf(
      { ...page, text: page.text.slice(page.text.indexOf('Own keys at Adyen')) },
      '/credentials',
    );
    assert.equal(form.entries.provider, 'adyen');
    const wrong = await press(form.path, { ...form.entries, adyen_api_key: secretKey('Stripes') });
    assert.equal(wrong.status, 422);
    assert.match(wrong.text, /The API key is a key of Stripe/);
    const values = {
      adyen_api_key: ` ${own.adyenSecret} `,
      adyen_hmac_key: hmacKey(),
      adyen_webhook_auth: 'hook:0123456789',
    };
    const answers = await Promise.all([1, 2].map(() => press(form.path, { ...form.entries, ...values })));
    for (const answer of answers) assert.equal(answer.status, 303, answer.text);
    const shown = await look(answers[0].header('location'));
    assert.ok(shown.text.includes('…xxxx') && shown.text.includes('hook:…'), shown.text);
    for (const value of Object.values(values)) assert.ok(!shown.text.includes(value.trim()));
    assert.equal(
      (await logOf(`account ${own.id}`)).filter(({ action }) => action.startsWith('set keys')).length,
      1,
    );
    assert.deepEqual(await chargedIn((await paid(own.client, { ...PAYMENT, ...ADYEN })).id), [own.merchant]);
    assert.match(shown.text, /class="notice info" role="status"/, 'they are set');
    const next = formOf(
      { ...shown, text: shown.text.slice(shown.text.indexOf('Own keys at Adyen')) },
      '/credentials',
    );
    const refused = await press(next.path, { ...next.entries, adyen_api_key: adyenKey('Others_ECOM') });
    const told = (await look(refused.header('location'))).text;
    assert.match(told, /class="notice warning" role="status"/, 'a key that is not set is no success');
    assert.match(told, /Adyen_api_key refused: /);
    const remove = await asked(shown, '/credentials/adyen_api_key/remove');
    assert.equal((await press(remove.path, remove.entries)).status, 303);
    assert.deepEqual(
      (await own.shown()).credentials.map(({ kind }) => kind),
      ['adyen_hmac_key', 'adyen_webhook_auth'],
    );
  });
});
