// What befalls a payment at Stripe after its answer: banks that dispute it, reservations that lapse, and people who capture at the dashboard.
// The simulator plays each. It is told by a webhook; or all of these are lost, and it is found by asking, or by the reconciliation.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { AUTHORISATION, PAYMENT, assertProblem, client, freshOrder, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const site = await startSite({
  vars: { ...IMPATIENT, RECONCILE_QUIET_MS: '0' },
  secrets: { ADMIN_TOKEN },
});
const user = client(site);
const model = readModel(site);
after(() => site.close());
beforeEach(() => site.simulator.calm());

const DAY_MS = 86_400_000;
const at = async (id) => (await user.payment(id)).json();
const hexOf = (id) => Buffer.from(id.slice('pay_'.length), 'base64url').toString('hex');
const breaks = async (id) =>
  (await site.rows("SELECT note FROM breaks WHERE object = ? AND kind = 'webhook'", hexOf(id))).map(
    ({ note }) => note,
  );
const refund = (id, amount = 100) => user.post(`/payments/${id}/refunds`, { amount }, freshKey());

/** How what happens becomes known. */
const TOLD = {
  'by a webhook': { mode: 'on', learn: () => {} },
  'with all webhooks lost, by asking': {
    mode: 'off',
    // As if months had passed since what is known, and somebody looked.
    learn: (id) =>
      site.objects.sql(
        id,
        "UPDATE payments SET details = json_set(details, '$.watch.since_ms', CAST(? AS INTEGER), '$.watch.asked', 0)",
        Date.now() - 130 * DAY_MS,
      ),
  },
  'with all webhooks lost, by the reconciliation': { mode: 'off', learn: () => model.tick() },
};

for (const [how, { mode, learn }] of Object.entries(TOLD))
  describe(how, () => {
    beforeEach(() => site.simulator.webhooks(mode));

    /** What befalls a payment, until the payment shows it. */
    async function befalls(id, happening, options, shows) {
      const { provider_payment: intent } = await at(id);
      const known = await model.first('SELECT 1 AS known FROM payments WHERE provider_payment = ?', intent);
      assert.ok(known, 'the read model finds its object by the id');
      await site.simulator.befallAtStripe(intent, happening, options);
      return until(`it is known ${how}`, async () => {
        await learn(id);
        const shown = await at(id);
        return shows(shown) && shown;
      });
    }
    const pays = async (more) => {
      const { id, status } = await paid(user, more);
      await model.reaches(id, status);
      return id;
    };

    test('a dispute is shown, and nothing is refunded as well until it is won', async () => {
      const id = await pays(PAYMENT);
      const open = await befalls(id, 'disputes', { amount: 1000 }, ({ dispute }) => dispute);
      assert.equal(open.status, 'disputed');
      assert.deepEqual(
        { ...open.dispute, id: '' },
        { id: '', status: 'open', amount: 1000, funds_withdrawn: true },
      );
      assertProblem(await refund(id), 409, 'payment-state', { state: 'disputed' });
      assert.deepEqual(await until('a person sees it', async () => (await breaks(id)).at(0) && breaks(id)), [
        'a dispute of 1000 is open',
      ]);
      const won = await befalls(id, 'disputes', { status: 'won' }, ({ status }) => status === 'succeeded');
      assert.deepEqual([won.dispute.status, won.dispute.funds_withdrawn], ['won', false]);
      assert.equal((await refund(id)).status, 201);
    });

    test('of one that is lost only the rest is ours, and an inquiry can be refunded', async () => {
      const lost = await pays(PAYMENT);
      await befalls(lost, 'disputes', {}, ({ dispute }) => dispute);
      await befalls(lost, 'disputes', { status: 'lost' }, ({ dispute }) => dispute.status === 'lost');
      assertProblem(await refund(lost), 422, 'amount-too-large');
      const asked = await pays(PAYMENT);
      const inquiry = { status: 'warning_needs_response' };
      const { dispute } = await befalls(asked, 'disputes', inquiry, (shown) => shown.dispute);
      assert.deepEqual([dispute.status, dispute.funds_withdrawn], ['open', false]);
      assert.equal((await refund(asked)).status, 201);
    });

    test('a reservation that lapses is expired, and its order can be paid anew', async () => {
      const order = { order_id: freshOrder() };
      const id = await pays({ ...AUTHORISATION, ...order });
      const { capture_before: end } = await at(id);
      assert.ok(Date.parse(end) - Date.now() > 6 * DAY_MS, end);
      const shown = await befalls(id, 'expire', {}, ({ status }) => status !== 'requires_capture');
      assert.deepEqual([shown.status, shown.capture_before], ['expired', null]);
      const answer = await user.post(`/payments/${id}/capture`, undefined, freshKey());
      assertProblem(answer, 409, 'payment-state', { state: 'expired' });
      assert.equal((await paid(user, { ...AUTHORISATION, ...order })).status, 'requires_capture');
    });

    test('a capture of a part at the dashboard is the whole of what was taken', async () => {
      const id = await pays(AUTHORISATION);
      const shown = await befalls(id, 'captures', { amount: 700 }, ({ amount_captured }) => amount_captured);
      assert.deepEqual([shown.status, shown.amount_captured], ['succeeded', 700]);
      assert.deepEqual(await breaks(id), []);
      assertProblem(await refund(id, 701), 422, 'amount-too-large');
    });

    test('captures in parts are followed, and what is left reserved is for a person', async () => {
      const id = await pays(AUTHORISATION);
      const part = { amount: 700, final: false };
      await befalls(id, 'captures', part, ({ amount_captured }) => amount_captured === 700);
      await befalls(id, 'captures', part, ({ amount_captured }) => amount_captured === 1400);
      const told = await until('a person sees both', async () => {
        const notes = await breaks(id);
        return notes.length === 2 && notes;
      });
      assert.deepEqual(told.sort(), [
        'others have captured 1400 of 2500, 1100 is still held',
        'others have captured 700 of 2500, 1800 is still held',
      ]);
      assert.equal((await refund(id, 1400)).status, 201);
    });

    test('what was taken beyond the amount is for a person', async () => {
      const id = await pays(AUTHORISATION);
      const shown = await befalls(id, 'captures', { amount: 3000 }, ({ amount_captured }) => amount_captured);
      assert.deepEqual([shown.status, shown.amount_captured], ['succeeded', 2500]);
      const told = await until('a person sees it', async () => (await breaks(id)).at(0));
      assert.equal(told, 'others have captured 3000 of 2500, 0 is still held');
      assert.equal((await refund(id, 2500)).status, 201);
    });
  });

test('the desk shows a reservation that ends within a day', async () => {
  await site.simulator.webhooks('off');
  const { id } = await paid(user, AUTHORISATION);
  await model.reaches(id, 'requires_capture');
  const list = async () => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    return (await site.fetch('/admin/payments?status=ending', { headers })).text();
  };
  assert.ok(!(await list()).includes(id));
  const soon = new Date(Date.now() + DAY_MS / 2).toISOString();
  await model.run(
    "UPDATE payments SET shown = json_set(shown, '$.capture_before', ?1) WHERE payment_id = ?2",
    soon,
    id,
  );
  const page = await list();
  assert.ok(page.includes(id), page);
  assert.match(page, /ends in 1[12] h/);
});

test('several disputes that a payment shows as one are known, also where an earlier release wrote a break of another kind', async () => {
  const { id } = await paid(user, PAYMENT);
  const { provider_payment: intent } = await model.reaches(id, 'succeeded');
  await site.simulator.webhooks('off');
  const dispute = async () => (await at(id)).dispute;
  const happens = (what) => site.simulator.befallAtStripe(intent, 'disputes', what);
  const left = () =>
    model.all(
      "SELECT break_id, state FROM breaks WHERE resource = ? AND kind != 'webhook' AND state = 'open'",
      id,
    );
  const isShown = (amount) =>
    until(`${amount} are shown`, async () => {
      await model.tick();
      const shown = await dispute();
      return shown?.amount === amount && shown;
    });
  await happens({ amount: 1000 });
  const first = await isShown(1000);
  await happens({ status: 'lost' });
  await happens({ amount: 500 });
  assert.notEqual((await isShown(1500)).id, first.id);
  await until('the read model has both', () =>
    model.first("SELECT 1 FROM payments WHERE payment_id = ? AND shown ->> '$.dispute.amount' = 1500", id),
  );
  await model.tick();
  assert.deepEqual(await left(), []);
  for (const kind of ['dispute', 'status'])
    await model.run(
      `INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, state, first_seen_at_ms, last_seen_at_ms)
       VALUES (?, ?, 'stripe', ?, ?, 'open', 1, 1) ON CONFLICT (break_id) DO UPDATE SET state = 'open', last_seen_at_ms = 1`,
      ...[`${kind}:stripe:${first.id}`, kind, first.id, id],
    );
  await model.tick();
  assert.deepEqual(await left(), [], 'the one that is over is known, too');
  // The control: the payment does not show it.
  const amount = "json_set(shown, '$.dispute.amount', ?)";
  await model.run(`UPDATE payments SET shown = ${amount} WHERE payment_id = ?`, 500, id);
  await model.run(
    "UPDATE breaks SET state = 'open', last_seen_at_ms = 1 WHERE provider_payment = ?",
    first.id,
  );
  await model.tick();
  assert.deepEqual(
    (await left()).filter(({ break_id }) => break_id.endsWith(first.id)),
    [{ break_id: `dispute:stripe:${first.id}`, state: 'open' }],
  );
  await model.run(`UPDATE payments SET shown = ${amount} WHERE payment_id = ?`, 1500, id);
  await model.tick();
  assert.deepEqual(await left(), []);
});

test('of a dispute that is lost a part can come back: what is gone is shown, and what came back is a break until then', async () => {
  const { id } = await paid(user, PAYMENT);
  const { provider_payment: intent, object } = await model.reaches(id, 'succeeded');
  await site.simulator.webhooks('off');
  const happens = (what) => site.simulator.befallAtStripe(intent, 'disputes', what);
  const shows = (amount) =>
    until(`${amount} are shown`, async () => {
      await model.tick();
      const sql = "SELECT shown ->> '$.dispute.amount' AS amount FROM payments WHERE payment_id = ?";
      return (await at(id)).dispute?.amount === amount && (await model.first(sql, id)).amount === amount;
    });
  const openMovements = () =>
    model.all("SELECT break_id FROM breaks WHERE resource = ? AND kind = 'movement' AND state = 'open'", id);
  const agrees = () =>
    until('both say the same', async () => {
      await model.tick();
      return (await openMovements()).length === 0;
    });
  await happens({ amount: 1000 });
  await shows(1000);
  await agrees();
  await happens({ status: 'lost', reinstated: 400 });
  await model.tick();
  assert.equal((await openMovements()).length, 1, 'the balance has what our payment does not show');
  await shows(600);
  assert.deepEqual((await at(id)).dispute.status, 'lost');
  await agrees();
  const sql =
    "SELECT data ->> '$.disputes[0].amount' AS amount FROM audit_records WHERE object = ? AND action = 'payment.disputed' ORDER BY audit_id";
  const recorded = await model.all(sql, object);
  assert.deepEqual(
    recorded.map(({ amount }) => amount),
    [1000, 600],
  );
});
