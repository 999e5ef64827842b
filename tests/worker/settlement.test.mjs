// The daily settlement file and the bank's answers to it.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { account, freshKey, read } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { conforming, readDocument } from './support/openapi.mjs';
import { formOf, operator } from './support/operator.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const DAY_MS = 86_400_000;
/** The day that is due: it ended two hours ago or earlier. */
const day = new Date(Date.now() - 26 * 3_600_000).toISOString().slice(0, 10);
const dayBefore = new Date(Date.parse(day) - DAY_MS).toISOString().slice(0, 10);
const FILE = `settlement/${day}.csv`;

describe('settlement', async () => {
  const site = await startSite({ secrets: { ADMIN_TOKEN } });
  before(() => readDocument(site));
  const user = account(site);
  const desk = operator(site, ADMIN_TOKEN);
  const model = readModel(site);
  const { SETTLEMENT: bucket } = await site.desk().getEnv();
  const file = async (name = FILE) => (await bucket.get(name))?.text();
  const fileRow = () => model.first('SELECT * FROM settlement_files WHERE name = ?', FILE);
  after(() => site.close());

  const movedAt = async (subject, at) => {
    await model.run('UPDATE payments SET captured_at_ms = ? WHERE payment_id = ?', at, subject);
    await model.run('UPDATE audit_records SET at_ms = ? WHERE subject = ?', at, subject);
  };

  /** A payment whose money moved at noon of the day that is due. */
  async function paidThatDay(amount, at = Date.parse(day) + DAY_MS / 2) {
    const payment = (await user.pay({ amount, currency: 'usd' }, freshKey())).json();
    await model.reaches(payment.id, 'succeeded');
    await movedAt(payment.id, at);
    return payment;
  }

  async function refundedThatDay(payment, amount) {
    const refund = (await user.post(`/payments/${payment.id}/refunds`, { amount }, freshKey())).json();
    await model.reaches(payment.id, 'succeeded');
    await model.first('SELECT 1');
    for (;;) {
      const done = await model.first(
        "SELECT 1 FROM audit_records WHERE subject = ? AND action = 'refund.succeeded'",
        refund.id,
      );
      if (done) break;
    }
    await movedAt(refund.id, Date.parse(day) + DAY_MS / 2);
    return refund;
  }

  /** What befell a payment on that day, as its object would have written it down, one record after the other. */
  async function befell(payment, ...records) {
    const { object } = await model.first('SELECT object FROM payments WHERE payment_id = ?', payment.id);
    for (const [number, [action, data]] of records.entries())
      await model.run(
        "INSERT INTO audit_records VALUES (?, ?, ?, 'account:a', ?, ?, ?)",
        object,
        100 + number,
        Date.parse(day) + DAY_MS / 2 + number,
        action,
        payment.id,
        JSON.stringify({ currency: 'usd', provider: 'adyen', provider_payment: 'PSP', ...data }),
      );
  }
  const FAILED = ['payment.capture_failed', { amount_captured: 0 }];
  const CAPTURED = ['payment.captured', { amount_captured: 400 }];
  const disputed = (funds_withdrawn) => [
    'payment.disputed',
    { dispute: 'dp_1', amount: 300, funds_withdrawn },
  ];

  /** What each dispute has withdrawn; and all as one, as they are shown. */
  const disputes = (...each) => [
    'payment.disputed',
    {
      dispute: each[0].id,
      amount: each.reduce((sum, { amount }) => sum + amount, 0),
      funds_withdrawn: each.some(({ withdrawn }) => withdrawn),
      disputes: each,
    },
  ];
  const one = (withdrawn) => ({ id: 'dp_1', amount: 300, withdrawn });
  const other = (withdrawn) => ({ id: 'dp_2', amount: 500, withdrawn });

  const paid = {};
  before(async () => {
    paid.turned = await paidThatDay(400);
    await befell(
      paid.turned,
      ...[FAILED, CAPTURED, disputed(false), disputed(true), disputed(true), disputed(false), FAILED],
    );

    // The bank takes the one, only asks for the other and then takes that, too. Both are won.
    paid.disputed = await paidThatDay(800);
    await befell(
      paid.disputed,
      disputes(one(true)),
      disputes(other(false), one(true)),
      disputes(other(true), one(true)),
      disputes(other(false), one(false)),
    );

    paid.first = await paidThatDay(2500);
    paid.refund = await refundedThatDay(paid.first, 700);
    paid.today = (await user.pay({ amount: 9900, currency: 'usd' }, freshKey())).json();
    await model.reaches(paid.today.id, 'succeeded');
    paid.last = await paidThatDay(2000, Date.parse(day) + DAY_MS - 1);
  });

  test('one file holds each movement of the day, with its totals, however often the clock strikes', async () => {
    const runs = await Promise.all([model.tick(), model.tick(), model.tick()]);
    for (const { settle } of runs) assert.equal(settle?.error, undefined);
    const { uploaded } = await bucket.head(FILE);
    const rows = (await file()).trimEnd().split('\n');
    const lines = rows.slice(1, 15);
    assert.deepEqual(
      lines.map((line) => line.split(',').slice(0, 3).join()),
      [
        `${paid.first.id}:capture,capture,stripe`,
        `${paid.last.id}:capture,capture,stripe`,
        `${paid.refund.id}:refund,refund,stripe`,
        // Each turn of what was decided is a movement of its own.
        `${paid.turned.id}:capture,capture,stripe`,
        `${paid.turned.id}:capture:101,capture,adyen`,
        `${paid.turned.id}:capture_failed:100,capture_failed,adyen`,
        `${paid.turned.id}:capture_failed:106,capture_failed,adyen`,
        `${paid.turned.id}:dispute_reinstated:105,dispute_reinstated,stripe`,
        `${paid.turned.id}:dispute_withdrawn:103,dispute_withdrawn,stripe`,
        // Each dispute has its own.
        `${paid.disputed.id}:capture,capture,stripe`,
        `${paid.disputed.id}:dispute_withdrawn:100,dispute_withdrawn,stripe`,
        `${paid.disputed.id}:dispute_withdrawn:102,dispute_withdrawn,stripe`,
        `${paid.disputed.id}:dispute_reinstated:103,dispute_reinstated,stripe`,
        `${paid.disputed.id}:dispute_reinstated:103:1,dispute_reinstated,stripe`,
      ].sort(),
    );
    const ofDisputes = lines.filter((line) => line.startsWith(`${paid.disputed.id}:dispute`));
    const moved = ofDisputes.map((line) => line.split(',').slice(3, 5).join(' '));
    assert.deepEqual(moved.sort(), ['dp_1 300', 'dp_1 300', 'dp_2 500', 'dp_2 500']);
    assert.deepEqual(rows.slice(15, 20), [
      `total,capture,usd,5,${2500 + 2000 + 800 + 800}`,
      'total,capture_failed,usd,2,800',
      `total,dispute_reinstated,usd,3,${300 + 800}`,
      `total,dispute_withdrawn,usd,3,${300 + 300 + 500}`,
      'total,refund,usd,1,700',
    ]);
    const sha256 = createHash('sha256')
      .update(`${lines.join('\n')}\n`)
      .digest('hex');
    assert.equal(rows[20], `trailer,14,${sha256}`);
    const row = await fileRow();
    assert.deepEqual([row.day, row.lines, row.sha256], [day, 14, sha256]);

    assert.deepEqual((await model.tick()).settle.written, []);
    assert.deepEqual((await bucket.head(FILE)).uploaded, uploaded, 'nobody has written it again');
  });

  test('a run that broke off before it had written the file is made good, with the same bytes', async () => {
    const text = await file();
    await bucket.delete(FILE);
    await model.run('UPDATE settlement_files SET written_at_ms = NULL, sha256 = NULL WHERE name = ?', FILE);
    await paidThatDay(100); // it comes too late for this file
    assert.deepEqual((await model.tick()).settle.written, [FILE]);
    assert.equal(await file(), text);
  });

  test('a run that broke off after it had written the file only notes that', async () => {
    const { etag, uploaded } = await bucket.head(FILE);
    const { sha256 } = await fileRow();
    await model.run('UPDATE settlement_files SET written_at_ms = NULL, sha256 = NULL WHERE name = ?', FILE);
    await model.tick();
    const row = await fileRow();
    assert.equal(row.sha256, sha256);
    assert.ok(row.written_at_ms);
    const object = await bucket.head(FILE);
    assert.deepEqual([object.etag, object.uploaded], [etag, uploaded]);
  });

  test('control: another file under its name is not taken for it, and not written over', async () => {
    const text = await file();
    await bucket.put(FILE, `${text}x`);
    await model.run('UPDATE settlement_files SET written_at_ms = NULL WHERE name = ?', FILE);
    assert.match((await model.tick()).settle.error, /is another one/);
    assert.equal(await file(), `${text}x`);
    assert.equal((await fileRow()).written_at_ms, null);
    await bucket.put(FILE, text);
    await model.tick();
    assert.ok((await fileRow()).written_at_ms);
  });

  test('what the read model learns of later stands in the next file, and nothing in two', async () => {
    // As if what is written were the file of the day before.
    const text = await file();
    await bucket.put(`settlement/${dayBefore}.csv`, text);
    await bucket.delete(FILE);
    await model.run(
      'UPDATE settlement_files SET name = ?, day = ?',
      `settlement/${dayBefore}.csv`,
      dayBefore,
    );
    await model.run('UPDATE settlement_lines SET file = ?', `settlement/${dayBefore}.csv`);
    const late = await paidThatDay(150, Date.parse(dayBefore));
    assert.deepEqual((await model.tick()).settle.written, [FILE]);
    const rows = (await file()).split('\n');
    assert.ok(rows.some((row) => row.startsWith(`${late.id}:capture,`)));
    assert.ok(
      rows.some((row) => /^trailer,2,/.test(row)),
      'the two that came late',
    );
    assert.ok(!rows.some((row) => row.startsWith(`${paid.first.id}:`)));
  });

  describe("the bank's answer", () => {
    const HEAD = 'line_id,outcome,amount_minor,currency\n';
    const send = async (name, rows) => {
      await bucket.put(`answers/${name}`, `${HEAD}${rows.join('\n')}\ntrailer,${rows.length}\n`);
      return (await model.tick()).answers[`answers/${name}`];
    };
    const refused = (name) =>
      model.all(
        "SELECT * FROM breaks WHERE break_id LIKE 'settlement:answer:%' AND theirs LIKE ?",
        `${name}: %`,
      );
    const booked = (reference) =>
      model.all("SELECT * FROM settlement_answers WHERE reference = ? AND booked = 'booked'", reference);

    test('is booked line by line, once; the others are reported', async () => {
      const line = `${paid.first.id}:capture,settled,2500,usd`;
      const counts = await send('a.csv', [
        line,
        line,
        'pay_nobody:capture,settled,1,usd',
        `${paid.refund.id}:refund,settled,701,usd`,
      ]);
      assert.deepEqual(counts, { booked: 1, duplicate: 1, unknown: 1, differs: 1 });
      assert.equal((await booked(`${paid.first.id}:capture`)).length, 1);
      assert.equal((await booked(`${paid.refund.id}:refund`)).length, 0);
      const reported = await model.all("SELECT note FROM breaks WHERE kind = 'settlement' ORDER BY note");
      assert.deepEqual(
        reported.map(({ note }) => note),
        ['differs, line 5 of a.csv', 'duplicate, line 3 of a.csv', 'unknown, line 4 of a.csv'],
        'what is settled is nobody to look at',
      );
      assert.equal(await bucket.head('answers/a.csv'), null);
      const { objects } = await bucket.list({ prefix: 'answers/done/' });
      assert.equal(objects.length, 1);
    });

    test('that comes again books nothing, under whatever name', async () => {
      const line = `${paid.first.id}:capture,settled,2500,usd`;
      const before = await model.all('SELECT line_id, booked FROM settlement_answers');
      const { objects } = await bucket.list({ prefix: 'answers/done/' });
      await bucket.put('answers/b.csv', await (await bucket.get(objects[0].key)).text());
      await model.tick();
      assert.deepEqual(await model.all('SELECT line_id, booked FROM settlement_answers'), before);
      assert.deepEqual(
        await send('a.csv', [line]),
        { duplicate: 1 },
        'other bytes under a name that was used',
      );
      assert.equal((await booked(`${paid.first.id}:capture`)).length, 1);
    });

    test('whose import broke off goes on where it was', async () => {
      const last = `${paid.last.id}:capture`;
      const rows = [`${paid.refund.id}:refund,rejected,700,usd`, `${last},settled,2000,usd`];
      assert.deepEqual(await send('c.csv', rows), { booked: 2 });
      await model.run('DELETE FROM settlement_answers WHERE reference = ?', last);
      assert.deepEqual(await send('c.csv', rows), { booked: 2 });
      const [refund] = await booked(`${paid.refund.id}:refund`);
      assert.equal(refund.outcome, 'rejected');
      const shown = await model.all(
        "SELECT resource, theirs, note FROM breaks WHERE theirs LIKE 'rejected:%'",
      );
      const note = 'rejected by the bank, line 2 of c.csv';
      assert.deepEqual(shown, [{ resource: `${paid.refund.id}:refund`, theirs: 'rejected: 700 usd', note }]);
      assert.equal((await booked(last)).length, 1);
    });

    test('that comes under the name of one that is being read is left to the next run', async () => {
      const many = 20_000;
      const line = 'pay_nobody:capture,settled,1,eur\n';
      await bucket.put('answers/e.csv', `${HEAD}${line.repeat(many)}trailer,${many}\n`);
      const ticking = model.tick();
      const isRead = () => model.first("SELECT 1 FROM settlement_answers WHERE file = 'e.csv'");
      await until('it is being read', isRead, { everyMs: 1 });
      await bucket.put('answers/e.csv', `${HEAD}pay_nobody:capture,settled,2,eur\ntrailer,1\n`);
      assert.deepEqual((await ticking).answers, { 'answers/e.csv': { unknown: many } });
      assert.ok(await bucket.head('answers/e.csv'), 'nobody has read it');
      assert.deepEqual((await model.tick()).answers, { 'answers/e.csv': { unknown: 1 } });
      assert.equal(await bucket.head('answers/e.csv'), null);
    });

    test('that broke off itself is refused whole, and says where', async () => {
      const before = await model.all('SELECT line_id FROM settlement_answers');
      await bucket.put('answers/d.csv', `${HEAD}pay_x:capture,settled,1,usd\npay_y:capture,sett`);
      const { answers } = await model.tick();
      assert.deepEqual(answers['answers/d.csv'].refused, [
        'line 3: must have 4 cells',
        'the trailer is missing: the file broke off',
      ]);
      assert.deepEqual(await model.all('SELECT line_id FROM settlement_answers'), before);
      assert.equal(await bucket.head('answers/d.csv'), null);
      const { objects } = await bucket.list({ prefix: 'answers/rejected/' });
      assert.equal(objects.length, 1);
      // The run after says nothing of it: a break does, until a file of that name was imported.
      assert.deepEqual((await model.tick()).answers, {});
      const [told] = await refused('d.csv');
      assert.equal(told.state, 'open');
      assert.equal(
        told.theirs,
        'd.csv: line 3: must have 4 cells; the trailer is missing: the file broke off',
      );
      assert.ok(told.note.includes(objects[0].key), told.note);
      const page = await desk.look('/admin/breaks');
      assert.ok(page.text.includes('d.csv: line 3: must have 4 cells'), page.text);
      await send('other.csv', ['pay_x:capture,settled,1,usd']);
      assert.equal((await refused('d.csv'))[0].state, 'open', 'control');
      await send('d.csv', ['pay_x:capture,settled,1,usd']);
      assert.equal((await refused('d.csv'))[0].state, 'resolved');
    });

    test('that is too large stays where it is, and is told of until somebody has accepted that', async () => {
      const bytes = 1_048_577;
      await bucket.put('answers/large.csv', 'x'.repeat(bytes));
      const states = async () => (await refused('large.csv')).map(({ state }) => state);
      await model.tick();
      const [{ theirs, state, note }] = await refused('large.csv');
      assert.deepEqual([theirs, state], [`large.csv: it has ${bytes} bytes, more than 1048576`, 'open']);
      assert.match(note, /stays where it is: put it there in several files/);
      const page = await desk.look('/admin/breaks');
      const id = (await refused('large.csv'))[0].break_id;
      const { path, entries } = formOf(page, `${encodeURIComponent(id)}/accept`);
      assert.equal((await desk.press(path, { ...entries, note: 'known' })).status, 303);
      await model.tick();
      assert.deepEqual(await states(), ['accepted']);
      await bucket.put('answers/large.csv', 'x'.repeat(bytes + 1));
      await model.tick();
      assert.deepEqual(await states(), ['open'], 'another one');
      await bucket.delete('answers/large.csv');
    });

    test('can be sent by an operator, and by nobody else', async () => {
      const post = async (body, token = ADMIN_TOKEN) => {
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/csv' };
        const path = '/admin/settlement/answers';
        return conforming(
          'POST',
          path,
          await read(await site.fetch(path, { method: 'POST', headers, body })),
        );
      };
      const text = `${HEAD}pay_other:capture,settled,1,usd\n${paid.first.id}:capture,settled,2500,usd\ntrailer,2\n`;
      assert.equal((await post(text, 'wrong')).status, 401);
      for (const time of ['once', 'again']) {
        const answer = await post(text);
        assert.deepEqual(answer.json(), { lines: { duplicate: 1, unknown: 1 } }, time);
      }
      const refused = await post(`${HEAD}x\n`);
      assert.equal(refused.status, 422);
      assert.equal(refused.json().errors[0].message, 'line 2: must have 4 cells');
      const line = 'pay_nobody:capture,settled,1,usd\n';
      const lines = 20_000;
      assert.equal((await post(`${HEAD}${line.repeat(lines * 2)}trailer,${lines * 2}\n`)).status, 413);
      assert.equal(
        (await post(`${HEAD}${line.repeat(lines)}trailer,${lines}\n`)).json().lines.unknown,
        lines,
      );
      assert.equal((await bucket.list({ prefix: 'answers/', delimiter: '/' })).objects.length, 0);
    });
  });
});
