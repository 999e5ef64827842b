// A question that is answered late, after something newer was asked.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { paid } from './support/payments.mjs';
import { until } from './support/until.mjs';
import { startWebhookSite } from './support/webhooks.mjs';

const { site, user } = await startWebhookSite({ PROVIDER_TIMEOUT_MS: '20000', QUIET_MS: '60000' });

test('what was given back past us stays known where an older question is answered late', async () => {
  const { id, provider_payment: intent } = await paid(user);
  const giveBack = async (amount) => {
    const body = `payment_intent=${intent}&amount=${amount}`;
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    await site.simulator.stripe('refunds', { method: 'POST', headers, body });
    return (await site.simulator.events(id)).at(-1);
  };
  const first = await giveBack(600);
  await site.simulator.fault('slow_response', { method: 'GET', path: '/v1/refunds', delay_ms: 2000 });
  assert.equal(await site.simulator.tell(first.id), 200);
  await until('it is being asked', async () => (await site.simulator.faults()).length === 0);
  const second = await giveBack(400);
  assert.equal(await site.simulator.tell(second.id), 200);
  const learned = async () =>
    (await site.objects.audit(id))
      .filter(({ action }) => action === 'refund.elsewhere')
      .map(({ data }) => JSON.parse(data).amount);
  await until('both are answered', async () => (await learned()).length === 2);
  assert.deepEqual(await learned(), [600, 1000]);
  assert.equal((await user.payment(id)).json().amount_refunded, 1000);
});
