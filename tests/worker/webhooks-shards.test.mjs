// What providers tell by their own ids alone, of payments that stand in one of many shards, or in none: some shards are asked in each try, and what
// was learnt is remembered.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, afterEach, before, test } from 'node:test';

import { read } from './support/account.mjs';
import { ADYEN_KEY, notify, signed } from './support/adyen.mjs';
import { startSite } from './support/harness.mjs';
import { inboxOf, pausesEnd, worked } from './support/inbox.mjs';
import { AUTHORISATION, PAYMENT, client, moved, paid } from './support/payments.mjs';
import { shards, shardsOfDays, workersWithShards } from './support/shards.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const [DAYS, SLOTS] = [12, 10];
const NOW = Date.now();
const STRIPE_SECRET = 'whsec_of_the_tests';
const ADYEN = { provider: 'adyen' };
const { nameOf, names } = shardsOfDays(DAYS, SLOTS, NOW);
const TODAY = names.slice(0, SLOTS);
/** In the order in which they are asked this is the last day. */
const OLD = nameOf(DAYS - 1, 3);
const NEWEST = nameOf(0, 5);

const site = await startSite({
  workers: workersWithShards({
    vars: { ...IMPATIENT, ADYEN_HMAC_KEY: ADYEN_KEY, STRIPE_WEBHOOK_SECRET: STRIPE_SECRET },
  }),
});
const all = shards(site);
const user = client(site);
after(() => site.close());

let item;
before(async () => {
  await all.lay(SLOTS, { period: 'day', from_ms: NOW - 40 * DAY_MS });
  await all.note(names);
  await all.open([OLD, ...TODAY]);
  const { id, provider_payment: psp } = await paid(user, { ...AUTHORISATION, ...ADYEN });
  await moved(user, id, 'capture');
  const { notificationItems } = await site.simulator.notifications(psp);
  const items = notificationItems.map(({ NotificationRequestItem: one }) => one);
  item = items.find(({ eventCode }) => eventCode === 'CAPTURE');
  assert.equal((await notify(site, signed(item))).text, '[accepted]');
  await worked(site);
});
afterEach(async () => {
  for (const name of [OLD, NEWEST]) await all.putUp(name);
  await site.rows('DELETE FROM inbox');
  await site.rows('DELETE FROM payment_lookups');
});

/** Adyen tells of something that was done there by hand: without our reference. */
async function told(payment, fields = {}) {
  const pspReference = `BYHAND${randomUUID().slice(0, 8)}`;
  const elsewhere = {
    ...item,
    eventCode: 'REFUND',
    merchantReference: 'by-hand',
    originalReference: payment,
  };
  const answer = await notify(site, signed({ ...elsewhere, pspReference, ...fields }));
  assert.deepEqual([answer.status, answer.text], [200, '[accepted]']);
  return fields.pspReference ?? pspReference;
}
const stateOf = async (psp) => {
  const [{ state, outcome }] = await inboxOf(site, psp);
  return [state, outcome];
};
/** Works on what is due, as the desk's clock makes it. */
async function tick() {
  const { OPERATIONS } = await site.desk().getEnv();
  const answer = await OPERATIONS.fetch('https://payments/inbox', { method: 'POST', body: 'null' });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
}
/** Lets the clock strike until an event is over: most of a day after it has come nobody is waited for any more. */
async function over(psp) {
  const sql = "UPDATE inbox SET received_at_ms = received_at_ms - ? WHERE event_key LIKE '%:' || ? || ':%'";
  await site.rows(sql, 18 * HOUR_MS, psp);
  return until('it is over', async () => {
    await pausesEnd(site);
    await tick();
    const [state, outcome] = await stateOf(psp);
    return state === 'done' && outcome;
  });
}
/** Lets the clock strike until a try of an event has ended in this way. */
const ends = (psp, how) =>
  until(`a try of ${psp} ends: ${how}`, async () => {
    await pausesEnd(site);
    await tick();
    return how.test((await stateOf(psp))[1]);
  });
const lookups = () =>
  site.rows('SELECT payment, since_ms, began_ms, after, object FROM payment_lookups ORDER BY payment');

/** A payment that stands in the oldest shard, and in no other place. */
async function inOld() {
  const { id, provider_payment: payment } = await paid(user, { ...PAYMENT, ...ADYEN });
  const shard = await until('it is in its shard', async () => {
    for (const name of TODAY) {
      const rows = await all.rowsIn(name, 'SELECT 1 FROM payments WHERE payment_id = ?', id);
      if (rows.length > 0) return name;
    }
  });
  const object = Buffer.from(id.slice('pay_'.length), 'base64url').toString('hex');
  await all.rowsIn(shard, 'DELETE FROM payments WHERE payment_id = ?', id);
  await all.rowsIn(
    OLD,
    `INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
        provider_payment, attempt, shown, created_at_ms, updated_at_ms)
     VALUES (?1, ?2, 1, 'account:a', 'succeeded', 2500, 2500, 0, 'usd', 'adyen', ?3, 1, '{}', ?4, ?4)`,
    id,
    object,
    payment,
    NOW - (DAYS - 1) * DAY_MS,
  );
  return { id, object, payment };
}
const refundedElsewhere = async (id) =>
  (await site.objects.sql(id, "SELECT details ->> '$.refunded_elsewhere_minor' AS minor FROM payments"))[0]
    .minor;

test('a payment of ours is found in the oldest of many shards, and its place need not be looked for again', async () => {
  const { id, object, payment } = await inOld();
  const psp = await told(payment, { amount: { ...item.amount, value: 700 } });
  assert.equal(await over(psp), 'taken_in');
  const minor = await refundedElsewhere(id);
  assert.ok(minor > 0);
  const [lookup, ...more] = await lookups();
  assert.deepEqual([lookup.payment, lookup.object, more], [payment, object, []]);
  // Whoever has it answers no more, nor does the newest.
  for (const name of [OLD, NEWEST]) await all.takeDown(name);
  assert.equal(await over(await told(payment, { amount: { ...item.amount, value: 100 } })), 'taken_in');
  assert.ok((await refundedElsewhere(id)) > minor);
});

test('a shard that does not answer may have it: it waits, and is not lost', async () => {
  const { id, payment } = await inOld();
  await all.takeDown(OLD);
  const psp = await told(payment);
  await ends(psp, new RegExp(`did not answer \\(${OLD}\\)`));
  assert.equal((await stateOf(psp))[0], 'waiting');
  await all.putUp(OLD);
  assert.equal(await over(psp), 'taken_in');
  assert.ok((await refundedElsewhere(id)) > 0);
});

test('one that is in no place is somebody else’s; once that is sure no shard is asked for it any more', async () => {
  const foreign = `FOREIGN${randomUUID().slice(0, 8)}`;
  assert.equal(await over(await told(foreign)), 'not ours');
  const [lookup] = await lookups();
  assert.deepEqual([lookup.payment, lookup.after, lookup.object], [foreign, null, null]);
  assert.ok(lookup.began_ms >= lookup.since_ms);
  // The newest days are asked again as long as it may have been on its way: older shards are not.
  await all.takeDown(OLD);
  assert.equal(await over(await told(foreign)), 'not ours');
  await all.takeDown(NEWEST);
  const early = await told(foreign);
  await site.rows('UPDATE payment_lookups SET began_ms = began_ms - 1000, since_ms = since_ms - 1000');
  await ends(early, new RegExp(`did not answer \\(${NEWEST}\\)`));
  // A round that began four days after it was first told of has seen all.
  await site.rows('UPDATE payment_lookups SET after = NULL, began_ms = since_ms + ?', 4 * DAY_MS);
  const late = await told(foreign);
  assert.deepEqual([await over(early), await over(late)], ['not ours', 'not ours']);
  // The control: of another one nothing is known.
  const other = await told(`${foreign}2`);
  await ends(other, new RegExp(`did not answer \\(${NEWEST}\\)`));
});

test('what tells of itself and has no reference of ours is somebody else’s: no shard is asked', async () => {
  for (const name of [OLD, NEWEST]) await all.takeDown(name);
  const psp = `THEIRS${randomUUID().slice(0, 8)}`;
  await told('', { pspReference: psp, eventCode: 'AUTHORISATION' });
  assert.equal(await over(psp), 'not ours');
  assert.deepEqual(await lookups(), []);
});

/** Stripe tells of a dispute of a payment, which has no metadata. */
async function toldByStripe(payment) {
  const payload = JSON.stringify({
    id: `evt_${randomUUID()}`,
    object: 'event',
    type: 'charge.dispute.created',
    livemode: false,
    data: { object: { id: 'du_1', object: 'dispute', payment_intent: payment } },
  });
  const at = Math.floor(Date.now() / 1000);
  const v1 = createHmac('sha256', STRIPE_SECRET).update(`${at}.${payload}`).digest('hex');
  const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${at},v1=${v1}` };
  const answer = await read(await site.fetch('/webhooks/stripe', { method: 'POST', headers, body: payload }));
  return answer.status;
}

test('Stripe is answered at once: each delivery asks some shards, and none once all were asked', async () => {
  const foreign = `pi_foreign_${randomUUID().slice(0, 8)}`;
  const left = () => site.logs().filter(({ message }) => message.includes('for the reconciliation')).length;
  assert.equal(await toldByStripe(foreign), 200);
  const [{ after: so }] = await lookups();
  // Those of a day in the order of their names, the last one first.
  assert.equal(so, nameOf(9, 4), '96 of 120');
  await until('the log says so', () => left() === 1);
  assert.equal(await toldByStripe(foreign), 200);
  const [{ after }] = await lookups();
  assert.equal(after, null, 'all were asked');
  for (const name of [OLD, NEWEST]) await all.takeDown(name);
  assert.equal(await toldByStripe(foreign), 200);
  // The control: of another one nothing is known, and a shard that does not answer may have it.
  assert.equal(await toldByStripe(`${foreign}_2`), 503);
});
