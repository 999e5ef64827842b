// The gate's pages at the desk, without any script: an order whose answer was lost is found by its reference and settled.
// `SCREENSHOTS=1 node tests/browser/gate-desk.test.mjs` leaves pictures.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, test } from 'node:test';

import { send as sendTo, workersWithGate } from '../worker/support/gate-site.mjs';
import { startSite } from '../worker/support/harness.mjs';
import { until } from '../worker/support/until.mjs';
import { browsers } from './support/browsers.mjs';
import { look } from './support/look.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';

const shop = createServer((request, response) => {
  if (request.url.endsWith('/lost')) request.socket.destroy();
  else response.writeHead(request.url.endsWith('/wrong') ? 422 : 201).end('ordered');
});
shop.listen(0, '127.0.0.1');
await once(shop, 'listening');
const routes = [
  {
    origin: `http://127.0.0.1:${shop.address().port}`,
    api: ['POST /cart/*/order/*'],
    timeout_ms: 1000,
    quiet_ms: 1001,
  },
];
const site = await startSite({ workers: workersWithGate(routes, { ADMIN_TOKEN }) });
const people = browsers();
after(async () => {
  await people.close();
  await site.close();
  shop.close();
});

const send = async (how, key = randomUUID()) => (await sendTo(site, `/cart/7/order/${how}`, key)).text;
const count = async (state) =>
  (await site.rows('SELECT count(*) AS number FROM gate_operations WHERE state = ?', state))[0].number;

test('an operator finds what was lost, and says how it ended', async (t) => {
  const key = randomUUID();
  await Promise.all(['done', 'done', 'done'].map((how) => send(how, key)));
  await send('wrong');
  const lost = Date.now();
  const { reference } = JSON.parse(await send('lost'));
  // On a slow machine the shop is too late with the other one, and it is not known either.
  await until('both are told', async () => (await count('unknown')) + (await count('done')) === 2);
  const unknown = await count('unknown');
  const context = await people.visit({ baseURL: site.url.origin, javaScriptEnabled: true });
  t.after(() => context.close());
  const page = await context.newPage();
  await page.setExtraHTTPHeaders({ authorization: `Bearer ${ADMIN_TOKEN}` });

  await page.goto('/admin');
  await page.getByRole('navigation').getByRole('link', { name: /^Gate/ }).click();
  await look(page, 'desk gate list');
  await page.getByRole('searchbox').first().fill(reference);
  await page.getByRole('searchbox').first().press('Enter');
  await page.waitForURL(/\/admin\/gate\?/);
  await page.locator('table').getByRole('link', { name: reference }).click();
  await page.getByText('no answer says whether it was done').waitFor();
  await look(page, 'desk gate unknown');
  await until('the shop cannot work on it any more', () => Date.now() > lost + 1500);
  const notDone = page.locator('form', { has: page.getByRole('button', { name: 'It was not done' }) });
  await notDone.getByLabel('How you know it').fill('the shop has no order of that minute');
  await notDone.getByRole('button').click();
  await page.getByText('Settled as not done', { exact: true }).waitFor();
  await look(page, 'desk gate settled');
  assert.equal(await count('unknown'), unknown - 1);
  assert.equal(await count('not_done'), 1);
});
