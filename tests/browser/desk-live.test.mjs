// A page of the desk that stays up to date while it is open, and what must not be touched by that.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';

import { until } from '../worker/support/until.mjs';
import { look } from './support/look.mjs';
import { useSite } from './support/site.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const EVERY_MS = 10_000;

const site = useSite({ vars: { ADMIN_TOKEN } });

/** Somebody who is logged in, whose clock moves when it is told to, and for whom no answer comes too late: a slow machine takes longer than the page waits. */
async function operator(t, options) {
  const { page, context } = await site.visit(t, options);
  await page.clock.install();
  await page.addInitScript(() => (AbortSignal.timeout = () => new AbortController().signal));
  await page.goto('/admin');
  await page.getByLabel('Secret').fill(ADMIN_TOKEN);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return { page, context };
}

async function post(path, body) {
  const headers = {
    authorization: 'Bearer user@example.com',
    'content-type': 'application/json',
    'idempotency-key': randomUUID(),
  };
  const answer = await fetch(site.origin + path, { method: 'POST', headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 201);
  return answer.json();
}

/** A payment that the lists know. */
async function listed(order_id) {
  const { id } = await post('/payments', { amount: 2500, currency: 'usd', order_id });
  await until('the read model follows', async () => {
    const [{ found }] = await site.sql('SELECT count(*) AS found FROM payments WHERE payment_id = ?', id);
    return found === 1;
  });
  return id;
}

/** How often the page itself is asked for, from now on. */
function asked(page) {
  const times = { count: 0 };
  page.on('request', (request) => {
    if (isLook(page)(request)) times.count += 1;
  });
  return times;
}

const isLook = (page) => (request) => request.resourceType() === 'fetch' && request.url() === page.url();

/** Whether the whole answer to a request has come. Of one that breaks off, playwright's own promise that it is finished tells nothing. */
const isAnswered = (request) =>
  until(
    'the answer is there, or has failed',
    () => request.failure() ?? request.timing().responseEnd >= 0,
  ).then(() => !request.failure());

/** The next time that the page looks for news, and is told. A look that is under way already may have missed what is new. */
async function nextUpdate(page) {
  for (;;) {
    const asked = page.waitForRequest(isLook(page));
    await page.clock.runFor(EVERY_MS);
    if (await isAnswered(await asked)) return;
  }
}

/** What a screen reader is told of by itself. */
const told = (page, text) => page.locator('[role=status]', { hasText: text });
const pause = (page) => page.getByRole('button', { name: 'Pause' });

describe('an open page of the desk', () => {
  test('shows a payment that was made since, and keeps the focus, what is unfolded, and where it was', async (t) => {
    const first = await listed('order-first');
    const { page } = await operator(t, { viewport: { width: 1280, height: 300 } });
    await page.goto('/admin/payments');
    await page.evaluate(() => (window.isTheSame = true));
    await page.getByText('What each status means').click();
    const link = page.locator(`a[href="/admin/payments/${first}"]`);
    await link.focus();
    const scrolled = await page.evaluate(() => (scrollTo(0, 200), scrollY));

    const shown = await page.locator('tr', { has: link }).locator('.reference').textContent();
    assert.match(shown, /^[0-9A-Z]{4}-[0-9A-Z]{4}$/, 'what a receipt calls it');

    const second = await listed('order-second');
    await nextUpdate(page);
    await page.locator(`a[href="/admin/payments/${second}"]`).waitFor();

    assert.equal(await page.evaluate(() => window.isTheSame), true, 'it was not loaded again');
    assert.equal(await link.evaluate((link) => link === document.activeElement), true);
    assert.equal(await page.locator('details.internals').getAttribute('open'), '');
    assert.ok((await page.evaluate(() => scrollY)) >= scrolled);
    assert.equal(await page.locator('[aria-live]').count(), 0);
    const [newest] = await page.locator('tbody time').allTextContents();
    assert.doesNotMatch(newest, /^\d{4}-/, 'its times are where the operator is');
    await look(page, 'desk payments that update');
  });

  test('control: without JavaScript, and while it is paused, it stays as it is', async (t) => {
    const { page } = await operator(t);
    await page.goto('/admin/payments');
    const { page: still } = await operatorWithoutScript(t);
    await still.goto('/admin/payments');
    assert.equal(await still.getByText('Updates by itself').count(), 0);

    await pause(page).click();
    const times = asked(page);
    const id = await listed('order-paused');
    await page.clock.runFor(6 * EVERY_MS);
    const row = page.locator(`a[href="/admin/payments/${id}"]`);
    assert.equal(times.count, 0);
    assert.equal(await row.count(), 0);
    assert.equal(await still.locator(`a[href="/admin/payments/${id}"]`).count(), 0);

    await page.goto('/admin/keys');
    await page.getByText('Updates are paused').waitFor();
    await page.goto('/admin/payments');
    await page.getByRole('button', { name: 'Resume' }).click();
    await pause(page).waitFor();
    await row.waitFor();
  });

  test('of a payment shows its refund', async (t) => {
    const id = await listed('order-refunded');
    const { page } = await operator(t);
    await page.goto(`/admin/payments/${id}`);
    assert.equal(await page.getByText('$4.00').count(), 0);
    await post(`/payments/${id}/refunds`, { amount: 400 });
    await nextUpdate(page);
    await page.getByText('$4.00').first().waitFor();
    const fact = page.locator('.facts > div', { hasText: 'Reference' }).first();
    const reference = (await fact.locator('dd').textContent()).trim();
    await page.goto('/admin/payments');
    const row = page.locator('tr', { has: page.locator(`a[href="/admin/payments/${id}"]`) });
    assert.equal(await row.locator('.reference').textContent(), reference, 'a list calls it the same');
  });

  test('is not touched while something is entered in it, and goes on when that is gone', async (t) => {
    const { page } = await operator(t);
    await page.goto('/admin/payments');
    const search = page.getByLabel('Search');
    const times = asked(page);
    await search.focus();
    await page.clock.runFor(3 * EVERY_MS);
    assert.equal(times.count, 0, 'it has the focus');
    await page.getByText('Updates wait while the page is in use').waitFor();
    await search.fill('half a wo');
    await page.locator('h1').click();
    await page.clock.runFor(3 * EVERY_MS);
    assert.equal(times.count, 0, 'it has a text');
    assert.equal(await search.inputValue(), 'half a wo');
    await search.fill('');
    await page.locator('h1').click();
    await nextUpdate(page);
    assert.ok(times.count > 0);
    await page.getByText('Updates by itself').waitFor();
  });

  test('is not touched either if somebody begins to write while it is asked for', async (t) => {
    const { page } = await operator(t);
    await page.goto('/admin/payments');
    const id = await listed('order-meanwhile');
    let answer;
    const held = new Promise((resolve) => (answer = resolve));
    let arrived;
    const isAsked = new Promise((resolve) => (arrived = resolve));
    await page.route('**/admin/payments', async (route) => {
      if (route.request().resourceType() !== 'fetch') return route.continue();
      arrived();
      await held;
      await route.continue();
    });
    await page.clock.runFor(EVERY_MS);
    await isAsked;
    await page.getByLabel('Search').fill('x');
    const answered = page.waitForResponse((response) => response.request().resourceType() === 'fetch');
    answer();
    assert.ok(await isAnswered((await answered).request()));
    assert.equal(await page.locator(`a[href="/admin/payments/${id}"]`).count(), 0);
    assert.equal(await page.getByLabel('Search').inputValue(), 'x');
  });

  test('stops when somebody has logged out, and says so', async (t) => {
    const { page, context } = await operator(t);
    await page.goto('/admin/payments');
    await context.clearCookies();
    await page.route('**/admin/payments', async (route) => {
      // The browser would report the status of the login page as an error.
      const response = await route.fetch();
      assert.equal(response.status(), 401);
      await route.fulfill({ response, status: 200 });
    });
    await nextUpdate(page);
    await told(page, 'Updates have stopped').waitFor();
    await page.getByRole('button', { name: 'Reload' }).waitFor();
    const times = asked(page);
    await page.clock.runFor(6 * EVERY_MS);
    assert.equal(times.count, 0);
    await page.getByRole('heading', { name: 'Payments' }).waitFor();
  });

  test('goes on when the desk answers again, and says so', async (t) => {
    const { page } = await operator(t);
    await page.goto('/admin/payments');
    const troubles = [
      (route) => route.abort(),
      (route) => route.fulfill({ status: 503, body: 'in trouble' }),
    ];
    await page.route('**/admin/payments', (route) => {
      const trouble = route.request().resourceType() === 'fetch' && troubles.shift();
      return trouble ? trouble(route) : route.continue();
    });
    await page.evaluate(() => {
      const ask = window.fetch;
      window.asked = [];
      window.fetch = (...given) => (window.asked.push(Date.now()), ask(...given));
    });
    await page.clock.runFor(EVERY_MS);
    await told(page, 'No answer from the desk: it is asked again').waitFor();

    const id = await listed('order-after-trouble');
    const row = page.locator(`a[href="/admin/payments/${id}"]`);
    await until('the page shows what is new', async () => {
      await page.clock.runFor(EVERY_MS);
      return row.isVisible();
    });
    await page.getByText('Updates by itself').waitFor();
    assert.equal(await page.locator('[data-live-trouble]').textContent(), '');
    const [first, second, third] = await page.evaluate(() => window.asked);
    assert.ok(second - first >= 2 * EVERY_MS, 'it waits longer');
    assert.ok(third - second >= 4 * EVERY_MS, 'and longer');
  });

  test('is none that asks for a confirmation, takes entries, or shows a token', async (t) => {
    const id = await listed('order-confirmed');
    const { page } = await operator(t);
    await page.goto(`/admin/payments/${id}`);
    await pause(page).waitFor();
    await page.getByRole('button', { name: 'Refund' }).click();
    await page.getByRole('heading', { name: /^Refund/ }).waitFor();
    await hasNoUpdates(page);
    await page.goto('/admin/accounts/new');
    await hasNoUpdates(page);
    await page.goto('/admin/reports');
    await hasNoUpdates(page);
  });
});

async function hasNoUpdates(page) {
  const times = asked(page);
  await page.clock.runFor(6 * EVERY_MS);
  assert.equal(times.count, 0, page.url());
  assert.equal(await pause(page).count(), 0, page.url());
}

async function operatorWithoutScript(t) {
  const { page, context } = await site.visit(t, { javaScriptEnabled: false });
  await page.goto('/admin');
  await page.getByLabel('Secret').fill(ADMIN_TOKEN);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return { page, context };
}
