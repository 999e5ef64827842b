// The card is typed into Stripe's Payment Element, which a script of Stripe's mounts: here of ours, which does what the page uses of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isFirefox } from './support/browsers.mjs';
import { paidOnce as paidOnceAt, posts } from './support/checkout.mjs';
import { key, payButton } from './support/form.mjs';
import { useSite } from './support/site.mjs';

const KEY = 'pk_test_of_the_browser';
const site = useSite({ vars: { STRIPE_PUBLISHABLE_KEY: KEY } });
const paidOnce = (page, amount) => paidOnceAt(site, page, amount);

/**
 * Stripe's script, as far as the page uses it: it mounts a field, and gives a token for what stands there. From the release Endive on it throws where
 * `paymentMethodTypes` is given, https://docs.stripe.com/changelog/endive/2026-09-30/remove-elements-deferred-intent-payment-method-types.
 */
const STRIPE = `{ const { src } = document.currentScript; window.Stripe = (key, { locale }) => ({
  elements: (options) => options.paymentMethodTypes && !/\\/(acacia|basil|clover|dahlia)\\//.test(src) ? invalid() : ({
    create: () => ({
      on(event, act) { if (event === 'ready') this.ready = act; },
      mount(place) {
        place.innerHTML = '<label>Card <input autocomplete="off"></label>';
        const { mode, amount, currency, captureMethod } = options;
        place.dataset.mounted = JSON.stringify([key, mode, amount, currency, captureMethod, locale]);
        this.ready();
      },
    }),
    update() {},
    submit: async () => document.querySelector('#card-element input').value
      ? {} : { error: { message: 'Your card number is incomplete.' } },
  }),
  createPaymentMethod: async () => ({ paymentMethod: { id: document.querySelector('#card-element input').value } }),
});
function invalid() { throw new Error('paymentMethodTypes is not an option'); } }`;

const answered = (body) => (route) => route.fulfill({ contentType: 'text/javascript', body });

/** The page by which the site answers a form that was sent too often: another order's, as if it had been sent under this key. */
async function flooded(used) {
  const shown = await fetch(new URL('/checkout', site.origin));
  const [, key] = /name="idempotency_key" value="([^"]+)"/.exec(await shown.text());
  const headers = { origin: site.origin, accept: 'text/html' };
  for (;;) {
    const body = new URLSearchParams({ idempotency_key: key, payment_method: '' });
    const answer = await fetch(shown.url, { method: 'POST', headers, body });
    if (answer.status === 429) return (await answer.text()).replaceAll(key, used);
    assert.equal(answer.status, 422);
  }
}

/** Somebody who pays where Stripe's script is answered by `stripe`, in a page that is made ready by `prepare`. */
async function visit(t, stripe = answered(STRIPE), prepare = () => {}, order = '/checkout') {
  const { page, context } = await site.visit(t);
  await prepare(page);
  const refused = [];
  await context.exposeFunction('refused', (violation) => refused.push(violation));
  await context.addInitScript(() =>
    addEventListener('securitypolicyviolation', (event) => window.refused(event.blockedURI)),
  );
  await context.route('https://js.stripe.com/**', stripe);
  // A page is not loaded before Stripe's script is.
  await page.goto(order, { waitUntil: 'domcontentloaded' });
  return { page, refused };
}

const mountedIn = async (page) =>
  JSON.parse(await page.locator('[data-mounted]').getAttribute('data-mounted'));

test('Stripe is told where the order is only authorized, as its payment will be', async (t) => {
  const headers = { authorization: 'Bearer user@example.com', 'content-type': 'application/json' };
  const lines = [{ name: 'Enamel mug', unit_amount: 1450, quantity: 2 }];
  const body = JSON.stringify({ order_id: crypto.randomUUID(), currency: 'usd', lines, capture: false });
  const made = await fetch(new URL('/checkout/sessions', site.origin), { method: 'POST', headers, body });
  const { page } = await visit(t, undefined, undefined, (await made.json()).url);
  assert.deepEqual(await mountedIn(page), [KEY, 'payment', 2900, 'usd', 'manual', 'en']);
  await page.getByLabel('Card').fill('pm_card_visa');
  await page.getByRole('button', { name: 'Place order for $29.00' }).click();
  await page.getByRole('heading', { name: 'Your order is placed' }).waitFor();
  assert.deepEqual(
    (await site.charges()).map(({ amount, captured }) => [amount, captured]),
    [[2900, false]],
  );
});

test('the card is typed at Stripe, and only its token is sent', async (t) => {
  const { page, refused } = await visit(t);
  assert.deepEqual(await mountedIn(page), [KEY, 'payment', 5450, 'usd', 'automatic', 'en']);
  const sent = posts(page);
  await payButton(page).click();
  await page.getByText('Your card number is incomplete.').waitFor();
  assert.equal(sent.length, 0, 'nothing is sent without a token');

  await page.getByLabel('Card').fill('pm_card_visa_chargeDeclined');
  await payButton(page).click();
  await page.getByRole('alert').getByText('Your card was declined').waitFor();
  await page.locator('[data-mounted]').waitFor();
  await page.getByLabel('Card').fill('pm_card_visa');
  await payButton(page).click();
  await paidOnce(page);
  assert.deepEqual(refused, []);
  if (isFirefox) return; // BiDi does not tell what a request carries
  const tokens = sent.map((request) => new URLSearchParams(request.postData()).get('payment_method'));
  assert.deepEqual(tokens, ['pm_card_visa_chargeDeclined', 'pm_card_visa']);
});

test('a typo in the email is told before the card is handed over, and the card stays', async (t) => {
  const { page } = await visit(t);
  const sent = posts(page);
  await page.getByLabel('Card').fill('pm_card_visa');
  const email = page.getByLabel(/Email/);
  for (const typo of ['ada@example', 'müller@shop.example', 'ada@shop.example,']) {
    await page.evaluate(() => document.getElementById('email-error')?.remove());
    await email.fill(typo);
    await payButton(page).click();
    await page.getByText('Email must be one address').waitFor();
    const told = await email.evaluate((input) => [
      input.getAttribute('aria-invalid'),
      document.activeElement === input,
      input.getAttribute('aria-describedby') === input.nextElementSibling.id,
      input.nextElementSibling.className,
    ]);
    assert.deepEqual(told, ['true', true, true, 'wrong'], typo);
  }
  assert.equal(sent.length, 0);
  await email.fill('ada@shop.example');
  await payButton(page).click();
  await paidOnce(page);
  assert.equal(sent.length, 1);
});

test('where our script for the card does not come the form says so, and loads again', async (t) => {
  const { page } = await site.visit(t);
  await page.route('**/checkout.js*', (route) => route.abort('failed'));
  await page.goto('/checkout');
  const loading = page.getByText('The card form is loading. If it does not appear:');
  await loading.waitFor();
  await payButton(page).click();
  await page.getByRole('alert').getByText('none was sent, because the card form had not loaded').waitFor();
  await page.unroute('**/checkout.js*');
  await page.context().route('https://js.stripe.com/**', answered(STRIPE));
  await page.getByRole('link', { name: 'Load it again' }).click();
  await page.getByLabel('Card').fill('pm_card_visa');
  assert.equal(await loading.count(), 0);
  await payButton(page).click();
  await paidOnce(page);
});

// BiDi does not tell what a request carries.
test(
  'who is asked to wait a minute keeps the card, and sends the same again',
  { skip: isFirefox },
  async (t) => {
    const { page } = await visit(t);
    const sent = posts(page);
    await page.getByLabel('Card').fill('pm_card_visa');
    let isBusy = true;
    await page.route('**/checkout/*', async (route) => {
      if (!isBusy || route.request().method() !== 'POST') return route.fallback();
      isBusy = false;
      const used = new URLSearchParams(route.request().postData()).get('idempotency_key');
      return route.fulfill({ status: 429, contentType: 'text/html', body: await flooded(used) });
    });
    await payButton(page).click();
    await page.getByText('Press Pay again in a minute').waitFor();
    assert.equal(await page.getByLabel('Card').inputValue(), 'pm_card_visa');
    await payButton(page).click();
    await paidOnce(page);
    const [first, second] = sent.map((request) => request.postData());
    assert.equal(first, second);
  },
);

test('after three declines the card that was typed stays, and is sent when the wait is over', async (t) => {
  const { page } = await visit(t);
  for (let tried = 0; tried < 3; tried += 1) {
    const used = await key(page);
    await page.getByLabel('Card').fill('pm_card_visa_chargeDeclined');
    await payButton(page).click();
    await page.waitForFunction(
      (used) => ![used, undefined].includes(document.querySelector('[name=idempotency_key]')?.value),
      used,
    );
    await page.locator('[data-mounted]').waitFor();
  }
  const sent = posts(page);
  await page.getByLabel('Card').fill('pm_card_visa');
  // In one go: on a slow machine the wait may end between two questions.
  const told = await page.evaluate(() => {
    const button = document.getElementById('pay');
    const hint = document.querySelector('[data-wait-ms]');
    if (hint) button.click();
    const isSaid = document.getElementById('progress').value === hint?.textContent;
    return {
      waits: hint !== null,
      isSaid,
      isAsked: button.ariaBusy === 'true',
      isShut: button.ariaDisabled === 'true',
    };
  });
  assert.deepEqual(told, { waits: true, isSaid: true, isAsked: false, isShut: true });
  assert.equal(sent.length, 0);
  await payButton(page).click(); // once it can be pressed
  await paidOnce(page);
  assert.equal(sent.length, 1);
});

test('Stripe cannot be reached: nothing is sent, and the next press tries again', async (t) => {
  let tries = 0;
  const { page } = await visit(t, (route) =>
    tries++ === 0 ? route.abort('failed') : route.fulfill({ contentType: 'text/javascript', body: STRIPE }),
  );
  await page.getByText('The card form could not be loaded.').waitFor();
  const sent = posts(page);
  await payButton(page).click();
  await page.getByText('Your card number is incomplete.').waitFor();
  assert.equal(sent.length, 0);
  await page.getByLabel('Card').fill('pm_card_visa');
  await payButton(page).click();
  await paidOnce(page);
});

test('without JavaScript the page says what is missing, and charges nothing', async (t) => {
  const { page } = await site.visit(t, { javaScriptEnabled: false });
  await page.goto('/checkout');
  const shown = await page.getByRole('main').innerText();
  assert.match(shown, /that needs JavaScript/);
  assert.doesNotMatch(shown, /is loading/);
  await payButton(page).click();
  await page.getByRole('alert').getByText('enter your card').waitFor();
  await site.nothingCharged();
});

for (const [what, first] of [
  ['comes after half a minute', (route, told) => told.then(() => answered(STRIPE)(route))],
  ['is empty, as a blocker answers', answered('')],
  [
    'mounts nothing at first',
    answered(STRIPE.replace('this.ready();', 'if (window.again) this.ready(); window.again = true;')),
  ],
])
  test(`Stripe’s script ${what}: that is said, and the next press tries again`, async (t) => {
    let tries = 0;
    const { promise: told, resolve: isTold } = Promise.withResolvers();
    const script = (route) => (tries++ === 0 ? first(route, told) : answered(STRIPE)(route));
    const { page } = await visit(t, script, (page) => page.clock.install());
    const lost = page.getByText('The card form could not be loaded.');
    while (!(await lost.isVisible())) await page.clock.fastForward(10_000);
    isTold();
    const sent = posts(page);
    await payButton(page).click();
    await page.getByText('Your card number is incomplete.').waitFor();
    assert.equal(sent.length, 0);
  });

test('in an older Safari, which lacks two of the functions that are used, it is paid all the same', async (t) => {
  const withoutThem = () => {
    delete AbortSignal.timeout;
    delete HTMLFormElement.prototype.requestSubmit;
  };
  const { page } = await visit(t, undefined, (page) => page.addInitScript(withoutThem));
  await page.getByLabel('Card').fill('pm_card_visa');
  await payButton(page).click();
  await paidOnce(page);
});

test('when no try got through the card that was sent stays the one that is charged', async (t) => {
  const { page } = await visit(t);
  await page.getByLabel('Card').fill('pm_card_visa');
  let isDown = true;
  const isSent = (route) => route.request().method() === 'POST';
  await page.route('**/checkout/**', (route) =>
    isDown && isSent(route) ? route.abort('failed') : route.fallback(),
  );
  await payButton(page).click();
  await page.getByText('Connection lost.').waitFor();
  await page.clock.install();
  const givenUp = page.getByText('We could not get through');
  while (!(await givenUp.isVisible())) await page.clock.fastForward(10_000);
  const isShut = await page.locator('#card-element').evaluate((place) => place.inert);
  assert.ok(isShut, 'no other card is typed where the first one is charged');
  isDown = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await paidOnce(page);
});

test('the page lets a wallet of the Payment Element open its window', async () => {
  const page = await fetch(new URL('/checkout', site.origin), { redirect: 'follow' });
  assert.equal(page.headers.get('cross-origin-opener-policy'), 'same-origin-allow-popups');
});
