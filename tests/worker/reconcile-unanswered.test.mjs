// What Stripe gives no usable answer about at first: in the end it is compared and marked as if it had been answered at once.

import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { PAYMENT } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const vars = { RECONCILE_QUIET_MS: '0', RECONCILE_WINDOW_MS: '1000' };
const site = await startSite({ vars, secrets: { ADMIN_TOKEN } });
const user = account(site);
const model = readModel(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

async function paid() {
  const { id, provider_payment: intent } = (await user.pay(PAYMENT, freshKey())).json();
  await model.reaches(id, 'succeeded');
  await model.tick();
  return { id, intent };
}

/** As if a list had been read until tomorrow: it tells of nothing any more. */
const isRead = (list) =>
  model.run(
    'UPDATE cursors SET through_ms = ?, until_ms = NULL, slices = NULL WHERE name = ?',
    Date.now() + 86_400_000,
    list,
  );

/** As if Stripe had been asked about something for days, and had given no usable answer. */
const askedForDays = (payment, due) =>
  model.run(
    "INSERT INTO payment_searches (books, payment, due, since_ms, tries) VALUES ('', ?, ?, 0, 9)",
    payment,
    due,
  );

test('a dispute of which Stripe said nothing for days is compared as soon as it says something', async () => {
  const { id, intent } = await paid();
  await site.simulator.befallAtStripe(intent, 'disputes', { status: 'warning_needs_response' });
  await model.tick();
  const { dispute } = await until('it is known', () =>
    model.first(
      "SELECT shown ->> '$.dispute.id' AS dispute FROM payments WHERE payment_id = ? AND dispute IS NOT NULL",
      id,
    ),
  );
  // As if its news were lost, and the events had left the list: what is left is what is asked about.
  await model.run("UPDATE payments SET shown = json_remove(shown, '$.dispute') WHERE payment_id = ?", id);
  await model.run('DELETE FROM breaks WHERE resource = ?', id);
  await isRead('stripe_events');
  await askedForDays(intent, dispute);
  const states = () =>
    model.all("SELECT kind, state FROM breaks WHERE resource = ? AND kind != 'webhook' ORDER BY kind", id);
  await site.simulator.fault('forbidden', { method: 'GET', path: `/v1/disputes/${dispute}`, count: 100 });
  await model.tick();
  assert.deepEqual(await states(), [{ kind: 'unanswered', state: 'open' }]);
  await site.simulator.calm();
  await model.tick();
  assert.deepEqual(await states(), [
    { kind: 'dispute', state: 'open' },
    { kind: 'unanswered', state: 'resolved' },
  ]);
});

test('a movement that could not be read in its list marks its payment once it can', async () => {
  const { id, intent } = await paid();
  await model.tick();
  const mark = async () =>
    (await model.first('SELECT moved_payment FROM payments WHERE payment_id = ?', id)).moved_payment;
  assert.equal(await mark(), intent);
  const { data } = await site.simulator.stripe(`charges?payment_intent=${intent}`);
  const { balance_transaction: movement } = data[0];
  // As if it had not been read: the list does not tell of it again.
  await model.run('UPDATE payments SET moved_payment = NULL WHERE payment_id = ?', id);
  await isRead('stripe_movements');
  await model.tick();
  assert.equal(await mark(), null, 'control: nothing else marks it');
  await askedForDays(movement, movement);
  await model.tick();
  assert.equal(await mark(), intent);
  assert.deepEqual(await model.all('SELECT * FROM payment_searches'), []);
});

test('a payment that is in no list, and about which Stripe says nothing usable, fails no run: it is asked for again', async () => {
  const [odd, plain] = [await paid(), await paid()];
  await model.tick();
  // As if the list had left both out.
  await isRead('stripe_payments');
  const intents = [odd.intent, plain.intent];
  for (const intent of intents)
    await model.run(
      'UPDATE payments SET listed_payment = NULL, moved_payment = provider_payment WHERE provider_payment = ?',
      intent,
    );
  const listed = async () =>
    (
      await model.all(
        'SELECT listed_payment FROM payments WHERE provider_payment IN (?, ?) AND listed_payment IS NOT NULL',
        ...intents,
      )
    ).map(({ listed_payment: intent }) => intent);
  const broken = () =>
    model.all("SELECT kind FROM breaks WHERE provider_payment = ? AND state = 'open'", odd.intent);
  assert.deepEqual(await listed(), [], 'control: nothing else marks them');
  await site.simulator.fault('forbidden', {
    method: 'GET',
    path: `/v1/payment_intents/${odd.intent}`,
    count: 100,
  });
  const { reconcile } = await model.tick();
  assert.equal(reconcile.error, undefined);
  assert.deepEqual(await listed(), [plain.intent], 'it holds up no other');
  assert.deepEqual(await broken(), [], 'it is not missing: Stripe has not said so');
  const waits = () => model.all('SELECT payment, due, tries FROM payment_searches');
  assert.deepEqual(await waits(), [{ payment: odd.intent, due: 'again', tries: 1 }]);
  // Until its pause is over nobody asks for it.
  assert.equal((await model.tick()).reconcile.error, undefined);
  assert.deepEqual(await waits(), [{ payment: odd.intent, due: 'again', tries: 1 }]);
  await model.run('UPDATE payment_searches SET next_at_ms = 0');
  await model.tick();
  assert.deepEqual(await waits(), [{ payment: odd.intent, due: 'again', tries: 2 }]);
  await site.simulator.calm();
  await model.run('UPDATE payment_searches SET next_at_ms = 0');
  await model.tick();
  assert.deepEqual([(await listed()).sort(), await waits()], [intents.sort(), []]);
});

test('what was looked for in books that nobody reads any more is forgotten, and nothing else is', async () => {
  const DAY_MS = 86_400_000;
  const days = (number) => Date.now() - number * DAY_MS;
  /** Payments that are looked for in some books since then, whose lists were read until they ended, if they have. */
  const looksFor = async (books, sinceDays, endedDays, payments = 1) => {
    await model.run(
      `WITH RECURSIVE each (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < ?3)
       INSERT INTO payment_searches (books, payment, due, since_ms, next_at_ms) SELECT ?1, 'pi_of_old_books_' || n, 'again', ?2, ?4 FROM each`,
      books,
      days(sinceDays),
      payments,
      Date.now() + DAY_MS,
    );
    for (const list of ['stripe_events', 'stripe_payments'])
      await model.run(
        'INSERT INTO cursors (name, through_ms, ended_at_ms) VALUES (?, 1, ?)',
        `${list}:${books}`,
        endedDays && days(endedDays),
      );
  };
  await looksFor('acct_ended', 31, 31, 10_001);
  await looksFor('acct_ended_lately', 31, 29);
  await looksFor('acct_ended_and_young', 29, 31);
  await looksFor('acct_read', 90, null);
  await looksFor('keys:shop of acct_1 (test)', 90, 60);
  const left = async () =>
    (
      await model.all('SELECT books, count(*) AS number FROM payment_searches GROUP BY books ORDER BY books')
    ).map(({ books, number }) => [books, number]);
  const stay = [
    ['acct_ended_and_young', 1],
    ['acct_ended_lately', 1],
    ['acct_read', 1],
  ];
  await model.tick();
  const after = (await left()).filter(([books]) => !stay.some(([other]) => other === books));
  assert.equal(
    after.reduce((sum, [, number]) => sum + number, 0),
    2,
    'one run forgets 10,000',
  );
  await model.tick();
  assert.deepEqual(await left(), stay);
  await model.run("DELETE FROM payment_searches WHERE books != ''");
  await model.run("DELETE FROM cursors WHERE name GLOB '*:*'");
});
