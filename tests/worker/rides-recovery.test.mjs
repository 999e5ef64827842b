// What becomes of a ride when something goes wrong on its way: at the bank, at the payments API, in its object, at the pilot's service.
// One payment at most, and nobody has to come back.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { TRIP, account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { rideOf } from './support/objects.mjs';
import { ridesOf } from './support/rides.mjs';
import { until } from './support/until.mjs';

const site = ridesOf(
  await startSite({ vars: { COMPLETER_MS: '500', WAIT_MS: '500', PROVIDER_TIMEOUT_MS: '3000' } }),
);
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const MESSAGES = { path: '/sms/' };

const isPaid = (ride) =>
  until('the ride is paid', async () => (await user.ride(ride)).json().status === 'paid');

/** Books a ride whose payment the bank holds back: gives its id, and the answer to come. */
async function heldUp() {
  const known = new Set(await site.rides.ids());
  await site.simulator.fault('slow', { delay_ms: 60_000 });
  const answer = user.book(freshKey()).catch((error) => error);
  await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
  const [id] = (await site.rides.ids()).filter((one) => !known.has(one));
  return { ride: rideOf(id), answer };
}

describe('the one payment of a ride', () => {
  test('would be seen to be two, if it were: two payments about a ride are counted', async () => {
    const { ride } = await user.book(freshKey());
    assert.equal(await site.rides.paid(ride), 1);
    const again = { amount: 2000, currency: 'usd', metadata: { ride } };
    assert.equal((await user.pay(again, freshKey())).status, 201);
    assert.equal(await site.rides.paid(ride), 2);
  });

  for (const fault of ['connection_reset_after', 'connection_reset', 'error_after', 'rate_limited'])
    test(`is made once, whoever asks again and whoever does not (${fault})`, async () => {
      await site.simulator.fault(fault, { count: 2 });
      const key = freshKey();
      const first = await user.book(key, TRIP, { prefer: 'wait=0' });
      assert.ok([500, 503].includes(first.status), first.text);
      const { ride } = first;
      await isPaid(ride);
      const answer = await user.book(key);
      assert.equal(answer.status, 201);
      assert.equal(answer.ride, ride);
      assert.equal(await site.rides.paid(ride), 1);
      const payments = new Set((await site.rides.charges(ride)).map(({ metadata }) => metadata.resource));
      assert.equal(payments.size, 1, 'under one key the API has made one payment');
    });

  test('is what comes of it when its object dies while it waits: the next incarnation asks for the same', async () => {
    const { ride, answer } = await heldUp();
    await site.rides.evict(ride);
    await site.simulator.calm();
    await answer;
    await isPaid(ride);
    assert.equal(await site.rides.paid(ride), 1);
    assert.ok((await site.rides.state(ride)).keys[0].attempt > 1, 'another run has ended it');
  });

  test('is an order of the name of the ride, and no token stands in its rows', async () => {
    const { ride } = await user.book(freshKey());
    const [{ order_id: order }] = (await site.objects.dump(await site.rides.payment(ride))).payments;
    assert.equal(order, ride);
    assert.doesNotMatch(JSON.stringify(await site.rides.rows(ride)), /demo-site|Bearer/);
  });
});

describe('the message to the pilot', () => {
  test('is sent once for a ride that is paid', async () => {
    const key = freshKey();
    const { ride } = await user.book(key);
    await user.book(key);
    const [message, ...more] = await site.rides.messages(ride);
    assert.deepEqual(more, []);
    assert.equal(message.to, '+15550100');
    assert.ok(message.body.includes(TRIP.origin_lat) && message.body.includes(ride), message.body);
  });

  for (const fault of ['connection_reset_after', 'connection_reset', 'error_after'])
    test(`whose outcome nobody knows (${fault}) is not sent again`, async () => {
      await site.simulator.fault(fault, MESSAGES);
      const { ride } = await user.book(freshKey());
      const sent = await site.rides.messages(ride);
      assert.equal(sent.length, fault === 'connection_reset' ? 0 : 1);
    });

  test('that the service says it has not sent is sent later, once', async () => {
    await site.simulator.fault('error_before', MESSAGES);
    const { ride } = await user.book(freshKey());
    assert.equal((await site.rides.messages(ride)).length, 1);
  });
});
