// The registry of API accounts at the desk: an account is made, gets a token, and the token pays.
// `SCREENSHOTS=1 node tests/browser/accounts.test.mjs` leaves pictures.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';

import { demoWorkers, startSite } from '../worker/support/harness.mjs';
import {
  adyenKey,
  freshMerchant,
  hmacKey,
  publishableKey,
  secretKey,
  webhookSecret,
} from '../worker/support/own-keys.mjs';
import { client, paid } from '../worker/support/payments.mjs';
import { browsers } from './support/browsers.mjs';
import { look } from './support/look.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';

const site = await startSite({ workers: demoWorkers({ secrets: { ADMIN_TOKEN } }) });
const people = browsers();
after(async () => {
  await people.close();
  await site.close();
});

for (const javaScriptEnabled of [true, false])
  test(`an account is made and its token pays, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async (t) => {
    const context = await people.visit({ baseURL: site.url.origin, javaScriptEnabled });
    t.after(() => context.close());
    const page = await context.newPage();
    await page.setExtraHTTPHeaders({ authorization: `Bearer ${ADMIN_TOKEN}` });
    // Axe is a script.
    const seen = async (name) => javaScriptEnabled && (await look(page, name));
    const id = `shop-${randomUUID().slice(0, 8)}`;

    await page.goto('/admin');
    await page.getByRole('navigation', { name: 'Desk' }).getByRole('link', { name: 'Accounts' }).click();
    await seen('desk accounts');
    await page.getByRole('button', { name: 'New account' }).click();
    await page.getByLabel('Id').first().fill(id);
    await page.getByLabel(/^Payment method/).fill('pm_card_visa');
    await page.getByLabel('Currencies').fill('usd 10');
    await page.getByLabel('Logo').fill('https://shop.example/logo.png');
    await seen('desk account form');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Enter the shop’s name').waitFor();
    assert.equal(await page.getByLabel('Currencies').inputValue(), 'usd 10', 'nothing is lost');
    await seen('desk account refused');
    await page.getByLabel(/^Name/).fill('Ada’s shop');
    await page.getByLabel('Currencies').fill('usd 5000.00, eur');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Made: it has no token yet').first().waitFor();

    await page.getByLabel('Where it is used').fill('Shop’s server');
    await page.getByRole('button', { name: 'Make a token' }).dblclick();
    const token = await page.locator('code.token').innerText();
    await seen('desk account token');
    assert.equal((await paid(client(site, token))).status, 'succeeded');
    const rows = await site.rows('SELECT count(*) AS number FROM account_tokens WHERE account = ?', id);
    assert.equal(rows[0].number, 1, 'a double click makes one token');

    await page.goto(`/admin/accounts/${id}`);
    assert.equal(await page.locator('code.token').count(), 0, 'it is shown once');
    await page.getByRole('button', { name: 'End in 24 hours' }).click();
    await page.getByText('It ends in 24 hours').first().waitFor();
    await page.getByRole('button', { name: 'Revoke now' }).click();
    await page.getByText('It cannot be taken back.').waitFor();
    await seen('desk token, to be revoked');
    await page.getByRole('button', { name: 'Revoke now' }).click();
    await page.getByText('refused everywhere within a minute').first().waitFor();
    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('Support').fill('help@shop.example');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('help@shop.example').first().waitFor();

    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('It has keys of its own at Stripe').check();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('none is set: its payments are refused').waitFor();
    await page.getByText('Set keys', { exact: true }).click();
    await page.getByLabel('Secret key').fill(publishableKey());
    await page.getByRole('button', { name: 'Set the keys' }).click();
    await page.getByText('is a publishable key').waitFor();
    await seen('desk account keys refused');
    await page.getByLabel('Secret key').fill(secretKey(`Shop${id.slice(5)}`));
    await page.getByLabel('Publishable key').fill(publishableKey());
    await page.getByLabel('Webhook secret').fill(webhookSecret());
    await page.getByRole('button', { name: 'Set the keys' }).dblclick();
    await page.getByText('sk_test_…0000').first().waitFor();
    assert.equal(await page.getByText('none is set').count(), 0);
    await seen('desk account');

    const merchant = freshMerchant();
    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('It has a key of its own at Adyen').check();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('name its merchant account').waitFor();
    await page.getByLabel('Own merchant account').fill(merchant);
    await page.getByLabel('Stored payment method').fill('adyen_card_visa');
    await page.getByLabel('Shopper').fill('ada');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('charged with its own API key, and none is set').waitFor();
    const adyen = page.getByRole('region', { name: 'Own keys at Adyen' });
    await adyen.getByText('Set keys', { exact: true }).click();
    await adyen.getByLabel('API key').fill(secretKey('Stripes'));
    await adyen.getByRole('button', { name: 'Set the keys' }).click();
    await adyen.getByText('The API key is a key of Stripe’s').waitFor();
    await seen('desk account adyen keys refused');
    await adyen.getByLabel('API key').fill(adyenKey(merchant));
    await adyen.getByLabel('HMAC key').fill(hmacKey());
    await adyen.getByLabel('Webhook user and password').fill('hook:0123456789');
    await adyen.getByLabel('Report key').fill(`${adyenKey(merchant, 7)}yyyy`);
    await adyen.getByRole('button', { name: 'Set the keys' }).dblclick();
    await adyen.getByText('…xxxx').waitFor();
    await adyen.getByText('…yyyy').waitFor();
    assert.equal(await page.getByText('none is set').count(), 0);
    await seen('desk account adyen keys');
    const set =
      'SELECT merchant_account AS of FROM account_credentials WHERE account = ? AND merchant_account IS NOT NULL';
    assert.deepEqual(
      (await site.rows(set, id)).map(({ of }) => of),
      [merchant],
    );
  });

test('settings that are entered while the session ends are saved after the next login, and no button is', async (t) => {
  const context = await people.visit({ baseURL: site.url.origin });
  t.after(() => context.close());
  const page = await context.newPage();
  const logIn = async (page) => {
    await page.getByLabel('Secret').fill(ADMIN_TOKEN);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
  };
  /** The session ends, the form is sent, and after a login in another tab sent once more. */
  const sendAfterTheSession = async (name) => {
    await site.rows('DELETE FROM operator_sessions');
    await page.getByRole('button', { name }).click();
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor();
    await look(page, 'desk session ended');
    const [tab] = await Promise.all([
      context.waitForEvent('page'),
      page.getByRole('link', { name: 'log in in another tab' }).click(),
    ]);
    await logIn(tab);
    await tab.close();
    await page.reload();
  };
  await page.goto('/admin/login');
  await logIn(page);
  const id = `shop-${randomUUID().slice(0, 8)}`;
  await page.goto('/admin/accounts/new');
  await page.getByLabel('Id').first().fill(id);
  await page.getByLabel(/^Payment method/).fill('pm_card_visa');
  await sendAfterTheSession('Save');
  await page.getByText('This form was opened before you logged in').waitFor();
  assert.deepEqual(await site.rows('SELECT * FROM accounts WHERE id = ?', id), [], 'not yet');
  assert.equal(await page.getByLabel('Id').first().inputValue(), id);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Made: it has no token yet').first().waitFor();

  await page.getByLabel('Where it is used').fill('Shop’s server');
  await sendAfterTheSession('Make a token');
  await page.getByText('This was not made for you').waitFor();
  assert.deepEqual(await site.rows('SELECT * FROM account_tokens WHERE account = ?', id), []);
});
