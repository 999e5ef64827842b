// History where payments are in shards: each place lets its own payments leave, and the desk finds what has left from any of them.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { parquetReadObjects } from 'hyparquet';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { LOOKS_SOON, jobsForgotten } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { operator } from './support/operator.mjs';
import { PAYMENT, client, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { apiAccounts, shards, workersWithShards } from './support/shards.mjs';
import { until } from './support/until.mjs';

const DAY_MS = 86_400_000;
/** Payments are made in shards since then, and leave once they are so old. */
const SHARDS_SINCE_DAYS = 300;
const AFTER_DAYS = 100;
const ACCOUNTS = ['one', 'two', 'three'];
const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const secrets = { ADMIN_TOKEN, API_ACCOUNTS: apiAccounts(ACCOUNTS) };

describe('history over shards', async () => {
  // Stripe has made these payments today: once its list were compared there would be breaks, and a shard with an open one does not rest.
  const RECONCILE_QUIET_MS = `${DAY_MS}`;
  const vars = {
    ...LOOKS_SOON,
    SHARDS_CACHE_MS: '0',
    HISTORY_AFTER_DAYS: `${AFTER_DAYS}`,
    RECONCILE_QUIET_MS,
  };
  const site = await startSite({ workers: workersWithShards({ vars, secrets, buckets: ['HISTORY'] }) });
  const all = shards(site);
  const model = readModel(site);
  const desk = operator(site, ADMIN_TOKEN);
  const user = client(site, 'token-of-one');
  after(() => site.close());
  before(() => all.lay(4, { from_ms: Date.now() - SHARDS_SINCE_DAYS * DAY_MS }));
  // The bucket SETTLEMENT is not bound: of the time when it was there is a file that was not written. It keeps nothing back.
  before(() =>
    model.run("INSERT INTO settlement_files (day, name, closed_at_ms) VALUES ('2020-01-01', 'old.csv', 1)"),
  );

  /** Where a payment stands: the name of a shard, or D1. */
  const placesOf = async (id) => {
    const sql = 'SELECT 1 AS one FROM payments WHERE payment_id = ?';
    const found = (await all.rows(sql, id)).map(({ shard }) => shard);
    return (await model.first(sql, id)) ? ['D1', ...found] : found;
  };
  const run = (place, sql, ...values) =>
    place === 'D1' ? model.run(sql, ...values) : all.rowsIn(place, sql, ...values);

  const stands = (id) =>
    until(`${id} stands somewhere`, async () => {
      const [place] = await placesOf(id);
      return place;
    });

  /** A payment as if it had been made so many days ago, where it then stands. */
  async function old(days, more = {}, of = user) {
    const { id } = await paid(of, { ...PAYMENT, ...more });
    const was = await stands(id);
    await jobsForgotten(site, id);
    const then = Date.now() - days * DAY_MS;
    await site.objects.sql(id, "UPDATE payments SET details = json_set(details, '$.created_at_ms', ?)", then);
    await site.objects.evict(id);
    for (const table of ['payments', 'refunds'])
      await run(was, `DELETE FROM ${table} WHERE payment_id = ?`, id);
    for (const table of ['keys', 'audit_records', 'jobs'])
      await run(was, `DELETE FROM ${table} WHERE object = ?`, objectId(id));
    await told(id);
    const place = await stands(id);
    await grow(place, id, then);
    return { id, place };
  }

  /** Its object tells all that it knows. */
  async function told(id) {
    const path = `/admin/payments/${id}/project`;
    const answer = await site.fetch(path, { method: 'POST', headers: desk.bearer });
    assert.equal(answer.status, 200, await answer.text());
    await jobsForgotten(site, id);
  }

  /** Lets it be as old there as one that may leave. */
  async function grow(place, id, then) {
    await run(
      place,
      `UPDATE payments SET updated_at_ms = ?2, key_finished_at_ms = ?2, key_expires_at_ms = ?2, wake_at_ms = NULL
       WHERE payment_id = ?1`,
      id,
      then,
    );
    await run(place, 'UPDATE refunds SET updated_at_ms = ?2 WHERE payment_id = ?1', id, then);
    await run(
      place,
      'UPDATE keys SET updated_at_ms = ?2, finished_at_ms = ?2, expires_at_ms = ?2 WHERE object = ?1',
      objectId(id),
      then,
    );
  }

  const tick = async () => (await model.tick()).history;
  const FILES = 'SELECT * FROM history_files';
  const files = async () => [...(await model.all(FILES)), ...(await all.rows(FILES))];
  async function inFiles(kind) {
    const { HISTORY: bucket } = await site.desk().getEnv();
    const rows = [];
    for (const file of (await files()).filter((file) => file.kind === kind)) {
      const bytes = await (await bucket.get(file.name)).arrayBuffer();
      assert.equal(sha256(Buffer.from(bytes)), file.sha256);
      rows.push(...(await parquetReadObjects({ file: bytes })));
    }
    return rows;
  }

  const made = {};
  const rests = async (place) =>
    (await model.first('SELECT rests_since_ms FROM shards WHERE name = ?', place)).rests_since_ms !== null;
  const comesToRest = (place) =>
    until(`${place} rests`, async () => {
      // Jobs that are done are kept for a while.
      await all.rowsIn(place, 'DELETE FROM jobs');
      await tick();
      return rests(place);
    });

  test('payments leave from each place, into files of its own', async () => {
    made.inD1 = await old(SHARDS_SINCE_DAYS + 20, { order_id: 'order-of-d1' });
    made.inShard = await old(150, { order_id: 'order-of-shard' });
    made.ofTwo = await old(150, {}, client(site, 'token-of-two'));
    made.later = await old(200, { order_id: 'order-of-later' });
    made.young = await old(20, {});
    const places = Object.values(made).map(({ place }) => place);
    assert.equal(places[0], 'D1');
    assert.ok(new Set(places).size >= 4, `${places}`);
    const result = await tick();
    assert.deepEqual([result.left, result.failed], [4, undefined], JSON.stringify(result));
    assert.deepEqual(await placesOf(made.young.id), [made.young.place], 'what is young stays');
    const ids = (await inFiles('payments')).map(({ payment_id }) => payment_id).sort();
    const left = Object.values(made).filter((it) => it !== made.young);
    assert.deepEqual(ids, left.map(({ id }) => id).sort());
    for (const { id, place } of left) {
      assert.deepEqual(await placesOf(id), []);
      const [object] = (await inFiles('audit')).filter((row) => row.object === objectId(id));
      assert.ok(object, `${id} has its audit`);
      const sql = 'SELECT 1 AS one FROM history_payments WHERE object = unhex(?)';
      const known =
        place === 'D1' ? await model.all(sql, objectId(id)) : await all.rowsIn(place, sql, objectId(id));
      assert.equal(known.length, 1, 'what finds it stands where it left');
    }
    const names = (await files()).map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    assert.ok(names.some((name) => /^history\/payments\/\d{4}-\d\d\/\d{10}\.parquet$/.test(name)));
    assert.ok(
      names.some((name) => new RegExp(`/${made.inShard.place}-\\d{10}\\.parquet$`).test(name)),
      `${names}`,
    );
    assert.equal((await tick()).left, 0);
  });

  test('the desk finds them, lists the files of all places, and gives them out', async () => {
    for (const { id } of [made.inD1, made.inShard, made.later]) {
      const page = await desk.look(`/admin/payments/${id}`);
      assert.match(page.text, /from history/, id);
    }
    for (const [order, { id }] of [
      ['order-of-d1', made.inD1],
      ['order-of-shard', made.inShard],
    ]) {
      const found = await desk.look(`/admin/payments?q=${order}`);
      assert.deepEqual([found.status, found.header('location')], [303, `/admin/payments/${id}`], order);
    }
    const page = await desk.look('/admin/history');
    assert.equal(page.status, 200, page.text);
    const listed = await files();
    for (const { name, sha256 } of listed)
      assert.ok(page.text.includes(name) && page.text.includes(sha256), name);
    const links = [...page.text.matchAll(/href="(\/admin\/history\/[^"?]+)"/g)].map(([, path]) => path);
    assert.equal(new Set(links).size, listed.length);
    for (const path of links) {
      const answer = await site.fetch(path, { headers: desk.bearer });
      assert.equal(answer.status, 200, path);
      const given = sha256(Buffer.from(await answer.arrayBuffer()));
      assert.ok(
        listed.some((file) => file.sha256 === given),
        path,
      );
    }
    const of = await desk.look(`/admin/history?q=${made.inShard.place.slice(3, 10)}`);
    assert.ok(of.text.includes(made.inShard.place) && !of.text.includes(made.later.place), of.text);
    const [, batch] = /href="(\/admin\/history\?[^"]+)"/.exec(
      (await desk.look(`/admin/payments/${made.inShard.id}`)).text,
    );
    const inBatch = await desk.look(batch.replaceAll('&amp;', '&').replaceAll('&#38;', '&'));
    assert.match(inBatch.text, new RegExp(`/${made.inShard.place}-\\d{10}\\.parquet`));
    for (const nothing of [
      'g1-2026-11-099/1/payments',
      'else/1/payments',
      `${made.inShard.place}/9/payments`,
    ])
      assert.equal((await desk.look(`/admin/history/${nothing}`)).status, 404, nothing);
  });

  test('a shard that is down is named, holds up no other, and lets its own leave later', async () => {
    const one = await old(150);
    const other = await old(250);
    assert.notEqual(one.place, other.place);
    await all.takeDown(one.place);
    const result = await tick();
    assert.equal(result.left, 1, JSON.stringify(result));
    assert.deepEqual(Object.keys(result.failed), [one.place]);
    const page = await desk.look('/admin/history');
    assert.equal(page.status, 200);
    assert.ok(page.text.includes(`did not answer (${one.place})`), page.text);
    await all.putUp(one.place);
    assert.equal((await tick()).left, 1);
    assert.ok(!(await desk.look('/admin/history')).text.includes('did not answer'));
  });

  test('one that changes after it has left is listed again, and leaves again as a newer version', async () => {
    const { id, place } = made.inShard;
    const answer = await user.post(`/payments/${id}/refunds`, { amount: 500 }, freshKey());
    assert.equal(answer.status, 201, answer.text);
    assert.equal(await stands(id), place);
    await jobsForgotten(site, id);
    assert.match((await desk.look(`/admin/payments/${id}`)).text, /changed since/);
    await grow(place, id, Date.now() - 100 * DAY_MS);
    assert.equal((await tick()).left, 1);
    const versions = (await inFiles('payments')).filter(({ payment_id }) => payment_id === id);
    assert.equal(versions.length, 2);
    const audit = (await inFiles('audit')).filter(({ object }) => object === objectId(id));
    assert.deepEqual(
      audit.map(({ audit_id }) => Number(audit_id)).sort((a, b) => a - b),
      audit.map((_, index) => index + 1),
      'all records, each once',
    );
  });

  test('a shard from which all has left rests: it is asked by nobody but who looks for what has left', async () => {
    const { id, place } = made.later;
    await comesToRest(place);
    assert.equal(await rests(made.young.place), false, 'what may still get payments does not');
    await all.takeDown(place);
    for (const path of ['/admin', '/admin/payments', '/admin/keys', '/admin/breaks', '/admin/audit'])
      assert.ok(!(await desk.look(path)).text.includes('did not answer'), path);
    const { history, sweep, forget } = await model.tick();
    assert.deepEqual([history.failed, sweep.missing, forget.missing], [undefined, undefined, undefined]);
    assert.ok(
      (await desk.look('/admin/history')).text.includes(`did not answer (${place})`),
      'this one does ask',
    );
    await all.putUp(place);
    const found = await desk.look('/admin/payments?q=order-of-later');
    assert.equal(found.header('location'), `/admin/payments/${id}`);
    // A rebuild that has come here goes on though it rests.
    const rebuild = await site.fetch(`/admin/payments/all/project?after=shard:${place}:`, {
      method: 'POST',
      headers: desk.bearer,
    });
    assert.equal(rebuild.status, 200, await rebuild.clone().text());
    assert.match((await rebuild.json()).next, /^shard:/);
    const shown = await (await site.fetch('/admin/api/shards', { headers: desk.bearer })).json();
    assert.ok(shown.at_rest >= 1 && !shown.shards.includes(place), JSON.stringify(shown));
  });

  test('whoever writes into a shard at rest wakes it, and what is written is listed', async () => {
    const { id, place } = made.later;
    const answer = await user.post(`/payments/${id}/refunds`, { amount: 500 }, freshKey());
    assert.equal(answer.status, 201, answer.text);
    assert.equal(await stands(id), place);
    await jobsForgotten(site, id);
    const { wakes, rests_since_ms } = await model.first('SELECT * FROM shards WHERE name = ?', place);
    assert.deepEqual([wakes, rests_since_ms], [1, null]);
    assert.deepEqual(await all.rowsIn(place, 'SELECT * FROM shard_rest'), []);
    const listed = (await user.ask('/payments?limit=100')).json().data.map((payment) => payment.id);
    assert.ok(listed.includes(id));
    assert.ok((await desk.look('/admin/payments')).text.includes(id));
    // And it leaves and rests again.
    await grow(place, id, Date.now() - 100 * DAY_MS);
    assert.equal((await tick()).left, 1);
    await comesToRest(place);
  });

  test('a shard that rests by D1 alone is woken by a run, and its rows are listed', async () => {
    const { id, place } = made.later;
    assert.ok(await rests(place));
    // As an earlier release would: it writes there and knows of no mark.
    await all.rowsIn(place, 'DELETE FROM shard_rest');
    await told(id);
    await until('its row is there', async () => (await placesOf(id)).length > 0);
    assert.ok(await rests(place));
    assert.ok(!(await desk.look('/admin/payments')).text.includes(id));
    await until('a run has looked into it', async () => {
      await tick();
      return !(await rests(place));
    });
    assert.ok((await desk.look('/admin/payments')).text.includes(id));
  });

  test('one that has left from D1 and is moved later leaves from its shard, with nothing twice', async () => {
    const { id } = made.inD1;
    const before = (await inFiles('audit')).filter(({ object }) => object === objectId(id)).length;
    // As if the move had begun some minutes ago. Here an isolate goes by no layout that it has read before.
    await model.run('UPDATE shard_layouts SET moved_since_ms = 0, moved_at_ms = ?', Date.now() - 300_000);
    const answer = await user.post(`/payments/${id}/refunds`, { amount: 500 }, freshKey());
    assert.equal(answer.status, 201, answer.text);
    const place = await stands(id);
    assert.match(place, /^g1-/);
    await jobsForgotten(site, id);
    assert.match((await desk.look(`/admin/payments/${id}`)).text, /changed since/);
    await grow(place, id, Date.now() - 100 * DAY_MS);
    const result = await tick();
    assert.deepEqual([result.left, result.incomplete], [1, 0], JSON.stringify(result));
    const versions = (await inFiles('payments')).filter(({ payment_id }) => payment_id === id);
    assert.equal(versions.length, 2);
    assert.deepEqual(
      versions.map(({ previous_version }) => previous_version === null || previous_version === undefined),
      [true, false],
    );
    const audit = (await inFiles('audit')).filter(({ object }) => object === objectId(id));
    assert.ok(audit.length > before);
    assert.deepEqual(
      audit.map(({ audit_id }) => Number(audit_id)).sort((a, b) => a - b),
      audit.map((_, index) => index + 1),
    );
    const { text } = await desk.look(`/admin/payments/${id}`);
    assert.match(text, new RegExp(`batch \\d{10} of ${place}`));
  });
});

describe('what has left from more shards than one page asks', async () => {
  const MONTHS = 14;
  const vars = { LIST_SHARDS_MAX: '1' };
  const site = await startSite({ workers: workersWithShards({ vars, secrets, buckets: ['HISTORY'] }) });
  const all = shards(site);
  const model = readModel(site);
  const desk = operator(site, ADMIN_TOKEN);
  after(() => site.close());
  /** So many months ago. */
  const month = (ago) => {
    const now = new Date();
    return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - ago, 1)).toISOString().slice(0, 7);
  };
  const OLD = `g1-${month(10)}-001`;
  const FILE = `history/payments/${month(10)}/${OLD}-00000001.parquet`;

  before(async () => {
    await all.lay(2, { from_ms: Date.now() - 500 * DAY_MS });
    for (let ago = 0; ago < MONTHS; ago += 1)
      for (const slot of ['000', '001'])
        await model.run(
          'INSERT INTO shards (name, made_at_ms, rests_since_ms) VALUES (?, 1, 1)',
          `g1-${month(ago)}-${slot}`,
        );
    const object = sha256('of a payment that has left');
    const name = BigInt(`0x${sha256('order-of-long-ago').slice(0, 12)}`) >> 1n;
    // Whoever asks a shard makes its tables.
    await desk.look(`/admin/payments?q=order-of-long-ago&day=${month(10)}-02`);
    await all.rowsIn(OLD, `INSERT INTO history_payments VALUES (unhex('${object}'), 1, 3, 2, 1)`);
    await all.rowsIn(OLD, `INSERT INTO history_names VALUES (${name}, unhex('${object.slice(0, 16)}'))`);
    await all.rowsIn(
      OLD,
      "INSERT INTO history_batches VALUES (1, 'written', ?, 1, 'pay_a', 'pay_b', 1, 1, 1, 1)",
      month(10),
    );
    await all.rowsIn(OLD, "INSERT INTO history_files VALUES (1, 'payments', ?, 1, 1, 'ab')", FILE);
  });

  /** The pages from this one on, by what follows, until it is not a page or this is on it. */
  async function pages(path, isThere) {
    const seen = [];
    for (let next = path; next;) {
      assert.ok(seen.length < MONTHS, 'it goes on');
      const page = await desk.look(next);
      seen.push(page);
      if (page.status !== 200 || isThere(page)) return seen;
      const on = /href="(\/admin\/(?:payments|history)\?[^"]*made_before=\d+)"[^>]*>Older/;
      next = on.exec(page.text)?.[1].replaceAll('&#38;', '&');
    }
    return seen;
  }

  test('is found by going on, and each page says how far it has looked', async () => {
    const seen = await pages('/admin/payments?q=order-of-long-ago', () => false);
    assert.deepEqual(
      seen.map(({ status }) => status),
      [200, 200, 303],
      'four months a page',
    );
    assert.match(seen[0].text, /Only what belongs to payments since \d{4}-\d\d-01T/);
    assert.match(seen.at(-1).header('location'), /^\/admin\/payments\/pay_/);
  });

  test('what is nowhere is looked for to the end', async () => {
    const seen = await pages('/admin/payments?q=order-of-nobody', () => false);
    assert.deepEqual([seen.length, seen.at(-1).status], [4, 200]);
    assert.match(seen.at(-1).text, /No payments match/);
    assert.ok(!seen.at(-1).text.includes('Only what belongs'));
  });

  test('a day leads to it at once', async () => {
    const answer = await desk.look(`/admin/payments?q=order-of-long-ago&day=${month(10)}-02`);
    assert.match(answer.header('location') ?? '', /^\/admin\/payments\/pay_/);
  });

  test('its files are listed, month by month or by their month or day', async () => {
    const seen = await pages('/admin/history', ({ text }) => text.includes(FILE));
    assert.equal(seen.length, 11);
    assert.match(seen[0].text, /Only what belongs to payments since/);
    for (const time of [month(10), `${month(10)}-02`])
      assert.ok((await desk.look(`/admin/history?q=${time}`)).text.includes(FILE), time);
  });
});
