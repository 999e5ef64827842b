// An account may charge less than before, while payments of before are known and links are out.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';

import { freshKey, read } from './support/account.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { PAYMENT, assertProblem, client } from './support/payments.mjs';

const TOKEN = 'the-token-of-the-account-that-may-charge-less';
/** The account may charge so much at once, in these currencies. */
const workers = (currencies) =>
  demoWorkers({
    secrets: {
      API_ACCOUNTS: JSON.stringify({
        shop: {
          token_sha256: createHash('sha256').update(TOKEN).digest('hex'),
          payment_method: 'pm_card_visa',
          currencies,
        },
      }),
    },
  });
const site = await startSite({ workers: workers({ usd: { amount_max: 3000 } }) });
after(() => site.close());
const shop = client(site, TOKEN);

/** Two under keys of their own, one of an order, and one under the key that its order makes. */
const asked = [
  [PAYMENT, freshKey()],
  [{ ...PAYMENT, order_id: freshKey() }, freshKey()],
  [{ ...PAYMENT, order_id: freshKey() }, undefined],
];
const first = [];
let link;
let form;

const open = async (more) =>
  read(
    await site.fetch(link, {
      redirect: 'manual',
      ...more,
      headers: { accept: 'text/html', ...more?.headers },
    }),
  );

before(async () => {
  for (const [body, key] of asked) first.push(await shop.pay(body, key));
  assert.deepEqual(
    first.map(({ status }) => status),
    [201, 201, 201],
  );
  const lines = [{ name: 'Mug', quantity: 1, unit_amount: 2500 }];
  const made = await shop.post(
    '/checkout/sessions',
    { order_id: freshKey(), currency: 'usd', lines },
    freshKey(),
  );
  link = new URL(made.json().url).pathname;
  form = new URLSearchParams({
    idempotency_key: /name="idempotency_key" value="([^"]+)"/.exec((await open()).text)[1],
    payment_method: 'pm_card_visa',
  });
});

for (const [what, currencies] of [
  ['less at once', { usd: { amount_max: 1000 } }],
  ['another currency alone', { eur: {} }],
]) {
  test(`it may charge ${what}: what was charged is told under its key, and nothing new is`, async () => {
    await site.deploy(workers(currencies));
    for (const [at, [body, key]] of asked.entries()) {
      const again = await shop.pay(body, key);
      assert.deepEqual([again.status, again.text], [201, first[at].text]);
      assert.equal(again.headers.get('idempotent-replayed'), 'true');
      // Another request is refused for what is wrong with it, as ever.
      if (key) assertProblem(await shop.pay({ ...body, description: 'x' }, key), 422, 'invalid-parameters');
    }
    const order = () => ({ ...PAYMENT, order_id: freshKey() });
    for (const [body, key] of [
      [PAYMENT, freshKey()],
      [order(), freshKey()],
      [order(), undefined],
      [asked[1][0], freshKey()],
    ])
      assertProblem(await shop.pay(body, key), 422, 'invalid-parameters');

    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    for (const answer of [await open({ method: 'POST', headers, body: String(form) }), await open()]) {
      assert.equal(answer.status, 410, answer.text);
      assert.match(answer.text, /This link was ended by the shop/);
    }
  });
}
