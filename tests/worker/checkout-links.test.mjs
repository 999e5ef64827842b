// The links to an order that are asked for under a key, and the way back of who does not pay.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { SIGNING_KEY } from './support/harness.mjs';
import { expired } from './support/order-link.mjs';
import { DECLINED, order, startCheckout } from './support/shopper.mjs';

const { site, merchant, makeLink, newOrder, open, pay, assertPaidOnce } = await startCheckout();
const look = (link) => browser(site).visit(new URL(link.json().url).pathname);

describe('a link that is asked for under a key', () => {
  const dearer = [{ name: 'Gold', unit_amount: 99_000, quantity: 1 }];
  const isPayable = async (link) => (await look(link)).status === 200;

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

  for (const [where, make] of [
    ['in the header', (asked, key) => merchant.post('/checkout/sessions', asked, key)],
    ['in the body', (asked, key) => merchant.post('/checkout/sessions', { ...asked, idempotency_key: key })],
  ])
    test(`stands for that one alone, with the key ${where}`, async () => {
      const [asked, key] = [order(), freshKey()];
      const made = await make(asked, key);
      assert.deepEqual([made.status, made.json().revision], [201, 1], made.text);
      const other = await merchant.post('/checkout/sessions', { ...asked, lines: dearer }, key);
      assert.deepEqual([other.status, other.json().type], [422, '/problems/idempotency-key-reused']);
    });
});

describe('the end of all links that is asked for under a key', () => {
  const ends = ({ order_id }, key) => merchant.post(`/checkout/sessions/${order_id}/expire`, {}, key);

  for (const [what, key, expected] of [
    ['is of those that were made before it', freshKey(), [1, 200]],
    ['control: without a key it ends the newest one, too', undefined, [2, 410]],
  ])
    test(what, async () => {
      const asked = order();
      await makeLink(asked);
      assert.equal((await ends(asked, key)).json().revision, 1);
      const newest = await makeLink(asked);
      const repeated = await ends(asked, key);
      assert.deepEqual([repeated.json().revision, (await look(newest)).status], expected, repeated.text);
    });

  test('takes no key of another request, and none that is none', async () => {
    const [asked, key] = [order(), freshKey()];
    const link = await merchant.post('/checkout/sessions', asked, key);
    const refused = await ends(asked, key);
    assert.deepEqual([refused.status, refused.json().type], [422, '/problems/idempotency-key-reused']);
    assert.equal((await ends(asked, 'k'.repeat(300))).status, 400);
    assert.equal((await look(link)).status, 200, 'nothing was ended');
  });
});

test('an order that is paid gets no other link, and its own one again', async () => {
  const asked = order();
  const link = await makeLink(asked);
  await pay(await open(new URL(link.json().url).pathname));
  const dearer = { ...asked, lines: [{ name: 'Gold', unit_amount: 99_000, quantity: 1 }] };
  for (const more of [dearer, { ...dearer, revision: 7 }]) {
    const refused = await merchant.post('/checkout/sessions', more);
    const problem = refused.json();
    assert.deepEqual(
      [refused.status, problem.type, problem.state],
      [409, '/problems/payment-state', 'succeeded'],
    );
    const payment = (await merchant.ask(problem.resource)).json();
    assert.deepEqual([payment.order_id, payment.revision], [asked.order_id, 1]);
  }
  const again = await merchant.post('/checkout/sessions', asked);
  assert.deepEqual([again.status, again.json().revision], [201, 1], again.text);
});

test('a revision with nothing in it is refused, and ends no link', async () => {
  const asked = order();
  const link = await makeLink({ ...asked, revision: 7 });
  const { order_id, lines, ...more } = asked;
  const form = new URLSearchParams({ order_id, ...more, revision: '' });
  for (const [n, line] of lines.entries())
    for (const [name, value] of Object.entries(line)) form.set(`lines[${n}][${name}]`, value);
  const ofForm = { 'content-type': 'application/x-www-form-urlencoded' };
  for (const [body, headers] of [
    [{ ...asked, revision: null }],
    [{ ...asked, revision: '' }],
    [`${form}`, ofForm],
  ]) {
    const refused = await merchant.post('/checkout/sessions', body, undefined, headers);
    const fields = refused.json().errors.map(({ field }) => field);
    assert.deepEqual([refused.status, fields], [422, ['revision']], refused.text);
  }
  assert.equal((await look(link)).status, 200);
});

describe('who does not pay', () => {
  const CART = 'https://shop.example/cart?a=1&b=2';
  const leadsBack = (page) => page.text.includes(`href="${CART.replace('&', '&#38;')}"`);

  test('is led back to the shop by every page but the receipt, and may pay later', async () => {
    const visit = await open(await newOrder({ cancel_url: CART, return_url: 'https://shop.example/thanks' }));
    assert.ok(leadsBack(visit.page));
    const declined = await pay(visit, DECLINED);
    assert.ok(leadsBack(declined), 'after a card that was declined');
    const again = await open(visit.path, visit.visitor);
    const receipt = await pay(again);
    await assertPaidOnce(receipt);
    assert.ok(!leadsBack(receipt));
  });

  test('is led there by the page of a link that is over, too', async () => {
    const path = await newOrder({ cancel_url: CART, return_url: 'https://shop.example/thanks' });
    const page = await browser(site).visit(expired(path, SIGNING_KEY));
    assert.equal(page.status, 410);
    assert.ok(leadsBack(page));
    assert.ok(!page.text.includes('https://shop.example/thanks'));
  });

  test('finds no such link where the shop has named no page', async () => {
    const { page } = await open(await newOrder({ return_url: 'https://shop.example/thanks' }));
    assert.doesNotMatch(page.text, /shop\.example|class="back"/);
  });

  test('is led to another page by a newer link of the same content, which replaces none', async () => {
    const asked = order({ cancel_url: CART });
    const [one, two] = [await makeLink(asked), await makeLink({ ...asked, cancel_url: `${CART}&c=3` })];
    assert.deepEqual([one.json().revision, two.json().revision], [1, 1]);
    assert.equal((await open(new URL(one.json().url).pathname)).page.status, 200);
  });
});
