// The form as a person sees it: by labels, buttons and messages.

export const FIELDS = {
  origin_lat: ['From', 'Latitude'],
  origin_lon: ['From', 'Longitude'],
  target_lat: ['To', 'Latitude'],
  target_lon: ['To', 'Longitude'],
};

export const CARDS = {
  good: 'Visa ···· 4242',
  otherGood: 'Mastercard ···· 4444',
  declined: 'Visa ···· 0002',
  poor: 'Visa ···· 9995',
  bank: 'Visa ···· 3184',
};

export function field(page, name) {
  const [group, label] = FIELDS[name];
  return page.getByRole('group', { name: group, exact: true }).getByLabel(label);
}

export const card = (page, name) => page.getByRole('radio', { name: CARDS[name] });

export const payButton = (page) => page.locator('#pay');

export const key = (page) => page.locator('input[name=idempotency_key]').inputValue();

/** What is entered, by field. */
export async function entries(page) {
  const values = {};
  for (const name of Object.keys(FIELDS)) values[name] = await field(page, name).inputValue();
  values.card = await page.locator('input[name=payment_method]:checked').inputValue();
  return values;
}

/** It has the focus. A browser gives that a moment after the page is there. */
export const focused = (locator) => locator.and(locator.page().locator(':focus')).waitFor();

/** The form is there and takes a payment. */
export async function ready(page) {
  await page.locator('#pay:not([aria-busy=true]):not([disabled])').waitFor();
}

/** A copy of the form in another tab, with the same key, as a duplicated tab has it. */
export async function duplicate(page) {
  const copy = await page.context().newPage();
  await copy.goto('/rides/new');
  const used = await key(page);
  await copy.locator('input[name=idempotency_key]').evaluate((input, value) => (input.value = value), used);
  return copy;
}

/** Back, also to a page that comes out of the back-forward cache and so never loads. */
export const back = (page) => page.goBack({ waitUntil: 'commit' });

/**
 * The same from a page that refreshes itself, by what is seen here and there. Where it does so just then one of the two is given up, and the browser
 * does not say which.
 */
export async function backFrom(page, here, there) {
  for (;;) {
    try {
      await back(page);
    } catch (error) {
      if (!/ERR_ABORTED|Not attached to an active page/.test(error.message)) throw error;
    }
    await here.or(there).first().waitFor();
    if (await there.isVisible()) return;
  }
}

/**
 * The browser's own reload, also of its error page. While that takes over from the page of another process Chromium can
 * refuse, and has then done nothing.
 */
export async function reload(page) {
  for (;;) {
    try {
      return await page.reload();
    } catch (error) {
      if (!error.message.includes('Not attached to an active page')) throw error;
    }
  }
}

/** Every `POST /rides` that the tab sends from now on. */
export function posts(page) {
  const sent = [];
  page.on('request', (request) => {
    if (isPost(request)) sent.push(request);
  });
  return sent;
}

export const isPost = (request) =>
  request.method() === 'POST' && new URL(request.url()).pathname === '/rides';

/** Lets `answer` deal with the next `times` posts; the later ones go through. */
export async function intercept(page, times, answer) {
  let left = times;
  await page.route('**/rides', async (route) => {
    if (!isPost(route.request()) || left-- <= 0) return route.fallback();
    return answer(route);
  });
}

/** The clock of the page stands still: a pause lasts until the test ends it, on a slow machine too. */
export async function stopClock(page) {
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 3_600_000);
}

/** Waits until a try has failed, and ends the pause after it; the next failure says so anew. */
export async function sendsAgain(page, { failed = 'Connection lost.', afterMs = 10_000 } = {}) {
  await page.getByText(failed).waitFor();
  await page.locator('#progress').evaluate((progress) => (progress.value = ''));
  const again = page.waitForRequest(isPost);
  await page.clock.fastForward(afterMs);
  await again;
}
