// The provider does not answer, or not clearly, when a payment begins: nobody is told that it failed, the same key brings
// the truth, and the card is charged once.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, freshKey } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  insist,
  operations,
} from './support/payments.mjs';
import { IMPATIENT, lost, testUnknownOutcomes } from './support/unknown.mjs';

const site = await shareSite({ vars: IMPATIENT });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const [payment, authorisation] = operations;
for (const operation of [payment, authorisation])
  describe(operation.name, () => testUnknownOutcomes(site, user, operation));

test('a declined card stays declined, and is not charged', async () => {
  const declined = client(site, DECLINED_USER);
  for (const fault of ['response_lost', 'error_after', 'rate_limited']) {
    const key = freshKey();
    await site.simulator.fault(fault);
    const answer = await insist(() => declined.pay(PAYMENT, key));
    assertProblem(answer, 402, 'payment-failed', { code: 'card_declined' });
    assert.equal((await site.simulator.moved(answer.payment)).charges, 0);
  }
});

test('meanwhile the payment is processing, and nothing else may begin', async () => {
  const order_id = freshOrder();
  const { id, end } = await lost(site, user, { path: '/payments', body: { ...AUTHORISATION, order_id } });
  const shown = (await user.payment(id)).json();
  assert.deepEqual([shown.status, shown.provider_payment], ['processing', null]);
  assert.equal((await site.simulator.moved(id)).charges, 1, 'the card was charged, but nobody here knows');
  for (const move of ['capture', 'void', 'refunds'])
    assertProblem(await user.post(`/payments/${id}/${move}`, undefined, freshKey()), 409, 'payment-state', {
      state: 'processing',
    });
  const rival = await user.pay({ ...AUTHORISATION, order_id }, freshKey());
  assertProblem(rival, 409, 'payment-state', { state: 'processing', resource: `/payments/${id}` });
  assert.equal((await end()).json().status, 'requires_capture');
  assert.equal((await site.simulator.moved(id)).charges, 1);
});

describe('a reservation whose answer was lost is understood if at the dashboard it was', () => {
  for (const [what, path, body, status, sum] of [
    ['captured', 'capture', '', 'succeeded', { captured: 2500 }],
    ['captured in part', 'capture', 'amount_to_capture=900', 'succeeded', { captured: 900 }],
    ['canceled', 'cancel', '', 'canceled', { voided: 1 }],
  ])
    test(what, async () => {
      const key = freshKey();
      await site.simulator.fault('error_after');
      await site.simulator.fault('error_before', { method: 'GET', count: 1000 });
      const first = await user.pay(AUTHORISATION, key, AT_ONCE);
      assertProblem(first, 503, 'outcome-unknown');
      // The 500 is stored: from the second send on it is looked for, in vain.
      await user.pay(AUTHORISATION, key, AT_ONCE);
      const { charges } = await site.simulator.ledger(first.payment);
      const id = charges[0].payment_intent;
      await site.simulator.make(`payment_intents/${id}/${path}`, body);
      await site.simulator.calm();
      const answer = await insist(() => user.pay(AUTHORISATION, key));
      if (status === 'canceled') assertProblem(answer, 402, 'payment-failed', { code: 'payment_canceled' });
      else assert.equal(answer.status, 201, answer.text);
      const shown = (await user.payment(first.payment)).json();
      assert.deepEqual([shown.status, shown.provider_payment], [status, id]);
      assert.equal(shown.amount_captured, sum.captured ?? 0);
      const moved = { charges: 1, captured: 0, refunded: 0, voided: 0, ...sum };
      assert.deepEqual(await site.simulator.moved(first.payment), moved);
    });
});
