// Personal data: it goes when its time is over, or when an operator says so; what the books need stays. And the read model
// can be written anew.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual, promisify } from 'node:util';

import { account, freshKey, read } from './support/account.mjs';
import { demoWorkers, root, startSite } from './support/harness.mjs';
import { jobsOver } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { conforming, readDocument } from './support/openapi.mjs';
import { AT_ONCE, PAYMENT, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'an-operators-token-that-is-long-enough';
const PERSONAL = {
  ...PAYMENT,
  description: 'Dinner for Ada Lovelace',
  receipt_email: 'ada.lovelace@mail.example.com',
  metadata: { nickname: 'enchantress' },
};
// The name under which the last four digits of a card are kept.
const TRACES = ['Lovelace', 'ada.lovelace', 'enchantress', 'last4'];

/** What of a person is found in these rows. */
const traces = (rows) => TRACES.filter((trace) => JSON.stringify(rows).includes(trace));

async function everywhere(site, model, id) {
  const object = objectId(id);
  const tables = {
    payments: 'object',
    keys: 'object',
    audit_records: 'object',
    jobs: 'object',
  };
  const rows = Object.entries(tables).map(([table, column]) =>
    model.all(`SELECT * FROM ${table} WHERE ${column} = ?`, object),
  );
  return { object: await site.objects.dump(id), model: await Promise.all(rows) };
}

/** What an operator runs, and gives what it says. */
const commandsOf =
  (site) =>
  async (command, ...args) =>
    (
      await promisify(execFile)(process.execPath, ['scripts/operate.mjs', command, ...args], {
        cwd: root,
        env: { ...process.env, PAID_ONCE_URL: site.url, ADMIN_TOKEN },
      })
    ).stdout;

/** A payment, in the read model, with its jobs done. */
async function told(user, site, model) {
  const { id } = await paid(user, PERSONAL);
  await model.reaches(id, 'succeeded');
  await jobsOver(site, id);
  return id;
}

describe('personal data', async () => {
  const site = await startSite({ secrets: { ADMIN_TOKEN } });
  before(() => readDocument(site));
  const user = account(site);
  const model = readModel(site);
  const admin = async (path, token = ADMIN_TOKEN) => {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const answer = await read(await site.fetch(path, { method: 'POST', headers }));
    return { status: answer.status, body: conforming('POST', path, answer).json() };
  };
  after(() => site.close());

  test('is erased by an operator, everywhere, and what the books need stays', async () => {
    const id = await told(user, site, model);
    assert.deepEqual(traces(await everywhere(site, model, id)), TRACES, 'control: it is there before');
    assert.deepEqual(await admin(`/admin/payments/${id}/erase`), {
      status: 200,
      body: { id, personal_data: 'erased' },
    });
    await until('the read model follows', () =>
      model.first("SELECT 1 FROM audit_records WHERE subject = ? AND action = 'personal_data.erased'", id),
    );
    assert.deepEqual(traces(await everywhere(site, model, id)), []);
    assert.equal((await admin(`/admin/payments/${id}/erase`)).status, 200, 'once more changes nothing');
  });

  test('that is erased leaves the payment to be seen', async () => {
    const id = await told(user, site, model);
    await admin(`/admin/payments/${id}/erase`);
    const payment = (await user.ask(`/payments/${id}`)).json();
    assert.deepEqual(
      [payment.status, payment.amount_captured, payment.description, payment.receipt_email, payment.metadata],
      ['succeeded', 2500, null, null, {}],
    );
    assert.equal(payment.payment_method_details, null);
    const refund = await user.post(`/payments/${id}/refunds`, { amount: 100 }, freshKey());
    assert.equal(refund.status, 201, 'money can still be given back');
  });

  test('is never taken from an operation that is under way', async () => {
    await site.simulator.fault('connection_reset', { count: 100 });
    const { payment } = await user.pay(PERSONAL, freshKey(), AT_ONCE);
    const answer = await admin(`/admin/payments/${payment}/erase`);
    assert.equal(answer.status, 409);
    assert.deepEqual(traces(await site.objects.dump(payment)), TRACES.slice(0, 3), 'no card has paid yet');
    await site.simulator.calm();
    await model.reaches(payment, 'succeeded');
  });

  test('is not taken while the provider has not decided, and nothing by which it could be guessed is left', async () => {
    const key = freshKey();
    const body = {
      ...PERSONAL,
      payment_method: 'pm_card_authenticationRequired',
      return_url: 'https://shop.example/thanks',
    };
    const made = (await user.pay(body, key)).json();
    assert.equal(made.status, 'requires_action');
    const secret = 'payment_intent_client_secret';
    const { url } = made.next_action.redirect_to_url;
    assert.ok(
      JSON.stringify(await site.objects.dump(made.id)).includes(url),
      'control: it stands in the object',
    );
    const refused = await admin(`/admin/payments/${made.id}/erase`);
    assert.equal(refused.status, 409);
    assert.match(refused.body.detail, /Nothing was erased/);
    assert.equal((await user.ask(`/payments/${made.id}`)).json().description, PERSONAL.description);

    assert.equal((await user.post(`/payments/${made.id}/void`, undefined, freshKey())).status, 200);
    assert.equal((await admin(`/admin/payments/${made.id}/erase`)).status, 200);
    const left = JSON.stringify(await site.objects.dump(made.id));
    assert.ok(!left.includes(url) && !left.includes(secret), left);
    const shown = (await user.ask(`/idempotency-keys/${key}`)).json();
    assert.deepEqual([shown.status, shown.request_hash], ['expired', null]);
    for (const again of [body, { ...body, amount: 2 }]) {
      const answer = await user.pay(again, key);
      assert.deepEqual([answer.status, answer.payment], [409, made.id], answer.text);
    }
  });

  test('in the dead letters is purged with it', async () => {
    const id = await told(user, site, model);
    const object = objectId(id);
    await model.run(
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES ('dead', 'send_receipt', ?, 'dead', 5, ?, 1, '[]', 1, 1)`,
      object,
      JSON.stringify({ to: PERSONAL.receipt_email }),
    );
    await admin(`/admin/payments/${id}/erase`);
    const job = await model.first("SELECT state, payload FROM jobs WHERE job_id = 'dead'");
    assert.deepEqual(job, { state: 'purged', payload: null });
  });

  test('in a message that is still in the queue is not sent, nor written down, afterwards', async () => {
    const id = await told(user, site, model);
    const object = objectId(id);
    const staged = { kind: 'send_receipt', object, staged_at_ms: Date.now() };
    const payload = {
      about: 'paid',
      to: PERSONAL.receipt_email,
      resource: id,
      amount_minor: 2500,
      currency: 'usd',
      order_id: null,
      at_ms: 1,
    };
    const deliver = async (job_id) => {
      const { JOBS } = await site.worker.getEnv();
      await JOBS.send(JSON.stringify({ version: 1, ...staged, job_id, payload }), { contentType: 'text' });
      await until('it is over', () =>
        site.logs().some(({ message }) => message.includes('job_over') && message.includes(job_id)),
      );
    };
    const letters = async () => (await site.simulator.emails(id)).length;
    const before = await letters();
    await deliver(`${id}_control`);
    assert.equal(await letters(), before + 1, 'control: such a message is sent where nothing was erased');
    // On its way: the object has given it to the queue, and nobody has taken it up.
    await site.objects.sql(
      id,
      'INSERT INTO staged_jobs (job_id, kind, payload, staged_at_ms, sends, next_at_ms) VALUES (?, ?, ?, 1, 1, ?)',
      `${id}_on_its_way`,
      staged.kind,
      JSON.stringify(payload),
      Date.now() + 3_600_000,
    );
    await model.run(
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES (?1 || '_project_7', 'project', ?1, 'tried', 1, ?2, 1, '[]', 1, 1)`,
      object,
      JSON.stringify(PERSONAL),
    );
    assert.equal((await admin(`/admin/payments/${id}/erase`)).status, 200);
    await deliver(`${id}_on_its_way`);
    assert.equal(await letters(), before + 1);
    assert.deepEqual(
      await model.all(
        "SELECT state, payload, frozen FROM jobs WHERE job_id IN (?, ? || '_project_7')",
        `${id}_on_its_way`,
        object,
      ),
      Array(2).fill({ state: 'purged', payload: null, frozen: null }),
    );
  });

  test('is in nobody’s reach but the operator’s', async () => {
    const id = await told(user, site, model);
    for (const token of [null, 'wrong', 'user@example.com'])
      for (const what of ['erase', 'project'])
        assert.equal((await admin(`/admin/payments/${id}/${what}`, token)).status, 401);
    assert.equal((await user.ask(`/payments/${id}`)).json().description, PERSONAL.description);
    assert.equal((await admin(`/admin/payments/pay_${'A'.repeat(43)}/erase`)).status, 404);
    assert.equal((await admin(`/admin/payments/${id}/else`)).status, 404);
    assert.deepEqual((await admin(`/admin/payments/${id}/project`)).body, {
      projected: 1,
      failed: [],
      next: null,
    });
  });

  test('of old dead letters, and old runs of tasks, go by the clock', async () => {
    const old = Date.now() - 401 * 86_400_000;
    await model.run(
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES ('old', 'send_receipt', 'x', 'dead', 5, 'p', 1, '[]', 1, ?1), ('new', 'send_receipt', 'x', 'dead', 5, 'p', 1, '[]', 1, ?2)`,
      old,
      Date.now(),
    );
    await model.run("INSERT INTO runs (task, at_ms, took_ms, result) VALUES ('sweep', ?, 1, '{}')", old);
    const { forget } = await model.tick();
    assert.deepEqual([forget.jobs, forget.runs], [1, 1]);
    const states = await model.all("SELECT state FROM jobs WHERE job_id IN ('old', 'new') ORDER BY job_id");
    assert.deepEqual(states, [{ state: 'dead' }, { state: 'purged' }]);
  });

  test('of jobs that are over, and jobs that were lost, are seen to by the clock', async () => {
    const hour = 3_600_000;
    const ago = (hours) => Date.now() - hours * hour;
    const jobs = [
      ['done long ago', 'send_receipt', 'done', 31 * 24],
      ['purged long ago', 'send_receipt', 'purged', 31 * 24],
      ['done lately', 'send_receipt', 'done', 29 * 24],
      ['lost', 'send_receipt', 'tried', 25],
      ['lost while attempted', 'send_message', 'attempted', 25],
      ['waits', 'send_receipt', 'tried', 23],
    ];
    for (const [id, kind, state, hours] of jobs)
      await model.run(
        `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
         VALUES (?, ?, 'clock', ?, 1, 'p', 1, '[{"at_ms":1,"error":"first"}]', 1, ?)`,
        id,
        kind,
        state,
        ago(hours),
      );
    const { forget } = await model.tick();
    assert.deepEqual([forget.over, forget.lost], [2, 2]);
    const rows = await model.all("SELECT * FROM jobs WHERE object = 'clock' ORDER BY job_id");
    assert.deepEqual(
      rows.map(({ job_id, state, payload }) => [job_id, state, payload]),
      [
        ['done lately', 'done', 'p'],
        ['lost', 'dead', 'p'],
        ['lost while attempted', 'dead', 'p'],
        ['waits', 'tried', 'p'],
      ],
    );
    const errors = (row) => JSON.parse(row.history).map(({ error }) => error);
    assert.deepEqual(errors(rows[1]), ['first', 'lost: no message came for it any more']);
    assert.match(errors(rows[2])[1], /outcome unknown/);
  });

  test('of what the gate has passed on goes after 90 days, but for what nobody knows the end of', async () => {
    const days = 86_400_000;
    const passedOn = [
      ['done long ago', 1, 'done', 91],
      ['done lately', 1, 'done', 89],
      ['unknown', 1, 'unknown', 91],
      ['sent anew', 1, 'refused', 91],
      ['sent anew', 2, 'done', 89],
    ];
    for (const [key, number, state, age] of passedOn)
      await model.run(
        `INSERT INTO gate_operations (key_hash, number, version, host, route, state, attempts, replays, began_at_ms)
         VALUES (?, ?, 1, 'shop.example', 'POST /', ?, 1, 0, ?)`,
        ...[key, number, state, Date.now() - age * days],
      );
    const { forget } = await model.tick();
    assert.equal(forget.gate, 2);
    const rows = await model.all('SELECT key_hash, number FROM gate_operations ORDER BY key_hash, number');
    assert.deepEqual(
      rows.map(({ key_hash, number }) => [key_hash, number]),
      [
        ['done lately', 1],
        ['sent anew', 2],
        ['unknown', 1],
      ],
    );
    await model.run('DELETE FROM gate_operations');
  });

  test('the read model is written anew from the objects, by the commands', async () => {
    const run = commandsOf(site);
    const id = await told(user, site, model);
    const refunded = (await user.post(`/payments/${id}/refunds`, { amount: 300 }, freshKey())).json();
    await until('the refund is there', () =>
      model.first('SELECT 1 FROM refunds WHERE refund_id = ?', refunded.id),
    );
    const object = objectId(id);
    const rows = async () =>
      Promise.all(
        ['payments', 'refunds', 'audit_records'].map((table) =>
          model.all(
            `SELECT * FROM ${table} WHERE ${table === 'refunds' ? 'payment_id' : 'object'} = ? ORDER BY 1, 2`,
            table === 'refunds' ? id : object,
          ),
        ),
      );
    const facts = ([payments, refunds, audit]) =>
      [payments, refunds]
        // Which jobs are done the objects forget.
        .map((list) => list.map(({ version, updated_at_ms, done_jobs, ...row }) => row))
        .concat([audit]);
    const before = facts(await rows());
    await model.run('DELETE FROM refunds WHERE payment_id = ?', id);
    for (const table of ['payments', 'audit_records'])
      await model.run(`DELETE FROM ${table} WHERE object = ?`, object);
    assert.match(await run('rebuild', id), /^1 on the way/m);
    await model.reaches(id, 'succeeded');
    assert.deepEqual(facts(await rows()), before);

    await model.run("UPDATE payments SET status = 'wrong', version = 0");
    assert.match(await run('rebuild', 'all'), /on the way/);
    // One that does not answer keeps no other from being written, and is named.
    const gone = '00'.repeat(31) + '07';
    await model.run(
      `INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
         created_at_ms, updated_at_ms) VALUES (?, 1, 1, 'h', 'o', 'finished', 'finished', 1, 0, 0, 0, 1, 1)`,
      gone,
    );
    const rebuilt = await run('rebuild', 'all').catch((error) => error);
    const name = `pay_${Buffer.from(gone, 'hex').toString('base64url')}`;
    assert.match(rebuilt.stdout, /^[1-9]\d* on the way into the read model\.$/m);
    assert.match(
      `${rebuilt.stdout}${rebuilt.stderr}`,
      new RegExp(`1 failed\\. .*npm run rebuild -- ${name}`),
    );
    await model.run('DELETE FROM keys WHERE object = ?', gone);
    await model.reaches(id, 'succeeded');
    assert.match(await run('erase', id), /is gone/);
    assert.deepEqual(traces(await site.objects.dump(id)), []);
  });
});

describe('personal data whose time is over', async () => {
  const site = await startSite({ vars: { RETENTION_MS: '400', PERSONAL_RETENTION_MS: '900' } });
  before(() => readDocument(site));
  const user = account(site);
  const model = readModel(site);
  after(() => site.close());

  test('goes by the alarm and the clock, without anybody', async () => {
    const { id } = await paid(user, PERSONAL);
    await until('it is erased', () =>
      model.first("SELECT 1 FROM audit_records WHERE subject = ? AND action = 'personal_data.erased'", id),
    );
    // What lies in the dead letters goes when the clock strikes.
    await until('no trace is left', async () => {
      await model.tick();
      return traces(await everywhere(site, model, id)).length === 0;
    });
    assert.equal((await user.ask(`/payments/${id}`)).json().amount_captured, 2500);
    assert.equal(await site.simulator.charges(id), 1);
  });
});

describe('personal data of which less is to be kept', async () => {
  // The highest number: for good.
  const workers = (kept = '18446744073709551615') =>
    demoWorkers({ vars: { RETENTION_MS: '400', PERSONAL_RETENTION_MS: kept }, secrets: { ADMIN_TOKEN } });
  const site = await startSite({ workers: workers() });
  before(() => readDocument(site));
  const user = account(site);
  const model = readModel(site);
  after(() => site.close());

  test('goes once the read model is written anew, of payments and customers', async () => {
    const id = await told(user, site, model);
    const address = '/customers/ada.lovelace%40mail.example.com';
    const customer = await user.ask(address, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'Ada Lovelace' }),
    });
    assert.equal(customer.status, 201, customer.text);
    const { object } = await until('the read model has the customer', () =>
      model.first("SELECT object FROM keys WHERE operation = 'customer'"),
    );
    const subjects = [id, `cust_${Buffer.from(object, 'hex').toString('base64url')}`];
    for (const subject of subjects)
      await until('its key has expired, and nothing is due there any more', async () => {
        const { idempotency_keys, staged_jobs } = await site.objects.dump(subject);
        return staged_jobs.length === 0 && idempotency_keys.every(({ status }) => status === 'expired');
      });
    const held = async () => ({
      payment: traces(await everywhere(site, model, id)),
      customer: (await user.ask(address)).json().name,
    });
    const all = { payment: TRACES, customer: 'Ada Lovelace' };
    assert.deepEqual(await held(), all);

    await site.deploy(workers('900'));
    await model.tick();
    assert.deepEqual(await held(), all, 'control: nothing wakes them');
    assert.match(await commandsOf(site)('rebuild', 'all'), /on the way/);
    await until('it is gone', async () => {
      await model.tick();
      return isDeepStrictEqual(await held(), { payment: [], customer: null });
    });
    for (const subject of subjects)
      await until('it is written down', () =>
        model.first(
          "SELECT 1 FROM audit_records WHERE subject = ? AND action = 'personal_data.erased'",
          subject,
        ),
      );
    assert.equal((await user.ask(`/payments/${id}`)).json().amount_captured, 2500);
  });
});
