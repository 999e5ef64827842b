// The operator's desk in a browser, without any script: every page, and the buttons.
// `SCREENSHOTS=1 node tests/browser/desk.test.mjs` leaves pictures of the pages.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, test } from 'node:test';

import { putOff } from '../worker/support/objects.mjs';
import { until } from '../worker/support/until.mjs';
import { isFirefox } from './support/browsers.mjs';
import { look } from './support/look.mjs';
import { useSite } from './support/site.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';

const site = useSite({ vars: { ADMIN_TOKEN, COMPLETER_MS: '60000', QUIET_MS: '900000' } });
const made = {};
let everything;

async function post(path, body, user = 'user@example.com', key = randomUUID()) {
  const headers = {
    authorization: `Bearer ${user}`,
    'content-type': 'application/json',
    'idempotency-key': key,
  };
  const answer = await fetch(new URL(path, site.origin), {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  return { status: answer.status, headers: answer.headers, body: await answer.json() };
}

const pay = async (entries) =>
  (await post('/payments', { amount: 2500, currency: 'usd', ...entries })).body.id;

/** The outcome is unknown: the provider has charged, every answer is lost, and the next try is hours away. */
async function doubtfulPayment() {
  await site.fault('response_lost', { count: 1000, method: undefined });
  const lost = await post('/payments', { amount: 2000, currency: 'usd' });
  const id = /pay_[\w-]{43}/.exec(lost.headers.get('location'))[0];
  await putOff(site.objectSql.bind(site), id, 3 * 3_600_000);
  await site.calm();
  return id;
}

/** Made once, after the site is there: something of everything. */
async function makeEverything() {
  const key = randomUUID();
  const small = { amount: 2000, currency: 'usd' };
  for (let again = 0; again < 3; again++) await post('/payments', small, undefined, key);
  await post('/payments', small, 'user-bad-source@example.com');
  const impatient = randomUUID();
  const press = () => post('/payments', { amount: 4200, currency: 'usd' }, undefined, impatient);
  made.again = (await press()).body.id;
  for (let again = 0; again < 16; again++) await press();
  made.refundable = await pay({ order_id: 'order-1001' });
  made.euro = await pay({ amount: 1250, currency: 'eur' });
  made.reserved = await pay({ capture: false });
  await post(`/payments/${made.euro}/refunds`, { amount: 250 });

  made.unknown = await doubtfulPayment();

  const now = Date.now();
  const object = Buffer.from(made.refundable.slice(4), 'base64url').toString('hex');
  const history = JSON.stringify([
    { at_ms: now - 4_200_000, error: '503 application_error' },
    { at_ms: now - 3_000, error: '403 validation_error' },
  ]);
  const payload = JSON.stringify({ to: 'ada@example.com', about: { payment: made.refundable } });
  for (const [job, kind, state] of [
    ['letter-1', 'send_receipt', 'dead'],
    ['letter-2', 'send_receipt', 'dead'],
    ['letter-3', 'send_receipt', 'done'],
  ])
    await site.sql(
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES (?, ?, ?, ?, 5, ?, ?, ?, ?, ?)`,
      ...[job, kind, object, state, payload, now - 4_200_000, history, now - 4_200_000, now - 3_000],
    );
  for (const [id, kind, ours, theirs] of [
    ['break:1', 'status', 'processing', 'succeeded 25.00 USD'],
    ['break:2', 'amount', 'refunded 0', 'refunded 500'],
  ])
    await site.sql(
      `INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, theirs, state,
         first_seen_at_ms, last_seen_at_ms) VALUES (?, ?, 'stripe', 'pi_3Example', ?, ?, ?, ?, 'open', ?, ?)`,
      ...[id, kind, made.refundable, object, ours, theirs, now - 900_000, now - 60_000],
    );
  await site.sql(
    `INSERT INTO runs (task, at_ms, took_ms, result) VALUES ('sweep', ?, 41, '{"late":0,"woken":0,"failed":0}')`,
    now - 120_000,
  );
  await makeSettlement(now);
  await until('the read model follows', async () => {
    const [{ payments }] = await site.sql('SELECT count(*) AS payments FROM payments');
    const [{ doubts }] = await site.sql('SELECT count(*) AS doubts FROM keys WHERE in_doubt = 1');
    return payments >= 3 && doubts >= 1;
  });
}

/** Three days: written as one file, in parts, and being closed. */
async function makeSettlement(now) {
  const [first, second, third] = [3, 2, 1].map((ago) =>
    new Date(now - ago * 86_400_000).toISOString().slice(0, 10),
  );
  const file = (day) => `settlement/${day}.csv`;
  for (const [day, lines, totals] of [
    [first, 2, '{"capture":{"eur":1900},"refund":{"eur":250}}'],
    [
      second,
      93_412,
      '{"capture":{"usd":214738150},"dispute_withdrawn":{"usd":4200},"refund":{"usd":990050}}',
    ],
  ])
    await site.sql(
      'INSERT INTO settlement_files VALUES (?, ?, ?, ?, ?, ?, ?)',
      ...[file(day), day, now - 7_200_000, lines, totals, 'c0ffee'.repeat(10), now - 3_600_000],
    );
  for (const [part, lines, totals] of [
    [1, 50_000, '{"capture":{"usd":114738150},"refund":{"usd":990050}}'],
    [2, 43_412, '{"capture":{"usd":100000000},"dispute_withdrawn":{"usd":4200}}'],
  ])
    await site.sql(
      'INSERT INTO settlement_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
      ...[file(second), part, `settlement/${second}/000${part}.csv`, 'x', lines, totals],
      ...['dead'.repeat(16), now - 3_700_000],
    );
  const begins = Date.parse(third);
  await site.sql(
    'INSERT INTO settlement_closings VALUES (?, ?, ?, ?, ?, 7, 50000)',
    ...[file(third), third, begins, begins + 86_400_000, begins + 43_200_000],
  );
}

beforeEach(() => (everything ??= makeEverything()));

/** Somebody who is logged in. */
async function operator(t, options) {
  const { page, context } = await site.visit(t, { javaScriptEnabled: false, ...options });
  await page.goto('/admin');
  await page.getByLabel('Secret').fill(ADMIN_TOKEN);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return { page, context };
}

/** The page of a call in doubt, which the provider has still in its books. */
async function openCall(page) {
  await page.goto(`/admin/payments/${await doubtfulPayment()}`);
  await page.getByRole('link', { name: 'Settle by hand' }).click();
  await page.getByText(/Stripe shows pi_\w+: charged/).waitFor();
}

/** A report of Adyen's, with lines of its type, gross currency, debit, credit and batch. */
const report = (lines) =>
  `Merchant Account,Psp Reference,Merchant Reference,Creation Date,TimeZone,Modification Reference,Type,Gross Currency,Gross Debit (GC),Gross Credit (GC),Batch Number
${lines.replaceAll(/^/gm, 'PaidOnceDemo,PSPOFNOBODY,theirs,2026-11-20 10:00:00,CET,MODOFNOBODY,')}`;

async function sendReport(page, text) {
  await page.goto('/admin/reports');
  const file = {
    name: 'settlement_detail_report_batch_7.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from(text),
  };
  await page.getByLabel('File').setInputFiles(file);
  await page.getByRole('button', { name: 'Import' }).click();
  await page.getByRole('status').getByText('Import report').waitFor();
}

const pages = {
  overview: async (page) => page.goto('/admin?range=hour'),
  'overview of a week': async (page) => page.goto('/admin?range=week'),
  'overview, with a task that fails': async (page) => {
    const error = `D1_ERROR: no such column: ${'captured_minor_'.repeat(6)}of_the_day: SQLITE_ERROR`;
    await site.sql("DELETE FROM runs WHERE task = 'settle'");
    await site.sql(
      "INSERT INTO runs (task, at_ms, took_ms, result) VALUES ('settle', ?, 5, ?)",
      ...[Date.now(), JSON.stringify({ error })],
    );
    await page.goto('/admin');
    await page.getByRole('link', { name: `The task settle has failed: ${error}` }).waitFor();
  },
  payments: async (page) => page.goto('/admin/payments'),
  'payments that are nowhere': async (page) => page.goto('/admin/payments?q=nobody'),
  'a payment': async (page) => page.goto(`/admin/payments/${made.euro}`),
  'a reserved payment': async (page) => page.goto(`/admin/payments/${made.reserved}`),
  'a refund, to be confirmed': async (page) => {
    await page.goto(`/admin/payments/${made.refundable}`);
    await page.getByRole('button', { name: 'Refund' }).click();
    await page.getByRole('heading', { name: 'Refund $25.00 of $25.00 to order order-1001?' }).waitFor();
  },
  'payments by a wrong filter': async (page) => {
    await page.goto('/admin/payments?day=2026-99-99&status=foo');
    await page.getByText('The filter is wrong', { exact: true }).waitFor();
  },
  'a refund of too much': async (page) => {
    await page.goto(`/admin/payments/${made.refundable}`);
    await page.getByLabel('Amount').fill('1,000.00');
    await page.getByRole('button', { name: 'Refund' }).click();
    await page.getByRole('alert').getByText('The amount can be at most').waitFor();
    assert.equal(await page.getByLabel('Amount').inputValue(), '1,000.00');
  },
  'a payment in doubt': async (page) => page.goto(`/admin/payments/${made.unknown}`),
  'a call to settle by hand': async (page) => openCall(page),
  'a call settled by hand, to be confirmed': async (page) => {
    await openCall(page);
    const form = page.getByRole('form', { name: 'It was executed' });
    await form.getByLabel('How you know').fill('Found it on Stripe’s dashboard, by the key in its metadata');
    await form.getByRole('button', { name: 'Review' }).click();
    await page.getByText(/You say that the payment of \$20\.00 was executed by Stripe as pi_/).waitFor();
  },
  keys: async (page) => page.goto('/admin/keys'),
  'a key': async (page) => {
    await page.goto('/admin/keys');
    await page.locator('td a').first().click();
    await page.getByRole('heading', { name: 'What happened when' }).waitFor();
  },
  'a key that was answered again': async (page) => {
    const object = Buffer.from(made.again.slice(4), 'base64url').toString('hex');
    await page.goto(`/admin/keys/${object}/1`);
    await page.getByText('16 times').waitFor();
    assert.equal(await page.getByText('Answered again: payment').count(), 16);
  },
  'dead letters': async (page) => page.goto('/admin/dead-letters'),
  'a dead letter': async (page) => page.goto('/admin/dead-letters/letter-1'),
  'a dead letter, to be purged': async (page) => {
    await page.goto('/admin/dead-letters/letter-1');
    await page.getByRole('button', { name: 'Purge' }).click();
    await page.getByText('It is dropped for good, with what it carries.').waitFor();
  },
  breaks: async (page) => page.goto('/admin/breaks'),
  'reports, with one that breaks off': async (page) => {
    await sendReport(page, report('Settled,EUR,,5.00,7\nFee,,,,7\nSettled,EU'));
    await page.getByText('line 4: has 8 cells, and the head 11').first().waitFor();
  },
  settlement: async (page) => page.goto('/admin/settlement'),
  'a settlement file in parts': async (page) => {
    await page.goto('/admin/settlement');
    await page.locator('td a').first().click();
    await page.getByText('/0002.csv').waitFor();
  },
  audit: async (page) => page.goto('/admin/audit?of=effects'),
};

/** The one-time key of the button with this name. */
const buttonKey = (page, name) =>
  page
    .locator('form')
    .filter({ has: page.getByRole('button', { name }) })
    .locator('input[name=form]');

/** Goes back to the page whose button had this key. Firefox loads it anew, with a button of its own: there the used one is put in. */
async function backToUsed(page, name, key) {
  const loaded = isFirefox ? {} : { waitUntil: 'commit' };
  await page.goBack(loaded);
  const now = buttonKey(page, name);
  if (isFirefox) {
    assert.notEqual(await now.inputValue(), key);
    await now.evaluate((input, key) => (input.value = key), key);
  }
  assert.equal(await now.inputValue(), key);
}

describe('every page of the desk', () => {
  test('login', async (t) => {
    const { page } = await site.visit(t);
    await page.goto('/admin');
    await look(page, 'desk login');
  });

  for (const [name, go] of Object.entries(pages)) {
    test(name, async (t) => {
      const { page } = await site.visit(t, { reducedMotion: 'reduce' });
      await page.goto('/admin/login');
      await page.getByLabel('Secret').fill(ADMIN_TOKEN);
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      await go(page);
      await look(page, `desk ${name}`);
    });
  }
});

describe('at the desk', () => {
  test('a wrong secret opens nothing', async (t) => {
    const { page } = await site.visit(t, { javaScriptEnabled: false });
    await page.goto('/admin/keys?state=open');
    await page.getByLabel('Secret').fill('x'.repeat(40));
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('This is not the secret.').waitFor();
    await page.getByLabel('Secret').fill(ADMIN_TOKEN);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.waitForURL('**/admin/keys?state=open');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('Secret').waitFor();
    await page.goto('/admin/keys');
    await page.getByLabel('Secret').waitFor();
  });

  test('a payment is found by its order, refunded in part, and once though the button is pressed twice', async (t) => {
    const { page } = await operator(t, { backForwardCache: true });
    const id = await pay({ order_id: 'order-2002' });
    await until('it is in the list', async () => {
      await page.goto('/admin/payments');
      await page.getByLabel('Search').fill('order-2002');
      await page.getByRole('button', { name: 'Show' }).click();
      return (await page.locator('td a').count()) === 1;
    });
    await page.locator('td a').first().click();
    await page.waitForURL(`**/admin/payments/${id}`);
    await page.getByLabel('Amount').fill('5.00');
    await page.getByLabel('Reason').selectOption('duplicate');
    await page.getByRole('button', { name: 'Refund' }).click();
    await page.getByRole('heading', { name: 'Refund $5.00 of $25.00 to order order-2002?' }).waitFor();
    const used = await buttonKey(page, 'Refund $5.00').inputValue();
    await page.getByRole('button', { name: 'Refund $5.00' }).dblclick();
    await page.getByRole('status').getByText('Refunded $5.00').waitFor();
    // Back to the used page, and once more.
    await backToUsed(page, 'Refund $5.00', used);
    await page.getByRole('button', { name: 'Refund $5.00' }).click();
    await page.getByRole('status').getByText('Refunded $5.00').waitFor();
    const { refunds } = await site.sim('GET', 'ledger');
    assert.equal(refunds.filter(({ amount }) => amount === 500).length, 1);
    await page.getByRole('heading', { name: 'What operators did here' }).waitFor();
    assert.equal(await page.getByRole('cell', { name: 'refund $5.00, duplicate' }).count(), 1);
  });

  test('a payment is found from any page, and its times are where the operator is', async (t) => {
    await pay({ order_id: 'order-3003' });
    const { page } = await site.visit(t, { timezoneId: 'America/New_York', locale: 'en-US' });
    await page.goto('/admin');
    await page.getByLabel('Secret').fill(ADMIN_TOKEN);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await until('it is in the list', async () => {
      const found = await site.sql('SELECT 1 FROM payments WHERE order_id = ?', 'order-3003');
      return found.length === 1;
    });
    await page.getByRole('searchbox', { name: 'Find a payment' }).fill('order-3003');
    await page.keyboard.press('Enter');
    await page.getByText('order order-3003').waitFor();
    assert.equal(await page.getByRole('row').count(), 2, 'the heading and the one payment');
    const time = page.locator('tbody time').first();
    const [shown, hover, at] = [
      await time.innerText(),
      await time.getAttribute('title'),
      await time.getAttribute('datetime'),
    ];
    const here = new Date(at).toLocaleTimeString('en-US', {
      timeZone: 'America/New_York',
      timeStyle: 'medium',
    });
    // Some browsers set the hour and its half apart with a narrow space.
    const plain = (text) => text.replaceAll(/\s/g, ' ');
    assert.ok(plain(shown).endsWith(plain(here)), `${shown}: ${here}`);
    assert.match(hover, / UTC$/);
    assert.equal(await page.getByRole('columnheader', { name: /UTC/ }).count(), 0);
    await page.locator('tbody a').first().click();
    await page.getByText('Captured by Stripe.').waitFor();
    await page.getByRole('searchbox', { name: 'Find a payment' }).waitFor();
  });

  test('a used button does nothing else', async (t) => {
    const { page } = await operator(t, { backForwardCache: true });
    await page.goto(`/admin/payments/${await pay({})}`);
    await page.getByLabel('Amount').fill('1.00');
    await page.getByRole('button', { name: 'Refund' }).click();
    const used = await buttonKey(page, 'Refund $1.00').inputValue();
    await page.getByRole('button', { name: 'Refund $1.00' }).click();
    await page.getByRole('status').getByText('Refunded $1.00').waitFor();
    await backToUsed(page, 'Refund $1.00', used);
    await page.locator('input[name=amount]').evaluate((input) => (input.value = '$2.00'));
    await page.getByRole('button', { name: 'Refund $1.00' }).click();
    await page.getByText('This form was sent before, with other entries').waitFor();
    const { refunds } = await site.sim('GET', 'ledger');
    assert.equal(refunds.filter(({ amount }) => amount === 200).length, 0);
  });

  test('what is reserved is captured in part', async (t) => {
    const { page } = await operator(t);
    await page.goto(`/admin/payments/${await pay({ capture: false })}`);
    await page.getByLabel('Amount').fill('20');
    await page.getByRole('button', { name: 'Capture' }).click();
    await page.getByText('The other $5.00 is released').waitFor();
    await page.getByRole('button', { name: 'Capture $20.00' }).click();
    await page.getByRole('status').getByText('Captured $20.00').waitFor();
    await page.getByRole('button', { name: 'Refund' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Void' }).count(), 0);
  });

  test('an unknown outcome is found out by asking the provider', async (t) => {
    const { page } = await operator(t);
    const id = await doubtfulPayment();
    await page.goto(`/admin/payments/${id}`);
    await page.getByText('unknown', { exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Check with the provider' }).click();
    await page.getByRole('status').getByText('The provider is being asked').waitFor();
    await page.getByRole('heading', { name: 'Payment succeeded' }).waitFor();
    const { charges } = await site.sim('GET', 'ledger');
    const mine = charges.filter(({ metadata, status }) => metadata.resource === id && status === 'succeeded');
    assert.equal(mine.length, 1);
  });

  test('a list stays a table on a narrow screen, with a cell for each column', async (t) => {
    await site.sql(
      `INSERT INTO breaks (break_id, kind, provider, state, first_seen_at_ms, last_seen_at_ms)
       VALUES ('resolved:1', 'status', 'stripe', 'resolved', 1, 1)`,
    );
    const { page } = await operator(t);
    for (const path of ['/admin/breaks?state=all', `/admin/payments/${made.refundable}`]) {
      await page.goto(path);
      // Not every browser keeps the roles of what is laid out as blocks and grids.
      const bare = page
        .locator('.list')
        .locator(
          'thead:not([role=rowgroup]), tbody:not([role=rowgroup]), tr:not([role=row]), th:not([role=columnheader]), td:not([role=cell])',
        );
      assert.equal(await bare.count(), 0, path);
      assert.equal(await page.locator('.list:not([role=table])').count(), 0, path);
      for (const table of await page.locator('table').all()) {
        const columns = await table.locator('th').count();
        for (const row of await table.locator('tbody tr').all())
          assert.equal(await row.locator('td').count(), columns, path);
      }
    }
  });

  test('between a phone and a desk the list of payments is a table whose sums and names of columns are not broken', async (t) => {
    const { page } = await operator(t);
    await page.setViewportSize({ width: 768, height: 1024 });
    await page.goto('/admin/payments');
    const lines = await page.locator('.list th, .list td[data-label=Amount]').evaluateAll((cells) =>
      cells.map((cell) => {
        const text = document.createRange();
        text.selectNodeContents([...cell.childNodes].find(({ data }) => data?.trim()) ?? cell);
        return [cell.textContent.trim(), text.getClientRects().length];
      }),
    );
    assert.ok(lines.length > 10);
    for (const [text, count] of lines) assert.ok(count <= 1, `${text}: ${count} lines`);
    const [wide, room] = await page.evaluate(() => [document.body.scrollWidth, innerWidth]);
    assert.ok(wide <= room, `${wide} px`);
  });

  test('a break is accepted with a note, and stands in the audit with who and when', async (t) => {
    const { page } = await operator(t);
    await page.goto('/admin/breaks');
    const row = page.getByRole('row', { name: /amount/ });
    await row.getByLabel('Note').fill('refunded on the dashboard');
    await row.getByRole('button', { name: 'Accept' }).click();
    await page.getByRole('status').getByText('Accepted').waitFor();
    assert.equal(await page.getByRole('row', { name: /amount/ }).count(), 0);
    await page.goto('/admin/audit');
    const line = page.getByRole('row', { name: /accept: refunded on the dashboard/ });
    assert.match(await line.textContent(), /operator/);
  });

  test('a report is sent as a file or as text, and what it says of nobody’s payment is a break', async (t) => {
    const { page } = await operator(t);
    const lines = 'Settled,EUR,,5.00,8\nFee,,,,8';
    await sendReport(page, report(lines));
    await page.getByRole('status').getByText('Read whole; 2 lines').waitFor();
    await page.goto('/admin/breaks');
    await page.getByRole('row', { name: /orphan.*€5\.00 settled/ }).waitFor();
    await page.goto('/admin/reports');
    await page.getByLabel('Or its text').fill('Type,Batch Number');
    await page.getByRole('button', { name: 'Import' }).click();
    await page.getByRole('status').getByText('these columns are missing: Merchant Account').waitFor();
  });

  test('a dead letter is looked at, without the address in it, and purged', async (t) => {
    const { page } = await operator(t);
    await page.goto('/admin/dead-letters/letter-2');
    await page.getByText('a…@example.com').waitFor();
    assert.ok(!(await page.content()).includes('ada@example.com'));
    await page.getByRole('button', { name: 'Purge' }).click();
    await page.getByRole('heading', { name: 'Purge the receipt?' }).waitFor();
    await page.getByRole('button', { name: 'Purge' }).click();
    await page.getByRole('status').getByText('Dropped, with what it carried').waitFor();
    assert.equal(await page.getByText('letter-2', { exact: true }).count(), 0);
    const [job] = await site.sql("SELECT state, payload FROM jobs WHERE job_id = 'letter-2'");
    assert.deepEqual(job, { state: 'purged', payload: null });
  });

  test('the scheduled tasks run when they are told to', async (t) => {
    const { page } = await operator(t);
    await page.goto('/admin');
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByText('done: their results stand below', { exact: false }).waitFor();
    await page.getByRole('term').filter({ hasText: 'sweep' }).waitFor();
  });
});

for (const colorScheme of isFirefox ? ['light'] : ['light', 'dark'])
  test(`what was paid and what was declined differ in lightness, too: ${colorScheme}`, async (t) => {
    const { page } = await operator(t, { javaScriptEnabled: true, colorScheme });
    const [paid, declined] = await page.evaluate(() => {
      const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
      const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
      return ['paid', 'declined'].map((name) => {
        const bar = document.createElementNS('http://www.w3.org/2000/svg', 'path');
        bar.setAttribute('class', `plot-bar ${name}`);
        document.querySelector('svg.plot').append(bar);
        canvas.fillStyle = getComputedStyle(bar).fill;
        canvas.fillRect(0, 0, 1, 1);
        const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) =>
          linear(part / 255),
        );
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      });
    });
    const [light, dark] = [Math.max(paid, declined), Math.min(paid, declined)];
    assert.ok((light + 0.05) / (dark + 0.05) >= 3, `${paid} beside ${declined}`);
  });
