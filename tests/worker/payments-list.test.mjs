// The list of an account's payments, as the read model has them.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { DECLINED_USER, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { jobsOf } from './support/jobs.mjs';
import { AUTHORISATION, PAYMENT, client, moved, paid } from './support/payments.mjs';

describe('GET /payments', async () => {
  const shop = await startSite();
  const owner = client(shop);
  after(() => shop.close());
  const list = async (query = '') => {
    const answer = await owner.ask(`/payments${query}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json();
  };
  const ids = ({ data }) => data.map(({ id }) => id);

  const made = [];
  for (const body of [PAYMENT, AUTHORISATION, PAYMENT, AUTHORISATION])
    made.unshift((await paid(owner, body)).id);
  await moved(owner, made[0], 'void');
  for (const id of made) await jobsOf(shop, id);

  test('shows the newest first, each as its own address shows it', async () => {
    const all = await list();
    assert.deepEqual([all.object, all.url, all.has_more], ['list', '/payments', false]);
    assert.deepEqual(ids(all), made);
    for (const one of all.data) assert.deepEqual(one, (await owner.payment(one.id)).json());
  });

  test('goes on after the last one of the page before', async () => {
    const first = await list('?limit=3');
    assert.deepEqual([ids(first), first.has_more], [made.slice(0, 3), true]);
    const rest = await list(`?limit=3&starting_after=${made[2]}`);
    assert.deepEqual([ids(rest), rest.has_more], [made.slice(3), false]);
  });

  test('shows those of one status', async () => {
    assert.deepEqual(ids(await list('?status=canceled')), [made[0]]);
    assert.deepEqual(ids(await list('?status=succeeded')), [made[1], made[3]]);
    assert.deepEqual(ids(await list('?status=declined')), []);
  });

  test('shows those that were made in a time', async () => {
    const created = Date.parse((await owner.payment(made[2])).json().created_at) / 1000;
    const [from, to] = [Math.floor(created), Math.floor(created) + 1];
    assert.ok(ids(await list(`?created[gte]=${from}&created[lt]=${to}`)).includes(made[2]));
    assert.ok(ids(await list(`?created=${from}`)).includes(made[2]));
    assert.ok(!ids(await list(`?created[gt]=${from}`)).includes(made[2]));
    assert.deepEqual(ids(await list('?created[lt]=2020-01-01T00:00:00Z')), []);
    assert.deepEqual(ids(await list('?created[gte]=2020-01-01T00:00:00Z')), made);
  });

  test('shows the payment of one order at once, to whom it belongs', async () => {
    const order_id = freshKey();
    const of = (id) => list(`?order_id=${encodeURIComponent(id)}`);
    assert.deepEqual((await of(order_id)).data, []);
    const payment = await paid(owner, { ...PAYMENT, order_id });
    const found = await of(order_id);
    assert.deepEqual([found.has_more, found.data], [false, [(await owner.payment(payment.id)).json()]]);
    const stranger = client(shop, DECLINED_USER);
    assert.deepEqual((await stranger.ask(`/payments?order_id=${order_id}`)).json().data, []);
    for (const query of [`?order_id=${order_id}&limit=1`, '?order_id=', '?order_id=%C3%A9']) {
      const refused = await owner.ask(`/payments${query}`);
      assert.deepEqual([refused.status, refused.json().errors[0].field], [422, 'order_id'], query);
    }
  });

  test("shows a stranger nothing, and takes no stranger's payment as a place", async () => {
    const stranger = client(shop, DECLINED_USER);
    assert.deepEqual((await stranger.ask('/payments')).json().data, []);
    const refused = await stranger.ask(`/payments?starting_after=${made[0]}`);
    assert.equal(refused.status, 422);
    assert.deepEqual(
      refused.json().errors.map(({ field }) => field),
      ['starting_after'],
    );
    assert.equal((await client(shop, 'nobody').ask('/payments')).status, 401);
  });

  test('names each parameter that is wrong', async () => {
    const refused = await owner.ask('/payments?limit=101&status=paid&page=2');
    assert.equal(refused.status, 422);
    assert.deepEqual(
      refused.json().errors.map(({ field }) => field),
      ['limit', 'status', 'page'],
    );
  });
});
