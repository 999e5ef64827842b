// A browser's own Idempotency-Key, as it comes over the wire: Firefox has one (network.http.idempotencyKey.enabled), another
// for each click. It stops no form, and makes no two refunds of two clicks. Chromium has none, and does the same.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer, request as send } from 'node:http';
import { after, beforeEach, test } from 'node:test';

import { isFirefox } from './support/browsers.mjs';
import { card, payButton, ready } from './support/form.mjs';
import { useSite } from './support/site.mjs';

/** What stands between browser and site, and takes down the keys of what is sent. */
const wire = createServer((incoming, answer) => {
  const { method, url, headers } = incoming;
  if (method === 'POST')
    sent.push({ path: new URL(url, site.origin).pathname, key: headers['idempotency-key'] });
  const { hostname, port } = new URL(site.origin);
  const onward = send({ hostname, port, method, path: url, headers }, (outcome) => {
    answer.writeHead(outcome.statusCode, outcome.headers);
    outcome.pipe(answer);
  });
  onward.on('error', () => answer.destroy());
  incoming.pipe(onward);
});
/** A page of a shop, at an origin of its own. */
const shop = createServer((_, answer) =>
  answer.setHeader('content-type', 'text/html').end('<!doctype html><title>Shop</title><h1>Orders</h1>'),
);
const listening = (server) =>
  new Promise((done) => {
    server.listen(0, '127.0.0.1', () => done(`http://127.0.0.1:${server.address().port}`));
  });
const [wireOrigin, shopOrigin] = await Promise.all([wire, shop].map(listening));
let sent = [];

const site = useSite({ vars: { CORS_ORIGINS: shopOrigin } });
beforeEach(() => (sent = []));
after(() => {
  for (const server of [wire, shop]) {
    server.close();
    server.closeAllConnections();
  }
});

/** Each POST had a key that only the browser can have made, if it makes any; no two clicks the same. */
function assertOwnKeys(count) {
  assert.equal(sent.length, count, JSON.stringify(sent));
  if (!isFirefox)
    return assert.deepEqual(
      sent.map(({ key }) => key),
      Array(count).fill(undefined),
    );
  for (const { key } of sent) assert.match(key, /^"\d{1,20}"$/);
  assert.equal(new Set(sent.map(({ key }) => key)).size, count);
}

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? 'with JavaScript' : 'without JavaScript';

  test(`a ride is booked, and pressing twice books it once, ${how}`, async (t) => {
    const { page } = await site.visit(t, { javaScriptEnabled, baseURL: wireOrigin });
    await page.goto('/rides/new');
    await ready(page);
    await site.fault('slow_response', { delay_ms: 300 });
    await payButton(page).dblclick();
    await site.paidOnce(page);
    assertOwnKeys(sent.length);
    assert.ok(sent.length >= 1);
  });

  test(`a declined card and then another one pay an order once, ${how}`, async (t) => {
    const { page } = await site.visit(t, { javaScriptEnabled, baseURL: wireOrigin });
    await page.goto('/checkout');
    await card(page, 'poor').check();
    await payButton(page).click();
    await page.getByRole('alert').getByText('Your card was declined').waitFor();
    await card(page, 'good').check();
    await payButton(page).click();
    await page.getByText('Thank you for your order').waitFor();
    assert.equal((await site.charges()).length, 1);
    assertOwnKeys(2);
  });
}

test("two clicks on a refund, in a shop's page whose script sends no key, give back once", async (t) => {
  const headers = { authorization: 'Bearer user@example.com', 'content-type': 'application/json' };
  const body = JSON.stringify({ amount: 2500, currency: 'usd' });
  const paid = await fetch(`${site.origin}/payments`, {
    method: 'POST',
    headers: { ...headers, 'idempotency-key': randomUUID() },
    body,
  });
  assert.equal(paid.status, 201);
  const { id } = await paid.json();

  const { page } = await site.visit(t);
  await page.goto(shopOrigin);
  const clicks = await page.evaluate(
    async ([url, headers]) => {
      const click = async () => {
        const answer = await fetch(url, { method: 'POST', headers, body: '{"amount":1000}' });
        return { status: answer.status, refund: (await answer.json()).id };
      };
      return [...(await Promise.all([click(), click()])), await click()];
    },
    [`${wireOrigin}/payments/${id}/refunds`, headers],
  );
  assert.deepEqual(
    clicks.map(({ status }) => status),
    [201, 201, 201],
  );
  assert.equal(new Set(clicks.map(({ refund }) => refund)).size, 1);
  assertOwnKeys(3);
  const { refunds } = await site.sim('GET', 'ledger');
  assert.deepEqual(
    refunds.map(({ amount }) => amount),
    [1000],
  );
});
