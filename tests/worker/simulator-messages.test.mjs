// The simulator's text messages: a provider without idempotency keys, which says where it can that nothing was sent.

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import { shareSimulator } from './support/lone-simulator.mjs';
import { until } from './support/until.mjs';

let lone;
before(async () => {
  lone = await shareSimulator();
});
after(() => lone.close());
beforeEach(() => lone.reset());

const message = (more = {}) => ({ to: '+14155550100', body: 'A ride waits.', reference: 'ride_1', ...more });
const send = (json = message(), headers = {}) =>
  lone.request('/sms/messages', { json, headers: { Authorization: 'Bearer any', ...headers } });
const sent = async (query = '') => (await lone.sim('GET', `messages${query}`)).messages;

test('every call sends again, under the same reference and the same key too', async () => {
  const headers = { 'Idempotency-Key': 'job_1' };
  const [first, second] = [await send(message(), headers), await send(message(), headers)];
  assert.deepEqual([first.status, first.body.status], [201, 'queued']);
  assert.notEqual(first.body.id, second.body.id);
  assert.deepEqual(
    (await sent()).map(({ id, to, body, reference }) => [id, to, body, reference]),
    [first, second].map((answer) => [answer.body.id, '+14155550100', 'A ride waits.', 'ride_1']),
  );
  await send(message({ reference: undefined }));
  assert.deepEqual([(await sent('?reference=ride_1')).length, (await sent()).length], [2, 3]);
});

test('what cannot be sent is refused, and the provider says that nothing was', async () => {
  for (const [json, status] of [
    [message({ to: '555' }), 422],
    [message({ to: undefined }), 422],
    [message({ body: '' }), 422],
    [message({ body: 'x'.repeat(1601) }), 422],
    [message({ reference: 'r'.repeat(101) }), 422],
    [message({ other: 1 }), 422],
  ]) {
    const answer = await send(json);
    assert.deepEqual([answer.status, answer.body.safe_to_retry], [status, true], JSON.stringify(json));
  }
  const unreadable = await lone.request('/sms/messages', {
    method: 'POST',
    body: 'to=1',
    headers: { Authorization: 'Bearer any' },
  });
  assert.deepEqual([unreadable.status, unreadable.body.safe_to_retry], [400, true]);
  assert.equal((await send(message(), { Authorization: '' })).status, 401);
  assert.deepEqual(await sent(), []);
});

test('an error says whether something was sent; a silence does not', async () => {
  for (const [fault, status, error, safe, count] of [
    ['rate_limited', 429, 'rate_limited', true, 0],
    ['error_before', 503, 'unavailable', true, 0],
    ['lock_timeout', 503, 'unavailable', true, 0],
    ['error_after', 503, 'unavailable', false, 1],
  ]) {
    await lone.reset();
    await lone.fault(fault, { path: '/sms/' });
    const answer = await send();
    assert.deepEqual(
      [answer.status, answer.body.error, answer.body.safe_to_retry, (await sent()).length],
      [status, error, safe, count],
      fault,
    );
  }
  for (const [fault, count] of [
    ['connection_reset', 0],
    ['connection_reset_after', 1],
  ]) {
    await lone.reset();
    await lone.fault(fault, { path: '/sms/' });
    await assert.rejects(send(), fault);
    assert.equal((await sent()).length, count, fault);
  }
});

test('a lost answer has sent, and the log shows it', async () => {
  await lone.fault('response_lost', { path: '/sms/' });
  const gone = new AbortController();
  const asked = lone.request('/sms/messages', {
    json: message(),
    headers: { Authorization: 'Bearer any' },
    signal: gone.signal,
  });
  asked.catch(() => {});
  await until('it is sent', async () => (await sent()).length === 1);
  gone.abort();
  await assert.rejects(asked);
  await lone.sim('DELETE', 'faults');
  await send();
  const { requests } = await lone.sim('GET', 'requests');
  assert.deepEqual(
    requests.map(({ provider, path, fault, status }) => [provider, path, fault, status]),
    [
      ['sms', '/sms/messages', 'response_lost', null],
      ['sms', '/sms/messages', null, 201],
    ],
  );
});
