// The gate and the shop behind it under kill -9 and a network that loses answers: each form is one order at most, and whoever is told of an order
// has one. The shop's books are the witness.
//
// Other numbers:  CRASH_FORMS=400 CRASH_KILLS=60 node --test tests/crash/gate.test.mjs

import assert from 'node:assert/strict';
import { before, test } from 'node:test';

import { Callers, between, killAgain, send } from '../../crates/once-testing/kill/kill.mjs';
import { build } from '../../scripts/build.mjs';
import { keysIn, startGate } from '../worker/support/gate.mjs';

const SEED = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 2 ** 32));
const FORMS = Number(process.env.CRASH_FORMS ?? 80);
const KILLS = Number(process.env.CRASH_KILLS ?? 14);
/** The control ends at the first form that is two orders. */
const CONTROL_KILLS = 40;
const ROUTES = { forms: ['POST /checkout'], timeout_ms: 5_000 };

before(() => build({ names: ['gate'], profile: 'dev' }));

test('every form is one order at most, whenever the gate is killed', async (t) => {
  const load = await start(t, ROUTES);
  const struck = await load.kill({ kills: KILLS });
  const { wrong, told } = load.judge();
  t.diagnostic(`seed ${SEED}: ${struck.length} kills, ${JSON.stringify(told)}`);
  assert.deepEqual(wrong, []);
  assert.ok(struck.filter((underWay) => underWay > 0).length >= KILLS / 2, 'kills struck requests');
  assert.ok(told.done > 0, 'some are done');
  assert.ok(told.unknown > 0, 'some are not known');
});

test('control: a gate that believes that the shop looks at keys orders twice', async (t) => {
  const load = await start(t, { ...ROUTES, on_unknown: 'replay' });
  await load.kill({ kills: CONTROL_KILLS, until: () => load.judge().wrong.length > 0 });
  assert.notDeepEqual(load.judge().wrong, []);
});

async function start(t, route) {
  const roll = between(SEED);
  const gate = await startGate({ '': route });
  const { shop, runtime } = gate;
  shop.page('/checkout', '<form method="post" action="/checkout"><input name="name"></form>');
  // An end is what a person would not send again.
  const callers = new Callers(runtime, { isEnd: ({ status }) => status === 303 || status === 502 });
  t.after(async () => {
    callers.stop();
    await gate.close();
  });
  const forms = [];
  while (forms.length < FORMS) {
    const { text, headers } = await send(runtime.origin, '/checkout', { headers: { accept: 'text/html' } });
    forms.push({
      key: keysIn(text)[0],
      cookie: headers['set-cookie'][0].split(';')[0],
      name: `Ann ${forms.length}`,
    });
  }
  await runtime.kill();

  /** Some are sent twice at once, and every fifth answer is lost. */
  async function kill({ kills, until = () => false }) {
    shop.answersWithin = () => roll(0, 150);
    shop.loses = () => roll(1, 5) === 1;
    const begin = () => {
      const { key, cookie, name } = forms[callers.callers.length];
      const body = String(new URLSearchParams({ paid_once_key: key, name }));
      const headers = { accept: 'text/html', cookie, 'content-type': 'application/x-www-form-urlencoded' };
      callers.begin(
        { path: '/checkout', method: 'POST', headers, body, name },
        { copies: 1 + (callers.callers.length % 2) },
      );
    };
    const isDone = () => callers.callers.length >= FORMS;
    let lives = 0;
    const struck = await killAgain(runtime, {
      kills,
      between: roll,
      isDone,
      live() {
        // The last one brings all that are left.
        lives += 1;
        if (lives === kills) while (!isDone()) begin();
        const left = Math.min(Math.ceil(FORMS / kills / 2), FORMS - callers.callers.length);
        for (let count = 0; count < left; count += 1) begin();
        return callers.moreEnded(roll(0, 3));
      },
      underWay: callers.underWay,
      begin: () => callers.ended === callers.callers.length && !isDone() && begin(),
      killed: async () => until(),
    });
    shop.loses = () => false;
    await runtime.start();
    await callers.all();
    return struck;
  }

  /** What each form was told, against the shop's books. */
  function judge() {
    const wrong = [];
    const told = { done: 0, unknown: 0 };
    for (const { asked, answers } of callers.callers) {
      const orders = shop.orders.filter(({ fields }) => fields.name === asked.name).length;
      if (orders > 1) wrong.push(`${asked.name} has ${orders} orders`);
      const isDone = answers.some(({ status }) => status === 303);
      if (isDone && orders === 0) wrong.push(`${asked.name} was told of an order, and has none`);
      const places = new Set(
        answers.filter(({ status }) => status === 303).map(({ headers }) => headers.location),
      );
      if (places.size > 1) wrong.push(`${asked.name} was told of several`);
      if (isDone && answers.some(({ status }) => status === 502)) wrong.push(`${asked.name} was told both`);
      if (answers.length > 0) told[isDone ? 'done' : 'unknown'] += 1;
    }
    return { wrong, told };
  }

  return { kill, judge };
}
