// Somebody who has never heard of idempotency opens the lab and presses the big button: with JavaScript the ledger fills in
// while they look, without it the page comes when all is over.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { focused } from './support/form.mjs';
import { useSite } from './support/site.mjs';

const site = useSite({ vars: { PROVIDER_TIMEOUT_MS: '20000', LEASE_MS: '60000', QUIET_MS: '30000' } });

const pay = (page) => page.getByRole('button', { name: 'Pay $20.00', exact: true });
const once = (page) => page.getByRole('radio', { name: 'Once', exact: true });
const fault = (page, name) => page.getByRole('radio', { name });
const verdict = (page) => page.locator('#verdict');
/** The verdict is there, and says this. */
const says = (page, text) => verdict(page).filter({ hasText: text }).waitFor();
/**
 * The verdict of five presses of which each charges twice without protection; at least, because on a busy machine a client
 * without patience asks once more. Gives how often.
 */
async function tenToOne(page) {
  await says(page, 'Paid Once: charged once, $20.00.');
  const text = await verdict(page).innerText();
  const [, times, sum] =
    /^You pressed 5 times\. Unprotected: charged (\d+) times, \$(\d+)\.00\./.exec(text) ?? assert.fail(text);
  assert.ok(times >= 10, text);
  assert.equal(Number(sum), times * 20);
  return Number(times);
}
const side = (page, name) => page.getByRole('region', { name });

describe('the button of the home page', () => {
  const button = (page) => page.locator('[data-small-lab] button');
  const sums = (page) => page.locator('[data-small-lab] .sum').allInnerTexts();

  test('shows it in place, leads to all of it, and pays for another thing when it is pressed again', async (t) => {
    const { page } = await site.visit(t);
    await page.goto('/');
    await page.getByRole('button', { name: 'Copy' }).waitFor();
    await button(page).click();
    const link = page.getByRole('link', { name: 'See what happened' });
    await link.waitFor();
    const [unprotected, paidOnce] = await sums(page);
    assert.match(unprotected, /^\$2\d\d\.00\s+charged 1\d times$/);
    assert.match(paidOnce, /^\$20\.00\s+charged once$/);
    const charged = (await site.charges()).length;
    const address = await link.getAttribute('href');

    // At once: what was paid before is not what will be paid now.
    const begun = await button(page).evaluate((pressed) => {
      pressed.click();
      return [...document.querySelectorAll('[data-small-lab] .sum')].map((sum) => sum.textContent);
    });
    assert.deepEqual(begun, ['$0.00 not charged', '$0.00 not charged']);
    await page.locator(`[data-small-lab] a:not([href="${address}"])`).waitFor();
    const [again] = await sums(page);
    const times = Number(/charged (\d+) times/.exec(again)[1]);
    assert.equal((await site.charges()).length, charged + times + 1);

    await page.goto(address);
    await says(page, 'charged once, $20.00');
  });

  test('leads to the result without JavaScript', async (t) => {
    const { page } = await site.visit(t, { javaScriptEnabled: false });
    await page.goto('/');
    await button(page).click();
    await says(page, 'charged once, $20.00');
  });
});

for (const javaScriptEnabled of [true, false]) {
  describe(javaScriptEnabled ? 'with JavaScript' : 'without JavaScript', () => {
    async function visit(t) {
      const visitor = await site.visit(t, { javaScriptEnabled });
      await visitor.page.goto('/lab');
      return visitor;
    }

    test('from the home page, one click: ten charges without protection, one with it', async (t) => {
      const { page } = await site.visit(t, { javaScriptEnabled });
      await page.goto('/');
      await page.getByRole('link', { name: 'Lab', exact: true }).click();
      await pay(page).click();
      await focused(verdict(page));
      const times = await tenToOne(page);
      assert.match(await side(page, 'Without protection').innerText(), /\$2\d\d\.00\s+charged 1\d times/);
      assert.match(await side(page, 'With Paid Once').innerText(), /\$20\.00\s+charged once/);
      await page.getByText('Paid Once asked again under the same key').waitFor();
      assert.equal((await site.charges()).length, times + 1);

      const sent = await side(page, 'With Paid Once')
        .getByText(/^5 clicks \+ \d+ automatic retr/)
        .innerText();
      const requests = 5 + Number(/\+ (\d+)/.exec(sent)[1]);
      await page
        .getByRole('img', { name: `${requests} requests from the browser; 1 of them came to the bank.` })
        .waitFor();
      const shared = await page.getByRole('link', { name: 'link to this result' }).getAttribute('href');
      const other = await page.context().newPage();
      await other.goto(shared);
      await says(other, await verdict(page).innerText());
      await other.close();

      const address = page.url();
      assert.match(address, /\/lab\/[0-9a-f-]{36}\?fault=answer_lost&times=5&unprotected=[^#]*(#verdict)?$/);
      await page.reload();
      await says(page, 'charged once, $20.00');
      assert.equal((await site.charges()).length, times + 1, 'a reload charges nothing');
      assert.equal(page.url(), address);
    });

    test('pressed once more, for the same order', async (t) => {
      const { page } = await visit(t);
      await fault(page, 'Nothing').check();
      await once(page).check();
      await pay(page).click();
      await says(
        page,
        'You pressed once. Unprotected: charged once, $20.00. Paid Once: charged once, $20.00.',
      );
      await page.getByRole('button', { name: 'Press Pay once more' }).click();
      await says(
        page,
        'You pressed twice. Unprotected: charged twice, $40.00. Paid Once: charged once, $20.00.',
      );
      // What you saw comes with the end of the experiment, which may be after its counts.
      await side(page, 'With Paid Once').getByText('paid, the same payment', { exact: true }).waitFor();
      await page.getByText('Asked again: the stored answer is sent', { exact: true }).waitFor();
    });

    test('a crash of the server is told as any other result', async (t) => {
      const { page } = await visit(t);
      await fault(page, 'The server crashes').check();
      await pay(page).click();
      await focused(verdict(page));
      await tenToOne(page);
      await page.getByText('Taken up again: its holder was gone').waitFor();
      assert.match(await side(page, 'With Paid Once').innerText(), /the server died/);
    });

    test('to the bank and back', async (t) => {
      const { page } = await visit(t);
      await fault(page, '3-D Secure').check();
      await pay(page).click();
      await says(page, 'Paid Once: waits for you at the bank.');
      assert.equal(await side(page, 'Without protection').getByRole('link').count(), 5);
      await side(page, 'With Paid Once').getByRole('link', { name: 'Open the bank’s page' }).click();
      await page.getByRole('button', { name: 'Complete' }).click();
      await says(page, 'Paid Once: charged once, $20.00.');
      assert.equal((await site.charges()).length, 1);
    });
  });
}

test('with JavaScript the ledger fills in while the presses are under way, and Back leads to the choice', async (t) => {
  const { page } = await site.visit(t);
  await page.goto('/lab');
  await fault(page, 'The bank is slow').check();
  await once(page).check();
  await pay(page).click();
  await side(page, 'Without protection').getByText('charged').first().waitFor();
  assert.equal(await pay(page).getAttribute('aria-busy'), 'true', 'it is not over yet');
  await page
    .getByText('One click, each with automatic retries, to both shops. “The bank is slow”.')
    .waitFor();
  await says(page, 'You pressed once. Unprotected: charged twice, $40.00. Paid Once: charged once, $20.00.');
  await focused(verdict(page));
  await page.goBack();
  await page.locator('#results:empty').waitFor({ state: 'attached' });
  assert.equal(new URL(page.url()).pathname, '/lab');
});

test('with JavaScript what fills in is not read out until it is over', async (t) => {
  const { page } = await site.visit(t);
  await page.goto('/lab');
  await page.evaluate(() => {
    const seen = { verdicts: 0, calm: 0 };
    window.seen = seen;
    const results = document.getElementById('results');
    new MutationObserver((changes) => {
      const added = changes.flatMap(({ addedNodes }) => [...addedNodes]);
      seen.verdicts += added.filter((node) => node.id === 'verdict').length;
      if (results.ariaBusy !== 'true') seen.calm += 1;
    }).observe(results, { childList: true });
  });
  await fault(page, 'The bank is slow').check();
  await once(page).check();
  const results = await page.locator('#results').elementHandle();
  await pay(page).click();
  await side(page, 'Without protection').getByText('charged').first().waitFor();
  assert.deepEqual(
    await page.evaluate(() => window.seen),
    { verdicts: 1, calm: 0 },
    'one verdict, in a region that is busy',
  );
  assert.ok(await results.evaluate((node) => node.isConnected && node.ariaBusy === 'true'));
  await says(page, 'Paid Once: charged once, $20.00.');
  await focused(verdict(page));
  assert.equal(await page.locator('#results').getAttribute('aria-busy'), null, 'it is over');
});
