// The keys that sign: a rotation, the end of an old key, and what an older version has signed.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { SIGNING_KEY, demoWorkers, startSite } from './support/harness.mjs';
import { contentOf, sign, signAsBefore } from './support/order-link.mjs';
import { signature } from './support/signing.mjs';

const NEW_KEY = 'another-key-for-signing-just-as-long-as-the-old-one';
const DAY_MS = 24 * 3_600_000;
const day = (ms) => new Date(ms).toISOString().slice(0, 10);
const CARD = { payment_method: 'pm_card_visa' };
const RECEIPT = /Thank you for your order/;

let site;
before(async () => {
  site = await startSite();
});
after(() => site.close());
const signedBy = (setting) => site.deploy(demoWorkers({ secrets: { SIGNING_KEY: setting } }));
beforeEach(() => signedBy(SIGNING_KEY));

async function newOrder() {
  const order = {
    order_id: freshKey(),
    currency: 'usd',
    lines: [{ name: 'Mug', unit_amount: 1450, quantity: 1 }],
  };
  const made = await account(site).post('/checkout/sessions', order);
  assert.equal(made.status, 201, made.text);
  return new URL(made.json().url).pathname;
}
async function pay(path, visitor = browser(site)) {
  const { entries } = await visitor.visit(path);
  return visitor.send(path, { ...entries, ...CARD });
}
const isPaid = async (path) => RECEIPT.test((await browser(site).visit(path)).text);

describe('an old key', () => {
  /** A paid order and an open one with its form, all of the first key. */
  async function things() {
    const [paid, open] = [await newOrder(), await newOrder()];
    assert.equal((await pay(paid)).status, 303);
    const shopper = browser(site);
    const { entries } = await shopper.visit(open);
    return { paid, open, shopper, entries };
  }

  test('is as good as the new one while it has no end, or before it', async () => {
    for (const end of ['', `@${day(Date.now() + 2 * DAY_MS)}`]) {
      await signedBy(SIGNING_KEY);
      const { paid, open, shopper, entries } = await things();
      await signedBy(`${NEW_KEY} ${SIGNING_KEY}${end}`);
      assert.ok(await isPaid(paid));
      assert.equal((await shopper.send(open, { ...entries, ...CARD })).status, 303);
      assert.ok(await isPaid(open));
    }
  });

  test('after its end shows what was paid, and starts nothing', async () => {
    const { paid, open, shopper, entries } = await things();
    await signedBy(`${NEW_KEY} ${SIGNING_KEY}@${day(Date.now())}`);
    assert.ok(await isPaid(paid), 'a receipt stays where it is');
    const before = (await site.simulator.requests()).length;
    assert.equal((await shopper.visit(open)).status, 410);
    assert.equal((await shopper.send(open, { ...entries, ...CARD })).status, 410);
    assert.equal((await site.simulator.requests()).length, before);
    // With the new key all goes on.
    assert.equal((await pay(await newOrder())).status, 303);
  });

  test('that is gone signs nothing any more', async () => {
    const { paid, open } = await things();
    await signedBy(NEW_KEY);
    for (const path of [paid, open]) assert.equal((await browser(site).visit(path)).status, 404);
  });
});

describe('a link', () => {
  test('is signed with the key for links, as it is documented, and names that key', async () => {
    const path = await newOrder();
    assert.equal(sign(contentOf(path), SIGNING_KEY), path, 'another implementation makes the same');
  });

  test('that is signed with the key of another purpose, or by another key under its name, is none', async () => {
    const path = await newOrder();
    const [payload] = path.split('/')[2].split('.');
    const forged = (purpose, key) => signature(key, purpose, payload);
    const named = Buffer.concat([
      forged('order links', SIGNING_KEY).subarray(0, 4),
      forged('order links', NEW_KEY).subarray(4),
    ]);
    for (const wrong of [forged('order forms', SIGNING_KEY), forged('order links', NEW_KEY), named])
      assert.equal(
        (await browser(site).visit(`/checkout/${payload}.${wrong.toString('base64url')}`)).status,
        404,
      );
  });

  test('of the version before can still be paid, and shows its receipt', async () => {
    const before = signAsBefore(contentOf(await newOrder()), SIGNING_KEY);
    assert.equal((await pay(before)).status, 303);
    assert.ok(await isPaid(before));
    await signedBy(`${NEW_KEY} ${SIGNING_KEY}@${day(Date.now())}`);
    assert.ok(await isPaid(before));
  });
});
