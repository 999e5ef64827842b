// Adyen tells that a report is there: it is fetched from Adyen alone, and what it says of everything that has happened agrees with us.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { ADYEN_KEY, notify, notifyAt } from './support/adyen.mjs';
import { startSite } from './support/harness.mjs';
import { AUTHORISATION, PAYMENT, client, moved, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const HOUR_MS = 3_600_000;
const ADYEN = { provider: 'adyen' };
const MERCHANT = 'PaidOnceDemo';

/** A site to which Adyen tells what it has to tell when the test says so. */
async function shop(options) {
  const site = await startSite(options);
  const user = client(site);
  const model = readModel(site);
  await site.simulator.webhooks('late', { delay_ms: HOUR_MS });
  const told = async () => {
    await site.simulator.advance(HOUR_MS);
    for (const sent of await site.simulator.flush()) assert.equal(sent.status, 200, JSON.stringify(sent));
  };
  return {
    site,
    model,
    told,
    user,
    async takes(more = {}) {
      const payment = await paid(user, { ...PAYMENT, ...ADYEN, ...more });
      await told();
      return model.reaches(payment.id, payment.status === 'requires_capture' ? payment.status : 'succeeded');
    },
    /** Closes a payout, tells of its report, lets the clock strike, and waits until it is over. */
    async reports(options = {}) {
      const { name } = await site.simulator.report(options);
      await told();
      await model.tick();
      const over = await until('the report is fetched, or is not', () =>
        model.first(
          "SELECT * FROM report_announcements WHERE name = ? AND (state != 'waiting' OR error IS NOT NULL)",
          name,
        ),
      );
      return { ...over, report: await model.first('SELECT * FROM reports WHERE name = ?', name) };
    },
    breaks: () =>
      model.all(
        "SELECT kind, provider_payment, resource FROM breaks WHERE provider = 'adyen' AND state = 'open' AND kind NOT IN ('webhook', 'silent')",
      ),
  };
}

/** A person sends a file. */
const sends = (site, body, name) =>
  site.fetch(`/admin/settlement/reports?name=${name}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'text/csv' },
    body,
  });
async function send(site, body, name) {
  const report = await (await sends(site, body, name)).json();
  assert.equal(report.state, 'done', JSON.stringify(report));
  return report;
}

describe('a report of which Adyen tells', async () => {
  const adyen = await shop({ secrets: { ADMIN_TOKEN } });
  const { site, model, told, user } = adyen;
  after(() => site.close());

  test('agrees with what has happened here, by other decimals and over two payouts', async () => {
    const happens = async (payment, ...all) => {
      for (const happening of all) {
        await site.simulator.befall(payment.provider_payment, happening);
        await told();
      }
    };
    await adyen.takes();
    for (const [currency, amount] of [
      ['clp', 1000],
      ['isk', 120_000],
      ['jpy', 500],
      ['idr', 1_000_000],
      ['kwd', 1230],
    ])
      await adyen.takes({ currency, amount });
    const held = await adyen.takes(AUTHORISATION);
    await moved(user, held.payment_id, 'capture', { amount: 2000 });
    await told();
    const back = await adyen.takes();
    await moved(user, back.payment_id, 'refunds', { amount: 700 });
    await told();
    const disputed = await adyen.takes();
    await happens(disputed, 'chargeback');
    // The report is compared with the read model, which follows.
    await model.reaches(held.payment_id, 'succeeded');
    await model.reaches(disputed.payment_id, 'disputed');
    await until('the read model has the refund', () =>
      model.first("SELECT 1 FROM refunds WHERE payment_id = ? AND status = 'succeeded'", back.payment_id),
    );
    const first = await adyen.reports();
    assert.equal(first.state, 'fetched', first.error);
    assert.equal(first.report.state, 'done');
    const { types, of_others, unreadable } = JSON.parse(first.report.counts);
    assert.deepEqual(types, { Settled: 9, Refunded: 1, Chargeback: 1, Fee: 1, MerchantPayout: 1 });
    assert.deepEqual([of_others, unreadable], [0, 0]);
    assert.deepEqual(await adyen.breaks(), []);

    await happens(held, 'capture-failed', 'recaptured');
    await happens(back, 'refund-reversed');
    await happens(disputed, 'chargeback-reversed', 'second-chargeback');
    const second = await adyen.reports();
    assert.deepEqual(JSON.parse(second.report.counts).types, {
      SettledReversed: 1,
      Settled: 1,
      RefundedReversed: 1,
      ChargebackReversed: 1,
      SecondChargeback: 1,
      Fee: 1,
      MerchantPayout: 1,
    });
    await until('the books agree', async () => {
      await model.tick();
      return (await adyen.breaks()).length === 0;
    });
  });

  test('finds what no webhook has told', async () => {
    const payment = await adyen.takes();
    const held = await adyen.takes(AUTHORISATION);
    await site.simulator.webhooks('off');
    await site.simulator.befall(payment.provider_payment, 'refund', { amount: 500 });
    await site.simulator.befall(held.provider_payment, 'capture');
    await site.simulator.webhooks('late', { delay_ms: HOUR_MS });
    await adyen.reports();
    assert.deepEqual((await adyen.breaks()).map(({ kind, resource }) => [kind, resource]).sort(), [
      ['movement', payment.payment_id],
      ['status', held.payment_id],
    ]);
  });

  test('is asked for again until it is there', async () => {
    await site.simulator.fault('error_before', { method: 'GET', path: '/adyen/reports' });
    const { state, error, name, attempts, report } = await adyen.reports();
    assert.deepEqual([state, error, attempts, report], ['waiting', 'it was answered 500', 1, undefined]);
    await model.run('UPDATE report_announcements SET next_at_ms = 0 WHERE name = ?', name);
    await model.tick();
    const row = await model.first('SELECT state FROM report_announcements WHERE name = ?', name);
    assert.equal(row.state, 'fetched');
  });

  test('is left to the next run where others before it did not come', async () => {
    const { address } = await adyen.reports();
    await model.run(
      `INSERT INTO report_announcements (name, address, state, attempts, told_at_ms, next_at_ms, updated_at_ms)
       SELECT 'none_' || value || '.csv', ?, 'waiting', 0, 1, value, 1 FROM json_each('[1, 2, 3, 4, 5, 6, 7, 8]')`,
      address.replace(/[^/]*$/, 'none.csv'),
    );
    const { fetch_reports: run } = await model.tick();
    assert.deepEqual([run.due, run.fetched], [3, 0]);
    const tried = await model.all(
      "SELECT name, error FROM report_announcements WHERE name LIKE 'none%' AND attempts > 0 ORDER BY name",
    );
    assert.deepEqual(
      tried,
      [1, 2, 3].map((number) => ({ name: `none_${number}.csv`, error: 'it was answered 404' })),
    );
    await model.run("DELETE FROM report_announcements WHERE name LIKE 'none%'");
  });

  test('is not fetched from anybody else: a person sees it', async () => {
    const asked = async () =>
      (await site.simulator.requests()).filter(({ path }) => path.includes('reports')).length;
    const before = await asked();
    for (const address of [
      'https://evil.example/settlement_detail_report_batch_1.csv',
      'https://adyen.simulator.evil.example/adyen/reports/settlement_detail_report_batch_1.csv',
      'https://adyen.simulator@evil.example/adyen/reports/settlement_detail_report_batch_1.csv',
      'http://adyen.simulator/adyen/reports/settlement_detail_report_batch_1.csv',
    ]) {
      const { state, error, name, report } = await adyen.reports({ address });
      assert.equal(state, 'refused', address);
      assert.match(error, /none of Adyen's, and nothing was sent/);
      assert.equal(report, undefined);
      const found = await model.first('SELECT * FROM breaks WHERE break_id = ?', `report:adyen:${name}`);
      assert.equal(found.state, 'open');
    }
    assert.equal(await asked(), before);
  });

  test('is left to a person where each try to fetch it has broken off', async () => {
    const asked = async () =>
      (await site.simulator.requests()).filter(({ path }) => path.includes('reports')).length;
    const { name } = await site.simulator.report();
    await told();
    await model.run('UPDATE report_announcements SET attempts = 16 WHERE name = ?', name);
    const before = await asked();
    await model.tick();
    const { state, error } = await model.first('SELECT * FROM report_announcements WHERE name = ?', name);
    assert.deepEqual([state, error], ['refused', 'each try to fetch it broke off']);
    const found = await model.first('SELECT state FROM breaks WHERE break_id = ?', `report:adyen:${name}`);
    assert.equal(found.state, 'open');
    assert.equal(await asked(), before, 'and it is not asked for');
  });

  test('is left to a person where it is told without a signature, and the webhook has no password', async () => {
    const names = [];
    for (const _ of [1, 2]) {
      names.push((await site.simulator.report({ unsigned: true })).name);
      await told();
    }
    const announced = 'SELECT * FROM report_announcements WHERE name IN (?, ?)';
    assert.deepEqual(await model.all(announced, ...names), []);
    const seen = await model.all(
      "SELECT theirs, state, note FROM breaks WHERE break_id = 'report:adyen:unsigned'",
    );
    assert.deepEqual(
      seen.map(({ theirs, state }) => [theirs, state]),
      [[names[0], 'open']],
    );
    assert.match(seen[0].note, /set ADYEN_WEBHOOK_AUTH/);
    // Anybody can tell of one: what a person has accepted stays so.
    await model.run("UPDATE breaks SET state = 'accepted' WHERE break_id = 'report:adyen:unsigned'");
    await site.simulator.report({ unsigned: true });
    await told();
    const { state } = await model.first("SELECT state FROM breaks WHERE break_id = 'report:adyen:unsigned'");
    assert.equal(state, 'accepted');
    // The log names each, also where one notification tells of several.
    const both = ['settlement_detail_report_batch_71.csv', 'settlement_detail_report_batch_72.csv'];
    const item = (name) => ({
      amount: { currency: 'EUR', value: 0 },
      eventCode: 'REPORT_AVAILABLE',
      merchantAccountCode: MERCHANT,
      pspReference: name,
      reason: `https://ca-test.adyen.com/${name}`,
      success: 'true',
    });
    assert.equal((await notify(site, ...both.map(item))).status, 200);
    const logged = site.logs().filter(({ message }) => message.includes('report_not_signed'));
    for (const name of both)
      assert.ok(
        logged.some(({ message }) => message.includes(name)),
        name,
      );
  });
});

test('a report that is told without a signature is fetched where the webhook has a password', async () => {
  const auth = 'adyen:a-password-of-the-tests';
  const adyen = await shop({ secrets: { ADMIN_TOKEN, ADYEN_WEBHOOK_AUTH: auth } });
  try {
    await adyen.site.simulator.adyenWebhook({
      merchant_account: MERCHANT,
      path: '/webhooks/adyen',
      hmac_key: ADYEN_KEY,
      basic: Buffer.from(auth).toString('base64'),
    });
    await adyen.takes();
    const over = await adyen.reports({ unsigned: true });
    assert.equal(over.state, 'fetched', over.error);
    assert.deepEqual(await adyen.breaks(), []);
    const item = {
      amount: { currency: 'EUR', value: 0 },
      eventCode: 'REPORT_AVAILABLE',
      merchantAccountCode: MERCHANT,
      pspReference: 'settlement_detail_report_batch_9.csv',
      reason: 'https://ca-test.adyen.com/x',
      success: 'true',
    };
    const told = async (more) =>
      (await notifyAt(adyen.site, '/webhooks/adyen', auth, { ...item, ...more })).status;
    assert.equal(await told({ additionalData: { hmacSignature: 'AAAA' } }), 400, 'signed by another');
    assert.equal(await told({ eventCode: 'CAPTURE' }), 400, 'of money nothing is believed');
    assert.equal(await told({ success: 'false', merchantReference: 'x' }), 200);
    assert.equal((await adyen.model.all('SELECT * FROM report_announcements')).length, 1);
  } finally {
    await adyen.site.close();
  }
});

describe('without a key for reports', () => {
  let adyen;
  before(async () => {
    adyen = await shop({ vars: { ADYEN_REPORT_KEY: '' }, secrets: { ADMIN_TOKEN } });
  });
  after(() => adyen.site.close());

  test('a person is told that one is there, until it is sent', async () => {
    await adyen.takes();
    const { state, name, error } = await adyen.reports();
    assert.deepEqual([state, error], ['refused', 'ADYEN_REPORT_KEY is not set']);
    const seen = () =>
      adyen.model.first('SELECT state, note FROM breaks WHERE break_id = ?', `report:adyen:${name}`);
    assert.match((await seen()).note, /download it in the Customer Area and send it under Reports/);
    const file = await adyen.site.simulator.reportFile(name);
    await send(adyen.site, file, 'renamed.csv');
    assert.equal((await seen()).state, 'open', 'control: nobody knows that it is this one');
    await send(adyen.site, file, name);
    assert.equal((await seen()).state, 'repaired');
    assert.deepEqual(await adyen.breaks(), []);
  });

  test('a file in which nothing was paid out is there all the same', async () => {
    const { state, name } = await adyen.reports();
    assert.equal(state, 'refused');
    const file = await adyen.site.simulator.reportFile(name);
    const reported = () => adyen.model.all('SELECT * FROM reported_merchants');
    const before = await reported();
    assert.equal(before.length, 1);
    await send(adyen.site, `${file.split('\r\n', 1)}\r\n`, name);
    const { state: seen } = await adyen.model.first(
      'SELECT state FROM breaks WHERE break_id = ?',
      `report:adyen:${name}`,
    );
    assert.equal(seen, 'repaired');
    assert.deepEqual(await reported(), before, 'and it says nothing of what was not paid out');
  });
});

describe('where Adyen is not used any more', () => {
  let site;
  before(async () => {
    site = await startSite({
      vars: { ADYEN_API_BASE: '', ADYEN_API_KEY: '', ADYEN_MERCHANT_ACCOUNT: '' },
      secrets: { ADMIN_TOKEN },
    });
  });
  after(() => site.close());

  test('reports of merchant accounts of which there are some are read all the same', async () => {
    const file =
      'Merchant Account,Psp Reference,Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Batch Number\r\nGone_ECOM,,,,,Fee,,EUR,1.00,,1\r\n';
    const before = await sends(site, file, 'r.csv');
    assert.match(await before.text(), /or an account with a key of its own/, 'control: nobody is known');
    await readModel(site).run(
      "INSERT INTO reported_merchants (merchant_account, report_id) VALUES ('Gone_ECOM', '')",
    );
    assert.deepEqual((await send(site, file, 'r.csv')).own, { Gone_ECOM: 1 });
  });
});
