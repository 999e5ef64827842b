// Kill -9 of workerd while payments are made, reserved, captured, given up and given back, again and again, on the same disk.
//
// As in kill.test.mjs the provider is in a process that is never killed; it is slow and fails in all its ways. Payers do several things
// to one payment, some at the same time: two captures, a capture and a void, refunds that together are more than there is, one order under
// two keys. Some send each request twice at once, some without a header, some vanish.
//
// Shown, after the last kill:
// - authorised ≥ captured ≥ refunded, in the ledger, in the rows and in what is shown, and all three agree;
// - one charge, capture, void or refund for each request that was answered with success, and none for those that were refused or declined;
// - whatever was answered at the end of any request is answered again to two more, byte for byte;
// - the bytes sent under one derived key never change, and each effect is in the audit once;
// - and without the derived keys (UNPROTECTED) the same load charges or refunds twice: the test can fail.
//
// Other numbers:  CRASH_PAYERS=1000 CRASH_KILLS=200 node --test tests/crash/payments.test.mjs
// The same dice:  CRASH_SEED=12345 (the choices are the same; when a kill strikes depends on the machine)

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judge } from '../witness/invariants.mjs';
import { movedTwice } from '../witness/ledger.mjs';
import { Chaos, HELD_AFTER_KILLS, SEED } from './chaos.mjs';
import { Payers } from './payers.mjs';

const PAYERS = Number(process.env.CRASH_PAYERS ?? 60);
const KILLS = Number(process.env.CRASH_KILLS ?? 14);
/** The control ends as soon as something was moved twice, and at the latest here. */
const CONTROL_PAYERS = 120;
const CONTROL_KILLS = 40;

/** The process lives until so many more requests have ended. This is the load, not a wait. */
const ENDED_EACH_LIFE = [1, 20];
/** A bound for the load on a machine that gets nowhere. */
const KILLS_MAX_FACTOR = 3;

test('the money is where the answers say, whenever the process is killed', async (t) => {
  const load = await Load.start(t, 'payments');
  await load.kill({ payers: PAYERS, kills: KILLS });
  const history = await load.settle();
  const figures = load.figures(history);
  t.diagnostic(`seed ${SEED}: ${JSON.stringify(figures)}`);

  assert.deepEqual(judge(history, HELD_AFTER_KILLS), []);
  assert.deepEqual(load.errors, []);
  assert.ok(figures.struck >= KILLS / 2, 'most kills struck requests that were under way');
  assert.ok(figures.resumed > 0 && figures.byAlarm > 0, 'keys were interrupted, and taken up by the alarm');
  assert.ok(figures.replayedByProvider > 0, 'some kills struck between the effect and its record');
  for (const what of ['charges', 'captures', 'voids', 'refunds', 'declined', 'refused'])
    assert.ok(figures[what] > 0, `there were ${what}`);
});

test('control: without derived keys money is moved twice', async (t) => {
  const load = await Load.start(t, 'payments-unprotected', { UNPROTECTED: 'true' });
  const until = async () => movedTwice(await load.sim('ledger')).length > 0;
  await load.kill({ payers: CONTROL_PAYERS, kills: CONTROL_KILLS, until });
  const twice = movedTwice(await load.sim('ledger'));
  t.diagnostic(`seed ${SEED}: ${twice.length} moved twice after ${load.kills} kills`);
  assert.notDeepEqual(twice, []);
});

/** Both Workers, the payers, and the kills. */
class Load extends Chaos {
  static async start(t, name, vars) {
    const load = new Load(`crash-${name}`, { seed: SEED, vars, path: '/v1/' });
    t.after(() => load.end());
    await load.start();
    load.clients = new Payers(load);
    return load;
  }

  kill({ payers, kills, until }) {
    return this.run({
      kills,
      factor: KILLS_MAX_FACTOR,
      wanted: payers,
      begin: () => this.clients.come(),
      lives: () => this.clients.moreEnded(this.rng.between(...ENDED_EACH_LIFE)),
      until,
    });
  }

  figures({ acts, ledger, requests }) {
    const ended = (name, status) =>
      acts.filter((act) => act.name === name && act.replays[0]?.status === status).length;
    return {
      ...this.clients.counts,
      kills: this.kills,
      struck: this.underWayAtKill.filter((underWay) => underWay > 0).length,
      resumed: acts.filter(({ view }) => view?.attempts > 1).length,
      byAlarm: this.resumedByAlarm,
      replayedByProvider: requests.filter(({ replayed }) => replayed).length,
      charges: ledger.charges.filter(({ paid }) => paid).length,
      captures: ended('capture', 200),
      voids: ended('void', 200),
      refunds: ended('refunds', 201),
      declined: ended('pay', 402),
      refused: acts.filter(({ refused }) => refused).length,
      abandoned: acts.filter(({ abandoned }) => abandoned).length,
      withoutHeader: acts.filter(({ key }) => !key).length,
    };
  }
}
