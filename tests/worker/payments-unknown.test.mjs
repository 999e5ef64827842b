// The provider does not answer, or not clearly, when a payment begins: nobody is told that it failed, the same key brings
// the truth, and the card is charged once.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import {
  AUTHORISATION,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  insist,
  operations,
} from './support/payments.mjs';
import { IMPATIENT, lost, testUnknownOutcomes } from './support/unknown.mjs';

const site = await startSite({ vars: IMPATIENT });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const [payment, authorisation] = operations;
for (const operation of [payment, authorisation])
  describe(operation.name, () => testUnknownOutcomes(site, user, operation));

test('a declined card stays declined, and is not charged', async () => {
  const declined = client(site, DECLINED_USER);
  for (const fault of ['response_lost', 'error_after']) {
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
  for (const move of ['capture', 'void', 'refunds'])
    assertProblem(await user.post(`/payments/${id}/${move}`, undefined, freshKey()), 409, 'payment-state', {
      state: 'processing',
    });
  const rival = await user.pay({ ...AUTHORISATION, order_id }, freshKey());
  assertProblem(rival, 409, 'payment-state', { state: 'processing', resource: `/payments/${id}` });
  assert.equal((await end()).json().status, 'requires_capture');
  assert.equal((await site.simulator.moved(id)).charges, 1);
});
