// Emails and projections leave in one message, and neither waits long for the other: what is slow goes on in a queue of its own. And jobs can
// be spread over several queues.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { queuesOf } from '../../scripts/lib/queues.mjs';
import { USER } from './support/account.mjs';
import { deployed } from './support/harness.mjs';
import { jobsOver, receiptsOf } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { PAYMENT, client, paid } from './support/payments.mjs';
import { DEMO, startWithQueues } from './support/queues.mjs';
import { until } from './support/until.mjs';

const EMAILS = { path: '/resend/' };
/** So many emails nobody sends here. */
const MANY = 100_000;
const many = (length, make) => Promise.all(Array.from({ length }, make));

/** A message about a receipt that nobody has staged, as the release before has sent it, or as it goes on by itself. */
function receiptJob(payment, name, more = {}) {
  const payload = {
    about: 'paid',
    to: USER,
    resource: payment,
    amount_minor: 2500,
    currency: 'usd',
    order_id: null,
    at_ms: 1_790_000_000_000,
  };
  const job_id = `${payment}_${name}_receipt`;
  const staged_at_ms = Date.now();
  return {
    version: 1,
    job_id,
    kind: 'send_receipt',
    object: objectId(payment),
    payload,
    staged_at_ms,
    ...more,
  };
}

const send = async (site, binding, job) =>
  (await site.worker.getEnv())[binding].send(JSON.stringify(job), { contentType: 'text' });

const rowOf = async (site, job) => (await site.rows('SELECT * FROM job_list WHERE job_id = ?', job))[0];
const becomes = (site, job, state) =>
  until(`${job} is ${state}`, async () => {
    const row = await rowOf(site, job);
    return row?.state === state && row;
  });

const areShown = (site, payments) =>
  until('they are shown', async () => {
    const ids = JSON.stringify(payments.map(({ id }) => id));
    const rows = await site.rows(
      'SELECT 1 FROM payments WHERE payment_id IN (SELECT value FROM json_each(?))',
      ids,
    );
    return rows.length === payments.length;
  });

/** One email for each, however often it was asked for, and always with the same bytes. */
async function areSentOnce(site, payments) {
  for (const { id } of payments) {
    assert.deepEqual(await receiptsOf(site, id), [`${id}_receipt`]);
    assert.equal((await site.simulator.emails(id)).length, 1);
    const sends = await site.simulator.sends(`${id}_receipt`);
    assert.equal(new Set(sends.map(({ body_sha256 }) => body_sha256)).size, 1);
  }
}

/** Twenty payments whose emails take half a minute each, one of which at least is under way. */
async function twentySlowEmails(site) {
  await site.simulator.fault('slow', { ...EMAILS, count: MANY, delay_ms: 30_000 });
  const user = client(site);
  const slow = await many(20, () => paid(user));
  await until('an email is under way', async () =>
    (await site.simulator.faults()).every(({ remaining }) => remaining < MANY),
  );
  return slow;
}

/** Whether one of these payments was worked on while an email of those was under way, which lasts until it is given up. */
function isWorkedOnBeside(site, others, slow) {
  const isOf = (payments, line) => payments.some(({ id }) => line.includes(`${id}_receipt`));
  const underWay = new Set();
  return site.logs().some(({ message }) => {
    const [, over, batch] = /^batch( over)?: (.*)/.exec(message) ?? [];
    if (!batch) return false;
    if (over) underWay.delete(batch);
    else if (isOf(slow, batch)) underWay.add(batch);
    else return underWay.size > 0 && batch.startsWith(`["${DEMO.JOBS}"`) && isOf(others, batch);
    return false;
  });
}

// Each has a site of its own, and most of them wait until an email is given up or comes again: for half a minute, beside each other.
describe('jobs and their queues', { concurrency: true }, () => {
  describe('the queues of production', () => {
    const { producers, consumers } = deployed('.').queues;

    test('are all worked on, and so are those to which they give messages up', () => {
      const worked = consumers.map(({ queue }) => queue);
      assert.deepEqual(queuesOf({ producers, consumers }).sort(), worked.sort());
      for (const { queue, dead_letter_queue: dead } of consumers)
        assert.equal(dead ? dead.endsWith('-dead') : queue.endsWith('-dead'), true, queue);
    });

    test('are bound to the desk, too, which requeues dead letters', () => {
      const bound = ({ queues }) => queues.producers.map(({ binding, queue }) => [binding, queue]);
      assert.deepEqual(bound(deployed('desk')), bound({ queues: { producers } }));
    });
  });

  describe('a provider that takes half a minute for an email', { concurrency: true }, () => {
    test('holds up no projection, and each email is sent once', async (t) => {
      const site = await startWithQueues(DEMO);
      t.after(() => site.close());
      const slow = await twentySlowEmails(site);
      const user = client(site);
      const payments = [...slow];
      // On a slow machine an email may be given up before the next payments are made. Theirs take as long, so that one is under way again.
      await until('they are worked on while an email is under way', async () => {
        const others = await many(5, () => paid(user));
        await areShown(site, others);
        const isBeside = isWorkedOnBeside(site, others, payments);
        payments.push(...others);
        return isBeside;
      });
      await areShown(site, payments);
      await site.simulator.calm();
      await areSentOnce(site, payments);
      const queues = payments.map(({ id }) => site.queuesOf(`${id}_receipt`));
      assert.ok(
        queues.every(([first]) => first === DEMO.JOBS),
        'all leave with their projection',
      );
      assert.ok(queues.filter((all) => all.includes(DEMO.EMAILS)).length >= 20);
    });

    test('holds up projections where emails have no queue of their own: the control', async (t) => {
      const site = await startWithQueues({ JOBS: DEMO.JOBS });
      t.after(() => site.close());
      const slow = await twentySlowEmails(site);
      const others = await many(5, () => paid(client(site)));
      await areShown(site, others);
      assert.equal(isWorkedOnBeside(site, others, slow), false);
    });

    test('is asked by none once one was slow, and by all again when it is fast', async (t) => {
      const site = await startWithQueues(DEMO);
      t.after(() => site.close());
      const user = client(site);
      await site.simulator.fault('slow', { ...EMAILS, delay_ms: 30_000 });
      const first = await paid(user);
      await areShown(site, [first]);
      // Handed on before it begins: it is sent once, by the queue of emails.
      const second = await paid(user);
      await areSentOnce(site, [second]);
      assert.equal((await site.simulator.sends(`${second.id}_receipt`)).length, 1);
      assert.deepEqual(site.queuesOf(`${second.id}_receipt`), [DEMO.JOBS, DEMO.EMAILS]);
      await site.simulator.calm();
      await areSentOnce(site, [first]);
      await until('it is fast again', async () => {
        const { id } = await paid(user);
        await jobsOver(site, id);
        return site.queuesOf(`${id}_receipt`).length === 1;
      });
    });
  });

  describe('a read model that does not answer', { concurrency: true }, () => {
    const held = async (t, queues, wait) => {
      const site = await startWithQueues(queues);
      t.after(() => site.close());
      const user = client(site);
      await jobsOver(site, (await paid(user)).id);
      await site.holdReadModel();
      const payments = await many(3, () => paid(user));
      const sent = await wait(site, payments);
      await site.letReadModelGo();
      return { site, payments, sent };
    };
    const emailsOf = async (site, payments) =>
      (await Promise.all(payments.map(({ id }) => site.simulator.emails(id)))).flat();

    test('holds up no email, and none is sent twice', async (t) => {
      const { site, payments } = await held(t, DEMO, (site, payments) =>
        until('their emails are sent', async () => (await emailsOf(site, payments)).length === 3),
      );
      await areSentOnce(site, payments);
    });

    test('holds up all emails where they have no queue of their own: the control', async (t) => {
      const { sent } = await held(t, { JOBS: DEMO.JOBS }, async (site, payments) => {
        await until('it was waited for', () =>
          payments.every(({ id }) =>
            site
              .logs()
              .some(({ message }) => message.includes('unfinished') && message.includes(`${id}_receipt`)),
          ),
        );
        return (await emailsOf(site, payments)).length;
      });
      assert.equal(sent, 0);
    });

    test('lets no email go of which its object knows nothing any more', async (t) => {
      const strange = (id) => receiptJob(id, 'strange', { apart: {} });
      const { site, payments } = await held(t, DEMO, async (site, [{ id }]) => {
        const { job_id } = strange(id);
        await send(site, 'EMAILS', strange(id));
        await until('it was waited for', () =>
          site.logs().some(({ message }) => message.includes('unfinished') && message.includes(job_id)),
        );
        assert.deepEqual(await site.simulator.sends(job_id), []);
      });
      // The read model knows that nobody has done it.
      const job = strange(payments[0].id);
      await send(site, 'EMAILS', job);
      const { job_id } = job;
      await becomes(site, job_id, 'done');
      assert.equal((await site.simulator.sends(job_id)).length, 1);
    });
  });

  describe('jobs in several queues', { concurrency: false }, () => {
    const QUEUES = { ...DEMO, JOBS_2: 'paid-once-demo-jobs-2' };
    let site;
    let user;
    before(async () => {
      site = await startWithQueues(QUEUES, { maxRetries: 0 });
      user = client(site);
    });
    after(() => site.close());

    test('are spread over all of them, and each is done once', async () => {
      const payments = await many(16, () => paid(user));
      await areShown(site, payments);
      await areSentOnce(site, payments);
      const queues = payments.map(({ id }) => site.queuesOf(`${id}_receipt`)[0]);
      assert.deepEqual([...new Set(queues)].sort(), [QUEUES.JOBS, QUEUES.JOBS_2]);
    });

    for (const binding of Object.keys(QUEUES)) {
      test(`are done in ${binding} as the release before has sent them`, async () => {
        const { id } = await paid(user);
        const job = receiptJob(id, `old_${binding}`);
        await send(site, binding, job);
        await becomes(site, job.job_id, 'done');
        assert.equal((await site.simulator.sends(job.job_id)).length, 1);
      });

      test(`become dead letters in ${binding} when the queue gives them up`, async () => {
        const { id } = await paid(user);
        await jobsOver(site, id);
        const job = receiptJob(id, `dead_${binding}`, { apart: {} });
        await site.simulator.fault('error_before', EMAILS);
        await send(site, binding, job);
        const dead = await becomes(site, job.job_id, 'dead');
        const errors = JSON.parse(dead.history).map(({ error }) => error);
        assert.match(errors.at(-1), /the queue has given it up/);
        assert.deepEqual(site.queuesOf(job.job_id), [QUEUES[binding], `${QUEUES[binding]}-dead`]);
      });
    }
  });

  describe('the snapshots of one batch', { concurrency: false }, () => {
    let site;
    let payments;
    before(async () => {
      site = await startWithQueues(DEMO);
      const user = client(site);
      payments = await many(3, () => paid(user));
      for (const { id } of payments) await jobsOver(site, id);
    });
    after(() => site.close());

    const rowsOf = () =>
      site.rows(
        'SELECT * FROM payments WHERE payment_id IN (SELECT value FROM json_each(?)) ORDER BY payment_id',
        JSON.stringify(payments.map(({ id }) => id)),
      );
    /** Newer snapshots of all three, in which so much is captured, in one batch. Gives their jobs, and how often the read model was written to until then. */
    async function told(captured_minor, binding = 'JOBS') {
      const jobs = (await rowsOf()).map(({ version, updated_at_ms: _, ...payment }) => ({
        version: 1,
        job_id: `${payment.object}_told_${captured_minor}`,
        kind: 'project',
        object: payment.object,
        staged_at_ms: Date.now(),
        payload: {
          object: payment.object,
          version: version + 1,
          at_ms: Date.now(),
          owner: payment.owner,
          payment: { ...payment, captured_minor },
          refunds: [],
          keys: [],
          audit: [],
        },
      }));
      const from = site.logs().length;
      const queue = (await site.worker.getEnv())[binding];
      await queue.sendBatch(jobs.map((job) => ({ body: JSON.stringify(job), contentType: 'text' })));
      const ids = jobs.map(({ job_id }) => job_id);
      const lines = () =>
        site
          .logs()
          .slice(from)
          .map(({ message }) => message);
      await until('all were worked on', () =>
        ids.every((id) => lines().some((line) => /job_(over|failed)/.test(line) && line.includes(id))),
      );
      const batches = lines().filter((line) => line.startsWith('batch: ') && line.includes(ids[0]));
      assert.ok(
        ids.every((id) => batches[0].includes(id)),
        'they came in one batch',
      );
      return { ids, writes: lines().filter((line) => line === 'read model: batch').length };
    }
    /** From now on the read model takes no snapshot of the second payment. */
    async function refuseTheSecond() {
      const [, { object }] = await rowsOf();
      await site.rows(
        `CREATE TRIGGER not_this_one BEFORE UPDATE ON payments WHEN new.object = '${object}'
         BEGIN SELECT RAISE(ABORT, 'not this one'); END`,
      );
    }
    const captured = async () => (await rowsOf()).map(({ captured_minor }) => captured_minor);

    test('are written at once', async () => {
      assert.equal((await told(1)).writes, 1);
      assert.deepEqual(await captured(), [1, 1, 1]);
    });

    test('are written all but one that is not taken, and that one is told of', async () => {
      await refuseTheSecond();
      const { ids, writes } = await told(2);
      assert.equal(writes, 1 + ids.length, 'together, and then each by itself');
      assert.deepEqual(await captured(), [2, 1, 2]);
      const { history } = await becomes(site, ids[1], 'tried');
      assert.match(JSON.parse(history)[0].error, /not this one/);
      await site.rows('DROP TRIGGER not_this_one');
      await becomes(site, ids[1], 'done');
      assert.deepEqual(await captured(), [2, 2, 2]);
    });

    test('are written though the queue has given them up, all but one that cannot be: that is a dead letter', async () => {
      await refuseTheSecond();
      const { ids } = await told(3, 'JOBS_DEAD');
      assert.deepEqual(await captured(), [3, 2, 3]);
      const { history } = await becomes(site, ids[1], 'dead');
      assert.match(JSON.parse(history)[0].error, /the queue has given it up: .*not this one/);
      const rest = await site.rows('SELECT job_id FROM job_list WHERE job_id IN (?, ?)', ids[0], ids[2]);
      assert.deepEqual(rest, []);
    });
  });

  describe('an email that goes on by itself', { concurrency: false }, () => {
    let site;
    let id;
    before(async () => {
      site = await startWithQueues(DEMO);
      ({ id } = await paid(client(site)));
      await jobsOver(site, id);
    });
    after(() => site.close());

    test('is sent as it was sent before', async () => {
      const before = { from: 'a@b.example', to: [USER], subject: 'As it was', text: `As it was: ${id}` };
      const job = receiptJob(id, 'frozen', { apart: { frozen: JSON.stringify(before) } });
      await send(site, 'EMAILS', job);
      await becomes(site, job.job_id, 'done');
      const subjects = (await site.simulator.emails(id)).map(({ subject }) => subject);
      assert.ok(subjects.includes('As it was'), `${subjects}`);
    });

    test('and was sent is written down, and not sent again', async () => {
      const job = receiptJob(id, 'sent', { apart: { result: 'the email' } });
      await send(site, 'EMAILS', job);
      assert.equal((await becomes(site, job.job_id, 'done')).result, 'the email');
      assert.deepEqual(await site.simulator.sends(job.job_id), []);
    });

    test('leaves the first queue when it fails there', async () => {
      const job = receiptJob(id, 'failed');
      await site.simulator.fault('error_before', EMAILS);
      await send(site, 'JOBS', job);
      assert.equal((await becomes(site, job.job_id, 'done')).attempts, 2);
      assert.deepEqual(site.queuesOf(job.job_id), [DEMO.JOBS, DEMO.EMAILS]);
    });
  });
});
