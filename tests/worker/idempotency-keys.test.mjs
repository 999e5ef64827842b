// What makes two requests the same, whose key it is, and GET /idempotency-keys/{key}.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, TRIP, account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { shareSite } from './support/harness.mjs';
import { until } from './support/until.mjs';

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

function assertMismatch(answer, fields) {
  assert.equal(answer.status, 422, answer.text);
  assert.equal(answer.json().type, '/problems/idempotency-key-reused');
  assert.deepEqual(answer.json().fields, fields);
}

describe('the same request', () => {
  const [a, b, c, d] = Object.entries(TRIP).map(([name, value]) => `${JSON.stringify(name)}:${value}`);
  const written = {
    'in another member order': `{${d},${b},${c},${a}}`,
    'with other white space': `\n { ${[a, b, c, d].join(' ,\t')} }\r\n`,
    'with escaped member names': `{${[a, b, c, d].join(',').replaceAll('_', '\\u005f')}}`,
    'with other digits of the same number': JSON.stringify(TRIP)
      .replace('37.7749', '37.77490')
      .replace('-80.648', '-8064.8e-2'),
  };
  for (const [how, body] of Object.entries(written)) {
    test(`${how} is replayed`, async () => {
      const key = freshKey();
      const first = await user.book(key, JSON.stringify(TRIP));
      assert.equal(first.status, 201);
      assertReplayOf(first, await user.book(key, body));
    });
  }

  test('as a form with its pairs in another order is replayed', async () => {
    const key = freshKey();
    const first = await user.bookByForm(key);
    assert.equal(first.status, 201);
    assertReplayOf(first, await user.bookByForm(key, Object.entries(TRIP).reverse()));
  });
});

describe('another request under a used key', () => {
  test('is refused with the names of the fields that differ, never with their values', async () => {
    const key = freshKey();
    const first = await user.book(key, { ...TRIP, origin_lat: 11.1111111 });
    const answer = await user.book(key, { ...TRIP, origin_lat: 22.2222222, target_lon: -33.3333333 });
    assertMismatch(answer, ['origin_lat', 'target_lon']);
    assert.doesNotMatch(answer.text, /11\.1111|22\.2222|33\.3333/);
    assert.equal(answer.header('content-type'), 'application/problem+json');
    assert.equal(answer.header('location'), `/rides/${first.ride}`);
  });

  test('has no effect: nothing is charged, and the first result stays', async () => {
    const key = freshKey();
    const first = await user.book(key);
    const rows = await site.objects.dump(first.ride);
    assertMismatch(await user.book(key, { ...TRIP, origin_lat: 1 }), ['origin_lat']);
    assert.deepEqual(await site.objects.dump(first.ride), rows);
    assert.equal((await site.simulator.payments(first.ride)).length, 1);
    assertReplayOf(first, await user.book(key));
  });

  test('is refused before anything is finished too, and wins over the conflict', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const running = user.book(key);
    await until('the payment is on its way', async () => (await site.simulator.faults()).length === 0);
    const headers = { prefer: 'wait=0' };
    assert.equal((await user.book(key, TRIP, headers)).status, 409);
    assertMismatch(await user.book(key, { ...TRIP, origin_lat: 1 }, headers), ['origin_lat']);
    await site.simulator.calm();
    assert.equal((await running).status, 201);
  });
});

describe('the same key of another account', () => {
  test('is another key: both book and pay for themselves', async () => {
    const key = freshKey();
    const [mine, theirs] = [await user.book(key), await other.book(key)];
    assert.deepEqual([mine.status, theirs.status], [201, 402]);
    assert.notEqual(mine.ride, theirs.ride);
    assert.equal(theirs.header('idempotent-replayed'), null);
    assertReplayOf(mine, await user.book(key));
  });

  test('meets no mismatch, even with other parameters', async () => {
    const key = freshKey();
    assert.equal((await user.book(key)).status, 201);
    assert.equal((await other.book(key, { ...TRIP, origin_lat: 1 })).status, 402);
  });
});

describe('GET /idempotency-keys/{key}', () => {
  test('of a finished key shows all that is known of it', async () => {
    const key = freshKey();
    const booked = await user.book(key);
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
      resource: `/rides/${booked.ride}`,
    });
    assert.match(hash, /^v1:[\da-f]{64}$/);
    const finishedAt = timeline.at(-1).at;
    assert.equal(createdAt, timeline[0].at);
    assert.equal(Date.parse(expiresAt) - Date.parse(finishedAt), 24 * 3_600_000);
  });

  test('tells the story of the request, phase by phase, with times', async () => {
    const key = freshKey();
    await user.book(key);
    const { timeline } = (await user.key(key)).json();
    assert.deepEqual(
      timeline.map(({ event, attempt }) => `${event} ${attempt}`),
      [
        'key_created 1',
        'recovery_point 1',
        'call_frozen 1',
        'call_sent 1',
        'call_outcome 1',
        'recovery_point 1',
        'finished 1',
      ],
    );
    const times = timeline.map(({ at }) => at);
    assert.deepEqual(times, [...times].sort());
    for (const at of times) assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000);
  });

  test('of a key whose request runs is processing', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const running = user.book(key);
    await until('the payment is on its way', async () => (await site.simulator.faults()).length === 0);
    const {
      status,
      recovery_point: point,
      response_code: code,
      expires_at: expiresAt,
    } = (await user.key(key)).json();
    assert.deepEqual([status, point, code, expiresAt], ['processing', 'ride_created', null, null]);
    await site.simulator.calm();
    await running;
    assert.equal((await user.key(key)).json().status, 'complete');
  });

  test('of an interrupted key is processing, with the attempts it took', async () => {
    const key = freshKey();
    await user.book(key, { ...TRIP, raise_error: 'true' });
    const interrupted = (await user.key(key)).json();
    assert.equal(interrupted.status, 'processing');
    assert.equal(interrupted.attempts, 1);
    await user.book(key);
    const finished = (await user.key(key)).json();
    assert.deepEqual([finished.status, finished.attempts], ['complete', 2]);
    assert.equal(finished.request_hash, interrupted.request_hash);
  });

  test('of a declined payment says 402', async () => {
    const key = freshKey();
    await other.book(key);
    const { status, response_code: code } = (await other.key(key)).json();
    assert.deepEqual([status, code], ['complete', 402]);
  });

  test('of an unused key, and of somebody else, is the same 404', async () => {
    const key = freshKey();
    await user.book(key);
    const [foreign, unused] = [await other.key(key), await other.key(freshKey())];
    assert.deepEqual([foreign.status, unused.status], [404, 404]);
    const body = ({ instance, ...rest }) => rest;
    assert.deepEqual(body(foreign.json()), body(unused.json()));
  });

  test('needs credentials', async () => {
    const answer = await read(await site.fetch(`/idempotency-keys/${freshKey()}`));
    assert.equal(answer.status, 401);
    assert.equal(answer.header('www-authenticate'), 'Bearer');
  });

  test('takes a key with reserved characters, percent-encoded, and in quotes', async () => {
    const key = `a/b?c#d%20"e&${freshKey()}`;
    const booked = await user.book(key);
    assert.equal(booked.status, 201);
    assert.equal((await user.key(key)).json().resource, `/rides/${booked.ride}`);
    assert.equal((await user.key(`"${key.replaceAll('"', '\\"')}"`)).status, 200);
  });

  test('of what cannot be a key is a 400', async () => {
    for (const key of ['two words', 'k'.repeat(256), 'clé'])
      assert.equal((await user.key(key)).json().type, '/problems/idempotency-key-invalid');
    assert.equal((await user.ask('/idempotency-keys/%FF')).status, 404);
  });

  test('answers HEAD as GET, without a body', async () => {
    const key = freshKey();
    await user.book(key);
    const answer = await user.ask(`/idempotency-keys/${key}`, { method: 'HEAD' });
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'application/json');
    assert.equal(answer.bytes.length, 0);
  });

  test("of a form's key is for the session that sent it", async () => {
    const [visitor, stranger] = [browser(site), browser(site)];
    const sent = await visitor.openForm();
    const address = `/idempotency-keys/${sent.idempotency_key}`;
    const headers = { accept: 'application/json' };
    assert.equal((await visitor.visit(address, { headers })).status, 404, 'it is not used yet');
    const booked = await visitor.submit(sent);
    const mine = await visitor.visit(address, { headers });
    assert.equal(mine.status, 200);
    assert.equal(mine.json().status, 'complete');
    assert.equal(mine.json().response_code, 303);
    assert.equal(mine.json().resource, booked.header('location'));
    await stranger.openForm();
    assert.equal((await stranger.visit(address, { headers })).status, 404);
    assert.equal((await user.key(sent.idempotency_key)).status, 404);
  });
});
