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
// The process is killed about twice a second, 28 times; `npm test -- thorough` kills it 110 times.
// Other numbers:  CRASH_KEYS=5000 CRASH_KILLS=500 node --test tests/crash/kill.test.mjs
// The same dice:  CRASH_SEED=12345 (the choices are the same; when a kill strikes depends on the machine)

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Chaos, LOOK_EVERY_MS, SEED, inTurn } from './chaos.mjs';
import { Clients } from './clients.mjs';
import { chargedTwice, judge, rowsOnDisk } from './judge.mjs';

const KEYS = Number(process.env.CRASH_KEYS ?? 250);
const KILLS = Number(process.env.CRASH_KILLS ?? 28);

/** The control ends as soon as somebody was charged twice, and at the latest here. */
const CONTROL_KEYS = 200;
const CONTROL_KILLS = 40;

/**
 * How long the process lives: until a part of the unfinished clients have finished, up to this share. This is the load, not a wait. It lives
 * longer on a slow machine, where otherwise nobody would get anywhere.
 */
const SHARE_MAX = 0.75;
/** Of all who begin, so many at most are not done. On a slow machine the clients come later. */
const UNFINISHED_MAX = 25;
/** New clients come within this time. */
const COME_WITHIN_MS = 600;
/** A bound for the load on a machine that gets nowhere. */
const KILLS_MAX_FACTOR = 6;

/** Lease, quiet time, and the pauses after a provider that failed: they double with each send. */
const ENDS_WITHIN_MS = 180_000;

test('every key ends once, whenever the process is killed', async (t) => {
  const load = new Load('protected', { seed: SEED, keys: KEYS, kills: KILLS });
  t.after(() => load.end());
  await load.start();
  await load.run();
  const history = await load.settle();
  const figures = load.figures(history);
  for (const line of figures.lines) t.diagnostic(line);

  assert.deepEqual(judge(history), []);
  assert.deepEqual(load.errors, []);
  assert.ok(history.clients.length >= KEYS, `${history.clients.length} keys`);
  assert.ok(load.kills >= KILLS, `${load.kills} kills`);
  // Kills that strike between two requests show nothing.
  assert.ok(figures.struck >= KILLS / 2, 'most kills struck requests that were under way');
  assert.ok(figures.takenOver >= KEYS / 20, 'enough keys were interrupted and taken over');
  assert.ok(figures.replayedByProvider > 0, 'some kills struck between the charge and its record');
  assert.ok(figures.byAlarm > 0, 'some keys were taken up by the alarm');
});

test('control: without derived keys somebody is charged twice', async (t) => {
  const load = new Load('unprotected', {
    seed: SEED,
    keys: CONTROL_KEYS,
    kills: CONTROL_KILLS,
    vars: { UNPROTECTED: 'true' },
  });
  t.after(() => load.end());
  await load.start();
  await load.run({ until: async () => chargedTwice(await load.sim('ledger')).length > 0 });
  const twice = chargedTwice(await load.sim('ledger'));
  t.diagnostic(
    `seed ${SEED}: ${twice.length} charged twice after ${load.kills} kills and ${load.begun.length} keys`,
  );
  assert.notDeepEqual(twice, []);
});

/** Both Workers, the clients, and the kills. */
class Load extends Chaos {
  begun = [];
  #wanted;
  #failures = [];
  #clients;
  #runs = [];

  constructor(name, { seed, keys, kills, vars = {} }) {
    super(`crash-${name}`, { seed, vars, path: '/v1/payment_intents' });
    this.#wanted = { keys, kills };
  }

  async start() {
    await super.start();
    this.#clients = new Clients(this.worker, this.underWay);
  }

  async end() {
    this.#clients?.stop();
    await super.end();
  }

  /** Starts and kills until all clients have begun and enough kills have struck, or `until` says so. */
  async run({ until = async () => false } = {}) {
    const { keys, kills } = this.#wanted;
    // Some of those who vanish leave no trace: no key is taken for them.
    const wanted = Math.ceil(keys * 1.05);
    const each = Math.ceil(wanted / kills);
    await this.killAgain({
      kills,
      factor: KILLS_MAX_FACTOR,
      isDone: () => this.begun.length >= wanted,
      live: () => {
        const room = UNFINISHED_MAX - this.#unfinished;
        for (let left = Math.min(each, room, wanted - this.begun.length); left > 0; left -= 1)
          this.#begin(this.between(0, COME_WITHIN_MS));
        return this.#clients.moreFinished(this.between(0, Math.floor(this.#unfinished * SHARE_MAX)));
      },
      begin: () => this.#unfinished === 0 && this.#begin(0),
      failures: this.#failures,
      until,
    });
  }

  /** No more faults: waits for all to end, then asks everybody again. Gives what the judge needs. */
  async settle() {
    await this.sim('faults', { method: 'DELETE' });
    await this.worker.start();
    const from = Date.now();
    await Promise.race([Promise.all(this.#runs), pause(ENDS_WITHIN_MS, null, { ref: false })]);
    if (this.#failures.length > 0) throw this.#failures[0];
    await this.#allEnded(from + ENDS_WITHIN_MS);
    this.endedAfterMs = Date.now() - from;
    await this.readRequests();

    const clients = this.begun.filter((client) => client.view);
    await inTurn(clients, async (client) => {
      client.replays = [await this.#clients.repeat(client), await this.#clients.repeat(client)];
    });
    await this.worker.kill();
    const requests = [...this.requests.values()];
    return {
      clients,
      ledger: await this.sim('ledger'),
      requests,
      objects: rowsOnDisk(this.worker.objectsOf('KeyObject')),
    };
  }

  figures({ clients, ledger, requests, objects }) {
    const { counts } = this.#clients;
    const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
    const sends = requests.filter(({ method }) => method === 'POST');
    const charges = ledger.charges.filter((charge) => charge.paid).length;
    const figures = {
      struck: this.underWayAtKill.filter((underWay) => underWay > 0).length,
      takenOver: clients.filter(({ view }) => view.attempts > 1).length,
      replayedByProvider: sends.filter(({ replayed }) => replayed).length,
      byAlarm: this.resumedByAlarm,
    };
    const many = (what) => clients.filter(what).length;
    figures.lines = [
      `seed ${SEED}`,
      `${clients.length} keys (${many((c) => c.channel === 'api')} by API, ${many((c) => c.channel === 'form')} by form; ` +
        `${many((c) => c.card === 'declined')} with a declined card, ${many((c) => c.doubles)} sent twice at once, ` +
        `${many((c) => c.vanishesAfterMs)} abandoned after one try); ` +
        `${this.begun.length - clients.length} more vanished before their key was taken`,
      `${this.kills} kills with ${sum(this.underWayAtKill)} requests under way ` +
        `(${figures.struck} kills struck at least one)`,
      `${counts.requests} requests, ${counts.retries} retries, ${counts.unanswered} without an answer; ` +
        `answers ${Object.entries(counts.statuses)
          .map(([status, n]) => `${status}: ${n}`)
          .join(', ')}`,
      `${figures.takenOver} keys taken over, ${sum(clients.map(({ view }) => view.attempts - 1))} takeovers, ` +
        `at most ${Math.max(...clients.map(({ view }) => view.attempts))} attempts; ${figures.byAlarm} resumed by the alarm`,
      `${sends.length} sends to the provider, ${sends.length - new Set(sends.map((s) => s.idempotency_key)).size} of them again, ` +
        `${figures.replayedByProvider} answered from its memory; ${requests.length - sends.length} look-ups`,
      `${charges} charges for ${many((c) => c.card === 'paid')} paid keys, ` +
        `${sum(objects.map(({ jobs }) => jobs.filter(({ kind }) => kind === 'send_receipt').length))} receipts staged`,
      `all ended ${this.endedAfterMs} ms after the last start`,
    ];
    return figures;
  }

  #begin(afterMs) {
    const chance = (share) => this.chance(share);
    const client = this.#clients.make({
      number: this.begun.length + 1,
      channel: chance(0.3) ? 'form' : 'api',
      card: chance(0.2) ? 'declined' : 'paid',
      doubles: chance(0.1),
      vanishesAfterMs: chance(0.15) ? this.between(10, 300) : null,
    });
    this.begun.push(client);
    const run = pause(afterMs)
      .then(() => this.#clients.run(client))
      .catch((error) => this.#failures.push(error));
    this.#runs.push(run);
  }

  /** Looks at each key until it has ended or never was. Looking resumes nothing: that is left to the alarm. */
  async #allEnded(deadline) {
    let open = this.begun;
    for (;;) {
      const objects = rowsOnDisk(this.worker.objectsOf('KeyObject'));
      await inTurn(open, async (client) => (client.view = client.key && (await this.#look(client, objects))));
      open = open.filter(({ view }) => view && view.status !== 'complete');
      if (open.length === 0 || Date.now() > deadline) return;
      await pause(LOOK_EVERY_MS);
    }
  }

  /** Where a client's key stands. That of a form is for nobody to ask for: it is read from the rows on disk. */
  async #look(client, objects) {
    if (client.channel === 'api') return this.#clients.look(client);
    const order = objects.find(({ payments: [payment] }) => payment?.order_id === client.order);
    if (!order) return null;
    const [key] = order.keys;
    return {
      ...key,
      status: key.status === 'finished' ? 'complete' : key.status,
      response_code: key.response_status,
      resource: `/payments/${order.payments[0].payment_id}`,
      attempts: key.attempt,
      timeline: order.timeline.map((line) => ({ ...line, at: new Date(line.at_ms).toISOString() })),
    };
  }

  get #unfinished() {
    return this.begun.length - this.#clients.finished;
  }
}
