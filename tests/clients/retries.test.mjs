// Clients that try again by themselves, and a network that fails in between: each gets its success, and the bank has charged
// once. Without a key the same faults charge twice: that is what the key is for, and that this test can fail.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';

import { USER, account, freshKey } from '../worker/support/account.mjs';
import { startSite } from '../worker/support/harness.mjs';
import { HANGS_AFTER_MS, until } from '../worker/support/until.mjs';
import { clients } from './support/clients.mjs';
import { FAULTS, faultProxy } from './support/fault-proxy.mjs';

const site = await startSite({ vars: { KEY_POLICY: 'optional' } });
const proxy = await faultProxy(site.url);
const PAYMENT = JSON.stringify({ amount: 2500, currency: 'usd', description: 'Test payment' });

// The first request of all is slow, and no client shall take it for a fault.
before(() => account(site).pay(JSON.parse(PAYMENT), freshKey()));
after(async () => {
  proxy.close();
  await site.close();
});
// The bank's ledger is empty, so that its totals are those of one test.
beforeEach(() => site.simulator.reset());
afterEach(() => assert.equal(proxy.left(), 0, 'each fault came to pass'));

for (const [name, open] of Object.entries(clients))
  describe(name, () => {
    let client;
    // A first time set-up fetches the Python packages.
    before(async () => (client = await open()), { timeout: HANGS_AFTER_MS });
    after(() => client?.close());

    /** The answer that the client has in the end, and what the bank knows of it. */
    async function pay(key, ...faults) {
      proxy.plan(...faults);
      const headers = {
        authorization: `Bearer ${USER}`,
        'content-type': 'application/json',
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      };
      const { status, text } = await client.post(`${proxy.origin}/payments`, headers, PAYMENT);
      const { charges, totals } = await site.simulator.ledger();
      return { status, payment: JSON.parse(text), charges, count: totals.succeeded_charges };
    }

    async function assertPaidOnce(...faults) {
      const { status, payment, charges, count } = await pay(freshKey(), ...faults);
      assert.deepEqual([status, payment.status, payment.amount], [201, 'succeeded', 2500]);
      assert.equal(count, 1);
      assert.equal(charges[0].metadata.resource, payment.id);
    }

    for (const [fault, { reached }] of Object.entries(FAULTS))
      test(`${fault}: one charge`, async () => {
        await assertPaidOnce(fault);
        // A client that the site keeps waiting asks more often than the fault makes it.
        const answers = proxy.answers.map(({ headers }) => headers['idempotent-replayed']);
        assert.equal(answers.filter((replayed) => replayed !== 'true').length, 1, answers.join());
        if (reached) assert.ok(answers.includes('true'));
      });

    test('all of them, one after the other: one charge', async () => {
      await assertPaidOnce(...Object.keys(FAULTS));
      assert.equal(new Set(proxy.answers.map(({ bytes }) => `${bytes}`)).size, 1, 'the same bytes each time');
    });

    test('the connection breaks while the bank is at work: the retry joins, one charge', async () => {
      await site.simulator.fault('slow_response', { delay_ms: 400 });
      // From then on this is so, however late it is looked for: a request may be over before anybody has seen it.
      const atWork = async () => (await site.simulator.faults()).length === 0;
      let first;
      await assertPaidOnce(async ({ client, ask }) => {
        first = ask();
        await until('the bank has the request', atWork);
        client.socket.resetAndDestroy();
      });
      await first;
      assert.ok(proxy.answers.length >= 2);
      assert.equal(new Set(proxy.answers.map(({ bytes }) => `${bytes}`)).size, 1, 'the same bytes each time');
    });

    for (const fault of Object.keys(FAULTS).filter((fault) => FAULTS[fault].reached))
      test(`control: without a key, ${fault} charges twice`, async () => {
        const { status, count } = await pay(undefined, fault);
        assert.equal(status, 201);
        assert.ok(count >= 2, `${count} charges`);
      });
  });
