// Every state of a payment with every move: a legal one gives the new state, an illegal one says which state forbids it
// and changes nothing.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { jobsOf } from './support/jobs.mjs';
import {
  AUTHORISATION,
  DECLINED_CARD,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  moved,
  paid,
} from './support/payments.mjs';

const site = await shareSite();
const user = client(site);
after(() => site.close());

const RETURN_URL = 'https://shop.example/thanks';
const MOVES = ['capture', 'void', 'refunds'];

/** What the provider was asked to do. How payments stand that are open there the alarms ask, whenever they are due. */
const sends = async () => (await site.simulator.requests()).filter(({ method }) => method === 'POST');

/** The alarm does not ask the provider for a payment within the hour: what came of that would be stored. */
const askNoMore = (id) =>
  site.objects.sql(
    id,
    `UPDATE payments SET details = json_set(details, '$.check.next_at_ms', ?) WHERE details ->> '$.check' IS NOT NULL`,
    Date.now() + 3_600_000,
  );

/** A payment that failed, as it is shown in the problem. */
async function failed(payment) {
  const answer = await user.pay(payment, freshKey());
  return assertProblem(answer, 402, 'payment-failed').payment;
}

/** How each state comes about, and what the moves that it allows lead to. */
const states = {
  processing: {
    make: () => paid(user, { ...PAYMENT, payment_method: 'pm_card_processing' }),
    void: 'canceled',
  },
  requires_action: {
    make: () =>
      paid(user, { ...PAYMENT, payment_method: 'pm_card_authenticationRequired', return_url: RETURN_URL }),
    void: 'canceled',
  },
  requires_capture: { make: () => paid(user, AUTHORISATION), capture: 'succeeded', void: 'canceled' },
  succeeded: { make: () => paid(user), refunds: 'succeeded' },
  canceled: {
    make: async () => moved(user, (await paid(user, AUTHORISATION)).id, 'void'),
  },
  declined: { make: () => failed({ ...PAYMENT, payment_method: DECLINED_CARD }) },
  failed: { make: () => failed({ ...PAYMENT, payment_method: 'pm_that_is_unknown' }) },
};

/** What is so in every state. */
function assertConsistent(payment) {
  const { status, amount, amount_capturable, amount_captured, amount_refunded } = payment;
  assert.ok(amount >= amount_captured + amount_capturable, JSON.stringify(payment));
  assert.ok(amount_captured >= amount_refunded, JSON.stringify(payment));
  assert.equal(amount_capturable > 0, status === 'requires_capture');
  assert.equal(amount_captured > 0, status === 'succeeded');
  assert.equal(payment.next_action !== null, status === 'requires_action');
  assert.equal(payment.failure !== null, ['declined', 'failed'].includes(status));
}

for (const [state, { make, ...legal }] of Object.entries(states))
  describe(`a payment that is ${state}`, () => {
    test('is shown so', async () => {
      const made = await make();
      assert.equal(made.status, state);
      assertConsistent(made);
      assert.deepEqual((await user.payment(made.id)).json(), made);
      const refunds = { object: 'list', url: `/payments/${made.id}/refunds`, data: [], has_more: false };
      assert.deepEqual((await user.refunds(made.id)).json(), refunds);
    });

    for (const move of MOVES.filter((one) => one in legal))
      test(`allows ${move}`, async () => {
        const { id } = await make();
        await moved(user, id, move);
        const shown = (await user.payment(id)).json();
        assert.equal(shown.status, legal[move]);
        assertConsistent(shown);
      });

    const illegal = MOVES.filter((one) => !(one in legal));
    test(`forbids ${illegal.join(' and ')}, and leaves the key free`, async () => {
      const made = await make();
      await askNoMore(made.id);
      await jobsOf(site, made.id);
      const rows = await site.objects.dump(made.id);
      const sent = await sends();
      for (const move of illegal)
        for (const key of [freshKey(), undefined]) {
          const refused = await user.post(`/payments/${made.id}/${move}`, {}, key);
          assertProblem(refused, 409, 'payment-state', { state, resource: `/payments/${made.id}` });
          assert.equal(refused.header('retry-after'), null);
          if (key) assertProblem(await user.key(key), 404, 'not-found');
        }
      assert.deepEqual(await site.objects.dump(made.id), rows, 'nothing was stored');
      assert.deepEqual(await sends(), sent, 'and nothing was sent');
    });
  });

describe('a key that a state refused', () => {
  test('may be used for the same request once the state allows it', async () => {
    const order_id = freshOrder();
    const { payment: id } = await user.pay(
      { ...PAYMENT, payment_method: DECLINED_CARD, order_id },
      freshKey(),
    );
    const key = freshKey();
    const refund = () => user.post(`/payments/${id}/refunds`, undefined, key);
    assertProblem(await refund(), 409, 'payment-state', { state: 'declined' });
    assert.equal((await user.pay({ ...PAYMENT, order_id }, freshKey())).status, 201);
    const answer = await refund();
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.header('idempotent-replayed'), null);
  });

  test('stays bound to its address: there it can be used with what is right', async () => {
    const { id } = await paid(user, AUTHORISATION);
    const key = freshKey();
    const capture = (amount) => user.post(`/payments/${id}/capture`, { amount }, key);
    assertProblem(await capture(2501), 422, 'amount-too-large', { available: 2500 });
    const elsewhere = await paid(user, AUTHORISATION);
    const other = await user.post(`/payments/${elsewhere.id}/capture`, { amount: 2501 }, key);
    assertProblem(other, 422, 'idempotency-key-reused');
    assert.equal((await capture(2500)).status, 200);
    assertProblem(await capture(2501), 422, 'idempotency-key-reused', { fields: ['amount'] });
  });
});

test('a payment that does not exist is 404 for every move', async () => {
  const nobodys = `pay_${Buffer.alloc(32).toString('base64url')}`;
  for (const id of [nobodys, 'pay_short', 'order_x']) {
    assertProblem(await user.payment(id), 404, 'not-found');
    assertProblem(await user.refunds(id), 404, 'not-found');
    for (const move of MOVES) {
      const key = freshKey();
      assertProblem(await user.post(`/payments/${id}/${move}`, {}, key), 404, 'not-found');
    }
  }
});
