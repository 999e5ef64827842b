// A key outlives its response: forgotten by its owner or expired, it is never run anew.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, freshKey } from './support/account.mjs';
import { withoutEffect } from './support/effects.mjs';
import { startSite } from './support/harness.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  PATIENT,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  held,
  operations,
  paid,
  send,
} from './support/payments.mjs';
import { until } from './support/until.mjs';

/** A late retry: refused with the way to what was made. Nothing moves, whatever it asks for. */
async function assertRefused(site, user, operation, request, key, first) {
  const resource = `/payments/${first.payment}`;
  for (const headers of [AT_ONCE, PATIENT]) {
    const late = await withoutEffect(site, () => send(user, request, key, headers));
    assertProblem(late, 409, 'idempotency-key-expired', { resource });
    assert.equal(late.header('location'), resource);
    assert.equal(late.header('retry-after'), null, 'it is of no use to come again');
    assert.equal(late.header('idempotent-replayed'), null);
  }
  assert.deepEqual(await site.simulator.moved(first.payment), operation.moved);
}

/** What `GET /idempotency-keys/{key}` says of a key whose response is gone. */
async function assertShownAsExpired(user, key, first) {
  const shown = (await user.key(key)).json();
  assert.deepEqual(
    [shown.status, shown.recovery_point, shown.resource],
    ['expired', 'finished', `/payments/${first.payment}`],
  );
}

describe('DELETE /idempotency-keys/{key}', async () => {
  const site = await startSite();
  const user = client(site);
  after(() => site.close());
  afterEach(() => site.simulator.calm());

  for (const operation of operations) {
    test(`of ${operation.name} that is finished forgets the response, not the key`, async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const first = await send(user, request, key);
      assert.equal(first.status, operation.status, first.text);
      for (let times = 0; times < 2; times += 1) {
        const forgotten = await user.forget(key);
        assert.deepEqual([forgotten.status, forgotten.text], [204, '']);
      }
      await assertShownAsExpired(user, key, first);
      await assertRefused(site, user, operation, request, key, first);
      const edited = await operation.edit(user, request);
      assertProblem(await send(user, edited, key), 422, 'idempotency-key-reused');
    });

    test(`of ${operation.name} that is not finished is refused, and changes nothing`, async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const { answer } = await held(site, () => send(user, request, key, PATIENT));
      const refused = await user.forget(key);
      assertProblem(refused, 409, 'request-in-progress');
      assert.match(refused.header('retry-after'), /^[1-9]\d*$/);
      await site.simulator.calm();
      const first = await answer;
      assert.equal(first.status, operation.status, first.text);
      assert.deepEqual((await send(user, request, key)).bytes, first.bytes);
    });
  }

  test('of an unused key, and of somebody else, is the same 404', async () => {
    const key = freshKey();
    const first = await user.pay(PAYMENT, key);
    const stranger = client(site, DECLINED_USER);
    const [theirs, nobodys] = [await stranger.forget(key), await user.forget(freshKey())];
    for (const answer of [theirs, nobodys]) assertProblem(answer, 404, 'not-found');
    assert.deepEqual((await user.pay(PAYMENT, key)).bytes, first.bytes);
  });
});

describe('a response that is older than the retention', async () => {
  const site = await startSite({ vars: { RETENTION_MS: '300', COMPLETER_MS: '60000' } });
  const user = client(site);
  after(() => site.close());

  const expired = (key) =>
    until('the key is expired', async () => (await user.key(key)).json().status === 'expired');

  for (const operation of operations)
    test(`of ${operation.name} is gone, and its key is refused`, async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const first = await send(user, request, key);
      assert.equal(first.status, operation.status, first.text);
      await expired(key);
      await assertShownAsExpired(user, key, first);
      await assertRefused(site, user, operation, request, key, first);
    });

  test('is gone under a natural key too', async () => {
    const order = { path: '/payments', body: { ...PAYMENT, order_id: freshOrder() } };
    const move = async (payment, name) => ({ path: `/payments/${(await paid(user, payment)).id}/${name}` });
    const requests = [
      order,
      await move(AUTHORISATION, 'capture'),
      await move(AUTHORISATION, 'void'),
      await move(PAYMENT, 'refunds'),
    ];
    for (const request of requests) {
      const first = await send(user, request);
      assert.ok([200, 201].includes(first.status), first.text);
      const late = await until('it is expired', async () => {
        const answer = await send(user, request);
        return answer.header('idempotent-replayed') === null && answer;
      });
      assertProblem(late, 409, 'idempotency-key-expired', { resource: `/payments/${first.payment}` });
    }
  });

  test('leaves the payment to be seen', async () => {
    const key = freshKey();
    const { payment } = await user.pay(PAYMENT, key);
    await expired(key);
    assert.equal((await user.payment(payment)).json().status, 'succeeded');
  });
});
