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
import { setTimeout as pause } from 'node:timers/promises';
import { Chaos, LOOK_EVERY_MS, SEED, inTurn } from './chaos.mjs';
import { rowsOnDisk } from './judge.mjs';
import { judgeMoney, movedTwice } from './money.mjs';
import { Payers } from './payers.mjs';

const PAYERS = Number(process.env.CRASH_PAYERS ?? 60);
const KILLS = Number(process.env.CRASH_KILLS ?? 18);
/** The control ends as soon as something was moved twice, and at the latest here. */
const CONTROL_PAYERS = 120;
const CONTROL_KILLS = 40;

/** The process lives until so many more requests have ended. This is the load, not a wait. */
const ENDED_EACH_LIFE = [1, 20];
/** Of all who begin, so many at most are not done. */
const UNFINISHED_MAX = 25;
/** A bound for the load on a machine that gets nowhere. */
const KILLS_MAX_FACTOR = 3;
/** Lease, quiet time, and the pauses after a provider that failed. */
const ENDS_WITHIN_MS = 180_000;

test('the money is where the answers say, whenever the process is killed', async (t) => {
  const load = new Load('payments', { payers: PAYERS, kills: KILLS });
  t.after(() => load.end());
  await load.start();
  await load.run();
  const history = await load.settle();
  const figures = load.figures(history);
  t.diagnostic(`seed ${SEED}: ${JSON.stringify(figures)}`);

  assert.deepEqual(judgeMoney(history), []);
  assert.deepEqual(load.errors, []);
  assert.ok(figures.struck >= KILLS / 2, 'most kills struck requests that were under way');
  assert.ok(figures.resumed > 0 && figures.byAlarm > 0, 'keys were interrupted, and taken up by the alarm');
  assert.ok(figures.replayedByProvider > 0, 'some kills struck between the effect and its record');
  for (const what of ['charges', 'captures', 'voids', 'refunds', 'declined', 'refused'])
    assert.ok(figures[what] > 0, `there were ${what}`);
});

test('control: without derived keys money is moved twice', async (t) => {
  const load = new Load('payments-unprotected', {
    payers: CONTROL_PAYERS,
    kills: CONTROL_KILLS,
    vars: { UNPROTECTED: 'true' },
  });
  t.after(() => load.end());
  await load.start();
  await load.run({ until: async () => movedTwice(await load.sim('ledger')).length > 0 });
  const twice = movedTwice(await load.sim('ledger'));
  t.diagnostic(`seed ${SEED}: ${twice.length} moved twice after ${load.kills} kills`);
  assert.notDeepEqual(twice, []);
});

/** Both Workers, the payers, and the kills. */
class Load extends Chaos {
  #begun = [];
  #wanted;
  #payers;
  #runs = [];
  #failures = [];

  constructor(name, { payers, kills, vars }) {
    super(`crash-${name}`, { seed: SEED, vars, path: '/v1/' });
    this.#wanted = { payers, kills };
  }

  async start() {
    await super.start();
    this.#payers = new Payers(this);
  }

  async end() {
    this.#payers?.stop();
    await super.end();
  }

  /** Starts and kills until all payers have begun and enough kills have struck, or `until` says so. */
  async run({ until = async () => false } = {}) {
    const { payers, kills } = this.#wanted;
    await this.killAgain({
      kills,
      factor: KILLS_MAX_FACTOR,
      isDone: () => this.#begun.length >= payers,
      live: () => {
        const room = UNFINISHED_MAX - (this.#begun.length - this.#payers.finished);
        const each = Math.ceil(payers / kills);
        for (let left = Math.min(each, room, payers - this.#begun.length); left > 0; left -= 1) this.#begin();
        return this.#payers.moreEnded(this.between(...ENDED_EACH_LIFE));
      },
      begin: () => this.#payers.finished === this.#begun.length && this.#begin(),
      failures: this.#failures,
      until,
    });
  }

  /** No more faults: waits for all to end, then asks everybody again. Gives what the judge needs. */
  async settle() {
    await this.sim('faults', { method: 'DELETE' });
    await this.worker.start();
    const deadline = Date.now() + ENDS_WITHIN_MS;
    await Promise.race([Promise.all(this.#runs), pause(ENDS_WITHIN_MS, null, { ref: false })]);
    if (this.#failures.length > 0) throw this.#failures[0];
    const acts = this.#begun.flatMap((payer) => payer.acts);
    await this.#allEnded(acts, deadline);
    await this.readRequests();

    await inTurn(acts, async (act) => {
      const hasEnded = act.answers.length > 0 || act.view?.status === 'complete';
      act.replays = hasEnded ? [await this.#payers.repeat(act), await this.#payers.repeat(act)] : [];
    });
    const ledger = await this.sim('ledger');
    const shown = new Map();
    const ids = new Set(ledger.charges.map((charge) => charge.metadata.resource));
    await inTurn([...ids], async (id) => shown.set(id, await this.#payers.payment(id)));
    await this.worker.kill();
    return {
      payers: this.#begun,
      shown,
      ledger,
      requests: [...this.requests.values()],
      objects: rowsOnDisk(this.worker.objectsOf('KeyObject')),
    };
  }

  figures({ payers, ledger, requests }) {
    const acts = payers.flatMap((payer) => payer.acts);
    const ended = (name, status) =>
      acts.filter((act) => act.name === name && act.replays[0]?.status === status).length;
    return {
      ...this.#payers.counts,
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

  #begin() {
    const payer = this.#payers.make(this.#begun.length + 1);
    this.#begun.push(payer);
    this.#runs.push(this.#payers.run(payer).catch((error) => this.#failures.push(error)));
  }

  /** Looks at each key until it has ended or never was. Looking resumes nothing: that is left to the alarm. */
  async #allEnded(acts, deadline) {
    let open = acts.filter(({ key }) => key);
    for (;;) {
      await inTurn(open, async (act) => (act.view = await this.#payers.look(act)));
      open = open.filter(({ view }) => view && view.status !== 'complete');
      if (open.length === 0 || Date.now() > deadline) return;
      await pause(LOOK_EVERY_MS);
    }
  }
}
