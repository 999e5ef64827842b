// Nothing secret is kept or logged: not the key, not the session, not a token, not the provider's secret.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { SIGNING_KEY, startSite } from './support/harness.mjs';
import { PAYMENT } from './support/payments.mjs';

const TOKEN = 'a-bearer-token-that-nobody-may-see';
const STRIPE_SECRET_KEY = 'sk_test_that_nobody_may_see';
const API_ACCOUNTS = JSON.stringify({
  acme: {
    token_sha256: createHash('sha256').update(TOKEN).digest('hex'),
    payment_method: 'pm_card_visa',
  },
});
const site = await startSite({ secrets: { API_ACCOUNTS, STRIPE_SECRET_KEY } });
const acme = account(site, TOKEN);
after(() => site.close());

/** All rows of an object as text. */
async function everything(payment) {
  const tables = await site.objects.dump(payment);
  const rows = JSON.stringify(tables);
  assert.ok(
    tables.idempotency_keys.length === 1 && tables.timeline.length > 0,
    'there is something to look at',
  );
  return rows;
}

function assertNowhere(secrets, text) {
  for (const [what, secret] of Object.entries(secrets)) {
    assert.ok(secret.length > 5, what);
    assert.ok(!text.includes(secret), `${what} is in ${text.slice(0, 2000)}`);
  }
}

const logged = () => JSON.stringify(site.logs());
const settings = { TOKEN, STRIPE_SECRET_KEY, SIGNING_KEY };

describe('neither rows nor logs hold', () => {
  test('the key and the token of an API client', async () => {
    const keys = { finished: freshKey(), failed: freshKey(), crashed: freshKey(), mismatched: freshKey() };
    const { payment } = await acme.pay(PAYMENT, keys.finished);
    const { payment: failed } = await acme.pay({ ...PAYMENT, raise_error: 'true' }, keys.failed);
    await acme.pay({ ...PAYMENT, raise_error: 'crash' }, keys.crashed);
    const { payment: mismatched } = await acme.pay(PAYMENT, keys.mismatched);
    await acme.pay({ ...PAYMENT, amount: 2501 }, keys.mismatched);
    await acme.key(keys.finished);
    const { resource } = (await acme.key(keys.crashed)).json();
    assert.match(await everything(payment), /"body":\{"text":"\{/, 'its response is looked at, too');
    for (const one of [payment, failed, mismatched, resource])
      assertNowhere({ ...keys, ...settings }, await everything(one));
    assertNowhere({ ...keys, ...settings }, logged());
  });

  test("the key of a browser's form, and the link of its order", async () => {
    const visitor = browser(site);
    const { path, form } = await visitor.openOrder();
    const secrets = { key: form.idempotency_key, link: path.split('/').at(-1), ...settings };
    await visitor.send(path, form);
    const { payment } = await visitor.visit(path);
    await visitor.send(path, { ...form, payment_method: 'pm_card_mastercard' });
    // The object knows its order's page: that is where its form is answered with.
    assertNowhere({ ...secrets, link: 'no link' }, await everything(payment));
    assertNowhere(secrets, logged());
  });

  test('the credentials that were refused', async () => {
    const secrets = { token: 'a-wrong-token-with-a-typing-error', key: freshKey() };
    assert.equal((await account(site, secrets.token).pay(PAYMENT, secrets.key)).status, 401);
    assertNowhere(secrets, logged());
  });
});

describe('answers show', () => {
  test('neither the settings nor the credentials', async () => {
    const key = freshKey();
    const booked = await acme.pay(PAYMENT, key);
    const visitor = browser(site);
    const answers = [
      booked,
      await acme.key(key),
      await acme.payment(booked.payment),
      await acme.pay({ ...PAYMENT, amount: 2501 }, key),
      await visitor.visit('/'),
      await visitor.visit((await visitor.openOrder()).path),
    ];
    for (const { text } of answers) assertNowhere({ key, ...settings }, text);
  });
});

describe('the log', () => {
  test('has one line of JSON for each request, which can be found by its id', async () => {
    const booked = await acme.pay(PAYMENT, freshKey());
    const again = await acme.ask('/nowhere?secret=1');
    const lines = site
      .logs()
      .map(({ message }) => message)
      .filter((message) => message.startsWith('{'))
      .map((message) => JSON.parse(message));
    const line = (answer) => lines.filter((one) => one.request_id === answer.header('request-id'));
    const [of, ...more] = line(booked);
    assert.deepEqual(more, []);
    const expected = {
      level: 'info',
      event: 'request',
      method: 'POST',
      route: '/payments',
      status: 201,
      outcome: 'created',
    };
    for (const [name, value] of Object.entries(expected)) assert.equal(of[name], value, name);
    assert.ok(of.ms >= 0);
    assert.equal(line(again)[0].route, 'none', 'no address that nobody chose');
    assertNowhere({ query: 'secret=1', path: 'nowhere' }, logged());
  });
});
