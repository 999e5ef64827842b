// The read model in ten shards: the same lists, searches and buttons as in one place; a shard that is down shows as such and holds up no
// payment.

import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { LOOKS_SOON, jobsForgotten } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { formOf, operator } from './support/operator.mjs';
import { AUTHORISATION, PAYMENT, client, moved, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { apiAccounts, migrated, shards, workersWithShards } from './support/shards.mjs';
import { until } from './support/until.mjs';

const ACCOUNTS = ['one', 'two', 'three', 'four', 'five', 'six'];
const secrets = { ADMIN_TOKEN, API_ACCOUNTS: apiAccounts(ACCOUNTS) };

describe('ten shards', async () => {
  const vars = { ...LOOKS_SOON, RECONCILE_QUIET_MS: '3600000' };
  const site = await startSite({ workers: workersWithShards({ vars, secrets, migrates: true }) });
  const all = shards(site);
  const model = readModel(site);
  const desk = operator(site, ADMIN_TOKEN);
  const users = Object.fromEntries(ACCOUNTS.map((id) => [id, client(site, `token-of-${id}`)]));
  after(() => site.close());
  const made = Object.fromEntries(ACCOUNTS.map((id) => [id, []]));

  const shown = (id) =>
    until(`${id} is in a shard`, async () => {
      const [row] = await all.rows('SELECT status FROM payments WHERE payment_id = ?', id);
      return row;
    });
  const list = async (user, query = '') => {
    const answer = await user.ask(`/payments${query}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json();
  };

  before(async () => {
    await all.lay(10, { spread: { 'account:one': 5 } });
    for (const id of ACCOUNTS)
      for (let number = 0; number < (id === 'one' ? 12 : 3); number += 1)
        made[id].unshift((await paid(users[id], number === 1 ? AUTHORISATION : PAYMENT)).id);
    for (const id of Object.values(made).flat()) await shown(id);
  });

  test('hold the payments, those of an account in no more than its spread, and D1 has none', async () => {
    assert.equal((await model.first('SELECT count(*) AS number FROM payments')).number, 0);
    const rows = await all.rows('SELECT payment_id, owner FROM payments');
    assert.equal(rows.length, Object.values(made).flat().length, 'each once');
    for (const id of ACCOUNTS) {
      const of = new Set(rows.filter(({ owner }) => owner === `account:${id}`).map(({ shard }) => shard));
      assert.ok(id === 'one' ? of.size > 1 && of.size <= 5 : of.size === 1, `${id}: ${[...of]}`);
    }
    assert.ok((await all.names()).length >= 4);
  });

  test('have by the migrations what shards of other tests are given at once', async () => {
    const tables =
      "SELECT type, name, sql FROM sqlite_master WHERE name NOT GLOB '_cf_*' AND name NOT GLOB '__miniflare_*' ORDER BY type, name";
    const given = new DatabaseSync(':memory:');
    given.exec(migrated());
    const at = given.prepare(tables).all();
    assert.ok(at.length > 100);
    const [name] = await all.names();
    assert.deepEqual(
      await all.rowsIn(name, tables),
      at.map((row) => ({ ...row })),
    );
  });

  test('page an account as one place does, to the end', async () => {
    for (const id of ACCOUNTS) {
      const found = [];
      for (let after = ''; ;) {
        const page = await list(users[id], `?limit=5${after}`);
        found.push(...page.data);
        assert.equal(page.has_more, found.length < made[id].length, id);
        if (!page.has_more) break;
        after = `&starting_after=${found.at(-1).id}`;
      }
      assert.deepEqual(
        found.map((payment) => payment.id),
        made[id],
      );
      for (const payment of found) assert.deepEqual(payment, (await users[id].payment(payment.id)).json());
    }
    assert.deepEqual(
      (await list(users.one, '?status=requires_capture')).data.map(({ id }) => id),
      [made.one[10]],
    );
    assert.deepEqual((await list(users.two, '?created[lt]=2020-01-01T00:00:00Z')).data, []);
    // A page may begin after a payment that the filter leaves out.
    const before2020 = 'created[lt]=2020-01-01T00:00:00Z';
    assert.deepEqual((await list(users.one, `?starting_after=${made.one[0]}&${before2020}`)).data, []);
    const stranger = await users.two.ask(`/payments?starting_after=${made.one[0]}`);
    assert.equal(stranger.status, 422);
  });

  test('a payment changes where it is', async () => {
    await moved(users.two, made.two[1], 'capture', {});
    await until('the list says so', async () => {
      const [row] = await all.rows('SELECT status FROM payments WHERE payment_id = ?', made.two[1]);
      return row.status === 'succeeded';
    });
    assert.equal((await list(users.two)).data[1].status, 'succeeded');
  });

  test('an object learns from its shard what is over', async () => {
    await jobsForgotten(site, made.three[0]);
  });

  test('the desk lists, searches and counts all of them', async () => {
    const page = await desk.look('/admin/payments');
    assert.equal(page.status, 200, page.text);
    const newest = [...ACCOUNTS].reverse().flatMap((id) => made[id]);
    const listed = [...page.text.matchAll(/\/admin\/payments\/(pay_[\w-]{43})"/g)].map(([, id]) => id);
    assert.deepEqual(listed, newest, 'the newest first');
    const of = await desk.look('/admin/payments?q=four');
    for (const id of made.four) assert.ok(of.text.includes(id));
    assert.ok(!of.text.includes(made.five[0]));
    const csv = await desk.look('/admin/payments.csv');
    assert.equal(csv.text.trim().split('\r\n').length, 1 + newest.length);
    for (const path of ['/admin', '/admin/keys', '/admin/audit', '/admin/breaks', '/admin/dead-letters']) {
      const answer = await desk.look(path);
      assert.equal(answer.status, 200, `${path}: ${answer.text}`);
      assert.ok(!answer.text.includes('did not answer'), path);
    }
    assert.equal((await desk.look(`/admin/payments/${made.six[0]}`)).status, 200);
    assert.ok((await desk.look('/admin/keys')).text.includes(objectId(made.six[0])));
  });

  test('the sweep wakes what is late in a shard', async () => {
    const [{ shard }] = await all.rows('SELECT 1 FROM payments WHERE payment_id = ?', made.five[0]);
    await all.rowsIn(
      shard,
      'UPDATE payments SET wake_at_ms = ? WHERE payment_id = ?',
      Date.now() - 600_000,
      made.five[0],
    );
    const { sweep } = await model.tick();
    assert.equal(sweep.late, 1, JSON.stringify(sweep));
    assert.equal(sweep.woken, 1);
  });

  test('a job that failed for good is a dead letter in its shard, and is sent again from there', async () => {
    const [{ shard }] = await all.rows('SELECT 1 FROM payments WHERE payment_id = ?', made.six[1]);
    // As the ledger writes it after the last try.
    const payload = JSON.stringify({ object: objectId(made.six[1]), version: 1 });
    await all.rowsIn(
      shard,
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES (?, 'send_receipt', ?, 'dead', 5, ?, ?, '[]', ?, ?)`,
      `${made.six[1]}_receipt`,
      objectId(made.six[1]),
      payload,
      Date.now(),
      Date.now(),
      Date.now(),
    );
    const page = await desk.look('/admin/dead-letters');
    assert.ok(page.text.includes('receipt'), page.text);
    const { path, entries } = formOf(page, '_receipt/requeue');
    assert.equal((await desk.press(path, entries)).status, 303);
    // What it carries is no receipt: so it is dead again, in the same row.
    await until('it was tried again', async () => {
      const [job] = await all.rowsIn(shard, 'SELECT * FROM jobs WHERE job_id = ?', `${made.six[1]}_receipt`);
      return job.state === 'dead' && job.history !== '[]';
    });
    assert.deepEqual(await model.all('SELECT * FROM jobs'), [], 'and D1 knows nothing of it');
    const again = await desk.look('/admin/dead-letters');
    const purge = await desk.asked(again, '_receipt/purge');
    assert.equal((await desk.press(purge.path, purge.entries)).status, 303);
    const [job] = await all.rowsIn(shard, 'SELECT * FROM jobs WHERE job_id = ?', `${made.six[1]}_receipt`);
    assert.deepEqual([job.state, job.payload], ['purged', null]);
  });

  test('an erasure reaches the shard', async () => {
    const { id } = await paid(users.two, { ...PAYMENT, receipt_email: 'jenny@example.com' });
    await shown(id);
    await jobsForgotten(site, id);
    const answer = await site.fetch(`/admin/payments/${id}/erase`, { method: 'POST', headers: desk.bearer });
    assert.equal(answer.status, 200, await answer.text());
    await until('the shard has no email', async () => {
      const rows = await all.rows('SELECT shown FROM payments WHERE payment_id = ?', id);
      return rows.every(({ shown }) => !shown.includes('jenny'));
    });
  });

  test('a rebuild goes through all places', async () => {
    let projected = 0;
    for (let next = ''; next !== null;) {
      const answer = await site.fetch(`/admin/payments/all/project?after=${next}`, {
        method: 'POST',
        headers: desk.bearer,
      });
      const page = await answer.json();
      assert.equal(answer.status, 200);
      projected += page.projected;
      next = page.next;
    }
    const payments = (await all.rows('SELECT 1 FROM payments')).length;
    assert.ok(projected >= payments, `${projected} of ${payments}`);
  });

  test('one that is down shows as such, and holds up no payment', async () => {
    const [{ shard }] = await all.rows('SELECT 1 FROM payments WHERE payment_id = ?', made.three[0]);
    await all.takeDown(shard);
    const { id } = await paid(users.three);
    assert.equal((await users.three.payment(id)).json().status, 'succeeded');
    const page = await desk.look('/admin/payments');
    assert.equal(page.status, 200);
    const { length } = await all.names();
    assert.ok(page.text.includes(`1 of ${length} shards did not answer`), page.text);
    assert.ok(!page.text.includes(made.three[0]));
    assert.ok(page.text.includes(made.two[0]));
    const { sweep } = await model.tick();
    assert.match(sweep.missing, /did not answer/);
    // A page that leaves out payments without a word would be wrong.
    assert.ok((await users.three.ask('/payments')).status >= 500);
    const csv = await desk.look('/admin/payments.csv');
    assert.equal(csv.status, 503);
    assert.match(
      csv.text,
      new RegExp(`1 of ${length} shards did not answer .* A file without it would be wrong`),
    );
    await all.putUp(shard);
    assert.equal((await desk.look('/admin/payments.csv')).status, 200, 'control');
    await site.fetch(`/admin/payments/${id}/project`, { method: 'POST', headers: desk.bearer });
    await shown(id);
    assert.equal((await list(users.three)).data[0].id, id);
    assert.ok(!(await desk.look('/admin/payments')).text.includes('did not answer'));
  });

  test('while D1 does not say which shards there are, no list goes by what was known before', async () => {
    assert.equal((await desk.look('/admin/payments')).status, 200);
    assert.ok((await list(users.three)).data.length > 0);
    await model.run('ALTER TABLE shards RENAME TO shards_out_of_reach');
    try {
      assert.ok((await users.three.ask('/payments')).status >= 500);
      assert.ok((await desk.look('/admin/payments')).status >= 500);
    } finally {
      await model.run('ALTER TABLE shards_out_of_reach RENAME TO shards');
    }
    assert.ok((await list(users.three)).data.length > 0);
  });

  test('an operator sets a layout that begins later than now, and not two of one moment', async () => {
    const ask = async (body, path = '') => {
      const answer = await site.fetch(`/admin/api/shards${path}`, {
        method: 'POST',
        headers: { ...desk.bearer, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return { status: answer.status, body: await answer.json() };
    };
    for (const wrong of [
      { slots: 101 },
      { slots: 481, period: 'day' },
      { slots: 101, period: 'hour' },
      { slots: 2, period: 'week' },
      { slots: 2, spread: { one: 1 } },
      { slots: 2, spread: { 'account:one': 3 } },
      { slots: 2, from: 'soon' },
      { slots: 2, from: new Date(Date.now() + 30_000).toISOString() },
      { slots: 2, places: 1 },
    ])
      assert.equal((await ask(wrong)).status, 422, JSON.stringify(wrong));
    const from = new Date(Date.now() + 3_600_000).toISOString();
    const set = await ask({ slots: 20, from });
    assert.equal(set.status, 200, JSON.stringify(set.body));
    assert.deepEqual(
      set.body.layouts.map(({ slots }) => slots),
      [10, 20],
    );
    assert.equal((await ask({ slots: 30, from })).status, 422, 'another one begins then');
    const begun = await ask({}, '/move');
    assert.equal(begun.status, 200, JSON.stringify(begun.body));
    assert.equal(begun.body.done, false);
    assert.match(begun.body.begins, /^20/);
    const got = await site.fetch('/admin/api/shards', { headers: desk.bearer });
    assert.equal((await got.json()).layouts[1].moved_since, '1970-01-01T00:00:00.000Z');
    const key = freshKey();
    assert.equal((await users.six.pay(PAYMENT, key)).status, 201);
  });
});

describe('shards of a day, after those of a month', async () => {
  const site = await startSite({
    workers: workersWithShards({
      vars: { ...LOOKS_SOON, LIST_SHARDS_MAX: '4', SHARDS_CACHE_MS: '0' },
      secrets,
    }),
  });
  const all = shards(site);
  const model = readModel(site);
  const desk = operator(site, ADMIN_TOKEN);
  const user = client(site, 'token-of-one');
  after(() => site.close());
  const made = [];
  const ids = (text) => [...text.matchAll(/\/admin\/payments\/(pay_[\w-]{43})"/g)].map(([, id]) => id);

  before(async () => {
    await all.lay(2, { from_ms: Date.now() - 120_000 });
    for (let number = 0; number < 3; number += 1) made.unshift((await paid(user)).id);
    for (const id of made) await jobsForgotten(site, id);
    await all.lay(3, { from_ms: Date.now() - 1, period: 'day', spread: { all: 3 } });
    for (let number = 0; number < 4; number += 1) made.unshift((await paid(user)).id);
    for (const id of made) await jobsForgotten(site, id);
  });

  test('are all written down with the first payment of a day, and have what is made from then on', async () => {
    const names = await all.names();
    const ofDays = names.filter((name) => /^g2-\d{4}-\d{2}-\d{2}-00[012]$/.test(name));
    assert.equal(ofDays.length % 3, 0, `${names}`);
    assert.ok(ofDays.length > 0, `${names}`);
    assert.ok(names.some((name) => /^g1-\d{4}-\d{2}-00[01]$/.test(name)));
    const rows = await all.rows('SELECT payment_id FROM payments');
    const of = (kind) => rows.filter(({ shard }) => kind.test(shard)).map((row) => row.payment_id);
    assert.deepEqual(of(/^g2/).sort(), made.slice(0, 4).sort());
    assert.deepEqual(of(/^g1/).sort(), made.slice(4).sort());
  });

  test('are listed with those of before, also by a page that begins in the middle', async () => {
    const list = async (query) => (await user.ask(`/payments?${query}`)).json();
    const first = await list('limit=4');
    assert.deepEqual(
      first.data.map(({ id }) => id),
      made.slice(0, 4),
    );
    assert.ok(first.has_more);
    const second = await list(`limit=4&starting_after=${made[3]}`);
    assert.deepEqual(
      second.data.map(({ id }) => id),
      made.slice(4),
    );
    assert.equal(second.has_more, false);
    assert.deepEqual(ids((await desk.look('/admin/payments')).text), made);
    const today = await desk.look(`/admin/payments?day=${new Date().toISOString().slice(0, 10)}`);
    assert.deepEqual(ids(today.text), made);
    const { text } = await desk.look('/admin/payments?day=2020-01-01');
    assert.deepEqual(ids(text), []);
  });

  test('of more days than a page asks are looked through in parts, which say how far and go on', async () => {
    // As if what D1 had of some days had been moved there: more shards than a request asks. Nothing is in them.
    const days = Array.from({ length: 12 }, (_, day) =>
      new Date(Date.UTC(2020, 0, 1 + day)).toISOString().slice(0, 10),
    );
    const names = days.map((day) => `g2-${day}-000`);
    await all.note(names);
    await model.run('UPDATE shard_layouts SET moved_since_ms = 0, moved_at_ms = 1 WHERE layout_id = 2');
    const found = [];
    let path = '/admin/payments';
    let parts = 0;
    for (; path !== undefined; parts += 1) {
      const page = await desk.look(path);
      assert.equal(page.status, 200, page.text);
      found.push(...ids(page.text));
      const on = page.text.match(/href="(\/admin\/payments\?[^"]*made_before=\d+)"[^>]*>Older/)?.[1];
      assert.equal(on !== undefined, page.text.includes('was looked through: go on with Older'));
      path = on;
    }
    assert.ok(parts > 1, `${parts} parts`);
    assert.deepEqual(found, made);
    // An account's list does not leave out without a word what it has not looked for.
    let answer = await user.ask('/payments?status=disputed');
    assert.equal(answer.status, 422, answer.text);
    while (answer.status === 422) {
      const [{ message }] = answer.json().errors;
      const [, at] = message.match(/go on with created\[lt\]=([\d:.TZ-]+)/) ?? [];
      assert.ok(at, answer.text);
      answer = await user.ask(`/payments?status=disputed&created[lt]=${at}`);
    }
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json().data, []);
  });
});

describe('what was changed in its shard and is in D1 as it was', async () => {
  const site = await startSite({
    workers: workersWithShards({ vars: { ...LOOKS_SOON, SHARDS_CACHE_MS: '0' }, secrets }),
  });
  const all = shards(site);
  const model = readModel(site);
  const desk = operator(site, ADMIN_TOKEN);
  const user = client(site, 'token-of-one');
  after(() => site.close());

  test('is in no list by what it was, and the pages go on behind it', async () => {
    const made = [];
    for (let number = 0; number < 4; number += 1) made.unshift((await paid(user, AUTHORISATION)).id);
    for (const id of made) await jobsForgotten(site, id);
    const now = Date.now();
    await all.lay(4, { from_ms: now, moved_since_ms: 0, moved_at_ms: now - 300_000 });
    const [newest, captured, ...others] = made;
    await moved(user, captured, 'capture', {});
    await jobsForgotten(site, captured);
    const { status } = await model.first('SELECT status FROM payments WHERE payment_id = ?', captured);
    assert.equal(status, 'requires_capture', 'nobody has moved it yet');
    const list = async (query) => (await user.ask(`/payments?${query}`)).json();
    const open = [newest, ...others];
    const found = [];
    for (let after = ''; ;) {
      const page = await list(`status=requires_capture&limit=1${after}`);
      found.push(...page.data.map(({ id }) => id));
      assert.equal(page.has_more, found.length < open.length);
      if (!page.has_more) break;
      after = `&starting_after=${found.at(-1)}`;
    }
    assert.deepEqual(found, open);
    assert.deepEqual(
      (await list('status=succeeded')).data.map(({ id }) => id),
      [captured],
    );
    const { text } = await desk.look('/admin/payments?status=requires_capture');
    for (const id of made) assert.equal(text.includes(id), id !== captured, id);
  });
});

describe('what is in D1', async () => {
  const site = await startSite({
    workers: workersWithShards({ vars: { ...LOOKS_SOON, SHARDS_CACHE_MS: '0' }, secrets }),
  });
  const all = shards(site);
  const model = readModel(site);
  const desk = operator(site, ADMIN_TOKEN);
  const users = ACCOUNTS.map((id) => client(site, `token-of-${id}`));
  after(() => site.close());
  const move = async () => {
    const answer = await site.fetch('/admin/api/shards/move', {
      method: 'POST',
      headers: { ...desk.bearer, 'content-type': 'application/json' },
      body: '{}',
    });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
  };

  test('is moved into shards, by two at once, while payments go on; then each is there once', async () => {
    const made = new Map(users.map((user) => [user, []]));
    const pay = async (user) => {
      const { id } = await paid(user, { ...PAYMENT, capture: false });
      made.get(user).unshift(id);
      return id;
    };
    for (let number = 0; number < 8; number += 1) for (const user of users) await pay(user);
    const before = [...made.values()].flat();
    for (const id of before) await jobsForgotten(site, id);
    assert.equal((await model.first('SELECT count(*) AS number FROM payments')).number, before.length);
    // As if the layout had been set, and its move begun, some minutes ago. Here an isolate goes by no layout that it has read before.
    const now = Date.now();
    await all.lay(4, { from_ms: now, moved_since_ms: 0, moved_at_ms: now - 300_000 });
    let isOver = false;
    const changing = (async () => {
      for (let number = 0; !isOver || number < 12; number += 1) {
        const user = users[number % users.length];
        const id = made.get(user)[number % 8];
        if (before.includes(id)) await user.post(`/payments/${id}/capture`, {}, freshKey());
        await pay(user);
      }
    })();
    const mover = async () => {
      while (!(await move()).done);
    };
    await Promise.all([mover(), mover()]);
    isOver = true;
    await changing;
    const ids = [...made.values()].flat();
    for (const id of ids) await jobsForgotten(site, id);
    // What isolates wrote to D1 that did not know the layout yet is taken along.
    await until('nothing is left in D1', async () => {
      await move();
      const { number } = await model.first(
        'SELECT count(*) AS number FROM payments WHERE created_at_ms < ?',
        now,
      );
      return number === 0;
    });
    const rows = [
      ...(await all.rows('SELECT payment_id, status FROM payments')),
      ...(await model.all('SELECT payment_id, status FROM payments')),
    ];
    assert.deepEqual(rows.map(({ payment_id }) => payment_id).sort(), ids.toSorted());
    for (const user of users) {
      const page = (await user.ask('/payments?limit=100')).json();
      assert.deepEqual(
        page.data.map(({ id }) => id),
        made.get(user),
      );
      for (const payment of page.data) assert.deepEqual(payment, (await user.payment(payment.id)).json());
    }
    for (const table of ['keys', 'audit_records', 'refunds', 'jobs'])
      assert.equal(
        (
          await model.first(
            `SELECT count(*) AS number FROM ${table} WHERE ${table === 'refunds' ? 'payment_id' : 'object'} IN (SELECT value FROM json_each(?))`,
            JSON.stringify(table === 'refunds' ? before : before.map(objectId)),
          )
        ).number,
        0,
        table,
      );
  });
});
