// The counts: right after every request of a fixed script, closed to all but the operator, and never too large.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { DECLINED_USER, account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { SIGNING_KEY, startSite } from './support/harness.mjs';
import { AT_ONCE, PATIENT, PAYMENT, held } from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const admin = { authorization: `Bearer ${ADMIN_TOKEN}` };
const METRICS_TOKEN = 'a-secret-of-the-tests-for-counts-alone';
const SHARDS = 3;
const site = await startSite({
  vars: { METRICS_SHARDS: `${SHARDS}` },
  secrets: { ADMIN_TOKEN, METRICS_TOKEN },
});
const user = account(site);
after(() => site.close());

const ask = async (path, headers = admin) => read(await site.fetch(path, { headers }));
const countsOf = async (one) => parse((await read(await one.fetch('/metrics', { headers: admin }))).text);
const counts = () => countsOf(site);
const stats = async () => (await ask('/admin/stats')).json();

/** Waits until a request made now is counted: by then no message of an earlier time is on its way any more. */
async function later() {
  const looks = async () => (await counts()).sum('requests_total', { route: '/healthz' });
  const before = await looks();
  await site.fetch('/healthz');
  await until('the look is counted', async () => (await looks()) > before);
}

/** Shows that the counts come to be these, and that nothing is added later. */
async function settled(expected) {
  const value = (now, name) => {
    const [, family, labels] = /^(\w+)(?:\{(.*)\})?$/.exec(name);
    return now.sum(family, Object.fromEntries(labels?.split(',').map((pair) => pair.split('=')) ?? []));
  };
  const look = async () => {
    const now = await counts();
    return Object.fromEntries(Object.keys(expected).map((name) => [name, value(now, name)]));
  };
  const isThere = async () => isDeepStrictEqual(await look(), expected);
  await until('the counts', isThere).catch(async () => assert.deepEqual(await look(), expected));
  await later();
  assert.deepEqual(await look(), expected);
}

describe('a fixed script of requests', () => {
  test('is counted exactly', async () => {
    const key = freshKey();
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    assert.equal((await user.pay({ ...PAYMENT, amount: 2501 }, key)).status, 422);
    assert.equal((await user.pay(PAYMENT)).status, 400);
    const declined = account(site, DECLINED_USER);
    const refused = freshKey();
    assert.equal((await declined.pay(PAYMENT, refused)).status, 402);
    assert.equal((await declined.pay(PAYMENT, refused)).status, 402);
    await settled({
      'requests_total{route=/payments}': 7,
      'requests_total{route=/payments,method=POST,outcome=created,status=2xx}': 1,
      'requests_total{route=/payments,outcome=replayed,status=2xx}': 2,
      'requests_total{route=/payments,outcome=mismatch,status=4xx}': 1,
      'requests_total{route=/payments,outcome=idempotency-key-missing,status=4xx}': 1,
      'requests_total{route=/payments,outcome=declined,status=4xx}': 1,
      'requests_total{route=/payments,outcome=replayed,status=4xx}': 1,
      idempotency_cache_hits_total: 3,
      concurrent_request_waits_total: 0,
      idempotency_in_progress_total: 0,
      idempotency_conflicts_total: 1,
      idempotency_keys_missing_total: 0,
      charges_saved_total: 2,
      provider_calls_total: 2,
      'provider_calls_total{provider=stripe,kind=authorize,outcome=charged}': 1,
      'provider_calls_total{provider=stripe,kind=authorize,outcome=declined}': 1,
      'provider_call_duration_seconds_count{provider=stripe,kind=authorize}': 2,
      'keys{status=open}': 0,
      'keys{status=finished}': 2,
      'keys{status=expired}': 0,
      keys_open: 0,
      'payments{status=processing}': 0,
      'payments{status=succeeded}': 1,
      'payments{status=declined}': 1,
      payments_total: 4, // each was processing first
      'payments_total{status=succeeded}': 1,
      'payments_total{status=declined}': 1,
    });
  });

  test('shows in the statistics', async () => {
    await until('the read model has both payments', async () => (await stats()).payments.total === 2);
    const { keys, payments, charges_saved_by_replays, requests, as_of } = await stats();
    assert.deepEqual(keys, { processing: 0, complete: 2, expired: 0, total: 2 });
    assert.deepEqual([payments.succeeded, payments.declined, payments.total], [1, 1, 2]);
    assert.equal(charges_saved_by_replays, 2);
    assert.equal(requests.replayed, 3);
    assert.equal(requests.mismatched, 1);
    assert.equal(requests.total, requests.answered + requests.refused + requests.failed);
    assert.ok(Math.abs(Date.now() - Date.parse(as_of)) < 60_000, as_of);
  });

  test('with duplicates at the same time counts those that waited and those that did not', async () => {
    const before = await counts();
    const key = freshKey();
    const { answer: first } = await held(site, () => user.pay(PAYMENT, key, PATIENT));
    assert.equal((await user.pay(PAYMENT, key, AT_ONCE)).status, 409);
    assert.equal((await user.pay(PAYMENT, key, { prefer: 'wait=1' })).status, 409);
    await until('the key is open', async () => (await counts()).sum('keys_open') === 1);
    const waiting = [1, 2, 3].map(() => user.pay(PAYMENT, key, PATIENT));
    // They are with the object when one that came after them is answered.
    assert.equal((await user.pay(PAYMENT, key, AT_ONCE)).status, 409);
    await site.simulator.calm();
    for (const answer of await Promise.all([first, ...waiting]))
      assert.ok([201, 503].includes(answer.status));
    const last = await user.pay(PAYMENT, key, PATIENT);
    assert.equal(last.status, 201);
    const waits = before.sum('concurrent_request_waits_total');
    const hits = before.sum('idempotency_cache_hits_total');
    const saved = before.sum('charges_saved_total');
    assert.equal(await site.simulator.charges(last.payment), 1);
    await settled({
      concurrent_request_waits_total: waits + 4,
      idempotency_in_progress_total: 3,
      idempotency_cache_hits_total: hits + 1,
      charges_saved_total: saved + 4,
      keys_open: 0,
    });
  });

  test('with a provider that does not answer counts what nobody knows', async () => {
    const vars = { PROVIDER_TIMEOUT_MS: '400', COMPLETER_MS: '60000', RETENTION_MS: '500' };
    const slow = await startSite({ vars, secrets: { ADMIN_TOKEN } });
    try {
      const client = account(slow);
      const key = freshKey();
      await slow.simulator.fault('response_lost');
      let unknown = 0;
      await until('it is settled', async () => {
        const answer = await client.pay(PAYMENT, key, AT_ONCE);
        const { type } = answer.json();
        if (answer.header('retry-after') && type === '/problems/outcome-unknown') unknown += 1;
        // On a busy machine the response can be gone again before anybody asks for it.
        return answer.status === 201 || type === '/problems/idempotency-key-expired';
      });
      assert.ok(unknown > 0);
      const { timeline } = (await client.key(key)).json();
      const outcomes = timeline.filter(({ event }) => event === 'call_outcome');
      const unclear = outcomes.filter(({ detail }) => detail.startsWith('unknown'));
      await until('the alarm forgets the response', async () => {
        return (await countsOf(slow)).sum('keys', { status: 'expired' }) === 1;
      });
      const now = await countsOf(slow);
      assert.equal(now.sum('keys'), 1);
      assert.equal(now.sum('keys_open'), 0);
      assert.equal(now.sum('requests_total', { outcome: 'unknown', status: '5xx' }), unknown);
      assert.equal(now.sum('provider_calls_total', { outcome: 'unknown' }), unclear.length);
      assert.equal(now.sum('provider_calls_total', { outcome: 'charged' }), 1);
      const durations = (le) => now.sum('provider_call_duration_seconds_bucket', { kind: 'authorize', le });
      assert.equal(durations('+Inf'), outcomes.length);
      assert.ok(durations('0.25') < outcomes.length, 'the one that timed out took longer');
      assert.ok(now.sum('provider_call_duration_seconds_sum') >= 0.39);
    } finally {
      await slow.close();
    }
  });

  test("counts a browser's edited form", async () => {
    const before = (await counts()).sum('idempotency_conflicts_total');
    const visitor = browser(site);
    const { path, form } = await visitor.openOrder();
    assert.equal((await visitor.send(path, form)).status, 303);
    for (const payment_method of ['pm_card_mastercard', 'pm_card_visa_chargeDeclined'])
      assert.match((await visitor.send(path, { ...form, payment_method })).header('location'), /\?edited$/);
    await settled({ idempotency_conflicts_total: before + 2 });
  });
});

describe('the exposition', () => {
  test('can be read by a strict reader, and says what it is', async () => {
    const answer = await ask('/metrics');
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
    const { families, samples } = parse(answer.text);
    assert.equal(families.get('paid_once_provider_call_duration_seconds'), 'histogram');
    for (const name of families.keys()) assert.match(name, /^paid_once_[a-z_]+$/);
    const buckets = Object.groupBy(
      samples.filter(({ name }) => name.endsWith('_bucket')),
      ({ name, labels: { le: _, ...others } }) => JSON.stringify([name, others]),
    );
    assert.ok(Object.keys(buckets).length > 0);
    for (const [series, counted] of Object.entries(buckets)) {
      const values = counted.map(({ value }) => value);
      assert.deepEqual(
        values,
        values.toSorted((a, b) => a - b),
        `cumulative: ${series}`,
      );
    }
    assert.equal((await read(await site.fetch('/metrics', { method: 'HEAD', headers: admin }))).status, 200);
  });

  test('has the names that people look for', async () => {
    const { text } = await ask('/metrics');
    for (const name of [
      'idempotency_cache_hits',
      'idempotency_conflicts',
      'concurrent_request_waits',
      'payments_total',
    ])
      assert.match(text, new RegExp(`^paid_once_${name}`, 'm'));
  });

  test('shows nothing of a request: no key, token, path, query or method', async () => {
    const secrets = { key: freshKey(), path: 'nobodys-path', query: 'nobodys-query', method: 'PROPFIND' };
    await user.pay(PAYMENT, secrets.key);
    await site.fetch(`/${secrets.path}?${secrets.query}`);
    await site.fetch('/payments', { method: secrets.method });
    await until('they are counted', async () => (await counts()).sum('requests_total', { method: 'other' }));
    const { text } = await ask('/metrics');
    const shown = text + JSON.stringify(await stats());
    for (const [what, secret] of Object.entries({
      ...secrets,
      ADMIN_TOKEN,
      SIGNING_KEY,
      user: '@example.com',
    }))
      assert.ok(!shown.includes(secret), what);
    assert.ok(!JSON.stringify(site.logs()).includes(ADMIN_TOKEN));
  });
});

describe('without the secret', () => {
  // Each from an address of its own: who guesses has to wait (abuse-edge.test.mjs).
  for (const [path, address] of [
    ['/metrics', '192.0.2.1'],
    ['/admin/stats', '192.0.2.2'],
  ]) {
    test(`${path} is closed`, async () => {
      await withoutEffect(site, async () => {
        const wrong = [
          {},
          { authorization: 'Bearer user@example.com' },
          { authorization: ADMIN_TOKEN },
          { authorization: `Basic ${ADMIN_TOKEN}` },
          { authorization: `Bearer ${ADMIN_TOKEN.slice(1)}` },
          { authorization: `Bearer ${ADMIN_TOKEN}!` },
        ];
        for (const headers of wrong) {
          const answer = await ask(path, { 'cf-connecting-ip': address, ...headers });
          assert.equal(answer.status, 401, JSON.stringify(headers));
          assert.equal(answer.header('content-type'), 'application/problem+json');
          assert.match(answer.header('www-authenticate'), /^Bearer realm="paid-once"/);
          assert.ok(!answer.text.includes('paid_once_'));
        }
        assert.equal((await ask(path, { authorization: `bearer ${ADMIN_TOKEN}` })).status, 200);
        assert.equal((await site.fetch(path, { method: 'POST', headers: admin })).status, 405);
      });
    });
  }

  test('that nobody has set it is closed all the same, and says how to set it', async () => {
    const closed = await startSite();
    try {
      for (const authorization of ['Bearer', 'Bearer ', `Bearer ${ADMIN_TOKEN}`, 'Bearer undefined']) {
        const answer = await read(await closed.fetch('/metrics', { headers: { authorization } }));
        assert.equal(answer.status, 401);
        assert.match(answer.json().detail, /wrangler secret put ADMIN_TOKEN/);
      }
    } finally {
      await closed.close();
    }
  });

  test('the lab is open', async () => {
    const lab = await startSite({ vars: { LAB: 'true' } });
    try {
      assert.equal((await lab.fetch('/metrics')).status, 200);
      assert.equal((await lab.fetch('/admin/stats')).status, 200);
    } finally {
      await lab.close();
    }
  });
});

describe('the secret for the counts', () => {
  const reader = { authorization: `Bearer ${METRICS_TOKEN}` };

  test('opens them', async () => {
    for (const path of ['/metrics', '/admin/stats'])
      assert.equal((await ask(path, reader)).status, 200, path);
  });

  test('opens nothing else, and is a wrong secret there', async () => {
    const body = new URLSearchParams({ token: METRICS_TOKEN }).toString();
    const tries = async () => (await site.rows('SELECT 1 FROM login_attempts')).length;
    const before = await tries();
    const others = [
      ['GET', '/admin'],
      ['GET', '/admin/payments'],
      ['GET', '/admin/payments.csv'],
      ['GET', '/admin/api/accounts'],
      ['GET', '/admin/api/shards'],
      ['PUT', '/admin/api/accounts/x', '{}'],
      ['POST', '/admin/api/shards/move', '{}'],
      ['POST', '/admin/payments/pay_x/erase'],
      ['POST', '/admin/payments/all/project'],
      ['POST', '/admin/payments/pay_x/refund', body],
      ['POST', '/admin/settlement/answers', 'x'],
      ['POST', '/admin/tasks/run', body],
      ['POST', '/admin/login', body],
    ];
    for (const [number, [method, path, text]] of others.entries()) {
      const type = text === body ? 'application/x-www-form-urlencoded' : 'application/json';
      const asked = (headers) =>
        site.fetch(path, {
          method,
          headers: { ...headers, 'content-type': type, 'cf-connecting-ip': `192.0.2.${100 + number}` },
          body: text,
        });
      assert.equal((await asked(reader)).status, 401, `${method} ${path}`);
    }
    assert.equal((await tries()) - before, others.length, 'each is a try');
    assert.equal((await site.fetch('/admin', { headers: admin })).status, 200, 'control');
    assert.ok(!JSON.stringify(site.logs()).includes(METRICS_TOKEN));
  });
});

describe('the shards', () => {
  const shard = (number) => site.worker.getDurableObjectStorage('METRICS', { name: `shard ${number}` });
  const everyShard = (statement) =>
    Promise.all(Array.from({ length: SHARDS }, async (_, number) => (await shard(number)).exec(statement)));

  test('hold a part each, which add up to what is shown', async () => {
    const name = 'paid_once_requests_total';
    const stored = async () => {
      const rows = await everyShard(`SELECT SUM(number) AS number FROM counts WHERE family = '${name}'`);
      return rows.map(([{ number }]) => number ?? 0);
    };
    // A reading sends what its isolate holds first, and is itself counted after it was answered.
    await until('every shard has got something', async () => {
      await counts();
      return (await stored()).every((number) => number > 0);
    });
    await later();
    const shown = (await counts()).sum('requests_total');
    const sum = (await stored()).reduce((total, number) => total + number, 0);
    assert.ok(sum === shown || sum === shown + 1, `${sum} are stored, ${shown} were shown`);
  });

  test('that fail lose what they were sent: it is counted once at most', async () => {
    const known = (await counts()).sum('requests_total', { route: '/assets/{file}' });
    const icons = async () => (await counts()).sum('requests_total', { route: '/assets/{file}' });
    const visit = async () => assert.equal((await site.fetch('/assets/favicon.svg')).status, 200);
    await visit();
    await until('one is counted', async () => (await icons()) === known + 1);

    const lost = () => site.logs().filter(({ message }) => message.includes('counts_lost')).length;
    for (const [how, isCounted] of [
      ['ABORT', false], // nothing of the message is kept
      ['FAIL', true], // all of it up to here is kept, and the sender hears of a failure all the same
    ]) {
      const before = await icons();
      const lostBefore = lost();
      for (const event of ['INSERT', 'UPDATE'])
        await everyShard(
          `CREATE TRIGGER broken_${event} AFTER ${event} ON counts WHEN NEW.labels LIKE '%/assets/%'
             BEGIN SELECT RAISE(${how}, 'broken for the test'); END`,
        );
      await visit();
      await until('a message is lost', async () => {
        await counts();
        return lost() > lostBefore;
      });
      for (const event of ['INSERT', 'UPDATE']) await everyShard(`DROP TRIGGER broken_${event}`);
      await visit();
      const expected = before + (isCounted ? 2 : 1);
      await until('the next one is counted', async () => (await icons()) >= expected);
      await later();
      assert.equal(await icons(), expected, how);
    }
  });
});
