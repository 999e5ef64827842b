// What releases before took and this one refuses: what was begun by such a request is told of under its key. Who was told that nothing was run
// would send it again under another one.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { withoutEffect } from './support/effects.mjs';
import { shareSite } from './support/harness.mjs';
import { AT_ONCE, AUTHORISATION, PAYMENT, assertProblem, client, insist, paid } from './support/payments.mjs';
import { IMPATIENT, down } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const site = await shareSite({ vars: IMPATIENT });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

/** JSON, or a form that is written as text. */
const send = (path, body, key, more = {}) => {
  const isForm = typeof body === 'string';
  const headers = isForm ? { 'content-type': 'application/x-www-form-urlencoded' } : {};
  return user.post(path, body, key, { ...headers, ...more });
};

/** As docs/protocol.md publishes it, of parameters whose names are in order. */
function fingerprint(path, parameters) {
  const hash = createHash('sha256');
  for (const part of ['v1', 'POST', path, parameters]) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(part.length));
    hash.update(length).update(part);
  }
  return `v1:${hash.digest('hex')}`;
}

/** The newest key of a payment is as if this had been sent under it, to a release that took it. */
async function begunBy(payment, path, body) {
  const parameters = JSON.stringify(typeof body === 'string' ? [...new URLSearchParams(body)] : body);
  const newest = 'WHERE key_id = (SELECT max(key_id) FROM idempotency_keys)';
  const change = `UPDATE idempotency_keys SET fingerprint = ?, parameters = ? ${newest}`;
  await site.objects.sql(payment, change, fingerprint(path, parameters), parameters);
}

/** What is refused, what a release before took it for, and what it was begun on. */
const taken = {
  'a refund with an amount of null': ['refunds', { amount: null }, {}],
  'a refund with a reason of null': ['refunds', { amount: 700, reason: null }, { amount: 700 }],
  'a refund whose form has an empty reason': ['refunds', 'amount=700&reason=', { amount: 700 }],
  'a refund with null under a misspelt name': ['refunds', { amount_minor: null }, {}],
  'a payment with a fallback of null': [undefined, { ...PAYMENT, fallback: null }, PAYMENT],
  'a capture with an amount of null': ['capture', { amount: null }, {}, AUTHORISATION],
  'a payment with metadata of true': [
    undefined,
    { ...PAYMENT, metadata: { gift: true } },
    { ...PAYMENT, metadata: { gift: 'true' } },
  ],
};

const begun = async (move, of = PAYMENT) =>
  move ? `/payments/${(await paid(user, of)).id}/${move}` : '/payments';

for (const [what, [move, refused, meant, of]] of Object.entries(taken))
  describe(what, () => {
    test('is answered under its key, and refused under any other', async () => {
      const [path, key] = [await begun(move, of), freshKey()];
      const first = await send(path, meant, key);
      assert.ok(first.status < 202, first.text);
      await begunBy(first.payment, path, refused);
      const again = await withoutEffect(site, () => send(path, refused, key));
      assert.deepEqual([again.status, again.text], [first.status, first.text]);
      assert.equal(again.header('idempotent-replayed'), 'true');
      for (const [body, under] of [
        [refused, freshKey()],
        [typeof refused === 'string' ? `${refused}x` : { ...refused, amount: 0 }, key],
      ])
        assertProblem(await withoutEffect(site, () => send(path, body, under)), 422, 'invalid-parameters');
    });

    test('is unknown under its key as long as it is, and then what it has become', async () => {
      const [path, key] = [await begun(move, of), freshKey()];
      await down(site, 'response_lost');
      const { payment, status } = await send(path, meant, key, AT_ONCE);
      assert.equal(status, 503);
      await begunBy(payment, path, refused);
      const asked = await until('no try of the alarm is on its way', async () => {
        const answer = await send(path, refused, key, AT_ONCE);
        return answer.status !== 409 && answer;
      });
      assertProblem(asked, 503, 'outcome-unknown');
      await site.simulator.calm();
      const answer = await insist(() => send(path, refused, key));
      assert.ok(answer.status < 202, answer.text);
      const { captured, refunded } = await site.simulator.moved(payment);
      assert.deepEqual([captured, refunded], [2500, move === 'refunds' ? (meant.amount ?? 2500) : 0]);
    });
  });

test('without a key the first one is told of, too', async () => {
  for (const [move, refused, of] of [
    ['refunds', { reason: null }],
    ['capture', { amount: null }, AUTHORISATION],
  ]) {
    const path = await begun(move, of);
    assertProblem(await withoutEffect(site, () => send(path, refused)), 422, 'invalid-parameters');
    const first = await send(path, {});
    const again = await send(path, refused);
    assert.deepEqual([again.status, again.text], [first.status, first.text]);
  }
});

test('a parameter in the address was ignored: so it is where the key is known', async () => {
  for (const [move, of] of [[undefined], ['capture', AUTHORISATION], ['void', AUTHORISATION], ['refunds']]) {
    const [path, key, body] = [await begun(move, of), freshKey(), move ? undefined : PAYMENT];
    const inAddress = `${path}?amount=500`;
    for (const under of move ? [freshKey(), undefined] : [freshKey()]) {
      const problem = await withoutEffect(site, () => send(inAddress, body, under));
      assert.deepEqual(
        assertProblem(problem, 422, 'invalid-parameters').errors.map(({ field }) => field),
        ['amount'],
      );
    }
    const first = await send(path, body, key);
    const again = await withoutEffect(site, () => send(inAddress, body, key));
    assert.deepEqual([again.status, again.text], [first.status, first.text]);
  }
});
