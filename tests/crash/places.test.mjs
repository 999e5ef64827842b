// Kill -9 of the whole site while each place of the read model settles its part of a day in an object of its own.
//
// Here run the site, its desk, and three shards, `wrangler dev` on disk. Movements are put into the tables of all places, while nothing runs. The clock
// strikes once, before the first kill. From then on nothing but the objects' own alarms begins a run. Kills are aimed: the disk is read all the time,
// and what the runs have just written there is the signal.
//
// Shown, after the last kill:
// - the places went on from where each was killed, without the cron, and the manifest names each movement once, with the bytes that are there;
// - nothing else was written;
// - and after the kills some places had written something, and none was through: the test can fail.
//
// The same dice:  CRASH_SEED=12345

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { rng } from '../witness/rng.mjs';
import { SEED } from './chaos.mjs';
import { Site } from './site.mjs';
import { workersWithShards } from '../worker/support/shards.mjs';
import { HANGS_AFTER_MS } from '../worker/support/until.mjs';

const DAY_MS = 86_400_000;
/** Of these days the last is due: it ended two hours ago or earlier. */
const LAST_MS = Math.floor((Date.now() - 26 * 3_600_000) / DAY_MS) * DAY_MS;
const DAY = new Date(LAST_MS).toISOString().slice(0, 10);
const MANIFEST = `settlement/${DAY}.json`;
const SHARDS = 3;
/** Movements of each place, and how many of them a part has. */
const MOVEMENTS = 90;
const PART_LINES = 3;
const KILLS = Number(process.env.CRASH_KILLS ?? 4);
/** Lives in which a kill may miss what it aims at, or a place waits for another one. */
const LIVES_MAX = 20;
const OBJECTS = 'paid-once-demo-desk-TaskObject';
const VARS = { SETTLEMENT_PART_LINES: PART_LINES };

// No test needs the network: this keeps the runtime from asking where on Earth it runs.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = 'false';
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

test('places that are killed again and again go on by their own alarms, and settle each movement once', async (t) => {
  const { between } = rng(SEED);
  const workers = (options) => workersWithShards({ ...options, buckets: ['SETTLEMENT'], migrates: true });
  const site = await Site.make('crash-places', { workers, hasBank: false });
  t.after(() => site.close());
  const { disk } = site;
  const expected = await withMovements(site);

  const places = () =>
    disk.rows('SELECT * FROM settlement_places').filter(({ written_at_ms: at }) => at !== null).length;
  const objects = () => disk.objects('settlement/').length;
  const isJoined = () =>
    disk.rows('SELECT 1 FROM settlement_files WHERE day = ? AND written_at_ms IS NOT NULL', DAY).length > 0;
  const endedSince = (ms) =>
    disk.rows("SELECT 1 FROM runs WHERE task GLOB 'place:*' AND at_ms >= ?", ms).length > SHARDS;

  /** Lets the runs go on until this is so, or each has ended. It looks as often, and no oftener: the runtime needs the processor. */
  const life = async (isNow, lookEachMs) => {
    const began = Date.now();
    const endsBy = began + HANGS_AFTER_MS;
    while (!isNow() && !isJoined() && !endedSince(began)) {
      assert.ok(Date.now() < endsBy, 'their alarms do not come');
      await pause(lookEachMs);
    }
  };
  const changes = (of) => {
    const was = of();
    return () => of() !== was;
  };

  const left = [];
  let lives = 0;
  for (; left.length < KILLS && !isJoined(); lives += 1) {
    assert.ok(lives < LIVES_MAX, `too few kills struck: ${left}`);
    const dueAt = lives > 0 ? due(site, site.startsWithinMs) : 0;
    const written = [changes(objects), changes(places)];
    await site.start(VARS);
    const struck = lives === 0 ? site.strike() : Promise.resolve();
    await pause(Math.max(0, dueAt - Date.now()));
    await life(() => written.some((isNow) => isNow()), 1);
    // A few writes later, as it happens.
    await pause(between(0, 30));
    const isStruck = written.some((isNow) => isNow()) && !isJoined();
    await Promise.all([site.kill(), struck]);
    if (isStruck) left.push(objects());
  }
  t.diagnostic(`seed ${SEED}: ${left} objects were written after each kill, in ${lives} lives`);
  const parts = (SHARDS + 1) * (MOVEMENTS / PART_LINES);
  assert.ok(
    left.some((number) => number > 0 && number < parts),
    'a kill has struck half-way',
  );

  for (; !isJoined(); lives += 1) {
    assert.ok(lives < 2 * LIVES_MAX, 'it does not come to its end');
    due(site, 0);
    await site.start(VARS);
    await life(() => false, 20);
    await site.kill();
  }

  const written = new Map(disk.objects('settlement/').map((object) => [object.key, disk.bytes(object)]));
  const manifest = JSON.parse(written.get(MANIFEST));
  const lines = manifest.parts.flatMap(({ name, sha256: noted }) => {
    const bytes = written.get(name);
    assert.equal(sha256(bytes), noted, name);
    const each = bytes.toString().split('\n').slice(1);
    // Without the shard that is named behind the id.
    const lines = each.filter((line) => line && !/^(total|trailer),/.test(line));
    return lines.map((line) => line.split(',')[0].split('.')[0]);
  });
  assert.deepEqual(lines.toSorted(), expected.toSorted(), 'each movement once');
  assert.equal(manifest.lines, expected.length);
  const named = [MANIFEST, ...manifest.parts.map(({ name }) => name)];
  assert.deepEqual([...written.keys()].toSorted(), named.toSorted(), 'and nothing else is there');
  assert.equal(manifest.parts.length, parts);
});

/** Makes the shards, and puts movements into all places, past the Workers. Gives the lines that there must be. */
async function withMovements(site) {
  await site.start(VARS);
  await site.kill();
  const sinceMs = LAST_MS - 40 * DAY_MS;
  site.disk.write((database) => {
    database
      .prepare(
        "INSERT INTO shard_layouts (from_ms, slots, spread, made_at_ms) VALUES (?, ?, '{}', ?) RETURNING layout_id",
      )
      .all(sinceMs, SHARDS, sinceMs);
    for (let slot = 0; slot < SHARDS; slot += 1)
      database
        .prepare('INSERT INTO shards (name, made_at_ms) VALUES (?, ?)')
        .run(`g1-${DAY.slice(0, 7)}-00${slot}`, sinceMs);
  });
  await site.start(VARS);
  // Whoever asks a shard makes its tables.
  await site.page('/admin/payments');
  await site.kill();
  const expected = [];
  let number = 0;
  const move = (database) => {
    const record = database.prepare(
      "INSERT INTO audit_records VALUES (?, 3, ?, 'a', 'payment.captured', ?, ?)",
    );
    for (let of = 0; of < MOVEMENTS; of += 1) {
      number += 1;
      const data = { provider: 'stripe', provider_payment: `pi_${number}`, amount_captured: number };
      record.run(
        `object-${number}`,
        LAST_MS + number * 60_000,
        `pay_${number}`,
        JSON.stringify({ ...data, currency: 'usd' }),
      );
      expected.push(`pay_${number}:capture`);
    }
  };
  site.disk.write(move);
  const shards = site.filesOf('paid-once-demo-ReadModelShard');
  assert.equal(shards.length, SHARDS);
  for (const file of shards) {
    const database = new DatabaseSync(file);
    move(database);
    database.close();
  }
  return expected;
}

/** As if the pause until each alarm were soon over. Only while nothing runs. Gives when it is. */
function due(site, inMs) {
  const dueAt = Date.now() + inMs;
  const atNs = BigInt(dueAt) * 1_000_000n;
  // workerd keeps it twice, in ns: with the object, and for all of them.
  const files = site.filesOf(OBJECTS);
  for (const file of files) change(file, 'UPDATE _cf_METADATA SET value = ? WHERE key = 1', atNs);
  const all = join(dirname(files[0]), 'metadata.sqlite');
  assert.ok(change(all, 'UPDATE _cf_ALARM SET scheduled_time = ?', atNs) > SHARDS, 'each has its alarm');
  return dueAt;
}

function change(file, sql, value) {
  const database = new DatabaseSync(file);
  const { changes } = database.prepare(sql).run(value);
  database.close();
  return changes;
}
