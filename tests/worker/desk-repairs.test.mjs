// What the desk repairs: dead letters, receipts that were not sent, and breaks between us and a provider.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { account } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { formOf, key, operator } from './support/operator.mjs';
import { paid as paidBy } from './support/payments.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await shareSite({ secrets: { ADMIN_TOKEN } });
const user = account(site);
after(() => site.close());

const { asked, look, press, logOf } = operator(site, ADMIN_TOKEN);
const paid = async () => (await paidBy(user)).id;

describe('dead letters', () => {
  let id;
  before(async () => (id = await paid()));

  const object = () => Buffer.from(id.slice(4), 'base64url').toString('hex');
  async function bury(job, payload, kind = 'project') {
    const now = Date.now();
    await site.rows(
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES (?1, ?5, ?2, 'dead', 5, ?3, ?4, '[]', ?4, ?4)`,
      ...[job, object(), JSON.stringify(payload), now, kind],
    );
  }
  const state = async (job) => (await site.rows('SELECT state FROM jobs WHERE job_id = ?', job))[0].state;

  /** A snapshot that the read model has not seen. */
  const snapshot = (name) => ({
    object: object(),
    version: 1,
    at_ms: Date.now(),
    owner: 'account:user@example.com',
    payment: null,
    refunds: [],
    keys: [],
    audit: [
      {
        audit_id: 900_000 + Math.floor(Math.random() * 90_000),
        at_ms: 1,
        actor: 'account:a',
        action: name,
        subject: 'x',
        data: '{}',
      },
    ],
  });
  const isDone = async (name) =>
    (await site.rows('SELECT 1 AS one FROM audit_records WHERE action = ?', name)).length === 1;

  test('that is requeued is done', async () => {
    const job = `test ${randomUUID()}`;
    await bury(job, snapshot('requeued.one'));
    const path = `/admin/dead-letters/${encodeURIComponent(job)}/requeue`;
    const form = key(await look('/admin/dead-letters'), path);
    assert.equal((await press(path, { form })).status, 303);
    assert.equal(await state(job), 'tried');
    await until('it is done', () => isDone('requeued.one'));
    const again = await look((await press(path, { form })).header('location'));
    assert.match(again.text, /One job is in the queue again/);
    await site.rows("UPDATE jobs SET state = 'done' WHERE job_id = ?", job);
  });

  test('are all requeued at once', async () => {
    await bury('all 1', snapshot('requeued.all.1'));
    await bury('all 2', snapshot('requeued.all.2'));
    const path = '/admin/dead-letters/requeue-all';
    assert.equal((await press(path, { form: key(await look('/admin/dead-letters'), path) })).status, 303);
    await until(
      'they are done',
      async () => (await isDone('requeued.all.1')) && (await isDone('requeued.all.2')),
    );
    assert.doesNotMatch((await look('/admin/dead-letters')).text, /all 1/);
  });

  test('that the queue does not take is a dead letter as before, and holds up no other', async () => {
    await bury('too long', { ...snapshot('never'), owner: 'x'.repeat(140_000) });
    await bury('short', snapshot('requeued.short'));
    const path = '/admin/dead-letters/requeue-all';
    const pressed = await press(path, { form: key(await look('/admin/dead-letters'), path) });
    assert.match((await look(pressed.header('location'))).text, /the queue did not take 1/);
    await until('the other is done', () => isDone('requeued.short'));
    assert.equal(await state('too long'), 'dead');
    await site.rows("DELETE FROM jobs WHERE job_id = 'too long'");
  });

  describe('of a kind', () => {
    after(async () => {
      await site.rows('DELETE FROM inbox');
      await site.rows("DELETE FROM jobs WHERE job_id LIKE 'of a kind%'");
    });
    const buryWebhooks = (number) =>
      site.rows(
        `INSERT INTO inbox (event_key, provider, kind, account, event, event_id, told_at_ms, state, attempts, history, next_at_ms,
           received_at_ms, updated_at_ms)
         SELECT 'adyen:CAPTURE:KIND' || value || ':true', 'adyen', 'CAPTURE', '', '{}', 'kind ' || value, 1, 'dead', 9, '[]', 1, 1, value
         FROM json_each(?1)`,
        JSON.stringify(Array.from({ length: number }, (_, index) => index + 1)),
      );
    const dead = async () =>
      (await site.rows("SELECT event_id FROM inbox WHERE state = 'dead'")).map(({ event_id }) => event_id);
    const button = (page) => /<button[^>]*>(Requeue (?:all|the)[^<]*)</.exec(page.text)[1];

    test('are requeued without the others: a receipt would be a second email', async () => {
      await bury('of a kind: receipt', { to: 'ada@example.com' }, 'send_receipt');
      await buryWebhooks(2);
      assert.equal(button(await look('/admin/dead-letters')), 'Requeue all 3 dead letters');
      const page = await look('/admin/dead-letters?kind=webhook');
      assert.equal(button(page), 'Requeue all 2 webhooks');
      const { path, entries } = formOf(page, '/requeue-all/webhook');
      const pressed = await press(path, entries);
      const [to] = pressed.header('location').split('&done=');
      assert.equal(to, '/admin/dead-letters?kind=webhook', 'back to the same list');
      assert.match((await look(pressed.header('location'))).text, /2 webhooks are in the inbox again/);
      assert.deepEqual(await dead(), []);
      assert.equal(await state('of a kind: receipt'), 'dead');
      assert.equal(
        (await logOf('all dead letters: webhook'))[0].outcome,
        '2 webhooks are in the inbox again, and taken up within minutes',
      );
      const others = await press('/admin/dead-letters/requeue-all/project', entries);
      assert.equal(others.status, 403, 'a button is of its kind');
      const receipts = await look('/admin/dead-letters?kind=send_receipt');
      assert.equal(button(receipts), 'Requeue the one send receipt job');
    });

    test('that are more than one press takes begin with the oldest, as the button says', async () => {
      await site.rows('DELETE FROM inbox');
      await buryWebhooks(51);
      const page = await look('/admin/dead-letters?kind=webhook');
      assert.equal(button(page), 'Requeue the oldest 50 webhooks');
      const { path, entries } = formOf(page, '/requeue-all/webhook');
      await press(path, entries);
      assert.deepEqual(await dead(), ['kind 51']);
    });
  });

  for (const [act, outcome] of [
    ['purge', 'dropped, with what it carried'],
    ['requeue', 'one job is in the queue again'],
  ])
    test(`whose ${act} is pressed ten times at once are one true line of the log`, async () => {
      const job = `ten ${randomUUID()}`;
      await bury(job, snapshot(`ten.${act}`));
      const path = `/admin/dead-letters/${encodeURIComponent(job)}/${act}`;
      const page = await look('/admin/dead-letters');
      const { entries } = act === 'purge' ? await asked(page, path) : formOf(page, path);
      await Promise.all(Array.from({ length: 10 }, () => press(path, entries)));
      assert.deepEqual(await logOf(job), [{ action: act, outcome }]);
      if (act === 'requeue') return;
      // As if the press had been broken off before it could say how it ended.
      await site.rows("UPDATE operator_actions SET outcome = 'begun' WHERE subject = ?", job);
      await press(path, entries);
      assert.deepEqual(await logOf(job), [{ action: act, outcome }]);
    });

  test('that is purged is dropped with what it carried, and cannot be requeued', async () => {
    await bury('gone', snapshot('never'));
    const page = await look('/admin/dead-letters');
    const purge = await asked(page, '/admin/dead-letters/gone/purge');
    assert.equal((await press(purge.path, purge.entries)).status, 303);
    assert.deepEqual(await site.rows("SELECT state, payload FROM jobs WHERE job_id = 'gone'"), [
      { state: 'purged', payload: null },
    ]);
    const requeue = key(page, '/admin/dead-letters/gone/requeue');
    const after = await look(
      (await press('/admin/dead-letters/gone/requeue', { form: requeue })).header('location'),
    );
    assert.match(after.text, /Refused: it is not a dead letter any more/);
  });
});

describe('a dead receipt', () => {
  const EMAILS = { path: '/resend/' };
  const rowOf = async (job) => (await site.rows('SELECT * FROM job_list WHERE job_id = ?', job))[0];
  const becomes = (job, state) =>
    until(`${job} is ${state}`, async () => (await rowOf(job))?.state === state, { everyMs: 50 });
  const endsOf = (job) =>
    site.logs().filter(({ message }) => message.includes('job_over') && message.includes(job)).length;
  const actsOn = (job) =>
    site.rows(
      'SELECT operator, action, outcome FROM operator_actions WHERE subject = ? ORDER BY at_ms, action',
      job,
    );
  const pathOf = (job, act) => `/admin/dead-letters/${job}/${act}`;
  const letter = (job) => look(`/admin/dead-letters/${job}`);

  /** The queue brings a message again. */
  async function deliver({ payload, ...row }) {
    const { JOBS } = await site.worker.getEnv();
    const { job_id, kind, object, staged_at_ms } = row;
    const job = { version: 1, job_id, kind, object, staged_at_ms, payload: JSON.parse(payload) };
    await JOBS.send(JSON.stringify(job), { contentType: 'text' });
  }

  /**
   * A payment whose receipt has failed on every level. `fault` is how; after `connection_reset_after` the email is out. The message of the
   * first failure comes again, too, once its pause of some seconds is over: it finds the job at its end.
   */
  async function buried(fault) {
    await site.simulator.fault(fault, { ...EMAILS, count: 2 });
    const payment = await paid();
    const job = `${payment}_receipt`;
    await becomes(job, 'tried');
    // As if the pauses of an hour and more were over.
    await site.rows('UPDATE jobs SET attempts = 4 WHERE job_id = ?', job);
    await deliver(await rowOf(job));
    await becomes(job, 'dead');
    await until('its end was told', () => endsOf(job) >= 1);
    await site.simulator.calm();
    return { payment, job };
  }

  for (const [fault, out] of [
    ['error_before', 0],
    ['connection_reset_after', 1],
  ])
    test(`that is requeued in two tabs, twice in each, is one email in the mailbox (after ${fault})`, async () => {
      const { payment, job } = await buried(fault);
      assert.equal((await site.simulator.emails(payment)).length, out);
      const path = pathOf(job, 'requeue');
      const tabs = [key(await letter(job), path), key(await letter(job), path)];
      assert.notEqual(tabs[0], tabs[1]);
      const answers = await Promise.all([...tabs, ...tabs].map((form) => press(path, { form })));
      assert.deepEqual(
        answers.map(({ status }) => status),
        [303, 303, 303, 303],
      );
      await becomes(job, 'done');
      const acts = await actsOn(job);
      assert.equal(acts.length, 2, 'one line for each tab, however often it was pressed');
      assert.ok(acts.every(({ operator, action }) => operator === 'operator' && action === 'requeue'));
      const sent = acts.filter(({ outcome }) => outcome === 'one job is in the queue again').length;
      assert.ok(sent >= 1, JSON.stringify(acts));
      // Each message that a press has sent has come to its end.
      await until('all of them are over', () => endsOf(job) === 2 + sent, { everyMs: 50 });
      assert.equal((await site.simulator.emails(payment)).length, 1);
      const row = await rowOf(job);
      assert.deepEqual([row.state, row.payload, row.frozen], ['done', null, null]);
      const late = await look((await press(path, { form: tabs[0] })).header('location'));
      assert.match(late.text, /One job is in the queue again|It is not a dead letter any more/i);
      assert.equal((await actsOn(job)).length, 2, 'a late press is the same press');
    });

  test('is requeued with all others, and each is one email', async () => {
    const letters = [await buried('error_before'), await buried('error_before')];
    const path = '/admin/dead-letters/requeue-all';
    const form = key(await look('/admin/dead-letters'), path);
    await Promise.all([press(path, { form }), press(path, { form })]);
    for (const { payment, job } of letters) {
      await becomes(job, 'done');
      await until('its end was told each time', () => endsOf(job) === 3);
      assert.equal((await site.simulator.emails(payment)).length, 1);
    }
  });

  test('that is purged is never sent, whatever still comes for it, and the log says who did it', async () => {
    const { payment, job } = await buried('error_before');
    const row = await rowOf(job);
    const page = await letter(job);
    const purge = await asked(page, pathOf(job, 'purge'));
    assert.equal((await press(purge.path, purge.entries)).status, 303);
    const requeue = await press(pathOf(job, 'requeue'), { form: key(page, pathOf(job, 'requeue')) });
    assert.match((await look(requeue.header('location'))).text, /Refused: it is not a dead letter any more/);
    await deliver(row);
    await until('its messages are over', () => endsOf(job) === 3);
    assert.deepEqual(await site.simulator.emails(payment), []);
    const { state, payload, frozen } = await rowOf(job);
    assert.deepEqual([state, payload, frozen], ['purged', null, null], 'the address is gone');
    assert.deepEqual(await actsOn(job), [
      { operator: 'operator', action: 'purge', outcome: 'dropped, with what it carried' },
      { operator: 'operator', action: 'requeue', outcome: 'refused: it is not a dead letter any more' },
    ]);
    assert.match((await look('/admin/audit')).text, /purge/);
    // The control: under another id the same message is an email.
    await deliver({ ...row, job_id: `${job}_control` });
    await becomes(`${job}_control`, 'done');
    assert.equal((await site.simulator.emails(payment)).length, 1);
  });
});

describe('breaks', () => {
  test('that is repaired lets the object tell the read model what is true', async () => {
    const id = await paid();
    await until(
      'it is in the read model',
      async () => (await site.rows('SELECT 1 AS one FROM payments WHERE payment_id = ?', id)).length,
    );
    await site.rows("UPDATE payments SET status = 'processing', captured_minor = 0 WHERE payment_id = ?", id);
    await site.rows(
      `INSERT INTO breaks (break_id, kind, provider, resource, state, first_seen_at_ms, last_seen_at_ms)
       VALUES ('stale:1', 'status', 'stripe', ?1, 'open', 1, 1)`,
      id,
    );
    const path = '/admin/breaks/stale%3A1/repair';
    const form = key(await look('/admin/breaks'), path);
    assert.equal((await press(path, { form })).status, 303);
    await until('the read model is mended', async () => {
      const [row] = await site.rows('SELECT status, captured_minor FROM payments WHERE payment_id = ?', id);
      return row.status === 'succeeded' && row.captured_minor === 2500;
    });
  });
});

describe('a break is shown', () => {
  after(() => site.rows("DELETE FROM breaks WHERE break_id LIKE 'shown%'"));
  /** One of these, as the list has it. */
  const rowOf = async (id, columns) => {
    await site.rows(
      `INSERT INTO breaks (break_id, kind, provider, resource, ours, theirs, note, state, first_seen_at_ms, last_seen_at_ms)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'open', 1, 1)`,
      ...[id, columns.kind, columns.provider ?? 'stripe', columns.resource ?? null],
      ...[columns.ours ?? null, columns.theirs ?? null, columns.note ?? null],
    );
    const { text } = await look(`/admin/breaks?kind=${columns.kind}`);
    const rows = text.split('<tr').filter((row) => row.includes(`${encodeURIComponent(id)}/accept`));
    assert.equal(rows.length, 1, text);
    return rows[0];
  };

  test('with its amounts as money, in the list and before it is accepted', async () => {
    const sides = {
      ours: 'succeeded: 2000 of 2000 usd taken, 0 refunded',
      theirs: 'refund: -1850 eur in the balance (re_1 of pi_1, 2000 usd)',
    };
    const row = await rowOf('shown:money', { kind: 'movement', ...sides });
    const shown = [
      'succeeded: $20.00 of $20.00 captured, $0.00 refunded',
      '-€18.50 in the balance',
      '$20.00)',
    ];
    for (const text of shown) assert.ok(row.includes(text), row);
    const asked = await look('/admin/breaks/accept-all/movement');
    for (const text of shown) assert.ok(asked.text.includes(text), asked.text);
    const [stored] = await site.rows("SELECT ours, theirs FROM breaks WHERE break_id = 'shown:money'");
    assert.deepEqual(stored, sides, 'what is stored is what is compared');
  });

  test('with the way to what it is about, and is repaired only where somebody can be asked', async () => {
    const id = await paid();
    const line = await rowOf('shown:line', {
      ...{ kind: 'settlement', provider: 'bank', resource: `${id}:capture`, theirs: 'rejected: 2500 usd' },
    });
    assert.ok(line.includes(`href="/admin/payments/${id}"`) && line.includes('rejected: $25.00'), line);
    assert.ok(!line.includes('/repair'), line);
    const refund = await rowOf('shown:refund', { kind: 'settlement', provider: 'bank', resource: 're_abc' });
    assert.ok(refund.includes('href="/admin/payments?q=re_abc"') && !refund.includes('/repair'), refund);
    const control = await rowOf('shown:payment', { kind: 'settlement', resource: id });
    assert.ok(control.includes(`href="/admin/payments/${id}"`) && control.includes('/repair'), control);
  });

  test('with what was found, also once it was repaired, and accepted', async () => {
    const id = await paid();
    const note = 'Adyen says that it was voided';
    await rowOf('shown:webhook', { kind: 'webhook', provider: 'adyen', resource: id, note });
    const path = (action) => `/admin/breaks/shown%3Awebhook/${action}`;
    const repair = await press(path('repair'), { form: key(await look('/admin/breaks'), path('repair')) });
    const told = (await look(repair.header('location'))).text;
    assert.match(told, /Adyen cannot be asked: .*; accept it once you have looked/);
    const row = async () =>
      (await site.rows("SELECT state, note FROM breaks WHERE break_id = 'shown:webhook'"))[0];
    assert.deepEqual(await row(), { state: 'open', note });
    const page = await look('/admin/breaks?kind=webhook');
    const form = key(page, path('accept'));
    const [, seen] = page.text.split(form)[1].match(/name="seen" value="(\w+)"/);
    for (const again of [1, 2]) {
      await press(path('accept'), { form, seen, note: 'I have asked them' });
      assert.deepEqual(
        await row(),
        { state: 'accepted', note: `${note}; accepted: I have asked them` },
        `press ${again}`,
      );
    }
    const log = await logOf('shown:webhook');
    assert.deepEqual(log.at(-1), { action: 'accept: I have asked them', outcome: 'accepted' });
  });

  test('or that there is none, in the state that is chosen', async () => {
    const empty = 'No breaks in this state.';
    assert.ok((await look('/admin/breaks?state=repaired&page=9')).text.includes(empty));
    const open = (await look('/admin/breaks?page=9')).text;
    assert.ok(open.includes('our records and the provider’s agree') && !open.includes(empty), 'control');
  });
});

describe('a break that is right as it is', () => {
  /** What the form of a break's Accept carries besides the note. */
  function accept(page, id) {
    const form = key(page, path(id));
    return {
      form,
      seen: new RegExp(`value="${form}">\\s*<input type="hidden" name="seen" value="(\\w+)"`).exec(
        page.text,
      )[1],
    };
  }

  const path = (id) => `/admin/breaks/${encodeURIComponent(id)}/accept`;
  const find = (id) =>
    site.rows(
      `INSERT INTO breaks (break_id, kind, provider, ours, theirs, state, first_seen_at_ms, last_seen_at_ms)
       VALUES (?1, 'amount', 'stripe', '2500 usd', '2400 usd', 'open', 1, 1)`,
      id,
    );

  test('is accepted once, however often it is pressed, and the log has one true line', async () => {
    await find('right:1');
    const entries = { ...accept(await look('/admin/breaks'), 'right:1'), note: 'a fee of the bank' };
    await Promise.all(Array.from({ length: 10 }, () => press(path('right:1'), entries)));
    const once = [{ action: 'accept: a fee of the bank', outcome: 'accepted' }];
    assert.deepEqual(await logOf('right:1'), once);
    // As if the press had been broken off before it could say how it ended.
    await site.rows("UPDATE operator_actions SET outcome = 'begun' WHERE subject = 'right:1'");
    await press(path('right:1'), entries);
    assert.deepEqual(await logOf('right:1'), once);
    assert.deepEqual(await site.rows("SELECT state, note FROM breaks WHERE break_id = 'right:1'"), [
      { state: 'accepted', note: 'a fee of the bank' },
    ]);
  });

  test('and that somebody else has accepted with another note is not accepted again', async () => {
    await find('right:2');
    const entries = { ...accept(await look('/admin/breaks'), 'right:2'), note: 'mine' };
    await site.rows("UPDATE breaks SET state = 'accepted', note = 'theirs' WHERE break_id = 'right:2'");
    await press(path('right:2'), entries);
    assert.deepEqual(await logOf('right:2'), [
      { action: 'accept: mine', outcome: 'refused: it is not open any more' },
    ]);
  });
});

describe('a break that has changed since its page was loaded', () => {
  const path = '/admin/breaks/changed%3A1/accept';
  const entries = (page) => ({
    form: key(page, path),
    seen: page.text.split(key(page, path))[1].match(/name="seen" value="(\w+)"/)[1],
    note: 'seen and right',
  });
  const row = async () =>
    (await site.rows("SELECT state, note, theirs FROM breaks WHERE break_id = 'changed:1'"))[0];

  test('is not accepted: nobody has seen what it says now', async () => {
    await site.rows(
      `INSERT INTO breaks (break_id, kind, provider, ours, theirs, state, first_seen_at_ms, last_seen_at_ms)
       VALUES ('changed:1', 'amount', 'stripe', '2500 usd', NULL, 'open', 1, 1)`,
    );
    const before = entries(await look('/admin/breaks'));
    await site.rows("UPDATE breaks SET theirs = '0 usd' WHERE break_id = 'changed:1'");
    const told = await look((await press(path, before)).header('location'));
    assert.match(told.text, /it has changed since the page was loaded: look again/);
    assert.deepEqual(await row(), { state: 'open', note: null, theirs: '0 usd' });
    const { seen, ...blind } = entries(await look('/admin/breaks'));
    await press(path, blind);
    assert.equal((await row()).state, 'open', 'nor without saying what was seen');
    await press(path, { ...entries(await look('/admin/breaks')), seen });
    assert.deepEqual(await row(), { state: 'accepted', note: 'seen and right', theirs: '0 usd' });
  });
});

describe('all breaks of a kind that are shown', () => {
  const find = (id, kind = 'orphan') =>
    site.rows(
      `INSERT INTO breaks (break_id, kind, provider, provider_payment, theirs, state, first_seen_at_ms, last_seen_at_ms)
       VALUES (?1, ?2, 'stripe', ?1, '2500 usd', 'open', 1, 1)`,
      id,
      kind,
    );
  const states = async () =>
    Object.fromEntries(
      (await site.rows("SELECT break_id, state FROM breaks WHERE break_id LIKE 'kind%' ORDER BY 1")).map(
        ({ break_id, state }) => [break_id, state],
      ),
    );
  const toAccept = async () => {
    const { path, entries } = await asked(await look('/admin/breaks?kind=orphan'), '/accept-all/orphan');
    return { path, entries: { ...entries, breaks: entries.breaks.replaceAll('&#34;', '"') } };
  };
  after(() => site.rows("DELETE FROM breaks WHERE break_id LIKE 'kind%'"));

  test('are listed by their kind, and the button is there for a kind alone', async () => {
    for (const id of ['kind-1', 'kind-2', 'kind-3']) await find(id);
    await find('kind-4', 'silent');
    await site.rows("UPDATE breaks SET state = 'resolved' WHERE break_id = 'kind-3'");
    const listed = async (query) => {
      const { text } = await look(`/admin/breaks?${query}`);
      return [...new Set(text.match(/kind-\d/g))].sort().join(' ');
    };
    assert.equal(await listed('kind=orphan'), 'kind-1 kind-2');
    assert.equal(await listed('kind=silent'), 'kind-4');
    assert.equal(await listed('kind=orphan&state=resolved'), 'kind-3');
    assert.equal(await listed('kind=orphan&state=all'), 'kind-1 kind-2 kind-3');
    assert.equal(await listed(''), 'kind-1 kind-2 kind-4');
    for (const query of ['', 'kind=orphan&state=resolved', 'kind=unmoved'])
      assert.doesNotMatch((await look(`/admin/breaks?${query}`)).text, /accept-all/, query);
    await site.rows("UPDATE breaks SET state = 'open' WHERE break_id = 'kind-3'");
  });

  test('are accepted with one note, each with its own line in the log, but for one that has changed', async () => {
    const { path, entries } = await toAccept();
    const without = await press(path, entries);
    assert.equal(without.status, 422, 'nothing is accepted without a note');
    await site.rows("UPDATE breaks SET theirs = '2600 usd' WHERE break_id = 'kind-2'");
    await find('kind-5');
    const noted = { ...entries, note: 'tests of the shop' };
    const told = await look((await press(path, noted)).header('location'));
    assert.match(told.text, /1 of 3 are not accepted, the first: refused: it has changed/);
    assert.deepEqual(await states(), {
      'kind-1': 'accepted',
      'kind-2': 'open',
      'kind-3': 'accepted',
      'kind-4': 'open',
      'kind-5': 'open',
    });
    const line = [{ action: 'accept: tests of the shop', outcome: 'accepted' }];
    for (const id of ['kind-1', 'kind-3']) assert.deepEqual(await logOf(id), line);
    assert.match((await logOf('kind-2'))[0].outcome, /^refused: it has changed/);
    // Pressed again, or after it was broken off, it changes nothing more.
    await site.rows(
      "UPDATE operator_actions SET outcome = 'begun' WHERE subject IN ('kind-1', 'breaks: orphan')",
    );
    await press(path, noted);
    assert.deepEqual(await logOf('kind-1'), line);
    assert.equal((await logOf('breaks: orphan')).length, 1);
    assert.equal((await states())['kind-5'], 'open');
  });

  test('are all of them, once nothing changes meanwhile', async () => {
    const { path, entries } = await toAccept();
    const told = await look((await press(path, { ...entries, note: 'seen' })).header('location'));
    assert.match(told.text, /Accepted: 2/);
    const { 'kind-4': other, ...orphans } = await states();
    assert.deepEqual([other, ...new Set(Object.values(orphans))], ['open', 'accepted']);
    const path2 = '/admin/breaks/accept-all/orphan';
    assert.equal(
      (await look(path2)).header('location'),
      '/admin/breaks?kind=orphan',
      'there is nothing to ask',
    );
  });
});
