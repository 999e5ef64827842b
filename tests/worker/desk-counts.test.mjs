// What the desk counts where there are more shards than it asks: what each shard has counted in its own runs, as D1 has it. The shards of the
// directory here are not there but for one, and none of them is asked.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { startSite } from './support/harness.mjs';
import { parse } from './support/prometheus.mjs';
import { objectOf, placeRuns, readModel } from './support/readmodel.mjs';
import { shards, workersWithShards } from './support/shards.mjs';
import { until } from './support/until.mjs';

const DAY_MS = 86_400_000;
const period = (ago) => new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10);
const names = [0, 1, 2].flatMap((ago) =>
  Array.from({ length: 100 }, (_, slot) => `g1-${period(ago)}-${String(slot).padStart(3, '0')}`),
);
const NEWEST = names[0];
const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
const BREAK = `INSERT INTO breaks (break_id, kind, provider, state, first_seen_at_ms, last_seen_at_ms)
    VALUES (?, 'settlement', 'bank', 'open', 1, 1)`;

for (const tasks of [true, false])
  describe(`what waits in ${names.length} shards, ${tasks ? 'which have runs of their own' : 'which have none'}`, async () => {
    const site = await startSite({ workers: workersWithShards({ secrets: { ADMIN_TOKEN }, tasks }) });
    after(() => site.close());
    const model = readModel(site);
    const all = shards(site);
    await all.lay(100, { period: 'day', from_ms: Date.now() - 10 * DAY_MS });
    await model.run(
      'INSERT INTO shards (name, made_at_ms, heard_at_ms) SELECT value, 1, ?2 FROM json_each(?1)',
      JSON.stringify(names),
      Date.now(),
    );
    const page = async (path) => {
      const answer = await site.fetch(path, { headers });
      assert.equal(answer.status, 200, path);
      return answer.text();
    };
    const gauges = async () => {
      const { sum } = parse(await page('/metrics'));
      return [sum('breaks_open'), sum('read_model_incomplete')];
    };

    if (!tasks) {
      test('control: the newest are asked, and it is said that there are more', async () => {
        await model.run(BREAK, 'of-d1');
        assert.deepEqual(await gauges(), [1, 1]);
        assert.match(await page('/admin/settlement'), /There is more than was looked through/);
        const { sum } = parse(await page('/metrics'));
        for (const place of ['d1', 'largest_shard'])
          assert.ok(sum('read_model_bytes', { place }) > 100_000, 'each has the tables');
      });
      return;
    }

    const ran = (name, result, at_ms = Date.now()) =>
      model.run(
        'INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?, ?, 1, ?)',
        `place:${name}`,
        at_ms,
        JSON.stringify(result),
      );

    test('is what they have counted, together with D1, and no shard is asked', async () => {
      await all.takeDown(NEWEST);
      await model.run(BREAK, 'of-d1');
      await ran(names[1], {
        counts: { dead: 2, breaks: 1, gate: 6, open: 3, in_doubt: 1, late_or_flagged: 1 },
      });
      await ran(names[299], {
        sweep: { late: 7 },
        counts: { breaks: 5, ending: 4, kinds: { 'breaks:silent': 3 } },
      });
      await ran(names[150], {});
      const largest = async () =>
        parse(await page('/metrics')).samples.find(({ labels }) => labels.place === 'largest_shard')?.value;
      assert.equal(await largest(), undefined, 'none has said that it is large');
      await ran(names[151], { bytes: 7_100_000_000 });
      await ran(names[152], { bytes: 5_100_000_000 });
      assert.equal(await largest(), 7_100_000_000);
      assert.deepEqual(await gauges(), [7, 0]);
      const { sum } = parse(await page('/metrics'));
      const of = (kind) => sum('breaks_open', { kind });
      // What the shards of a release before have counted has no kind.
      assert.deepEqual([of('silent'), of('settlement'), of('other'), of('orphan')], [3, 1, 3, 0]);
      assert.equal(sum('dead_letters', { kind: 'other' }), 2);
      assert.deepEqual([sum('reservations_ending'), sum('gate_unknown')], [4, 6]);
      const shown = await page('/admin/settlement');
      assert.match(shown, /Dead letters <span class="waits">2</);
      assert.doesNotMatch(shown, /notice warning/);
      await all.putUp(NEWEST);
    });

    test('is said on the overview with how old it may be', async () => {
      const text = (await page('/admin')).replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
      assert.match(text, /Unknown now 1 of 3 keys that are not complete; the oldest count is of /);
      assert.match(text, /Reservations ending 4 /);
    });

    test('is said to be incomplete where shards were not heard of, or could not count', async () => {
      const sql = 'UPDATE shards SET heard_at_ms = ?2 WHERE name IN (SELECT value FROM json_each(?1))';
      const heard = (some, at_ms) => model.run(sql, JSON.stringify(some), at_ms);
      await heard(names.slice(10, 14), 0);
      await heard([names[20]], Date.now() - 3_600_000);
      await ran(names[30], { error: 'it is down' });
      await ran(names[31], { sweep: {}, counts: { error: 'it is down' }, error: 'counts: it is down' });
      // This one has counted, whatever else has failed.
      await ran(names[32], { sweep: { error: 'no' }, counts: { breaks: 1 }, error: 'sweep: no' });
      assert.deepEqual(await gauges(), [8, 1]);
      assert.match(await page('/admin/settlement'), /7 of 300 shards have not counted for 40 minutes/);
      await heard([...names.slice(10, 14), names[20]], Date.now());
      await model.run("DELETE FROM runs WHERE task GLOB 'place:*' AND result ->> '$.error' IS NOT NULL");
      assert.deepEqual(await gauges(), [7, 0]);
    });

    test('is complete while the shards of a new period have not run, and is not once they should have', async () => {
      const made = (some, at_ms) =>
        model.run(
          'UPDATE shards SET heard_at_ms = 0, made_at_ms = ?2 WHERE name IN (SELECT value FROM json_each(?1))',
          JSON.stringify(some),
          at_ms,
        );
      const ofToday = names.slice(0, 100);
      await made(ofToday, Date.now());
      assert.deepEqual(await gauges(), [7, 0]);
      assert.doesNotMatch(await page('/admin/settlement'), /have not counted/);
      // One that has said nothing since it was made, for longer than any run and any pause.
      await made([names[40]], Date.now() - 2_460_000);
      assert.deepEqual(await gauges(), [7, 1]);
      assert.match(await page('/admin/settlement'), /1 of 300 shards have not counted for 40 minutes/);
      await made([names[40]], Date.now() - 2_340_000);
      assert.deepEqual(await gauges(), [7, 0]);
    });

    test('is counted by the run of a shard itself; of a quiet one nothing is said', async () => {
      const task = `place:${NEWEST}`;
      const object = await objectOf(site, task);
      const result = async () => (await placeRuns(model.all)).find((run) => run.task === task)?.result;
      // Whoever asks a shard makes its tables.
      await object.hurry();
      assert.equal(await until('it has run', result), '{}');
      await all.rowsIn(NEWEST, BREAK, 'of-shard');
      await object.hurry();
      const counted = () => until('it has run again', async () => (await result()) !== '{}' && result());
      assert.deepEqual(JSON.parse(await counted()), {
        counts: { breaks: 1, kinds: { 'breaks:settlement': 1 } },
      });
      assert.deepEqual(await gauges(), [8, 0]);
      await all.rowsIn(NEWEST, "UPDATE breaks SET state = 'resolved'");
      await object.hurry();
      await until('it has run once more', async () => (await result()) === '{}');
      assert.deepEqual(await gauges(), [7, 0]);
      const { heard_at_ms } = await model.first('SELECT heard_at_ms FROM shards WHERE name = ?', NEWEST);
      assert.ok(heard_at_ms > Date.now() - 60_000);
    });
  });
