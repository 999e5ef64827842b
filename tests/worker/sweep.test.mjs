// The sweep: objects whose alarm is late or lost are woken, as the read model knows them.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { ADMIN_TOKEN, abandoned } from './support/abandoned.mjs';
import { account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { LOOKS_SOON, jobsForgotten } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { PAYMENT, paid } from './support/payments.mjs';
import { atStripe, readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

describe('the sweep', async () => {
  // What the reconciliation finds is not what these tests are about.
  const vars = { ...LOOKS_SOON, RECONCILE_QUIET_MS: '3600000' };
  const site = await startSite({ vars, secrets: { ADMIN_TOKEN } });
  const user = account(site);
  const model = readModel(site);
  after(() => site.close());

  const dueAt = (payment, at) =>
    model.run("UPDATE keys SET wake_at_ms = ? WHERE object = ? AND status = 'open'", at, objectId(payment));

  test('wakes an object whose alarm was lost, and control: not before its alarm is late', async () => {
    const { key, payment } = await abandoned(site, user, model);
    await dueAt(payment, Date.now() - 60_000);
    assert.deepEqual((await model.tick()).sweep, { late: 0, woken: 0, failed: 0 });
    assert.equal((await site.objects.key(payment)).status, 'open', 'nothing else takes it up');

    await dueAt(payment, Date.now() - 180_000);
    assert.deepEqual((await model.tick()).sweep, { late: 1, woken: 1, failed: 0 });
    await until('it is finished', async () => (await site.objects.key(payment)).status === 'finished');
    assert.equal(await site.simulator.charges(payment), 1);
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    await model.reaches(payment, 'succeeded');
    assert.equal((await model.tick()).sweep.late, 0);
  });

  /** Its provider has decided, and the alarm that would ask is lost. */
  async function forgotten(payment_method, refund) {
    const { id } = await paid(user, { ...PAYMENT, payment_method });
    if (refund) await user.post(`/payments/${id}/refunds`, refund, freshKey());
    const asksAt = (at) =>
      site.objects.sql(
        id,
        "UPDATE payments SET details = json_set(details, '$.check.next_at_ms', CAST(? AS INTEGER))",
        at,
      );
    await asksAt(Date.now() + 86_400_000);
    // A transaction of the object's own moves its alarm to tomorrow; then it is not told that there is something to do today.
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    await site.fetch(`/admin/payments/${id}/project`, { method: 'POST', headers });
    await jobsForgotten(site, id);
    await model.reaches(id, refund ? 'succeeded' : 'processing');
    await asksAt(Date.now() - 1);
    await site.simulator.advance(60_001);
    const statuses = async () =>
      (await site.objects.sql(id, 'SELECT status FROM payments UNION ALL SELECT status FROM refunds')).map(
        ({ status }) => status,
      );
    const heardAt = (at) => model.run('UPDATE payments SET updated_at_ms = ? WHERE payment_id = ?', at, id);
    return { id, statuses, heardAt, isOpen: async () => !(await statuses()).every((s) => s === 'succeeded') };
  }

  for (const [what, card, refund] of [
    ['payment', 'pm_card_processing'],
    ['refund', 'pm_card_pendingRefund', { amount: 700 }],
  ])
    test(`wakes a ${what} that waits for its provider and whose alarm was lost, and control: not at once`, async () => {
      const waiting = await forgotten(card, refund);
      await waiting.heardAt(Date.now() - 10 * 60_000);
      assert.deepEqual((await model.tick()).sweep, { late: 0, woken: 0, failed: 0 });
      assert.ok(await waiting.isOpen(), 'nothing else asks');

      await site.simulator.fault('error_before', { method: 'GET', count: 1000 });
      await waiting.heardAt(Date.now() - 20 * 60_000);
      assert.deepEqual((await model.tick()).sweep, { late: 1, woken: 1, failed: 0 });
      assert.deepEqual((await model.tick()).sweep, { late: 0, woken: 0, failed: 0 }, 'not again so soon');
      assert.ok(await waiting.isOpen(), 'the provider is silent');
      await site.simulator.calm();
      await until('it is decided', async () => !(await waiting.isOpen()));
    });

  test('wakes a payment whose question of its own was lost with its alarm, and control: not before it is due', async () => {
    const { id, provider_payment: intent } = await paid(user);
    await model.reaches(id, 'succeeded');
    // The alarm that looks after its jobs would ask in its place.
    await jobsForgotten(site, id);
    const { wake_at_ms: due } = await model.first('SELECT wake_at_ms FROM payments WHERE payment_id = ?', id);
    assert.ok(due > Date.now() + 86_400_000, 'it asks after two days');
    await atStripe(site, 'refunds', { payment_intent: intent, amount: '300' });
    const refunded = async () =>
      (
        await site.objects.sql(id, "SELECT details ->> '$.refunded_elsewhere_minor' AS minor FROM payments")
      )[0].minor;
    const dueAt = (at) => model.run('UPDATE payments SET wake_at_ms = ? WHERE payment_id = ?', at, id);
    // Two days have passed in the object, and its alarm did not come.
    await site.objects.sql(
      id,
      "UPDATE payments SET details = json_set(details, '$.watch.since_ms', CAST(? AS INTEGER))",
      Date.now() - 3 * 86_400_000,
    );
    await dueAt(Date.now() - 60_000);
    assert.deepEqual((await model.tick()).sweep, { late: 0, woken: 0, failed: 0 });
    assert.equal(await refunded(), 0, 'nothing else asks');

    await dueAt(Date.now() - 180_000);
    assert.deepEqual((await model.tick()).sweep, { late: 1, woken: 1, failed: 0 });
    await until('it has asked', async () => (await refunded()) === 300);
    assert.equal((await model.tick()).sweep.late, 0, 'not again so soon');
  });

  test('wakes a payment of which something is under way at the provider and was not heard of', async () => {
    const { id } = await paid(user);
    await model.reaches(id, 'succeeded');
    const pending = (operation, at) =>
      model.run(
        'UPDATE payments SET pending_operation = ?, updated_at_ms = ? WHERE payment_id = ?',
        operation,
        at,
        id,
      );
    await pending('capture', Date.now() - 10 * 60_000);
    assert.equal((await model.tick()).sweep.late, 0);
    await pending('capture', Date.now() - 20 * 60_000);
    assert.deepEqual((await model.tick()).sweep, { late: 1, woken: 1, failed: 0 });
    await pending(null, Date.now());
  });

  test('goes on when one object fails', async () => {
    const { payment } = await abandoned(site, user, model);
    const late = Date.now() - 180_000;
    await dueAt(payment, late);
    await model.run(
      `INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
         wake_at_ms, created_at_ms, updated_at_ms)
       VALUES ('no object', 1, 1, 'h', 'o', 'open', 'started', 1, 0, 0, 0, ?1, ?1, ?1)`,
      late,
    );
    const error = "an object could not be woken: no object: not an object's id";
    assert.deepEqual((await model.tick()).sweep, { late: 2, woken: 1, failed: 1, error });
    await until('it is finished', async () => (await site.objects.key(payment)).status === 'finished');
    await model.run("DELETE FROM keys WHERE object = 'no object'");
  });

  test('leaves a key whose object cannot be woken late, until the object itself tells how it stands', async () => {
    const { payment } = await abandoned(site, user, model);
    await model.run(
      `INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
         wake_at_ms, created_at_ms, updated_at_ms)
       VALUES (printf('%064x', 7), 1, 1, 'h', 'o', 'open', 'started', 1, 0, 0, 0, ?1, ?1, ?1)`,
      Date.now() - 180_000,
    );
    await dueAt(payment, Date.now() - 180_000);
    const gauge = async () => {
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
      const text = await (await site.fetch('/metrics', { headers })).text();
      return Number(/^paid_once_keys_late_or_flagged (\d+)$/m.exec(text)?.[1]);
    };
    assert.equal(await gauge(), 2);
    const { sweep } = await model.tick();
    assert.deepEqual([sweep.late, sweep.failed], [2, 1]);
    assert.match(sweep.error, /^an object could not be woken: 0{63}7: /);
    await until('the one that answers is late no more', async () => (await gauge()) === 1);
    const again = (await model.tick()).sweep;
    assert.deepEqual([again.late, again.failed], [1, 1]);
    assert.equal(await gauge(), 1);
    await model.run("DELETE FROM keys WHERE object = printf('%064x', 7)");
  });

  test('that sends many statements leaves the tasks behind it to the next run, which begins with them', async () => {
    const strike = async () => {
      const { last } = await model.first(
        "SELECT coalesce(max(run_id), 0) AS last FROM runs WHERE task != 'left'",
      );
      await site.desk().scheduled({ cron: '*/5 * * * *' });
      const sql =
        "SELECT task FROM runs WHERE run_id > ? AND task NOT GLOB '*:*' AND task != 'left' ORDER BY run_id";
      return (await model.all(sql, last)).map(({ task }) => task);
    };
    const all = await strike();
    assert.deepEqual([...all.slice(0, 3), all.at(-1)], ['inbox', 'sweep', 'reconcile', 'forget']);
    // Objects that cannot be woken: two statements each.
    await model.run(
      `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100)
       INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
         wake_at_ms, created_at_ms, updated_at_ms)
       SELECT printf('%064x', n), 1, 1, 'h', 'many', 'open', 'started', 1, 0, 0, 0, 1, 1, 1 FROM numbers`,
    );
    await model.run(
      `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100)
       INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
         attempt, shown, created_at_ms, updated_at_ms, wake_at_ms)
       SELECT 'pay_many_' || n, printf('%064x', 100 + n), 1, 'many', 'canceled', 1, 0, 0, 'usd', 'stripe', 1, '{}', 1, 1, 1 FROM numbers`,
    );
    const left = () => model.all("SELECT result FROM runs WHERE task = 'left'");
    assert.deepEqual(await strike(), ['inbox', 'sweep']);
    assert.deepEqual(
      (await left()).map(({ result }) => JSON.parse(result).tasks),
      [all.slice(2)],
    );
    for (const table of ['keys', 'payments']) await model.run(`DELETE FROM ${table} WHERE owner = 'many'`);
    assert.deepEqual(await strike(), [...all.slice(2), 'inbox', 'sweep']);
    assert.deepEqual(await left(), [], 'it is forgotten before anything begins');
    assert.deepEqual(await strike(), all);
  });
});
