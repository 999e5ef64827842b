// The desk's pages: their addresses, a filter that is wrong, and what the page of a payment shows of it.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { account } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';
import { PAYMENT, paid as paidBy } from './support/payments.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await shareSite({ secrets: { ADMIN_TOKEN } });
const user = account(site);
after(() => site.close());

const { look, press } = operator(site, ADMIN_TOKEN);
const paid = async (more) => (await paidBy(user, { ...PAYMENT, ...more })).id;

test('an address with a slash at its end leads to the page', async () => {
  const id = await paid();
  for (const [path, to] of [
    ['/admin/', '/admin'],
    ['/admin/?range=week', '/admin?range=week'],
    ['/admin/payments/', '/admin/payments'],
    [`/admin/payments/${id}/`, `/admin/payments/${id}`],
  ]) {
    const answer = await look(path);
    assert.deepEqual([answer.status, answer.header('location')], [308, to], path);
    assert.equal((await look(to)).status, 200);
  }
  for (const path of ['/admin//', '/admin/nothing/', '/admin/logout/', '/admin//evil.example/'])
    assert.equal((await look(path)).status, 404, path);
  assert.equal((await press('/admin/login/', {})).status, 404, 'what is sent goes where it is sent');
});

test('a wrong filter of the payments is named, and lists none', async () => {
  const id = await paid();
  const list = async (query) => look(`/admin/payments?${new URLSearchParams(query)}`);
  await until('it is in the list', async () => (await list({})).text.includes(id));
  const [day, status] = ['The day is not a date like 2026-11-24.', 'There is no such status.'];
  for (const [query, ...wrong] of [
    [{ day: '2026-99-99' }, day],
    [{ status: 'foo' }, status],
    [{ day: '2026-99-99', status: 'foo' }, day, status],
    [{ day: 'yesterday', q: id.slice(0, 20) }, day],
  ]) {
    const page = await list(query);
    assert.equal(page.status, 422);
    for (const text of ['The filter is wrong', ...wrong]) assert.ok(page.text.includes(text), page.text);
    assert.doesNotMatch(page.text, /<table class="list"|href="\/admin\/payments\.csv|data-live="/);
    const file = await look(`/admin/payments.csv?${new URLSearchParams(query)}`);
    assert.deepEqual([file.status, file.json().detail], [400, `${wrong.join(' ')} No file was made.`]);
  }
  const today = new Date().toISOString().slice(0, 10);
  const good = await list({ day: today, status: 'succeeded' });
  assert.equal(good.status, 200, 'the control');
  assert.ok(good.text.includes(id) && !good.text.includes('The filter is wrong'));
});

test('the page of a payment shows what its account has written, until that is erased', async () => {
  const id = await paid({
    description: 'Two mugs <b>&',
    receipt_email: 'somebody@private.example',
    metadata: { cart: '<i>7</i>', note: 'gift' },
  });
  const path = `/admin/payments/${id}`;
  const shown = [
    '<dt>Description</dt><dd>Two mugs &#60;b&#62;&#38;</dd>',
    '<dt>Receipt goes to</dt><dd>s…@private.example</dd>',
    '<h2>Metadata</h2>',
    '&#60;i&#62;7&#60;/i&#62;',
    'gift',
  ];
  const page = await look(path);
  for (const text of shown) assert.ok(page.text.includes(text), `${text} in ${page.text}`);
  assert.ok(!page.text.includes('somebody@private.example'));
  assert.equal((await press(`${path}/erase`, {})).status, 200);
  const erased = await look(path);
  assert.equal(erased.status, 200);
  for (const text of [...shown, 'Two mugs', 'private.example'])
    assert.ok(!erased.text.includes(text), `${text} is gone`);
});
