// An account that was closed: nothing new is charged for it, and whoever has paid, or is paying at the bank, sees what became of it.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, describe, test } from 'node:test';

import { freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { operator } from './support/operator.mjs';
import { client } from './support/payments.mjs';
import { AT_THE_BANK, BANK, FORM, GOOD, RECEIPT, heading, order, paymentOf } from './support/shopper.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const SHOP = { name: 'Ada’s mugs', support: 'help@shop.example' };
const site = await startSite({
  workers: demoWorkers({ vars: { ACCOUNTS_CACHE_MS: '0' }, secrets: { ADMIN_TOKEN } }),
});
after(() => site.close());
const { bearer } = operator(site, ADMIN_TOKEN);

const put = async (path, body) => {
  const answer = await read(
    await site.fetch(`/admin/api/accounts/${path}`, {
      method: 'PUT',
      headers: { ...bearer, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  );
  assert.equal(answer.status, 200, answer.text);
};

/** Whoever has opened the form of an order of a new shop. */
async function visitor() {
  const [id, token] = [`shop-${freshKey()}`, randomBytes(32).toString('base64url')];
  const settings = { payment_method: GOOD, shop: SHOP };
  await put(id, { settings });
  await put(`${id}/tokens/${createHash('sha256').update(token).digest('hex')}`, { name: 'server' });
  const made = await client(site, token).post('/checkout/sessions', order(), freshKey());
  assert.equal(made.status, 201, made.text);
  const [path, shopper] = [new URL(made.json().url).pathname, browser(site)];
  const form = await shopper.visit(path);
  assert.equal(heading(form), FORM, form.text);
  const sent = { ...form.entries, email: 'grace@example.com' };
  const pay = (payment_method) => shopper.send(path, { ...sent, payment_method });
  return {
    ...{ path, shopper, pay },
    close: () => put(id, { settings, state: 'closed' }),
    lower: () => put(id, { settings: { ...settings, currencies: { usd: { amount_max: 100 } } } }),
  };
}

/** Whoever has pressed the button that was on the page of the bank is where they were. */
async function givesUpNothing({ path, shopper }, { entries }) {
  const shown = await shopper.visit(path);
  assert.deepEqual([shown.status, heading(shown)], [200, AT_THE_BANK], shown.text);
  assert.doesNotMatch(shown.text, /another_card/, 'another card could not pay');
  const { idempotency_key } = entries;
  assert.ok(idempotency_key, 'it was there');
  const page = await shopper.follow(await shopper.send(path, { idempotency_key, another_card: '1' }));
  assert.deepEqual([page.status, heading(page)], [200, AT_THE_BANK], page.text);
}

describe('once the account is closed', () => {
  test('what was paid is shown, and its receipt says who has sold it', async () => {
    const { path, shopper, pay, close } = await visitor();
    const receipt = await shopper.follow(await pay(GOOD));
    assert.equal(heading(receipt), RECEIPT, receipt.text);
    await close();
    const page = await shopper.visit(path);
    assert.deepEqual([page.status, heading(page)], [200, RECEIPT], page.text);
    assert.ok(page.text.includes(SHOP.name), page.text);
    const again = await shopper.follow(await pay(GOOD));
    assert.equal(heading(again), RECEIPT, again.text);
  });

  test('what waits at the bank goes on there, and ends with its receipt', async () => {
    const visit = await visitor();
    const { shopper, pay, close } = visit;
    const waiting = await shopper.follow(await pay(BANK));
    assert.equal(heading(waiting), AT_THE_BANK, waiting.text);
    const bank = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(waiting.text)[1];
    await close();
    await givesUpNothing(visit, waiting);
    const decided = await shopper.send(`${bank}/accept`, {});
    const page = await shopper.follow(await shopper.visit(new URL(decided.header('location'))));
    assert.deepEqual([page.status, heading(page)], [200, RECEIPT], page.text);
    const payment = paymentOf(page);
    assert.equal(await site.simulator.charges(payment), 1);
    assert.deepEqual(await receiptsOf(site, payment), [`${payment}_receipt`]);
    const [email] = await site.simulator.emails(payment);
    assert.ok(email.text.includes(SHOP.name), email.text);
  });

  test('nothing new is paid, also not with a form that was open', async () => {
    const { path, shopper, pay, close } = await visitor();
    await close();
    const refused = await shopper.follow(await pay(GOOD));
    assert.equal(refused.status, 404, refused.text);
    const page = await shopper.visit(path);
    assert.deepEqual([page.status, page.entries], [404, undefined], page.text);
    assert.match(page.text, /does not take payments here any more/);
  });
});

test('what waits at the bank goes on there, too, when the account may not charge as much any more', async () => {
  const visit = await visitor();
  const waiting = await visit.shopper.follow(await visit.pay(BANK));
  await visit.lower();
  await givesUpNothing(visit, waiting);
});
