// Every page in every state. `SCREENSHOTS=1 node tests/browser/pages.test.mjs` leaves pictures of them.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { card, field, intercept, isPost, payButton, sendsAgain, stopClock } from './support/form.mjs';
import { look, sticksNotOut } from './support/look.mjs';
import { expired } from '../worker/support/order-link.mjs';
import { HANGS_AFTER_MS, until } from '../worker/support/until.mjs';
import { SIGNING_KEY, useSite } from './support/site.mjs';

const site = useSite();

/** How to get to each page, by name. */
const pages = {
  home: async (page) => {
    await page.goto('/');
  },

  form: async (page) => {
    await page.goto('/rides/new');
  },

  'form with wrong entries': async (page) => {
    await page.goto('/rides/new');
    await field(page, 'origin_lat').fill('north');
    await field(page, 'target_lon').fill('');
    await payButton(page).click();
    await page.getByRole('alert').waitFor();
  },

  'form without a card': async (page) => {
    await page.goto('/rides/new');
    await card(page, 'good').evaluate((input) => (input.checked = false));
    await payButton(page).click();
    await page.getByRole('alert').waitFor();
  },

  'form that works': async (page) => {
    await page.goto('/rides/new');
    // On its way for as long as the page is looked at: the site itself answers when it has waited long enough.
    await intercept(page, Infinity, () => {});
    const sent = page.waitForRequest(isPost);
    await payButton(page).click();
    await sent;
    await page.getByText('This can take a few seconds.').waitFor();
  },

  'form that lost the connection': async (page) => {
    await losesTheConnection(page);
    await page.clock.resume();
  },

  'form that did not get through': async (page) => {
    await losesTheConnection(page);
    for (let tries = 1; tries < 8; tries++) await sendsAgain(page);
    await page.getByText('We could not get through').waitFor();
    await page.clock.resume();
  },

  'form of another visit': async (page) => {
    await page.goto('/rides/new');
    await page.context().clearCookies();
    await payButton(page).click();
    await page.getByText('This form cannot be used here').waitFor();
  },

  declined: async (page) => {
    await page.goto('/rides/new');
    await card(page, 'declined').check();
    await payButton(page).click();
    await page.getByRole('alert').waitFor();
  },

  'status: under way': async (page) => {
    await page.goto('/rides/new');
    await payButton(page).click();
    await page.getByText('It is on its way').waitFor();
  },

  'status: outcome unknown': async (page) => {
    await page.goto('/rides/new');
    await site.fault('response_lost', { count: 1000 });
    await stayOn(page, 'The bank has not answered yet');
    await payButton(page).click();
    await page.getByText('The bank has not answered yet').waitFor();
  },

  receipt: async (page) => {
    await page.goto('/rides/new');
    await payButton(page).click();
    await page.getByRole('heading', { name: 'Your ride is booked' }).waitFor();
  },

  'receipt after an edit': async (page) => {
    await pages.receipt(page);
    await page.goto(`${page.url()}?edited`);
    await page.getByText('This ride was already booked').waitFor();
  },

  'not found': async (page) => {
    await page.goto('/rides/ride_of-nobody');
  },

  cart: async (page) => {
    await page.goto('/checkout');
  },

  'cart without a card': async (page) => {
    await page.goto('/checkout');
    await card(page, 'good').evaluate((input) => (input.checked = false));
    await payButton(page).click();
    await page.getByRole('alert').waitFor();
  },

  'cart that is declined': async (page) => {
    await page.goto('/checkout');
    await card(page, 'poor').check();
    await payButton(page).click();
    await page.getByRole('alert').waitFor();
  },

  'cart at the bank': async (page) => {
    await page.goto('/checkout');
    const order = page.url();
    await card(page, 'bank').check();
    await payButton(page).click();
    await page.getByRole('button', { name: 'Complete' }).waitFor();
    await page.goto(order);
    await page.getByRole('link', { name: 'Continue to your bank' }).waitFor();
  },

  'cart that was given up': async (page) => {
    await pages['cart at the bank'](page);
    await page.getByRole('button', { name: 'Pay with another card' }).click();
    await page.getByText('That payment was canceled').waitFor();
  },

  'cart: outcome unknown': async (page) => {
    await page.goto('/checkout');
    await site.fault('response_lost', { count: 1000 });
    await stayOn(page, 'The bank has not answered yet', '**/checkout/*');
    await payButton(page).click();
    await page.getByText('The bank has not answered yet').waitFor();
  },

  'cart: receipt': async (page) => {
    await page.goto('/checkout');
    await payButton(page).click();
    await page.getByRole('heading', { name: 'Thank you for your order' }).waitFor();
  },

  'cart: link expired': async (page) => {
    await page.goto('/checkout');
    await page.goto(expired(new URL(page.url()).pathname, SIGNING_KEY));
    await page.getByRole('heading', { name: 'This link has expired' }).waitFor();
  },

  'cart: link changed': async (page) => {
    await page.goto('/checkout');
    await page.goto(page.url().replace('/checkout/', '/checkout/x'));
    await page.getByText('it was changed').waitFor();
  },

  documentation: async (page) => {
    await page.goto('/docs');
    const operation = page.locator('#createPayment');
    const example = operation.getByRole('group', { name: /^Request of / });
    await operation.getByRole('button', { name: /^Copy: Request of / }).waitFor();
    assert.equal(await example.count(), 1);
    assert.equal(await operation.getByRole('region').count(), 0, 'an example is no landmark');
    assert.equal(await page.getByRole('status').count(), 1, 'one place says what was copied');
    await operation
      .getByText(`curl -i ${new URL(page.url()).origin}/payments`)
      .first()
      .waitFor();
    await operation.getByText('Example', { exact: false }).first().click();
  },

  documents: async (page) => {
    await page.goto('/guide');
    await page.getByRole('button', { name: 'Copy' }).first().waitFor();
  },

  'a document': async (page) => {
    await page.goto('/guide/protocol');
    await page
      .getByText(`fetch('${new URL(page.url()).origin}/payments'`)
      .first()
      .waitFor();
  },

  'a document with wide tables': async (page) => {
    await page.goto('/guide/performance');
  },

  lab: async (page) => {
    await page.goto('/lab');
  },

  'lab: the answer was lost': async (page) => {
    await pages.lab(page);
    await break_(page, 'The answer is lost', 'Paid Once: charged once');
  },

  'lab: declined': async (page) => {
    await pages.lab(page);
    await break_(page, 'The bank says no', 'Paid Once: declined once');
  },

  'lab: at the bank': async (page) => {
    await pages.lab(page);
    await break_(page, '3-D Secure', 'Paid Once: waits for you at the bank');
  },

  'a problem explained': async (page) => {
    await page.goto('/problems/outcome-unknown');
  },
};

async function losesTheConnection(page) {
  await page.goto('/rides/new');
  await stopClock(page);
  await intercept(page, Infinity, (route) => route.abort('failed'));
  await payButton(page).click();
  await page.getByText('Connection lost.').waitFor();
}

/** Chooses what goes wrong in the lab, presses, and waits for the verdict. */
async function break_(page, fault, verdict) {
  await page.getByRole('radio', { name: fault }).check();
  await page.getByRole('button', { name: 'Pay $20.00' }).click();
  await page.locator('#verdict:focus').filter({ hasText: verdict }).waitFor();
}

/** Holds the status page back until it says this, and then tells it nothing else when it looks again. */
async function stayOn(page, text, address = '**/rides/ride_*') {
  let isThere = false;
  await page.route(address, async (route) => {
    const isLook = route.request().resourceType() !== 'document';
    if (isLook) return isThere ? route.fulfill({ status: 503 }) : route.continue();
    if (isThere) return route.fulfill({ status: 204 });
    let shown;
    const says = async () => {
      const answer = await page.request.get(route.request().url(), { headers: { accept: 'text/html' } });
      shown = await answer.text();
      return shown.includes(text) && answer;
    };
    const response = await until(() => `it says ${text}: ${shown}`, says, { withinMs: HANGS_AFTER_MS / 2 });
    isThere = true;
    // That answer and no later one: while the bank is asked once more, the page says something else.
    return route.fulfill({ response });
  });
}

/**
 * What a page needs other settings for. A payments API that knows nobody by this token has refused each try for certain: only then it is never
 * in doubt whether one was executed.
 */
const settings = { 'status: under way': { API_TOKEN: 'a-token-of-nobody' } };

for (const [name, go] of Object.entries(pages)) {
  test(name, async (t) => {
    if (settings[name]) {
      await site.configure(settings[name]);
      t.after(() => site.configure({}));
    }
    const { page, context } = await site.visit(t, { reducedMotion: 'reduce' });
    const refused = []; // console errors alone do not show what an eager browser may swallow
    await context.exposeFunction('refused', (violation) => refused.push(violation));
    await context.addInitScript(() =>
      addEventListener('securitypolicyviolation', (event) => window.refused(event.blockedURI)),
    );
    await go(page);

    assert.equal(await page.locator('html').getAttribute('lang'), 'en');
    await look(page, name);
    assert.deepEqual(refused, []);
  });
}

test('a document is read, and its headings found, without any script', async (t) => {
  const { page } = await site.visit(t, { javaScriptEnabled: false, viewport: { width: 390, height: 740 } });
  await page.goto('/guide');
  await page.getByText('All documents').click();
  await page.getByRole('navigation', { name: 'Documents' }).getByRole('link', { name: 'Protocol' }).click();
  await page.getByRole('heading', { level: 1, name: 'The protocol' }).waitFor();
  await page.getByText('On this page').click();
  await page
    .getByRole('navigation', { name: 'On this page' })
    .getByRole('link', { name: 'Quickstart' })
    .click();
  const heading = page.getByRole('heading', { level: 2, name: 'Quickstart' });
  const { y } = await heading.boundingBox();
  assert.ok(y >= 0 && y < 200, `${y} px from the top`);
});

for (const locale of ['en', 'de', 'fr', 'es', 'ja'])
  test(`a receipt is laid out alike in all of its rows, on a phone and on a desk: ${locale}`, async (t) => {
    const { page } = await site.visit(t, { locale });
    await page.goto(await orderPage({ order_id: `order-${crypto.randomUUID()}` }));
    await payButton(page).click();
    await page.locator('.receipt .tick').waitFor();
    await page.locator('.details summary').click();
    // Money that came back, which stands below the total of the order.
    await page.locator('.receipt > .rows').evaluate((rows) => {
      const sum = rows.insertBefore(document.createElement('div'), rows.firstChild);
      for (const [tag, text] of Object.entries({ dt: 'Refunded', dd: '−$4.50' }))
        sum.appendChild(document.createElement(tag)).textContent = text;
    });
    for (const width of [320, 390, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      const rows = await page.locator('.rows > div').evaluateAll((rows) =>
        rows.map((row) => {
          const textOf = (node) => {
            const range = document.createRange();
            range.selectNodeContents(node);
            return range.getBoundingClientRect();
          };
          const [name, value, own] = [...[...row.children].map(textOf), row.getBoundingClientRect()];
          return {
            name: Math.round(name.left - own.left),
            value: Math.round(value.left - own.left),
            end: Math.round(own.right - value.right),
            isBelow: value.top >= name.bottom - 1,
          };
        }),
      );
      const [sum, ...facts] = rows;
      assert.deepEqual([sum.name, sum.end, sum.isBelow], [0, 0, false], `${width}: the sum at the right`);
      assert.equal(facts.length, 6);
      for (const { name, value, isBelow } of facts)
        assert.deepEqual([name, value, isBelow], [0, 0, true], `${width}: ${JSON.stringify(facts)}`);
    }
  });

test('what stands below each other at the checkout does not touch', async (t) => {
  const { page } = await site.visit(t);
  await page.goto(await orderPage());
  const between = async (above, below) => {
    const [upper, lower] = [await page.locator(above).boundingBox(), await page.locator(below).boundingBox()];
    return lower.y - upper.y - upper.height;
  };
  for (const width of [320, 390, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    for (const pair of [
      ['.shop .logo', 'h1'],
      ['#email', '#pay'],
      ['.summary fieldset', '.summary .field'],
    ]) {
      const px = await between(...pair);
      assert.ok(px >= 14 && px <= 32, `${width}: ${px} px between ${pair.join(' and ')}`);
    }
  }
});

/** Where the page of a new order is. */
async function orderPage(more) {
  const lines = [{ name: 'Enamel mug', unit_amount: 1450, quantity: 2 }];
  const answer = await fetch(new URL('/checkout/sessions', site.origin), {
    method: 'POST',
    headers: { authorization: 'Bearer user@example.com', 'content-type': 'application/json' },
    body: JSON.stringify({ order_id: crypto.randomUUID(), currency: 'usd', lines, ...more }),
  });
  return (await answer.json()).url;
}

for (const locale of ['de', 'fr'])
  test(`an order of a large sum fits on a narrow phone at every step: ${locale}`, async (t) => {
    const { page } = await site.visit(t, { viewport: { width: 320, height: 740 } });
    const answer = await fetch(new URL('/checkout/sessions', site.origin), {
      method: 'POST',
      headers: { authorization: 'Bearer user@example.com', 'content-type': 'application/json' },
      body: JSON.stringify({
        order_id: `order-${locale}-${'1234567890'.repeat(4)}`,
        currency: 'idr',
        locale,
        lines: [
          {
            name: 'Donaudampfschifffahrtsgesellschaftskapitänsmütze',
            unit_amount: 1_500_000_00,
            quantity: 1,
          },
        ],
      }),
    });
    const { url } = await answer.json();
    await page.goto(url);
    await page.locator('#email').fill(`${'ada'.repeat(20)}@${'shop'.repeat(12)}.example`);
    await sticksNotOut(page, 'form');
    await card(page, 'bank').check();
    await payButton(page).click();
    await page.getByRole('button', { name: 'Complete' }).waitFor();
    const bank = page.url();
    await page.goto(url);
    await page.locator('.choices').waitFor();
    await sticksNotOut(page, 'at the bank');
    await page.goto(bank);
    await page.getByRole('button', { name: 'Complete' }).click();
    const rows = page.locator('.receipt > .rows');
    await rows.waitFor();
    // A part of it is charged only through the API.
    const { [locale]: label } = {
      de: 'Abgebucht, von 1.500.000,00\u00a0IDR reserviert',
      fr: 'Débité, sur 1\u202f500\u202f000,00\u00a0IDR réservés',
    };
    await rows.evaluate((rows, label) => {
      const part = rows.firstElementChild.cloneNode(true);
      part.className = '';
      const [name, value] = part.children;
      name.textContent = label;
      value.textContent = '1.000.000,00\u00a0IDR';
      rows.prepend(part);
    }, label);
    await page.locator('.details summary').click();
    await sticksNotOut(page, 'receipt');
    const sum = await page.locator('.amount span').evaluate((sum) => sum.getClientRects().length);
    assert.equal(sum, 1, 'the sum stands in one line');
  });

test('dark is dark and light is light', async (t) => {
  const lightness = async (colorScheme) => {
    const { page } = await site.visit(t, { colorScheme });
    await page.goto('/');
    return page.evaluate(() => {
      const canvas = new OffscreenCanvas(1, 1).getContext('2d');
      canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
      return (red + green + blue) / 3;
    });
  };
  assert.ok((await lightness('light')) > 200);
  assert.ok((await lightness('dark')) < 60);
});
