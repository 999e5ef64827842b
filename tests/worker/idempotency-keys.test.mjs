// What makes two requests the same, whose key it is, and GET /idempotency-keys/{key}.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, account, freshKey, read } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { jobsOf } from './support/jobs.mjs';
import { PAYMENT, held } from './support/payments.mjs';

const site = await shareSite();
const user = account(site);
const other = account(site, DECLINED_USER);
after(() => site.close());
afterEach(() => site.simulator.calm());

function assertReplayOf(first, again) {
  assert.equal(again.status, first.status, again.text);
  assert.deepEqual(again.bytes, first.bytes);
  assert.equal(again.header('idempotent-replayed'), 'true');
}

describe('the same request', () => {
  const BODY = { ...PAYMENT, description: 'A mug', metadata: { size: 'large' } };
  const [a, b, c, d] = Object.entries(BODY).map(
    ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
  );
  const written = {
    'in another member order': `{${d},${b},${c},${a}}`,
    'with other white space': `\n { ${[a, b, c, d].join(' ,\t')} }\r\n`,
    'with escaped member names': `{${[a, b, c, d].join(',').replaceAll('m', '\\u006d')}}`,
    'with other digits of the same number': JSON.stringify(BODY).replace('2500', '25.00e2'),
  };
  for (const [how, body] of Object.entries(written)) {
    test(`${how} is replayed`, async () => {
      const key = freshKey();
      const first = await user.pay(JSON.stringify(BODY), key);
      assert.equal(first.status, 201);
      assertReplayOf(first, await user.pay(body, key));
    });
  }

  test('as a form with its pairs in another order is replayed', async () => {
    const key = freshKey();
    const pairs = Object.entries(PAYMENT);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const pay = (sent) => user.pay(new URLSearchParams(sent).toString(), key, headers);
    const first = await pay(pairs);
    assert.equal(first.status, 201, first.text);
    assertReplayOf(first, await pay(pairs.reverse()));
  });
});

test('another request under a used key changes nothing, and is shown the way to what the first one made', async () => {
  const key = freshKey();
  const first = await user.pay(PAYMENT, key);
  await jobsOf(site, first.payment);
  const rows = await site.objects.dump(first.payment);
  const answer = await user.pay({ ...PAYMENT, amount: 2501 }, key);
  assert.equal(answer.status, 422, answer.text);
  assert.deepEqual(answer.json().fields, ['amount']);
  assert.equal(answer.header('location'), `/payments/${first.payment}`);
  assert.deepEqual(await site.objects.dump(first.payment), rows);
  assert.equal((await site.simulator.payments(first.payment)).length, 1);
  assertReplayOf(first, await user.pay(PAYMENT, key));
});

describe('GET /idempotency-keys/{key}', () => {
  test('of a finished key shows all that is known of it', async () => {
    const key = freshKey();
    const made = await user.pay(PAYMENT, key);
    const answer = await user.key(key);
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'application/json');
    assert.equal(answer.header('cache-control'), 'private, no-store');
    const {
      timeline,
      created_at: createdAt,
      expires_at: expiresAt,
      request_hash: hash,
      ...rest
    } = answer.json();
    assert.deepEqual(rest, {
      object: 'idempotency_key',
      status: 'complete',
      recovery_point: 'finished',
      attempts: 1,
      response_code: 201,
      resource: `/payments/${made.payment}`,
    });
    assert.match(hash, /^v1:[\da-f]{64}$/);
    const finishedAt = timeline.at(-1).at;
    assert.equal(createdAt, timeline[0].at);
    assert.equal(Date.parse(expiresAt) - Date.parse(finishedAt), 24 * 3_600_000);
  });

  test('tells the story of the request, phase by phase, with times', async () => {
    const key = freshKey();
    await user.pay(PAYMENT, key);
    const { timeline } = (await user.key(key)).json();
    assert.deepEqual(
      timeline.map(({ event, attempt }) => `${event} ${attempt}`),
      ['key_created 1', 'recovery_point 1', 'call_frozen 1', 'call_sent 1', 'call_outcome 1', 'finished 1'],
    );
    const times = timeline.map(({ at }) => at);
    assert.deepEqual(times, [...times].sort());
    for (const at of times) assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000);
  });

  test('of a key whose request runs is processing', async () => {
    const key = freshKey();
    const { answer } = await held(site, () => user.pay(PAYMENT, key));
    const {
      status,
      recovery_point: point,
      response_code: code,
      expires_at: expiresAt,
    } = (await user.key(key)).json();
    assert.deepEqual([status, point, code, expiresAt], ['processing', 'reserved', null, null]);
    await site.simulator.calm();
    await answer;
    assert.equal((await user.key(key)).json().status, 'complete');
  });

  test('of an interrupted key is processing, with the attempts it took', async () => {
    const key = freshKey();
    await user.pay({ ...PAYMENT, raise_error: 'true' }, key);
    const interrupted = (await user.key(key)).json();
    assert.equal(interrupted.status, 'processing');
    assert.equal(interrupted.attempts, 1);
    await user.pay(PAYMENT, key);
    const finished = (await user.key(key)).json();
    assert.deepEqual([finished.status, finished.attempts], ['complete', 2]);
    assert.equal(finished.request_hash, interrupted.request_hash);
  });

  test('of a declined payment says 402', async () => {
    const key = freshKey();
    await other.pay(PAYMENT, key);
    const { status, response_code: code } = (await other.key(key)).json();
    assert.deepEqual([status, code], ['complete', 402]);
  });

  test('needs credentials', async () => {
    const answer = await read(await site.fetch(`/idempotency-keys/${freshKey()}`));
    assert.equal(answer.status, 401);
    assert.match(answer.header('www-authenticate'), /^Bearer realm="paid-once"/);
  });

  test('takes a key with reserved characters, percent-encoded, and in quotes', async () => {
    const key = `a/b?c#d%20"e&${freshKey()}`;
    const made = await user.pay(PAYMENT, key);
    assert.equal(made.status, 201);
    assert.equal((await user.key(key)).json().resource, `/payments/${made.payment}`);
    assert.equal((await user.key(`"${key.replaceAll('"', '\\"')}"`)).status, 200);
  });

  test('of what cannot be a key is a 400', async () => {
    for (const key of ['two words', 'k'.repeat(256), 'clé'])
      assert.equal((await user.key(key)).json().type, '/problems/idempotency-key-invalid');
    assert.equal((await user.ask('/idempotency-keys/%FF')).status, 404);
  });

  test('answers HEAD as GET, without a body', async () => {
    const key = freshKey();
    await user.pay(PAYMENT, key);
    const answer = await user.ask(`/idempotency-keys/${key}`, { method: 'HEAD' });
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'application/json');
    assert.equal(answer.bytes.length, 0);
  });
});
