// What Adyen tells of merchant accounts that shops have of their own, at an address each.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { ADYEN_KEY, notify, notifyAt, signed } from './support/adyen.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { worked } from './support/inbox.mjs';
import { ADMIN_TOKEN, freshMerchant, hmacKey, registry } from './support/own-keys.mjs';
import { AUTHORISATION, assertProblem, paid } from './support/payments.mjs';

const ADYEN = { provider: 'adyen' };
const DEPLOYMENTS = 'PaidOnceDemo';
const site = await startSite({
  workers: demoWorkers({ vars: { ACCOUNTS_CACHE_MS: '0' }, secrets: { ADMIN_TOKEN } }),
});
after(() => site.close());
const { adyenShop } = registry(site);

/** A capture of a payment that Adyen has received, and what Adyen tells of its end. */
async function captured(own) {
  const { id, provider_payment: psp } = await paid(own.client, { ...AUTHORISATION, ...ADYEN });
  const answer = await own.client.post(`/payments/${id}/capture`, {}, `capture-${id}`);
  assert.equal(answer.status, 202, answer.text);
  const { notificationItems } = await site.simulator.notifications(psp);
  const items = notificationItems.map(({ NotificationRequestItem: item }) => item);
  return { id, item: items.find(({ eventCode }) => eventCode === 'CAPTURE') };
}
async function tell(path, auth, ...items) {
  const answer = await notifyAt(site, path, auth, ...items);
  await worked(site);
  return answer;
}
const tells = (own, item, key = own.hmac) => tell(own.webhook, own.auth, signed(item, key));
const isCaptured = async (own, { id }) => (await own.client.payment(id)).json().amount_captured > 0;
/** How many events a payment's object has taken in. */
const taken = async ({ id }) =>
  (await site.objects.dump(id)).timeline.filter(({ event }) => event === 'webhook').length;
const outcomesOf = async ({ pspReference }) =>
  (await site.rows('SELECT outcome FROM inbox WHERE event_key LIKE ?', `%:${pspReference}:%`)).map(
    ({ outcome }) => outcome,
  );

describe('what Adyen tells of an account with keys of its own', () => {
  test('is believed at its own address, with its own key, and by its content alone', async () => {
    const own = await adyenShop();
    const payment = await captured(own);
    assert.equal(await isCaptured(own, payment), false);
    // Nothing is asked, so no API key is needed.
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    const answer = await tells(own, payment.item);
    assert.deepEqual([answer.status, answer.text], [200, '[accepted]']);
    assert.equal(await isCaptured(own, payment), true);
  });

  test('attack: a shop’s own key tells nothing of another’s payment, and holds nothing of it up', async () => {
    const [own, thief] = [await adyenShop(), await adyenShop()];
    const payment = await captured(own);
    const before = await taken(payment);
    // Acknowledged, since the thief has signed it; also as if it were of his own merchant account.
    for (const merchantAccountCode of [
      own.merchant,
      thief.merchant,
      DEPLOYMENTS,
      `${own.id}/${own.merchant}`,
    ]) {
      const item = { ...payment.item, merchantAccountCode, eventDate: '2030-01-01T00:00:00+00:00' };
      assert.equal((await tells(thief, item)).status, 200);
      const unnamed = { ...item, merchantReference: 'of-a-person' };
      assert.equal((await tells(thief, unnamed)).status, 200);
    }
    assert.equal((await tell(own.webhook, thief.auth, signed(payment.item, own.hmac))).status, 401);
    assertProblem(await tells(own, payment.item, thief.hmac), 400, 'webhook-signature');
    assert.deepEqual([await taken(payment), await isCaptured(own, payment)], [before, false]);
    assert.ok((await outcomesOf(payment.item)).includes('of another account'));
    assert.equal((await tells(own, payment.item)).status, 200);
    assert.deepEqual([await taken(payment), await isCaptured(own, payment)], [before + 1, true], 'control');
  });

  test('attack: the deployment’s and a shop’s own address tell nothing of each other’s payments', async () => {
    const own = await adyenShop();
    const payment = await captured(own);
    const before = await taken(payment);
    for (const merchantAccountCode of [own.merchant, DEPLOYMENTS]) {
      const item = signed({ ...payment.item, merchantAccountCode }, ADYEN_KEY);
      assert.equal((await notify(site, item)).status, 200);
      await worked(site);
    }
    assert.deepEqual([await taken(payment), await isCaptured(own, payment)], [before, false]);
    assertProblem(await tells(own, payment.item, ADYEN_KEY), 400, 'webhook-signature');

    const others = await adyenShop({ own: false });
    const plain = await captured(others);
    assert.equal(plain.item.merchantAccountCode, DEPLOYMENTS);
    for (const merchantAccountCode of [others.merchant, DEPLOYMENTS])
      assert.equal((await tells(others, { ...plain.item, merchantAccountCode })).status, 200);
    assert.equal(await isCaptured(others, plain), false);
    assert.equal((await notify(site, signed(plain.item))).status, 200);
    await worked(site);
    assert.equal(await isCaptured(others, plain), true, 'control');
    assert.equal((await tells(own, payment.item)).status, 200);
    assert.equal(await isCaptured(own, payment), true, 'control');
  });

  test('of an order that was tried in both is of the try alone that it names', async () => {
    const own = await adyenShop({ own: false });
    const order = { ...AUTHORISATION, ...ADYEN, order_id: `order-${own.id}` };
    const first = await own.client.pay({ ...order, payment_method: 'adyen_card_refused' }, `first-${own.id}`);
    assert.equal(first.status, 402, first.text);
    assert.equal((await own.move(own.merchant, true)).status, 200);
    const second = await paid(own.client, order);
    const [{ id: psp }] = (await site.simulator.ledger(first.payment)).charges;
    const { notificationItems } = await site.simulator.notifications(psp);
    const [{ NotificationRequestItem: refused }] = notificationItems;
    const before = await taken(second);
    // It was paid after all, says who signs for the shop's own merchant account.
    const told = { ...refused, success: 'true', merchantAccountCode: own.merchant };
    assert.equal((await tells(own, told)).status, 200);
    assert.equal(await taken(second), before);
    assert.equal((await notify(site, signed({ ...refused, success: 'true' }))).status, 200);
    await worked(site);
    assert.equal(await taken(second), before + 1, 'control: Adyen itself says so of the deployment’s');
  });

  test('is refused alike where the account is unknown, has no password, or another one', async () => {
    const own = await adyenShop();
    const { item } = await captured(own);
    const all = [signed(item, own.hmac)];
    const answers = [
      await notifyAt(site, own.webhook, undefined, ...all),
      await notifyAt(site, own.webhook, 'hook:another-one', ...all),
      await notifyAt(site, (await adyenShop({ auth: null })).webhook, own.auth, ...all),
      await notifyAt(site, '/webhooks/adyen/nobody', own.auth, ...all),
      await notifyAt(site, '/webhooks/adyen/%20', own.auth, ...all),
    ];
    for (const answer of answers) {
      assertProblem(answer, 401, 'unauthorized');
      assert.equal(answer.header('www-authenticate'), 'Basic realm="webhooks"');
      assert.equal(answer.json().detail, answers[0].json().detail);
    }
    assertProblem(await notifyAt(site, own.webhook, own.auth), 400, 'bad-request');
    assert.equal((await notifyAt(site, own.webhook, own.auth, ...all)).status, 200, 'control');
  });

  test('is believed with two keys, until the one before is removed', async () => {
    const own = await adyenShop();
    const next = hmacKey();
    const payments = [await captured(own), await captured(own), await captured(own)];
    assert.equal((await own.set('adyen_hmac_key', next)).status, 200);
    assert.equal((await own.set('adyen_hmac_key', next)).status, 200, 'sent again it pushes nothing out');
    assert.equal((await tells(own, payments[0].item, own.hmac)).status, 200);
    assert.equal((await tells(own, payments[1].item, next)).status, 200);
    for (const payment of payments.slice(0, 2)) assert.equal(await isCaptured(own, payment), true);
    assert.equal((await own.remove('adyen_hmac_key_before')).status, 204);
    assertProblem(await tells(own, payments[2].item, own.hmac), 400, 'webhook-signature');
    assert.equal((await tells(own, payments[2].item, next)).status, 200);
    assert.equal(await isCaptured(own, payments[2]), true);
    assert.equal((await own.set('adyen_hmac_key', hmacKey())).status, 200);
    assert.equal((await own.remove('adyen_hmac_key')).status, 204, 'and with it the one before');
    assert.deepEqual(
      (await own.shown()).credentials.map(({ kind }) => kind),
      ['adyen_api_key', 'adyen_webhook_auth'],
    );
  });

  test('still counts of the merchant account that the shop has left', async () => {
    const own = await adyenShop();
    const payment = await captured(own);
    assert.equal((await own.move(freshMerchant())).status, 200);
    const elsewhere = {
      ...payment.item,
      merchantAccountCode: (await own.shown()).settings.adyen_account.merchant_account,
    };
    assert.equal((await tells(own, elsewhere)).status, 200);
    assert.equal(await isCaptured(own, payment), false, 'it did not happen there');
    assert.equal((await tells(own, payment.item)).status, 200);
    assert.equal(await isCaptured(own, payment), true);
  });

  test('of a report announces one of its own merchant account, and no other', async () => {
    const own = await adyenShop();
    const report = {
      additionalData: {},
      amount: { currency: 'EUR', value: 0 },
      eventCode: 'REPORT_AVAILABLE',
      eventDate: '2026-11-20T00:00:00+00:00',
      merchantReference: '',
      originalReference: '',
      pspReference: 'settlement_detail_report_batch_77.csv',
      reason: 'https://ca-test.adyen.com/x',
      success: 'true',
    };
    const announced = () =>
      site.rows(
        "SELECT name, account, merchant_account FROM report_announcements WHERE name LIKE '%_77.csv' ORDER BY account",
      );
    const of = (merchantAccountCode) => ({ ...report, merchantAccountCode });
    const other = await adyenShop();
    for (const merchant of [DEPLOYMENTS, other.merchant])
      assert.equal((await tells(own, of(merchant))).status, 200);
    assert.deepEqual(await announced(), []);
    assert.equal((await tells(own, of(own.merchant))).status, 200);
    assert.equal((await notify(site, signed(of(DEPLOYMENTS)))).status, 200);
    assert.deepEqual(await announced(), [
      { name: report.pspReference, account: null, merchant_account: null },
      { name: `${own.id}/${report.pspReference}`, account: own.id, merchant_account: own.merchant },
    ]);
    // Before there is an API key nobody knows which merchant account is the shop's: Adyen sends it again.
    const early = await adyenShop({ key: null });
    const item = { ...of(early.merchant), pspReference: 'settlement_detail_report_batch_78.csv' };
    const other78 = { ...item, merchantAccountCode: other.merchant };
    const rows = () => site.rows("SELECT account FROM report_announcements WHERE name LIKE '%_78.csv'");
    assert.equal((await tells(early, item)).status, 503);
    assert.deepEqual(await rows(), []);
    assert.equal((await early.set('adyen_api_key', early.adyenSecret)).status, 200);
    assert.equal((await tells(early, item)).status, 200);
    assert.equal((await tells(early, other78)).status, 200, 'of another one it is never');
    assert.deepEqual(await rows(), [{ account: early.id }]);
  });
});
