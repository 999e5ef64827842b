// Traces: one payment is one tree, from its caller to the provider and the jobs, whoever finishes it; and no collector can hold one up.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startCollector } from './support/collector.mjs';
import { SIGNING_KEY, startSite } from './support/harness.mjs';
import { AT_ONCE, PAYMENT, held } from './support/payments.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const TOKEN = 'a-bearer-token-that-nobody-may-see';
const STRIPE_SECRET_KEY = 'sk_test_that_nobody_may_see';
const COLLECTOR_KEY = 'the-key-of-the-collector';
const API_ACCOUNTS = JSON.stringify({
  acme: { token_sha256: createHash('sha256').update(TOKEN).digest('hex'), payment_method: 'pm_card_visa' },
});
const secrets = { API_ACCOUNTS, STRIPE_SECRET_KEY };
const collector = await startCollector();
const vars = { ...IMPATIENT, COMPLETER_MS: '300' };
const site = await startSite({
  vars: { ...vars, OTLP_ENDPOINT: `${collector.url}/` },
  secrets: { ...secrets, OTLP_HEADERS: `x-api-key=${COLLECTOR_KEY},x-scope=pay%2Cments` },
});
const acme = account(site, TOKEN);
after(async () => {
  await site.close();
  collector.close();
});
afterEach(() => site.simulator.calm());

/** A caller's span. */
function caller(flags = '01') {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
}

/** The one span of a name. */
function one(spans, name) {
  const found = spans.filter((span) => span.name === name);
  assert.equal(found.length, 1, `${name}: ${spans.map((span) => span.name)}`);
  return found[0];
}

/** The names from a span up to the caller. */
function way(spans, span) {
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
  return [span.name, ...(parent ? way(spans, parent) : [span.parentSpanId])];
}

const logged = () =>
  site
    .logs()
    .filter(({ message }) => message.startsWith('{'))
    .map(({ message }) => JSON.parse(message));

/** The log's lines about a trace, once there are so many of an event. */
const lines = (traceId, event) =>
  until(`the log has ${event}`, () => {
    const found = logged().filter((line) => line.trace_id === traceId && line.event === event);
    return found.length > 0 && found;
  });

describe('one payment', () => {
  const key = freshKey();
  const mine = caller();
  let spans, paid;

  test("is one tree, from its caller's span to the provider and the jobs", async () => {
    const tracestate = 'vendor=of-the-caller,other=1';
    const body = { ...PAYMENT, receipt_email: 'ada@example.com' };
    paid = await acme.pay(body, key, { traceparent: mine.traceparent, tracestate });
    assert.equal(paid.status, 201, paid.text);
    const server = ['POST /payments', 'KEYS/run', 'KeyObject/run', 'run payment'];
    const jobs = ['send JOBS', 'process project', 'process send_receipt', 'resend send_email'];
    spans = await collector.trace(mine.traceId, ...server, ...jobs);
    const root = one(spans, 'POST /payments');
    assert.equal(root.parentSpanId, mine.spanId);
    assert.equal(root.traceState, tracestate);
    assert.equal(root.kind, 'SPAN_KIND_SERVER');
    assert.equal(root.attributes['http.route'], '/payments');
    assert.equal(root.attributes['http.response.status_code'], 201);
    assert.equal(root.attributes['paid_once.request_id'], paid.header('request-id'));
    const ran = one(spans, 'KeyObject/run');
    assert.equal(ran.attributes['paid_once.outcome'], 'first');
    assert.deepEqual(way(spans, one(spans, 'run payment')), [
      ...['run payment', 'KeyObject/run', 'KEYS/run', 'POST /payments', mine.spanId],
    ]);
    assert.deepEqual(way(spans, one(spans, 'resend send_email')).slice(0, 4), [
      ...['resend send_email', 'process send_receipt', 'send JOBS', 'KeyObject/run'],
    ]);
    for (const { name, startTimeUnixNano, endTimeUnixNano } of spans)
      assert.ok(BigInt(startTimeUnixNano) <= BigInt(endTimeUnixNano), name);
  });

  test('sends the provider the span of its own call, and nothing else of the trace', async () => {
    const call = spans.find(({ name }) => name.startsWith('stripe '));
    const [sent, ...more] = await site.simulator.sends(`${paid.payment}_auth`);
    assert.deepEqual(more, []);
    assert.equal(sent.traceparent, `00-${mine.traceId}-${call.spanId}-01`);
    assert.equal(call.kind, 'SPAN_KIND_CLIENT');
    assert.equal(call.attributes['server.address'], 'stripe.simulator');
    assert.equal(call.attributes['http.response.status_code'], 200);
    assert.equal(way(spans, call)[1], 'run payment');
  });

  test('is found by its trace in the log, and by the answer', async () => {
    const root = one(spans, 'POST /payments');
    const [line] = await lines(mine.traceId, 'request');
    assert.equal(line.span_id, root.spanId);
    assert.equal(line.request_id, paid.header('request-id'));
    assert.equal((await lines(mine.traceId, 'job_over')).length, 2);
    const named = `traceparent;desc="00-${mine.traceId}-${root.spanId}-01"`;
    assert.ok(paid.header('server-timing').endsWith(named), paid.header('server-timing'));
  });

  test('is linked by a replay, which is a trace of its own', async () => {
    const again = caller();
    const body = { ...PAYMENT, receipt_email: 'ada@example.com' };
    const replay = await acme.pay(body, key, { traceparent: again.traceparent });
    assert.equal(replay.header('idempotent-replayed'), 'true');
    assert.equal(replay.text, paid.text);
    const found = await collector.trace(again.traceId, 'POST /payments', 'KEYS/run', 'KeyObject/run');
    assert.equal(found.length, 3, 'nothing was run');
    const { attributes, links } = one(found, 'KeyObject/run');
    assert.equal(attributes['paid_once.outcome'], 'replay');
    assert.deepEqual(
      links.map(({ traceId, spanId }) => [traceId, spanId]),
      [[mine.traceId, one(spans, 'KeyObject/run').spanId]],
    );
  });

  test('says how a mismatch ended', async () => {
    const other = caller();
    const mismatch = await acme.pay({ ...PAYMENT, amount: 2501 }, key, { traceparent: other.traceparent });
    assert.equal(mismatch.status, 422);
    const found = await collector.trace(other.traceId, 'POST /payments', 'KeyObject/run');
    assert.equal(one(found, 'KeyObject/run').attributes['paid_once.outcome'], 'mismatch');
    assert.equal(one(found, 'POST /payments').status.code, undefined, 'the caller has erred, not we');
  });
});

describe('what the alarm finishes', () => {
  test('belongs to the trace of the request whose answer was lost', async () => {
    const [key, mine] = [freshKey(), caller()];
    await site.simulator.fault('connection_reset_after');
    const first = await acme.pay(PAYMENT, key, { ...AT_ONCE, traceparent: mine.traceparent });
    assert.equal(first.status, 503, first.text);
    await until('it is complete', async () => (await acme.key(key)).json().status === 'complete');
    const spans = await collector.trace(mine.traceId, 'POST /payments', 'run payment', 'run payment');
    const [lost, resumed] = spans
      .filter(({ name }) => name === 'run payment')
      .sort((a, b) => a.attributes['paid_once.attempt'] - b.attributes['paid_once.attempt']);
    assert.equal(lost.attributes['paid_once.outcome'], 'unknown');
    assert.equal(resumed.attributes['paid_once.resumed'], true);
    assert.equal(resumed.attributes['paid_once.outcome'], 'finished');
    assert.equal(resumed.parentSpanId, one(spans, 'KeyObject/run').spanId);
    const sends = await site.simulator.sends(`${first.payment}_auth`);
    const calls = spans.filter(({ name }) => name.startsWith('stripe '));
    assert.equal(sends.length, 2);
    for (const { traceparent } of sends)
      assert.ok(calls.some(({ spanId }) => traceparent === `00-${mine.traceId}-${spanId}-01`));
    const [line] = await lines(mine.traceId, 'resumed_by_alarm');
    assert.equal(line.level, 'info');
  });

  test('belongs to it also when another object in memory takes it up', async () => {
    const [key, mine] = [freshKey(), caller()];
    await acme.pay({ ...PAYMENT, raise_error: 'crash' }, key, { traceparent: mine.traceparent });
    await until('it is complete', async () => (await acme.key(key)).json().status === 'complete');
    const spans = await collector.trace(mine.traceId, 'run payment');
    assert.equal(one(spans, 'run payment').attributes['paid_once.resumed'], true);
  });
});

describe('a traceparent that is none', () => {
  const { traceId, spanId } = caller();
  const bad = {
    'of no sense': 'hello',
    'with capitals': `00-${traceId.toUpperCase().replace(/^./, 'A')}-${spanId}-01`,
    'without a trace': `00-${'0'.repeat(32)}-${spanId}-01`,
    'without a span': `00-${traceId}-${'0'.repeat(16)}-01`,
    'of the version that cannot be': `ff-${traceId}-${spanId}-01`,
    'that goes on': `00-${traceId}-${spanId}-01-more`,
    twice: `00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`,
  };
  for (const [what, traceparent] of Object.entries(bad))
    test(`${what} begins a new trace`, async () => {
      const headers = { traceparent, tracestate: 'vendor=1' };
      const paid = await acme.pay(PAYMENT, freshKey(), headers);
      assert.equal(paid.status, 201, paid.text);
      const fresh = /desc="00-(\w{32})-\w{16}-01"/.exec(paid.header('server-timing'))[1];
      assert.notEqual(fresh, traceId);
      const root = one(await collector.trace(fresh, 'POST /payments'), 'POST /payments');
      assert.equal(root.parentSpanId, undefined);
      assert.equal(root.traceState, undefined);
    });

  test('but one of a version to come is read as far as it is known', async () => {
    const mine = caller();
    const traceparent = `cc-${mine.traceId}-${mine.spanId}-01-what-will-be`;
    const paid = await acme.pay(PAYMENT, freshKey(), { traceparent });
    assert.equal(paid.status, 201);
    const root = one(await collector.trace(mine.traceId, 'POST /payments'), 'POST /payments');
    assert.equal(root.parentSpanId, mine.spanId);
  });
});

test('a form without a traceparent begins a trace', async () => {
  const visitor = browser(site);
  const { path, form } = await visitor.openOrder();
  await visitor.send(path, form);
  const root = await until('its span', () =>
    collector.spans().find(({ name }) => name === 'POST /checkout/{token}'),
  );
  assert.equal(root.parentSpanId, undefined);
  const spans = await collector.trace(root.traceId, 'KEYS/run', 'KeyObject/run', 'run payment');
  assert.equal(one(spans, 'KeyObject/run').attributes['paid_once.outcome'], 'first');
});

test('a trace that its caller does not record is passed on, and not sent', async () => {
  const [mine, seen] = [caller('00'), caller()];
  const paid = await acme.pay(PAYMENT, freshKey(), { traceparent: mine.traceparent });
  const [sent] = await site.simulator.sends(`${paid.payment}_auth`);
  assert.match(sent.traceparent, new RegExp(`^00-${mine.traceId}-\\w{16}-00$`));
  assert.equal((await lines(mine.traceId, 'request')).length, 1);
  // Control: what comes after it is.
  await acme.pay(PAYMENT, freshKey(), { traceparent: seen.traceparent });
  await collector.trace(seen.traceId, 'POST /payments', 'run payment');
  assert.deepEqual(
    collector.spans().filter(({ traceId }) => traceId === mine.traceId),
    [],
  );
});

describe('spans', () => {
  test('come to the collector at its address, with its headers', () => {
    for (const { method, url, headers } of collector.requests) {
      assert.deepEqual([method, url], ['POST', '/v1/traces']);
      assert.equal(headers['content-type'], 'application/json');
      assert.equal(headers['x-api-key'], COLLECTOR_KEY);
      assert.equal(headers['x-scope'], 'pay,ments');
      assert.equal(headers.authorization, undefined);
    }
  });

  test('hold nothing secret: no key, no token, no address of an order, no card, no email', async () => {
    const [key, mine] = [freshKey(), caller()];
    const email = 'somebody.private@example.com';
    const body = { ...PAYMENT, receipt_email: email, description: 'a very private thing' };
    const paid = await acme.pay(body, key, { traceparent: mine.traceparent });
    const visitor = browser(site);
    const { path, form } = await visitor.openOrder();
    await visitor.send(path, form);
    await acme.ask(`/nowhere?secret=${key}`);
    const wrong = 'a-wrong-token-with-a-typing-error';
    assert.equal((await account(site, wrong).pay(PAYMENT, freshKey())).status, 401);
    const spans = await collector.trace(mine.traceId, 'POST /payments', 'process send_receipt');
    await until('the refused one', () =>
      collector.spans().some(({ attributes }) => attributes['http.response.status_code'] === 401),
    );
    const sent = JSON.stringify(collector.requests.map(({ body }) => body));
    const hidden = { key, email, wrong, TOKEN, STRIPE_SECRET_KEY, SIGNING_KEY, COLLECTOR_KEY };
    const others = { form: form.idempotency_key, order: path.split('/').at(-1), text: 'private thing' };
    for (const [what, secret] of Object.entries({ ...hidden, ...others, card: 'pm_card', path: 'nowhere' })) {
      assert.ok(secret.length > 5, what);
      assert.ok(!sent.includes(secret), what);
    }
    // Control: what may be told is found in the same text.
    assert.ok(sent.includes(one(spans, 'run payment').attributes['paid_once.key_hash']));
    assert.ok(sent.includes(paid.header('request-id')));
  });
});

describe('a collector', () => {
  afterEach(() => collector.answer(200));

  test('that never answers holds up no payment', async () => {
    collector.answer('never');
    await acme.pay(PAYMENT, freshKey());
    await until('it is asked', () => collector.waiting() > 0);
    const key = freshKey();
    const paid = await acme.pay(PAYMENT, key);
    assert.equal(paid.status, 201);
    assert.ok(collector.waiting() > 0, 'it still has not answered');
    assert.equal((await acme.key(key)).json().status, 'complete');
    const lost = () => logged().some(({ event, error }) => event === 'spans_lost' && /within/.test(error));
    await until('the log says what was lost', lost);
  });

  test('control: a provider that does not answer is waited for', async () => {
    let isAnswered = false;
    const { answer } = await held(site, () =>
      acme.pay(PAYMENT, freshKey()).then((paid) => {
        isAnswered = true;
        return paid;
      }),
    );
    assert.equal(isAnswered, false);
    await site.simulator.calm();
    await answer;
  });

  test('that refuses what it is sent changes no answer, and is asked again with what comes next', async () => {
    collector.answer(500);
    const before = collector.requests.length;
    const paid = await acme.pay(PAYMENT, freshKey());
    assert.equal(paid.status, 201);
    await until('it has refused', () => collector.requests.length > before);
    collector.answer(200);
    const mine = caller();
    await acme.pay(PAYMENT, freshKey(), { traceparent: mine.traceparent });
    await collector.trace(mine.traceId, 'POST /payments');
  });
});

describe('without OTLP_ENDPOINT', async () => {
  const quiet = await startSite({ vars, secrets });
  const user = account(quiet, TOKEN);
  after(() => quiet.close());
  const state = async (payment) => JSON.stringify(await quiet.objects.dump(payment));

  test('a request without a trace stays without one', async () => {
    const paid = await user.pay(PAYMENT, freshKey());
    const [sent] = await quiet.simulator.sends(`${paid.payment}_auth`);
    assert.equal(sent.traceparent, null);
    assert.doesNotMatch(paid.header('server-timing'), /traceparent/);
    assert.doesNotMatch(await state(paid.payment), /"trace/);
    // The other site's spans may come late.
    assert.ok(!JSON.stringify(collector.requests).includes(paid.header('request-id')));
  });

  test('the trace of a caller goes on to the provider and into the log', async () => {
    const mine = caller();
    const paid = await user.pay(PAYMENT, freshKey(), { traceparent: mine.traceparent });
    const [sent] = await quiet.simulator.sends(`${paid.payment}_auth`);
    assert.match(sent.traceparent, new RegExp(`^00-${mine.traceId}-\\w{16}-01$`));
    assert.ok(quiet.logs().some(({ message }) => message.includes(`"trace_id":"${mine.traceId}"`)));
    assert.match(await state(paid.payment), /"trace/, 'where there is one it is kept');
  });
});
