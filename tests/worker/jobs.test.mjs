// What follows from money that moves: emails, the rows of the read model. Each leaves the object
// that staged it through the queue, is done once by its id, and is forgotten there only when it is over.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, USER, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { LOOKS_SOON, jobsForgotten, jobsOf, receiptsOf } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import {
  AUTHORISATION,
  DECLINED_CARD,
  PAYMENT,
  client,
  freshOrder,
  moved,
  paid,
} from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { until } from './support/until.mjs';

const EMAILS = { path: '/resend/' };
/** An account that has no address for receipts. */
const NO_ADDRESS = 'a-token-of-an-account-without-an-address';
const API_ACCOUNTS = JSON.stringify({
  mute: {
    token_sha256: createHash('sha256').update(NO_ADDRESS).digest('hex'),
    payment_method: 'pm_card_visa',
  },
});

const site = await startSite({ secrets: { API_ACCOUNTS } });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const rowOf = async (job) => (await site.rows('SELECT * FROM job_list WHERE job_id = ?', job))[0];
/** The row of a job, once it is in this state. */
const becomes = (job, state) =>
  until(
    `${job} is ${state}`,
    async () => {
      const row = await rowOf(job);
      return row?.state === state && row;
    },
    { everyMs: 50 },
  );
const errors = ({ history }) => JSON.parse(history).map(({ error }) => error);

/** Gives the queue messages as an object does: again, or as the queue does when it delivers one twice. */
async function deliver(...jobs) {
  const { JOBS } = await site.worker.getEnv();
  for (const job of jobs)
    await JOBS.send(JSON.stringify({ version: 1, staged_at_ms: Date.now(), ...job }), {
      contentType: 'text',
    });
}

/** The consumer has said that it is over with a job so often. */
const heardOf = (job, times = 1) =>
  until(
    `${times} ends of ${job}`,
    () =>
      site.logs().filter(({ message }) => message.includes('job_over') && message.includes(job)).length >=
      times,
    { everyMs: 50 },
  );

/** A message about a receipt that nobody has staged: its id is new. */
function receiptJob(payment, more = {}) {
  const payload = {
    about: 'paid',
    to: USER,
    resource: payment,
    amount_minor: 2500,
    currency: 'usd',
    order_id: null,
    at_ms: 1_790_000_000_000,
  };
  return {
    job_id: `${payment}_test_receipt`,
    kind: 'send_receipt',
    object: objectId(payment),
    payload,
    ...more,
  };
}

const messageJob = (payment) => ({
  job_id: `${payment}_test_dispatch`,
  kind: 'send_message',
  object: objectId(payment),
  payload: { body: 'A ride is yours.' },
});

/** The row of a job as a release before has left it. */
const rowLeft = ({ job_id, object }, state) =>
  site.rows(
    `INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
     VALUES (?, 'send_message', ?, ?, 1, 0, '[]', 0, 0)`,
    job_id,
    object,
    state,
  );

/** The emails that were asked for under a key. */
const sends = async (key) =>
  (await site.simulator.sends(key)).map(({ status, body_sha256 }) => [status, body_sha256]);

describe('an email', () => {
  test('tells of a payment, once, under a key that is its own', async () => {
    const order_id = freshOrder();
    const { id } = await paid(user, { ...PAYMENT, order_id, receipt_email: 'ada@example.com' });
    assert.deepEqual(await receiptsOf(site, id), [`${id}_receipt`]);
    const [email, ...more] = await site.simulator.emails(id);
    assert.deepEqual(more, []);
    assert.deepEqual(
      [email.to, email.from, email.subject],
      [['ada@example.com'], 'Paid Once <receipts@paid-once.example>', 'Your receipt: $25.00'],
    );
    for (const part of [email.html, email.text])
      for (const word of ['$25.00', id, order_id, 'Visa ···· 4242'])
        assert.ok(part.includes(word), `${word}: ${part}`);
    assert.equal((await site.simulator.sends(`${id}_receipt`)).length, 1);
    const row = await rowOf(`${id}_receipt`);
    assert.deepEqual([row.state, row.attempts, row.result], ['done', 1, email.id]);
    assert.deepEqual([row.payload, row.frozen], [null, null], 'the address is kept no longer than needed');
  });

  test('tells of each refund, and of a payment that was called off', async () => {
    const { id } = await paid(user);
    const first = await moved(user, id, 'refunds', { amount: 700 });
    const second = await moved(user, id, 'refunds', { amount: 300 });
    const expected = [`${id}_receipt`, `${first.id}_receipt`, `${second.id}_receipt`].sort();
    assert.deepEqual(await receiptsOf(site, id), expected);
    const [refund] = await site.simulator.emails(first.id);
    assert.deepEqual([refund.to, refund.subject], [[USER], 'Your refund: $7.00']);

    const { id: reserved } = await paid(user, AUTHORISATION);
    assert.deepEqual(await receiptsOf(site, reserved), [], 'nothing has moved yet');
    await moved(user, reserved, 'void');
    assert.deepEqual(await receiptsOf(site, reserved), [`${reserved}_void_1_receipt`]);
    assert.equal((await site.simulator.emails(reserved))[0].subject, 'Not charged: $25.00');
  });

  test('tells of what was captured, not of what was reserved', async () => {
    const { id } = await paid(user, AUTHORISATION);
    await moved(user, id, 'capture', { amount: 1500 });
    assert.deepEqual(await receiptsOf(site, id), [`${id}_receipt`]);
    assert.equal((await site.simulator.emails(id))[0].subject, 'Your receipt: $15.00');
  });

  test('is not sent where there is no address, nor about a card that was declined', async () => {
    const mute = client(site, NO_ADDRESS);
    const { id } = await paid(mute);
    await moved(mute, id, 'refunds');
    assert.deepEqual(await jobsOf(site, id), []);
    const declined = await user.pay({ ...PAYMENT, payment_method: DECLINED_CARD }, freshKey());
    assert.deepEqual(await jobsOf(site, declined.payment), []);
  });

  test('is sent once, however often its message comes', async () => {
    const { id } = await paid(user, { ...PAYMENT, receipt_email: 'twice@example.com' });
    await receiptsOf(site, id);
    const job = receiptJob(id);
    await deliver(job, job);
    await heardOf(job.job_id, 2);
    await deliver(job);
    await heardOf(job.job_id, 3);
    assert.equal((await site.simulator.emails(id)).length, 2, 'that of the payment, and this one');
    assert.equal((await rowOf(job.job_id)).state, 'done');
  });
});

describe('an email that', () => {
  for (const fault of [
    'error_before',
    'error_after',
    'rate_limited',
    'connection_reset',
    'connection_reset_after',
    'unreadable_answer',
  ])
    test(`meets ${fault} is sent again, the same bytes under the same key, and there is one`, async () => {
      const { id } = await paid(client(site, NO_ADDRESS));
      const job = receiptJob(id);
      await site.simulator.fault(fault, EMAILS);
      await deliver(job);
      const tried = await becomes(job.job_id, 'tried');
      assert.deepEqual([tried.attempts, errors(tried).length], [1, 1]);
      if (fault === 'unreadable_answer') assert.deepEqual(errors(tried), ["200, and no answer of Resend's"]);
      // The queue brings it back after five seconds; an object that has lost patience does it at once.
      await deliver(job);
      assert.equal((await becomes(job.job_id, 'done')).attempts, 2);
      const [first, second] = await sends(job.job_id);
      assert.equal(first[1], second[1]);
      assert.equal((await site.simulator.emails(id)).length, 1);
    });

  test('failed is tried again by itself, after a pause', async () => {
    await site.simulator.fault('error_before', { ...EMAILS, count: 1 });
    const { id } = await paid(user);
    assert.deepEqual(await receiptsOf(site, id), [`${id}_receipt`]);
    const [first, second] = await site.simulator.sends(`${id}_receipt`);
    assert.ok(second.at_ms - first.at_ms >= 5_000, `${second.at_ms - first.at_ms} ms`);
    const row = await rowOf(`${id}_receipt`);
    assert.deepEqual([row.attempts, errors(row)], [2, ['500 application_error']]);
    assert.equal((await site.simulator.emails(id)).length, 1);
  });

  test('waits for a slow provider is sent once', async () => {
    await site.simulator.fault('slow', { ...EMAILS, delay_ms: 700 });
    const { id } = await paid(user);
    assert.deepEqual(await receiptsOf(site, id), [`${id}_receipt`]);
    assert.equal((await rowOf(`${id}_receipt`)).attempts, 1);
    assert.equal((await site.simulator.emails(id)).length, 1);
  });

  test('has failed for the last time is a dead letter with its history', async () => {
    await site.simulator.fault('error_before', { ...EMAILS, count: 2 });
    const { id } = await paid(user);
    const job = receiptJob(id, { job_id: `${id}_receipt` });
    await becomes(job.job_id, 'tried');
    assert.deepEqual(
      (await site.objects.jobs(id)).filter(({ kind }) => kind === 'send_receipt').map(({ job_id }) => job_id),
      [job.job_id],
    );
    // As if the pauses of an hour and more were over.
    await site.rows('UPDATE jobs SET attempts = 4 WHERE job_id = ?', job.job_id);
    await deliver(job);
    const dead = await becomes(job.job_id, 'dead');
    assert.deepEqual([dead.attempts, errors(dead)], [5, ['500 application_error', '500 application_error']]);
    assert.ok(dead.payload.includes(id), 'what it carried is kept: it can be requeued');
    await receiptsOf(site, id);
    // Whatever still comes for it finds it over.
    await deliver(job);
    await heardOf(job.job_id, 2);
    assert.deepEqual(await site.simulator.emails(id), []);
  });

  test('differs from what was sent under its key is a dead letter', async () => {
    const { id } = await paid(client(site, NO_ADDRESS));
    const job = receiptJob(id);
    await site.simulator.send(job.job_id, {
      from: 'a@b.example',
      to: USER,
      subject: 'Another',
      text: 'Another',
    });
    await deliver(job);
    assert.match(errors(await becomes(job.job_id, 'dead'))[0], /another email/);
    assert.deepEqual(await site.simulator.emails(id), []);
  });

  test('was first tried a day ago is not sent again: its key may be forgotten there', async () => {
    const { id } = await paid(client(site, NO_ADDRESS));
    const job = receiptJob(id);
    await site.simulator.fault('connection_reset_after', EMAILS);
    await deliver(job);
    await becomes(job.job_id, 'tried');
    await site.rows(
      'UPDATE jobs SET first_at_ms = first_at_ms - ? WHERE job_id = ?',
      24 * 3_600_000,
      job.job_id,
    );
    await deliver(job);
    await becomes(job.job_id, 'dead');
    assert.equal((await sends(job.job_id)).length, 1);
  });
});

describe('an email without a row', () => {
  test('is not sent a day after it was staged: it may have been sent before, and its key be forgotten there', async () => {
    const { id } = await paid(client(site, NO_ADDRESS));
    const staged = (job_id, hours) =>
      receiptJob(id, { job_id, staged_at_ms: Date.now() - hours * 3_600_000 });
    const [late, control] = [staged(`${id}_late_receipt`, 24), staged(`${id}_control_receipt`, 22)];
    await deliver(late, control);
    const dead = await becomes(late.job_id, 'dead');
    assert.match(errors(dead)[0], /can no longer be found out/);
    await becomes(control.job_id, 'done');
    assert.deepEqual([(await sends(late.job_id)).length, (await sends(control.job_id)).length], [0, 1]);
  });
});

describe('a message to the pilot, which only releases before have staged,', () => {
  test('is not sent, and a person is told so', async () => {
    const job = messageJob((await paid(user)).id);
    await deliver(job);
    assert.match(errors(await becomes(job.job_id, 'dead'))[0], /no longer sent: purge this job/);
    await deliver(job);
    await heardOf(job.job_id, 2);
    assert.equal(errors(await rowOf(job.job_id)).length, 1);
    assert.deepEqual(await site.simulator.messages(job.job_id), []);
  });

  test('and whose try broke off has an unknown outcome', async () => {
    const job = messageJob((await paid(user)).id);
    await rowLeft(job, 'attempted');
    await deliver(job);
    assert.match(errors(await becomes(job.job_id, 'dead'))[0], /outcome unknown/);
    assert.deepEqual(await site.simulator.messages(job.job_id), []);
  });

  test('and was sent then is over', async () => {
    const job = messageJob((await paid(user)).id);
    await rowLeft(job, 'done');
    await deliver(job);
    await heardOf(job.job_id);
    const { state, history } = await rowOf(job.job_id);
    assert.deepEqual([state, history], ['done', '[]']);
  });
});

describe('what a payment leaves to be done', async () => {
  const looking = await startSite({ vars: { OUTBOX_MS: '1500' } });
  after(() => looking.close());
  const rowsOf = async (id) =>
    (await looking.objects.stored(id, 'SELECT state FROM timeline WHERE id = 0'))[0];
  const alarmsOf = (id) =>
    looking.logs().filter(({ message }) => message.includes('outbox') && message.includes(objectId(id)));

  test('goes in one message, and is forgotten with one look once it is over', async () => {
    // On a slow machine the look may come before it is seen what is staged: then that of another payment is.
    const { id, staged, state } = await until('what is staged is seen', async () => {
      const { id } = await paid(client(looking));
      await receiptsOf(looking, id);
      const staged = await looking.objects.jobs(id);
      const { state } = await rowsOf(id);
      return (await looking.objects.jobs(id)).length > 0 && { id, staged, state };
    });
    assert.deepEqual(
      staged.map(({ kind, sends }) => [kind, sends]).sort(),
      [
        ['project', 0],
        ['send_receipt', 0],
      ],
      'that the queue has them is not written down',
    );
    assert.equal(new Set(staged.map(({ next_at_ms }) => next_at_ms)).size, 1, 'they are looked at together');
    await jobsForgotten(looking, id);
    assert.notEqual((await rowsOf(id)).state, state);
    assert.deepEqual(alarmsOf(id), [], 'nothing was complained of');
  });

  test('is done alone where it fails beside something else', async () => {
    await looking.simulator.fault('error_before', { ...EMAILS, count: 1 });
    const { id } = await paid(client(looking));
    assert.deepEqual(await receiptsOf(looking, id), [`${id}_receipt`]);
    const ends = looking.logs().filter(({ message }) => message.includes('job_over'));
    const projections = ends.filter(({ message }) => message.includes(`${objectId(id)}_project_`));
    assert.equal(projections.length, 1, 'the projection did not come again with it');
    assert.equal((await looking.simulator.emails(id)).length, 1);
  });
});

describe('a job that is not over for long', async () => {
  const forgetful = await startSite({ vars: { CONFIRM_MS: '400' } });
  after(() => forgetful.close());

  test('is given to the queue again, and done once', async () => {
    await forgetful.simulator.fault('slow', { ...EMAILS, delay_ms: 60_000 });
    const { id } = await paid(client(forgetful));
    await until('it is sent again', async () => {
      const staged = await forgetful.objects.jobs(id);
      return staged.some(({ kind, sends: times }) => kind === 'send_receipt' && times >= 2);
    });
    await forgetful.simulator.calm();
    assert.deepEqual(await receiptsOf(forgetful, id), [`${id}_receipt`]);
    assert.equal((await forgetful.simulator.emails(id)).length, 1);
  });
});

describe('the count of jobs', async () => {
  const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
  const counted = await startSite({ secrets: { ADMIN_TOKEN } });
  after(() => counted.close());

  test('counts the end of each once, however often its message comes', async () => {
    const { JOBS } = await counted.worker.getEnv();
    const send = (job) =>
      JOBS.send(JSON.stringify({ version: 1, staged_at_ms: Date.now(), ...job }), { contentType: 'text' });
    const ends = (job) =>
      counted.logs().filter(({ message }) => message.includes('job_over') && message.includes(job)).length;
    const done = async () => {
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
      const text = await (await counted.fetch('/metrics', { headers })).text();
      return parse(text).sum('jobs_total', { kind: 'send_receipt', outcome: 'done' });
    };
    const { id } = await paid(client(counted));
    await receiptsOf(counted, id);
    await until('its receipt is counted', async () => (await done()) === 1);
    const job = receiptJob(id);
    for (const times of [1, 2, 3]) {
      await send(job);
      await until('it is over', () => ends(job.job_id) === times);
    }
    const last = receiptJob(id, { job_id: `${id}_last` });
    await send(last);
    await until('the last one is counted', async () => (await done()) >= 3);
    assert.equal(await done(), 3);
  });
});

describe('the read model', async () => {
  const looking = await startSite({ vars: LOOKS_SOON });
  const owner = client(looking);
  after(() => looking.close());
  const versionOf = async (id) =>
    (await site.rows('SELECT version FROM payments WHERE payment_id = ?', id))[0].version;

  test('says of a payment, its refunds, keys and audit what its object says', async () => {
    const order_id = freshOrder();
    const { id } = await paid(user, { ...AUTHORISATION, order_id });
    await moved(user, id, 'capture', { amount: 2000 });
    const refund = await moved(user, id, 'refunds', { amount: 500, reason: 'duplicate' });
    await jobsOf(site, id);
    const shown = (await user.payment(id)).json();
    const [row] = await site.rows('SELECT * FROM payments WHERE payment_id = ?', id);
    assert.deepEqual(JSON.parse(row.shown), shown);
    assert.deepEqual(
      [
        row.object,
        row.owner,
        row.status,
        row.amount_minor,
        row.captured_minor,
        row.refunded_minor,
        row.currency,
      ],
      [objectId(id), `account:${USER}`, 'succeeded', 2500, 2000, 500, 'usd'],
    );
    assert.deepEqual(
      [row.provider, row.provider_payment, row.order_id],
      ['stripe', shown.provider_payment, order_id],
    );
    const refunds = await site.rows('SELECT * FROM refunds WHERE payment_id = ?', id);
    assert.deepEqual(
      refunds.map((one) => [one.refund_id, one.status, one.amount_minor, one.reason, one.provider_refund]),
      [[refund.id, 'succeeded', 500, 'duplicate', refund.provider_refund]],
    );
    const face = ({ key_id, key_hash, status, recovery_point, response_status }) => [
      key_id,
      key_hash,
      status,
      recovery_point,
      response_status,
    ];
    const keys = await site.rows('SELECT * FROM key_list WHERE object = ? ORDER BY key_id', objectId(id));
    assert.deepEqual(keys.map(face), (await site.objects.keys(id)).map(face));
    assert.deepEqual(
      keys.map(({ operation }) => operation),
      ['payment', 'capture', 'refund'],
    );
    const audited = ({ audit_id, action, subject, actor, at_ms }) => [
      audit_id,
      action,
      subject,
      actor,
      at_ms,
    ];
    const audit = await site.rows(
      'SELECT * FROM audit_trail WHERE object = ? ORDER BY audit_id',
      objectId(id),
    );
    assert.deepEqual(audit.map(audited), (await site.objects.audit(id)).map(audited));
  });

  test('knows of a run that takes long before it ends', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const answer = user.pay(PAYMENT, key);
    const open = await until('an open key', async () => {
      const rows = await site.rows("SELECT * FROM keys WHERE status = 'open'");
      return rows.length === 1 && rows[0];
    });
    assert.ok(open.wake_at_ms > Date.now());
    await site.simulator.calm();
    const { payment } = await answer;
    assert.equal(objectId(payment), open.object);
    await jobsOf(site, payment);
    assert.deepEqual(await site.rows("SELECT * FROM keys WHERE status = 'open'"), []);
  });

  test('is changed neither by an old snapshot that comes late nor by one that comes twice', async () => {
    const { id } = await paid(user);
    await moved(user, id, 'refunds', { amount: 500 });
    await jobsOf(site, id);
    const all = async () => ({
      payments: await site.rows('SELECT * FROM payments WHERE payment_id = ?', id),
      refunds: await site.rows('SELECT * FROM refunds WHERE payment_id = ?', id),
      keys: await site.rows('SELECT * FROM key_list WHERE object = ?', objectId(id)),
      audit: await site.rows('SELECT * FROM audit_trail WHERE object = ? ORDER BY audit_id', objectId(id)),
    });
    const before = await all();
    const version = await versionOf(id);
    const snapshot = (at) => {
      const [payment] = before.payments;
      const stale = (row) => ({ ...row, version: undefined, updated_at_ms: undefined });
      return {
        job_id: `${objectId(id)}_test_${at}_${Math.random()}`,
        kind: 'project',
        object: objectId(id),
        payload: {
          object: objectId(id),
          version: at,
          at_ms: Date.now(),
          owner: `account:${USER}`,
          payment: { ...stale(payment), status: 'requires_capture', refunded_minor: 0 },
          refunds: before.refunds.map((row) => ({ ...stale(row), status: 'pending' })),
          keys: before.keys.map((row) => ({ ...stale(row), status: 'open' })),
          audit: before.audit.map((row) => ({ ...row, action: 'never.happened' })),
        },
      };
    };
    for (const late of [snapshot(version - 1), snapshot(version)]) {
      await deliver(late);
      await heardOf(late.job_id);
      assert.deepEqual(await all(), before);
    }
    // The control: a newer one is taken in.
    const newer = snapshot(version + 1);
    await deliver(newer);
    await heardOf(newer.job_id);
    assert.equal((await all()).payments[0].status, 'requires_capture');
  });

  test('gets an audit that is too large for one message in parts, and no receipt waits for it', async () => {
    const { id } = await paid(owner);
    await jobsForgotten(looking, id);
    await looking.objects.sql(
      id,
      `WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 110)
       INSERT INTO audit_records (at_ms, actor, action, subject, data)
       SELECT 1, 'account:a', 'test.large', ?, json_object('text', printf('%.*c', 3000, '"')) FROM many`,
      id,
    );
    const refund = await moved(owner, id, 'refunds', { amount: 500 });
    await jobsForgotten(looking, id);
    assert.ok((await receiptsOf(looking, id)).includes(`${refund.id}_receipt`));
    const audit = await looking.rows(
      'SELECT audit_id FROM audit_trail WHERE object = ? ORDER BY audit_id',
      objectId(id),
    );
    assert.deepEqual(
      audit.map(({ audit_id }) => audit_id),
      (await looking.objects.audit(id)).map(({ audit_id }) => audit_id),
    );
  });

  test('gets the audit of a snapshot that died with the next one', async () => {
    const { id } = await paid(owner);
    await jobsForgotten(looking, id);
    const object = objectId(id);
    const auditOf = () =>
      looking.rows('SELECT audit_id FROM audit_trail WHERE object = ? ORDER BY 1', object);
    const through = async () => (await looking.objects.sql(id, 'SELECT audit_through FROM projection'))[0];
    const [before, told] = [await through(), await auditOf()];
    // D1 takes no audit of this object, and it was so for all but the last try.
    await looking.rows(
      `CREATE TRIGGER no_audit BEFORE INSERT ON audit_records WHEN new.object = '${object}'
       BEGIN SELECT RAISE(ABORT, 'no audit today'); END`,
    );
    try {
      await moved(owner, id, 'refunds', { amount: 500 });
      const [{ job_id }] = await until('a try has failed', async () => {
        const rows = await looking.rows(
          "SELECT job_id FROM jobs WHERE object = ? AND kind = 'project' AND state = 'tried'",
          object,
        );
        return rows.length > 0 && rows;
      });
      await looking.rows('UPDATE jobs SET attempts = 4 WHERE job_id = ?', job_id);
      await jobsForgotten(looking, id);
      const [{ state }] = await looking.rows('SELECT state FROM jobs WHERE job_id = ?', job_id);
      assert.equal(state, 'dead');
    } finally {
      await looking.rows('DROP TRIGGER no_audit');
    }
    assert.deepEqual([await through(), await auditOf()], [before, told], 'none has arrived');
    await moved(owner, id, 'refunds', { amount: 100 });
    await jobsForgotten(looking, id);
    assert.deepEqual(
      (await auditOf()).map(({ audit_id }) => audit_id),
      (await looking.objects.audit(id)).map(({ audit_id }) => audit_id),
    );
  });
});
