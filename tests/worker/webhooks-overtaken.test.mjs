// Questions that are answered late: after something newer was asked, while others want to ask, or never.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { PAYMENT, paid } from './support/payments.mjs';
import { until } from './support/until.mjs';
import { startWebhookSite } from './support/webhooks.mjs';

const times = { PROVIDER_TIMEOUT_MS: '20000', QUIET_MS: '60000', COMPLETER_MS: '300' };
const { site, user, statusOf } = await startWebhookSite(times);

/** A payment that waits at the bank, and the address of its page. */
async function waiting() {
  const card = { payment_method: 'pm_card_authenticationRequired', return_url: 'https://shop.example/' };
  const payment = await paid(user, { ...PAYMENT, ...card });
  return { ...payment, bank: new URL(payment.next_action.redirect_to_url.url).pathname };
}

/** The questions about a payment: the status of each answer, `null` while there is none. */
const questions = async ({ provider_payment }) =>
  (await site.simulator.requests())
    .filter(({ method, path }) => method === 'GET' && path.includes(provider_payment))
    .map(({ status }) => status);
const slow = (delay_ms, more) =>
  site.simulator.fault('slow_response', {
    method: 'GET',
    path: '/v1/payment_intents',
    delay_ms,
    ...more,
  });

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

test('all who look at once are told by one question that was begun after they came', async () => {
  const payment = await waiting();
  await slow(3000, { count: 100 });
  const looks = await Promise.all(Array.from({ length: 8 }, () => user.payment(payment.id)));
  for (const look of looks) assert.equal(look.json().status, 'requires_action', look.text);
  const asked = await questions(payment);
  // The first one's, that of all others, and the alarm's, should it ring.
  assert.ok(asked.length <= 3, `asked ${asked.length} times`);
});

test('who looks is shown what is known while the provider does not answer, and the answer is taken in later', async () => {
  const payment = await waiting();
  const bank = site.server.getWorker('paid-once-simulator');
  await bank.fetch(`https://bank.example${payment.bank}/accept`, { method: 'POST', redirect: 'manual' });
  await slow(60_000);
  assert.equal((await user.payment(payment.id)).json().status, 'requires_action');
  assert.deepEqual(await questions(payment), [null], 'it is still being asked');
  await site.simulator.calm();
  await until('it is taken in', async () => (await statusOf(payment.id)) === 'succeeded');
  assert.deepEqual(await questions(payment), [200], 'nobody had to ask again');
});

test('the alarm goes on with what is abandoned while the provider is being asked', async () => {
  const payment = await paid(user);
  const giveBack = async () => {
    await site.simulator.make('refunds', `payment_intent=${payment.provider_payment}&amount=100`);
    return (await site.simulator.events(payment.id)).at(-1);
  };
  await slow(60_000);
  assert.equal(await site.simulator.tell((await giveBack()).id), 200);
  await until('it is being asked', async () => (await site.simulator.faults()).length === 0);
  assert.equal(await site.simulator.tell((await giveBack()).id), 200);
  const key = freshKey();
  const refund = { amount: 300, reason: 'duplicate', raise_error: 'true' };
  assert.equal((await user.post(`/payments/${payment.id}/refunds`, refund, key)).status, 500);
  await until('it is complete', async () => (await user.key(key)).json().status === 'complete');
  assert.deepEqual(await questions(payment), [null], 'it is still being asked');
});
