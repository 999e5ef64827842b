// The desk’s pages: their addresses, a filter that is wrong, and what the page of a payment shows of it.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { account } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';
import { PAYMENT, paid as paidBy } from './support/payments.mjs';

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
