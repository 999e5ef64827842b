// Adyen's queue stops at what is not acknowledged. So what it tells is written down and acknowledged, and worked on afterwards,
// each by itself, until it is placed or a person has to look.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, test } from 'node:test';

import { freshKey, read } from './support/account.mjs';
import { ADYEN_KEY, notify, signed } from './support/adyen.mjs';
import { startSite } from './support/harness.mjs';
import { inboxOf, pausesEnd, worked } from './support/inbox.mjs';
import { operator } from './support/operator.mjs';
import { AT_ONCE, AUTHORISATION, PAYMENT, assertProblem, client, moved, paid } from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { readModel } from './support/readmodel.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const ADYEN = { provider: 'adyen' };
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

// A call is on its way until the test lets it go on, however slow the machine is.
const vars = { ...IMPATIENT, PROVIDER_TIMEOUT_MS: '30000', QUIET_MS: '31000', ADYEN_HMAC_KEY: ADYEN_KEY };
const site = await startSite({ vars, secrets: { ADMIN_TOKEN } });
const { tick } = readModel(site);
const user = client(site);
after(() => site.close());
afterEach(async () => {
  await site.simulator.calm();
  await site.rows('DELETE FROM inbox');
  await site.rows('DELETE FROM breaks');
});

const toAdyen = (...items) => notify(site, ...items.map((item) => signed(item)));
const accepted = async (...items) => {
  const answer = await toAdyen(...items);
  assert.deepEqual([answer.status, answer.text], [200, '[accepted]']);
};
const itemsOf = async (psp) =>
  (await site.simulator.notifications(psp)).notificationItems.map((one) => one.NotificationRequestItem);
const pspOf = async (payment) =>
  (await site.objects.sql(payment, 'SELECT provider_payment FROM payments'))[0].provider_payment;
const statusOf = async (payment) =>
  (await site.objects.sql(payment, 'SELECT status FROM payments'))[0].status;
const hexOf = (payment) => Buffer.from(payment.slice('pay_'.length), 'base64url').toString('hex');
const linesOf = async (payment) =>
  (await site.objects.timeline(payment)).filter(({ event }) => event === 'webhook').length;
const state = async (psp) => (await inboxOf(site, psp)).map(({ state, outcome }) => [state, outcome]);

/** A payment that was captured, and the item that says so. */
async function captured() {
  const { id } = await paid(user, { ...AUTHORISATION, ...ADYEN });
  await moved(user, id, 'capture');
  const item = (await itemsOf(await pspOf(id))).find(({ eventCode }) => eventCode === 'CAPTURE');
  return { id, item };
}

/** An item about a payment that our namespace knows, and that was never made. */
async function unknown() {
  const { KEYS } = await site.worker.getEnv();
  const id = `pay_${Buffer.from(KEYS.newUniqueId().toString(), 'hex').toString('base64url')}`;
  const { item } = await captured();
  return { ...item, pspReference: `POISON${randomUUID().slice(0, 8)}`, merchantReference: id };
}

test('what cannot be written down is taken in by the object that it names, or is not acknowledged', async () => {
  const { id, item } = await captured();
  const nameless = { ...(await captured()).item, merchantReference: 'of-a-person' };
  const early = await unknown();
  await site.rows('ALTER TABLE inbox RENAME TO inbox_away');
  try {
    for (const one of [nameless, early]) assertProblem(await toAdyen(one), 503, 'cannot-be-shown');
    await accepted(item);
    assert.equal(await statusOf(id), 'succeeded');
  } finally {
    await site.rows('ALTER TABLE inbox_away RENAME TO inbox');
  }
  await accepted(item);
  await worked(site);
  assert.deepEqual(await state(item.pspReference), [['done', 'known']]);
});

test('what a person must see is a break once D1 takes it, however it was told, and though it is not told again', async () => {
  const order = { ...AUTHORISATION, ...ADYEN, order_id: `order-${randomUUID()}` };
  const refused = await user.pay({ ...order, payment_method: 'adyen_card_refused' }, freshKey());
  assertProblem(refused, 402, 'payment-failed');
  const [first] = await itemsOf(await pspOf(refused.payment));
  const { id } = await paid(user, order);
  assert.equal(id, refused.payment);
  const alert = { ...first, success: 'true' };
  const taken = await captured();
  await accepted(taken.item);
  await worked(site);
  const strange = {
    ...taken.item,
    eventCode: 'CANCELLATION',
    pspReference: `NOT-OURS${randomUUID().slice(0, 8)}`,
    merchantReference: taken.id,
  };
  for (const table of ['inbox', 'breaks']) await site.rows(`ALTER TABLE ${table} RENAME TO ${table}_away`);
  try {
    await accepted(alert, strange);
    // Adyen may tell it once more before it has seen the answer.
    await accepted(alert, strange);
  } finally {
    for (const table of ['inbox', 'breaks']) await site.rows(`ALTER TABLE ${table}_away RENAME TO ${table}`);
  }
  const breaks = () => site.rows("SELECT * FROM breaks WHERE kind = 'webhook' ORDER BY theirs");
  await until('the read model has both', async () => (await breaks()).length === 2);
  await accepted(alert, strange);
  await worked(site);
  await tick();
  assert.deepEqual(
    (await breaks()).map((it) => [it.provider, it.resource, it.object, it.theirs, it.state]),
    [
      ['adyen', id, hexOf(id), 'AUTHORISATION', 'open'],
      ['adyen', taken.id, hexOf(taken.id), 'CANCELLATION', 'open'],
    ],
  );
  assert.match((await breaks())[0].note, /held on try 1/);
});

test('what is over keeps nothing of what it said, and is forgotten later', async () => {
  const { item } = await captured();
  await accepted(item);
  await worked(site);
  const [row, ...more] = await inboxOf(site, item.pspReference);
  assert.deepEqual([row.state, row.outcome, row.event, more], ['done', 'taken_in', null, []]);
  const rows = async () => (await inboxOf(site, item.pspReference)).length;
  await site.rows('UPDATE inbox SET updated_at_ms = updated_at_ms - ?', 39 * DAY_MS);
  await tick();
  assert.equal(await rows(), 1, 'Adyen sends for 30 days');
  await site.rows('UPDATE inbox SET updated_at_ms = updated_at_ms - ?', 2 * DAY_MS);
  await tick();
  assert.equal(await rows(), 0);
});

test('a duplicate is not worked on again, a later one is: a capture that is made again after it has failed', async () => {
  const { id, item } = await captured();
  const day = (days) => new Date(Date.now() + (days - 30) * DAY_MS).toISOString();
  const first = { ...item, eventDate: day(1) };
  const failed = { ...item, eventCode: 'CAPTURE_FAILED', eventDate: day(2) };
  const again = { ...item, eventDate: day(3) };
  await accepted(first, first);
  await worked(site);
  assert.equal(await linesOf(id), 1);
  await accepted({ ...first, reason: 'sent again' });
  assert.deepEqual(await state(item.pspReference), [['done', 'taken_in']]);
  assert.equal((await inboxOf(site, item.pspReference))[0].attempts, 1);
  await accepted(failed);
  await worked(site);
  assert.equal(await statusOf(id), 'capture_failed');
  await accepted(again);
  await worked(site);
  assert.equal(await statusOf(id), 'succeeded');
  assert.equal(await linesOf(id), 3);
  await accepted(first);
  await worked(site);
  assert.equal(await linesOf(id), 3, 'an older duplicate is none');
});

test('a date that nobody has signed hides nothing: not one that says the other, nor one that comes later', async () => {
  const { id, item } = await captured();
  await accepted({ ...item, success: 'false', eventDate: '2099-01-01T00:00:00Z' });
  await worked(site);
  assert.equal(await statusOf(id), 'requires_capture');
  await accepted({ ...item, success: 'true', eventDate: new Date().toISOString() });
  await worked(site);
  const keys = (await inboxOf(site, item.pspReference)).map(({ event_key }) => event_key);
  assert.deepEqual(
    keys,
    ['false', 'true'].map((success) => `adyen:CAPTURE:${item.pspReference}:${success}`),
  );
  const rows = await inboxOf(site, item.pspReference);
  for (const { told_at_ms, received_at_ms } of rows) assert.ok(told_at_ms <= received_at_ms);
});

/** A payment whose call does not come to its end, because Adyen is slow, and the item that tells of it. */
async function onItsWay() {
  const known = new Set(await site.objects.ids());
  const isNew = ({ resource }) => resource && !known.has(hexOf(resource));
  const slow = user.pay({ ...PAYMENT, ...ADYEN }, freshKey(), AT_ONCE);
  const { id: psp } = await until('Adyen has it', async () =>
    (await site.simulator.ledger()).charges.find(
      ({ provider, metadata }) => provider === 'adyen' && isNew(metadata),
    ),
  );
  const [item] = await itemsOf(psp);
  return { slow, psp, item };
}

test('one that is about a call on its way waits, holds up no other, and is placed by the clock', async () => {
  const other = await captured();
  await site.simulator.fault('slow_response', { path: '/adyen/', delay_ms: 60_000 });
  const { slow, psp, item } = await onItsWay();
  await accepted(item, other.item);
  await until('the other is taken in', async () => (await statusOf(other.id)) === 'succeeded');
  const [row] = await inboxOf(site, psp);
  assert.equal(row.state, 'waiting');
  assert.match(row.outcome, /on its way/);
  const metrics = parse(
    (await read(await site.fetch('/metrics', { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } }))).text,
  );
  assert.equal(metrics.sum('inbox_events'), 1);
  assert.equal(metrics.sum('inbox_dead_events'), 0);
  await site.simulator.calm();
  assert.ok([201, 503].includes((await slow).status));
  // The tries that follow the answer may be over: the clock makes the others.
  await until('it is placed', async () => {
    await pausesEnd(site);
    await tick();
    return (await state(psp))[0][0] === 'done';
  });
});

test('whoever has accepted that one waits is told again of another reason, and not of the same', async () => {
  await site.simulator.fault('slow_response', { path: '/adyen/', delay_ms: 60_000 });
  const { slow, psp, item } = await onItsWay();
  await accepted(item);
  await worked(site);
  const tries = async () => (await inboxOf(site, psp))[0].attempts;
  const again = async () => {
    const before = await tries();
    await until('another try', async () => {
      await pausesEnd(site);
      await tick();
      return (await tries()) > before;
    });
  };
  const found = async () => (await site.rows('SELECT state, note FROM breaks')).map((row) => ({ ...row }));
  await site.rows('UPDATE inbox SET received_at_ms = received_at_ms - ?', DAY_MS + HOUR_MS);
  await again();
  const [{ state: opened, note }] = await found();
  assert.equal(opened, 'open');
  assert.match(note, /still tried: .*on its way/);
  const told = { state: 'accepted', note: 'Adyen is slow today' };
  await site.rows('UPDATE breaks SET state = ?, note = ?', told.state, told.note);
  await again();
  assert.deepEqual(await found(), [told]);
  await site.rows('UPDATE inbox SET history = ?', JSON.stringify([{ at_ms: 1, error: 'another reason' }]));
  await again();
  assert.deepEqual(await found(), [{ state: 'open', note }]);
  await site.simulator.calm();
  await slow;
});

test('what broke off after the answer is taken up by the clock', async () => {
  const { id, item } = await captured();
  // As if the isolate had ended right after the answer.
  await site.rows(
    "CREATE TRIGGER broken BEFORE UPDATE ON inbox WHEN new.attempts > old.attempts BEGIN SELECT raise(ABORT, 'broken off'); END",
  );
  await accepted(item);
  await until('it broke off', () => site.logs().some(({ message }) => message.includes('inbox_failed')));
  await site.rows('DROP TRIGGER broken');
  assert.deepEqual(await state(item.pspReference), [['waiting', null]]);
  await tick();
  assert.deepEqual(
    await state(item.pspReference),
    [['waiting', null]],
    'its first try may still be under way',
  );
  await pausesEnd(site);
  assert.equal((await tick()).inbox.done, 1);
  assert.equal(await statusOf(id), 'succeeded');
});

test('a run of the clock that finds nothing does nothing', async () => {
  const { inbox } = await tick();
  assert.deepEqual(inbox, { due: 0, done: 0, waiting: 0, dead: 0, failed: 0 });
});

test('one that can never be placed holds up no other, and comes to a person who can requeue it', async () => {
  const poison = await unknown();
  const { id, item } = await captured();
  await accepted(poison);
  await accepted(item);
  await until('the other is taken in', async () => (await statusOf(id)) === 'succeeded');
  await worked(site);
  const row = async () => (await inboxOf(site, poison.pspReference))[0];
  assert.deepEqual(
    [(await row()).state, (await row()).history.includes('nothing is known')],
    ['waiting', true],
  );
  const tries = (await row()).attempts;
  await site.rows('UPDATE inbox SET received_at_ms = received_at_ms - ?', 23 * HOUR_MS);
  await pausesEnd(site);
  await until(
    'the tries after the answer are over',
    async () => (await row()).attempts >= Math.max(3, tries),
  );
  await pausesEnd(site);
  assert.equal((await tick()).inbox.waiting, 1);
  await site.rows('UPDATE inbox SET received_at_ms = received_at_ms - ?', HOUR_MS + 1000);
  await pausesEnd(site);
  assert.equal((await tick()).inbox.dead, 1);
  const [open, ...more] = await site.rows("SELECT * FROM breaks WHERE state = 'open'");
  assert.deepEqual([open.kind, open.provider, open.theirs, more], ['webhook', 'adyen', 'CAPTURE', []]);
  assert.match(open.note, /dead letter/);

  const { look, press } = operator(site, ADMIN_TOKEN);
  const page = await look('/admin/dead-letters');
  assert.match(page.text, /webhook/);
  const id_ = encodeURIComponent(`event:${(await row()).event_key}`);
  const [, path, form] = new RegExp(
    `action="(/admin/dead-letters/[^"]*POISON[^"]*/requeue)">\\s*<input type="hidden" name="form" value="([^"]+)"`,
  ).exec(page.text);
  const letter = await look(`/admin/dead-letters/${id_}`);
  assert.equal(letter.status, 200);
  assert.match(letter.text, /nothing is known of the payment/);
  // It can be placed now.
  await site.rows('UPDATE inbox SET object = ? WHERE state = ?', hexOf(id), 'dead');
  assert.equal((await press(path, { form })).status, 303);
  assert.equal((await row()).state, 'waiting');
  assert.equal((await tick()).inbox.done, 1);
  assert.equal((await row()).state, 'done');
  assert.equal(
    (await site.rows("SELECT * FROM breaks WHERE state = 'open' AND break_id LIKE 'inbox:%'")).length,
    0,
  );
});

test('one that an operator has dropped is taken again when it is sent again, and only then', async () => {
  const poison = await unknown();
  const { id } = await captured();
  await accepted(poison);
  await worked(site);
  await site.rows("UPDATE inbox SET state = 'dead'");
  const { asked, look, press } = operator(site, ADMIN_TOKEN);
  const purge = await asked(await look('/admin/dead-letters'), '/purge');
  assert.equal((await press(purge.path, purge.entries)).status, 303);
  const purged = async () => (await state(poison.pspReference))[0][0] === 'purged';
  assert.ok(await purged());
  const earlier = new Date(Date.parse(poison.eventDate) - HOUR_MS).toISOString();
  await accepted({ ...poison, eventDate: earlier });
  assert.ok(await purged(), 'what it had replaced is no news');
  // It can be placed now.
  const placed = { ...poison, merchantReference: id, originalReference: await pspOf(id) };
  await accepted(placed);
  await worked(site);
  assert.deepEqual(await state(poison.pspReference), [['done', 'taken_in']]);
  await accepted(placed);
  assert.deepEqual(
    await state(poison.pspReference),
    [['done', 'taken_in']],
    'a duplicate is not worked on again',
  );
});

test('a change whose reference is not ours is placed by the payment, once the read model knows it', async () => {
  const { id, item } = await captured();
  await accepted(item);
  await worked(site);
  const psp = await pspOf(id);
  const amount = { ...item.amount, value: item.amount.value - 1 };
  const refund = { eventCode: 'REFUND', originalReference: psp, merchantReference: 'by-hand' };
  const elsewhere = { ...item, ...refund, amount };
  await accepted({ ...elsewhere, pspReference: 'REFUNDBYHAND' });
  await until('it is placed', async () => (await state('REFUNDBYHAND'))[0][0] === 'done');
  const [{ minor }] = await site.objects.sql(
    id,
    "SELECT details ->> '$.refunded_elsewhere_minor' AS minor FROM payments",
  );
  assert.equal(minor, amount.value);
  // Another shop's, of the same merchant account.
  await accepted({ ...elsewhere, pspReference: 'FOREIGN', originalReference: 'SOMEBODYELSES' });
  // One of ours, which the read model does not know for hours.
  const late = { ...elsewhere, pspReference: 'LATE', amount: { ...item.amount, value: 1 } };
  await until('the read model has it', async () => {
    const sql = 'SELECT refunded_elsewhere_minor AS minor FROM payments WHERE payment_id = ?';
    return (await site.rows(sql, id))[0].minor === minor;
  });
  await site.rows('UPDATE payments SET provider_payment = ? WHERE payment_id = ?', 'AWAY', id);
  await accepted(late);
  for (const _ of Array(6)) {
    await pausesEnd(site);
    await tick();
  }
  for (const one of ['FOREIGN', 'LATE']) assert.equal((await state(one))[0][0], 'waiting');
  await site.rows('UPDATE payments SET provider_payment = ? WHERE payment_id = ?', psp, id);
  await pausesEnd(site);
  await tick();
  assert.deepEqual(await state('LATE'), [['done', 'taken_in']]);
  await site.rows(
    "UPDATE inbox SET received_at_ms = received_at_ms - ? WHERE state = 'waiting'",
    18 * HOUR_MS,
  );
  await pausesEnd(site);
  await tick();
  assert.deepEqual(await state('FOREIGN'), [['done', 'not ours']]);
});
