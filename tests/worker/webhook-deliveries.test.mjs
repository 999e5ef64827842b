// Outgoing webhooks that a shop's server does not take: how they come again, what ends them, and what they hold up.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { startChanged } from './support/changed.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { ADMIN_TOKEN, registry } from './support/own-keys.mjs';
import { assertProblem, client, paid } from './support/payments.mjs';
import { ENDPOINT, put, startReceiver, verified } from './support/receiver.mjs';
import { shards, workersWithShards } from './support/shards.mjs';
import { until } from './support/until.mjs';

const site = await startSite({
  workers: demoWorkers({ vars: { ACCOUNTS_CACHE_MS: '0' }, secrets: { ADMIN_TOKEN } }),
});
const receiver = await startReceiver();
after(async () => {
  receiver.close();
  await site.close();
});

const admin = (path) =>
  site.fetch(path, { method: 'POST', headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });

/** A shop whose server answers with these. */
async function shop(...answers) {
  const made = await registry(site).shop({ own: false, key: null });
  const server = receiver.shop(...answers);
  const use = (url) => put(made.client, { url });
  const endpoint = (await use(server.url)).json();
  return { ...made, user: made.client, server, endpoint, settings: made.use, move: use };
}

/** The job that tells of a payment's first event. */
const rowOf = async ({ id }) =>
  (
    await site.rows(
      "SELECT * FROM job_list WHERE object = ? AND kind = 'deliver_webhook' ORDER BY staged_at_ms LIMIT 1",
      objectId(id),
    )
  )[0];
const ownRow = async ({ job_id }, at = site) =>
  (await at.rows('SELECT * FROM jobs WHERE job_id = ?', job_id))[0];
const becomes = (payment, state) =>
  until(`the delivery of ${payment.id} is ${state}`, async () => {
    const row = await rowOf(payment);
    return row?.state === state && row;
  });
const isLogged = (job, what) =>
  until(`the log has ${job}: ${what}`, () =>
    site.logs().some(({ message }) => message.includes(`"job_id":"${job}"`) && message.includes(what)),
  );

/** The same message each time, signed at the time of each attempt. */
function areSame([first, ...others], secret) {
  verified(first, secret);
  assert.ok(others.length > 0);
  for (const other of others) {
    verified(other, secret);
    assert.equal(other.body, first.body);
    assert.equal(other.headers['webhook-id'], first.headers['webhook-id']);
    assert.ok(Number(other.headers['webhook-timestamp']) > Number(first.headers['webhook-timestamp']));
  }
}

// Each waits for seconds until a message comes again: beside each other.
describe('a message that is not taken', { concurrency: true }, () => {
  for (const [what, answer, error] of [
    ['a failure of the server', 500, '127.0.0.1 has answered 500'],
    ['a refusal', 404, '127.0.0.1 has answered 404'],
    // What stands for the network here answers 500 where there is no connection.
    ['a connection that breaks off', 'reset', '127.0.0.1 has answered 500'],
    ['no answer in 15 s', 'never', '127.0.0.1: no answer within 15000 ms'],
  ])
    test(`comes again as it was after ${what}`, async () => {
      const ada = await shop(answer, 200);
      const payment = await paid(ada.user);
      areSame(await ada.server.has(2), ada.endpoint.secret);
      const row = await becomes(payment, 'done');
      assert.deepEqual([row.attempts, row.result, row.payload], [2, '200 from 127.0.0.1', null]);
      assert.ok(row.history.includes(error), row.history);
    });

  test('comes again where nobody listens, to wherever the endpoint is by then', async () => {
    const ada = await shop();
    await ada.move('http://127.0.0.1:9/nobody');
    const payment = await paid(ada.user);
    const { job_id } = await becomes(payment, 'tried');
    await ada.move(ada.server.url);
    const [request] = await ada.server.has(1);
    assert.equal(request.headers['webhook-id'], job_id);
    assert.equal(verified(request, ada.endpoint.secret).data.id, payment.id);
  });

  test('is kept with what was sent, so that what has changed meanwhile changes nothing', async () => {
    const ada = await shop(500, 200);
    const payment = await paid(ada.user);
    await becomes(payment, 'tried');
    // The payment's audit goes to the read model anew: the same event, with what the payment is by now.
    const refund = await ada.user.post(`/payments/${payment.id}/refunds`, { amount: 100 });
    assert.equal(refund.status, 201, refund.text);
    const { job_id } = await becomes(payment, 'done');
    const sent = ada.server.requests.filter(({ headers }) => headers['webhook-id'] === job_id);
    assert.equal(new Set(sent.map(({ body }) => body)).size, 1);
    assert.equal(JSON.parse(sent[0].body).data.amount_refunded, 0);
  });

  test('is over once the endpoint is removed', async () => {
    const ada = await shop(500);
    const payment = await paid(ada.user);
    await becomes(payment, 'tried');
    assert.equal((await ada.user.ask(ENDPOINT, { method: 'DELETE' })).status, 204);
    const row = await becomes(payment, 'done');
    assert.equal(row.result, 'not sent: the account has no endpoint any more');
    assert.equal(ada.server.requests.length, 1);
  });

  test('of an endpoint that was removed is not sent to one that is made later', async () => {
    const ada = await shop(500);
    const payment = await paid(ada.user);
    await becomes(payment, 'tried');
    // Another isolate may remove it and make it anew before the message comes again; clocks differ by up to a minute.
    await site.rows(
      'UPDATE webhook_endpoints SET created_at_ms = created_at_ms + 120000 WHERE url = ?',
      ada.server.url,
    );
    const row = await becomes(payment, 'done');
    assert.equal(row.result, "not sent: it is of before the account's endpoint was made");
    assert.equal(ada.server.requests.length, 1);
  });

  test('waits while the account is closed, since it may be opened again', async () => {
    const ada = await shop(500);
    const payment = await paid(ada.user);
    await becomes(payment, 'tried');
    const closed = await registry(site).api('PUT', `/${ada.id}`, {
      settings: { payment_method: 'pm_card_visa' },
      state: 'closed',
    });
    assert.equal(closed.status, 200, closed.text);
    const waits = ({ message }) =>
      message.includes('not tried: the account is closed') && message.includes(payment.id);
    await until('it waits', () => site.logs().some(waits));
    const row = await becomes(payment, 'tried');
    assert.deepEqual([row.attempts, ada.server.requests.length], [1, 1], 'that is no attempt');
  });

  test('is dead at once where nothing is wanted any more, and is sent again by an operator', async () => {
    const ada = await shop(410);
    const payment = await paid(ada.user);
    const dead = await becomes(payment, 'dead');
    assert.equal(dead.attempts, 1);
    assert.match(dead.history, /127\.0\.0\.1 has answered 410: it is gone/);
    const page = await site.fetch('/admin/dead-letters?kind=deliver_webhook', {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    assert.ok((await page.text()).includes(encodeURIComponent(dead.job_id)));
    ada.server.answer(204);
    const requeued = await admin('/admin/api/dead-letters/deliver_webhook/requeue');
    assert.equal(requeued.status, 200);
    assert.ok((await requeued.json()).requeued >= 1);
    areSame(await ada.server.has(2), ada.endpoint.secret);
    await becomes(payment, 'done');
  });

  test('is forgotten with the personal data of its payment', async () => {
    const ada = await shop(500);
    const payment = await paid(ada.user, {
      amount: 2500,
      currency: 'usd',
      metadata: { name: 'Ada Lovelace' },
    });
    const { job_id } = await becomes(payment, 'tried');
    assert.ok((await ownRow({ job_id })).payload.includes('Ada Lovelace'), 'control: it is kept');
    assert.equal((await admin(`/admin/payments/${payment.id}/erase`)).status, 200);
    const row = await ownRow({ job_id });
    assert.deepEqual([row.state, row.payload, row.frozen], ['purged', null, null]);
    await isLogged(job_id, 'was over before');
    assert.equal(ada.server.requests.length, 1);

    // A message that was not tried before the erasure, with a version of before: it is not sent either.
    const late = `${payment.id}_event_99`;
    const { DELIVERIES } = await site.worker.getEnv();
    const job = (version) => ({
      version: 1,
      job_id: `${late}${version}`,
      kind: 'deliver_webhook',
      object: objectId(payment.id),
      payload: { account: ada.id, version, body: '{"data":"Ada Lovelace"}' },
      staged_at_ms: Date.now(),
      apart: {},
    });
    const newer = 1_000_000;
    ada.server.answer(204);
    for (const version of [1, newer])
      await DELIVERIES.send(JSON.stringify(job(version)), { contentType: 'text' });
    await isLogged(`${late}1`, 'was over before');
    const [, request] = await ada.server.has(2);
    assert.equal(
      request.headers['webhook-id'],
      `${late}${newer}`,
      'control: what is told of it later is sent',
    );
  });
});

test('a dead message is seen by its shop, and sent again by it', async () => {
  const [ada, bob] = [await shop(410), await shop()];
  const deliveries = `${ENDPOINT}/deliveries`;
  const listed = async ({ user }, query = '') => (await user.ask(deliveries + query)).json();
  const payments = [await paid(ada.user), await paid(ada.user)];
  const ids = [];
  for (const payment of payments) ids.unshift((await becomes(payment, 'dead')).job_id);
  const list = await listed(ada);
  assert.deepEqual(
    list.data.map(({ webhook_id }) => webhook_id),
    ids,
  );
  const [, first] = list.data;
  const { created_at, last_attempt_at, ...shown } = first;
  assert.deepEqual(shown, {
    object: 'webhook_delivery',
    webhook_id: ids[1],
    type: 'payment.succeeded',
    payment: payments[0].id,
    state: 'dead',
    attempts: 1,
    error: '127.0.0.1 has answered 410: it is gone',
  });
  assert.ok(Date.parse(created_at) <= Date.parse(last_attempt_at), last_attempt_at);
  const page = await listed(ada, '?limit=1');
  assert.deepEqual([page.has_more, page.data[0].webhook_id], [true, ids[0]]);
  const next = await listed(ada, `?limit=1&starting_after=${ids[0]}`);
  assert.deepEqual([next.has_more, next.data[0].webhook_id], [false, ids[1]]);
  assert.deepEqual((await listed(bob)).data, [], 'of no other shop');
  assertProblem(await ada.user.ask(`${deliveries}?starting_after=x`), 422, 'invalid-parameters');

  const requeue = ({ user }, id) => user.post(`${deliveries}/${id}/requeue`);
  assertProblem(await requeue(bob, ids[1]), 404, 'not-found');
  ada.server.answer(500, 204);
  const answer = await requeue(ada, ids[1]);
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual([answer.json().webhook_id, answer.json().state], [ids[1], 'trying']);
  await becomes(payments[0], 'tried');
  const again = await requeue(ada, ids[1]);
  assert.deepEqual([again.status, again.json().state], [200, 'trying'], 'it stays as it is');
  const all = await listed(ada, '?state=all');
  assert.deepEqual(
    all.data.map(({ state }) => state),
    ['dead', 'trying'],
  );
  await becomes(payments[0], 'done');
  const sent = ada.server.requests.filter(({ headers }) => headers['webhook-id'] === ids[1]);
  areSame(sent, ada.endpoint.secret);
  assertProblem(await requeue(ada, ids[1]), 404, 'not-found');
});

test('it is so where it stands in a shard, too', async (t) => {
  const many = await startSite({ workers: workersWithShards({ vars: { ACCOUNTS_CACHE_MS: '0' } }) });
  t.after(() => many.close());
  await shards(many).lay(2, { period: 'month', from_ms: Date.now() - 40 * 86_400_000 });
  const [user, server] = [client(many), receiver.shop(410)];
  assert.equal((await put(user, { url: server.url })).status, 201);
  const { id } = await paid(user);
  const listed = async (query = '') => (await user.ask(`${ENDPOINT}/deliveries${query}`)).json().data;
  const [{ webhook_id, payment }] = await until('it is listed', async () => {
    const data = await listed();
    return data.length > 0 && data;
  });
  assert.equal(payment, id);
  assert.deepEqual(await many.rows('SELECT 1 FROM jobs WHERE job_id = ?', webhook_id), [], 'not in D1');
  server.answer(204);
  const answer = await user.post(`${ENDPOINT}/deliveries/${webhook_id}/requeue`);
  assert.deepEqual([answer.status, answer.json().state], [200, 'trying']);
  const [, again] = await server.has(2);
  assert.equal(again.headers['webhook-id'], webhook_id);
  await until('it is taken', async () => (await listed('?state=all')).length === 0);
});

describe('a server that does not answer', () => {
  test('holds up no projection, no email and no other shop', async () => {
    const [slow, fast] = [await shop('never'), await shop()];
    const theirs = await Promise.all(Array.from({ length: 12 }, () => paid(slow.user)));
    await slow.server.has(1);
    const ended = () =>
      site
        .logs()
        .filter(({ message }) => theirs.some(({ id }) => message.includes(`"job_id":"${id}_event`)))
        .filter(({ message }) => message.includes('no answer within 15000 ms')).length;
    const beganMs = Date.now();
    const payment = await paid(fast.user, {
      amount: 2500,
      currency: 'usd',
      receipt_email: 'ada@shop.example',
    });
    assert.deepEqual(await receiptsOf(site, payment.id), [`${payment.id}_receipt`]);
    for (const { id } of [...theirs, payment])
      await until(
        `${id} is shown`,
        async () => (await site.rows('SELECT 1 FROM payments WHERE payment_id = ?', id)).length,
      );
    // On a machine on which that takes as long as the first of these messages it shows nothing.
    if (Date.now() - beganMs < 15_000) assert.equal(ended(), 0, 'they are under way');
    // Here a queue has one batch at a time: with the first of them, which nobody knew to be slow. The others wait for no answer any more.
    await fast.server.has(1);
    assert.ok(ended() < theirs.length, `${ended()} were waited for`);
    // What was not tried has lost none of its attempts, and none of its three days.
    const passedOver = await until('others go first', () =>
      site
        .logs()
        .find(({ message }) => message.includes('not tried: 127.0.0.1 was slow a moment ago'))
        ?.message.match(/"job_id":"([^"]+)"/),
    );
    assert.deepEqual(await ownRow({ job_id: passedOver[1] }), undefined);
  });
});

/** The runtime's own class is changed: workers-rs takes no other object for a queue. */
const FULL_QUEUE = `
import { env } from 'cloudflare:workers';
import Site from '../../src/entry.mjs';

export * from '../../src/entry.mjs';

let isFull = false;
const queue = Object.getPrototypeOf(env.DELIVERIES);
const { sendBatch } = queue;
queue.sendBatch = async function (messages) {
  if (isFull && messages.some(({ body }) => body.includes('"kind":"deliver_webhook"')))
    throw new Error('Too Many Requests');
  return sendBatch.call(this, messages);
};

export default class extends Site {
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith('/_queue/')) return super.fetch(request);
    isFull = pathname.endsWith('/full');
    return new Response();
  }
}
`;

test('what the queue does not take comes again with its projection', async (t) => {
  const full = await startChanged((settings) => settings.replace('"../../src/entry.mjs"', '"entry.mjs"'), {
    vars: { ACCOUNTS_CACHE_MS: '0' },
    files: { 'entry.mjs': FULL_QUEUE },
  });
  t.after(() => full.close());
  const [user, server] = [client(full), receiver.shop()];
  const made = await user.ask(ENDPOINT, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ url: server.url }),
  });
  await full.fetch('/_queue/full');
  const projectOf = async ({ id }) =>
    (await full.rows("SELECT * FROM jobs WHERE object = ? AND kind = 'project'", objectId(id)))[0];
  const fails = async (payment, attempts) =>
    until('its projection has failed', async () => {
      const row = await projectOf(payment);
      return row?.attempts >= attempts && row;
    });
  // It is our queue, and not the job: no attempt is the last one.
  const often = await paid(user);
  const { job_id } = await fails(often, 1);
  await full.rows('UPDATE jobs SET attempts = 90 WHERE job_id = ?', job_id);
  assert.equal((await fails(often, 91)).state, 'tried');
  const payment = await paid(user);
  const { id } = payment;
  const project = await fails(payment, 1);

  // What its shop sends again meanwhile is dead as before.
  const [{ owner }] = await full.rows('SELECT owner FROM payments WHERE payment_id = ?', id);
  const dead = `${id}_event_97`;
  await full.rows(
    `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES (?, 'deliver_webhook', ?, 'dead', 9, ?, 1, '[]', ?, 1)`,
    ...[
      dead,
      objectId(id),
      JSON.stringify({ account: owner.replace('account:', ''), body: '{}' }),
      Date.now(),
    ],
  );
  const refused = await user.post(`${ENDPOINT}/deliveries/${dead}/requeue`);
  assertProblem(refused, 503, 'temporarily-unavailable');
  assert.equal((await ownRow({ job_id: dead }, full)).state, 'dead');
  assert.match(project.history, /its events were not handed on: .*Too Many Requests/);
  const [shown] = await full.rows('SELECT status FROM payments WHERE payment_id = ?', id);
  assert.equal(shown.status, 'succeeded', 'the lists have it all the same');
  await full.fetch('/_queue/empty');
  const [request] = await server.has(1);
  assert.equal(verified(request, made.json().secret).data.id, id);
  await until('the projection is over', async () => {
    const [row] = await full.rows('SELECT state FROM jobs WHERE job_id = ?', project.job_id);
    return row.state === 'done';
  });

  // One that was put back after days tells what was new when it was staged; one that is staged then does not.
  const DAYS_MS = 4 * 86_400_000;
  await full.rows('UPDATE webhook_endpoints SET created_at_ms = created_at_ms - ?', 2 * DAYS_MS);
  const { JOBS } = await full.worker.getEnv();
  const putBack = (audit_id, staged_at_ms) => {
    const payload = JSON.parse(project.payload);
    const [captured] = payload.audit.filter(({ action }) => action === 'payment.captured');
    payload.audit = [{ ...captured, audit_id, at_ms: captured.at_ms - DAYS_MS }];
    const { object, job_id } = project;
    const job = {
      version: 1,
      job_id: `${job_id}${audit_id}`,
      kind: 'project',
      object,
      payload,
      staged_at_ms,
    };
    return JOBS.send(JSON.stringify(job), { contentType: 'text' });
  };
  await putBack(98, project.staged_at_ms);
  await putBack(99, project.staged_at_ms - DAYS_MS);
  const isTold = ({ headers }) => headers['webhook-id'].startsWith(`${id}_event_9`);
  const told = await until(
    'it is told',
    () => server.requests.some(isTold) && server.requests.filter(isTold),
  );
  assert.deepEqual([...new Set(told.map(({ headers }) => headers['webhook-id']))], [`${id}_event_99`]);
});
