// The key's rules, for each operation: it runs once, and whoever asks again is told what came of it.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, freshKey } from './support/account.mjs';
import { withoutEffect } from './support/effects.mjs';
import { shareSite } from './support/harness.mjs';
import {
  AT_ONCE,
  PATIENT,
  PAYMENT,
  assertProblem,
  client,
  held,
  operations,
  paid,
  send,
} from './support/payments.mjs';

const site = await shareSite();
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const REPLAYED = 'idempotent-replayed';
const ORIGINAL = 'original-request';

/** The provider was asked once, under the documented key, and what it moved is what was asked for. */
async function assertOnce(operation, answer) {
  assert.equal((await site.simulator.sends(operation.derivedKey(answer))).length, 1);
  assert.deepEqual(await site.simulator.moved(answer.payment), operation.moved);
}

for (const operation of operations) {
  describe(operation.name, () => {
    test('runs under a new key, and asks the provider once, under the derived key', async () => {
      const answer = await send(user, await operation.prepare(user), freshKey());
      assert.equal(answer.status, operation.status, answer.text);
      assert.equal(answer.header(REPLAYED), null);
      assert.match(answer.header('request-id'), /^req_/);
      assert.equal(answer.header(ORIGINAL), answer.header('request-id'));
      assert.match(answer.header('location'), /^\/payments\/pay_[\w-]{43}(\/refunds\/re_[\w-]+)?$/);
      await assertOnce(operation, answer);
    });

    test('is answered again byte for byte, and moves nothing more', async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const first = await send(user, request, key);
      for (const again of [key, `"${key}"`]) {
        const replay = await send(user, request, again);
        assert.equal(replay.status, first.status);
        assert.deepEqual(replay.bytes, first.bytes);
        for (const name of ['content-type', 'location', ORIGINAL])
          assert.equal(replay.header(name), first.header(name), name);
        assert.equal(replay.header(REPLAYED), 'true');
        assert.notEqual(replay.header('request-id'), first.header('request-id'));
      }
      await assertOnce(operation, first);
    });

    test('sent twenty times at once has one result', async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const twenty = Array.from({ length: 20 }, () => send(user, request, key, PATIENT));
      const answers = await Promise.all(twenty);
      for (const answer of answers) {
        assert.equal(answer.status, operation.status, answer.text);
        assert.deepEqual(answer.bytes, answers[0].bytes);
      }
      const runs = answers.filter((answer) => answer.header(REPLAYED) === null);
      assert.equal(runs.length, 1, 'exactly one of them ran');
      const originals = new Set(answers.map((answer) => answer.header(ORIGINAL)));
      assert.deepEqual([...originals], [runs[0].header('request-id')]);
      await assertOnce(operation, answers[0]);
    });

    test('that is under way refuses a duplicate that does not wait; another request hears 422 first', async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const edited = await operation.edit(user, request);
      const { answer } = await held(site, () => send(user, request, key, PATIENT));

      const duplicate = await send(user, request, key, AT_ONCE);
      assertProblem(duplicate, 409, 'request-in-progress');
      assert.equal(duplicate.header('retry-after'), '1');
      assert.match(duplicate.header('location'), /^\/payments\/pay_/);
      assert.equal(duplicate.header(REPLAYED), null);
      const mismatch = await send(user, edited, key, AT_ONCE);
      assertProblem(mismatch, 422, 'idempotency-key-reused', { fields: operation.fields });

      const waiting = send(user, request, key, PATIENT);
      await send(user, request, key, AT_ONCE);
      await site.simulator.calm();
      const [first, second] = await Promise.all([answer, waiting]);
      assert.equal(first.status, operation.status, first.text);
      assert.deepEqual(second.bytes, first.bytes);
      assert.equal(second.header(REPLAYED), 'true');
      await assertOnce(operation, first);
    });

    test('refuses another request under its key, naming the fields, never their values', async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const first = await send(user, request, key);
      const edited = await operation.edit(user, request);
      const mismatch = await withoutEffect(site, () => send(user, edited, key));
      assertProblem(mismatch, 422, 'idempotency-key-reused', { fields: operation.fields });
      // An id is of digits and letters by chance.
      const { request_id: _, resource: __, ...said } = mismatch.json();
      for (const value of ['2501', '1600', 'eur', 'fraudulent'])
        assert.ok(!JSON.stringify(said).includes(value), mismatch.text);
      assert.equal(mismatch.header(REPLAYED), null);
      assert.deepEqual((await send(user, request, key)).bytes, first.bytes, 'the key is as it was');
      await assertOnce(operation, first);
    });

    test('refuses its key at every other address, wherever that would run', async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const first = await send(user, request, key);
      const elsewhere = await Promise.all(operations.map((other) => other.prepare(user)));
      elsewhere.push({ path: '/payments', body: { ...PAYMENT, order_id: 'of-another-object' } });
      for (const other of elsewhere.filter(({ path }) => path !== request.path)) {
        const refused = await withoutEffect(site, () => send(user, other, key));
        assertProblem(refused, 422, 'idempotency-key-reused');
        if (refused.payment) assert.equal((await user.payment(refused.payment)).status, 200, refused.text);
      }
      await assertOnce(operation, first);
    });

    test('is not run under what is no key', async () => {
      const request = await operation.prepare(user);
      for (const key of ['x'.repeat(256), '"unfinished', 'two words', '""'])
        assertProblem(
          await withoutEffect(site, () => send(user, request, key)),
          400,
          'idempotency-key-invalid',
        );
      const two = { ...request, body: { ...request.body, idempotency_key: 'one' } };
      assertProblem(
        await withoutEffect(site, () => send(user, two, 'another')),
        400,
        'idempotency-key-invalid',
      );
    });

    test('shows its key where it stands', async () => {
      const [request, key] = [await operation.prepare(user), freshKey()];
      const first = await send(user, request, key);
      const shown = (await user.key(key)).json();
      assert.equal(shown.status, 'complete');
      assert.equal(shown.recovery_point, 'finished');
      assert.equal(shown.response_code, first.status);
      assert.equal(shown.resource, `/payments/${first.payment}`);
      assert.equal(shown.attempts, 1);
      assert.match(shown.request_hash, /^v1:[0-9a-f]{64}$/);
      assert.ok(Date.parse(shown.expires_at) > Date.parse(shown.created_at));
      const sent = shown.timeline.filter(({ event }) => event === 'call_sent' || event === 'sent');
      assert.ok(shown.timeline.length >= 4, JSON.stringify(sent));
    });
  });
}

describe('a key that is missing', () => {
  test('is asked for where the request itself makes none', async () => {
    const answer = await withoutEffect(site, () => user.pay(PAYMENT));
    assertProblem(answer, 400, 'idempotency-key-missing');
  });

  test('may stand in the body', async () => {
    const key = freshKey();
    const first = await user.pay({ ...PAYMENT, idempotency_key: key });
    assert.equal(first.status, 201, first.text);
    const again = await user.pay(PAYMENT, key);
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(again.header(REPLAYED), 'true');
  });
});

describe('the same key', () => {
  test('of two accounts is two keys', async () => {
    const [key, other] = [freshKey(), client(site, DECLINED_USER)];
    const mine = await user.pay(PAYMENT, key);
    const theirs = await other.pay({ ...PAYMENT, payment_method: 'pm_card_visa' }, key);
    assert.deepEqual([mine.status, theirs.status], [201, 201]);
    assert.notEqual(mine.payment, theirs.payment);
    assert.equal(theirs.header(REPLAYED), null);
  });

  test('names the same request however its JSON is written', async () => {
    const key = freshKey();
    const first = await user.pay('{"amount":2500,"currency":"usd","metadata":{"a":"1","b":"2"}}', key);
    const again = await user.pay(
      '{ "metadata": {"b":"2", "a":"1"}, "currency": "usd",\n "amount": 2.5e3 }',
      key,
    );
    assert.equal(first.status, 201, first.text);
    assert.deepEqual(again.bytes, first.bytes);
  });
});

describe('a refund at its alias', () => {
  const [FIRST, ALIAS] = ['refunds', 'refund'];
  const assertRefunded = async (id, refunded) =>
    assert.equal((await site.simulator.moved(id)).refunded, refunded);

  for (const [first, second] of [
    [FIRST, ALIAS],
    [ALIAS, FIRST],
  ])
    test(`(${first}, then ${second}) is the same request: with a key, and without one`, async () => {
      const { id } = await paid(user);
      for (const key of [freshKey(), undefined]) {
        const made = await user.post(`/payments/${id}/${first}`, { amount: 700 }, key);
        assert.equal(made.status, 201, made.text);
        const again = await user.post(`/payments/${id}/${second}`, { amount: 700 }, key);
        assert.deepEqual([again.status, again.header(REPLAYED)], [201, 'true']);
        assert.deepEqual(again.bytes, made.bytes);
      }
      await assertRefunded(id, 1400);
      const listed = (await user.refunds(id)).json().data;
      assert.equal(listed.length, 2);
    });

  test('sent to both at once is one refund', async () => {
    const { id } = await paid(user);
    const key = freshKey();
    const ten = Array.from({ length: 10 }, (_, n) =>
      user.post(`/payments/${id}/${[FIRST, ALIAS][n % 2]}`, { amount: 300 }, key, PATIENT),
    );
    const answers = await Promise.all(ten);
    for (const answer of answers) {
      assert.equal(answer.status, 201, answer.text);
      assert.deepEqual(answer.bytes, answers[0].bytes);
    }
    await assertRefunded(id, 300);
  });

  test('of another amount, or of another payment, is refused under its key at both', async () => {
    const [{ id }, other] = [await paid(user), await paid(user)];
    const key = freshKey();
    assert.equal((await user.post(`/payments/${id}/${ALIAS}`, { amount: 700 }, key)).status, 201);
    for (const address of [FIRST, ALIAS]) {
      const members = { fields: ['amount'] };
      const edited = await user.post(`/payments/${id}/${address}`, { amount: 701 }, key);
      assertProblem(edited, 422, 'idempotency-key-reused', members);
      const elsewhere = await user.post(`/payments/${other.id}/${address}`, { amount: 700 }, key);
      assertProblem(elsewhere, 422, 'idempotency-key-reused');
    }
    await assertRefunded(id, 700);
    await assertRefunded(other.id, 0);
  });
});
