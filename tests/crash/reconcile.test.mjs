// Kill -9 of the whole site while an account's books are compared by an object of its own.
//
// Here run the site and its desk, `wrangler dev` on disk; the bank is in a process of its own, and has payments of which the site knows nothing: each is
// a break. The clock strikes once, before the first kill. From then on nothing but the object's own alarm begins a run. Kills are aimed: the disk is read
// all the time, and what the run has just written there is the signal.
//
// Shown, after the last kill:
// - the runs went on from where each was killed, without the cron, and every payment is found, once;
// - and after the kills some were found and others not: the test can fail.
//
// The same dice:  CRASH_SEED=12345

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { rng } from '../witness/rng.mjs';
import { HANGS_AFTER_MS, until } from '../worker/support/until.mjs';
import { SEED } from './chaos.mjs';
import { Site } from './site.mjs';

/** More than a page of each list. A payment that is not known is asked for by its id, 20 a second. */
const PAYMENTS = 120;
const KILLS = Number(process.env.CRASH_KILLS ?? 3);
/** Lives in which a kill may miss what it aims at. */
const LIVES_MAX = 12;
const AT_ONCE = 20;
const TASK = 'reconcile:deployment';

// No test needs the network: this keeps the runtime from asking where on Earth it runs.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = 'false';

test('a run that is killed again and again goes on by its own alarm, and finds all', async (t) => {
  const { between } = rng(SEED);
  const site = await Site.make('crash-reconcile');
  t.after(() => site.close());
  const { disk } = site;
  const made = await madeElsewhere(site.bank);
  const start = () => site.start({ RECONCILE_QUIET_MS: 0 });
  /** As if the pause until the alarm were soon over. Only while nothing runs. Gives when it is. */
  const due = (inMs) => {
    const dueAt = Date.now() + inMs;
    const atNs = BigInt(dueAt) * 1_000_000n;
    // workerd keeps it twice, in ns: with the object, and for all of them.
    const objects = site.filesOf('paid-once-demo-desk-TaskObject');
    const all = join(dirname(objects[0]), 'metadata.sqlite');
    for (const file of [...objects, all]) {
      const database = new DatabaseSync(file);
      const sql =
        file === all
          ? 'UPDATE _cf_ALARM SET scheduled_time = ?'
          : 'UPDATE _cf_METADATA SET value = ? WHERE key = 1';
      const { changes } = database.prepare(sql).run(atNs);
      database.close();
      assert.equal(changes, 1, 'its alarm is set, wherever it was killed');
    }
    return dueAt;
  };

  const number = (sql) => disk.rows(sql)[0]?.number ?? 0;
  const found = () => number("SELECT count(*) AS number FROM breaks WHERE kind = 'orphan'");
  const cursors = () => JSON.stringify(disk.rows("SELECT * FROM cursors WHERE name LIKE 'stripe%'"));
  const changes = (of) => () => {
    const was = of();
    return () => of() !== was;
  };
  const aims = [changes(found), changes(cursors)];

  const endedAt = () => JSON.stringify(disk.rows('SELECT at_ms FROM runs WHERE task = ?', TASK));
  const left = [];
  for (let life = 0; left.length < KILLS; life += 1) {
    assert.ok(life < LIVES_MAX, `too few kills struck: ${left}`);
    const [isNow, isOver] = [aims[life % aims.length](), changes(endedAt)()];
    const dueAt = life > 0 ? due(site.startsWithinMs) : 0;
    await start();
    const struck = life === 0 ? site.strike() : Promise.resolve();
    await pause(Math.max(0, dueAt - Date.now()));
    const endsBy = Date.now() + HANGS_AFTER_MS;
    // It looks often, and leaves the processor to the runtime in between.
    while (!isNow() && !isOver()) {
      assert.ok(Date.now() < endsBy, 'its alarm does not come');
      await pause(1);
    }
    // A few writes later, as it happens.
    await pause(between(0, 20));
    await Promise.all([site.kill(), struck]);
    if (!isOver()) left.push(PAYMENTS - found());
  }
  t.diagnostic(`seed ${SEED}: of ${PAYMENTS} payments were not found after each kill: ${left}`);
  assert.ok(
    left.some((number) => number > 0 && number < PAYMENTS),
    'a kill has struck half-way',
  );

  due(0);
  await start();
  await until('a run has come to its end', () => {
    const [newest] = disk.rows('SELECT result FROM runs WHERE task = ?', TASK);
    return newest && JSON.parse(newest.result).complete && found() >= PAYMENTS;
  });
  await site.kill();
  const breaks = disk.rows("SELECT provider_payment AS id FROM breaks WHERE kind = 'orphan' ORDER BY id");
  assert.deepEqual(
    breaks.map(({ id }) => id),
    made.toSorted(),
  );
  assert.deepEqual(disk.rows("SELECT task FROM runs WHERE task LIKE 'reconcile:%'"), [{ task: TASK }]);
});

/** Payments of somebody else with the same account at the bank. Gives their ids. */
async function madeElsewhere(bank) {
  const make = async () => {
    const answer = await fetch(new URL('/v1/payment_intents', bank), {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_demo', 'content-type': 'application/x-www-form-urlencoded' },
      body: 'amount=4200&currency=eur&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true',
    });
    assert.equal(answer.status, 200);
    return (await answer.json()).id;
  };
  const made = [];
  while (made.length < PAYMENTS) made.push(...(await Promise.all(Array.from({ length: AT_ONCE }, make))));
  return made;
}
