// People who mean harm, at the checkout. Each attack has its control: the same steps where they may succeed, so that what is
// refused is the attack and not a mistake of the test.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { startSite } from './support/harness.mjs';
import { conforming } from './support/openapi.mjs';

const GOOD = 'pm_card_visa';
const BANK = 'pm_card_authenticationRequired';
const LINES = [{ name: 'Enamel mug', unit_amount: 2500, quantity: 1 }];
const BACK_AT_THE_SHOP = 'Please return to the shop';

const heading = ({ text }) => /<h1>([^<]*)/.exec(text)?.[1];
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
  const site = await startSite({ vars: { PROVIDER_TIMEOUT_MS: '1000', QUIET_MS: '2000' } });
  after(() => site.close());
  afterEach(() => site.simulator.calm());
  const { newOrder, pay } = shop(site);
  const paymentIn = ({ pathname }) => pathname.split('/')[2];

  /** An order at the bank: its page, and the address to which the bank sends the browser back. */
  async function atTheBank() {
    const path = await newOrder();
    const page = await pay(path, BANK);
    assert.equal(heading(page), 'Your bank wants to be sure it is you');
    const [, bank] = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(page.text);
    return { path, back: await site.simulator.wayBack(bank) };
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
    const { back } = await atTheBank();
    const asked = async () =>
      (await site.simulator.requests()).filter(({ method }) => method === 'GET').length;
    const before = await asked();
    for (let i = 0; i < 5; i++) await browser(site).visit(back.pathname);
    assert.equal(await asked(), before);
    await browser(site).visit(`${back.pathname}${back.search}`);
    assert.ok((await asked()) > before);
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
