// Adyen's settlement details report: what it says and we have otherwise is a break, and nothing else is.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { root, startSite } from './support/harness.mjs';
import { conforming, readDocument } from './support/openapi.mjs';
import { AUTHORISATION, PAYMENT, client, moved, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const ADYEN = { provider: 'adyen' };
const COLUMNS = [
  'Company Account',
  'Merchant Account',
  'Psp Reference',
  'Merchant Reference',
  'Payment Method',
  'Creation Date',
  'TimeZone',
  'Type',
  'Modification Reference',
  'Gross Currency',
  'Gross Debit (GC)',
  'Gross Credit (GC)',
  'Exchange Rate',
  'Net Currency',
  'Batch Number',
];

const site = await startSite({ secrets: { ADMIN_TOKEN } });
await readDocument(site);
const user = client(site);
const model = readModel(site);
after(() => site.close());

before(() => site.simulator.webhooks('late', { delay_ms: HOUR_MS }));

/** Sends what Adyen has to tell by now, each taken at once. */
async function told() {
  await site.simulator.advance(HOUR_MS);
  for (const sent of await site.simulator.flush()) assert.equal(sent.status, 200, JSON.stringify(sent));
}

const takes = async (more = {}) => {
  const payment = await paid(user, { ...PAYMENT, ...ADYEN, ...more });
  await told();
  return model.reaches(payment.id, 'succeeded');
};

const refund = async (payment, amount) => {
  const { id } = await moved(user, payment.payment_id, 'refunds', { amount });
  await told();
  return until('the read model has the refund', () =>
    model.first("SELECT * FROM refunds WHERE refund_id = ? AND status = 'succeeded'", id),
  );
};

let batches = 0;
const CREDITS = ['Settled', 'RefundedReversed', 'ChargebackReversed'];
const date = (at) => new Date(at).toISOString().slice(0, 19).replace('T', ' ');

/** A line as Adyen writes it, of a payment in dollars unless it says otherwise. */
const line = (payment, type, amount, more = {}) => ({
  'Company Account': 'PaidOnce',
  'Merchant Account': 'PaidOnceDemo',
  'Psp Reference': payment.provider_payment,
  'Merchant Reference': `${payment.payment_id}.x`,
  'Payment Method': 'visa',
  'Creation Date': date(Date.now()),
  TimeZone: 'UTC',
  Type: type,
  'Modification Reference': `${payment.provider_payment}M`,
  'Gross Currency': 'USD',
  [CREDITS.includes(type) ? 'Gross Credit (GC)' : 'Gross Debit (GC)']: amount,
  'Exchange Rate': '1',
  'Net Currency': 'USD',
  ...more,
});

/** The file, of a payout of its own. */
function csv(lines, { columns = COLUMNS, batch = `${++batches}` } = {}) {
  const rows = lines.map((cells) => columns.map((name) => ({ 'Batch Number': batch, ...cells })[name] ?? ''));
  return [columns, ...rows].map((row) => `${row.join(',')}\r\n`).join('');
}

async function send(body, name = 'settlement_detail_report_batch_1.csv') {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'text/csv' };
  const path = `/admin/settlement/reports?name=${name}`;
  const answer = await read(await site.fetch(path, { method: 'POST', headers, body }));
  conforming('POST', path, answer);
  return answer;
}

async function imports(lines, options) {
  const answer = await send(csv(lines, options));
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.json().state, 'done', answer.text);
  return answer.json();
}

const BREAKS =
  "SELECT kind, provider_payment, resource, ours, theirs, state FROM breaks WHERE provider = 'adyen'";
const breaks = (id) => model.all(`${BREAKS} AND provider_payment = ?`, id);
const open = () => model.all(`${BREAKS} AND state = 'open' AND kind NOT IN ('silent', 'webhook')`);

test('control: a correct report gives no break, in whatever order its columns stand', async () => {
  const [plain, part, disputed, pesos] = [
    await takes(),
    await takes(),
    await takes(),
    await takes({ amount: 1000, currency: 'clp' }),
  ];
  const back = await refund(part, 700);
  await site.simulator.befall(disputed.provider_payment, 'chargeback');
  await told();
  const { id: dispute } = (await user.payment(disputed.payment_id)).json().dispute;
  await model.reaches(disputed.payment_id, 'disputed');
  const lines = [
    line(plain, 'Settled', '25.00'),
    line(part, 'Settled', '25.00'),
    line(part, 'Refunded', '7.00', { 'Modification Reference': back.provider_refund }),
    line(disputed, 'Settled', '25.00'),
    line(disputed, 'Chargeback', '25.00', { 'Modification Reference': dispute }),
    line(pesos, 'Settled', '1000.00', { 'Gross Currency': 'CLP' }),
    { 'Merchant Account': 'PaidOnceDemo', Type: 'Fee', 'Net Currency': 'USD' },
  ];
  const report = await imports(lines, { columns: [...COLUMNS, 'Reserved4'].reverse() });
  assert.deepEqual(report.lines, { Settled: 4, Refunded: 1, Chargeback: 1, Fee: 1 });
  assert.deepEqual(await open(), []);
  assert.equal((await model.tick()).adyen_reports.error, undefined);
  assert.deepEqual(await open(), []);
});

describe('a break is', () => {
  test('what is settled and not captured here, until it is', async () => {
    const held = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await told();
    const payment = await model.reaches(held.id, 'requires_capture');
    await imports([line(payment, 'Settled', '25.00')]);
    const [found] = await breaks(payment.provider_payment);
    assert.deepEqual([found.kind, found.state, found.resource], ['status', 'open', held.id]);
    assert.equal(found.theirs, '2500 usd settled');
    await moved(user, held.id, 'capture');
    await told();
    await model.reaches(held.id, 'succeeded');
    await model.tick();
    assert.notEqual((await breaks(payment.provider_payment))[0].state, 'open');
  });

  test('another amount, or another currency', async () => {
    for (const [amount, more] of [
      ['24.99', {}],
      ['25.00', { 'Gross Currency': 'EUR' }],
    ]) {
      const payment = await takes();
      await imports([line(payment, 'Settled', amount, more)]);
      assert.deepEqual(
        (await breaks(payment.provider_payment)).map(({ kind, state }) => [kind, state]),
        [['amount', 'open']],
      );
    }
  });

  test('a payment that nobody here knows', async () => {
    const payment = { provider_payment: 'PSPOFNOBODY00001', payment_id: 'their-own-reference' };
    await imports([line(payment, 'Settled', '3.50')]);
    const [found] = await breaks('PSPOFNOBODY00001');
    assert.deepEqual([found.kind, found.resource, found.theirs], ['orphan', null, '350 usd settled']);
  });

  test('a refund that nobody here knows, and one of another amount', async () => {
    const payment = await takes();
    const back = await refund(payment, 700);
    await imports([
      line(payment, 'Refunded', '6.00', { 'Modification Reference': back.provider_refund }),
      line(payment, 'Refunded', '1.00', { 'Modification Reference': 'REFOFNOBODY00001' }),
    ]);
    assert.equal((await breaks(back.provider_refund))[0].kind, 'amount');
    assert.equal((await breaks('REFOFNOBODY00001'))[0].kind, 'movement');
  });

  test('a refund that came back and is held to have succeeded', async () => {
    const payment = await takes();
    const back = await refund(payment, 2500);
    const of = { 'Modification Reference': back.provider_refund };
    await imports([line(payment, 'Refunded', '25.00', of)]);
    assert.deepEqual(await breaks(back.provider_refund), []);
    await imports([line(payment, 'RefundedReversed', '25.00', of)]);
    const [found] = await breaks(back.provider_refund);
    assert.deepEqual([found.kind, found.ours], ['status', 'succeeded: 2500 usd refunded']);
    assert.equal(found.theirs, '2500 usd refunded, 2500 of it came back');
  });

  test('a chargeback that is no dispute here', async () => {
    const payment = await takes();
    await imports([line(payment, 'Chargeback', '25.00', { 'Modification Reference': 'DISOFNOBODY00001' })]);
    assert.equal((await breaks('DISOFNOBODY00001'))[0].kind, 'movement');
  });

  test('what was captured weeks before a report and stands in none, until it does', async () => {
    const [payment, young] = [await takes(), await takes()];
    const long = Date.now() - 30 * DAY_MS;
    const elsewhere = await takes();
    for (const row of [payment, elsewhere])
      await model.run('UPDATE payments SET updated_at_ms = ? WHERE payment_id = ?', long, row.payment_id);
    // As one that was made with a key of its account's own, whose reports nobody sends.
    await model.run(
      "UPDATE payments SET merchant_account = 'S_ECOM' WHERE payment_id = ?",
      elsewhere.payment_id,
    );
    const earlier = { ...(await takes()) };
    await imports([line(earlier, 'Settled', '25.00', { 'Creation Date': date(long - DAY_MS) })]);
    await model.tick();
    const kinds = async (row) => (await breaks(row.provider_payment)).map(({ kind, state }) => [kind, state]);
    assert.deepEqual(await kinds(payment), [['unsettled', 'open']]);
    assert.deepEqual(await kinds(young), []);
    assert.deepEqual(await kinds(elsewhere), []);
    const next = await takes();
    await model.run('UPDATE payments SET updated_at_ms = ? WHERE payment_id = ?', long, next.payment_id);
    await model.tick();
    assert.deepEqual(await kinds(next), [['unsettled', 'open']], 'while a break of another one is open');
    await imports([line(payment, 'Settled', '25.00')]);
    await model.tick();
    assert.deepEqual(await kinds(payment), [['unsettled', 'resolved']]);
  });
});

test('the object that a break is about is asked', async () => {
  const payment = await takes();
  await model.run(
    "UPDATE payments SET status = 'processing', captured_minor = 0 WHERE payment_id = ?",
    payment.payment_id,
  );
  await imports([line(payment, 'Settled', '25.00')]);
  assert.equal((await breaks(payment.provider_payment))[0].kind, 'status');
  await model.tick();
  await model.reaches(payment.payment_id, 'succeeded');
  await model.tick();
  assert.equal((await breaks(payment.provider_payment))[0].state, 'repaired');
});

test('the same report again, and another one with the same lines, change nothing', async () => {
  const payment = await takes();
  const lines = [line(payment, 'Settled', '24.00')];
  const file = csv(lines, { batch: '900' });
  const all = async () => [
    await model.all('SELECT * FROM report_lines WHERE payment = ?', payment.provider_payment),
    (await breaks(payment.provider_payment)).map(({ kind, theirs }) => [kind, theirs]),
  ];
  const first = (await send(file)).json();
  const before = await all();
  assert.deepEqual(before[1], [['amount', '2400 usd settled']]);
  assert.deepEqual((await send(file, 'renamed.csv')).json(), first);
  const longer = [...lines, { 'Merchant Account': 'PaidOnceDemo', Type: 'Fee' }];
  const second = (await send(csv(longer, { batch: '900' }))).json();
  assert.notEqual(second.report, first.report);
  assert.deepEqual(await all(), before);
});

test('unknown types, other accounts and what cannot be read are counted, and the rest is read', async () => {
  const payment = await takes();
  const report = await imports([
    line(payment, 'Confiscated', '1.00'),
    line({ provider_payment: 'OTHERS' }, 'Settled', '1.00', { 'Merchant Account': 'Another' }),
    line(payment, 'Settled', '25.001'),
    line(payment, 'Settled', '24.00'),
  ]);
  assert.deepEqual(
    [report.lines, report.unknown, report.of_others, report.unreadable],
    [{ Settled: 1 }, { Confiscated: 1 }, 1, 1],
  );
  const notes = await model.all(
    'SELECT note FROM breaks WHERE break_id = ?',
    `report:adyen:${report.report}:4`,
  );
  assert.deepEqual(notes, [{ note: 'line 4 is left out: Settled: 25.001 USD is no amount of ours' }]);
  assert.equal((await breaks(payment.provider_payment))[0].kind, 'amount', 'the line after it counts');
  assert.deepEqual(await breaks('OTHERS'), []);
});

test('what is no report is refused and says which columns are missing', async () => {
  const columns = COLUMNS.filter((name) => !['Type', 'Batch Number'].includes(name));
  const answer = await send(csv([], { columns }));
  assert.equal(answer.status, 422);
  assert.equal(answer.json().errors[0].message, 'line 1: these columns are missing: Type, Batch Number');
});

test('a report that breaks off within a line is read until there, and a person sees it', async () => {
  const payment = await takes();
  const text = csv([line(payment, 'Settled', '24.00'), line(payment, 'Settled', '1.00')]);
  const refused = (await send(text.slice(0, -20))).json();
  assert.deepEqual([refused.state, refused.error], ['refused', 'line 3: has 10 cells, and the head 15']);
  const note = await model.first(
    'SELECT note FROM breaks WHERE break_id = ?',
    `report:adyen:${refused.report}`,
  );
  assert.equal(note.note, 'it is read no further: line 3: has 10 cells, and the head 15');
});

test('a long report is read in slices, and goes on where it broke off', async () => {
  const payment = await takes();
  const fees = Array.from({ length: 40_000 }, () => ({ 'Merchant Account': 'PaidOnceDemo', Type: 'Fee' }));
  const middle = line(payment, 'Settled', '23.00');
  const lines = [...fees, middle, ...fees, line(payment, 'Settled', '1.00')];
  const first = (await send(csv(lines, { batch: '901' }))).json();
  assert.equal(first.state, 'waiting', JSON.stringify(first));
  assert.ok(first.bytes_read > 1_000_000 && first.bytes_read < first.bytes, JSON.stringify(first));
  const row = () => model.first('SELECT * FROM reports WHERE report_id = ?', first.report);
  const halfway = await row();
  await model.tick();
  const whole = await row();
  assert.deepEqual(
    [whole.state, whole.bytes_done, JSON.parse(whole.counts).types],
    ['done', first.bytes, { Fee: 80_000, Settled: 2 }],
  );
  const found = () => breaks(payment.provider_payment);
  const [{ theirs }] = await found();
  assert.equal(theirs, '2400 usd settled', 'both lines count together');

  // As if the run had been broken off before it noted how far it was.
  await model.run(
    "UPDATE reports SET state = 'waiting', bytes_done = ?, line = ?, counts = ? WHERE report_id = ?",
    halfway.bytes_done,
    halfway.line,
    halfway.counts,
    first.report,
  );
  await model.tick();
  assert.deepEqual({ ...(await row()), updated_at_ms: 0 }, { ...whole, updated_at_ms: 0 });
  assert.equal((await found())[0].theirs, '2400 usd settled', 'and none of them twice');
});

test('a report is sent at the desk, once, and by nobody else', async () => {
  const operator = browser(site);
  const login = await operator.send('/admin/login', { token: ADMIN_TOKEN });
  assert.equal(login.status, 303);
  const payment = await takes();
  const form = async () =>
    /name="form" value="([^"]+)"/.exec((await operator.visit('/admin/reports')).text)[1];
  const upload = async (key, text, name = 'settlement_detail_report_batch_77.csv') => {
    const body = new FormData();
    body.set('form', key);
    body.set('file', new Blob([text], { type: 'text/csv' }), name);
    const { headers, body: stream } = new Response(body);
    const bytes = await new Response(stream).arrayBuffer();
    return operator.visit('/admin/reports', {
      method: 'POST',
      headers: { 'content-type': headers.get('content-type'), origin: site.url.origin },
      body: bytes,
    });
  };
  const text = csv([line(payment, 'Settled', '22.00')]);
  const key = await form();
  const sent = await upload(key, text);
  assert.equal(sent.status, 303, sent.text);
  const shown = await operator.visit(sent.header('location'));
  assert.match(shown.text, /Read whole; 1 lines/);
  assert.match(shown.text, /settlement_detail_report_batch_77\.csv/);
  assert.equal((await breaks(payment.provider_payment))[0].kind, 'amount');
  assert.equal((await upload(key, text)).header('location'), sent.header('location'), 'pressed twice');
  assert.equal((await upload(key, `${text}\r\n`)).status, 422, 'another file with the same key');
  assert.equal((await upload('forged', text)).status, 403);
  assert.equal((await upload(await form(), '')).status, 422);
  const refused = await upload(await form(), 'a,b\r\n');
  assert.match((await operator.visit(refused.header('location'))).text, /these columns are missing/);
  const log = await model.all("SELECT outcome FROM operator_actions WHERE subject LIKE '%batch_77%'");
  assert.equal(log.length, 2, 'who has sent it is written down, once a key');
});

test('a report is sent by the command', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'report-'));
  try {
    const file = join(folder, 'settlement_detail_report_batch_78.csv');
    await writeFile(file, csv([line(await takes(), 'Settled', '25.00')]));
    const env = { PATH: process.env.PATH, PAID_ONCE_URL: site.url.origin, ADMIN_TOKEN };
    const run = (path) =>
      promisify(execFile)(process.execPath, ['scripts/operate.mjs', 'report', path], { cwd: root, env });
    assert.match((await run(file)).stdout, /1 Settled\n.*read whole/);
    await assert.rejects(run(join(folder, 'none.csv')), /cannot be read/);
    await writeFile(file, 'a,b\r\n');
    await assert.rejects(run(file), /422 line 1: these columns are missing/);
  } finally {
    await rm(folder, { recursive: true });
  }
});
