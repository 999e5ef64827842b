// An order that is authorized when it is placed (`capture: false`), and captured by the shop: nothing is taken before that, and it is one payment.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { SIGNING_KEY } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { expired } from './support/order-link.mjs';
import {
  AT_THE_BANK,
  BANK,
  DECLINED,
  FORM,
  OTHER_GOOD,
  RECEIPT,
  TOTAL,
  heading,
  order,
  paymentOf,
  startCheckout,
} from './support/shopper.mjs';
import { until } from './support/until.mjs';

const { site, merchant, makeLink, newOrder, open, pay, assertPaidOnce } = await startCheckout();

const PLACED = 'Your order is placed';
const LATER = { capture: false };
const shown = async (id) => (await merchant.ask(`/payments/${id}`)).json();
const move = async (id, operation, body) => {
  const moved = await merchant.post(`/payments/${id}/${operation}`, body, freshKey());
  assert.ok(moved.status < 300, moved.text);
  return moved.json();
};
/** What is held and what is taken at Stripe for a payment, by its charges. */
const atStripe = async (payment) => {
  const { charges } = await site.simulator.ledger(payment);
  const good = charges.filter(({ status }) => status === 'succeeded');
  return good.map(({ amount, amount_captured }) => [amount, amount_captured]);
};

/** An order that was placed. */
async function placed(card) {
  const visit = await open(await newOrder(LATER));
  const page = await pay(visit, card);
  assert.equal(heading(page), PLACED, page.text);
  return { ...visit, page, payment: paymentOf(page) };
}

test('is reserved once, however many forms are sent, and says so before and after', async () => {
  const path = await newOrder({ ...LATER, return_url: 'https://shop.example/thanks' });
  const [one, two] = [await open(path), await open(path)];
  assert.match(one.page.text, /<button[^>]*>.*Place order for \$29\.00<\/button>/);
  assert.match(one.page.text, /your bank only reserves this amount/);
  const page = await pay(one);
  const payment = paymentOf(page);
  for (const text of [heading(page), 'reserved', 'Nothing has been charged yet'])
    assert.ok(page.text.includes(text), text);
  assert.equal(heading(page), PLACED);
  assert.equal(paymentOf(await pay(two, OTHER_GOOD)), payment);
  assert.deepEqual(await atStripe(payment), [[TOTAL, 0]]);
  const { status, capture, amount_capturable, amount_captured, revision } = await shown(payment);
  assert.deepEqual(
    { status, capture, amount_capturable, amount_captured, revision },
    { status: 'requires_capture', capture: false, amount_capturable: TOTAL, amount_captured: 0, revision: 1 },
  );
});

test('control: an order without it is charged when it is placed', async () => {
  const visit = await open(await newOrder());
  assert.match(visit.page.text, /<button[^>]*>.*Pay \$29\.00<\/button>/);
  assert.doesNotMatch(visit.page.text, /reserve/);
  const payment = await assertPaidOnce(await pay(visit));
  assert.deepEqual(await atStripe(payment), [[TOTAL, TOTAL]]);
});

test('is charged by the capture, and its page becomes the receipt', async () => {
  const { payment, path, visitor } = await placed();
  assert.deepEqual(await receiptsOf(site, payment), [], 'no receipt of what is not paid');
  assert.equal((await move(payment, 'capture')).status, 'succeeded');
  assert.deepEqual(await atStripe(payment), [[TOTAL, TOTAL]]);
  const page = await visitor.visit(path);
  assert.equal(heading(page), RECEIPT);
  assert.equal(paymentOf(page), payment);
});

test('is charged in part, and the page names both amounts', async () => {
  const { payment, path, visitor } = await placed();
  await move(payment, 'capture', { amount: 1000 });
  const page = await visitor.visit(path);
  for (const text of [RECEIPT, '$10.00', 'Charged, of $29.00 reserved'])
    assert.ok(page.text.includes(text), text);
});

test('can be paid anew after the shop has given it up', async () => {
  const { payment, path, visitor } = await placed();
  assert.equal((await move(payment, 'void')).status, 'canceled');
  const again = await open(path, visitor);
  assert.equal(heading(again.page), FORM);
  assert.equal(heading(await pay(again, OTHER_GOOD)), PLACED);
  const { charges } = await site.simulator.ledger(payment);
  assert.deepEqual(
    charges.map(({ voided }) => voided),
    [true, false],
  );
});

for (const [operation, words, then] of [
  ['capture', 'The shop is charging your card now', RECEIPT],
  ['void', 'The shop is canceling this payment', FORM],
])
  test(`does not say that nothing was charged while nobody knows how a ${operation} has ended`, async () => {
    const { payment, path, visitor } = await placed();
    await site.simulator.fault('response_lost', { count: 1000 });
    const asked = await merchant.post(`/payments/${payment}/${operation}`, {}, freshKey());
    assert.equal(asked.status, 503, asked.text);
    const page = await visitor.visit(path);
    assert.equal(heading(page), PLACED);
    assert.ok(page.text.includes(words), page.text);
    assert.doesNotMatch(page.text, /Nothing has been charged/);
    await site.simulator.calm();
    await until('its end', async () => heading(await visitor.visit(path)) === then);
  });

test('is given up for good: its links are ended first, so that nobody places it again', async () => {
  const asked = order(LATER);
  const path = new URL((await makeLink(asked)).json().url).pathname;
  const visit = await open(path);
  const payment = paymentOf(await pay(visit));
  const expire = () => merchant.post(`/checkout/sessions/${asked.order_id}/expire`, {});
  const ended = await expire();
  assert.deepEqual([ended.status, ended.json().revision], [200, 1], ended.text);
  assert.equal(heading(await visit.visitor.visit(path)), PLACED, 'it is authorized still');
  assert.equal((await move(payment, 'void')).status, 'canceled');
  const over = await visit.visitor.visit(path);
  assert.deepEqual([over.status, heading(over)], [410, 'This link was ended by the shop']);
  const sent = await visit.visitor.send(path, { ...visit.form, payment_method: OTHER_GOOD });
  assert.notEqual(heading(await visit.visitor.follow(sent)), PLACED);
  assert.equal((await makeLink(asked)).json().revision, 2, 'the shop may sell it anew');
});

test('control: what is charged, or being charged, is not ended', async () => {
  const asked = order(LATER);
  const visit = await open(new URL((await makeLink(asked)).json().url).pathname);
  const payment = paymentOf(await pay(visit));
  const expire = () => merchant.post(`/checkout/sessions/${asked.order_id}/expire`, {});
  await site.simulator.fault('response_lost', { count: 1000 });
  const unknown = await merchant.post(`/payments/${payment}/capture`, {}, freshKey());
  assert.equal(unknown.status, 503, unknown.text);
  assert.equal((await expire()).status, 409);
  await site.simulator.calm();
  await until('the charge', async () => (await shown(payment)).status === 'succeeded');
  const refused = await expire();
  assert.deepEqual([refused.status, refused.json().state], [409, 'succeeded'], refused.text);
});

test('after its link has expired the page says that it was canceled, and not that nobody paid', async () => {
  const { payment, path, visitor } = await placed();
  await move(payment, 'void');
  const page = await visitor.visit(expired(path, SIGNING_KEY));
  assert.deepEqual([page.status, heading(page)], [410, 'That payment was canceled']);
  assert.match(page.text, /Nothing was charged/);
  assert.doesNotMatch(page.text, /not paid in time|<form/);
});

test('is placed after a card that was declined, and after the bank has asked', async () => {
  const visit = await open(await newOrder(LATER));
  const declined = await pay(visit, DECLINED);
  assert.equal(heading(declined), FORM);
  const asked = await pay({ ...visit, form: declined.entries }, BANK);
  assert.equal(heading(asked), AT_THE_BANK, asked.text);
  const bank = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(asked.text)[1];
  const decided = await visit.visitor.send(`${bank}/accept`, {});
  const page = await visit.visitor.follow(await visit.visitor.visit(decided.header('location')));
  assert.equal(heading(page), PLACED, page.text);
  assert.deepEqual(await atStripe(paymentOf(page)), [[TOTAL, 0]]);
});

describe('its link', () => {
  test('is another one than that of the same order charged at once', async () => {
    const asked = order();
    const now = (await makeLink(asked)).json();
    const later = (await makeLink({ ...asked, ...LATER })).json();
    assert.deepEqual([now.capture, now.revision, later.capture, later.revision], [true, 1, false, 2]);
    assert.equal((await makeLink({ ...asked, capture: 'false' })).json().revision, 2, 'text says the same');
    const { visitor } = await open(new URL(later.url).pathname);
    assert.equal((await visitor.visit(new URL(now.url).pathname)).status, 410, 'that would charge at once');
  });

  test('is the last one: an order that is reserved is not sold again', async () => {
    const asked = order(LATER);
    const page = await pay(await open(new URL((await makeLink(asked)).json().url).pathname));
    assert.equal(heading(page), PLACED);
    const refused = await makeLink({ ...asked, capture: true });
    assert.equal(refused.status, 409, refused.text);
    assert.equal(refused.json().state, 'requires_capture');
  });

  for (const capture of [null, '', 'later', 0, [true]])
    test(`is none for ${JSON.stringify(capture)}`, async () => {
      const refused = await makeLink(order({ capture }));
      assert.equal(refused.status, 422, refused.text);
      assert.deepEqual(
        refused.json().errors.map(({ field, message }) => [field, message]),
        [['capture', 'must be true or false']],
      );
    });
});
