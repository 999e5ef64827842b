// The simulator's Resend: what is sent, what is sent only once, and the mailbox in which people and tests read it.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import { DAY_MS, shareSimulator } from './support/lone-simulator.mjs';
import { until } from './support/until.mjs';

let lone;
before(async () => {
  lone = await shareSimulator();
});
after(() => lone.close());
beforeEach(() => lone.reset());

const receipt = (more = {}) => ({
  from: 'Paid Once <receipts@paid-once.test>',
  to: 'ada@shop.test',
  subject: 'Your receipt',
  html: '<h1>Paid</h1>',
  text: 'Paid.',
  ...more,
});

const send = (json, key, headers = {}) =>
  lone.request('/resend/emails', {
    json,
    headers: { Authorization: 'Bearer re_any', ...(key && { 'Idempotency-Key': key }), ...headers },
  });
const mailbox = async () => (await lone.sim('GET', 'mailbox.json')).emails;
const problem = ({ status, body }) => {
  assert.equal(body.statusCode, status);
  assert.equal(typeof body.message, 'string');
  return [status, body.name];
};

describe('an email', () => {
  test('is in the mailbox and can be read by its id', async () => {
    const sent = await send(
      receipt({
        to: ['ada@shop.test', 'Grace <grace@shop.test>'],
        reply_to: 'help@paid-once.test',
        headers: { 'X-Entity-Ref-ID': 'job_1' },
        tags: [{ name: 'kind', value: 'receipt' }],
      }),
    );
    assert.equal(sent.status, 200);
    assert.deepEqual(Object.keys(sent.body), ['id']);
    assert.match(sent.body.id, /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    const [email] = await mailbox();
    assert.deepEqual(
      [email.id, email.to, email.reply_to, email.tags, email.headers['X-Entity-Ref-ID'], email.last_event],
      [
        sent.body.id,
        ['ada@shop.test', 'Grace <grace@shop.test>'],
        ['help@paid-once.test'],
        [{ name: 'kind', value: 'receipt' }],
        'job_1',
        'delivered',
      ],
    );
    const headers = { Authorization: 'Bearer re_any' };
    assert.deepEqual((await lone.request(`/resend/emails/${email.id}`, { headers })).body, email);
    assert.deepEqual(problem(await lone.request('/resend/emails/nowhere', { headers })), [404, 'not_found']);
  });

  test('is refused as Resend refuses it, and then nothing is sent', async () => {
    const missing = [422, 'missing_required_field'];
    const invalid = [422, 'validation_error'];
    for (const [json, expected] of [
      [receipt({ from: undefined }), missing],
      [receipt({ to: undefined }), missing],
      [receipt({ subject: undefined }), missing],
      [receipt({ html: undefined, text: undefined }), missing],
      [receipt({ from: 'nobody' }), invalid],
      [receipt({ to: ['ada@shop.test', 'nobody'] }), invalid],
      [receipt({ to: 'ada@shop.test\r\nBcc: eve@shop.test' }), invalid],
      [receipt({ attachments: [] }), invalid],
    ])
      assert.deepEqual(problem(await send(json)), expected, JSON.stringify(json));
    assert.deepEqual(problem(await send(receipt(), undefined, { Authorization: '' })), [
      401,
      'missing_api_key',
    ]);
    assert.deepEqual(problem(await send(receipt(), undefined, { Authorization: 'Bearer sk_test_1' })), [
      403,
      'invalid_api_key',
    ]);
    assert.deepEqual(
      problem(await lone.request('/resend/emails', { headers: { Authorization: 'Bearer re_any' } })),
      [405, 'method_not_allowed'],
    );
    assert.deepEqual(await mailbox(), []);
  });
});

describe('an idempotency key', () => {
  test('sends one email for 24 hours, whatever the order of the fields', async () => {
    const first = await send(receipt(), 'job_1');
    const reordered = Object.fromEntries(Object.entries(receipt()).reverse());
    assert.equal((await send(reordered, 'job_1')).text, first.text);
    assert.equal((await mailbox()).length, 1);
    await lone.advance(DAY_MS + 1_000);
    assert.notEqual((await send(receipt(), 'job_1')).body.id, first.body.id);
    assert.equal((await mailbox()).length, 2);
  });

  test('has 1 to 256 characters', async () => {
    assert.equal((await send(receipt(), 'k'.repeat(256))).status, 200);
    assert.deepEqual(problem(await send(receipt(), 'k'.repeat(257))), [400, 'invalid_idempotency_key']);
  });

  test('is refused with another payload', async () => {
    await send(receipt(), 'job_1');
    const other = await send(receipt({ subject: 'Another' }), 'job_1');
    assert.deepEqual(problem(other), [409, 'invalid_idempotent_request']);
    assert.equal((await mailbox()).length, 1);
  });

  test('is refused while its first request runs, and replays after it', async () => {
    await lone.fault('slow', { delay_ms: 60_000, path: '/resend/' });
    const running = send(receipt(), 'job_1');
    await until('the request has arrived', async () => (await lone.sim('GET', 'faults')).faults.length === 0);
    assert.deepEqual(problem(await send(receipt(), 'job_1')), [409, 'concurrent_idempotent_requests']);
    await lone.sim('DELETE', 'faults');
    const first = await running;
    assert.equal(first.status, 200);
    assert.equal((await send(receipt(), 'job_1')).text, first.text);
    assert.equal((await mailbox()).length, 1);
  });
});

describe('faults', () => {
  test('before the email is sent leave no trace, after it the key knows the email', async () => {
    for (const [fault, status, name, sent] of [
      ['rate_limited', 429, 'rate_limit_exceeded', 0],
      ['error_before', 500, 'application_error', 0],
      ['error_after', 500, 'application_error', 1],
    ]) {
      await lone.reset();
      await lone.fault(fault);
      assert.deepEqual(problem(await send(receipt(), 'job_1')), [status, name], fault);
      assert.equal((await mailbox()).length, sent, fault);
      const again = await send(receipt(), 'job_1');
      assert.equal(again.status, 200, fault);
      assert.deepEqual(
        (await mailbox()).map(({ id }) => id),
        [again.body.id],
        fault,
      );
    }
  });

  test('an answer that is lost is asked for again under the key', async () => {
    await lone.fault('connection_reset_after');
    await assert.rejects(send(receipt(), 'job_1'));
    const again = await send(receipt(), 'job_1');
    assert.deepEqual(
      (await mailbox()).map(({ id }) => id),
      [again.body.id],
    );
    const { requests } = await lone.sim('GET', 'requests?idempotency_key=job_1');
    assert.deepEqual(
      requests.map(({ provider, fault, status, replayed }) => [provider, fault, status, replayed]),
      [
        ['resend', 'connection_reset_after', null, false],
        ['resend', null, 200, true],
      ],
    );
  });
});

describe('the mailbox for people', () => {
  test('lists emails and text messages, newest first, each escaped', async () => {
    await send(receipt({ subject: 'First' }));
    const { id } = (await send(receipt({ subject: '<script>alert(1)</script>' }))).body;
    await lone.request('/sms/messages', {
      json: { to: '+14155550100', body: '<b>A ride</b>', reference: 'ride_1' },
      headers: { Authorization: 'Bearer any' },
    });
    const { text, headers } = await lone.request('/_sim/mailbox');
    assert.match(headers.get('content-type'), /^text\/html/);
    assert.match(headers.get('content-security-policy'), /default-src 'none'/);
    assert.ok(text.indexOf(`/_sim/mailbox/${id}`) < text.indexOf('First'));
    assert.ok(text.includes('&lt;script&gt;') && text.includes('&lt;b&gt;A ride'));
    assert.ok(!text.includes('<script') && !text.includes('<b>A ride'));
  });

  test("shows an email's HTML in a frame that can do nothing", async () => {
    const html = `<p title='"'>Paid</p><script>parent.document.title = "mine"</script>`;
    const { id } = (await send(receipt({ html, subject: 'A & B' }))).body;
    const { status, text, headers } = await lone.request(`/_sim/mailbox/${id}`);
    assert.equal(status, 200);
    const policy = headers.get('content-security-policy');
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /script-src|connect-src|\*/);
    const [, sandbox] = /<iframe[^>]* sandbox="([^"]*)"/.exec(text);
    assert.doesNotMatch(sandbox, /allow-(scripts|same-origin|forms|top-navigation)/);
    const [, srcdoc] = /srcdoc="([^"]*)"/.exec(text);
    assert.ok(srcdoc.includes('&lt;script&gt;') && srcdoc.includes('&quot;'));
    assert.ok(text.includes('<h1>A &amp; B</h1>') && text.includes('ada@shop.test'));
    assert.ok(!text.includes('<script'));
    assert.equal((await lone.request('/_sim/mailbox/nowhere')).status, 404);
  });
});
