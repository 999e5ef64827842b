// The provider does not answer, or not clearly, to a capture, a void or a refund: nobody is told that it failed, the same
// key brings the truth, and the money has moved once.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { AUTHORISATION, assertProblem, client, moved, operations, paid } from './support/payments.mjs';
import { IMPATIENT, lost, testUnknownOutcomes } from './support/unknown.mjs';

const site = await shareSite({ vars: IMPATIENT });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const [, , ...moves] = operations;
for (const operation of moves) describe(operation.name, () => testUnknownOutcomes(site, user, operation));

describe('meanwhile', () => {
  for (const [move, state, status] of [
    ['capture', 'capturing', 'succeeded'],
    ['void', 'voiding', 'canceled'],
  ])
    test(`a payment is ${state}, and nothing else may begin`, async () => {
      const { id } = await paid(user, AUTHORISATION);
      const { end } = await lost(site, user, { path: `/payments/${id}/${move}` });
      assert.equal((await user.payment(id)).json().status, 'requires_capture', 'as far as anybody knows');
      for (const other of ['capture', 'void', 'refunds'])
        assertProblem(
          await user.post(`/payments/${id}/${other}`, undefined, freshKey()),
          409,
          'payment-state',
          { state },
        );
      assert.equal((await end()).json().status, status);
      assert.equal((await user.payment(id)).json().status, status);
    });

  test('a refund is pending and its amount is taken into account', async () => {
    const { id } = await paid(user);
    const { end } = await lost(site, user, { path: `/payments/${id}/refunds`, body: { amount: 2000 } });
    assert.equal((await user.payment(id)).json().amount_refunded, 2000);
    const [pending] = (await user.refunds(id)).json().data;
    assert.deepEqual([pending.status, pending.provider_refund], ['pending', null]);
    const more = await user.post(`/payments/${id}/refunds`, { amount: 501 }, freshKey());
    assertProblem(more, 422, 'amount-too-large', { available: 500 });
    assert.equal((await end()).json().status, 'succeeded');
    assert.equal((await moved(user, id, 'refunds', { amount: 500 })).status, 'succeeded');
    assert.equal((await site.simulator.moved(id)).refunded, 2500);
  });
});
