// Many requests at once under one key: one of them runs, all others wait for its result or are told to come back.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { TRIP, account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { rideOf } from './support/objects.mjs';
import { until } from './support/until.mjs';

const WAIT_MS = 500;
const site = await startSite({ vars: { WAIT_MS: `${WAIT_MS}` } });
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const duplicates = Array.from({ length: 50 });

/** Begins a booking that the bank holds back until `calm()`; resolves once the bank has the request. */
async function held(key, more) {
  const before = new Set(await site.objects.ids());
  await site.simulator.fault('slow', { delay_ms: 60_000 });
  const answer = user.book(key, { ...TRIP, ...more });
  await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
  const fresh = (await site.objects.ids()).filter((id) => !before.has(id));
  assert.equal(fresh.length, 1);
  return { answer, ride: rideOf(fresh[0]) };
}

describe('50 duplicates at once', () => {
  test('of an API client make one charge and get one answer', async () => {
    const key = freshKey();
    const headers = { prefer: 'wait=30' };
    const answers = await Promise.all(duplicates.map(() => user.book(key, TRIP, headers)));
    const [{ ride, bytes }] = answers;
    for (const answer of answers) {
      assert.equal(answer.status, 201, answer.text);
      assert.deepEqual(answer.bytes, bytes);
    }
    const runs = answers.filter((answer) => answer.header('idempotent-replayed') === null);
    assert.equal(runs.length, 1, 'exactly one of them ran');
    const originals = new Set(answers.map((answer) => answer.header('original-request')));
    assert.deepEqual([...originals], [runs[0].header('request-id')]);
    assert.equal((await site.simulator.payments(ride)).length, 1);
    assert.equal(await site.simulator.charges(ride), 1);
    const row = await site.objects.key(ride);
    assert.deepEqual(
      [row.attempt, row.replays],
      [1, 49],
      'whether they waited or came later, they are replays',
    );
    const replays = (await site.objects.timeline(ride)).filter(({ event }) => event === 'replayed');
    const asked = answers.map((answer) => answer.header('request-id'));
    assert.equal(replays.length, 16);
    assert.ok(replays.every(({ detail }) => asked.includes(detail) && detail !== originals[0]));
    assert.deepEqual(await receiptsOf(site, ride), [`${ride}_receipt`]);
  });

  test('of a form get the same redirect', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const answers = await Promise.all(duplicates.map(() => visitor.submit(sent, { prefer: 'wait=30' })));
    const places = new Set(answers.map((answer) => `${answer.status} ${answer.header('location')}`));
    assert.equal(places.size, 1);
    assert.match([...places][0], /^303 \/rides\/ride_[\w-]{43}$/);
    assert.equal((await site.simulator.payments(answers[0].ride)).length, 1);
    assert.equal(await site.simulator.charges(answers[0].ride), 1);
  });

  test('with 50 different keys are 50 rides with one charge each', async () => {
    const answers = await Promise.all(duplicates.map(() => user.book(freshKey())));
    assert.ok(answers.every((answer) => answer.status === 201));
    assert.equal(new Set(answers.map((answer) => answer.ride)).size, 50);
    const charges = await Promise.all(answers.map(({ ride }) => site.simulator.charges(ride)));
    assert.deepEqual(
      charges,
      duplicates.map(() => 1),
    );
  });

  test('of which each has other parameters: one runs, the others are mismatches', async () => {
    const key = freshKey();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => user.book(key, { ...TRIP, origin_lat: i })),
    );
    const statuses = answers.map((answer) => answer.status).sort();
    assert.deepEqual(statuses, [201, ...Array.from({ length: 9 }, () => 422)]);
    const booked = answers.find((answer) => answer.status === 201);
    assert.equal((await site.simulator.payments(booked.ride)).length, 1);
  });
});

describe('a duplicate of a request that runs', () => {
  test('waits for its result', async () => {
    const key = freshKey();
    const { answer, ride } = await held(key);
    const again = user.book(key, TRIP, { prefer: 'wait=30' });
    // It reaches the object before the bank answers, or replays after: the result is the same either way.
    await user.book(key, TRIP, { prefer: 'wait=0' });
    await site.simulator.calm();
    const [first, second] = await Promise.all([answer, again]);
    assert.equal(first.status, 201);
    assert.deepEqual(second.bytes, first.bytes);
    assert.equal(second.header('original-request'), first.header('request-id'));
    assert.equal(second.header('idempotent-replayed'), 'true');
    assert.equal((await site.objects.key(ride)).replays, 1, 'whoever was refused with 409 is no replay');
  });

  test('is refused at once with Prefer: wait=0, and told when to come back', async () => {
    const key = freshKey();
    const { answer, ride } = await held(key);
    const refused = await user.book(key, TRIP, { prefer: 'wait=0' });
    assert.equal(refused.status, 409);
    assert.equal(refused.json().type, '/problems/request-in-progress');
    assert.match(refused.header('retry-after'), /^[1-9]\d*$/);
    assert.equal(refused.header('location'), `/rides/${ride}`);
    assert.equal(refused.header('idempotent-replayed'), null);
    await site.simulator.calm();
    assert.equal((await answer).status, 201);
    assert.equal((await site.simulator.payments(ride)).length, 1);
  });

  test('waits a bounded time, then is refused', async () => {
    const key = freshKey();
    const { answer, ride } = await held(key);
    const started = performance.now();
    const refused = await user.book(key);
    const waited = performance.now() - started;
    assert.equal(refused.status, 409);
    assert.ok(waited >= WAIT_MS - 20, `it waited only ${waited} ms`);
    await site.simulator.calm();
    assert.equal((await answer).status, 201);
    assert.equal((await site.objects.key(ride)).replays, 0, 'who was refused got no response');
  });

  test('waits as long as Prefer asks for', async () => {
    const key = freshKey();
    const { answer } = await held(key);
    const started = performance.now();
    const refused = await user.book(key, TRIP, { prefer: 'respond-async, wait=1' });
    assert.equal(refused.status, 409);
    assert.ok(performance.now() - started >= 980);
    await site.simulator.calm();
    assert.equal((await answer).status, 201);
  });

  test('by a form is sent to the page that shows how it stands', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const first = visitor.submit(sent);
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    const second = await visitor.submit(sent, { prefer: 'wait=0' });
    assert.equal(second.status, 303);
    const page = await visitor.visit(second.header('location'));
    assert.match(page.text, /http-equiv="refresh"/);
    await site.simulator.calm();
    assert.equal((await first).header('location'), second.header('location'));
    assert.equal(await site.simulator.charges(second.ride), 1);
  });
});

describe('a client that vanishes', () => {
  test('is charged once, and finds its result when it comes back', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const gone = new AbortController();
    const lost = user.ask('/rides', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(TRIP),
      signal: gone.signal,
    });
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    gone.abort();
    await assert.rejects(lost, { name: 'AbortError' });
    await site.simulator.calm();
    await until('it is done without the client', async () => {
      return (await user.key(key)).json().status === 'complete';
    });
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    assert.equal(answer.header('idempotent-replayed'), 'true');
    assert.equal((await site.objects.key(answer.ride)).attempt, 1);
    assert.equal((await site.simulator.payments(answer.ride)).length, 1);
  });
});

describe('a lease', () => {
  test('that has run out is taken over, and the run that held it writes nothing more', async () => {
    const key = freshKey();
    const { answer, ride } = await held(key);
    await site.objects.sql(ride, 'UPDATE idempotency_keys SET lease_until_ms = 1');
    // The second run asks the bank under the same key, which says that it works on it.
    const taker = user.book(key, TRIP, { prefer: 'wait=30' });
    await until('the second run has the key', async () => (await site.objects.key(ride)).attempt === 2);
    const calls = await site.simulator.payments(ride);
    await site.simulator.calm();
    const [stale, taken] = await Promise.all([answer, taker]);
    assert.equal(taken.status, 201);
    assert.equal(stale.status, 503, 'the stale run does not know the result, and says so');
    assert.equal(stale.json().type, '/problems/outcome-unknown');
    assert.equal(await site.simulator.charges(ride), 1);
    assert.ok(calls.length >= 1);
    const { timeline } = (await user.key(key)).json();
    const takeOver = timeline.findIndex(({ event }) => event === 'resumed');
    assert.equal(timeline[takeOver].detail, 'the lease had run out');
    assert.ok(timeline.slice(takeOver).every(({ attempt }) => attempt === 2));
    assert.deepEqual(await receiptsOf(site, ride), [`${ride}_receipt`]);
    assert.deepEqual((await user.book(key)).bytes, taken.bytes);
  });

  test('that a living run holds is not taken over', async () => {
    const key = freshKey();
    const { answer, ride } = await held(key);
    assert.equal((await user.book(key)).status, 409);
    assert.equal((await site.objects.key(ride)).attempt, 1);
    await site.simulator.calm();
    await answer;
    assert.equal((await site.objects.key(ride)).attempt, 1);
  });

  test('whose holder is gone is taken over at once by the new instance', async () => {
    const key = freshKey();
    const interrupted = await user.book(key, { ...TRIP, raise_error: 'true' });
    const ride = interrupted.ride;
    // As a process leaves it that died at work: a lease far in the future, held by nobody alive.
    await site.objects.sql(
      ride,
      'UPDATE idempotency_keys SET lease_holder = ?, lease_until_ms = ?',
      'an instance that is gone',
      Date.now() + 3_600_000,
    );
    const answer = await user.book(key, TRIP, { prefer: 'wait=0' });
    assert.equal(answer.status, 201);
    const { timeline } = (await user.key(key)).json();
    assert.equal(timeline.find(({ event }) => event === 'resumed').detail, 'its holder was gone');
    assert.equal(await site.simulator.charges(ride), 1);
  });
});

describe('a trap in the WebAssembly', () => {
  const LIMIT = { timeout: 300_000 }; // what is orphaned hangs for ever

  test('fails every request in flight at once; each goes on when it is sent again', LIMIT, async () => {
    const keys = Array.from({ length: 5 }, freshKey);
    await site.simulator.fault('slow', { delay_ms: 60_000, count: keys.length });
    const running = keys.map((key) => user.book(key));
    await until('the bank has them all', async () => (await site.simulator.faults()).length === 0);

    const crashed = freshKey();
    const started = performance.now();
    const answers = await Promise.all([user.book(crashed, { ...TRIP, raise_error: 'crash' }), ...running]);
    assert.ok(performance.now() - started < 30_000, 'nobody waits for the bank');
    for (const answer of answers) {
      assert.equal(answer.status, 500);
      assert.equal(answer.header('content-type'), 'application/problem+json');
      assert.equal(answer.json().type, '/problems/interrupted');
      assert.equal(answer.header('retry-after'), '1');
      assert.match(answer.header('request-id'), /^req_/);
      assert.equal(answer.json().instance, answer.header('request-id'));
      assert.equal(answer.header('x-content-type-options'), 'nosniff');
      assert.match(answer.header('content-security-policy'), /frame-ancestors 'none'/);
      assert.equal(answer.header('cache-control'), 'private, no-store');
    }

    await site.simulator.calm();
    for (const key of [crashed, ...keys]) {
      const answer = await user.book(key, TRIP, { prefer: 'wait=30' });
      assert.equal(answer.status, 201, answer.text);
      assert.equal(await site.simulator.charges(answer.ride), 1);
      assert.deepEqual(await receiptsOf(site, answer.ride), [`${answer.ride}_receipt`]);
    }
  });

  test('of the desk interrupts no payment: its instance is another one', LIMIT, async () => {
    const key = freshKey();
    const { answer, ride } = await held(key);
    for (const path of ['/admin', '/metrics']) {
      const trapped = await read(await site.fetch(`${path}?raise_error=crash`));
      assert.equal(trapped.status, 500);
      assert.equal(trapped.json().type, '/problems/interrupted');
      assert.equal((await site.fetch(path)).status, 401, 'the desk has a new one');
    }

    await site.simulator.calm();
    assert.equal((await answer).status, 201);
    assert.equal((await user.key(key)).json().attempts, 1, 'nobody had to come back');
    assert.equal(await site.simulator.charges(ride), 1);
  });

  test(
    'in the middle of a payment leaves a lease that the next request takes over at once',
    LIMIT,
    async () => {
      const key = freshKey();
      const { answer, ride } = await held(key);
      await user.book(freshKey(), { ...TRIP, raise_error: 'crash' });
      assert.equal((await answer).status, 500);
      const left = await site.objects.key(ride);
      assert.ok(left.lease_until_ms > Date.now() + 60_000, 'the lease is far from over');
      assert.equal((await site.objects.call(ride)).status, 'in_flight');

      await site.simulator.calm();
      const again = await user.book(key, TRIP, { prefer: 'wait=30' });
      assert.equal(again.status, 201);
      const { timeline } = (await user.key(key)).json();
      assert.equal(timeline.find(({ event }) => event === 'resumed').detail, 'its holder was gone');
      assert.equal(await site.simulator.charges(ride), 1);
      const payments = await site.simulator.payments(ride);
      assert.ok(payments.length >= 2);
      assert.equal(
        new Set(payments.map((payment) => payment.body_sha256)).size,
        1,
        'the same bytes each time',
      );
    },
  );
});
