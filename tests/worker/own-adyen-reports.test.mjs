// Adyen's settlement reports of merchant accounts that shops have of their own: each line is compared with the payments of its merchant account, and
// says nothing of another's.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { read } from './support/account.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';
import { ADMIN_TOKEN, registry } from './support/own-keys.mjs';
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
const { look } = operator(site, ADMIN_TOKEN);
after(() => site.close());
before(() => site.simulator.webhooks('late', { delay_ms: HOUR_MS }));

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

async function send(body, name = 'settlement_detail_report_batch_900.csv') {
  const answer = await read(
    await site.fetch(`/admin/settlement/reports?name=${name}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'text/csv' },
      body,
    }),
  );
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.json().state, 'done', answer.text);
  return answer.json();
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
