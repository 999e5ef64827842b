// The checkout: one order has one page, and is paid once, however many links, tabs, keys and tries it has.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { SIGNING_KEY, startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { conforming } from './support/openapi.mjs';
import { contentOf, expired, sign } from './support/order-link.mjs';
import {
  DECLINED,
  FORM,
  GOOD,
  LINES,
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
const stranger = account(site, 'user-bad-source@example.com');

describe('POST /checkout/sessions', () => {
  test('makes a link, adds the total up, and stores nothing but which link it is', async () => {
    const asked = order({ return_url: 'https://shop.example/thanks?order=1' });
    const made = await makeLink(asked);
    assert.equal(made.status, 201, made.text);
    await withoutEffect(site, async () => {
      const { url, expires_at, ...rest } = made.json();
      assert.deepEqual(rest, {
        object: 'checkout_session',
        order_id: asked.order_id,
        amount: TOTAL,
        currency: 'usd',
        revision: 1,
        locale: 'auto',
        capture: true,
      });
      assert.equal(made.header('location'), url);
      assert.equal(new URL(url).origin, site.url.origin);
      const left_ms = Date.parse(expires_at) - Date.now();
      assert.ok(left_ms > 23.9 * 3_600_000 && left_ms <= 24 * 3_600_000, expires_at);
      const { page } = await open(new URL(url).pathname);
      for (const part of ['Enamel mug', '$14.50', '$29.00', '$0.00', asked.order_id])
        assert.ok(page.text.includes(part), part);
    });
  });

  test('takes a form, too', async () => {
    const made = await merchant.ask('/checkout/sessions', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        order_id: freshKey(),
        currency: 'jpy',
        'lines[0][name]': 'Tea',
        'lines[0][unit_amount]': '500',
        'lines[0][quantity]': '2',
      }).toString(),
    });
    assert.equal(conforming('POST', '/checkout/sessions', made).json().amount, 1000, made.text);
  });

  const wrong = {
    'no parameter at all': [{}, ['order_id', 'currency', 'lines']],
    'a currency that is none': [order({ currency: 'xyz' }), ['currency']],
    'an order id with a space': [order({ order_id: 'a b' }), ['order_id']],
    'no line': [order({ lines: [] }), ['lines']],
    'what is wrong with a line': [
      order({ lines: [...LINES, { name: '', unit_amount: -1, quantity: 0 }] }),
      ['lines[2].unit_amount', 'lines[2].name', 'lines[2].quantity'],
    ],
    'nothing to pay': [order({ lines: [{ name: 'Air', unit_amount: 0, quantity: 9 }] }), ['lines']],
    'less than can be charged': [order({ lines: [{ name: 'A', unit_amount: 49, quantity: 1 }] }), ['lines']],
    'a way back that is no address': [order({ return_url: 'javascript:alert(1)' }), ['return_url']],
    'a way back without paying that is none': [order({ cancel_url: '/cart' }), ['cancel_url']],
    'a revision that is none': [order({ revision: 0 }), ['revision']],
    'a language that its page does not speak': [order({ locale: 'de-AT' }), ['locale']],
    'what it does not know': [order({ amount: 1 }), ['amount']],
    'a link that would be too long': [
      order({ lines: Array(20).fill({ name: '長'.repeat(120), unit_amount: 100, quantity: 1 }) }),
      ['lines'],
    ],
  };
  for (const [what, [body, fields]] of Object.entries(wrong)) {
    test(`names ${what}`, async () => {
      const answer = await withoutEffect(site, () => makeLink(body));
      assert.equal(answer.status, 422, answer.text);
      assert.equal(answer.json().type, '/problems/invalid-parameters');
      assert.deepEqual(
        answer
          .json()
          .errors.map(({ field }) => field)
          .sort(),
        [...fields].sort(),
      );
    });
  }

  test('is for accounts: nobody else sells', async () => {
    const body = JSON.stringify(order());
    const headers = { 'content-type': 'application/json' };
    for (const more of [{}, { authorization: 'Bearer nobody@example.com' }]) {
      const init = { method: 'POST', headers: { ...headers, ...more }, body };
      const answer = await read(await site.fetch('/checkout/sessions', init));
      assert.equal(conforming('POST', '/checkout/sessions', answer).status, 401);
    }
    const get = conforming('GET', '/checkout/sessions', await merchant.ask('/checkout/sessions'));
    assert.equal(get.status, 405);
    assert.equal(get.header('allow'), 'POST, OPTIONS');
    const broken = await merchant.post('/checkout/sessions', '{');
    assert.equal(conforming('POST', '/checkout/sessions', broken).status, 400);
  });
});

describe('GET /checkout', () => {
  test('makes another order for each visitor, and stores nothing', async () => {
    await withoutEffect(site, async () => {
      const [one, other] = [await browser(site).visit('/checkout'), await browser(site).visit('/checkout')];
      assert.equal(one.status, 303);
      assert.notEqual(one.header('location'), other.header('location'));
      const { page } = await open(one.header('location'));
      assert.ok(page.text.includes('$54.50'));
      assert.equal(page.header('cache-control'), 'private, no-store');
    });
  });

  test('its order is paid like any other', async () => {
    const visitor = browser(site);
    const made = await visitor.visit('/checkout');
    await assertPaidOnce(await pay(await open(made.header('location'), visitor)), { total: 5450 });
  });
});

describe('an order', () => {
  test('is paid, and its page is the receipt from then on', async () => {
    const visit = await open(await newOrder({ return_url: 'https://shop.example/thanks?a=1&b=2' }));
    const receipt = await pay(visit);
    await assertPaidOnce(receipt, { card: GOOD });
    assert.match(receipt.text, /<dt>Card<\/dt><dd>Visa ···· 4242<\/dd>/);
    const [, back] = /href="(https:\/\/shop\.example[^"]*)"/.exec(receipt.text);
    const told = Object.fromEntries(new URL(back.replaceAll('&#38;', '&')).searchParams);
    const order_id = contentOf(visit.path)[1];
    const payment = paymentOf(receipt);
    const expected = {
      a: '1',
      b: '2',
      payment,
      order_id,
      amount: `${TOTAL}`,
      currency: 'usd',
      revision: '1',
    };
    assert.deepEqual(told, expected, 'the way back');
    const again = await browser(site).visit(visit.path);
    assert.equal(again.text, receipt.text, 'whoever has the link sees it');
  });

  test('the same form again: the same answer, and one charge', async () => {
    const visit = await open(await newOrder());
    const sent = { ...visit.form, payment_method: GOOD };
    const first = await visit.visitor.send(visit.path, sent);
    const second = await visit.visitor.send(visit.path, sent);
    assert.equal(first.header('idempotent-replayed'), null);
    assert.equal(second.header('idempotent-replayed'), 'true');
    assert.equal(second.header('original-request'), first.header('request-id'));
    assert.equal(second.header('location'), first.header('location'));
    const payment = await assertPaidOnce(await visit.visitor.follow(second));
    assert.equal((await site.simulator.payments(payment)).length, 1, 'Stripe was asked once');
  });

  test('the same form with another card: what was paid is shown', async () => {
    const visit = await open(await newOrder());
    await pay(visit, GOOD);
    const edited = await visit.visitor.send(visit.path, { ...visit.form, payment_method: OTHER_GOOD });
    assert.equal(edited.header('location'), `${visit.path}?edited`);
    const shown = await visit.visitor.visit(edited.header('location'));
    assert.equal(shown.header('location'), visit.path, 'the address of an order is one');
    await assertPaidOnce(await visit.visitor.follow(shown), { card: GOOD });
  });

  test('two tabs with two keys, at once: one charge, and both see the one receipt', async () => {
    const path = await newOrder();
    const [one, other] = [await open(path), await open(path)];
    assert.notEqual(one.form.idempotency_key, other.form.idempotency_key);
    await site.simulator.fault('slow_response', { delay_ms: 200 });
    const [first, second] = await Promise.all([
      one.visitor.send(path, { ...one.form, payment_method: GOOD }),
      other.visitor.send(path, { ...other.form, payment_method: OTHER_GOOD }),
    ]);
    assert.deepEqual([first.status, second.status], [303, 303]);
    const seen = await until('both see the receipt', async () => {
      const pages = [await browser(site).visit(path), await other.visitor.follow(second)];
      return pages.every((page) => heading(page) === RECEIPT) && pages;
    });
    assert.equal(await assertPaidOnce(seen[0]), await assertPaidOnce(seen[1]));
  });

  test('the control: two keys for two orders are two charges', async () => {
    const receipts = [];
    for (const path of [await newOrder(), await newOrder()]) receipts.push(await pay(await open(path)));
    const [one, other] = [await assertPaidOnce(receipts[0]), await assertPaidOnce(receipts[1])];
    assert.notEqual(one, other);
  });

  test('a tab that was left open: paying there shows the receipt', async () => {
    const path = await newOrder();
    const [one, other] = [await open(path), await open(path)];
    const payment = await assertPaidOnce(await pay(one));
    assert.equal(await assertPaidOnce(await pay(other, OTHER_GOOD), { card: GOOD }), payment);
  });

  test('two links to one order: one charge', async () => {
    const order_id = freshKey();
    const links = [await newOrder({ order_id }), await newOrder({ order_id })];
    const [one, other] = [await open(links[0]), await open(links[1])];
    const payment = await assertPaidOnce(await pay(one));
    assert.equal(await assertPaidOnce(await pay(other)), payment);
  });

  test('paid by the API is paid: the form shows the receipt', async () => {
    const asked = order();
    const path = new URL((await makeLink(asked)).json().url).pathname;
    const visit = await open(path);
    const { order_id, currency } = asked;
    const paid = await merchant.pay({ order_id, currency, amount: TOTAL, payment_method: GOOD }, freshKey());
    assert.equal(paid.status, 201, paid.text);
    assert.equal(await assertPaidOnce(await pay(visit)), paid.json().id);
  });

  test('what the merchant gives back is on the receipt', async () => {
    const visit = await open(await newOrder());
    const payment = await assertPaidOnce(await pay(visit));
    const refund = await merchant.post(`/payments/${payment}/refunds`, { amount: 900 });
    assert.equal(refund.status, 201, refund.text);
    const page = await visit.visitor.visit(visit.path);
    for (const part of ['−$9.00', '$20.00']) assert.ok(page.text.includes(part), part);
  });
});

describe('a declined order', () => {
  test('keeps its reason and its card under a fresh key, and is paid with another card', async () => {
    const visit = await open(await newOrder());
    const declined = await pay(visit, DECLINED);
    assert.equal(heading(declined), FORM);
    assert.match(declined.text, /role="alert"[^]*Your card was declined/);
    assert.equal(declined.text.match(/Nothing was charged/g).length, 1);
    assert.equal(declined.entries.payment_method, DECLINED);
    assert.notEqual(declined.entries.idempotency_key, visit.form.idempotency_key);

    const replayed = await visit.visitor.send(visit.path, { ...visit.form, payment_method: DECLINED });
    assert.equal(replayed.header('idempotent-replayed'), 'true', 'the used key stands for its refusal');

    const receipt = await pay({ ...visit, form: declined.entries }, OTHER_GOOD);
    const payment = await assertPaidOnce(receipt, { card: OTHER_GOOD });
    const { attempt, status } = (await merchant.ask(`/payments/${payment}`)).json();
    assert.deepEqual({ attempt, status }, { attempt: 2, status: 'succeeded' });

    const late = await visit.visitor.send(visit.path, { ...visit.form, payment_method: DECLINED });
    await assertPaidOnce(await visit.visitor.follow(late), { card: OTHER_GOOD });
  });

  test('two tabs that try again at once, with two keys: one charge', async () => {
    const visit = await open(await newOrder());
    await pay(visit, DECLINED);
    const [one, other] = [await open(visit.path), await open(visit.path)];
    await site.simulator.fault('slow_response', { delay_ms: 200 });
    await Promise.all(
      [one, other].map(({ visitor, path, form }) => visitor.send(path, { ...form, payment_method: GOOD })),
    );
    const seen = await until('the receipt', async () => {
      const page = await browser(site).visit(visit.path);
      return heading(page) === RECEIPT && page;
    });
    await assertPaidOnce(seen);
  });
});

describe('the shop', () => {
  test('is named above the order and on the receipt, which says whom to ask', async () => {
    const opened = await open(await newOrder());
    assert.match(
      opened.page.text,
      /<p class="shop"><img class="logo" src="\/assets\/lift-off\.svg" alt="Lift-off Supplies"/,
    );
    const receipt = await pay(opened);
    assert.match(
      receipt.text,
      /<p class="shop"><img class="logo" src="\/assets\/lift-off\.svg" alt="Lift-off Supplies"/,
    );
    assert.match(receipt.text, /href="mailto:help@lift-off\.example"/);
  });

  test('shows its pictures: from their hosts alone, which learn nothing, and in no email', async () => {
    const image_url = 'https://cdn.shop.example/mug.png?w=112';
    const lines = [{ ...LINES[0], image_url }, LINES[1]];
    const opened = await open(await newOrder({ lines }));
    const receipt = await pay(opened);
    const payment = await assertPaidOnce(receipt);
    for (const page of [opened.page, receipt]) {
      const [picture, ...more] = page.text.match(/<img src="https?:[^>]*>/g);
      assert.deepEqual(more, []);
      assert.match(
        picture,
        /src="https:\/\/cdn\.shop\.example\/mug\.png\?w=112" width="56" height="56" alt=""/,
      );
      assert.match(picture, /referrerpolicy="no-referrer"/);
      const policy = page.header('content-security-policy');
      assert.match(policy, /img-src 'self' data: https:\/\/cdn\.shop\.example;/);
      assert.equal(policy.split('https:').length, 2, 'nothing else may be loaded from there');
    }
    await receiptsOf(site, payment);
    const emails = await site.simulator.emails(payment);
    assert.equal(emails.length, 1);
    assert.doesNotMatch(JSON.stringify(emails), /cdn\.shop\.example/);
    const plain = await open(await newOrder());
    assert.doesNotMatch(plain.page.text, /item-picture/);
  });

  test('asks for a picture in vain where its address is none', async () => {
    for (const image_url of [
      'http://cdn.shop.example/a.png',
      '//cdn.shop.example/a',
      'https://a;b/c',
      '/assets/mug.svg',
    ]) {
      const answer = await makeLink(order({ lines: [{ ...LINES[0], image_url }] }));
      assert.equal(answer.status, 422, image_url);
      assert.deepEqual(
        answer.json().errors.map(({ field }) => field),
        ['lines[0].image_url'],
      );
    }
  });

  test('and its page has the files that it asks for', async () => {
    const { page } = await open(
      new URL((await site.fetch('/checkout', { redirect: 'manual' })).headers.get('location'), site.url)
        .pathname,
    );
    const files = [...page.text.matchAll(/(?:href|src)="(\/assets\/(?:checkout\.css|[a-z-]+\.svg))"/g)];
    assert.deepEqual(files.map(([, address]) => address.slice('/assets/'.length)).sort(), [
      'cards.svg',
      'checkout.css',
      'favicon.svg',
      'lift-off.svg',
      'mug.svg',
      'patch.svg',
      'star-map.svg',
    ]);
    for (const [, address] of files) {
      const file = await site.fetch(address);
      assert.equal(file.status, 200, address);
      assert.match(file.headers.get('content-type'), /^(text\/css|image\/svg)/);
      assert.ok((await file.text()).length > 100, address);
    }
  });
});

describe('the receipt of an order', () => {
  test('goes where the form says, also after a decline, and the page says so', async () => {
    const opened = await open(await newOrder());
    assert.equal(opened.form.email, 'you@example.com', 'the demo suggests one');
    const again = await pay({ ...opened, form: { ...opened.form, email: 'ada@example.com' } }, DECLINED);
    assert.equal(again.entries.email, 'ada@example.com', 'another card, the same address');
    const page = await pay({ ...opened, form: again.entries });
    const payment = await assertPaidOnce(page);
    assert.match(page.text, /A receipt goes to ada@example\.com\..*href="\/_sim\/mailbox"/);
    assert.deepEqual(await receiptsOf(site, payment), [`${payment}_receipt_2`], 'of the second try');
    const emails = await site.simulator.emails(payment);
    assert.deepEqual(
      emails.map(({ to, subject }) => [to, subject]),
      [[['ada@example.com'], 'Your receipt: $29.00']],
    );
    const [, reference] = page.text.match(/<dt>Reference<\/dt><dd><code>([0-9A-Z]{4}-[0-9A-Z]{4})</);
    for (const part of ['text', 'html'])
      assert.ok(emails[0][part].includes(reference), `${part} has it, too`);
  });

  test('is not sent if the field is empty', async () => {
    const opened = await open(await newOrder());
    const page = await pay({ ...opened, form: { ...opened.form, email: '' } });
    const payment = await assertPaidOnce(page);
    assert.doesNotMatch(page.text, /A receipt goes to/);
    assert.deepEqual(await receiptsOf(site, payment), []);
  });

  test('to what is no address is asked for again: nothing runs, and what was entered is kept', async () => {
    const { visitor, path, form } = await open(await newOrder());
    const sent = { ...form, email: 'nobody', payment_method: OTHER_GOOD };
    const page = await withoutEffect(site, () => visitor.send(path, sent));
    assert.equal(page.status, 422);
    assert.deepEqual([page.entries.email, page.entries.payment_method], ['nobody', OTHER_GOOD]);
    assert.match(page.text, /<a href="#email">Email must be one address/);
    await assertPaidOnce(await pay({ visitor, path, form: { ...page.entries, email: 'ada@example.com' } }));
  });
});

describe('an expired link', () => {
  test('is 410 before it is paid, as a page and as a problem, and cannot be paid', async () => {
    const path = await newOrder();
    const visit = await open(path);
    const late = expired(path, SIGNING_KEY);
    await withoutEffect(site, async () => {
      const page = await visit.visitor.visit(late);
      assert.equal(page.status, 410);
      assert.equal(heading(page), 'This link has expired');
      assert.ok(!page.text.includes('<form'));
      const problem = await merchant.ask(late);
      assert.equal(conforming('GET', late, problem).json().type, '/problems/order-link-expired');
      const sent = await visit.visitor.send(late, { ...visit.form, payment_method: GOOD });
      assert.equal(sent.status, 410);
    });
    await assertPaidOnce(await pay(visit));
  });

  test('says first how the last attempt ended', async () => {
    const visit = await open(await newOrder());
    await pay(visit, DECLINED);
    const page = await visit.visitor.visit(expired(visit.path, SIGNING_KEY));
    assert.deepEqual([page.status, heading(page)], [410, 'Your card was declined']);
    assert.match(page.text, /Nothing was charged\. With this link the order cannot be paid any more\./);
    assert.doesNotMatch(page.text, /<form|not paid in time/);
    const problem = await merchant.ask(expired(visit.path, SIGNING_KEY));
    assert.equal(problem.json().type, '/problems/order-link-expired');
  });

  test('still shows what was paid', async () => {
    const visit = await open(await newOrder());
    await pay(visit);
    await assertPaidOnce(await visit.visitor.visit(expired(visit.path, SIGNING_KEY)));
  });
});

describe('a stranger', () => {
  const refused = async (path) => {
    const page = await browser(site).visit(path);
    assert.equal(page.status, 404, path);
    assert.match(heading(page), /nothing here/i);
    assert.ok(!page.text.includes('<form'));
    const problem = await merchant.ask(path);
    assert.equal(conforming('GET', path, problem).json().type, '/problems/not-found');
    const sent = await browser(site).send(path, { payment_method: GOOD, idempotency_key: freshKey() });
    assert.equal(sent.status, 404);
  };

  test('cannot make or change a link', async () => {
    const path = await newOrder();
    const [payload, signature] = path.split('/')[2].split('.');
    const cheaper = contentOf(path);
    cheaper[4] = [['Enamel mug', 100, 1]];
    await withoutEffect(site, async () => {
      await refused(`/checkout/${Buffer.from(JSON.stringify(cheaper)).toString('base64url')}.${signature}`);
      await refused(sign(cheaper, 'another key of somebody else, long enough'));
      await refused(`/checkout/${payload}`);
      await refused(`/checkout/${payload}.`);
      await refused(`/checkout/${payload.slice(1)}.${signature}`);
      await refused(`${path}x`);
      await refused('/checkout/order');
      await refused(`/checkout/${'a'.repeat(7000)}`);
    });
    assert.equal(
      (await browser(site).visit(sign(cheaper, SIGNING_KEY))).status,
      200,
      'the control: signed, it is taken',
    );
  });

  test('of an account that is not there any more cannot be paid', async () => {
    const content = contentOf(await newOrder());
    content[2] = 'nobody@example.com';
    await withoutEffect(site, () => refused(sign(content, SIGNING_KEY)));
  });

  test('sees nothing of the payment: it is the merchant’s', async () => {
    const visit = await open(await newOrder());
    const payment = await assertPaidOnce(await pay(visit));
    assert.equal((await merchant.ask(`/payments/${payment}`)).json().order_id, contentOf(visit.path)[1]);
    assert.equal((await stranger.ask(`/payments/${payment}`)).status, 404);
    assert.equal((await stranger.post(`/payments/${payment}/refunds`, {}, freshKey())).status, 404);
    const visitor = browser(site);
    for (const path of [`/payments/${payment}`, `/idempotency-keys/${visit.form.idempotency_key}`])
      assert.equal((await visitor.visit(path)).status, 404, path);
  });

  test('finds neither a link nor the key of a form in the logs', async () => {
    const visit = await open(await newOrder());
    await pay(visit);
    const logs = JSON.stringify(site.logs());
    for (const secret of [visit.path.split('/')[2], visit.form.idempotency_key])
      assert.ok(!logs.includes(secret), secret);
  });

  test('has other orders, also of the same id', async () => {
    const order_id = freshKey();
    const visit = await open(await newOrder({ order_id }));
    const payment = await assertPaidOnce(await pay(visit));
    const made = await stranger.post('/checkout/sessions', order({ order_id }));
    const theirs = await open(new URL(made.json().url).pathname);
    assert.notEqual(await assertPaidOnce(await pay(theirs)), payment);
  });
});

describe('a form', () => {
  test('of another order, of no order or without its key runs nothing, and a fresh one is offered', async () => {
    const [one, other] = [await open(await newOrder()), await open(await newOrder())];
    for (const idempotency_key of [other.form.idempotency_key, freshKey(), undefined]) {
      const sent = idempotency_key ? { idempotency_key } : {};
      const again = await withoutEffect(site, () =>
        one.visitor.send(one.path, { ...sent, payment_method: OTHER_GOOD }),
      );
      assert.equal(again.status, 409, again.text);
      assert.match(again.text, /This form cannot be used here/);
      assert.equal(again.entries.payment_method, OTHER_GOOD, 'the choice is kept');
      assert.notEqual(again.entries.idempotency_key, idempotency_key);
    }
    await assertPaidOnce(await pay(one));
  });

  test('of another site is refused', async () => {
    const visit = await open(await newOrder());
    const sent = { ...visit.form, payment_method: GOOD };
    await withoutEffect(site, async () => {
      const answer = await visit.visitor.send(visit.path, sent, { origin: 'https://evil.example' });
      assert.equal(answer.status, 403);
    });
    // Ours, in a browser that is told to name nobody.
    const unnamed = { origin: 'null', 'sec-fetch-site': 'same-origin' };
    assert.equal((await visit.visitor.send(visit.path, sent, unnamed)).status, 303);
  });

  test('with a card that is none, or with more than was asked for, is shown again', async () => {
    const visit = await open(await newOrder());
    for (const changes of [{ payment_method: 'pm_of_somebody' }, { amount: '1' }, { another_card: 'x' }]) {
      const again = await withoutEffect(site, () =>
        visit.visitor.send(visit.path, { ...visit.form, payment_method: GOOD, ...changes }),
      );
      assert.equal(again.status, 422, again.text);
      assert.match(again.text, /class="notice/);
    }
    await assertPaidOnce(await pay(visit));
  });

  test('loads nothing from elsewhere where the cards are the demo’s', async () => {
    const { page } = await open(await newOrder());
    assert.doesNotMatch(page.header('content-security-policy'), /stripe|https:/);
    assert.doesNotMatch(page.text, /stripe\.com/);
    assert.match(page.text, /Visa ···· 4242/);
  });
});

describe('with a publishable key', () => {
  const KEY = 'pk_test_of_the_tests';
  let cards;
  const started = startSite({ vars: { STRIPE_PUBLISHABLE_KEY: KEY } });
  after(async () => (await started).close());

  test('the card is typed into Stripe’s Payment Element, and only that page may load it', async () => {
    cards = await started;
    const visitor = browser(cards);
    const made = await visitor.visit('/checkout');
    const path = made.header('location');
    const page = await visitor.visit(path);
    const policy = page.header('content-security-policy');
    for (const part of [/script-src 'self' https:\/\/js\.stripe\.com/, /frame-src https:\/\/js\.stripe\.com/])
      assert.match(policy, part);
    assert.match(policy, /default-src 'none'/);
    assert.match(page.text, new RegExp(`id="card-element"[^>]* data-key="${KEY}"`));
    assert.match(page.text, /data-amount="5450" data-currency="usd"/);
    assert.deepEqual(Object.keys(page.entries).sort(), ['email', 'idempotency_key', 'payment_method']);
    assert.ok(!page.text.includes('4242'));

    const empty = await visitor.send(path, page.entries);
    assert.equal(empty.status, 422, 'without JavaScript there is no card');
    assert.match(empty.text, /none was sent, because the card form had not loaded/);
    assert.match(empty.header('content-security-policy'), /js\.stripe\.com/);

    const paid = await visitor.send(path, { ...empty.entries, payment_method: 'pm_card_visa' });
    assert.equal(paid.status, 303, paid.text);
    const receipt = await visitor.follow(paid);
    assert.equal(heading(receipt), RECEIPT);
    for (const other of [receipt, await visitor.visit('/')])
      assert.doesNotMatch(other.header('content-security-policy'), /stripe/);
  });
});
