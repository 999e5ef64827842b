// What people do to a form: press twice, reload, go back, edit, open two tabs. With JavaScript and without it, and the
// simulator's ledger says how often the card was charged.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { describe, test } from 'node:test';

import {
  back,
  card,
  duplicate,
  entries,
  field,
  focused,
  key,
  payButton,
  posts,
  ready,
} from './support/form.mjs';
import { isFirefox } from './support/browsers.mjs';
import { useSite } from './support/site.mjs';
import { until } from '../worker/support/until.mjs';

const site = useSite();

for (const javaScriptEnabled of [true, false]) {
  describe(javaScriptEnabled ? 'with JavaScript' : 'without JavaScript', () => {
    const visitForm = (t, more) => site.visitForm(t, { javaScriptEnabled, ...more });

    test('a ride is booked, its receipt says which, and reloading it charges nothing', async (t) => {
      const { page, context } = await visitForm(t);
      const sorted = (all) => all.toSorted((a, b) => a.name.localeCompare(b.name));
      const cookies = sorted(await context.cookies());
      assert.deepEqual(
        cookies.map(({ name, httpOnly, sameSite, secure, path, domain }) => ({
          name,
          httpOnly,
          sameSite,
          secure,
          path,
          domain,
        })),
        // `__Host-…` and secure with https: on plain-http localhost a browser would throw that away.
        ['form', 'session'].map((name) => ({
          name,
          httpOnly: true,
          sameSite: 'Lax',
          secure: false,
          path: '/',
          domain: '127.0.0.1',
        })),
      );

      await payButton(page).click();

      const ride = await site.paidOnce(page);
      const receipt = await page.getByRole('main').innerText();
      for (const part of ['$20.00', '37.7749, -122.4194', '28.5721, -80.648', ride.replace('/rides/', '')])
        assert.ok(receipt.includes(part), `${part} in ${receipt}`);

      for (let i = 0; i < 3; i++) {
        assert.equal((await page.reload()).request().method(), 'GET');
        assert.equal(await site.paidOnce(page), ride);
      }
      assert.equal(await page.getByRole('main').innerText(), receipt);
      assert.deepEqual(sorted(await context.cookies()), cookies, 'still the same session');
    });

    test('a double click pays once', async (t) => {
      const { page } = await visitForm(t);
      await site.fault('slow_response', { delay_ms: 300 });
      const sent = posts(page);
      await payButton(page).dblclick();
      await site.paidOnce(page);
      if (javaScriptEnabled) assert.equal(sent.length, 1, 'the button cannot be pressed twice');
    });

    test('hammering on Enter pays once', async (t) => {
      const { page } = await visitForm(t);
      await site.fault('slow_response', { delay_ms: 300 });
      await field(page, 'target_lat').focus();
      const sent = posts(page);
      for (let i = 0; i < 12; i++) await page.keyboard.press('Enter');
      await site.paidOnce(page);
      if (javaScriptEnabled) assert.equal(sent.length, 1);
    });

    test('back to the paid form: it cannot be paid again', async (t) => {
      const { page } = await site.visit(t, { javaScriptEnabled, backForwardCache: true });
      await page.goto('/');
      await page.getByRole('link', { name: 'Book a rocket ride' }).click();
      // A page that is left before it is loaded is no stop on the way back in Firefox.
      await ready(page);
      await page.waitForLoadState();
      await payButton(page).click();
      const ride = await site.paidOnce(page);

      await back(page);
      if (javaScriptEnabled) {
        await page.getByRole('heading', { name: 'Press pay twice.' }).waitFor(); // the used form is no stop on the way
        return;
      }
      // The old page, or what the server leads to: its key is used either way.
      await page.waitForURL(/\/rides\//, { waitUntil: 'commit' });
      if (new URL(page.url()).pathname === '/rides/new') await payButton(page).click();
      assert.equal(await site.paidOnce(page), ride, 'the same ride');
    });

    test('back without a back-forward cache: the form has kept its key', async (t) => {
      const { page } = await site.visit(t, { javaScriptEnabled, backForwardCache: false });
      await page.goto('/rides/new');
      const first = await key(page);
      await page.getByRole('link', { name: 'Paid Once' }).click();
      await page.getByRole('link', { name: 'Book a rocket ride' }).waitFor();
      await page.goBack();
      await ready(page);
      assert.equal(await key(page), first);
      await payButton(page).click();
      await site.paidOnce(page);
    });

    test('an edited form under a used key shows what was booked, and offers a new booking', async (t) => {
      const { page } = await visitForm(t);
      const copy = await duplicate(page);
      await payButton(page).click();
      const ride = await site.paidOnce(page);

      await field(copy, 'target_lat').fill('48.8584');
      await payButton(copy).click();

      assert.equal(await site.paidOnce(copy), ride);
      await copy.getByRole('status').getByText('This ride was already booked').waitFor();
      assert.ok((await copy.getByRole('main').innerText()).includes('28.5721'), 'the ride as it was booked');
      await copy.getByRole('link', { name: 'Book another ride' }).click();
      await ready(copy);
      await field(copy, 'target_lat').fill('48.8584');
      await payButton(copy).click();
      await site.paidTimes(2, copy);
    });

    test('a declined card: the reason, the entries and a fresh key; another card then pays', async (t) => {
      const { page } = await visitForm(t);
      const used = await key(page);
      await field(page, 'origin_lat').fill('-33.8568');
      await field(page, 'origin_lon').fill('151.2153');
      await card(page, 'poor').check();
      const entered = await entries(page);

      await payButton(page).click();

      const alert = page.getByRole('alert');
      await alert.getByText('Your card was declined').waitFor();
      const reason = await alert.innerText();
      assert.match(reason, /insufficient funds/i);
      assert.equal(reason.match(/Nothing was charged/g)?.length, 1, reason);
      await focused(alert);
      assert.match(await page.title(), /declined/);
      assert.deepEqual(await entries(page), entered);
      const fresh = await key(page);
      assert.notEqual(fresh, used);
      await site.nothingCharged();

      await page.reload();
      await alert.getByText('Your card was declined').waitFor();
      await site.nothingCharged();

      await card(page, 'otherGood').check();
      await payButton(page).click();
      await site.paidOnce(page);
      assert.ok((await page.getByRole('main').innerText()).includes('-33.8568, 151.2153'));
    });

    test('two tabs with one form, paid in both at once: one ride in both', async (t) => {
      const { page } = await visitForm(t);
      const copy = await duplicate(page);
      await site.fault('slow_response', { delay_ms: 500 });
      await Promise.all([page, copy].map((tab) => payButton(tab).click({ noWaitAfter: true })));
      assert.equal(await site.paidOnce(page), await site.paidOnce(copy));
    });

    test('two tabs that opened the form: it is one form, and another booking is asked for', async (t) => {
      const { page, context } = await visitForm(t);
      const other = await context.newPage();
      await other.goto('/rides/new');
      assert.equal(await key(other), await key(page));
      await payButton(page).click();
      const ride = await site.paidOnce(page);
      await field(other, 'target_lat').fill('48.8584');
      await payButton(other).click();
      await other.getByText('This ride was already booked').waitFor();
      await other.getByRole('link', { name: 'Book another ride' }).click();
      await ready(other);
      await payButton(other).click();
      await site.paidTimes(2, other);
      assert.notEqual(new URL(other.url()).pathname, ride);
    });

    test('wrong entries: each is named at its field, and the same form then pays', async (t) => {
      const { page } = await visitForm(t);
      const used = await key(page);
      await field(page, 'origin_lat').fill('91');
      await field(page, 'target_lon').fill('');
      await payButton(page).click();

      const alert = page.getByRole('alert');
      await alert.waitFor();
      await focused(alert);
      for (const name of ['origin_lat', 'target_lon']) {
        const input = field(page, name);
        assert.equal(await input.getAttribute('aria-invalid'), 'true');
        const described = await input.evaluate((element) =>
          element.ariaDescribedByElements.map(({ textContent }) => textContent).join(' '),
        );
        assert.match(described, /must be|missing/, 'the reason is read out with the field');
      }
      assert.equal(await page.locator('[aria-invalid]').count(), 2);
      await alert.getByRole('link', { name: /From.*latitude/i }).click();
      await focused(field(page, 'origin_lat'));
      assert.equal(await field(page, 'origin_lat').inputValue(), '91');
      assert.equal(await key(page), used, 'nothing was run: the key is still free');
      if (!javaScriptEnabled) {
        await page.reload(); // sends it again
        await alert.waitFor();
      }
      await site.nothingCharged();

      await field(page, 'origin_lat').fill('19.0');
      await field(page, 'target_lon').fill('-81');
      await payButton(page).click();
      await site.paidOnce(page);
    });

    test('a form of another visit does not run: the entries are kept, and a fresh form pays', async (t) => {
      const { page, context } = await visitForm(t);
      await field(page, 'origin_lat').fill('12.5');
      const entered = await entries(page);
      await context.clearCookies();
      await payButton(page).click();
      await page.getByText('This form cannot be used here').waitFor();
      await site.nothingCharged();
      assert.deepEqual(await entries(page), entered);
      await payButton(page).click();
      await site.paidOnce(page);
    });

    test('the whole way with the keyboard', async (t) => {
      const { page } = await site.visit(t, { javaScriptEnabled });
      const tabTo = async (locator) => {
        for (let i = 0; i < 20; i++) {
          await page.keyboard.press('Tab');
          if (await locator.evaluate((element) => element === document.activeElement)) return;
        }
        assert.fail(`Tab does not reach ${locator}`);
      };
      await page.goto('/');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter'); // the skip link
      await tabTo(page.getByRole('link', { name: 'Book a rocket ride' }));
      await page.keyboard.press('Enter');
      await ready(page);
      await tabTo(field(page, 'origin_lat'));
      await page.keyboard.press('ControlOrMeta+A');
      await page.keyboard.type('51.5007');
      await tabTo(field(page, 'origin_lon'));
      await tabTo(field(page, 'target_lat'));
      await tabTo(field(page, 'target_lon'));
      await tabTo(card(page, 'good'));
      await page.keyboard.press('ArrowDown');
      assert.ok(await card(page, 'otherGood').isChecked());
      await tabTo(payButton(page));
      const outline = await payButton(page).evaluate((button) => getComputedStyle(button).outlineStyle);
      assert.notEqual(outline, 'none', 'the focus can be seen');
      await page.keyboard.press('Space');
      await site.paidOnce(page);
      assert.ok((await page.getByRole('main').innerText()).includes('51.5007'));
    });
  });
}

// In Firefox no page with `Cache-Control: no-store` comes out of it: there every Back loads the form anew.
const cached = { skip: isFirefox };

test(
  'a page out of the back-forward cache asks whether it was paid before it lets anyone pay',
  cached,
  async (t) => {
    const { page, context } = await site.visitForm(t, { backForwardCache: true });
    const copy = await duplicate(page);
    await page.evaluate(() => (window.sameDocument = true));
    await page.getByRole('link', { name: 'Paid Once' }).click();
    await page.getByRole('link', { name: 'Book a rocket ride' }).waitFor();
    await payButton(copy).click();
    const ride = await site.paidOnce(copy);

    await context.setOffline(true);
    await back(page);
    const progress = page.getByRole('status');
    await progress.getByText('Checking whether this form is paid').waitFor();
    assert.equal(await page.evaluate(() => window.sameDocument), true, 'it is the old page');
    assert.equal(await payButton(page).getAttribute('aria-disabled'), 'true');
    const sent = posts(page);
    await payButton(page).click({ force: true });
    await context.setOffline(false);
    assert.equal(await site.paidOnce(page), ride);
    assert.equal(sent.length, 0);
  },
);

test(
  'a page out of the back-forward cache that is told to wait stays closed until it knows',
  cached,
  async (t) => {
    const { page } = await site.visitForm(t, { backForwardCache: true });
    const copy = await duplicate(page);
    await page.evaluate(() => {
      const ask = window.fetch;
      window.asked = 0;
      const mayAsk = new Promise((resolve) => (window.letAsk = resolve));
      window.fetch = (...request) =>
        (window.asked += 1) > 1
          ? mayAsk.then(() => ask(...request))
          : Promise.resolve(new Response('{}', { status: 429, headers: { 'Retry-After': '3' } }));
    });
    await page.getByRole('link', { name: 'Paid Once' }).click();
    await page.getByRole('link', { name: 'Book a rocket ride' }).waitFor();
    await payButton(copy).click();
    const ride = await site.paidOnce(copy);

    await back(page);
    await page.getByRole('status').getByText('No answer yet.').waitFor();
    assert.ok((await page.evaluate(() => window.asked)) > 0, 'it is the old page, and was told to wait');
    assert.equal(await payButton(page).getAttribute('aria-disabled'), 'true');
    await page.evaluate(() => window.letAsk());
    assert.equal(await site.paidOnce(page), ride);
  },
);

test(
  'a page out of the back-forward cache that was on its way to the receipt goes there',
  cached,
  async (t) => {
    const { page } = await site.visitForm(t, { backForwardCache: true });
    const [slow, asked] = [createServer(), []];
    t.after(() => slow.close().closeAllConnections());
    slow.on('request', (request, response) => {
      if (request.url === '/receipt' && asked.push(request) > 1) response.end('<h1>The receipt</h1>');
    });
    await once(slow.listen(0, '127.0.0.1'), 'listening');
    const receipt = `http://127.0.0.1:${slow.address().port}/receipt`;
    await page.evaluate((url) => {
      const answer = {
        ok: true,
        status: 200,
        redirected: true,
        url,
        headers: new Headers(),
        text: async () => '',
      };
      window.fetch = async () => answer;
    }, receipt);
    await payButton(page).click({ noWaitAfter: true });
    await until('the receipt is asked for', () => asked.length === 1);
    await page.goto('/');
    await page.getByRole('link', { name: 'Book a rocket ride' }).waitFor();
    await back(page);
    await page.getByRole('heading', { name: 'The receipt' }).waitFor();
  },
);

test('a page out of the back-forward cache that was never paid takes the payment', cached, async (t) => {
  const { page } = await site.visitForm(t, { backForwardCache: true });
  await field(page, 'origin_lat').fill('5.25');
  const unused = await key(page);
  await page.getByRole('link', { name: 'Paid Once' }).click();
  await page.getByRole('link', { name: 'Book a rocket ride' }).waitFor();
  const answered = page.waitForResponse('**/rides/keys/*');
  await back(page);
  assert.equal((await answered).status(), 404);
  await ready(page);
  assert.equal(await key(page), unused);
  await payButton(page).click();
  await site.paidOnce(page);
  assert.ok((await page.getByRole('main').innerText()).includes('5.25'));
});

/** To the start. Whoever takes so long that the form goes on by itself just then presses once more. */
async function goHome(page) {
  for (;;) {
    const navigated = page.waitForEvent('framenavigated');
    await page.getByRole('link', { name: 'Paid Once' }).click();
    await navigated;
    await page.waitForLoadState();
    if (await page.getByRole('link', { name: 'Book a rocket ride' }).isVisible()) return;
  }
}

// What the browser does with the old page depends: it is loaded anew, or comes out of the back-forward cache.
const leavings = {
  'a reload': async (page) => {
    await page.reload({ waitUntil: 'commit' });
    await site.calm(); // the bank answers
  },
  'away and back': async (page) => {
    await goHome(page);
    await back(page);
    await site.calm();
  },
  'away until it is paid, and back': async (page) => {
    await goHome(page);
    await site.calm();
    await back(page);
  },
};
for (const [leaving, leave] of Object.entries(leavings)) {
  test(`${leaving} in the middle of a payment: the person sees its end, and pays once`, async (t) => {
    const { page } = await site.visit(t, { backForwardCache: true });
    await page.goto('/');
    await page.getByRole('link', { name: 'Book a rocket ride' }).click();
    await ready(page);
    await site.fault('slow', { delay_ms: 60_000 });
    await payButton(page).click();
    await site.charging();
    await leave(page);
    await site.paidOnce(page);
  });
}
