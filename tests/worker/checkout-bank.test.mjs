// An order whose bank asks its customer (3-D Secure), and one of which nobody knows how it ended.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { contentOf } from './support/order-link.mjs';
import {
  AT_THE_BANK,
  BANK,
  FORM,
  GOOD,
  OTHER_GOOD,
  RECEIPT,
  TOTAL,
  UNKNOWN,
  heading,
  order,
  startCheckout,
} from './support/shopper.mjs';
import { until } from './support/until.mjs';

const { site, merchant, newOrder, open, pay, assertPaidOnce } = await startCheckout();

describe('3-D Secure', () => {
  /** An order whose bank wants to see the person. */
  async function atTheBank(asked) {
    const visit = await open(await newOrder(asked));
    const page = await pay(visit, BANK);
    assert.equal(heading(page), AT_THE_BANK, page.text);
    const bank = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(page.text)?.[1];
    assert.match(bank, new RegExp(`^${site.url.origin}/_sim/3ds/pi_`), 'it leads on by itself');
    return { ...visit, bank, page };
  }
  const decide = async (visit, button) => {
    const shown = await visit.visitor.visit(visit.bank);
    assert.equal(shown.status, 200, shown.text);
    assert.doesNotMatch(shown.header('content-security-policy'), /form-action/, 'its buttons may be pressed');
    const decided = await visit.visitor.send(`${visit.bank}/${button}`, {});
    assert.equal(decided.status, 303, decided.text);
    const back = new URL(decided.header('location'));
    assert.match(back.pathname, /^\/payments\/pay_[\w-]{43}\/return$/);
    return back;
  };
  /** The other button of the bank's page. */
  const anotherCard = ({ page }, attempt) => ({
    idempotency_key: page.entries.idempotency_key,
    another_card: attempt,
  });
  const back = async ({ visitor }, address) => visitor.follow(await visitor.visit(address));

  test('the page of an order that waits there leads back to the shop, too', async () => {
    const { page } = await atTheBank({ cancel_url: 'https://shop.example/cart' });
    assert.match(page.text, /<a class="button quiet" href="https:\/\/shop\.example\/cart">Back to the shop</);
  });

  test('there and back: it is paid once', async () => {
    const visit = await atTheBank();
    assert.equal(
      (await site.simulator.ledger()).charges.filter(({ payment_intent }) =>
        visit.bank.endsWith(payment_intent),
      ).length,
      0,
    );
    const address = await decide(visit, 'accept');
    await assertPaidOnce(await back(visit, address), { card: BANK });
    address.searchParams.set('redirect_status', 'failed');
    await assertPaidOnce(await back(visit, address), { card: BANK });
  });

  test('paid while a newer link with other lines was made: what was not paid is not on the receipt', async () => {
    for (const unit_amount of [99_000, TOTAL]) {
      const order_id = freshKey();
      const visit = await atTheBank({ order_id });
      const gold = await newOrder({ order_id, lines: [{ name: 'Gold', unit_amount, quantity: 1 }] });
      const payment = await assertPaidOnce(await back(visit, await decide(visit, 'accept')), { card: BANK });
      const receipt = await visit.visitor.visit(gold);
      assert.equal(await assertPaidOnce(receipt), payment);
      assert.ok(!receipt.text.includes('Gold'), `${unit_amount}`);
    }
  });

  test('back from a look at the own page a moment ago: the truth is asked for all the same', async () => {
    const visit = await atTheBank();
    const address = await decide(visit, 'accept');
    await assertPaidOnce(await back(visit, address), { card: BANK });
  });

  test('what the address says on the way back is not believed', async () => {
    const visit = await atTheBank();
    const id = visit.bank.split('/').at(-1);
    const pay = await paymentAt(visit);
    const forged = await site.simulator.wayBack(visit.bank);
    forged.searchParams.set('payment_intent', id);
    forged.searchParams.set('redirect_status', 'succeeded');
    assert.equal(heading(await back(visit, forged)), AT_THE_BANK);
    assert.equal(heading(await visit.visitor.visit(`${visit.path}?payment=${pay}`)), AT_THE_BANK);
    const { charges } = await site.simulator.ledger(pay);
    assert.deepEqual(charges, []);
  });
  /** The payment of an order that is not paid: its page does not name it, but the merchant knows the order. */
  const paymentAt = async ({ path }) => {
    const [, order_id, , currency] = contentOf(path);
    const answer = await merchant.pay(
      { order_id, currency, amount: TOTAL, payment_method: GOOD },
      freshKey(),
    );
    assert.equal(answer.status, 409, answer.text);
    assert.equal(answer.json().type, '/problems/payment-state');
    return answer.json().resource.replace('/payments/', '');
  };

  test('without success: nothing is charged, the reason is told, another card pays', async () => {
    const visit = await atTheBank();
    const page = await back(visit, await decide(visit, 'fail'));
    assert.equal(heading(page), FORM);
    assert.match(page.text, /role="alert"[^]*Nothing was charged/);
    await assertPaidOnce(await pay({ ...visit, form: page.entries }, GOOD), { card: GOOD });
  });

  test('given up for another card: the try is canceled at the provider first, and can never be charged', async () => {
    const visit = await atTheBank();
    assert.match(visit.page.text, /name="another_card" value="1"/);
    const left = await visit.visitor.send(visit.path, anotherCard(visit, '1'));
    assert.equal(left.status, 303);
    const page = await visit.visitor.follow(left);
    assert.equal(heading(page), FORM);
    assert.equal(page.entries.email, visit.form.email, 'the receipt goes where it was to go');
    assert.match(page.text, /That payment was canceled/);
    const address = await visit.visitor.visit(`${visit.path}?not_given_up`);
    assert.deepEqual(
      [address.status, address.header('location')],
      [303, visit.path],
      'it says so only at the bank',
    );
    const requests = await site.simulator.requests();
    const canceled = requests.filter(({ path }) => path.endsWith(`${visit.bank.split('/').at(-1)}/cancel`));
    assert.deepEqual(
      canceled.map(({ status }) => status),
      [200],
    );
    assert.match((await visit.visitor.visit(visit.bank)).text, /canceled/);
    assert.match((await visit.visitor.send(`${visit.bank}/accept`, {})).text, /canceled/);
    await assertPaidOnce(await pay({ ...visit, form: page.entries }, OTHER_GOOD), { card: OTHER_GOOD });
  });

  test('given up twice at once: it is canceled once', async () => {
    const visit = await atTheBank();
    const give_up = () => visit.visitor.send(visit.path, anotherCard(visit, '1'));
    for (const left of await Promise.all([give_up(), give_up()])) assert.equal(left.status, 303);
    const page = await until('the form', async () => {
      const seen = await visit.visitor.visit(visit.path);
      return heading(seen) === FORM && seen;
    });
    assert.equal((await cancels(visit)).length, 1);
    await assertPaidOnce(await pay({ ...visit, form: page.entries }, GOOD), { card: GOOD });
  });
  const cancels = async ({ bank }) => {
    const requests = await site.simulator.requests();
    return requests.filter(({ path }) => path.endsWith(`${bank.split('/').at(-1)}/cancel`));
  };

  test('given up, and nobody knows whether it is: until that is known no other card is charged', async () => {
    const visit = await atTheBank();
    await site.simulator.fault('request_lost', { count: 1000, delay_ms: 60_000 });
    const left = await visit.visitor.send(visit.path, anotherCard(visit, '1'));
    assert.equal(heading(await visit.visitor.follow(left)), UNKNOWN);
    const late = await visit.visitor.send(visit.path, { ...visit.form, payment_method: GOOD });
    assert.equal(heading(await visit.visitor.follow(late)), UNKNOWN);
    await site.simulator.calm();
    const page = await until('the form', async () => {
      const seen = await visit.visitor.visit(visit.path);
      return heading(seen) === FORM && seen;
    });
    assert.match(page.text, /That payment was canceled/);
    await assertPaidOnce(await pay({ ...visit, form: page.entries }, GOOD), { card: GOOD });
  });

  test('given up too late: it is paid, and the receipt says so', async () => {
    const visit = await atTheBank();
    await decide(visit, 'accept'); // and never comes back
    const left = await visit.visitor.send(visit.path, anotherCard(visit, '1'));
    const page = await until('the receipt', async () => {
      const seen = await visit.visitor.follow(left);
      return heading(seen) === RECEIPT && seen;
    });
    await assertPaidOnce(page, { card: BANK });
    // Stripe's refusal does not name the card: it is asked for.
    await until('the card', async () =>
      /<dt>Card<\/dt><dd>Visa ···· \d{4}<\/dd>/.test((await visit.visitor.visit(visit.path)).text),
    );
  });

  test('a page of an older try gives up nothing', async () => {
    const visit = await atTheBank();
    const page = await back(visit, await decide(visit, 'fail'));
    const second = await pay({ ...visit, form: page.entries }, BANK);
    assert.equal(heading(second), AT_THE_BANK);
    assert.match(second.text, /name="another_card" value="2"/);
    const left = await visit.visitor.send(visit.path, anotherCard(visit, '1'));
    const still = await visit.visitor.follow(left);
    assert.equal(heading(still), AT_THE_BANK);
    assert.match(still.text, /This payment could not be canceled just now/);
    assert.match(still.text, /If you choose another card, this payment is given up first/);
    await visit.visitor.follow(await visit.visitor.send(visit.path, anotherCard(visit, '2')));
    assert.equal(heading(await visit.visitor.visit(visit.path)), FORM);
  });

  test('the form that is at the bank, with another card: the page says that it was not used', async () => {
    const visit = await atTheBank();
    const notUsed = /Your other card was not used/;
    const sent = await visit.visitor.send(visit.path, { ...visit.form, payment_method: OTHER_GOOD });
    const page = await visit.visitor.follow(sent);
    assert.equal(heading(page), AT_THE_BANK);
    assert.match(page.text, notUsed);
    assert.ok(!page.text.includes('http-equiv="refresh"'), 'whoever reads it is not led away');
    assert.doesNotMatch((await visit.visitor.visit(visit.path)).text, notUsed);
    const address = await decide(visit, 'accept');
    await assertPaidOnce(await back(visit, address), { card: BANK });
  });

  test('another tab while one is at the bank: it is not charged, and leads there', async () => {
    const path = await newOrder();
    const [one, other] = [await open(path), await open(path)];
    await pay(one, BANK);
    const page = await pay(other, GOOD);
    assert.equal(heading(page), AT_THE_BANK);
    assert.match(page.text, /Your other card was not used/);
    assert.ok(!page.text.includes('http-equiv="refresh"'), 'a reload stays here');
    assert.deepEqual((await site.simulator.ledger(await paymentAt(one))).charges, []);
  });

  test('the bank is asked without anybody: the order’s page shows the receipt', async () => {
    const visit = await atTheBank();
    await decide(visit, 'accept');
    const page = await until('the receipt', async () => {
      const seen = await visit.visitor.visit(visit.path);
      return heading(seen) === RECEIPT && seen;
    });
    await assertPaidOnce(page, { card: BANK });
    assert.match(page.text, /<dt>Card<\/dt><dd>Visa ···· \d{4}<\/dd>/);
  });
});

describe('an unknown outcome', () => {
  test('is no failure: a page that looks again, no second try, and the receipt in the end', async () => {
    const path = await newOrder();
    const [visit, other] = [await open(path), await open(path)];
    await site.simulator.fault('response_lost', { count: 1000 });
    const page = await pay(visit);
    assert.equal(heading(page), UNKNOWN, page.text);
    assert.match(page.text, /http-equiv="refresh" content="\d+"/);
    assert.match(page.text, /will not be charged twice/);
    assert.equal(heading(await pay(other, OTHER_GOOD)), UNKNOWN);
    assert.equal(heading(await pay(visit)), UNKNOWN);
    await site.simulator.calm();
    const receipt = await until('the receipt', async () => {
      const seen = await visit.visitor.visit(path);
      return heading(seen) === RECEIPT && seen;
    });
    await assertPaidOnce(receipt, { card: GOOD });
  });
});
