// Adyen's settlement reports of merchant accounts that shops have of their own: each line is compared with the payments of its merchant account, and
// says nothing of another's. They are fetched with a key of the shop's own.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { read } from './support/account.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';
import { ADMIN_TOKEN, adyenKey, registry, standNowhere } from './support/own-keys.mjs';
import { PAYMENT, moved, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const ADYEN = { provider: 'adyen' };
const DEPLOYMENTS = 'PaidOnceDemo';

const site = await startSite({
  workers: demoWorkers({ vars: { ACCOUNTS_CACHE_MS: '0' }, secrets: { ADMIN_TOKEN } }),
});
const model = readModel(site);
const { adyenShop } = registry(site);
const { look, logOf } = operator(site, ADMIN_TOKEN);
after(() => site.close());
before(() => site.simulator.webhooks('late', { delay_ms: HOUR_MS }));

/** A key with which reports of a merchant account are downloaded. */
const reportKey = (merchant, number = 7) => adyenKey(merchant, number);

/** Adyen tells all that it has to tell. */
async function told() {
  await site.simulator.advance(HOUR_MS);
  for (const sent of await site.simulator.flush()) assert.equal(sent.status, 200, JSON.stringify(sent));
}

/** A shop with a merchant account of its own, of which Adyen tells. */
async function listeningShop(options) {
  const own = await adyenShop(options);
  await site.simulator.adyenWebhook({
    merchant_account: own.merchant,
    path: own.webhook,
    hmac_key: own.hmac,
    basic: Buffer.from(own.auth).toString('base64'),
  });
  return own;
}

/** A shop that is charged in the deployment's merchant account. */
const deploymentsShop = async () => ({
  ...(await adyenShop({ own: false, key: null, hmac: null, auth: null })),
  merchant: DEPLOYMENTS,
});

async function takes(own) {
  const { id } = await paid(own.client, { ...PAYMENT, ...ADYEN });
  await told();
  await model.reaches(id, 'succeeded');
  return rowOf(id);
}
const rowOf = (id) => model.first('SELECT * FROM payments WHERE payment_id = ?', id);

let batches = 0;
const date = (at) => new Date(at).toISOString().slice(0, 19).replace('T', ' ');

/** A line, of the merchant account in which the payment was made unless it says otherwise. */
const line = (payment, more = {}) => ({
  'Merchant Account': payment.merchant_account ?? DEPLOYMENTS,
  'Psp Reference': payment.provider_payment,
  'Merchant Reference': `${payment.payment_id}.x`,
  'Creation Date': date(Date.now()),
  TimeZone: 'UTC',
  Type: 'Settled',
  'Modification Reference': `${payment.provider_payment}M`,
  'Gross Currency': 'USD',
  'Gross Debit (GC)': '',
  'Gross Credit (GC)': '25.00',
  'Batch Number': '',
  ...more,
});

function csv(lines) {
  batches += 1;
  const rows = lines.map((cells) => Object.values({ ...cells, 'Batch Number': `${batches}` }));
  return [Object.keys(lines[0]), ...rows].map((row) => `${row.join(',')}\r\n`).join('');
}

async function sends(body, name = 'settlement_detail_report_batch_900.csv') {
  const answer = await read(
    await site.fetch(`/admin/settlement/reports?name=${name}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'text/csv' },
      body,
    }),
  );
  assert.equal(answer.status, 200, answer.text);
  return answer.json();
}
async function send(body, name) {
  const report = await sends(body, name);
  assert.equal(report.state, 'done', JSON.stringify(report));
  return report;
}
const imports = (...lines) => send(csv(lines));

const BREAKS = "SELECT kind, resource, state FROM breaks WHERE provider = 'adyen' AND provider_payment = ?";
/** What the breaks about a payment say, by Adyen's id of it within a merchant account. */
const breaks = async (id) => (await model.all(BREAKS, id)).map((row) => Object.values(row));
const within = ({ merchant_account: merchant, provider_payment: psp }) =>
  merchant ? `${merchant}/${psp}` : psp;
const isMarked = async ({ payment_id: id }) => {
  const { moved_payment: mark, provider_payment: psp } = await rowOf(id);
  return mark === psp;
};

describe('a line of a report that a person sends', () => {
  test('is compared with a payment of its merchant account, whichever of them is known', async () => {
    const shops = [await listeningShop(), await listeningShop(), await deploymentsShop()];
    const payments = [];
    for (const own of shops) payments.push(await takes(own));
    assert.deepEqual(
      payments.map(({ merchant_account: merchant }) => merchant),
      [shops[0].merchant, shops[1].merchant, null],
    );
    const strange = line({
      merchant_account: 'Strange_ECOM',
      provider_payment: 'PSPSTRANGE',
      payment_id: 'x',
    });
    const report = await imports(...payments.map((payment) => line(payment)), strange);
    assert.deepEqual(
      [report.lines, report.own, report.of_others],
      [{ Settled: 3 }, { [shops[0].merchant]: 1, [shops[1].merchant]: 1 }, 1],
    );
    for (const payment of payments) {
      assert.deepEqual(await breaks(within(payment)), []);
      assert.equal(await isMarked(payment), true);
    }
    assert.deepEqual(await model.all("SELECT 1 FROM report_lines WHERE payment LIKE '%PSPSTRANGE'"), []);
    const page = await look('/admin/reports');
    assert.match(page.text, new RegExp(`1 ${shops[0].merchant}`));
    assert.match(page.text, /1 of merchant accounts that are not known here/);

    for (const own of shops) {
      const payment = await takes(own);
      await imports(line(payment, { 'Gross Credit (GC)': '24.99' }));
      assert.deepEqual(await breaks(within(payment)), [['amount', payment.payment_id, 'open']]);
    }
  });

  test('is compared with its refunds, too', async () => {
    const own = await listeningShop();
    const payment = await takes(own);
    const { id } = await moved(own.client, payment.payment_id, 'refunds', { amount: 700 });
    await told();
    const { provider_refund: refund } = await until('the read model has the refund', () =>
      model.first("SELECT * FROM refunds WHERE refund_id = ? AND status = 'succeeded'", id),
    );
    const back = (modification, amount) =>
      line(payment, {
        Type: 'Refunded',
        'Modification Reference': modification,
        'Gross Debit (GC)': amount,
        'Gross Credit (GC)': '',
      });
    await imports(line(payment), back(refund, '7.00'));
    assert.deepEqual(await breaks(`${own.merchant}/${refund}`), []);
    await imports(back('REFOFNOBODY00009', '1.00'));
    assert.deepEqual(await breaks(`${own.merchant}/REFOFNOBODY00009`), [
      ['movement', payment.payment_id, 'open'],
    ]);
  });

  test('attack: of one shop’s merchant account changes nothing of another’s payment', async () => {
    const [own, thief] = [await listeningShop(), await listeningShop()];
    const [payment, other] = [await takes(own), await takes(own)];
    await imports(line(other, { 'Gross Credit (GC)': '24.00' }));
    // The object of an open break is asked again in each run, and shows itself anew.
    const stable = ({ version, updated_at_ms, ...row }) => row;
    const state = async () => [
      await rowOf(payment.payment_id),
      stable(await rowOf(other.payment_id)),
      await model.all(
        'SELECT break_id, ours, theirs, state FROM breaks WHERE resource IN (?, ?)',
        payment.payment_id,
        other.payment_id,
      ),
      await model.all("SELECT * FROM report_lines WHERE payment LIKE ? || '/%'", own.merchant),
    ];
    const before = await state();
    assert.equal(before[2].length, 1);
    for (const merchant of [thief.merchant, DEPLOYMENTS]) {
      const of = { 'Merchant Account': merchant };
      // As if it were settled, and as if the rest of the other one came.
      const file = csv([line(payment, of), line(other, { ...of, 'Gross Credit (GC)': '1.00' })]);
      assert.deepEqual((await send(file)).lines, { Settled: 2 });
      const tick = await model.tick();
      assert.equal(tick.adyen_reports.error, undefined);
      assert.deepEqual(await state(), before, merchant);
      const told = { ...payment, merchant_account: merchant === DEPLOYMENTS ? null : merchant };
      assert.deepEqual(
        await breaks(within(told)),
        [['orphan', null, 'open']],
        'it is told of, without the payment',
      );
    }
    assert.equal(await isMarked(payment), false);
    // Control: the same lines, as their own merchant account has them.
    await imports(line(payment), line(other, { 'Gross Credit (GC)': '1.00' }));
    assert.equal(await isMarked(payment), true);
    const [[kind, , closed]] = await breaks(within(other));
    assert.deepEqual([kind, closed === 'open'], ['amount', false]);
  });

  test('counts after the shop has left that merchant account, whose payments are here', async () => {
    const own = await listeningShop();
    const [payment, late] = [await takes(own), await takes(own)];
    await imports(line(payment));
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    assert.deepEqual((await imports(line(late))).own, { [own.merchant]: 1 });
    assert.equal(await isMarked(late), true);
  });

  test('of a merchant account that becomes known later counts once the report is sent again', async () => {
    const own = await listeningShop();
    const payment = await takes(own);
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    const file = csv([line(payment), line({ provider_payment: 'PSPFEE', payment_id: 'x' }, { Type: 'Fee' })]);
    const first = await send(file);
    assert.deepEqual([first.lines, first.own, first.of_others], [{ Fee: 1 }, {}, 1]);
    assert.deepEqual(await send(file), first, 'control: it is as unknown as before');
    assert.equal(await isMarked(payment), false);
    assert.equal((await own.set('adyen_api_key', own.adyenSecret)).status, 200);
    const again = await send(file);
    assert.deepEqual(
      [again.report, again.lines, again.own, again.of_others],
      [first.report, { Fee: 1, Settled: 1 }, { [own.merchant]: 1 }, 0],
    );
    assert.equal(await isMarked(payment), true);
    const kept = () => model.all('SELECT * FROM report_lines WHERE payment = ?', within(payment));
    const lines = await kept();
    assert.deepEqual([lines.length, await send(file), await kept()], [1, again, lines]);
  });

  test('of a merchant account that becomes known in the middle of a report counts once it is sent again', async () => {
    const own = await listeningShop();
    const payment = await takes(own);
    assert.equal((await own.remove('adyen_api_key')).status, 204);
    const fee = line({ provider_payment: 'F'.repeat(60), payment_id: 'x' }, { Type: 'Fee' });
    const file = csv([line(payment), ...Array.from({ length: 20_000 }, () => fee)]);
    const first = await sends(file);
    assert.equal(first.state, 'waiting', JSON.stringify(first));
    assert.equal((await own.set('adyen_api_key', own.adyenSecret)).status, 200);
    const row = () => model.first('SELECT * FROM reports WHERE report_id = ?', first.report);
    await model.tick();
    const { state, counts } = await row();
    assert.deepEqual([state, JSON.parse(counts).own, JSON.parse(counts).of_others], ['done', {}, 1]);
    assert.equal(await isMarked(payment), false, 'control: it was read while nobody knew whose it is');

    const again = await sends(file);
    assert.deepEqual([again.state, again.own, again.of_others], ['waiting', { [own.merchant]: 1 }, 0]);
    assert.equal(await isMarked(payment), true);
    // Another report with lines of it is read meanwhile, and its end never comes.
    await model.run(
      "UPDATE reported_merchants SET report_id = 'another', until_ms = 1 WHERE merchant_account = ?",
      own.merchant,
    );
    await model.tick();
    const done = await row();
    assert.deepEqual([done.state, JSON.parse(done.counts).types], ['done', { Settled: 1, Fee: 20_000 }]);
    const { until_ms: until } = await model.first(
      'SELECT until_ms FROM reported_merchants WHERE merchant_account = ?',
      own.merchant,
    );
    assert.equal(until, done.received_at_ms);
  });

  test('of a report that fails, or is not in the bucket any more, keeps no other one back', async () => {
    const own = await listeningShop();
    const [payment, late] = [await takes(own), await takes(own)];
    const [broken, gone, whole] = [csv([line(late)]), csv([line(payment)]), csv([line(payment)])];
    const ids = [];
    for (const file of [broken, gone, whole]) ids.push((await send(file)).report);
    const reset = (id, more = '') =>
      model.run(
        `UPDATE reports SET state = 'waiting', bytes_done = 0, line = 1, counts = '{}' ${more} WHERE report_id = ?`,
        id,
      );
    const { SETTLEMENT } = await site.desk().getEnv();
    await SETTLEMENT.delete(`reports/${ids[1]}.csv`);
    // More of it is to be read than there is.
    await reset(ids[0], ', received_at_ms = 1, bytes = 90000000, bytes_done = 80000000');
    await reset(ids[1], ', received_at_ms = 2');
    await reset(ids[2]);
    const { adyen_reports: run } = await model.tick();
    assert.match(run.error, /is compared no further/);
    const stateOf = async (id) =>
      (await model.first('SELECT state FROM reports WHERE report_id = ?', id)).state;
    assert.deepEqual(
      [await stateOf(ids[0]), await stateOf(ids[1]), await stateOf(ids[2])],
      ['waiting', 'refused', 'done'],
    );
    const told = (id) => model.first('SELECT * FROM breaks WHERE break_id = ?', `report:adyen:${id}`);
    assert.match((await told(ids[1])).note, /not in the bucket any more: send it again/);
    assert.equal((await send(gone)).report, ids[1]);
    assert.equal((await told(ids[1])).state, 'repaired');
    await model.run('DELETE FROM reports WHERE report_id = ?', ids[0]);
    assert.equal((await model.tick()).adyen_reports.error, undefined, 'control');
  });

  test('is expected of captures from the first day on of which reports of its merchant account tell', async () => {
    const [own, silent] = [await listeningShop(), await listeningShop()];
    const long = Date.now() - 30 * DAY_MS;
    const old = async (shop, at = long) => {
      const payment = await takes(shop);
      await model.run('UPDATE payments SET updated_at_ms = ? WHERE payment_id = ?', at, payment.payment_id);
      return payment;
    };
    const [due, earlier, young] = [await old(own), await old(own, long - 5 * DAY_MS), await takes(own)];
    const unexpected = await old(silent);
    await imports(line(await takes(own), { 'Creation Date': date(long - DAY_MS) }));
    // Of the deployment's there are reports, too, of days long before.
    await imports(line(await takes(await deploymentsShop()), { 'Creation Date': date(long - 9 * DAY_MS) }));
    const kinds = async ({ provider_payment: id }) =>
      (await breaks(id)).map(([kind, , state]) => [kind, state]);
    await model.tick();
    assert.deepEqual(await kinds(due), [['unsettled', 'open']]);
    for (const payment of [earlier, young, unexpected]) assert.deepEqual(await kinds(payment), []);
    // A first report of the other one.
    await imports(line(await takes(silent), { 'Creation Date': date(long - DAY_MS) }));
    await imports(line(due));
    await model.tick();
    assert.deepEqual(await kinds(unexpected), [['unsettled', 'open']]);
    assert.deepEqual(await kinds(due), [['unsettled', 'resolved']]);
  });
});

describe('a report of which Adyen tells a shop', () => {
  /** Closes a payout of its merchant account, tells of its report, lets the clock strike, and gives what came of it. */
  async function reported(own, options = {}) {
    const { name } = await site.simulator.report({ merchant_account: own.merchant, ...options });
    await told();
    await model.tick();
    return outcomeOf(own, name);
  }
  const outcomeOf = async (own, name) => {
    const over = await until('the report is fetched, or is not', () =>
      model.first(
        "SELECT * FROM report_announcements WHERE name = ? AND (state != 'waiting' OR error IS NOT NULL)",
        `${own.id}/${name}`,
      ),
    );
    const found = await model.all(
      'SELECT * FROM reports WHERE merchant_account = ? AND name = ?',
      own.merchant,
      name,
    );
    assert.ok(found.length <= 1);
    return { ...over, file: name, report: found[0] };
  };
  const missing = ({ merchant }, name) =>
    model.first('SELECT * FROM breaks WHERE break_id = ?', `report:adyen:${merchant}/${name}`);

  test('is fetched with its own key, and compared, beside the deployment’s of the same name', async () => {
    const shops = [];
    for (let number = 0; number < 2; number += 1) {
      const own = await listeningShop();
      assert.equal((await own.set('adyen_report_key', reportKey(own.merchant))).status, 200);
      shops.push(own);
    }
    const deployments = await deploymentsShop();
    const payments = [];
    for (const own of [...shops, deployments]) payments.push(await takes(own));
    const whole = await site.simulator.report();
    for (const [at, own] of shops.entries()) {
      const { state, error, file, merchant_account: merchant, report } = await reported(own);
      assert.equal(state, 'fetched', error);
      assert.deepEqual([file, merchant], ['settlement_detail_report_batch_1.csv', own.merchant]);
      const { types, own: of, of_others: others } = JSON.parse(report.counts);
      assert.deepEqual(
        [report.state, types, of, others],
        ['done', { Settled: 1, Fee: 1, MerchantPayout: 1 }, { [own.merchant]: 3 }, 0],
      );
      assert.equal(await isMarked(payments[at]), true);
      assert.deepEqual(await breaks(within(payments[at])), []);
    }
    await until('the deployment’s is fetched', async () => {
      await model.tick();
      const row = await model.first('SELECT state FROM report_announcements WHERE name = ?', whole.name);
      return row.state === 'fetched';
    });
    assert.equal(await isMarked(payments[2]), true);
  });

  test('counts for its merchant account alone, whatever else is in it', async () => {
    const [own, other] = [await listeningShop(), await listeningShop()];
    assert.equal((await own.set('adyen_report_key', reportKey(own.merchant))).status, 200);
    const payments = [await takes(own), await takes(other)];
    const { name, address } = await site.simulator.report();
    // The file of all merchant accounts, which this one is told of as its own.
    const { state, error, report } = await reported(own, { address });
    assert.equal(state, 'fetched', error);
    assert.deepEqual(JSON.parse(report.counts).types, { Settled: 1 });
    assert.ok(JSON.parse(report.counts).of_others >= 1);
    assert.deepEqual([await isMarked(payments[0]), await isMarked(payments[1])], [true, false]);
    // Control: a person sends the same bytes.
    await send(await site.simulator.reportFile(name), name);
    assert.equal(await isMarked(payments[1]), true);
  });

  test('is fetched also where it is told without a signature: the password shows whose it is', async () => {
    const own = await listeningShop();
    assert.equal((await own.set('adyen_report_key', reportKey(own.merchant))).status, 200);
    await takes(own);
    const { state, error } = await reported(own, { unsigned: true });
    assert.equal(state, 'fetched', error);
  });

  test('without a key for it is for a person, until it is sent or a key is set', async () => {
    const own = await listeningShop();
    const payment = await takes(own);
    const { state, error, file } = await reported(own);
    assert.deepEqual([state, error], ['refused', `the adyen_report_key of ${own.id} is not set`]);
    const { note, theirs, state: open } = await missing(own, file);
    assert.equal(open, 'open');
    assert.equal(theirs, `${own.merchant}/${file}`);
    assert.match(note, /download it in the Customer Area and send it under Reports; .* is not set/);
    // Another's of that name is missing all the same.
    const other = await listeningShop();
    await takes(other);
    assert.equal((await reported(other)).file, file);
    const key = { key: reportKey(own.merchant) };
    const path = `MerchantAccount/${own.merchant}/${file}`;
    const bytes = await site.simulator.reportFile(path, key);
    // The deployment's of that name is missing, too.
    await model.run(
      "INSERT INTO breaks (break_id, kind, provider, state, first_seen_at_ms, last_seen_at_ms) VALUES (?, 'report', 'adyen', 'open', 1, 1)",
      `report:adyen:${file}`,
    );
    await send(bytes, 'renamed.csv');
    assert.equal((await missing(own, file)).state, 'open', 'control: under another name it is none of it');
    await send(bytes, file);
    assert.equal((await missing(own, file)).state, 'repaired');
    const ofDeployments = () =>
      model.first('SELECT * FROM breaks WHERE break_id = ?', `report:adyen:${file}`);
    assert.equal((await ofDeployments()).state, 'open', 'it has no line of the deployment’s');
    await send(bytes.split('\r\n', 1) + '\r\n', file);
    assert.equal(
      (await ofDeployments()).state,
      'repaired',
      'the deployment’s, in which nothing was paid out',
    );
    assert.equal((await missing(other, file)).state, 'open');
    assert.equal(await isMarked(payment), true);
    assert.equal((await other.set('adyen_report_key', reportKey(other.merchant))).status, 200);
    await takes(other);
    assert.equal((await reported(other)).state, 'fetched');
  });

  test('is not fetched from anybody else, nor with a key that Adyen refuses', async () => {
    const own = await listeningShop();
    assert.equal((await own.set('adyen_report_key', reportKey(own.merchant))).status, 200);
    await takes(own);
    const asked = async () =>
      (await site.simulator.requests()).filter(({ path }) => path.includes('reports')).length;
    const before = await asked();
    for (const address of ['https://evil.example/x.csv', 'http://adyen.simulator/adyen/reports/x.csv']) {
      const { state, error, file, report } = await reported(own, { address });
      assert.equal(state, 'refused', address);
      assert.match(error, /none of Adyen's, and nothing was sent/);
      assert.equal(report, undefined);
      assert.equal((await missing(own, file)).state, 'open');
    }
    assert.equal(await asked(), before);
    assert.equal((await own.set('adyen_report_key', `${reportKey(own.merchant, 8)}.revoked`)).status, 200);
    const refused = await reported(own);
    assert.deepEqual([refused.state, refused.error], ['waiting', 'it was answered 401']);
    // The next key is used at the next try.
    assert.equal((await own.set('adyen_report_key', reportKey(own.merchant, 9))).status, 200);
    await model.run('UPDATE report_announcements SET next_at_ms = 0 WHERE name = ?', refused.name);
    await model.tick();
    const { state } = await model.first(
      'SELECT state FROM report_announcements WHERE name = ?',
      refused.name,
    );
    assert.equal(state, 'fetched');
  });

  test('comes soon, however many other shops are told of', async () => {
    const [own, ...busy] = [
      await listeningShop(),
      await listeningShop(),
      await listeningShop(),
      await listeningShop(),
    ];
    for (const shop of [own, ...busy])
      assert.equal((await shop.set('adyen_report_key', reportKey(shop.merchant))).status, 200);
    for (const shop of busy)
      await model.run(
        `INSERT INTO report_announcements (name, address, account, merchant_account, state, attempts, told_at_ms, next_at_ms, updated_at_ms)
         SELECT ?1 || '/settlement_detail_report_batch_' || value || '.csv', 'https://evil.example/none.csv', ?1, ?2, 'waiting',
           0, 1, 1, 1
         FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 30) SELECT value FROM n)`,
        shop.id,
        shop.merchant,
      );
    const claimed = async ({ id }) =>
      (
        await model.first(
          "SELECT count(*) AS number FROM report_announcements WHERE account = ? AND (attempts > 0 OR state != 'waiting')",
          id,
        )
      ).number;
    const all = async () => {
      const numbers = [];
      for (const shop of busy) numbers.push(await claimed(shop));
      return numbers;
    };
    await model.run(
      "INSERT INTO report_announcements (name, address, state, attempts, told_at_ms, next_at_ms, updated_at_ms) VALUES ('whole.csv', 'https://evil.example/none.csv', 'waiting', 0, 1, 1, 1)",
    );
    await takes(own);
    const { name: file } = await site.simulator.report({ merchant_account: own.merchant });
    await told();
    await model.tick();
    assert.deepEqual(await all(), [1, 1, 1], 'all of them in the same run');
    assert.equal((await outcomeOf(own, file)).state, 'fetched', 'and this one');
    await model.tick();
    const whole = await model.first("SELECT state FROM report_announcements WHERE name = 'whole.csv'");
    assert.equal(whole.state, 'refused', 'and the deployment’s');
    const numbers = await all();
    assert.ok(Math.max(...numbers) - Math.min(...numbers) <= 1, 'and each again in its turn');
    assert.ok(Math.max(...numbers) <= 3, 'control: a run does not come round to all');
    await model.run("DELETE FROM report_announcements WHERE state = 'waiting'");
  });

  test('is asked for later where its keys cannot be read, and payments go on with those that are known', async () => {
    const own = await listeningShop();
    assert.equal((await own.set('adyen_report_key', reportKey(own.merchant))).status, 200);
    await takes(own);
    const { name } = await site.simulator.report({ merchant_account: own.merchant });
    await told();
    await model.run('ALTER TABLE account_credentials RENAME TO account_credentials_away');
    let payment;
    try {
      await model.tick();
      payment = await own.client.pay({ ...PAYMENT, ...ADYEN }, `while-away-${own.id}`);
    } finally {
      await model.run('ALTER TABLE account_credentials_away RENAME TO account_credentials');
    }
    const announced = () =>
      model.first('SELECT state, error FROM report_announcements WHERE name = ?', `${own.id}/${name}`);
    assert.deepEqual(await announced(), {
      state: 'waiting',
      error: 'the registry of accounts could not be read',
    });
    assert.equal(payment.status, 201, payment.text);
    await model.run('UPDATE report_announcements SET next_at_ms = 0 WHERE name = ?', `${own.id}/${name}`);
    await model.tick();
    assert.equal((await announced()).state, 'fetched', 'control');
  });

  test('its key is shown by its end alone, can be replaced and removed, and each is written down', async () => {
    const own = await listeningShop({ report: null });
    const keys = [reportKey(own.merchant, 7), `${reportKey(own.merchant, 8)}yyyy`];
    for (const key of keys) assert.equal((await own.set('adyen_report_key', key)).status, 200);
    const payment = await takes(own);
    assert.equal((await reported(own)).state, 'fetched');
    const shown = (await own.shown()).credentials.find(({ kind }) => kind === 'adyen_report_key');
    assert.deepEqual([shown.hint, shown.mode], ['…yyyy', 'test']);
    const page = await look(`/admin/accounts/${own.id}`);
    assert.match(page.text, /Report key/);
    assert.match(page.text, /…yyyy/);
    const pairs = keys.map((key) => ['adyen_report_key', key]);
    await standNowhere(site, pairs, { id: payment.payment_id, seen: [shown, page.text, payment] });
    assert.equal((await own.remove('adyen_report_key')).status, 204);
    await takes(own);
    assert.equal((await reported(own)).state, 'refused');
    const actions = (await logOf(`account ${own.id}`)).map(({ action }) => action);
    assert.deepEqual(actions.slice(-3), [
      'set keys: adyen_report_key …xxxx',
      'set keys: adyen_report_key …yyyy',
      'remove key: adyen_report_key',
    ]);
  });
});
