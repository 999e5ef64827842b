// People who mean harm, at the checkout. Each attack has its control: the same steps where they may succeed, so that what is
// refused is the attack and not a mistake of the test.

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { SIGNING_KEY, shareSite } from './support/harness.mjs';
import { startLimited } from './support/limits.mjs';
import { conforming, readDocument } from './support/openapi.mjs';
import { contentOf, expired, formKey, sign } from './support/order-link.mjs';
import { asksFor, beforeTheAlarm } from './support/polling.mjs';
import { BANK, DECLINED, GOOD, heading } from './support/shopper.mjs';

const LINES = [{ name: 'Enamel mug', unit_amount: 2500, quantity: 1 }];
const BACK_AT_THE_SHOP = 'Please return to the shop';

/** A page without what differs from one request to the next. */
const face = ({ status, text }) => ({ status, text: text.replace(/req_[\w-]+/g, '') });

/** A shop at a site: makes orders and looks at what was asked of the bank. */
function shop(site) {
  const merchant = account(site);
  const order = (more) => ({ order_id: freshKey(), currency: 'usd', lines: LINES, ...more });
  const link = async (body) => {
    const made = await merchant.post('/checkout/sessions', body);
    assert.equal(made.status, 201, made.text);
    return new URL(made.json().url).pathname;
  };
  const follow = async (visitor, answer) => {
    let at = answer;
    while (at.status === 303) at = await visitor.visit(at.header('location'));
    return at;
  };
  return {
    merchant,
    order,
    link,
    follow,
    newOrder: (more) => link(order(more)),
    /** Opens the order's form and pays with this card. */
    async pay(path, card = GOOD, visitor = browser(site)) {
      const { entries } = await visitor.visit(path);
      assert.ok(entries, 'a form');
      return follow(visitor, await visitor.send(path, { ...entries, payment_method: card }));
    },
  };
}

describe('whoever knows a payment’s id', async () => {
  const site = await shareSite({ vars: { PROVIDER_TIMEOUT_MS: '1000', QUIET_MS: '2000' } });
  before(() => readDocument(site));
  after(() => site.close());
  afterEach(() => site.simulator.calm());
  const { newOrder, pay } = shop(site);
  const paymentIn = ({ pathname }) => pathname.split('/')[2];

  /** An order at the bank: its page, the bank's, and the address to which the bank sends the browser back. */
  async function atTheBank() {
    const path = await newOrder();
    const page = await pay(path, BANK);
    assert.equal(heading(page), 'Your bank wants to be sure it is you');
    const [, bank] = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(page.text);
    return { path, bank, back: await site.simulator.wayBack(bank) };
  }
  const NO_PAYMENT = `pay_${Buffer.alloc(32, 7).toString('base64url')}`;
  const everyWay = (id, k) => [
    `/payments/${id}/return`,
    `/payments/${id}/return?k=`,
    `/payments/${id}/return?k=${k.slice(0, -1)}${k.endsWith('A') ? 'B' : 'A'}`,
    `/payments/${id}/return?redirect_status=succeeded`,
  ];

  test('learns nothing from the way back: neither the order’s link nor whether it exists', async () => {
    const { path, back } = await atTheBank();
    const other = await atTheBank();
    const k = back.searchParams.get('k');
    await withoutEffect(site, async () => {
      const absent = await browser(site).visit(`/payments/${NO_PAYMENT}/return`);
      assert.equal(absent.status, 404);
      assert.equal(heading(absent), BACK_AT_THE_SHOP);
      const ways = [
        ...everyWay(paymentIn(back), k),
        ...everyWay(NO_PAYMENT, k),
        `/payments/${paymentIn(other.back)}/return?k=${k}`,
        '/payments/x/return',
      ];
      for (const way of ways) {
        const page = await browser(site).visit(way);
        assert.deepEqual(face(page), face(absent), way);
        assert.ok(!page.text.includes(path) && page.header('location') === null, way);
        const problem = conforming('GET', way, await account(site).ask(way));
        assert.equal(problem.status, 404, way);
        assert.equal(problem.json().type, '/problems/not-found');
        assert.ok(!problem.text.includes('/checkout/'), way);
      }
    });
  });

  test('the control: who has come from the bank is led to the order', async () => {
    const { path, back } = await atTheBank();
    const led = await browser(site).visit(`${back.pathname}${back.search}`);
    assert.equal(led.status, 303);
    assert.ok(led.header('location').includes(path));
  });

  test('asks the provider nothing by it; the control: the signed address does', async () => {
    await beforeTheAlarm(async () => {
      const { back, bank } = await atTheBank();
      const before = await asksFor(site, bank);
      for (let i = 0; i < 5; i++) await browser(site).visit(back.pathname);
      const after = await asksFor(site, bank);
      return async () => {
        assert.equal(after, before);
        await browser(site).visit(`${back.pathname}${back.search}`);
        assert.ok((await asksFor(site, bank)) > before);
      };
    });
  });

  test('a way back of a try that led elsewhere leads nowhere any more', async () => {
    const order_id = freshKey();
    const { merchant } = shop(site);
    const payment = { amount: 2500, currency: 'usd', order_id, payment_method: BANK };
    const wayBack = (answer) => site.simulator.wayBack(answer.json().next_action.redirect_to_url.url);
    const first = await merchant.pay({ ...payment, return_url: 'https://shop.example/one' }, freshKey());
    assert.equal(first.json().status, 'requires_action', first.text);
    const old = await wayBack(first);
    assert.equal((await merchant.ask(`${old.pathname}${old.search}`)).status, 303, 'the control');
    const voided = await merchant.post(`/payments/${first.json().id}/void`, undefined, freshKey());
    assert.equal(voided.status, 200, voided.text);
    const second = await merchant.pay({ ...payment, return_url: 'https://shop.example/two' }, freshKey());
    assert.equal(second.json().status, 'requires_action', second.text);
    assert.equal((await merchant.ask(`${old.pathname}${old.search}`)).status, 404);
    const now = await wayBack(second);
    const led = await merchant.ask(`${now.pathname}${now.search}`);
    assert.match(led.header('location'), /^https:\/\/shop\.example\/two\?payment=/);
  });
});

describe('whoever has one link', () => {
  const RATE = 6;
  const PAYMENT = { amount: 2500, currency: 'usd', payment_method: GOOD };

  describe('sends its forms again and again', async () => {
    const site = await startLimited({ RATE_LIMITER: RATE });
    before(() => readDocument(site));
    after(() => site.close());
    const { merchant, newOrder, pay } = shop(site);
    const isOpen = async () => (await merchant.pay(PAYMENT, freshKey())).status === 201;
    const post = (path, body) => browser(site).send(path, body);

    test('and does not stop the shop: what is refused costs the account nothing', async () => {
      const path = await newOrder();
      const { entries } = await browser(site).visit(path);
      await pay(path);
      const late = expired(await newOrder(), SIGNING_KEY);
      for (let i = 0; i < 2 * RATE; i++) {
        await post(path, { ...entries, another_card: String(i) });
        await post(path, { another_card: String(i) });
        await post(path, { ...entries, payment_method: GOOD });
        await post(late, { ...entries, another_card: String(i) });
        await post(late, { another_card: '1' });
      }
      const [{ id }] = (await merchant.ask('/payments?limit=1')).json().data;
      const key = freshKey();
      for (let i = 0; i < 2 * RATE; i++) {
        const refused = await merchant.post(`/payments/${id}/capture`, { amount: 1 }, key);
        assert.equal(refused.status, 409, refused.text);
      }
      assert.ok(await isOpen(), 'the shop sells');
    });

    test('at once, too: of many that want the same only the one that begins is counted', async () => {
      const path = await newOrder();
      const tabs = await Promise.all(Array.from({ length: 2 * RATE }, () => browser(site).visit(path)));
      await Promise.all(tabs.map(({ entries }) => post(path, { ...entries, payment_method: GOOD })));
      assert.ok(await isOpen(), 'the shop sells');
    });

    test('the control: what is begun is counted, and then the shop is closed for a minute', async () => {
      const begun = [];
      for (let i = 0; i <= RATE; i++) begun.push(await isOpen());
      assert.equal(begun.at(-1), false);
    });
  });

  describe('floods the checkout', async () => {
    const LIMIT = 5;
    const from = (address) => ({ 'cf-connecting-ip': address });
    const site = await startLimited({ CHECKOUT_ORDER_LIMITER: LIMIT, CHECKOUT_ADDRESS_LIMITER: 2 * LIMIT });
    before(() => readDocument(site));
    const open = await startLimited({});
    after(async () => {
      await site.close();
      await open.close();
    });
    const post = (at, path, address) => browser(at).send(path, { another_card: '1' }, from(address));

    /** So many are let through, and the next one is held up. */
    async function fill(send, limit) {
      for (let i = 0; i < limit; i++) assert.equal((await send(i)).status, 303);
      assert.equal((await send(limit)).status, 429);
    }

    test('of one order: that order waits, and others are paid', async () => {
      const { newOrder, pay } = shop(site);
      const path = await newOrder();
      await fill((i) => post(site, path, `192.0.2.${i}`), LIMIT);
      await withoutEffect(site, async () => {
        const page = await post(site, path, '192.0.2.99');
        assert.equal(page.status, 429);
        assert.equal(heading(page), 'One moment, please');
        assert.ok(Number(page.header('retry-after')) > 0);
        const problem = await shop(site).merchant.ask(path, { method: 'POST', headers: from('192.0.2.98') });
        assert.equal(problem.json().type, '/problems/rate-limited');
      });
      assert.equal((await browser(site).visit(path)).status, 200, 'it can still be looked at');
      assert.equal(heading(await pay(await newOrder())), 'Thank you for your order');
    });

    test('who only pays late keeps the form that was sent, under its key, and pays with it', async () => {
      const { newOrder } = shop(site);
      const path = await newOrder();
      const buyer = browser(site);
      const { entries } = await buyer.visit(path);
      const sent = { ...entries, payment_method: GOOD, email: 'ada@shop.example' };
      await fill((i) => post(site, path, `198.51.100.${i}`), LIMIT);
      const later = await withoutEffect(site, () => buyer.send(path, sent, from('198.51.100.99')));
      assert.equal(later.status, 429);
      assert.ok(Number(later.header('retry-after')) > 0);
      assert.match(later.text, /class="notice[^]*<p>This was sent too often[^<]*Press Pay again in a minute/);
      assert.deepEqual(
        [later.entries.idempotency_key, later.entries.email],
        [sent.idempotency_key, sent.email],
      );
      const foreign = { ...sent, idempotency_key: freshKey() };
      const page = await withoutEffect(site, () => buyer.send(path, foreign, from('198.51.100.99')));
      assert.deepEqual([page.status, page.entries], [429, undefined], 'no form under a key of nobody’s');
    });

    test('from one address: that address waits, and others pay, of its own network as well', async () => {
      const { newOrder } = shop(site);
      const mallory = '2001:db8:1:2::';
      await fill(async (i) => post(site, await newOrder(), `${mallory}${i}`), 2 * LIMIT);
      const path = await newOrder();
      assert.equal((await post(site, path, `${mallory}ffff`)).status, 429);
      assert.equal((await post(site, path, '2001:db8:1:3::1')).status, 303);
    });

    test('the control: without these buckets nobody is held up', async () => {
      const path = await shop(open).newOrder();
      for (let i = 0; i < 4 * LIMIT; i++)
        assert.equal((await post(open, path, '2001:db8:1:2::1')).status, 303);
    });
  });

  describe('gives up the try of somebody else', async () => {
    const site = await shareSite();
    before(() => readDocument(site));
    after(() => site.close());
    const { newOrder, pay } = shop(site);
    const cancels = async () =>
      (await site.simulator.requests()).filter(({ path }) => path.endsWith('/cancel')).length;

    test('not without the key of the page; the control: with it the try is given up', async () => {
      const path = await newOrder();
      const bank = await pay(path, BANK);
      const elsewhere = await pay(await newOrder(), BANK);
      const keys = [undefined, 'x', freshKey(), elsewhere.entries.idempotency_key];
      for (const key of keys) {
        const body = { another_card: '1', ...(key && { idempotency_key: key }) };
        const sent = await withoutEffect(site, () => browser(site).send(path, body));
        assert.equal(sent.status, 303, sent.text);
        assert.equal(sent.header('location'), `${path}?not_given_up`);
      }
      assert.equal(await cancels(), 0);
      await browser(site).send(path, { ...bank.entries, another_card: '1' });
      assert.equal(await cancels(), 1);
    });

    test('not by a link or a form that has expired, and there is no button for it', async () => {
      const path = await newOrder();
      const bank = await pay(path, BANK);
      const [, address] = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(bank.text);
      const [, , payment] = (await site.simulator.wayBack(address)).pathname.split('/');
      const before = await cancels();
      const late = expired(path, SIGNING_KEY);
      const page = await browser(site).visit(late);
      assert.equal(heading(page), 'Your bank wants to be sure it is you');
      assert.doesNotMatch(page.text, /another_card|another card/);
      for (const [at, expires_at_ms] of [
        [late, Date.now() + 60_000],
        [path, Date.now() - 1],
      ]) {
        const idempotency_key = formKey(at, payment, expires_at_ms, SIGNING_KEY);
        const sent = await browser(site).send(at, { another_card: '1', idempotency_key });
        assert.deepEqual([sent.status, sent.header('location')], [303, `${at}?not_given_up`]);
        const told = await browser(site).visit(sent.header('location'));
        assert.equal(heading(told), 'Your bank wants to be sure it is you');
        assert.match(told.text, /This payment could not be canceled just now/);
        assert.equal(
          /choose “Pay with another card”/.test(told.text),
          at === path,
          'only where there is a button',
        );
        assert.equal(await cancels(), before);
      }
      const idempotency_key = formKey(path, payment, Date.now() + 60_000, SIGNING_KEY);
      await browser(site).send(path, { another_card: '1', idempotency_key });
      assert.equal(await cancels(), before + 1, 'the control: a fresh key gives it up');
    });

    test('nor of a try that there is not', async () => {
      const path = await newOrder();
      const { entries } = await browser(site).visit(path);
      for (const another_card of ['0', '1', '99', '-1', 'x', '4294967296'])
        await withoutEffect(site, () => browser(site).send(path, { ...entries, another_card }));
    });
  });
});

describe('whoever tests stolen cards on one order', async () => {
  const TRIES = 5;
  const site = await shareSite({ vars: { ORDER_TRIES_MAX: String(TRIES), ORDER_TRY_PAUSE_MS: '1' } });
  before(() => readDocument(site));
  const slow = await shareSite();
  const lax = await shareSite({ vars: { ORDER_TRIES_MAX: '1000', ORDER_TRY_PAUSE_MS: '0' } });
  after(() => Promise.all([site, slow, lax].map((one) => one.close())));
  const ENOUGH = 'This order cannot be paid here any more';
  const charges = async (at) => (await at.simulator.ledger()).charges.length;

  test('is stopped after some tries, by a page that says what to do', async () => {
    const { newOrder, pay, merchant } = shop(site);
    const path = await newOrder({ return_url: 'https://shop.example/basket' });
    const tab = (await browser(site).visit(path)).entries;
    let page;
    for (let i = 0; i < TRIES; i++) page = await pay(path, DECLINED);
    assert.equal(page.status, 409);
    assert.equal(heading(page), ENOUGH);
    for (const part of ['Nothing was charged', 'contact the shop', 'href="https://shop.example/basket"'])
      assert.ok(page.text.includes(part), part);
    assert.ok(!page.text.includes('<form'));
    const before = await charges(site);
    const late = await browser(site).send(path, { ...tab, payment_method: GOOD });
    assert.equal(late.status, 409);
    assert.equal(heading(late), ENOUGH);
    assert.equal(await charges(site), before, 'no more cards are asked for');
    const problem = conforming('GET', path, await merchant.ask(path));
    assert.equal(problem.json().type, '/problems/limit-reached');
  });

  test('through the merchant’s own server as well: a clear problem, and another order is paid', async () => {
    const { merchant } = shop(site);
    const payment = { amount: 2500, currency: 'usd', order_id: freshKey(), payment_method: DECLINED };
    const pay = async (more) =>
      conforming('POST', '/payments', await merchant.pay({ ...payment, ...more }, freshKey()));
    for (let i = 0; i < TRIES; i++) assert.equal((await pay()).status, 402);
    const refused = await pay({ payment_method: GOOD });
    assert.equal(refused.status, 409);
    assert.equal(refused.json().type, '/problems/limit-reached');
    assert.equal((await pay({ payment_method: GOOD, order_id: freshKey() })).status, 201);
  });

  test('waits between the tries, longer each time', async () => {
    const { newOrder, pay, merchant } = shop(slow);
    const path = await newOrder();
    const tab = (await browser(slow).visit(path)).entries;
    let page;
    for (let i = 0; i < 3; i++) page = await pay(path, DECLINED);
    assert.match(page.text, /data-wait-ms="1\d{4}">You can try another card in 1\d seconds\.</);
    assert.match(page.text, /Nothing was charged\./);
    assert.doesNotMatch(page.text, /You can try again/, 'not yet');
    const before = await charges(slow);
    const soon = await browser(slow).send(path, { ...tab, payment_method: GOOD });
    assert.equal(soon.status, 429);
    const wait_s = Number(soon.header('retry-after'));
    assert.ok(wait_s > 5 && wait_s <= 15, `${wait_s}`);
    assert.match(
      soon.text,
      /Please wait before the next try[^]*Nothing was charged[^]*You can try another card in/,
    );
    assert.equal(soon.entries.idempotency_key, tab.idempotency_key, 'the key is still free');
    assert.equal(soon.entries.payment_method, GOOD, 'what was entered is kept');
    assert.equal(await charges(slow), before, 'no card was asked for');

    const payment = { amount: 2500, currency: 'usd', order_id: freshKey(), payment_method: DECLINED };
    const ask = async () => conforming('POST', '/payments', await merchant.pay(payment, freshKey()));
    for (let i = 0; i < 3; i++) assert.equal((await ask()).status, 402);
    const refused = await ask();
    assert.equal(refused.status, 429);
    assert.equal(refused.json().type, '/problems/try-too-soon');
    assert.ok(Number(refused.header('retry-after')) > 5);
  });

  test('the control: without the limits every card is asked for', async () => {
    const { newOrder, pay } = shop(lax);
    const path = await newOrder();
    for (let i = 0; i < 3 * TRIES; i++)
      assert.equal(heading(await pay(path, DECLINED)), 'Your order', `${i}`);
    assert.equal(await charges(lax), 3 * TRIES);
    assert.equal(heading(await pay(path, GOOD)), 'Thank you for your order');
  });
});

describe('whoever moves one payment again and again', async () => {
  const KEYS = 8;
  const site = await shareSite({ vars: { KEYS_MAX: String(KEYS) } });
  before(() => readDocument(site));
  const lax = await shareSite();
  after(() => Promise.all([site, lax].map((one) => one.close())));
  /** So many refunds of one cent; gives the last answer. */
  async function refundOften(at, times) {
    const { merchant } = shop(at);
    const paid = await merchant.pay({ amount: 2500, currency: 'usd', payment_method: GOOD }, freshKey());
    const path = `/payments/${paid.json().id}/refunds`;
    const keys = Array.from({ length: times }, freshKey);
    let answer;
    for (const key of keys) answer = conforming('POST', path, await merchant.post(path, { amount: 1 }, key));
    const refunds = (await merchant.ask(path)).json().data.length;
    return { answer, refunds, again: await merchant.post(path, { amount: 1 }, keys[0]) };
  }

  test('is told that there are as many keys as there may be; what was done is still replayed', async () => {
    const { answer, refunds, again } = await refundOften(site, KEYS);
    assert.equal(answer.status, 409);
    assert.equal(answer.json().type, '/problems/limit-reached');
    assert.equal(refunds, KEYS - 1, 'the payment has a key, too');
    assert.equal(again.header('idempotent-replayed'), 'true');
  });

  test('the control: where more are allowed more are made', async () => {
    const { answer, refunds } = await refundOften(lax, KEYS);
    assert.equal(answer.status, 201);
    assert.equal(refunds, KEYS);
  });
});

describe('whoever keeps an old link', async () => {
  const site = await shareSite({ vars: { PROVIDER_TIMEOUT_MS: '1000', QUIET_MS: '2000' } });
  before(() => readDocument(site));
  after(() => site.close());
  const { merchant, newOrder, pay, follow, order } = shop(site);
  const REPLACED = 'This link was replaced by a newer one';
  const ENDED = 'This link was ended by the shop';
  const DEARER = [{ name: 'Enamel mug', unit_amount: 2900, quantity: 1 }];
  const make = async (body) =>
    conforming('POST', '/checkout/sessions', await merchant.post('/checkout/sessions', body));
  const expire = async (order_id) => {
    const path = `/checkout/sessions/${encodeURIComponent(order_id)}/expire`;
    return conforming('POST', path, await merchant.post(path));
  };
  const charges = async () => (await site.simulator.ledger()).charges.length;
  /** The link is 410, as a page and for programs, and its open form charges nothing. */
  async function assertClosed(path, entries, title) {
    const before = await charges();
    const page = await browser(site).visit(path);
    assert.equal(page.status, 410, page.text);
    assert.equal(heading(page), title);
    assert.ok(!page.text.includes('<form'));
    const problem = conforming('GET', path, await merchant.ask(path));
    const kind = title === ENDED ? 'ended' : 'replaced';
    assert.equal(problem.json().type, `/problems/order-link-${kind}`);
    const sent = await browser(site).send(path, { ...entries, payment_method: GOOD });
    assert.equal(sent.status, 410, sent.text);
    assert.equal(heading(sent), title);
    assert.equal(await charges(), before);
  }

  test('does not pay its older price once a newer link was made; the control: until then it does', async () => {
    const order_id = freshKey();
    const old = await newOrder({ order_id });
    const { entries } = await browser(site).visit(old);
    const newer = await newOrder({ order_id, lines: DEARER });
    await assertClosed(old, entries, REPLACED);
    const receipt = await pay(newer);
    assert.equal(heading(receipt), 'Thank you for your order');
    assert.ok(receipt.text.includes('$29.00'));
    assert.equal(
      (await browser(site).visit(old)).status,
      410,
      'nor does it show what was paid through another',
    );
    assert.equal(heading(await pay(await newOrder())), 'Thank you for your order', 'the control');
  });

  test('does not pay after the shop has ended it, however often that is said, and a new link does', async () => {
    const order_id = 'order/42 ends?'.replaceAll(' ', '-') + freshKey();
    const old = await newOrder({ order_id });
    const { entries } = await browser(site).visit(old);
    for (let i = 0; i < 2; i++) {
      const ended = await expire(order_id);
      assert.equal(ended.status, 200, ended.text);
      assert.deepEqual(ended.json(), {
        object: 'checkout_session',
        order_id,
        status: 'expired',
        revision: 1,
      });
    }
    await assertClosed(old, entries, ENDED);
    const anew = await make(order({ order_id }));
    assert.equal(anew.json().revision, 2, 'the same content, and yet a link of its own');
    assert.equal(heading(await pay(new URL(anew.json().url).pathname)), 'Thank you for your order');
    const late = await expire(order_id);
    assert.equal(late.status, 409);
    assert.equal(late.json().type, '/problems/payment-state');
    assert.equal(late.json().state, 'succeeded');
  });

  test('nor one of before there were revisions, which nothing was kept of', async () => {
    const order_id = freshKey();
    const content = contentOf(await newOrder({ order_id: freshKey() })).slice(0, 7);
    const old = sign([1, order_id, ...content.slice(2)], SIGNING_KEY);
    const { entries, status } = await browser(site).visit(old);
    assert.equal(status, 200, 'the control: it can be paid as long as there is no newer one');
    await expire(order_id);
    await assertClosed(old, entries, ENDED);
    await newOrder({ order_id });
    await assertClosed(old, entries, REPLACED);
  });

  test('cannot be made the newest again: a lower revision is refused, and so is its content under a used one', async () => {
    const order_id = freshKey();
    assert.equal((await make(order({ order_id, revision: 5 }))).json().revision, 5);
    assert.equal((await make(order({ order_id, revision: 5 }))).status, 201, 'the same link, again');
    for (const body of [{ revision: 4 }, { revision: 5, lines: DEARER }]) {
      const refused = await make(order({ order_id, ...body }));
      assert.equal(refused.status, 409, refused.text);
      assert.equal(refused.json().type, '/problems/order-link-revision');
      assert.equal(refused.json().revision, 5);
    }
    assert.equal(
      (await make(order({ order_id }))).json().revision,
      5,
      'without one: it is the newest already',
    );
    assert.equal((await make(order({ order_id, lines: DEARER }))).json().revision, 6);
    const tooLong = Array(20).fill({ name: '長'.repeat(120), unit_amount: 100, quantity: 1 });
    assert.equal((await make(order({ order_id, lines: tooLong, revision: 9 }))).status, 422);
    assert.equal(
      (await make(order({ order_id, lines: DEARER }))).json().revision,
      6,
      'it has replaced nothing',
    );
  });

  test('does not stop a payment that is under way: that is paid, and told with its amount and revision', async () => {
    const order_id = freshKey();
    const old = await newOrder({ order_id, return_url: 'https://shop.example/thanks' });
    const bank = await pay(old, BANK);
    const [, url] = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(bank.text);
    const newer = await newOrder({ order_id, lines: DEARER });
    assert.equal((await expire(order_id)).status, 200);
    const seen = await browser(site).visit(newer);
    assert.equal(seen.status, 410, 'ended, and nothing of its own is under way');
    const visitor = browser(site);
    const decided = await visitor.send(`${new URL(url).pathname}/accept`, {});
    const receipt = await follow(visitor, await visitor.visit(decided.header('location')));
    assert.equal(heading(receipt), 'Thank you for your order');
    const [, back] = /href="(https:\/\/shop\.example[^"]*)"/.exec(receipt.text);
    const told = Object.fromEntries(new URL(back.replaceAll('&#38;', '&')).searchParams);
    const { amount, currency, revision } = (await merchant.payment(told.payment)).json();
    assert.deepEqual({ amount, currency, revision }, { amount: 2500, currency: 'usd', revision: 1 });
    const expected = { payment: told.payment, order_id, amount: '2500', currency: 'usd', revision: '1' };
    assert.deepEqual(told, expected);
  });

  test('sees what is really being paid, on the newer link as well', async () => {
    const order_id = freshKey();
    await pay(await newOrder({ order_id }), BANK);
    const page = await browser(site).visit(await newOrder({ order_id, lines: DEARER }));
    assert.equal(heading(page), 'Your bank wants to be sure it is you');
    assert.ok(page.text.includes('$25.00') && !page.text.includes('$29.00'));
  });

  test('of another account ends nothing', async () => {
    const order_id = freshKey();
    const path = await newOrder({ order_id });
    const stranger = account(site, 'user-bad-source@example.com');
    await stranger.post(`/checkout/sessions/${order_id}/expire`);
    assert.equal(heading(await pay(path)), 'Thank you for your order');
    const nobody = await browser(site).send(`/checkout/sessions/${order_id}/expire`, {});
    assert.equal(nobody.status, 401);
  });
});
