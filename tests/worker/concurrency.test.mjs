// Many requests at once under one key: one of them runs, all others wait for its result or are told to come back.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { AT_ONCE, PATIENT, PAYMENT, held as heldBack } from './support/payments.mjs';
import { until } from './support/until.mjs';

const WAIT_MS = 500;
const site = await startSite({ vars: { WAIT_MS: `${WAIT_MS}` } });
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const duplicates = Array.from({ length: 50 });

/** The lines of a key's replays, also of those that are not written yet. */
const replaysOf = async (key) =>
  (await user.key(key)).json().timeline.filter(({ event }) => event === 'replayed');

/** Begins a payment that the bank holds back until `calm()`; resolves once the bank has the request. */
async function held(key) {
  const { answer } = await heldBack(site, () => user.pay(PAYMENT, key));
  const { payment } = await user.key(key);
  return { answer, payment };
}

describe('50 duplicates at once', () => {
  test('of an API client make one charge and get one answer', async () => {
    const key = freshKey();
    const answers = await Promise.all(duplicates.map(() => user.pay(PAYMENT, key, PATIENT)));
    const [{ payment, bytes }] = answers;
    for (const answer of answers) {
      assert.equal(answer.status, 201, answer.text);
      assert.deepEqual(answer.bytes, bytes);
    }
    const runs = answers.filter((answer) => answer.header('idempotent-replayed') === null);
    assert.equal(runs.length, 1, 'exactly one of them ran');
    const originals = new Set(answers.map((answer) => answer.header('original-request')));
    assert.deepEqual([...originals], [runs[0].header('request-id')]);
    assert.equal((await site.simulator.payments(payment)).length, 1);
    assert.equal(await site.simulator.charges(payment), 1);
    assert.equal((await site.objects.key(payment)).attempt, 1);
    const replays = await replaysOf(key);
    const asked = answers.map((answer) => answer.header('request-id'));
    assert.equal(replays.length, 16);
    assert.ok(replays.every(({ detail }) => asked.includes(detail) && detail !== originals[0]));
    assert.deepEqual(await receiptsOf(site, payment), [`${payment}_receipt`]);
  });

  test('of a form get the same redirect', async () => {
    const visitor = browser(site);
    const { path, form } = await visitor.openOrder();
    // As many as one order may be asked for in a minute.
    const some = duplicates.slice(0, 25);
    const answers = await Promise.all(some.map(() => visitor.send(path, form, PATIENT)));
    const places = new Set(answers.map((answer) => `${answer.status} ${answer.header('location')}`));
    assert.equal(places.size, 1);
    assert.match([...places][0], /^303 \/checkout\//);
    const { payment } = await visitor.follow(answers[0]);
    assert.equal((await site.simulator.payments(payment)).length, 1);
    assert.equal(await site.simulator.charges(payment), 1);
  });

  test('with 50 different keys are 50 payments with one charge each', async () => {
    const answers = await Promise.all(duplicates.map(() => user.pay(PAYMENT, freshKey())));
    assert.ok(answers.every((answer) => answer.status === 201));
    assert.equal(new Set(answers.map((answer) => answer.payment)).size, 50);
    const charges = await Promise.all(answers.map(({ payment }) => site.simulator.charges(payment)));
    assert.deepEqual(
      charges,
      duplicates.map(() => 1),
    );
  });

  test('of which each has other parameters: one runs, the others are mismatches', async () => {
    const key = freshKey();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => user.pay({ ...PAYMENT, amount: 2500 + i }, key)),
    );
    const statuses = answers.map((answer) => answer.status).sort();
    assert.deepEqual(statuses, [201, ...Array.from({ length: 9 }, () => 422)]);
    const booked = answers.find((answer) => answer.status === 201);
    assert.equal((await site.simulator.payments(booked.payment)).length, 1);
  });
});

describe('a duplicate of a request that runs', () => {
  test('waits for its result', async () => {
    const key = freshKey();
    const { answer } = await held(key);
    const again = user.pay(PAYMENT, key, PATIENT);
    // It reaches the object before the bank answers, or replays after: the result is the same either way.
    await user.pay(PAYMENT, key, AT_ONCE);
    await site.simulator.calm();
    const [first, second] = await Promise.all([answer, again]);
    assert.equal(first.status, 201);
    assert.deepEqual(second.bytes, first.bytes);
    assert.equal(second.header('original-request'), first.header('request-id'));
    assert.equal(second.header('idempotent-replayed'), 'true');
    assert.equal((await replaysOf(key)).length, 1, 'whoever was refused with 409 is no replay');
  });

  test('waits a bounded time, then is refused', async () => {
    const key = freshKey();
    const { answer } = await held(key);
    const started = performance.now();
    const refused = await user.pay(PAYMENT, key);
    const waited = performance.now() - started;
    assert.equal(refused.status, 409);
    assert.ok(waited >= WAIT_MS - 20, `it waited only ${waited} ms`);
    await site.simulator.calm();
    assert.equal((await answer).status, 201);
    assert.deepEqual(await replaysOf(key), [], 'who was refused got no response');
  });

  test('waits as long as Prefer asks for', async () => {
    const key = freshKey();
    const { answer } = await held(key);
    const started = performance.now();
    const refused = await user.pay(PAYMENT, key, { prefer: 'respond-async, wait=1' });
    assert.equal(refused.status, 409);
    assert.ok(performance.now() - started >= 980);
    await site.simulator.calm();
    assert.equal((await answer).status, 201);
  });

  test('by a form is sent to the page that shows how it stands', async () => {
    const visitor = browser(site);
    const { path, form } = await visitor.openOrder();
    const { answer } = await heldBack(site, () => visitor.send(path, form));
    const second = await visitor.send(path, form, AT_ONCE);
    assert.equal(second.status, 303);
    const page = await visitor.follow(second);
    assert.match(page.text, /http-equiv="refresh"/);
    await site.simulator.calm();
    assert.equal((await answer).status, 303);
    const { text, payment } = await visitor.visit(path);
    assert.match(text, /Thank you for your order/);
    assert.equal(await site.simulator.charges(payment), 1);
  });
});

describe('a client that vanishes', () => {
  test('is charged once, and finds its result when it comes back', async () => {
    const key = freshKey();
    const gone = new AbortController();
    const { answer: lost } = await heldBack(site, () =>
      user.ask('/payments', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key },
        body: JSON.stringify(PAYMENT),
        signal: gone.signal,
      }),
    );
    gone.abort();
    await assert.rejects(lost, { name: 'AbortError' });
    await site.simulator.calm();
    await until('it is done without the client', async () => {
      return (await user.key(key)).json().status === 'complete';
    });
    const answer = await user.pay(PAYMENT, key);
    assert.equal(answer.status, 201);
    assert.equal(answer.header('idempotent-replayed'), 'true');
    assert.equal((await site.objects.key(answer.payment)).attempt, 1);
    assert.equal((await site.simulator.payments(answer.payment)).length, 1);
  });
});

describe('a lease', () => {
  test('that has run out is taken over, and the run that held it writes nothing more', async () => {
    const key = freshKey();
    const { answer, payment } = await held(key);
    await site.objects.sql(payment, 'UPDATE idempotency_keys SET lease_until_ms = 1');
    // The second run asks the bank under the same key, which says that it works on it.
    const taker = user.pay(PAYMENT, key, PATIENT);
    await until('the second run has the key', async () => (await site.objects.key(payment)).attempt === 2);
    const calls = await site.simulator.payments(payment);
    await site.simulator.calm();
    const [stale, taken] = await Promise.all([answer, taker]);
    assert.equal(taken.status, 201);
    assert.equal(stale.status, 503, 'the stale run does not know the result, and says so');
    assert.equal(stale.json().type, '/problems/outcome-unknown');
    assert.equal(await site.simulator.charges(payment), 1);
    assert.ok(calls.length >= 1);
    const { timeline } = (await user.key(key)).json();
    const takeOver = timeline.findIndex(({ event }) => event === 'resumed');
    assert.equal(timeline[takeOver].detail, 'the lease had run out');
    assert.ok(timeline.slice(takeOver).every(({ attempt }) => attempt === 2));
    assert.deepEqual(await receiptsOf(site, payment), [`${payment}_receipt`]);
    assert.deepEqual((await user.pay(PAYMENT, key)).bytes, taken.bytes);
  });

  test('that a living run holds is not taken over', async () => {
    const key = freshKey();
    const { answer, payment } = await held(key);
    assert.equal((await user.pay(PAYMENT, key)).status, 409);
    assert.equal((await site.objects.key(payment)).attempt, 1);
    await site.simulator.calm();
    await answer;
    assert.equal((await site.objects.key(payment)).attempt, 1);
  });

  test('whose holder is gone is taken over at once by the new instance', async () => {
    const key = freshKey();
    const { payment } = await user.pay({ ...PAYMENT, raise_error: 'true' }, key);
    // As a process leaves it that died at work: a lease far in the future, held by nobody alive.
    await site.objects.sql(
      payment,
      'UPDATE idempotency_keys SET lease_holder = ?, lease_until_ms = ?',
      'an instance that is gone',
      Date.now() + 3_600_000,
    );
    const answer = await user.pay(PAYMENT, key, AT_ONCE);
    assert.equal(answer.status, 201);
    const { timeline } = (await user.key(key)).json();
    assert.equal(timeline.find(({ event }) => event === 'resumed').detail, 'its holder was gone');
    assert.equal(await site.simulator.charges(payment), 1);
  });
});

describe('a trap in the WebAssembly', () => {
  const LIMIT = { timeout: 300_000 }; // what is orphaned hangs for ever

  test('fails every request in flight at once; each goes on when it is sent again', LIMIT, async () => {
    const keys = Array.from({ length: 5 }, freshKey);
    await site.simulator.fault('slow', { delay_ms: 60_000, count: keys.length });
    const running = keys.map((key) => user.pay(PAYMENT, key));
    await until('the bank has them all', async () => (await site.simulator.faults()).length === 0);

    const crashed = freshKey();
    const started = performance.now();
    const answers = await Promise.all([user.pay({ ...PAYMENT, raise_error: 'crash' }, crashed), ...running]);
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
      const answer = await user.pay(PAYMENT, key, PATIENT);
      assert.equal(answer.status, 201, answer.text);
      assert.equal(await site.simulator.charges(answer.payment), 1);
      assert.deepEqual(await receiptsOf(site, answer.payment), [`${answer.payment}_receipt`]);
    }
  });

  test('of the desk interrupts no payment: its instance is another one', LIMIT, async () => {
    const key = freshKey();
    const { answer, payment } = await held(key);
    for (const path of ['/admin', '/metrics']) {
      const trapped = await read(await site.fetch(`${path}?raise_error=crash`));
      assert.equal(trapped.status, 500);
      const { type, instance } = trapped.json();
      assert.deepEqual([type, instance], ['/problems/interrupted', trapped.headers.get('request-id')]);
      assert.match(instance, /^req_[0-9a-f]{8}-[0-9a-f]{4}-7/, 'of the kind of all others');
      await until('it is in the log under its id', () =>
        site.logs().some(({ message }) => message.includes('"trapped"') && message.includes(instance)),
      );
      assert.equal((await site.fetch(path)).status, 401, 'the desk has a new one');
    }

    await site.simulator.calm();
    assert.equal((await answer).status, 201);
    assert.equal((await user.key(key)).json().attempts, 1, 'nobody had to come back');
    assert.equal(await site.simulator.charges(payment), 1);
  });

  test(
    'in the middle of a payment leaves a lease that the next request takes over at once',
    LIMIT,
    async () => {
      const key = freshKey();
      const { answer, payment } = await held(key);
      await user.pay({ ...PAYMENT, raise_error: 'crash' }, freshKey());
      assert.equal((await answer).status, 500);
      const left = await site.objects.key(payment);
      assert.ok(left.lease_until_ms > Date.now() + 60_000, 'the lease is far from over');
      assert.equal((await site.objects.call(payment)).status, 'in_flight');

      await site.simulator.calm();
      const again = await user.pay(PAYMENT, key, PATIENT);
      assert.equal(again.status, 201);
      const { timeline } = (await user.key(key)).json();
      assert.equal(timeline.find(({ event }) => event === 'resumed').detail, 'its holder was gone');
      assert.equal(await site.simulator.charges(payment), 1);
      const sends = await site.simulator.payments(payment);
      assert.ok(sends.length >= 2);
      assert.equal(new Set(sends.map(({ body_sha256 }) => body_sha256)).size, 1, 'the same bytes each time');
    },
  );
});
