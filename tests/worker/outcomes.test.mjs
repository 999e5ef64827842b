// What an answer of the provider proves: what is found is believed at once, absence after a failure of the provider's own not
// for days, and a success that contradicts the request never.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, account, freshKey } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { AT_ONCE, PAYMENT } from './support/payments.mjs';
import { until } from './support/until.mjs';

// The quiet time is the default, 20 min: nothing here waits for it.
const site = await shareSite({ vars: { COMPLETER_MS: '60000' } });
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

/** Makes the next try due, and the look-ups so far as old as this. */
const elapse = (payment, ms) =>
  site.objects.sql(
    payment,
    `UPDATE foreign_calls SET next_try_at_ms = 0, first_sent_at_ms = first_sent_at_ms - ?1, last_sent_at_ms = last_sent_at_ms - ?1,
       evidence = json_patch(evidence, json_object(
         'failed_at_ms', CAST(evidence ->> 'failed_at_ms' - ?1 AS INTEGER),
         'absent_at_ms', CAST(evidence ->> 'absent_at_ms' - ?1 AS INTEGER)))`,
    ms,
  );

/** Asks again as soon as no other run is at work. */
const again = (key) =>
  until('no run is at work', async () => {
    const answer = await user.pay(PAYMENT, key, AT_ONCE);
    return answer.status !== 409 && answer;
  });

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A charge in which Stripe failed: a stored 500, and nothing to be seen. */
async function failed(key) {
  await site.simulator.fault('error_stored');
  const { payment, status } = await user.pay(PAYMENT, key, AT_ONCE);
  assert.equal(status, 503);
  await elapse(payment, HOUR_MS);
  return payment;
}

const evidence = async (payment) => JSON.parse((await site.objects.call(payment)).evidence);

test('a declined card behind a stored 500 is declined at once, not after the quiet time', async () => {
  await site.simulator.fault('error_after');
  const answer = await account(site, DECLINED_USER).pay(PAYMENT, freshKey());
  assert.equal(answer.status, 402, answer.text);
  assert.equal(answer.json().code, 'card_declined');
  assert.equal(await site.simulator.charges(answer.payment), 0);
});

describe('after a 500 of the provider', () => {
  test('that nothing is there is not believed for three days, however often it is asked', async () => {
    const key = freshKey();
    const payment = await failed(key);
    for (const ms of [0, HOUR_MS, DAY_MS]) {
      await elapse(payment, ms);
      const answer = await again(key);
      assert.equal(answer.status, 503, answer.text);
      assert.match(answer.json().type, /outcome-unknown$/);
    }
    assert.match((await evidence(payment)).needs_review, /may complete it later/);
    assert.equal((await user.key(key)).json().status, 'unknown');
    await elapse(payment, 2 * DAY_MS);
    assert.equal((await again(key)).status, 402);
    assert.equal((await site.simulator.payments(payment)).length, 1, 'nothing was sent again');
  });

  test('what it completes hours later is taken in, and charged once', async () => {
    const key = freshKey();
    const payment = await failed(key);
    assert.equal((await again(key)).status, 503);
    // Stripe completes its work: the payment is there, under our metadata.
    const { request } = await site.objects.call(payment);
    const { id } = await site.simulator.make('payment_intents', JSON.parse(request).body);
    await site.objects.sql(payment, 'UPDATE foreign_calls SET next_try_at_ms = 0');
    const answer = await again(key);
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.json().provider_payment, id);
    assert.equal(await site.simulator.charges(payment), 1);
  });
});

test('what the provider says it has made is asked for by its id, and is never absent', async () => {
  const key = freshKey();
  await site.simulator.fault('error_stored');
  const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
  // As if it had answered 200 with an id and another amount.
  await site.objects.sql(
    payment,
    `UPDATE foreign_calls SET next_try_at_ms = 0, evidence = '{"provider_id":"pi_nobody_knows","is_executed":true}'`,
  );
  const asked = async () =>
    (await site.simulator.requests()).filter(({ path }) => path.endsWith('/pi_nobody_knows')).length;
  for (const ms of [0, 4 * DAY_MS]) {
    const before = await asked();
    await site.objects.sql(
      payment,
      'UPDATE foreign_calls SET next_try_at_ms = 0, last_sent_at_ms = last_sent_at_ms - ?',
      ms,
    );
    assert.equal((await again(key)).status, 503);
    // By this request, or by an alarm that came first.
    assert.ok((await asked()) > before, 'it is asked for each time');
  }
  assert.match((await evidence(payment)).needs_review, /does not show/);
});
