// Kill -9 of workerd while requests run, again and again, on the same disk.
//
// The Worker runs in a workerd process of its own, which is killed every few hundred milliseconds; the simulator of Stripe runs in another
// one, which is never killed and so can be believed. Clients send their request, by the API or by an order's form, and send the same one under the
// same key until they know how it ended. Some send each request twice at once. Some vanish after one try: only the alarm can end what they
// began. Some cards are declined. The provider is slow, so that calls are on their way when the process dies, and it fails in all its ways.
//
// Shown, after the last kill:
// - every key ends, within lease, quiet time and back-off;
// - exactly one charge for each paid key and none for a declined one, counted in the provider's ledger, with nothing left over;
// - whatever was answered at the end of any request is answered again to two more, byte for byte;
// - the bytes sent under one derived key never change;
// - each payment that was charged has one staged receipt, and each phase one audit record, on the disk itself;
// - and without the derived keys (UNPROTECTED) the same load charges somebody twice: the test can fail.
//
// The process is killed about twice a second, 20 times; `npm test -- thorough` kills it 110 times.
// Other numbers:  CRASH_KEYS=5000 CRASH_KILLS=500 node --test tests/crash/kill.test.mjs
// The same dice:  CRASH_SEED=12345 (the choices are the same; when a kill strikes depends on the machine)

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { judge } from '../witness/invariants.mjs';
import { movedTwice } from '../witness/ledger.mjs';
import { Chaos, HELD_AFTER_KILLS, SEED } from './chaos.mjs';
import { Shoppers } from './clients.mjs';

const KEYS = Number(process.env.CRASH_KEYS ?? 180);
const KILLS = Number(process.env.CRASH_KILLS ?? 20);

/** The control ends as soon as somebody was charged twice, and at the latest here. */
const CONTROL_KEYS = 200;
const CONTROL_KILLS = 40;

/**
 * How long the process lives: until a part of the unfinished clients have finished, up to this share. This is the load, not a wait. It lives
 * longer on a slow machine, where otherwise nobody would get anywhere.
 */
const SHARE_MAX = 0.75;
/** The share of the clients who vanish after one try. */
const VANISH = 0.15;
/** New clients come within this time. */
const COME_WITHIN_MS = 600;
/** A bound for the load on a machine that gets nowhere. */
const KILLS_MAX_FACTOR = 6;

test('every key ends once, whenever the process is killed', async (t) => {
  const load = await Load.start(t, 'protected');
  await load.kill({ keys: KEYS, kills: KILLS });
  const history = await load.settle();
  const figures = load.figures(history);
  for (const line of figures.lines) t.diagnostic(line);

  assert.deepEqual(judge(history, HELD_AFTER_KILLS), []);
  assert.deepEqual(load.errors, []);
  assert.ok(figures.keys >= KEYS, `${figures.keys} keys`);
  assert.ok(load.kills >= KILLS, `${load.kills} kills`);
  // Kills that strike between two requests show nothing.
  assert.ok(figures.struck >= KILLS / 2, 'most kills struck requests that were under way');
  assert.ok(figures.takenOver >= KEYS / 20, 'enough keys were interrupted and taken over');
  assert.ok(figures.replayedByProvider > 0, 'some kills struck between the charge and its record');
  assert.ok(figures.byAlarm > 0, 'some keys were taken up by the alarm');
});

test('control: without derived keys somebody is charged twice', async (t) => {
  const load = await Load.start(t, 'unprotected', { UNPROTECTED: 'true' });
  const until = async () => movedTwice(await load.sim('ledger')).length > 0;
  await load.kill({ keys: CONTROL_KEYS, kills: CONTROL_KILLS, until });
  const twice = movedTwice(await load.sim('ledger'));
  t.diagnostic(
    `seed ${SEED}: ${twice.length} charged twice after ${load.kills} kills and ${load.clients.begun} keys`,
  );
  assert.notDeepEqual(twice, []);
});

/** Both Workers, the clients, and the kills. */
class Load extends Chaos {
  static async start(t, name, vars) {
    const load = new Load(`crash-${name}`, { seed: SEED, vars, path: '/v1/payment_intents' });
    t.after(() => load.end());
    await load.start();
    load.clients = new Shoppers(load);
    return load;
  }

  kill({ keys, kills, until }) {
    return this.run({
      kills,
      factor: KILLS_MAX_FACTOR,
      // Of those who vanish none may leave a trace: on a slow machine they are gone before a key is taken for them.
      wanted: Math.ceil((keys * 1.05) / (1 - VANISH)),
      begin: ({ atOnce = false } = {}) => this.#begin(atOnce ? 0 : this.rng.between(0, COME_WITHIN_MS)),
      lives: () =>
        this.clients.moreEnded(this.rng.between(0, Math.floor(this.clients.unfinished * SHARE_MAX))),
      until,
    });
  }

  #begin(afterMs) {
    const { chance, between } = this.rng;
    const client = {
      number: this.clients.begun + 1,
      form: chance(0.3),
      declines: chance(0.2),
      doubles: chance(0.1),
      vanishesAfterMs: chance(VANISH) ? between(10, 300) : null,
    };
    this.clients.begin(async () => {
      await pause(afterMs);
      await this.clients.pay(client);
    });
  }

  figures({ acts, ledger, requests, objects }) {
    const { counts, begun } = this.clients;
    const taken = acts.filter(({ view }) => view);
    const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
    const sends = requests.filter(({ method }) => method === 'POST');
    const charges = ledger.charges.filter((charge) => charge.paid).length;
    const figures = {
      keys: taken.length,
      struck: this.underWayAtKill.filter((underWay) => underWay > 0).length,
      takenOver: taken.filter(({ view }) => view.attempts > 1).length,
      replayedByProvider: sends.filter(({ replayed }) => replayed).length,
      byAlarm: this.resumedByAlarm,
    };
    const many = (what) => taken.filter(what).length;
    figures.lines = [
      `seed ${SEED}`,
      `${taken.length} keys (${many((c) => !c.form)} by API, ${many((c) => c.form)} by form; ` +
        `${many((c) => c.declines)} with a declined card, ${many((c) => c.doubles)} sent twice at once, ` +
        `${many((c) => c.abandoned)} abandoned after one try); ` +
        `${begun - taken.length} more vanished before their key was taken`,
      `${this.kills} kills with ${sum(this.underWayAtKill)} requests under way ` +
        `(${figures.struck} kills struck at least one)`,
      `${counts.requests} requests, ${counts.retries} retries, ${counts.unanswered} without an answer; ` +
        `answers ${Object.entries(counts.statuses)
          .map(([status, n]) => `${status}: ${n}`)
          .join(', ')}`,
      `${figures.takenOver} keys taken over, ${sum(taken.map(({ view }) => view.attempts - 1))} takeovers, ` +
        `at most ${Math.max(...taken.map(({ view }) => view.attempts))} attempts; ${figures.byAlarm} resumed by the alarm`,
      `${sends.length} sends to the provider, ${sends.length - new Set(sends.map((s) => s.idempotency_key)).size} of them again, ` +
        `${figures.replayedByProvider} answered from its memory; ${requests.length - sends.length} look-ups`,
      `${charges} charges for ${many((c) => !c.declines)} paid keys, ` +
        `${sum(objects.map(({ jobs }) => jobs.filter(({ kind }) => kind === 'send_receipt').length))} receipts staged`,
      `all ended ${this.endedAfterMs} ms after the last start`,
    ];
    return figures;
  }
}
