// The card that paid, by brand and last four digits: in the payment once the provider has said so, at the desk, and in no log.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { ADYEN_KEY } from './support/adyen.mjs';
import { startSite } from './support/harness.mjs';
import { objectId } from './support/objects.mjs';
import { operator } from './support/operator.mjs';
import { AUTHORISATION, DECLINED_CARD, PAYMENT, client, insist, moved, paid } from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await startSite({ vars: { ...IMPATIENT, ADYEN_HMAC_KEY: ADYEN_KEY }, secrets: { ADMIN_TOKEN } });
const user = client(site);
const { look } = operator(site, ADMIN_TOKEN);
after(() => site.close());

const AMEX = { brand: 'amex', last4: '0005' };
const ofAmex = { payment_method: 'pm_card_amex' };
const adyen = (payment_method) => ({ provider: 'adyen', payment_method });
const shown = async (id) => (await user.payment(id)).json().payment_method_details;

test('stands in the payment that Stripe has charged or reserved, and in its replay', async () => {
  const key = freshKey();
  const first = await user.pay({ ...PAYMENT, ...ofAmex }, key);
  assert.deepEqual(first.json().payment_method_details, AMEX);
  assert.equal((await user.pay({ ...PAYMENT, ...ofAmex }, key)).text, first.text);
  const reserved = await paid(user, { ...AUTHORISATION, ...ofAmex });
  assert.deepEqual(reserved.payment_method_details, AMEX);
  await moved(user, reserved.id, 'capture');
  assert.deepEqual(await shown(reserved.id), AMEX);
});

test('is none of a payment that was declined', async () => {
  const declined = await user.pay({ ...PAYMENT, payment_method: DECLINED_CARD }, freshKey());
  assert.deepEqual([declined.status, declined.json().payment.payment_method_details], [402, null]);
});

test('is known once Stripe is asked, where its answer was lost', async () => {
  await site.simulator.fault('response_lost');
  const key = freshKey();
  const made = (await insist(() => user.pay({ ...PAYMENT, ...ofAmex }, key))).json();
  assert.deepEqual([made.status, made.payment_method_details], ['succeeded', AMEX]);
});

test('is said by Adyen in its answer, and by its webhook', async () => {
  const at = await paid(user, { ...PAYMENT, ...adyen('adyen_card_mastercard') });
  assert.deepEqual(at.payment_method_details, { brand: 'mastercard', last4: '4444' });
  await site.simulator.webhooks('on');
  const late = await paid(user, { ...PAYMENT, ...adyen('adyen_card_pending') });
  assert.deepEqual([late.status, late.payment_method_details], ['processing', null]);
  await site.simulator.advance(60_001);
  await site.simulator.flush();
  await until('it is paid', async () => (await user.payment(late.id)).json().status === 'succeeded');
  assert.deepEqual(await shown(late.id), { brand: 'visa', last4: '1111' });
  await site.simulator.webhooks('off');
});

test('stands at the desk, and in no line of a log and no audit record', async () => {
  const { id } = await paid(user, { ...PAYMENT, ...ofAmex });
  assert.match((await look(`/admin/payments/${id}`)).text, /American Express ···· 0005/);
  const audited = await until('the audit is in the read model', async () => {
    const rows = await site.rows('SELECT * FROM audit_trail WHERE object = ?', objectId(id));
    return rows.length > 0 && rows;
  });
  for (const told of [site.logs(), audited]) assert.doesNotMatch(JSON.stringify(told), /last4|····|"brand"/);
});

test('goes with an erasure from what Adyen has told and nobody has taken in', async () => {
  const { id } = await paid(user, { ...PAYMENT, ...adyen('adyen_card_visa') });
  const told = (state) => [
    `INSERT INTO inbox (event_key, provider, kind, object, event, event_id, told_at_ms, state, attempts, history,
       next_at_ms, received_at_ms, updated_at_ms)
     VALUES (?, 'adyen', 'AUTHORISATION', ?, ?, 'e', 1, ?, 1, '[]', ?, 1, 1)`,
    `adyen:${state}`,
    objectId(id),
    JSON.stringify({
      event_id: 'e',
      news: { news: 'authorisation', card: { brand: 'visa', last4: '1111' } },
    }),
    state,
    Date.now() + 3_600_000,
  ];
  for (const state of ['waiting', 'dead']) await site.rows(...told(state));
  const events = async () =>
    (await site.rows("SELECT event FROM inbox WHERE event_key IN ('adyen:waiting', 'adyen:dead')")).map(
      (row) => JSON.parse(row.event),
    );
  assert.ok(
    (await events()).every(({ news }) => news.card),
    'control',
  );
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const erased = await site.fetch(`/admin/payments/${id}/erase`, { method: 'POST', headers });
  assert.equal(erased.status, 200);
  assert.deepEqual(await events(), Array(2).fill({ event_id: 'e', news: { news: 'authorisation' } }));
  assert.equal(await shown(id), null);
});
