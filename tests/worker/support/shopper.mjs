// A shop's order at the checkout, as a person pays it: its link, its form, and what its page shows.

import assert from 'node:assert/strict';
import { after, afterEach } from 'node:test';

import { account, freshKey } from './account.mjs';
import { browser } from './browser.mjs';
import { startSite } from './harness.mjs';
import { conforming, readDocument } from './openapi.mjs';

export const GOOD = 'pm_card_visa';
export const OTHER_GOOD = 'pm_card_mastercard';
export const DECLINED = 'pm_card_visa_chargeDeclined';
export const BANK = 'pm_card_authenticationRequired';
export const LAST4 = { [GOOD]: '4242', [OTHER_GOOD]: '4444', [BANK]: '3184' };

export const LINES = [
  { name: 'Enamel mug', unit_amount: 1450, quantity: 2 },
  { name: 'A sticker, for nothing', unit_amount: 0, quantity: 1 },
];
export const TOTAL = 2900;

export const heading = ({ text }) => /<h1>([^<]*)/.exec(text)?.[1];
export const paymentOf = ({ text }) =>
  /pay_[\w-]{43}/.exec(text)?.[0] ?? assert.fail(`no payment in ${text}`);
export const RECEIPT = 'Thank you for your order';
export const FORM = 'Your order';
export const AT_THE_BANK = 'Your bank wants to be sure it is you';
export const UNKNOWN = 'We are confirming your payment';

/** Times after which what hangs is given up soon. */
const SOON = { PROVIDER_TIMEOUT_MS: '400', QUIET_MS: '900', LEASE_MS: '2000', WAIT_MS: '1500' };

export const order = (more) => ({ order_id: freshKey(), currency: 'usd', lines: LINES, ...more });

/** The site of a file of tests, and whoever pays there. */
export async function startCheckout() {
  const started = startSite({ vars: SOON });
  // Before anything is waited for that other files of the process have made: these would be hooks of the file that made it.
  after(async () => (await started).close());
  afterEach(async () => (await started).simulator.calm());
  const site = await started;
  await readDocument(site);

  const merchant = account(site);
  const makeLink = async (body) =>
    conforming('POST', '/checkout/sessions', await merchant.post('/checkout/sessions', body));
  /** A new order; where its page is. */
  async function newOrder(more) {
    const made = await makeLink(order(more));
    assert.equal(made.status, 201, made.text);
    return new URL(made.json().url).pathname;
  }

  /** Opens an order's form. */
  async function open(path, visitor = browser(site)) {
    const page = await visitor.visit(path);
    assert.equal(page.status, 200, page.text);
    assert.equal(heading(page), FORM);
    return { visitor, path, form: page.entries, page };
  }
  /** Sends the form with this card; gives the page to which it leads. */
  async function pay({ visitor, path, form }, card = GOOD) {
    const sent = await visitor.send(path, { ...form, payment_method: card });
    assert.equal(sent.status, 303, sent.text);
    assert.match(sent.header('location'), /^\/checkout\/[\w-]+\.[\w-]+(\?(continue|other_card))?$/);
    return visitor.follow(sent);
  }
  /** The page is the receipt of the only charge that there is for its payment. */
  async function assertPaidOnce(page, { total = TOTAL, card } = {}) {
    assert.equal(heading(page), RECEIPT, page.text);
    const payment = paymentOf(page);
    const { charges } = await site.simulator.ledger(payment);
    const taken = charges.filter(({ status }) => status === 'succeeded');
    assert.equal(taken.length, 1, JSON.stringify(charges, null, 2));
    assert.equal(taken[0].amount, total);
    if (card) assert.equal(await site.simulator.cardOf(taken[0].payment_intent), LAST4[card]);
    assert.ok(page.text.includes(taken[0].payment_intent), 'its reference');
    return payment;
  }

  return { site, merchant, makeLink, newOrder, open, pay, assertPaidOnce };
}
