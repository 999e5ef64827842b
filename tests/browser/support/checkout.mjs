// The checkout as a person sees it, and what it sends.

import assert from 'node:assert/strict';

/** A page with this heading. */
export const heading = (page, name) => page.getByRole('heading', { level: 1, name }).waitFor();

/** Every POST to an order that the tab sends from now on. */
export function posts(page) {
  const sent = [];
  page.on('request', (request) => {
    if (request.method() === 'POST' && new URL(request.url()).pathname.startsWith('/checkout/'))
      sent.push(request);
  });
  return sent;
}

/** The page is the receipt of the only charge that there is at the site. */
export async function paidOnce(site, page, amount = 5450) {
  await heading(page, 'Thank you for your order');
  assert.equal(new URL(page.url()).search, '', 'the address is the order’s own');
  const charges = await site.charges();
  assert.equal(charges.length, 1, JSON.stringify(charges, null, 2));
  assert.equal(charges[0].amount, amount);
  if ((await page.locator('.details[open]').count()) === 0)
    await page.getByText('Details', { exact: true }).click();
  const shown = await page.getByRole('main').innerText();
  for (const part of [charges[0].payment_intent, charges[0].metadata.resource])
    assert.ok(shown.includes(part), shown);
  return shown;
}
