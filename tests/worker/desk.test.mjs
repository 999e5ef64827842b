// The desk over HTTP: its login, what it never shows, and that a button does what it says, once.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startSite } from './support/harness.mjs';
import { objectId } from './support/objects.mjs';
import { FORM, formOf, key, operator } from './support/operator.mjs';
import { PAYMENT, paid as paidBy } from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await startSite({ secrets: { ADMIN_TOKEN } });
const user = account(site);
after(() => site.close());

const { bearer, look, press, logOf } = operator(site, ADMIN_TOKEN);

/** The entries of what moves money: on the page that asks once more. */
const entriesOf = async (path) => formOf(await look(path), path).entries;

const paid = async (more) => (await paidBy(user, { ...PAYMENT, ...more })).id;

test('the page of a payment says through which link it was begun, and which one is the newest', async () => {
  const order = { order_id: freshKey(), currency: 'usd' };
  const lines = (amount) => ({ lines: [{ name: 'Enamel mug', unit_amount: amount, quantity: 1 }] });
  const made = await user.post('/checkout/sessions', { ...order, ...lines(2500) });
  assert.equal(made.status, 201, made.text);
  const path = new URL(made.json().url).pathname;
  const visitor = browser(site);
  const { entries } = await visitor.visit(path);
  await visitor.send(path, { ...entries, payment_method: 'pm_card_visa_chargeDeclined' });
  const [{ payment_id: id }] = await until('the read model has it', async () => {
    const rows = await site.rows('SELECT payment_id FROM payments WHERE order_id = ?', order.order_id);
    return rows.length > 0 && rows;
  });
  const links = async () => {
    const { text } = await look(`/admin/payments/${id}`);
    const fact = (name) =>
      new RegExp(`<dt>${name}</dt><dd>([\\s\\S]*?)</dd>`)
        .exec(text)?.[1]
        .replace(/<[^>]*>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim();
    return [fact('Newest link'), fact('Opened link')];
  };
  assert.deepEqual(await links(), ['revision 1', 'revision 1']);
  assert.equal((await user.post('/checkout/sessions', { ...order, ...lines(2600) })).json().revision, 2);
  assert.deepEqual(await links(), ['revision 2', 'revision 1 a newer one was made since']);
  await user.post(`/checkout/sessions/${order.order_id}/expire`);
  assert.deepEqual(await links(), ['revision 2 ended by the shop', 'revision 1 a newer one was made since']);
});

test('one status has one word and one explanation, in the list, its filter and the page', async () => {
  const id = await paid({ capture: false });
  await until('it is in the list', async () => (await look('/admin/payments')).text.includes(id));
  const chip = 'requires capture</span>';
  const meaning = 'Authorized: it can be captured or voided.';
  const listed = async (status) => (await look(`/admin/payments?status=${status}`)).text;
  for (const status of ['requires_capture', 'undecided']) {
    const text = await listed(status);
    assert.ok(text.includes(id) && text.includes(chip), status);
    assert.match(text, new RegExp(`title="${meaning}">${chip}`), 'at the chip');
    assert.match(text, new RegExp(`${chip}</dt><dd>${meaning}`), 'below the list');
    assert.match(text, /<option value="requires_capture"( selected)?>requires capture<\/option>/);
  }
  for (const status of ['succeeded', 'paid', 'not_paid'])
    assert.ok(!(await listed(status)).includes(id), status);
  assert.ok((await look(`/admin/payments/${id}`)).text.includes(chip));
  const key = (await look(`/admin/keys/${objectId(id)}/1`)).text;
  assert.match(key, /complete<\/span>[^]*Its response is stored: a retry gets the same bytes\./);
});

describe('the login', () => {
  const visitor = () => browser(site);
  const login = (visitor, token, query = {}, headers = {}) =>
    visitor.visit(`/admin/login?${new URLSearchParams(query)}`, {
      method: 'POST',
      headers: { ...FORM, origin: site.url.origin, ...headers },
      body: new URLSearchParams({ token }).toString(),
    });

  test('gives a cookie that no script reads, no other site sends, and that ends with the day', async () => {
    const ada = visitor();
    const answer = await login(ada, ADMIN_TOKEN, { to: '/admin/keys?state=open' });
    assert.equal(answer.status, 303);
    assert.equal(answer.header('location'), '/admin/keys?state=open');
    const cookie = answer.header('set-cookie');
    for (const part of ['HttpOnly', 'SameSite=Strict', 'Max-Age=28800', 'Path=/'])
      assert.ok(cookie.includes(part));
    assert.ok(!cookie.includes(ADMIN_TOKEN));
    assert.equal((await ada.visit('/admin')).status, 200);
    assert.equal((await ada.visit('/metrics')).status, 200);
  });

  test('is only made with the secret, and from our own pages', async () => {
    for (const wrong of ['', 'x', `${ADMIN_TOKEN}!`]) {
      const eve = visitor();
      const answer = await login(eve, wrong);
      assert.equal(answer.status, 401);
      assert.equal(eve.cookies(), '');
    }
    const elsewhere = await login(visitor(), ADMIN_TOKEN, {}, { origin: 'https://evil.example' });
    assert.equal(elsewhere.status, 403);
  });

  test('leads to no other site', async () => {
    for (const to of [
      '//evil.example',
      'https://evil.example',
      '/admin//../..//evil',
      '/administrator',
      '/\\evil',
    ]) {
      const { headers } = await login(visitor(), ADMIN_TOKEN, { to });
      assert.match(headers.get('location'), /^\/admin(\/|$)/, to);
    }
  });

  test('does not open with a cookie that was changed, nor with a form’s key', async () => {
    const ada = visitor();
    await login(ada, ADMIN_TOKEN);
    const cookie = ada.cookie('desk');
    const page = await look(`/admin/payments/${await paid()}`);
    const formKey = /name="form" value="([^"]+)"/.exec(page.text)[1];
    const { form } = await ada.openOrder();
    for (const value of [
      cookie.slice(0, -2),
      `${cookie.slice(0, -1)}${cookie.endsWith('A') ? 'B' : 'A'}`,
      formKey,
      form.idempotency_key,
    ])
      assert.equal((await look('/admin', { cookie: `desk=${value}`, accept: 'text/html' })).status, 401);
    assert.equal((await look('/admin', { cookie: `desk=${cookie}` })).status, 200, 'the control');
  });

  test('is over when the secret is another one', async () => {
    const ada = visitor();
    await login(ada, ADMIN_TOKEN);
    const other = await startSite({ secrets: { ADMIN_TOKEN: 'another-secret-that-is-long-enough-too' } });
    try {
      const answer = await other.fetch('/admin', { headers: { cookie: ada.cookies(), accept: 'text/html' } });
      assert.equal(answer.status, 401);
    } finally {
      await other.close();
    }
  });
});

describe('a button', () => {
  test('does nothing without its key, with another’s, or from another site', async () => {
    const id = await paid();
    const refund = `/admin/payments/${id}/refund`;
    const page = await look(`/admin/payments/${id}`);
    const { form, seen } = await entriesOf(refund);
    const { form: others } = await entriesOf(`/admin/payments/${await paid()}/refund`);
    const settle = key(page, `/admin/payments/${id}/settle`);
    const money = { amount: '25.00', seen };
    for (const entries of [{}, { form: '' }, { form: `${form}x` }, { form: others }, { form: settle }])
      assert.equal((await press(refund, { ...entries, ...money })).status, 403);
    const elsewhere = await press(refund, { form, ...money }, { origin: 'https://evil.example' });
    assert.equal(elsewhere.status, 403);
    assert.equal((await press(refund, { form, ...money }, { authorization: '' })).status, 401);
    assert.deepEqual((await user.ask(`/payments/${id}/refunds`)).json().data, []);
    assert.equal((await press(refund, { form, ...money })).status, 303, 'the control');
    assert.equal((await user.ask(`/payments/${id}/refunds`)).json().data.length, 1);
  });

  test('pressed ten times at once gives money back once, and is one line of the log', async () => {
    const id = await paid();
    const refund = `/admin/payments/${id}/refund`;
    const entries = { ...(await entriesOf(refund)), amount: '5', reason: 'duplicate' };
    const answers = await Promise.all(Array.from({ length: 10 }, () => press(refund, entries)));
    assert.equal(
      new Set(answers.map(({ status, headers }) => `${status} ${headers.get('location')}`)).size,
      1,
    );
    const refunds = (await user.ask(`/payments/${id}/refunds`)).json().data;
    assert.deepEqual(
      refunds.map(({ amount, reason, status }) => [amount, reason, status]),
      [[500, 'duplicate', 'succeeded']],
    );
    const log = await site.rows(
      'SELECT operator, action, outcome FROM operator_actions WHERE subject = ?',
      id,
    );
    assert.deepEqual(log, [
      { operator: 'operator', action: 'refund $5.00, duplicate', outcome: 'refunded $5.00' },
    ]);
    // Two pages are two buttons: each does what it says.
    const again = await entriesOf(refund);
    assert.equal((await press(refund, { ...again, amount: '5', reason: 'duplicate' })).status, 303);
    assert.equal((await user.ask(`/payments/${id}`)).json().amount_refunded, 1000);
  });

  test('that the payment’s state forbids says so, and moves nothing', async () => {
    const id = await paid({ capture: false });
    const [give, take] = ['void', 'capture'].map((action) => `/admin/payments/${id}/${action}`);
    const [giveEntries, takeEntries] = [await entriesOf(give), await entriesOf(take)];
    assert.equal((await press(give, giveEntries)).status, 303);
    const late = await press(take, takeEntries);
    const after = await look(late.header('location'));
    assert.match(after.text, /Refused: /);
    assert.equal((await user.ask(`/payments/${id}`)).json().status, 'canceled');
  });

  test('with an amount that cannot be read does nothing', async () => {
    const id = await paid();
    const refund = `/admin/payments/${id}/refund`;
    const entries = await entriesOf(refund);
    for (const amount of ['', '-5', '1,500', '0', '1.005', 'all'])
      assert.equal((await press(refund, { ...entries, amount })).status, 422, amount);
    assert.deepEqual(await site.rows('SELECT * FROM operator_actions WHERE subject = ?', id), []);
    assert.equal((await press(refund, { ...entries, amount: '1.50' })).status, 303);
    assert.equal((await user.ask(`/payments/${id}`)).json().amount_refunded, 150);
  });
});

describe('the question before money moves', () => {
  const fact = (page, name) => new RegExp(`<dt>${name}</dt><dd>([^<]*)</dd>`).exec(page.text)?.[1];
  const heading = (page) => /<h1>([^<]*)<\/h1>/.exec(page.text)[1];

  test('names the sum and the order, and changes nothing', async () => {
    const order = freshKey();
    const id = await paid({ order_id: order });
    const refund = `/admin/payments/${id}/refund`;
    const all = await look(`${refund}?amount=&reason=duplicate`);
    assert.equal(all.status, 200);
    assert.equal(heading(all), `Refund $25.00 of $25.00 to order ${order}?`);
    assert.equal(fact(all, 'Reason'), 'duplicate');
    const part = await look(`${refund}?amount=5&reason=fraudulent`);
    assert.equal(heading(part), `Refund $5.00 of $25.00 to order ${order}?`);
    const comma = await look(`${refund}?amount=12%2C50`);
    assert.equal(heading(comma), `Refund $12.50 of $25.00 to order ${order}?`);
    assert.match(part.text, /name="amount" value="\$5\.00"[^]*name="reason" value="fraudulent"/);
    assert.deepEqual((await user.ask(`/payments/${id}/refunds`)).json().data, []);
    assert.deepEqual(await logOf(id), []);
  });

  test('says what a capture leaves, and what a void gives up', async () => {
    const id = await paid({ capture: false });
    const capture = await look(`/admin/payments/${id}/capture?amount=20`);
    assert.equal(heading(capture), 'Capture $20.00 of $25.00?');
    assert.match(capture.text, /The other \$5\.00 is released/);
    assert.equal(heading(await look(`/admin/payments/${id}/void`)), 'Void $25.00?');
  });

  test('is not asked for more than there is, nor for what cannot be', async () => {
    const id = await paid();
    const ask = async (rest) => (await look(`/admin/payments/${id}/${rest}`)).status;
    for (const [amount, wrong] of [
      ['25.01', 'The amount can be at most $25.00.'],
      ['x"<i>', 'The amount must be written like 12.50.'],
      ['1,250', 'The amount must be written like 12.50.'],
      ['€5', 'The amount must be in the payment&#39;s currency, USD.'],
      ['0', 'The amount '],
    ]) {
      const path = `/admin/payments/${id}/refund?amount=${encodeURIComponent(amount)}&reason=duplicate`;
      const again = await look(path);
      assert.equal(again.status, 422);
      const [form] = again.text.match(/<form class="act" method="get" action="[^"]*\/refund">[^]*?<\/form>/);
      assert.ok(form.includes(wrong), form);
      const entered = amount.replace('"', '&#34;').replace('<', '&#60;').replace('>', '&#62;');
      assert.ok(
        form.includes(`value="${entered}" aria-invalid="true" aria-describedby="wrong-amount"`),
        form,
      );
      assert.match(form, /<select name="reason"><option value="duplicate">/, 'the reason that was chosen');
      assert.doesNotMatch(again.text, /data-live="/, 'it stays as it is');
    }
    assert.equal(await ask('capture'), 409);
    assert.equal(await ask('void'), 409);
    assert.equal(await ask('settle'), 404);
    assert.equal(await ask('nothing'), 404);
    assert.equal((await look(`/admin/payments/pay_nothing/refund`)).status, 404);
    assert.equal((await look(`/admin/payments/${id}/refund`, {})).status, 401, 'a stranger');
    assert.equal(await ask('refund?amount=25'), 200, 'the control');
  });
});

describe('Void', () => {
  const url = { return_url: 'https://shop.example/thanks' };
  for (const [status, payment] of Object.entries({
    requires_action: { payment_method: 'pm_card_authenticationRequired', ...url },
    processing: { payment_method: 'pm_card_processing' },
    requires_capture: { capture: false },
  }))
    test(`is offered for a payment that is ${status}, and gives it up`, async () => {
      const id = await paid(payment);
      assert.equal((await user.ask(`/payments/${id}`)).json().status, status, 'the control');
      const path = `/admin/payments/${id}/void`;
      assert.equal((await press(path, await entriesOf(path))).status, 303);
      assert.equal((await user.ask(`/payments/${id}`)).json().status, 'canceled');
      assert.deepEqual(await logOf(id), [{ action: 'void', outcome: 'voided: nothing is held any more' }]);
    });

  test('is not offered for one that is taken', async () => {
    const id = await paid();
    assert.ok(!(await look(`/admin/payments/${id}`)).text.includes(`/admin/payments/${id}/void`));
  });
});

describe('the tile of late and flagged keys', () => {
  const tile = async () =>
    Number(
      /Late or needs review[^]*?<[^>]*class="tile-value"[^>]*>([\d,]+)/.exec((await look('/admin')).text)[1],
    );
  const insert = (name, status, flagged, wakeAtMs) =>
    site.rows(
      `INSERT INTO keys (object, key_id, key_hash, owner, operation, status, recovery_point, attempts, failures, in_doubt,
         flagged, wake_at_ms, created_at_ms, version, updated_at_ms)
       VALUES (?1, 1, ?1, 'account:tile', 'payment', ?2, 'started', 1, 0, 0, ?3, ?4, 1, 1, 1)`,
      ...[name, status, flagged, wakeAtMs],
    );

  test('counts each open one once, and leads to the same', async () => {
    const before = await tile();
    const late = Date.now() - 600_000;
    await insert('late and flagged', 'open', 1, late);
    await insert('only late', 'open', 0, late);
    await insert('only flagged', 'open', 1, null);
    await insert('neither', 'open', 0, null);
    await insert('finished and flagged', 'finished', 1, null);
    assert.equal((await tile()) - before, 3);
    const { text } = await look('/admin/keys?state=late&q=account%3Atile');
    const listed = [...text.matchAll(/\/admin\/keys\/([^/"]+)\/1/g)].map(([, object]) => object);
    assert.deepEqual(listed.sort(), ['late and flagged', 'only flagged', 'only late']);
    await site.rows("DELETE FROM keys WHERE owner = 'account:tile'");
  });
});

test('a key is listed as expired once its time is over, though nobody has told that', async () => {
  const owner = 'account:expiry';
  const insert = (object, status, finishedAtMs, expiresAtMs) =>
    site.rows(
      `INSERT INTO keys (object, key_id, key_hash, owner, operation, status, recovery_point, attempts, failures, in_doubt, flagged,
         created_at_ms, finished_at_ms, expires_at_ms, version, updated_at_ms)
       VALUES (?1, 1, ?1, ?2, 'payment', ?3, 'finished', 1, 0, 0, 0, 1, ?4, ?5, 1, 1)`,
      ...[object, owner, status, finishedAtMs, expiresAtMs],
    );
  const now = Date.now();
  const day = 86_400_000;
  await insert('replayed', 'finished', now - day, now + day);
  await insert('over', 'finished', now - day, now - 1);
  await insert('of the release before, told', 'expired', now - day, null);
  await insert('of the release before, not told', 'finished', now - day, null);
  const listed = async (state) => {
    const { text } = await look(`/admin/keys?state=${state}&q=${encodeURIComponent(owner)}`);
    const rows = text.matchAll(/\/admin\/keys\/([^/"]+)\/1"[^]*?<span class="chip[^>]*>([^<]*)</g);
    return Object.fromEntries([...rows].map(([, object, shown]) => [object, shown]));
  };
  const expired = {
    over: 'expired',
    'of the release before, told': 'expired',
    'of the release before, not told': 'expired',
  };
  assert.deepEqual(await listed('expired'), expired);
  assert.deepEqual(await listed('finished'), { replayed: 'complete' });
  assert.deepEqual(await listed(''), { ...expired, replayed: 'complete' });
  await site.rows('DELETE FROM keys WHERE owner = ?', owner);
});

describe('a refund by an operator', () => {
  test('is audited as the operator’s on the account’s behalf, and is seen from its key too', async () => {
    const id = await paid();
    const refund = `/admin/payments/${id}/refund`;
    const entries = await entriesOf(refund);
    assert.equal((await press(refund, { ...entries, amount: '5' })).status, 303);
    assert.equal((await user.post(`/payments/${id}/refunds`, { amount: 300 }, freshKey())).status, 201);
    const requested = async () =>
      (
        await site.rows(
          "SELECT actor, data FROM audit_records WHERE object = ? AND action = 'refund.requested' ORDER BY audit_id",
          objectId(id),
        )
      ).map(({ actor, data }) => [actor, JSON.parse(data).operator]);
    await until('both are in the read model', async () => (await requested()).length === 2);
    const actor = 'account:user@example.com';
    assert.deepEqual(await requested(), [
      [actor, 'operator'],
      [actor, undefined],
    ]);
    const BY = /by operator operator for user@example\.com/g;
    for (const path of [`/admin/payments/${id}`, `/admin/keys/${objectId(id)}/2`]) {
      const { text } = await look(path);
      assert.equal(text.match(BY)?.length, 1, path);
      assert.match(text, /What operators did here[^]*refund \$5\.00/, path);
    }
    assert.match((await look('/admin/audit?of=effects&q=operator')).text, /operator operator for user@/);
  });
});

describe('a command of the operator', () => {
  test('is not taken from another site’s page, whose browser shows the cookie', async () => {
    const ada = browser(site);
    await ada.visit('/admin/login', {
      method: 'POST',
      headers: { ...FORM, origin: site.url.origin },
      body: new URLSearchParams({ token: ADMIN_TOKEN }).toString(),
    });
    const id = await paid();
    const project = (headers) => ada.visit(`/admin/payments/${id}/project`, { method: 'POST', headers });
    assert.equal((await project({ origin: 'https://evil.example' })).status, 403);
    assert.equal((await project({ 'sec-fetch-site': 'cross-site' })).status, 403);
    assert.equal((await project({ origin: site.url.origin })).status, 200, 'the control');
  });

  test('stands in the log of operators, with how it ended', async () => {
    const post = async (path, body) =>
      (await site.fetch(path, { method: 'POST', headers: bearer, ...(body && { body }) })).status;
    const of = (subject) =>
      site.rows(
        'SELECT operator, action, outcome FROM operator_actions WHERE subject = ? ORDER BY at_ms, outcome',
        subject,
      );
    const line = (action, outcome) => ({ operator: 'operator', action, outcome });

    const id = await paid();
    assert.equal(await post(`/admin/payments/${id}/project`), 200);
    assert.deepEqual(await of(id), [line('project', '1 on the way into the read model')]);
    assert.equal(await post(`/admin/payments/${id}/erase`), 200);
    assert.deepEqual(
      (await of(id)).filter(({ action }) => action === 'erase'),
      [line('erase', 'the personal data is erased')],
    );
    await until(
      'the read model knows of something',
      async () => (await site.rows('SELECT count(*) AS number FROM payments'))[0].number > 0,
    );
    assert.equal(await post('/admin/payments/all/project'), 200);
    const [all] = await of('all objects');
    assert.match(all.outcome, /^\d+ on the way into the read model$/);

    const answer = `line_id,outcome,amount_minor,currency\n${id}:capture,settled,1,usd\ntrailer,1\n`;
    const sha256 = (text) => createHash('sha256').update(text).digest('hex');
    assert.equal(await post('/admin/settlement/answers', answer), 200);
    assert.equal(await post('/admin/settlement/answers', 'nonsense'), 422);
    const lines = await of('settlement');
    assert.deepEqual(lines[0], line(`import answer ${sha256(answer)}`, 'lines: 1 unknown'));
    assert.equal(lines[1].action, `import answer ${sha256('nonsense')}`);
    assert.match(lines[1].outcome, /^refused: 2 errors, the first: line 1: /);
    assert.match((await look('/admin/audit')).text, /import answer/);

    // What nobody was let in for, or what is not there, was not done.
    const nobody = `pay_${Buffer.alloc(32, 8).toString('base64url')}`;
    assert.equal(await post(`/admin/payments/${nobody}/erase`), 404);
    assert.deepEqual(await of(nobody), []);
  });
});

describe('the page of a key', () => {
  const keyPage = (id) => look(`/admin/keys/${objectId(id)}/1`);
  const count = (text, part) => text.split(part).length - 1;
  const MARK = '<title>payment: answered again</title>';
  const saved = async () => parse((await look('/metrics')).text).sum('charges_saved_total');

  test('says how often it was answered again, as the overview counts it, and shows each of the first', async () => {
    const idempotencyKey = freshKey();
    const pay = () => user.pay({ amount: 2500, currency: 'usd' }, idempotencyKey);
    const { id } = (await pay()).json();
    const before = await saved();
    const none = await keyPage(id);
    assert.match(none.text, /<dt>Answered again<\/dt>\s*<dd[^>]*>\s*never/);
    assert.ok(!none.text.includes(MARK));
    const [first, ...more] = await Promise.all(Array.from({ length: 20 }, pay));
    const page = await keyPage(id);
    assert.match(page.text, /20 times/);
    assert.match(page.text, /the first 16 are shown/);
    assert.equal(count(page.text, MARK), 16);
    assert.equal(count(page.text, 'Answered again: payment'), 16);
    const asked = [first, ...more].map((answer) => `request ${answer.header('request-id')}`);
    assert.equal(asked.filter((request) => page.text.includes(request)).length, 16);
    await until('the overview has counted them', async () => (await saved()) - before === 20);
    const payment = await look(`/admin/payments/${id}`);
    assert.equal(count(payment.text, MARK), 16, 'the picture of the payment has them too');
  });

  test('counts on from what is written', async () => {
    const idempotencyKey = freshKey();
    const pay = () => user.pay({ amount: 2500, currency: 'usd' }, idempotencyKey);
    const { id } = (await pay()).json();
    await site.objects.sql(id, 'UPDATE idempotency_keys SET replays = 999');
    await Promise.all([pay(), pay(), pay()]);
    assert.match((await keyPage(id)).text, /1002 times/);
  });
});

describe('no page', () => {
  test('shows a secret, a token or an address for receipts, nor what an account has written but at its payment', async () => {
    const idempotencyKey = freshKey();
    const answer = await user.pay(
      {
        amount: 900,
        currency: 'usd',
        description: 'a-secret-description',
        receipt_email: 'hidden@private.example',
        metadata: { note: 'a-secret-note' },
      },
      idempotencyKey,
    );
    const { id } = answer.json();
    await until(
      'its receipt has a row',
      async () => (await site.rows('SELECT 1 AS one FROM job_list WHERE job_id LIKE ?', `${id}%`)).length,
    );
    const payment = await look(`/admin/payments/${id}`);
    const [keyPath] = /\/admin\/keys\/[0-9a-f]{64}\/1/.exec(payment.text);
    const paths = [
      `/admin/payments/${id}`,
      keyPath,
      '/admin',
      '/admin/payments',
      '/admin/keys',
      '/admin/audit?of=effects',
      '/admin/dead-letters',
    ];
    for (const path of paths) {
      const page = await look(path);
      assert.equal(page.status, 200, path);
      for (const hidden of [
        ADMIN_TOKEN,
        idempotencyKey,
        'pm_card_visa',
        'hidden@private.example',
        ...(path === paths[0] ? [] : ['a-secret', 'private.example']),
      ])
        assert.ok(!page.text.includes(hidden), `${path} shows ${hidden}`);
    }
  });

  test('is found by the key that a client has sent', async () => {
    const sent = freshKey();
    const { payment } = await user.pay(PAYMENT, sent);
    const object = objectId(payment);
    await until('it is in the list', async () =>
      (await look(`/admin/keys?q=${sent}`)).text.includes(`/admin/keys/${object}/1`),
    );
    assert.equal(
      (await look(`/admin/payments?q=${payment}`)).header('location'),
      `/admin/payments/${payment}`,
    );
  });

  test('is found by the reference that people read on a receipt, as they write it', async () => {
    const { payment } = await user.pay(PAYMENT, freshKey());
    const [, reference] = (await look(`/admin/payments/${payment}`)).text.match(
      />([0-9A-Z]{4}-[0-9A-Z]{4})</,
    );
    const written = reference.toLowerCase().replace('-', '');
    await until('it is in the list', async () =>
      (await look(`/admin/payments?q=${written}`)).text.includes(`/admin/payments/${payment}`),
    );
    const other = written.replace(/^./, (first) => (first === '0' ? '1' : '0'));
    assert.ok(!(await look(`/admin/payments?q=${other}`)).text.includes(`/admin/payments/${payment}`));
  });

  test('is found by the key that a client has sent, however many accounts there are', async () => {
    const wallet = (id) => [
      id,
      { token_sha256: createHash('sha256').update(id).digest('hex'), payment_method: 'pm_card_visa' },
    ];
    const ids = Array.from({ length: 150 }, (_, number) => `shop-${String(number).padStart(3, '0')}`);
    const many = await startSite({
      secrets: { ADMIN_TOKEN, API_ACCOUNTS: JSON.stringify(Object.fromEntries(ids.map(wallet))) },
    });
    try {
      for (const id of [ids.at(0), ids.at(-1)]) {
        const sent = freshKey();
        const answer = await account(many, id).pay({ amount: 2500, currency: 'usd' }, sent);
        assert.equal(answer.status, 201);
        const path = `/admin/keys/${objectId(answer.json().id)}/1`;
        await until(`the key of ${id} is found`, async () =>
          (await (await many.fetch(`/admin/keys?q=${sent}`, { headers: bearer })).text()).includes(path),
        );
      }
    } finally {
      await many.close();
    }
  });

  test('is there for what does not exist', async () => {
    const nobody = Buffer.alloc(32, 7);
    for (const path of [
      '/admin/nothing',
      '/admin/payments/pay_x',
      `/admin/payments/pay_${nobody.toString('base64url')}`,
      `/admin/keys/${nobody.toString('hex')}/1`,
      '/admin/keys/x/1',
      '/admin/dead-letters/nothing',
    ])
      assert.equal((await look(path)).status, 404, path);
    assert.equal((await site.fetch('/admin', { method: 'POST', headers: bearer })).status, 405);
  });
});
