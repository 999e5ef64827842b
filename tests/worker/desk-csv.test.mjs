// The desk's list of payments as a file.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';
import { DECLINED_CARD, PAYMENT, paid as paidBy } from './support/payments.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await shareSite({ secrets: { ADMIN_TOKEN } });
const user = account(site);
after(() => site.close());

const { look, logOf } = operator(site, ADMIN_TOKEN);
const paid = async (more) => (await paidBy(user, { ...PAYMENT, ...more })).id;

describe('the list of payments as a file', () => {
  /** Its rows as objects. */
  function parsed(text) {
    const cell = /("(?:[^"]|"")*"|[^,\r\n]*)(,|\r\n)/y;
    const rows = [[]];
    for (let found; cell.lastIndex < text.length && (found = cell.exec(text));) {
      rows.at(-1).push(found[1].replace(/^"|"$/g, '').replaceAll('""', '"'));
      if (found[2] === '\r\n') rows.push([]);
    }
    assert.deepEqual(rows.pop(), [], 'the last line ends as all do');
    const [names, ...values] = rows;
    return values.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
  }
  const file = async (query = '') => {
    const answer = await look(`/admin/payments.csv${query}`);
    assert.equal(answer.status, 200, answer.text);
    return parsed(answer.text);
  };

  test('stands in the log of operators', async () => {
    const exports = () => logOf('payments.csv');
    const before = await exports();
    const { length } = await file();
    const after = await exports();
    assert.equal(after.length, before.length + 1);
    assert.ok(
      after.some(
        ({ action, outcome }) =>
          action === 'export' && /^\d+ payments$/.test(outcome) && parseInt(outcome) >= length,
      ),
      JSON.stringify(after),
    );
    const wrong = await look('/admin/payments.csv?before=yesterday');
    assert.equal(wrong.status, 400);
    assert.ok((await exports()).some(({ outcome }) => outcome.startsWith('refused: ')));
  });

  test('has what the page shows for the same search and filter', async () => {
    const order = `="1",${freshKey()}`;
    const id = await paid({ order_id: order, capture: false });
    const other = await paid();
    await until('both are there', async () => {
      const ids = (await file()).map(({ payment }) => payment);
      return ids.includes(id) && ids.includes(other);
    });
    const reserved = await file('?status=requires_capture');
    assert.ok(!reserved.some(({ payment }) => payment === other));
    const row = reserved.find(({ payment }) => payment === id);
    const { created_at, provider_payment, account, ...rest } = row;
    assert.deepEqual(rest, {
      payment: id,
      order_id: `'${order}`, // no formula
      status: 'requires_capture',
      currency: 'usd',
      amount_minor: '2500',
      captured_minor: '0',
      refunded_minor: '0',
      provider: 'stripe',
      failure_code: '',
    });
    assert.match(provider_payment, /^pi_/);
    assert.ok(account.length > 0);
    assert.equal(new Date(created_at).toISOString(), created_at);
    for (const search of [id, order, provider_payment])
      assert.deepEqual(await file(`?q=${encodeURIComponent(search)}`), [row], search);

    const page = await look(`/admin/payments?q=${encodeURIComponent(order)}&status=undecided&page=0`);
    const [, href] = /href="(\/admin\/payments\.csv[^"]*)">Download CSV \(the newest 5,000 at most\)</.exec(
      page.text,
    );
    const { text, headers } = await look(href.replaceAll('&#38;', '&').replaceAll('&amp;', '&'));
    assert.deepEqual(parsed(text), [row]);
    assert.match(headers.get('content-type'), /^text\/csv; charset=utf-8/);
    assert.match(
      headers.get('content-disposition'),
      /^attachment; filename="payments-\d{4}-\d\d-\d\d\.csv"$/,
    );
    assert.match(headers.get('cache-control'), /no-store/);
  });

  test('is found by each of its names, and by its amount on its day', async () => {
    const order = `order-${freshKey()}`;
    const amount = 100_000 + Math.floor(Math.random() * 800_000);
    const id = await paid({ order_id: order, amount });
    await until('it is there', async () => (await file()).some(({ payment }) => payment === id));
    const ids = async (query) => (await file(`?${new URLSearchParams(query)}`)).map(({ payment }) => payment);
    const day = new Date().toISOString().slice(0, 10);
    const written = (amount / 100).toFixed(2);
    for (const q of [written, `$${written}`, `${written.replace('.', ',')} usd`, order, 'user@example.com'])
      for (const status of ['', 'succeeded', 'paid'])
        assert.ok((await ids({ q, day, status })).includes(id), `${q} ${status}`);
    for (const wrong of [
      { q: written },
      { q: `${written} eur`, day },
      { q: (amount / 100 + 0.01).toFixed(2), day },
      { q: written, day, status: 'declined' },
      { q: order, day: '2020-01-01' },
      { q: order.slice(0, -1) },
    ])
      assert.ok(!(await ids(wrong)).includes(id), JSON.stringify(wrong));
    assert.ok((await ids({ day })).includes(id));
    assert.deepEqual(await ids({ day: '2020-01-01' }), []);

    const declined = await user.pay({ ...PAYMENT, payment_method: DECLINED_CARD }, freshKey());
    const { payment } = declined;
    await until('the other one is there', async () => (await ids({ status: 'not_paid' })).includes(payment));
    const [{ failure_code: code }] = await file(`?q=${payment}`);
    assert.ok((await ids({ q: code, status: 'declined' })).includes(payment), code);
    const shown = code.replaceAll('_', ' ');
    assert.ok((await ids({ q: shown[0].toUpperCase() + shown.slice(1) })).includes(payment), shown);
    assert.ok(!(await ids({ q: code, status: 'paid' })).includes(payment));
    assert.ok((await ids({ q: 'user@example.com', status: 'not_paid' })).includes(payment));
  });

  test('is for operators alone', async () => {
    const answer = await site.fetch('/admin/payments.csv');
    assert.equal(answer.status, 401);
    assert.doesNotMatch(await answer.text(), /pay_/);
  });

  test('goes on in another file where one is full, and leaves none out', async () => {
    const id = await paid();
    await until('it is there', async () => (await file()).some(({ payment }) => payment === id));
    const columns = (await site.rows('PRAGMA table_info(payments)')).map(({ name }) => name);
    const failed = freshKey().slice(0, 8);
    const values = columns.map(
      // Two of each moment: they are told apart by their ids.
      (name) =>
        ({
          payment_id: "'pay_' || printf('%042d', n) || '0'",
          provider_payment: "'pi_many_' || n",
          failure_code: `'${failed}'`,
          created_at_ms: 'n / 2',
        })[name] ?? name,
    );
    await site.rows(
      `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 7001)
       INSERT INTO payments (${columns}) SELECT ${values} FROM numbers, payments WHERE payment_id = ?`,
      id,
    );
    const first = await look(`/admin/payments.csv?q=${failed}`);
    const [, next] = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link'));
    const second = await look(next);
    assert.equal(second.headers.get('link'), null);
    const name = ({ headers }) => /filename="(.*)"/.exec(headers.get('content-disposition'))[1];
    assert.match(name(first), /^payments-[\d-]{10}-more-follow\.csv$/);
    assert.match(name(second), /^payments-[\d-]{10}\.csv$/);
    const rows = [...parsed(first.text), ...parsed(second.text)].map(
      ({ provider_payment }) => provider_payment,
    );
    assert.equal(parsed(first.text).length, 5000);
    const all = Array.from({ length: 7001 }, (_, i) => `pi_many_${7001 - i}`);
    assert.deepEqual(new Set(rows), new Set(all));
    assert.equal(rows.length, all.length);
    await site.rows('DELETE FROM payments WHERE failure_code = ?', failed);

    const wrong = await look('/admin/payments.csv?before=yesterday');
    assert.equal(wrong.status, 400);
    assert.match(wrong.text, /Leave it out/);
  });
});
