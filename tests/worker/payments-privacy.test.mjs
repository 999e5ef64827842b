// Nobody sees another account's payments, nor whether they exist; and no key, token, card or secret is kept or logged.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { SIGNING_KEY, startSite } from './support/harness.mjs';
import { jobsOf } from './support/jobs.mjs';
import { paymentOf } from './support/objects.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  insist,
  operations,
  paid,
  send,
} from './support/payments.mjs';

const TOKEN = 'a-bearer-token-that-nobody-may-see';
const OTHER_TOKEN = 'another-token-that-nobody-may-see';
const STRIPE_SECRET_KEY = 'sk_test_that_nobody_may_see';
const ADYEN_API_KEY = 'adyen-key-that-nobody-may-see';
const CARD = 'pm_card_mastercard';
const token_sha256 = (token) => createHash('sha256').update(token).digest('hex');
const API_ACCOUNTS = JSON.stringify({
  acme: { token_sha256: token_sha256(TOKEN), payment_method: CARD },
  other: { token_sha256: token_sha256(OTHER_TOKEN), payment_method: CARD },
});
const site = await startSite({
  vars: { PROVIDER_TIMEOUT_MS: '1000', QUIET_MS: '2000' },
  secrets: { API_ACCOUNTS, STRIPE_SECRET_KEY, ADYEN_API_KEY },
});
const user = client(site, TOKEN);
const stranger = client(site, OTHER_TOKEN);
after(() => site.close());
afterEach(() => site.simulator.calm());

const settings = { TOKEN, OTHER_TOKEN, STRIPE_SECRET_KEY, ADYEN_API_KEY, SIGNING_KEY };

function assertNowhere(secrets, text) {
  for (const [what, secret] of Object.entries(secrets)) {
    assert.ok(secret.length > 5, what);
    assert.ok(!text.includes(secret), `${what} is in ${text.slice(0, 2000)}`);
  }
}

/** All rows of all objects as text. */
async function everything() {
  const objects = await Promise.all((await site.objects.ids()).map((id) => site.objects.dump(paymentOf(id))));
  return JSON.stringify(objects);
}

const logged = () => JSON.stringify(site.logs());

describe('a stranger', () => {
  const nobodys = `pay_${Buffer.alloc(32).toString('base64url')}`;
  /** A problem without what is different in every answer. */
  const kept = ({ status, text, headers }) => ({
    status,
    text: text.replaceAll(/req_[\w-]+/g, ''),
    names: [...headers.keys()].filter((name) => name !== 'server-timing').sort(),
  });

  for (const payment of [PAYMENT, AUTHORISATION])
    test(`hears of a payment (capture: ${payment.capture ?? true}) what is heard of one that does not exist`, async () => {
      const made = await paid(user, payment);
      const key = freshKey();
      await user.post(`/payments/${made.id}/refunds`, { amount: 1 }, key);
      await jobsOf(site, made.id);
      const rows = await site.objects.dump(made.id);
      const asked = async (id) => [
        await stranger.payment(id),
        await stranger.refunds(id),
        await stranger.post(`/payments/${id}/capture`, undefined, freshKey()),
        await stranger.post(`/payments/${id}/void`, undefined, freshKey()),
        await stranger.post(`/payments/${id}/refunds`, { amount: 1 }, freshKey()),
        await stranger.post(`/payments/${id}/refunds`, { amount: 9999 }),
      ];
      const [there, not] = [await asked(made.id), await asked(nobodys)];
      for (const answer of there) assertProblem(answer, 404, 'not-found');
      assert.deepEqual(there.map(kept), not.map(kept));
      assert.deepEqual(await site.objects.dump(made.id), rows, 'and leaves nothing there');
    });

  test('hears of a key what is heard of one that was never used', async () => {
    for (const operation of operations) {
      const key = freshKey();
      const answer = await send(user, await operation.prepare(user), key);
      assert.equal(answer.status, operation.status, answer.text);
      const asked = async (one) => [await stranger.key(one), await stranger.forget(one)];
      const [there, not] = [await asked(key), await asked(freshKey())];
      for (const one of there) assertProblem(one, 404, 'not-found');
      assert.deepEqual(there.map(kept), not.map(kept));
      assert.equal((await user.key(key)).json().status, 'complete');
    }
  });

  test('may use the same key and the same order for payments of its own', async () => {
    const [key, payment] = [freshKey(), { ...PAYMENT, order_id: freshOrder() }];
    const [mine, theirs] = [await user.pay(payment, key), await stranger.pay(payment, key)];
    assert.deepEqual([mine.status, theirs.status], [201, 201]);
    assert.notEqual(mine.payment, theirs.payment);
    assert.equal(theirs.header('idempotent-replayed'), null);
  });

  test('without credentials gets nowhere', async () => {
    const { id } = await paid(user);
    const nobody = client(site, 'a-token-of-nobody');
    for (const answer of [
      await nobody.payment(id),
      await nobody.refunds(id),
      await nobody.post(`/payments/${id}/refunds`, {}, freshKey()),
      await nobody.key(freshKey()),
      await nobody.forget(freshKey()),
    ]) {
      assertProblem(answer, 401, 'unauthorized');
      assert.match(answer.header('www-authenticate'), /^Bearer realm="paid-once"/);
    }
  });
});

describe('neither rows nor logs hold', () => {
  test('a key, a token or a secret of any operation, however it ends', async () => {
    const keys = [];
    for (const operation of operations)
      for (const fault of [undefined, 'connection_reset_after', 'error_after', 'rate_limited']) {
        const [request, key] = [await operation.prepare(user), freshKey()];
        keys.push(key);
        if (fault) await site.simulator.fault(fault);
        const answer = await insist(() => send(user, request, key, AT_ONCE));
        assert.equal(answer.status, operation.status, answer.text);
        await send(user, { ...request, body: { amount: 1234 } }, key);
        await user.key(key);
        await user.forget(key);
      }
    const secrets = { ...settings, ...Object.fromEntries(keys.map((key) => [key, key])) };
    const rows = await everything();
    assert.ok(rows.includes('idempotency_keys') && rows.includes('pay_'), 'there is something to look at');
    assertNowhere(secrets, rows);
    assertNowhere({ ...secrets, CARD }, logged());
  });

  test('a card, once its key is finished and expired', async () => {
    const key = freshKey();
    const { payment } = await user.pay({ ...PAYMENT, payment_method: 'pm_card_amex' }, key);
    assert.equal((await user.forget(key)).status, 204);
    const rows = JSON.stringify(await site.objects.dump(payment));
    assert.ok(rows.includes(payment), 'there is something to look at');
    assertNowhere({ card: 'pm_card_amex' }, rows);
  });

  test('what an Adyen call was made with', async () => {
    const answer = await user.pay(
      { ...PAYMENT, provider: 'adyen', payment_method: 'adyen_card_mastercard', customer: 'shopper-7' },
      freshKey(),
    );
    assert.equal(answer.status, 201, answer.text);
    assertNowhere(settings, await everything());
    assertNowhere({ ...settings, card: 'adyen_card_mastercard' }, logged());
  });
});

describe('answers show', () => {
  test('neither the settings nor the credentials, nor the card', async () => {
    const key = freshKey();
    const made = await user.pay(PAYMENT, key);
    const all = [
      made,
      await user.key(key),
      await user.payment(made.payment),
      await user.pay({ ...PAYMENT, payment_method: 'pm_card_amex' }, key),
      await user.pay({ ...PAYMENT, payment_method: 'two words' }, freshKey()),
    ];
    for (const { text } of all) assertNowhere({ ...settings, key, CARD, other: 'pm_card_amex' }, text);
  });
});
