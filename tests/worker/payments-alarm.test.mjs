// What the object does on its own with payments: it finishes what nobody asks for any more.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import {
  AT_ONCE,
  PATIENT,
  PAYMENT,
  assertProblem,
  client,
  held,
  moved,
  operations,
  paid,
  send,
} from './support/payments.mjs';
import { IMPATIENT, assertOnce } from './support/unknown.mjs';
import { until } from './support/until.mjs';

describe('nobody asks again', async () => {
  const site = await startSite({ vars: { ...IMPATIENT, COMPLETER_MS: '300' } });
  const user = client(site);
  after(() => site.close());
  afterEach(() => site.simulator.calm());

  for (const operation of operations)
    test(`${operation.name} is completed by the alarm`, async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      await site.simulator.fault('connection_reset_after');
      const first = await send(user, request, key, AT_ONCE);
      assert.equal(first.status, 503, first.text);
      const open = async () =>
        (await site.objects.keys(first.payment)).filter(({ status }) => status === 'open').length;
      await until('no key is open', async () => (await open()) === 0);
      const late = await send(user, request, key);
      assert.equal(late.header('idempotent-replayed'), 'true');
      await assertOnce(site, operation, late);
    });

  for (const operation of operations)
    test(`${operation.name} that was interrupted between two phases is completed by the alarm`, async () => {
      for (const raise_error of ['true', 'crash']) {
        const [request, key] = [await operation.prepare(user), freshKey()];
        const interrupted = await send(user, { ...request, body: { ...request.body, raise_error } }, key);
        assertProblem(interrupted, 500, 'interrupted');
        const shown = async () => (await user.key(key)).json();
        await until('it is complete', async () => (await shown()).status === 'complete');
        // `raise_error` is no part of the request.
        const late = await send(user, { ...request, body: { ...request.body } }, key);
        assert.equal(late.header('idempotent-replayed'), 'true', late.text);
        await assertOnce(site, operation, late);
        assert.equal((await site.simulator.sends(operation.derivedKey(late))).length, 1);
      }
    });

  for (const operation of operations)
    test(`${operation.name} whose WebAssembly trapped during the call is completed by the alarm`, async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const { answer } = await held(site, () => send(user, request, key, PATIENT));
      const crashing = freshKey();
      await user.pay({ ...PAYMENT, raise_error: 'crash' }, crashing); // takes the run down
      assertProblem(await answer, 500, 'interrupted');
      await site.simulator.calm();
      const shown = async (of = key) => (await user.key(of)).json();
      await until('it is complete', async () => (await shown()).status === 'complete');
      // The alarm completes this one, too: its call must not meet what the next test arms.
      await until('so is what crashed', async () => (await shown(crashing)).status === 'complete');
      const late = await send(user, request, key);
      assert.equal(late.header('idempotent-replayed'), 'true', late.text);
      await assertOnce(site, operation, late);
      assert.ok((await shown()).attempts > 1, 'another run took over');
    });

  for (const operation of operations)
    test(`${operation.name} whose object was thrown out of memory after the call is completed by the alarm`, async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      await site.simulator.fault('connection_reset_after');
      const first = await send(user, request, key, AT_ONCE);
      await site.objects.evict(first.payment);
      await until('no key is open', async () =>
        (await site.objects.keys(first.payment)).every(({ status }) => status !== 'open'),
      );
      await site.objects.evict(first.payment);
      const late = await send(user, request, key);
      assert.equal(late.header('idempotent-replayed'), 'true');
      await assertOnce(site, operation, late);
    });
});

describe('control: without derived keys at the provider', async () => {
  const site = await startSite({ vars: { ...IMPATIENT, COMPLETER_MS: '60000', UNPROTECTED: 'true' } });
  const user = client(site);
  after(() => site.close());

  test('a lost response is a second charge', async () => {
    await site.simulator.fault('response_lost');
    const answer = await user.pay(PAYMENT, freshKey());
    assert.equal(answer.status, 201, answer.text);
    assert.equal((await site.simulator.moved(answer.payment)).charges, 2);
  });

  test('a lost response is a second refund', async () => {
    const { id } = await paid(user);
    await site.simulator.fault('response_lost');
    await moved(user, id, 'refunds', { amount: 1000 });
    assert.equal((await site.simulator.moved(id)).refunded, 2000);
  });
});
