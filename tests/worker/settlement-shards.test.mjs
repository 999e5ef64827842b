// The settlement of a read model in shards: each place makes its part of a day, and the manifest joins them. The lines and sums are those of the
// same payments in D1 alone; a shard that is down is named and holds up no other. So it is where each place has runs of its own, and where one run
// of the cron goes on with all of them. Adyen's reports are compared with the payments of all places.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { PLACE_STATEMENTS } from '../../scripts/scale/parts.mjs';
import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { startSite } from './support/harness.mjs';
import { objectOf, placeRuns, readModel } from './support/readmodel.mjs';
import { shards, workersWithShards } from './support/shards.mjs';
import { folder, sent } from './support/statements.mjs';
import { until } from './support/until.mjs';

const DAY_MS = 86_400_000;
/** Of these days the last is due: it ended two hours ago or earlier. */
const last = Math.floor((Date.now() - 26 * 3_600_000) / DAY_MS) * DAY_MS;
const day = new Date(last).toISOString().slice(0, 10);
const MANIFEST = `settlement/${day}.json`;
const SHARDS = [0, 1, 2].map((slot) => `g1-${day.slice(0, 7)}-00${slot}`);
const secrets = { ADMIN_TOKEN };
const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };

/** Captures, and for some a refund: statements with their values. */
function movement(number) {
  const [object, payment, refund] = [`object-${number}`, `pay_${(number * 7) % 97}`, `re_${number}`];
  const at = last + number * 3_600_000;
  const data = { provider: 'stripe', provider_payment: `pi_${number}`, amount_captured: 100 + number };
  const record = 'INSERT INTO audit_records VALUES (?, ?, ?, ?, ?, ?, ?)';
  const all = [
    [record, object, 3, at, 'a', 'payment.captured', payment, JSON.stringify({ ...data, currency: 'usd' })],
  ];
  if (number % 3 === 0)
    all.push(
      [
        `INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
            created_at_ms, updated_at_ms) VALUES (?, ?, 1, 'succeeded', 7, 'usd', '', 'stripe', 're', ?, ?)`,
        ...[refund, payment, at, at],
      ],
      [record, object, 4, at + 1, 'a', 'refund.succeeded', refund, '{}'],
    );
  return all;
}

/** Merchant accounts at Adyen of two accounts with keys of their own: D1 has these. */
const [OWN, ANOTHERS] = ['Own_ECOM', 'Anothers_ECOM'];
const keyOf = (merchant) => [
  `INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, mode, merchant_account, changed_at_ms)
   VALUES (?1, 'adyen_api_key', '', '', '', 'live', ?1, 1)`,
  merchant,
];

/**
 * A payment with Adyen, and what a report says of it: every third one has another amount there, and every fifth is in a merchant account of its
 * account's own.
 */
function ofAdyen(number) {
  const psp = `PSPOFSHARD${number}`;
  const at = last + number * 60_000;
  const payment = [
    `INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
        provider_payment, attempt, shown, created_at_ms, updated_at_ms, merchant_account)
     VALUES (?, ?, 1, 'account:a', 'succeeded', 900, 900, 0, 'usd', 'adyen', ?, 1, '{}', ?, ?, ?)`,
    ...[`pay_of_adyen_${number}`, `adyen-${number}`, psp, at, at, number % 5 === 1 ? OWN : null],
  ];
  return [payment, [psp, number % 3 === 0 ? '8.00' : '9.00', at, number % 5 === 1 ? OWN : undefined]];
}

/** Adyen's settlement details report. */
function reportOf(lines) {
  const head =
    'Merchant Account,Psp Reference,Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Batch Number';
  const rows = lines.map(([psp, amount, at, merchant = 'PaidOnceDemo']) => {
    const made = new Date(at).toISOString().slice(0, 19).replace('T', ' ');
    return `${merchant},${psp},theirs,${made},UTC,Settled,${psp},USD,,${amount},7`;
  });
  return [head, ...rows].map((row) => `${row}\r\n`).join('');
}

/** A line as D1 writes it, or the release before: without the shard. */
const unnamed = (line) => line.replace(/^([^,.]*)\.[^,]*/, '$1');

const linesOf = (file) =>
  file
    .split('\n')
    .slice(1)
    .filter((line) => line && !/^(total|trailer),/.test(line));

/** The payments as they are in one place, and their file. */
let whole;
let alone;
after(() => alone?.close());
before(async () => {
  alone = await startSite({ secrets });
  const one = readModel(alone);
  for (let number = 1; number <= 16; number += 1)
    for (const [sql, ...values] of movement(number)) await one.run(sql, ...values);
  const { settle } = await one.tick();
  assert.deepEqual(settle, { written: [`settlement/${day}.csv`] });
  const { SETTLEMENT } = await alone.desk().getEnv();
  whole = await (await SETTLEMENT.get(`settlement/${day}.csv`)).text();
});

for (const tasks of [true, false])
  describe(`the settlement over shards, ${tasks ? 'in runs of each place' : 'in runs of the cron'}`, async () => {
    const vars = { SETTLEMENT_PART_LINES: '3' };
    const site = await startSite({
      workers: workersWithShards({ vars, secrets, buckets: ['SETTLEMENT'], tasks }),
    });
    const all = shards(site);
    const model = readModel(site);
    const { SETTLEMENT: bucket } = await site.desk().getEnv();
    const text = async (name) => (await bucket.get(name))?.text();
    const page = async (path) => {
      const answer = await site.fetch(path, { headers });
      assert.equal(answer.status, 200, path);
      return answer.text();
    };
    const lag = async () =>
      Number(/^paid_once_settlement_lag_seconds (\d+)$/m.exec(await page('/metrics'))[1]);
    after(() => site.close());

    before(async () => {
      await all.lay(3, { from_ms: last - 40 * DAY_MS });
      for (const name of SHARDS) await model.run('INSERT INTO shards (name, made_at_ms) VALUES (?, 1)', name);
      // Whoever asks a shard makes its tables.
      await page('/admin/payments');
      for (let number = 1; number <= 16; number += 1)
        for (const [sql, ...values] of movement(number)) {
          const place = [undefined, ...SHARDS.slice(0, 2)][number % 3];
          await (place ? all.rowsIn(place, sql, ...values) : model.run(sql, ...values));
        }
    });

    test('a shard that is down is named, delays the manifest, and holds up no other', async () => {
      await all.takeDown(SHARDS[0]);
      // Those of shards may run before D1's has begun the day.
      const settle = await until('all others have written theirs', async () => {
        const { settle, places } = await model.tick();
        assert.equal(places?.places, tasks ? 4 : undefined);
        assert.deepEqual(settle.written, []);
        return settle.places_left === 1 && settle.waits_for && settle;
      });
      assert.deepEqual(Object.keys(settle.waits_for), [SHARDS[0]]);
      assert.ok(settle.behind_ms > 0);
      assert.equal(await bucket.head(MANIFEST), null);
      assert.ok(await bucket.head(`settlement/${day}/0001.csv`));
      assert.ok(await bucket.head(`settlement/${day}/${SHARDS[1]}/0001.csv`));
      assert.ok((await page('/admin/settlement')).includes(`such as ${SHARDS[0]}`));
      assert.ok((await lag()) > 0);
      await all.putUp(SHARDS[0]);
    });

    test('its files have the lines and the sums of the same payments in D1 alone', async () => {
      await until('the manifest is there', async () => {
        // A place has one run at a time; of the cron's there may be two.
        const runs = tasks ? [await model.tick()] : await Promise.all([model.tick(), model.tick()]);
        for (const { settle } of runs) assert.equal(settle?.error, undefined);
        return bucket.head(MANIFEST);
      });
      const manifest = JSON.parse(await text(MANIFEST));
      const parts = await Promise.all(manifest.parts.map(({ name }) => text(name)));
      for (const [index, file] of parts.entries()) {
        const place = manifest.parts[index].name.split('/').slice(2, -1).join();
        const named = linesOf(file).map((line) => line.split(',')[0].split('.')[1] ?? '');
        assert.deepEqual(new Set(named), new Set([place]), 'a line of a shard names it');
      }
      const lines = parts.flatMap(linesOf).map(unnamed);
      assert.deepEqual(lines.toSorted(), linesOf(whole).toSorted(), 'each once');
      assert.equal(manifest.lines, lines.length);
      const totals = Object.entries(manifest.totals).flatMap(([kind, sums]) =>
        Object.entries(sums).map(([currency, sum]) => {
          const count = lines.filter((line) => line.split(',')[1] === kind).length;
          return `total,${kind},${currency},${count},${sum}`;
        }),
      );
      assert.deepEqual(
        totals,
        whole.split('\n').filter((line) => line.startsWith('total,')),
      );
      for (const [index, file] of parts.entries()) assert.equal(manifest.parts[index].sha256, sha256(file));
      const places = new Set(manifest.parts.map(({ name }) => name.split('/').slice(2, -1).join()));
      assert.deepEqual([...places], ['', SHARDS[0], SHARDS[1]], 'and none of a shard without movements');
      const objects = (await bucket.list({ prefix: 'settlement/' })).objects.map(({ key }) => key);
      assert.deepEqual(objects.toSorted(), [MANIFEST, ...manifest.parts.map(({ name }) => name)].toSorted());
      assert.equal(await lag(), 0);
      assert.deepEqual((await model.tick()).settle, { written: [] });
      const shown = await page(`/admin/settlement/${day}`);
      for (const { name } of manifest.parts) assert.ok(shown.includes(name), name);
    });

    test("the bank's answer is booked for lines of all places, but for those of a shard that is down", async () => {
      const { parts } = JSON.parse(await text(MANIFEST));
      const files = await Promise.all(parts.map(({ name }) => text(name)));
      // Every second line as a file of the release before has it.
      const lines = files.flatMap(linesOf).map((line, index) => (index % 2 ? unnamed(line) : line));
      const answers = lines.map((line) => {
        const [id, , , , amount, currency] = line.split(',');
        return `${id},settled,${amount},${currency}\n`;
      });
      const answer = `line_id,outcome,amount_minor,currency\n${answers.join('')}x:capture,settled,1,usd\ntrailer,${answers.length + 1}\n`;
      const ofDown = (await all.rowsIn(SHARDS[1], 'SELECT count(*) AS number FROM settlement_lines'))[0]
        .number;
      assert.ok(ofDown > 2);
      await all.takeDown(SHARDS[1]);
      const sent = await site.fetch('/admin/settlement/answers', {
        method: 'POST',
        headers: { ...headers, 'content-type': 'text/csv' },
        body: answer,
      });
      const booked = lines.length - ofDown;
      assert.deepEqual(await sent.json(), { lines: { booked, left: ofDown + 1 } });
      const told = Object.values((await model.tick()).answers);
      const expected = { booked, left: ofDown + 1, waits_for: [SHARDS[1]], searched_to: SHARDS[0] };
      assert.deepEqual(told, [expected]);
      assert.deepEqual(
        await model.all("SELECT 1 FROM breaks WHERE break_id LIKE 'settlement:bank:%'"),
        [],
        'nothing is unknown yet',
      );
      await all.putUp(SHARDS[1]);
      assert.deepEqual(Object.values((await model.tick()).answers), [{ booked: lines.length, unknown: 1 }]);
      assert.deepEqual(await model.all('SELECT * FROM answers_unfinished'), []);
      const ours = await model.all("SELECT reference FROM settlement_answers WHERE booked = 'booked'");
      assert.deepEqual(
        ours.map(({ reference }) => reference).toSorted(),
        linesOf(whole)
          .map((line) => line.split(',')[0])
          .toSorted(),
      );
      await bucket.put('answers/again.csv', answer);
      const again = await model.tick();
      assert.deepEqual(again.answers, { 'answers/again.csv': { booked: lines.length, unknown: 1 } });
    });
    // Of these the cron's run takes care, whoever has runs of its own.
    if (tasks) return;
    test("Adyen's report gives the breaks of D1 alone, and waits for a shard that is down", async () => {
      const one = readModel(alone);
      for (const merchant of [OWN, ANOTHERS]) {
        const [sql, name] = keyOf(merchant);
        for (const place of [one, model]) await place.run(sql, name);
      }
      const lines = [['PSPOFNOBODY', '3.00', last]];
      // Another one's lines name two of its payments, one of which stands in a shard.
      for (const number of [1, 11]) lines.push([`PSPOFSHARD${number}`, '1.00', last, ANOTHERS]);
      for (let number = 0; number < 12; number += 1) {
        const [[sql, ...values], line] = ofAdyen(number);
        lines.push(line);
        await one.run(sql, ...values);
        const place = [undefined, ...SHARDS][number % 4];
        await (place ? all.rowsIn(place, sql, ...values) : model.run(sql, ...values));
      }
      const send = async (to) => {
        const path = '/admin/settlement/reports?name=settlement_detail_report_batch_7.csv';
        const answer = await to.fetch(path, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'text/csv' },
          body: reportOf(lines),
        });
        const text = await answer.text();
        assert.equal(answer.status, 200, text);
        return JSON.parse(text).state;
      };
      const breaks = (of) =>
        of.all(
          `SELECT break_id, kind, resource, ours, theirs, state FROM breaks WHERE provider = 'adyen' ORDER BY break_id`,
        );
      assert.equal(await send(alone), 'done');
      const expected = await breaks(one);
      assert.deepEqual(
        expected.map(({ break_id: id }) => id),
        [
          ...[0, 3, 9].map((number) => `amount:adyen:PSPOFSHARD${number}`),
          `amount:adyen:${OWN}/PSPOFSHARD6`,
          ...[1, 11].map((number) => `orphan:adyen:${ANOTHERS}/PSPOFSHARD${number}`),
          'orphan:adyen:PSPOFNOBODY',
        ].sort(),
      );
      await all.takeDown(SHARDS[1]);
      assert.equal(await send(site), 'waiting');
      assert.match(
        (await model.tick()).adyen_reports.error,
        new RegExp(`1 of 3 shards did not answer .${SHARDS[1]}`),
      );
      assert.deepEqual(await breaks(model), [], 'nothing seems to be unknown');
      await all.putUp(SHARDS[1]);
      const { adyen_reports: run } = await model.tick();
      assert.deepEqual([run.waiting, run.slices, run.searching], [1, 1, 0], JSON.stringify(run));
      assert.deepEqual(await breaks(model), expected);
      const unmarked =
        "SELECT provider_payment FROM payments WHERE provider = 'adyen' AND moved_payment IS NULL";
      assert.deepEqual([await model.all(unmarked), await all.rows(unmarked)], [[], []]);
      await model.tick();
      assert.deepEqual(await breaks(model), expected);
      assert.deepEqual(await all.rows('SELECT break_id FROM breaks'), []);
    });

    test('a layout can be set while there are reports', async () => {
      const answer = await site.fetch('/admin/api/shards', {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ slots: 4, from: '2099-01-01T00:00:00Z' }),
      });
      assert.equal(answer.status, 200, await answer.text());
    });
  });

// Where statements are collected shards tell of theirs, too.
test(
  'a run of a shard in which nothing is new sends D1 as many statements as `npm run scale` takes it to',
  { skip: Boolean(folder) },
  async (t) => {
    const workers = workersWithShards({ secrets, buckets: ['SETTLEMENT', 'HISTORY'] });
    const site = await startSite({ workers, looksAtStatements: true });
    t.after(() => site.close());
    const model = readModel(site);
    await shards(site).lay(1, { from_ms: last - 40 * DAY_MS });
    await model.run('INSERT INTO shards (name, made_at_ms) VALUES (?, 1)', SHARDS[0]);
    const task = `place:${SHARDS[0]}`;
    const object = await objectOf(site, task);
    await model.tick();
    const ranAt = async () => (await placeRuns(model.all)).find((run) => run.task === task).at_ms;
    const counts = [];
    // Whatever else goes on is in some of them, and not in all.
    for (let run = 0; run < 4; run += 1) {
      const [before, seen] = [await ranAt(), site.logs().length];
      await object.hurry();
      await until('it has run', async () => (await ranAt()) > before);
      counts.push(sent(site.logs().slice(seen)).length);
    }
    t.diagnostic(`${counts}`);
    assert.equal(Math.min(...counts), PLACE_STATEMENTS, `${counts}`);
  },
);
