// People at the checkout: with JavaScript and without it they press twice, open two tabs, are declined, go to their bank
// and back. The simulator's ledger says how often the card was charged.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { isFirefox } from './support/browsers.mjs';
import { card, focused, key, payButton, ready } from './support/form.mjs';
import { until } from '../worker/support/until.mjs';
import { heading, paidOnce as paidOnceAt, posts } from './support/checkout.mjs';
import { useSite } from './support/site.mjs';

const site = useSite();

const receipt = (page) => heading(page, 'Thank you for your order');
const atTheBank = (page) => heading(page, '3-D Secure');
const paidOnce = (page, amount) => paidOnceAt(site, page, amount);

/** An order of two mugs, of which the shop has a picture. */
async function pictured() {
  const image_url = 'https://cdn.shop.example/mug.svg';
  const lines = [{ name: 'Enamel mug', unit_amount: 1450, quantity: 2, image_url }];
  const made = await fetch(new URL('/checkout/sessions', site.origin), {
    method: 'POST',
    headers: { authorization: 'Bearer user@example.com', 'content-type': 'application/json' },
    body: JSON.stringify({ order_id: crypto.randomUUID(), currency: 'usd', lines }),
  });
  return new URL((await made.json()).url).pathname;
}

test('a picture that does not load leaves its room empty, and the order is paid', async (t) => {
  const path = await pictured();
  const seen = async (answer) => {
    const { page, context } = await site.visit(t, { javaScriptEnabled: false });
    const asked = [];
    await context.route('https://cdn.shop.example/**', (route) => {
      asked.push(route.request().headers());
      return answer(route);
    });
    await page.goto(path);
    const box = await page.locator('.item-picture').boundingBox();
    const total = await page.locator('.order-lines tfoot').boundingBox();
    return {
      page,
      asked,
      box,
      total,
      width: await page.locator('.item-picture img').evaluate((img) => img.naturalWidth),
    };
  };
  const body =
    '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="100"><rect width="400" height="100"/></svg>';
  const shown = await seen((route) => route.fulfill({ contentType: 'image/svg+xml', body }));
  const lost = await seen((route) => route.abort('failed'));
  assert.deepEqual([shown.width, lost.width], [400, 0], 'one loads, the other does not');
  assert.deepEqual([shown.box.width, shown.box.height], [56, 56]);
  assert.deepEqual([lost.box, lost.total], [shown.box, shown.total], 'nothing moves');
  assert.equal(shown.asked.length, 1);
  if (!isFirefox) assert.equal(shown.asked[0].referer, undefined, 'the address of the order stays here');
  await payButton(lost.page).click();
  await paidOnce(lost.page, 2900);
});

for (const javaScriptEnabled of [true, false]) {
  describe(javaScriptEnabled ? 'with JavaScript' : 'without JavaScript', () => {
    /** Somebody with a cart before them. */
    async function visit(t, more) {
      const visitor = await site.visit(t, { javaScriptEnabled, ...more });
      await visitor.page.goto('/checkout');
      await ready(visitor.page);
      return visitor;
    }
    /** The same order in another tab. */
    async function another({ page, context }) {
      const tab = await context.newPage();
      await tab.goto(page.url());
      await ready(tab);
      assert.notEqual(await key(tab), await key(page), 'another key');
      return tab;
    }

    test('from the home page to the receipt, which charges nothing when it is loaded again', async (t) => {
      const { page } = await site.visit(t, { javaScriptEnabled });
      await page.goto('/');
      await page.getByRole('link', { name: 'Check out a small cart' }).click();
      await ready(page);
      const total = page.getByRole('row', { name: 'Total' });
      assert.match(await total.innerText(), /\$54\.50/);
      await payButton(page).click();
      const shown = await paidOnce(page);
      for (const part of ['Enamel mug', '$54.50', 'paid']) assert.ok(shown.includes(part), part);
      for (let i = 0; i < 2; i++) {
        assert.equal((await page.reload()).request().method(), 'GET');
        assert.equal(await paidOnce(page), shown);
      }
    });

    test('a double click pays once', async (t) => {
      const { page } = await visit(t);
      await site.fault('slow_response', { delay_ms: 300 });
      const sent = posts(page);
      await payButton(page).dblclick();
      await paidOnce(page);
      if (javaScriptEnabled) assert.equal(sent.length, 1, 'the button cannot be pressed twice');
    });

    if (javaScriptEnabled)
      test('whoever pays by the keyboard is at the button then', async (t) => {
        const { page } = await visit(t);
        await page.route('**/checkout/*', (route) =>
          route.request().method() === 'POST' ? undefined : route.fallback(),
        );
        await card(page, 'good').focus();
        await page.keyboard.press('Enter');
        await page.getByText('This can take a few seconds.').waitFor();
        assert.equal(await card(page, 'good').isDisabled(), true);
        await focused(payButton(page));
      });

    if (javaScriptEnabled)
      test('the button says that it pays, and keeps its lock', async (t) => {
        const { page } = await visit(t);
        const pressed = await payButton(page).evaluate((button) => {
          button.click();
          return [button.textContent, button.querySelectorAll('svg').length];
        });
        assert.deepEqual(pressed, ['Paying…', 1]);
        await paidOnce(page);
      });

    test('two tabs with two keys, paid in both at once: one charge, and the receipt in both', async (t) => {
      const visitor = await visit(t);
      const tabs = [visitor.page, await another(visitor)];
      await site.fault('slow_response', { delay_ms: 400 });
      await Promise.all(tabs.map((tab) => payButton(tab).click({ noWaitAfter: true })));
      assert.equal(await paidOnce(tabs[0]), await paidOnce(tabs[1]));
    });

    test('a tab that was left open shows the receipt when it is paid', async (t) => {
      const visitor = await visit(t);
      const tab = await another(visitor);
      await payButton(visitor.page).click();
      const shown = await paidOnce(visitor.page);
      await card(tab, 'otherGood').check();
      await payButton(tab).click();
      assert.equal(await paidOnce(tab), shown);
    });

    test('back from the receipt: the order is not paid again', async (t) => {
      const { page } = await visit(t, { backForwardCache: true });
      await payButton(page).click();
      await paidOnce(page);
      const order = page.url();
      await page.goBack({ waitUntil: 'commit' });
      if (page.url() === order) {
        // The old form, or what the server shows there now.
        const form = payButton(page);
        await form.or(page.getByText('Thank you for your order')).waitFor();
        if (!javaScriptEnabled && (await form.isVisible())) await form.click();
        await paidOnce(page);
      }
      assert.equal((await site.charges()).length, 1);
    });

    test('declined, and then paid with another card', async (t) => {
      const { page } = await visit(t);
      const used = await key(page);
      await card(page, 'poor').check();
      await payButton(page).click();
      const alert = page.getByRole('alert');
      await alert.getByText('Your card was declined').waitFor();
      await focused(alert);
      assert.match(await alert.innerText(), /insufficient funds/i);
      assert.match(await page.title(), /declined/);
      assert.ok(await card(page, 'poor').isChecked(), 'the card that was chosen');
      assert.notEqual(await key(page), used);
      await site.nothingCharged();
      await card(page, 'good').check();
      await payButton(page).click();
      await paidOnce(page);
    });

    test('to the bank and back', async (t) => {
      const { page } = await visit(t);
      await card(page, 'bank').check();
      await payButton(page).click();
      await atTheBank(page);
      await site.nothingCharged();
      await page.getByRole('button', { name: 'Complete' }).click();
      await paidOnce(page);
    });

    test('to the bank, which says no, and then with another card', async (t) => {
      const { page } = await visit(t);
      await card(page, 'bank').check();
      await payButton(page).click();
      await atTheBank(page);
      await page.getByRole('button', { name: 'Fail' }).click();
      await page.getByRole('alert').getByText('Nothing was charged').waitFor();
      await site.nothingCharged();
      await card(page, 'good').check();
      await payButton(page).click();
      await paidOnce(page);
    });

    test('away from the bank, and then with another card', async (t) => {
      const { page } = await visit(t);
      const order = page.url();
      await card(page, 'bank').check();
      await payButton(page).click();
      await atTheBank(page);
      const bank = page.url();
      await page.goto(order);
      await heading(page, 'Your bank wants to be sure it is you');
      await page.getByRole('button', { name: 'Pay with another card' }).click();
      await page.getByText('That payment was canceled').waitFor();
      await card(page, 'good').check();
      await payButton(page).click();
      const shown = await paidOnce(page);
      await page.goto(bank);
      await page.getByText('canceled').waitFor();
      await page.goto(order);
      assert.equal(await paidOnce(page), shown);
    });

    test('away from the bank, and back to it', async (t) => {
      const { page } = await visit(t);
      const order = page.url();
      await card(page, 'bank').check();
      await payButton(page).click();
      await atTheBank(page);
      await page.goto(order);
      await page.getByRole('link', { name: 'Continue to your bank' }).click();
      await atTheBank(page);
      await page.getByRole('button', { name: 'Complete' }).click();
      await paidOnce(page);
    });

    test('an answer that is lost: the page waits for the outcome, and shows the receipt by itself', async (t) => {
      const { page } = await visit(t);
      await site.fault('response_lost', { count: 1000 });
      await payButton(page).click();
      await heading(page, 'We are confirming your payment');
      await site.calm();
      await paidOnce(page);
    });

    if (!javaScriptEnabled)
      test('the page that waits can be kept from loading itself anew', async (t) => {
        const { page } = await visit(t);
        await site.fault('response_lost', { count: 1000 });
        await payButton(page).click();
        await heading(page, 'We are confirming your payment');
        const reload = page.locator('meta[http-equiv=refresh]');
        assert.equal(await reload.getAttribute('content'), '20');
        await page.getByRole('link', { name: 'Stop reloading' }).click();
        await page.waitForURL(/\?still$/);
        assert.equal(await reload.count(), 0);
        assert.equal(await page.getByText('This page looks again by itself.').isVisible(), false);
        await site.calm();
        const receipt = page.getByRole('heading', { name: 'Thank you for your order' });
        await until('it is paid', async () => {
          await page.getByRole('link', { name: 'Check now' }).click();
          return (await receipt.count()) > 0;
        });
        await paidOnce(page);
      });
  });
}

test('an order whose earlier try was paid after all is not sent again and again: its page says so', async (t) => {
  const visitor = await site.visit(t);
  const { page } = visitor;
  await page.goto('/checkout');
  await ready(page);
  await card(page, 'poor').check();
  await payButton(page).click();
  await page.getByRole('alert').getByText('Your card was declined').waitFor();
  const old = await visitor.context.newPage();
  await old.goto(page.url());
  await ready(old);

  // Somebody confirms it with another card, and the money cannot be given back yet.
  await site.fault('gateway_error', { path: '/v1/refunds', count: 1000 });
  const { charges } = await site.sim('GET', 'ledger');
  const intent = charges[0].payment_intent;
  await site.stripe(`payment_intents/${intent}/confirm`, 'payment_method=pm_card_visa');
  const found = "SELECT note FROM breaks WHERE note LIKE '%was taken on try 1%'";
  await until('that is found', async () => (await site.sql(found)).length > 0);

  const sent = posts(page);
  await card(page, 'good').check();
  await payButton(page).click();
  await heading(page, 'An earlier payment is being given back');
  assert.equal(sent.length, 1);
  // As from the back-forward cache, which keeps a page with its form.
  await old.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })));
  await heading(old, 'An earlier payment is being given back');
  const taken = (await site.charges()).map(({ payment_intent }) => payment_intent);
  assert.deepEqual(taken, [intent], 'nothing else is charged');
});

test('back to a form that was not sent: what was entered stays, and is paid with', async (t) => {
  const { page } = await site.visit(t);
  await page.goto('/checkout');
  await ready(page);
  const email = page.getByLabel(/Email/);
  await email.fill('ada@shop.example');
  const used = await key(page);
  const looked = page.waitForResponse((response) => response.url() === page.url());
  // As from the back-forward cache, which keeps a page with its form.
  await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })));
  await looked;
  await page.waitForFunction(() => document.getElementById('pay').ariaDisabled !== 'true');
  assert.deepEqual([await email.inputValue(), await key(page)], ['ada@shop.example', used]);
  await payButton(page).click();
  await paidOnce(page);
});

test('after three declines the next try waits, and so does the button', async (t) => {
  const { page } = await site.visit(t);
  await page.goto('/checkout');
  await ready(page);
  await card(page, 'poor').check();
  for (let tried = 0; tried < 3; tried += 1) {
    const used = await key(page);
    await payButton(page).click();
    await page.waitForFunction(
      (used) => ![used, undefined].includes(document.querySelector('[name=idempotency_key]')?.value),
      used,
    );
  }
  const hint = page.getByText(/You can try another card in \d+ seconds/);
  await hint.waitFor();
  const sent = posts(page);
  const told = await page.evaluate(() => {
    // In one go: on a slow machine the wait may end between two questions.
    const button = document.getElementById('pay');
    const waits = document.querySelector('[data-wait-ms]');
    if (waits) button.click();
    return {
      alert: document.querySelector('[role=alert]').innerText,
      isSaid: !waits || document.getElementById('progress').value === waits.textContent,
      isDescribed: !waits || button.getAttribute('aria-describedby') === waits.id,
    };
  });
  assert.match(told.alert, /Nothing was charged/);
  assert.doesNotMatch(told.alert, /try again/, 'not yet');
  assert.deepEqual([told.isSaid, told.isDescribed], [true, true]);
  await card(page, 'good').check();
  assert.equal(sent.length, 0, 'it waits');
  await page.locator('#progress', { hasText: 'You can try another card now.' }).waitFor();
  assert.equal(await payButton(page).getAttribute('aria-describedby'), null);
  await payButton(page).click(); // once it can be pressed
  await paidOnce(page);
  assert.equal(sent.length, 1);
});

// BiDi does not tell what a request carries, so it cannot be sent on.
test(
  'the page that waits says what is new where it said it before, and that it has no connection',
  { skip: isFirefox },
  async (t) => {
    const { page } = await site.visit(t);
    await page.goto('/checkout');
    await ready(page);
    await site.fault('response_lost', { count: 1000 });
    await payButton(page).click();
    await heading(page, 'We are confirming your payment');
    const status = page.getByRole('status');
    await status.evaluate((node) => (node.isTheSame = true));
    const lost = status.getByText('No connection. This page keeps looking.');
    let answer = (route) => route.abort('failed');
    await page.route('**/checkout/*', (route) => answer(route));
    await lost.waitFor();
    answer = async (route) => {
      const response = await route.fetch();
      const text = await response.text();
      const body = text.replace(/(role="status">\s*<p>)[^<]*/, '$1Something is new.');
      return route.fulfill({ response, body });
    };
    await status.getByText('Something is new.').waitFor();
    assert.equal(await status.evaluate((node) => node.isTheSame), true);
    assert.equal(await lost.count(), 0);
    answer = (route) => route.fallback();
    await site.calm();
    await paidOnce(page);
  },
);

// BiDi does not tell what a request carries, so it cannot be sent on.
test(
  'a lost connection: the form is sent again, and the order is paid once',
  { skip: isFirefox },
  async (t) => {
    const { page } = await site.visit(t);
    await page.goto('/checkout');
    await ready(page);
    let lost = 0;
    await page.route('**/checkout/*', async (route) => {
      if (route.request().method() !== 'POST' || lost++ > 0) return route.fallback();
      await route.fetch({ maxRedirects: 0 }); // it arrives, and its answer does not
      return route.abort('failed');
    });
    await payButton(page).click();
    await paidOnce(page);
    assert.ok(lost > 1);
  },
);

test(
  'a form that may have arrived is sent again as it was: its email cannot be changed',
  { skip: isFirefox },
  async (t) => {
    const { page } = await site.visit(t);
    await page.goto('/checkout');
    await ready(page);
    const email = page.getByLabel(/Email/);
    await email.fill('ada@shop.example');
    await page.clock.install();
    let down = true;
    await page.route('**/checkout/*', (route) =>
      route.request().method() === 'POST' && down ? route.abort('failed') : route.fallback(),
    );
    await payButton(page).click();
    const again = page.getByRole('button', { name: 'Try again' });
    while (!(await again.isVisible())) await page.clock.runFor(10_000);
    assert.equal(await email.isEditable(), false);
    assert.equal(await email.inputValue(), 'ada@shop.example');
    down = false;
    await again.click();
    await paidOnce(page);
    await page.getByText('ada@shop.example').first().waitFor();
  },
);

test('in German, what the scripts say is German, too', { skip: isFirefox }, async (t) => {
  const { page } = await site.visit(t, { locale: 'de-AT' });
  await page.goto('/checkout');
  await ready(page);
  let lost = 0;
  await page.route('**/checkout/*', async (route) => {
    if (route.request().method() !== 'POST' || lost++ > 0) return route.fallback();
    return route.abort('failed');
  });
  const said = page.evaluate(
    () =>
      new Promise((resolve) => {
        const texts = [];
        const button = document.getElementById('pay');
        const output = document.getElementById('progress');
        const note = () => {
          texts.push(button.textContent, output.value);
          if (output.value.startsWith('Verbindung')) resolve(texts);
        };
        new MutationObserver(note).observe(output, { childList: true, characterData: true, subtree: true });
        button.click();
      }),
  );
  const texts = await said;
  assert.ok(texts.includes('Zahlung läuft …'), texts.join('|'));
  assert.ok(texts.includes('Das kann einige Sekunden dauern.'), texts.join('|'));
  await heading(page, 'Vielen Dank für Ihre Bestellung');
  assert.equal(await page.locator('html').getAttribute('lang'), 'de');
  assert.equal((await site.charges()).length, 1);
});
