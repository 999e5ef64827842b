// Bad networks, bad providers, bad luck: whatever gets lost on the way, the ledger holds one charge or none.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isFirefox } from './support/browsers.mjs';
import {
  backFrom,
  entries,
  field,
  intercept,
  key,
  payButton,
  posts,
  ready,
  reload,
  sendsAgain,
  stopClock,
} from './support/form.mjs';
import { useSite } from './support/site.mjs';

const site = useSite();

const sameBody = (sent) => assert.equal(new Set(sent.map((request) => request.postData())).size, 1);

// BiDi does not tell what a request carries, so it cannot be sent on.
const sentOn = { skip: isFirefox };

test('the answer gets lost on its way to the browser: the same form is sent again', sentOn, async (t) => {
  const { page } = await site.visitForm(t);
  await intercept(page, 1, async (route) => {
    await route.fetch({ maxRedirects: 0 }); // it is paid now
    assert.equal((await site.charges()).length, 1);
    await route.abort('connectionreset');
  });
  const sent = posts(page);
  // From before the click on: it is said for a second, which a slow machine may need to tell that the click is done.
  const isTold = page.getByText('Connection lost. Trying again — you will not be charged twice.').waitFor();
  await payButton(page).click();
  await isTold;
  await site.paidOnce(page);
  assert.equal(sent.length, 2);
  sameBody(sent);
});

test(
  'the answer gets lost without JavaScript: the browser’s own reload sends the same form again',
  sentOn,
  async (t) => {
    const { page } = await site.visitForm(t, { javaScriptEnabled: false });
    await intercept(page, 1, async (route) => {
      await route.fetch({ maxRedirects: 0 });
      await route.abort('connectionreset');
    });
    const sent = posts(page);
    // Its load, not only its navigation: until then Chromium may still be changing from one process to the other.
    const errorPage = page.waitForEvent('load', () => page.url().startsWith('chrome-error:'));
    await payButton(page).click({ noWaitAfter: true });
    await errorPage;
    await reload(page);
    await site.paidOnce(page);
    assert.equal(sent.length, 2);
    sameBody(sent);
  },
);

test('the request gets lost again and again: it is paid when it gets through', async (t) => {
  const { page } = await site.visitForm(t);
  await stopClock(page);
  await intercept(page, 4, (route) => route.abort('failed'));
  const sent = posts(page);
  await payButton(page).click();
  for (let tries = 1; tries <= 4; tries++) {
    await page.getByText('Connection lost.').waitFor();
    assert.equal(sent.length, tries);
    await site.nothingCharged();
    await sendsAgain(page);
  }
  await site.paidOnce(page);
  sameBody(sent);
});

test('offline: it is sent as soon as the line is back', async (t) => {
  const { page, context } = await site.visitForm(t);
  await stopClock(page);
  await context.setOffline(true);
  await payButton(page).click();
  await page.getByText('Connection lost.').waitFor();
  assert.equal(await payButton(page).textContent(), 'Paying…');
  assert.equal(await payButton(page).getAttribute('aria-busy'), 'true');
  assert.ok(await field(page, 'origin_lat').isDisabled(), 'what is being paid cannot be edited');
  await site.nothingCharged();
  await context.setOffline(false);
  await site.paidOnce(page);
});

test('a reload while nothing gets through: the form comes back with the key that was sent', async (t) => {
  const { page } = await site.visitForm(t);
  await stopClock(page);
  await intercept(page, 1, (route) => route.abort('failed'));
  const used = await key(page);
  await payButton(page).click();
  await page.getByText('Connection lost.').waitFor();
  await page.reload();
  await ready(page);
  assert.equal(await key(page), used);
  await payButton(page).click();
  await site.paidOnce(page);
  await page.getByRole('link', { name: 'Book another ride' }).click();
  await ready(page);
  assert.notEqual(await key(page), used, 'the next ride has a key of its own');
});

test('it does not get through at all: the person decides when to try again, and pays once', async (t) => {
  const { page } = await site.visitForm(t);
  await stopClock(page);
  let down = true;
  await intercept(page, Infinity, (route) => (down ? route.abort('failed') : route.continue()));
  const sent = posts(page);
  await payButton(page).click();
  for (let tries = 1; tries < 8; tries++) await sendsAgain(page);
  await page.getByText('We could not get through').waitFor();
  const button = page.getByRole('button', { name: 'Try again' });
  assert.ok(
    await field(page, 'origin_lat').isDisabled(),
    'it may be paid already: nothing else is sent under its key',
  );
  down = false;
  await button.click();
  await site.paidOnce(page);
  assert.equal(sent.length, 9);
  sameBody(sent);
});

test('the server answers 503 for a while', async (t) => {
  const { page } = await site.visitForm(t);
  await stopClock(page);
  await intercept(page, 3, (route) =>
    route.fulfill({ status: 503, headers: { 'Retry-After': '20' }, body: 'busy' }),
  );
  const sent = posts(page);
  await payButton(page).click();
  for (let tries = 1; tries <= 3; tries++) {
    const failed = 'No answer yet. Trying again — you will not be charged twice.';
    await page.getByText(failed).waitFor();
    await page.clock.fastForward(15_000);
    assert.equal(sent.length, tries, 'it waits as long as it is asked to');
    await sendsAgain(page, { failed });
  }
  await site.paidOnce(page);
  sameBody(sent);
});

test('something in between answers with a page of its own: that is no answer', async (t) => {
  const { page } = await site.visitForm(t);
  const portal = '<!doctype html><title>Free Wi-Fi</title><p>Please log in.';
  await intercept(page, 1, (route) => route.fulfill({ contentType: 'text/html', body: portal }));
  const sent = posts(page);
  await payButton(page).click();
  await site.paidOnce(page);
  assert.equal(sent.length, 2);
});

for (const fault of [
  'response_lost',
  'request_lost',
  'error_before',
  'connection_reset_after',
  'rate_limited',
]) {
  test(`the provider's ${fault.replaceAll('_', ' ')} is nothing that the person notices`, async (t) => {
    const { page } = await site.visitForm(t, { javaScriptEnabled: false });
    await site.fault(fault);
    const sent = posts(page);
    await payButton(page).click();
    await site.paidOnce(page);
    assert.equal(sent.length, 1);
    assert.equal(new Set((await site.charging(2)).map((request) => request.idempotency_key)).size, 1);
  });
}

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? '' : ', without JavaScript';

  test(`an unknown outcome: a status page that looks again until it is settled${how}`, async (t) => {
    const { page } = await site.visitForm(t, { javaScriptEnabled, backForwardCache: true });
    await site.fault('response_lost', { count: 1000 });
    await payButton(page).click();

    const heading = page.getByRole('heading', { name: 'We are confirming your payment' });
    await heading.waitFor();
    const status = await page.getByRole('main').innerText();
    assert.match(status, /Your card will not be charged twice/);
    assert.doesNotMatch(status, /declined|failed/i, 'unknown is not failed');
    const address = page.url();
    // It looks by itself; without a script it is loaded anew, and at once by whoever asks for it.
    if (javaScriptEnabled)
      await page.waitForResponse(
        (answer) => answer.url() === address && answer.request().resourceType() === 'fetch',
      );
    else await page.getByRole('link', { name: 'Check now' }).click();
    await heading.waitFor();
    assert.equal((await site.charges()).length, 1, 'the bank did charge');

    // In Firefox Back leads to the status page.
    if (!javaScriptEnabled && !isFirefox) {
      await backFrom(page, heading, payButton(page));
      await payButton(page).click({ noWaitAfter: true }); // impatient
    }
    await site.calm();
    await site.paidOnce(page);
    assert.equal(page.url(), address);
  });
}

test('an expired form does not run: the entries are kept, and a fresh form pays', async (t) => {
  t.after(() => site.configure({}));
  await site.configure({ FORM_TTL_MS: '1' });
  const visitors = [];
  for (const javaScriptEnabled of [true, false]) {
    visitors.push(await site.visitForm(t, { javaScriptEnabled }));
  }
  await site.configure({});
  for (const [before, { page }] of visitors.entries()) {
    await field(page, 'origin_lat').fill('-12.25');
    const [entered, expired] = [await entries(page), await key(page)];

    await payButton(page).click();
    await page.getByText('This form has expired').waitFor();
    assert.equal((await site.charges()).length, before, 'nothing was charged');
    assert.deepEqual(await entries(page), entered);
    assert.notEqual(await key(page), expired);

    await payButton(page).click();
    await site.paidTimes(before + 1, page);
    assert.ok((await page.getByRole('main').innerText()).includes('-12.25'));
  }
});
