// Each account's books are compared in runs of their own: one whose provider does not answer holds up no other. The controls run the same
// without the objects, as a deployment does that has not bound them.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';

import { RUN_STATEMENTS } from '../../scripts/scale/parts.mjs';
import { account, freshKey } from './support/account.mjs';
import { demoWorkers, root, startSite } from './support/harness.mjs';
import { PAYMENT } from './support/payments.mjs';
import { objectOf, ownRuns, readModel } from './support/readmodel.mjs';
import { sent } from './support/statements.mjs';
import { until } from './support/until.mjs';
import { readConfig } from './support/wrangler.mjs';

const card = (token) => ({
  token_sha256: createHash('sha256').update(token).digest('hex'),
  payment_method: 'pm_card_visa',
});
const OWN = 'reconcile:deployment';
const CONNECTED = 'reconcile:acct_C';
const onlyOwn = JSON.stringify({ own: card('own-token') });
const settings = {
  // Whatever the provider holds back is waited for.
  vars: { RECONCILE_QUIET_MS: '0', PROVIDER_TIMEOUT_MS: '300000', LEASE_MS: '360000' },
  secrets: {
    STRIPE_SECRET_KEY: 'sk_test_acct_A_1',
    API_ACCOUNTS: JSON.stringify({
      own: card('own-token'),
      connected: { ...card('connected-token'), stripe_account: 'acct_C' },
    }),
  },
};

/** The same Workers, of which the desk is not bound to its objects: by this name it knows none. */
function withoutObjects() {
  const [site, desk, ...others] = demoWorkers(settings);
  const config = readConfig({ config: join(root, desk.configPath), env: 'demo' }, { hideWarnings: true });
  const bindings = config.durable_objects.bindings.map((binding) =>
    binding.name === 'TASKS' ? { ...binding, name: 'OF_BEFORE' } : binding,
  );
  const { configPath: _path, env: _env, ...more } = desk;
  return [site, { ...more, config: { ...config, build: {}, durable_objects: { bindings } } }, ...others];
}

const site = await startSite(settings);
const model = readModel(site);
const own = account(site, 'own-token');
const connected = account(site, 'connected-token');
after(() => site.close());

async function paid(user) {
  const { id } = (await user.pay(PAYMENT, freshKey())).json();
  return { id, ...(await model.reaches(id, 'succeeded')) };
}
const booked = async (id) =>
  (await model.first('SELECT listed_payment FROM payments WHERE payment_id = ?', id)).listed_payment;
/** How many runs of a task are over, by the log: of these the table has the newest. */
const ended = (task) =>
  site.logs().filter(({ message }) => message.includes(`"event":"task","task":"${task}"`)).length;
const runOf = async (task) => (await ownRuns(model.all)).find((run) => run.task === task);
const strike = async () => {
  const { outcome } = await site.desk().scheduled({ cron: '*/5 * * * *' });
  assert.equal(outcome, 'ok');
};

/** A payment is given back at Stripe's dashboard, in part. */
const givenBack = ({ provider_payment: intent }) =>
  site.simulator.stripe('refunds', {
    method: 'POST',
    headers: {
      authorization: `Bearer ${settings.secrets.STRIPE_SECRET_KEY}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: `payment_intent=${intent}&amount=300`,
  });

/** Stripe does not answer any more when it is asked for a payment that was given back at its dashboard, until all is let go. */
async function silentAt(payment) {
  const path = `/v1/payment_intents/${payment.provider_payment}`;
  await givenBack(payment);
  await site.simulator.fault('slow', { method: 'GET', path, count: 100, delay_ms: 600_000 });
  const asked = async () => (await site.simulator.requests()).filter((request) => request.path === path);
  return async () => (await asked()).length;
}

describe('with an object for each account', () => {
  afterEach(() => site.simulator.calm());

  test('a provider that does not answer for one account holds up no other', async () => {
    const [mine, theirs] = [await paid(own), await paid(connected)];
    await model.tick();
    assert.equal(await booked(theirs.id), theirs.provider_payment);

    const asked = await silentAt(mine);
    const before = await runOf(OWN);
    const endedBefore = ended(OWN);
    const later = await paid(connected);
    const [deployment, other] = [await objectOf(site, OWN), await objectOf(site, CONNECTED)];
    await deployment.hurry();
    await until('the first account waits for its provider', async () => (await asked()) > 0);
    await strike();
    await other.hurry();
    await until('the other one is compared', async () => (await booked(later.id)) === later.provider_payment);
    assert.equal((await runOf(OWN)).at_ms, before.at_ms, 'its run is not over');

    // While it runs it does not run a second time, however often it is told to.
    for (let told = 0; told < 3; told += 1) await deployment.hurry();
    await other.hurry();
    assert.equal(await asked(), 1);

    await site.simulator.calm();
    await until('it goes on, and runs once more, as it was told', () => ended(OWN) >= endedBefore + 2);
    assert.deepEqual(await model.all('SELECT break_id FROM breaks WHERE stripe_account IS NULL'), [
      { break_id: `amount:stripe:${mine.provider_payment}` },
    ]);
  });

  test('one payment that a provider does not show holds up no list, and is asked for again', async () => {
    const [odd, other] = [await paid(own), await paid(own)];
    assert.equal((await model.tick()).reconcile.error, undefined);
    for (const payment of [odd, other]) await givenBack(payment);
    const path = `/v1/payment_intents/${odd.provider_payment}`;
    await site.simulator.fault('forbidden', { method: 'GET', path, count: 1_000 });
    const { reconcile } = await model.tick();
    assert.deepEqual([reconcile.error, reconcile.events_lag_ms < 1_000], [undefined, true]);
    const waits = () => model.all('SELECT payment, tries FROM payment_searches GROUP BY payment');
    assert.deepEqual(await waits(), [{ payment: odd.provider_payment, tries: 1 }]);
    await site.simulator.calm();
    // As if the pause were over.
    await model.run('UPDATE payment_searches SET next_at_ms = 0');
    await model.tick();
    assert.deepEqual(await waits(), []);
  });

  test('the newest run of each is kept, and one that failed is shown until it has not', async () => {
    await site.simulator.fault('error_before', { method: 'GET', count: 100 });
    assert.match((await model.tick()).reconcile.error, /answered 5/);
    const { outcome } = await site.desk().scheduled({ cron: '*/5 * * * *' });
    assert.equal(outcome, 'ok');
    const newest = async () =>
      JSON.parse(
        (await model.first("SELECT result FROM runs WHERE task = 'reconcile' ORDER BY run_id DESC LIMIT 1"))
          .result,
      );
    const { failing, error } = await newest();
    assert.equal(failing, 2);
    assert.match(error, /^reconcile:(?:deployment|acct_C): /);
    await site.simulator.calm();
    await model.tick();
    await strike();
    const { failing: none, error: nothing, accounts } = await newest();
    assert.deepEqual([none, nothing, accounts], [undefined, undefined, 2]);
    assert.equal((await ownRuns(model.all)).length, 2, 'one row for each');
  });

  test('it ends by itself when its account is gone, and begins again with it', async () => {
    const { id } = await paid(connected);
    await model.tick();
    const lists = () =>
      model.all(
        "SELECT name, ended_at_ms FROM cursors WHERE name LIKE '%:acct_C' AND list NOT LIKE '%_since'",
      );
    assert.deepEqual(
      (await lists()).map(({ ended_at_ms: ended }) => ended),
      [null, null, null],
    );
    const move = (from, to) =>
      model.run('UPDATE payments SET stripe_account = ? WHERE stripe_account = ?', to, from);
    await move('acct_C', 'acct_GONE');
    await model.run(
      "UPDATE cursors SET through_ms = 1000 WHERE name LIKE '%:acct_C' AND list NOT LIKE '%_since'",
    );
    await site.deploy(demoWorkers({ ...settings, secrets: { ...settings.secrets, API_ACCOUNTS: onlyOwn } }));
    await (await objectOf(site, CONNECTED)).hurry();
    await until('it has ended', async () => !(await runOf(CONNECTED)));
    assert.ok((await lists()).every(({ ended_at_ms: ended }) => ended > 0));
    const { reconcile } = await model.tick();
    assert.ok(reconcile.accounts === 2, 'the deployment and the one that has the payments now');
    assert.ok(reconcile.events_lag_ms < 600_000, 'what is not read any more is not behind');
    assert.equal(await runOf(CONNECTED), undefined, 'and nobody begins it again');

    await move('acct_GONE', 'acct_C');
    const begun = await model.tick();
    assert.equal(begun.reconcile.begun, 1);
    // Where the other one comes to rest at the same time the tick has not waited for this one.
    await until('it has its run again', () => runOf(CONNECTED));
    assert.equal(await booked(id), (await model.reaches(id, 'succeeded')).provider_payment);
    assert.ok((await lists()).every(({ ended_at_ms: ended }) => ended === null));
    await site.deploy(demoWorkers(settings));
  });
});

describe('control: without the binding', () => {
  before(() => site.deploy(withoutObjects()));

  test('objects of before end, and nothing is shown of them any more', async () => {
    const shown = await ownRuns(model.all);
    assert.ok(shown.length >= 2);
    for (const { task } of shown) await (await objectOf(site, task, 'OF_BEFORE')).hurry();
    await until('nothing is shown', async () => (await ownRuns(model.all)).length === 0);
  });

  test('one run compares all, and who comes later waits for who does not answer', async () => {
    const mine = await paid(own);
    await model.tick();
    const asked = await silentAt(mine);
    const later = await paid(connected);
    const run = strike();
    await until('the run waits for the first account', async () => (await asked()) > 0);
    assert.equal(await booked(later.id), null);
    await site.simulator.calm();
    await run;
    assert.equal(await booked(later.id), later.provider_payment);
    assert.deepEqual(await ownRuns(model.all), []);
  });
});

test('a run in which nothing is new sends as many statements as `npm run scale` takes it to', async (t) => {
  const counted = await startSite({ ...settings, looksAtStatements: true });
  t.after(() => counted.close());
  const { all, reaches, tick } = readModel(counted);
  const { id } = (await account(counted, 'connected-token').pay(PAYMENT, freshKey())).json();
  await reaches(id, 'succeeded');
  // As of a shop that has sold something today.
  await tick();
  const object = await objectOf(counted, CONNECTED);
  const ranAt = async () => (await ownRuns(all)).find(({ task }) => task === CONNECTED).at_ms;
  const counts = [];
  // Whatever else goes on is in some of them, and not in all.
  for (let run = 0; run < 4; run += 1) {
    const [before, seen] = [await ranAt(), counted.logs().length];
    await object.hurry();
    await until('it has run', async () => (await ranAt()) > before);
    counts.push(sent(counted.logs().slice(seen)).length);
  }
  t.diagnostic(`${counts}`);
  const least = Math.min(...counts);
  assert.ok(least <= RUN_STATEMENTS && least > RUN_STATEMENTS - 8, `${counts}`);
});
