// The links to an order that are asked for under a key.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { order, startCheckout } from './support/shopper.mjs';

const { site, merchant, makeLink } = await startCheckout();

describe('a link that is asked for under a key', () => {
  const dearer = [{ name: 'Gold', unit_amount: 99_000, quantity: 1 }];
  const isPayable = async (link) =>
    (await browser(site).visit(new URL(link.json().url).pathname)).status === 200;

  for (const [what, key, expected] of [
    ['is the same, also when a newer one is out', freshKey(), [1, false, true]],
    ['control: without a key the old price is back', undefined, [3, true, false]],
  ])
    test(what, async () => {
      const cheap = order();
      const headers = key && { 'idempotency-key': key };
      const make = (asked) => merchant.post('/checkout/sessions', asked, undefined, headers);
      assert.equal((await make(cheap)).json().revision, 1);
      const newer = await makeLink({ ...cheap, lines: dearer });
      assert.equal(newer.json().revision, 2);
      const repeated = await make(cheap);
      assert.deepEqual(
        [repeated.json().revision, await isPayable(repeated), await isPayable(newer)],
        expected,
        repeated.text,
      );
    });

  test('stands for that one alone', async () => {
    const [asked, key] = [order(), freshKey()];
    assert.equal((await merchant.post('/checkout/sessions', asked, key)).status, 201);
    const other = await merchant.post('/checkout/sessions', { ...asked, lines: dearer }, key);
    assert.deepEqual([other.status, other.json().type], [422, '/problems/idempotency-key-reused']);
  });
});
