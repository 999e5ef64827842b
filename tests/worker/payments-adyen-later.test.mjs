// What befalls a payment at Adyen after its answer: captures and refunds that fail late, cancels that fail, reservations that lapse, banks
// that take money back or hold it after all, and people in the Customer Area. The simulator plays each, and tells it by its own webhook.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { formOf, operator } from './support/operator.mjs';
import {
  AUTHORISATION,
  PAYMENT,
  assertProblem,
  client,
  freshOrder,
  moved,
  paid,
} from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { IMPATIENT } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const site = await startSite({ vars: IMPATIENT, secrets: { ADMIN_TOKEN } });
const { tick } = readModel(site);
const user = client(site);
after(() => site.close());
beforeEach(async () => {
  await site.simulator.calm();
  // Nothing is told but by `told()`: a webhook that is due stays so until it is sent.
  await site.simulator.webhooks('late', { delay_ms: WAIT_MS });
});

const WAIT_MS = 3_600_000;
const DAY_MS = 24 * WAIT_MS;
const { look, press } = operator(site, ADMIN_TOKEN);
const ADYEN = { provider: 'adyen' };
const at = async (id) => (await user.payment(id)).json();
const held = (more = {}) => paid(user, { ...AUTHORISATION, ...ADYEN, ...more });
const takes = (more = {}) => paid(user, { ...PAYMENT, ...ADYEN, ...more });

/** Sends what Adyen has to tell by now, each taken at once. */
async function told() {
  await site.simulator.advance(WAIT_MS);
  for (const sent of await site.simulator.flush()) assert.equal(sent.status, 200, JSON.stringify(sent));
}

/** What befalls a payment, and is told. */
async function befalls(id, happening, options) {
  const { provider_payment: psp } = await at(id);
  const played = await site.simulator.befall(psp, happening, options);
  await told();
  return played;
}

/** A capture, a void or a refund that Adyen has received, to its end. */
async function done(id, move, body) {
  const answer = await moved(user, id, move, body);
  await told();
  return answer;
}

/** The first try's money, which nobody had asked for any more, is given back. */
const givenBack = (id) =>
  until('it is given back', async () => {
    await told();
    return (await at(id)).tries[0].late_money?.status === 'given_back';
  });

const refused = async (id, move, state, body) =>
  assertProblem(await user.post(`/payments/${id}/${move}`, body, freshKey()), 409, 'payment-state', {
    state,
  });
const hexOf = (id) => Buffer.from(id.slice('pay_'.length), 'base64url').toString('hex');
const breaks = async (id) =>
  (await site.rows('SELECT theirs FROM breaks WHERE object = ?', hexOf(id))).map(({ theirs }) => theirs);
const refunds = async (id) =>
  (await user.refunds(id)).json().data.map(({ status, amount }) => [status, amount]);

/** An operator says how it ended. */
async function says(path, entries) {
  const { entries: hidden } = formOf(await look(path), '/review');
  const review = await press(`${path}/review`, { sends: hidden.sends, reason: 'seen there', ...entries });
  assert.equal(review.status, 200, review.text);
  const button = formOf(review, '/settle-by-hand');
  const pressed = await press(button.path, button.entries);
  assert.equal(pressed.status, 303, pressed.text);
  assert.equal((await press(button.path, button.entries)).status, 303);
  return review;
}

describe('a capture', () => {
  test('fails days later, is made again by Adyen, and was taken once', async () => {
    const { id } = await held();
    await done(id, 'capture', { amount: 2000 });
    assert.deepEqual([(await at(id)).status, (await at(id)).amount_captured], ['succeeded', 2000]);
    await befalls(id, 'capture-failed');
    const failed = await at(id);
    assert.deepEqual([failed.status, failed.amount_captured], ['capture_failed', 0]);
    assert.deepEqual(await breaks(id), ['CAPTURE_FAILED']);
    await refused(id, 'capture', 'capture_failed');
    await refused(id, 'refunds', 'capture_failed', { amount: 100 });
    await befalls(id, 'recaptured');
    const again = await at(id);
    assert.deepEqual([again.status, again.amount_captured], ['succeeded', 2000]);
    assert.equal((await site.simulator.moved(id)).captured, 2000);
  });
});

test('at the desk is taken up by one button, which does not say that Adyen was asked', async () => {
  const { id } = await held();
  const page = await look(`/admin/payments/${id}`);
  assert.ok(page.text.includes('Resume now') && !page.text.includes('Check with the provider'), page.text);
  const { path, entries } = formOf(page, '/settle');
  const pressed = await look((await press(path, entries)).header('location'));
  assert.match(pressed.text, /Adyen cannot be asked: what waited was taken up; look in the Customer Area/);
});

describe('a capture that has failed, and that Adyen makes no more', () => {
  const ofKind = (id) => site.rows("SELECT * FROM breaks WHERE kind = 'capture_failed' AND resource = ?", id);

  /** A capture that has failed so many days ago, and the number of its call. */
  async function failed(days, order = {}) {
    const { id } = await held(order);
    await done(id, 'capture');
    await befalls(id, 'capture-failed');
    const at_ms = Date.now() - days * DAY_MS;
    await site.objects.sql(
      id,
      "UPDATE payments SET details = json_set(details, '$.ended_at_ms', CAST(? AS INTEGER))",
      at_ms,
    );
    await site.objects.sql(id, 'UPDATE foreign_calls SET last_sent_at_ms = ?', at_ms);
    await until('the read model knows', async () => {
      const [row] = await site.rows('SELECT status FROM payments WHERE payment_id = ?', id);
      return row?.status === 'capture_failed';
    });
    await site.rows(
      "UPDATE audit_records SET at_ms = ? WHERE subject = ? AND action = 'payment.capture_failed'",
      at_ms,
      id,
    );
    const calls = await site.objects.calls(id);
    return { id, path: `/admin/payments/${id}/calls/${calls.at(-1).call_id}` };
  }

  test('is shown to a person; "not captured" frees the order', async () => {
    const order = { order_id: freshOrder() };
    const { id, path } = await failed(13, order);
    await tick();
    const [found] = await ofKind(id);
    assert.deepEqual([found.state, found.theirs], ['open', 'not captured']);
    assert.match((await look(`/admin/payments/${id}`)).text, new RegExp(`href="${path}"`));
    await refused(id, 'capture', 'capture_failed');
    const review = await says(path, { said: 'not_executed' });
    assert.match(review.text, /its order can be paid again/);
    const shown = await at(id);
    assert.deepEqual([shown.status, shown.failure.code], ['failed', 'capture_failed']);
    await until('the break is over', async () => {
      await tick();
      return (await ofKind(id))[0].state === 'resolved';
    });
    const next = await held(order);
    assert.deepEqual([next.id, next.attempt, next.status], [id, 2, 'requires_capture']);
    // Adyen makes the first one after all.
    await site.simulator.befall(shown.provider_payment, 'recaptured');
    await givenBack(id);
    const { totals } = await site.simulator.ledger(id);
    assert.deepEqual([totals.amount_captured, totals.amount_refunded], [2500, 2500]);
  });

  test('was made after all: the money is taken, and can be given back', async () => {
    const { id, path } = await failed(13);
    await says(path, { said: 'executed', id: 'ABCDEFGH12345678', outcome: 'done' });
    const shown = await at(id);
    assert.deepEqual([shown.status, shown.amount_captured], ['succeeded', 2500]);
  });

  test('before that nobody can say so, and no person is asked', async () => {
    const { id, path } = await failed(11);
    await tick();
    assert.deepEqual(await ofKind(id), []);
    assert.match((await look(path)).text, /Nothing is left to say/);
  });
});

describe('a refund', () => {
  test('that comes back weeks later can be made anew', async () => {
    const { id } = await takes();
    await done(id, 'refunds', { amount: 2500 });
    assert.deepEqual(await refunds(id), [['succeeded', 2500]]);
    await site.simulator.advance(20 * 24 * WAIT_MS);
    await befalls(id, 'refund-reversed');
    assert.deepEqual(await refunds(id), [['failed', 2500]]);
    await done(id, 'refunds', { amount: 2500 });
    assert.equal((await site.simulator.moved(id)).refunded, 2500);
    assert.deepEqual((await refunds(id)).map(([status]) => status).sort(), ['failed', 'succeeded']);
  });

  test('that fails weeks later, and that Adyen repeats by itself, gives the money back once', async () => {
    const { id } = await takes();
    await done(id, 'refunds', { amount: 2500 });
    await befalls(id, 'refund-failed');
    const [failed] = (await user.refunds(id)).json().data;
    assert.deepEqual([failed.status, failed.failure.code], ['pending', 'refund_failed']);
    assert.deepEqual(await breaks(id), ['REFUND_FAILED']);
    const again = await user.post(`/payments/${id}/refunds`, { amount: 2500 }, freshKey());
    assertProblem(again, 422, 'amount-too-large', { available: 0 });
    await befalls(id, 'refund-repeated');
    assert.deepEqual(await refunds(id), [['succeeded', 2500]]);
    assert.equal((await site.simulator.moved(id)).refunded, 2500);
  });
});

describe('what Adyen has received and told nothing of', () => {
  /** Of so many days ago: the page of its call. */
  async function untold(id, days) {
    await site.objects.sql(id, 'UPDATE foreign_calls SET last_sent_at_ms = ?', Date.now() - days * DAY_MS);
    const calls = await site.objects.calls(id);
    return `/admin/payments/${id}/calls/${calls.at(-1).call_id}`;
  }

  /** The PSP reference that the page offers. */
  const received = async (path) => / name="id" value="([A-Z0-9]{16})"/.exec((await look(path)).text)[1];

  test('ends as a person says who has looked, and Adyen’s word counts when it comes', async () => {
    const { id } = await held();
    await moved(user, id, 'capture', undefined);
    assert.match((await look(await untold(id, 0))).text, /Nothing is left to say/);
    const path = await untold(id, 1);
    assert.match((await look(`/admin/payments/${id}`)).text, new RegExp(`href="${path}"`));
    const psp = await received(path);
    const { entries } = formOf(await look(path), '/review');
    const absent = { sends: entries.sends, reason: 'not there', said: 'not_executed' };
    const review = await press(`${path}/review`, absent);
    assert.equal(review.status, 409);
    assert.match(review.text, new RegExp(`Adyen has received it as ${psp}`));
    await says(path, { said: 'executed', id: psp, outcome: 'refused' });
    const shown = await at(id);
    assert.deepEqual([shown.status, shown.pending_operation], ['requires_capture', null]);
    // It was lost, and is found.
    await told();
    assert.equal((await at(id)).status, 'succeeded');
    assert.deepEqual(await breaks(id), ['CAPTURE']);
  });

  test('a refund takes five days', async () => {
    const { id } = await takes();
    await moved(user, id, 'refunds', { amount: 2500 });
    assert.match((await look(await untold(id, 4))).text, /Nothing is left to say/);
    const path = await untold(id, 5);
    await says(path, { said: 'executed', id: await received(path), outcome: 'done' });
    assert.deepEqual(await refunds(id), [['succeeded', 2500]]);
    await told();
    assert.deepEqual([await refunds(id), await breaks(id)], [[['succeeded', 2500]], []]);
  });
});

describe('a void', () => {
  test('that Adyen says no to leaves the reservation, and it can be captured', async () => {
    const { id } = await held({ payment_method: 'adyen_card_cancel_fails' });
    await done(id, 'void');
    const shown = await at(id);
    assert.deepEqual([shown.status, shown.pending_operation], ['requires_capture', null]);
    assert.equal(shown.failed_operation.type, 'void');
    await done(id, 'capture');
    assert.equal((await at(id)).status, 'succeeded');
    assert.equal((await site.simulator.moved(id)).captured, 2500);
  });
});

describe('a reservation', () => {
  test('that lapses is expired, and an order of it can be paid anew', async () => {
    const order = { order_id: freshOrder() };
    const { id } = await held(order);
    await befalls(id, 'expire');
    assert.equal((await at(id)).status, 'expired');
    await refused(id, 'capture', 'expired');
    const { status } = await held(order);
    assert.equal(status, 'requires_capture');
  });
});

describe('a bank', () => {
  test('takes money back: nothing is refunded as well until it is won', async () => {
    const { id } = await takes();
    await befalls(id, 'notification-of-chargeback', { amount: 2500 });
    assert.equal((await at(id)).dispute.funds_withdrawn, false);
    await befalls(id, 'chargeback');
    const { status, dispute } = await at(id);
    assert.deepEqual(
      [status, dispute.status, dispute.amount, dispute.funds_withdrawn],
      ['disputed', 'open', 2500, true],
    );
    await refused(id, 'refunds', 'disputed', { amount: 100 });
    await befalls(id, 'chargeback-reversed');
    assert.deepEqual([(await at(id)).status, (await at(id)).dispute.status], ['succeeded', 'won']);
    await done(id, 'refunds', { amount: 100 });
    assert.deepEqual(await refunds(id), [['succeeded', 100]]);
  });

  test('that wins in the end has the money: it is not given back a second time', async () => {
    const { id } = await takes();
    await befalls(id, 'chargeback');
    await befalls(id, 'chargeback-reversed');
    await befalls(id, 'second-chargeback');
    assert.equal((await at(id)).dispute.status, 'lost');
    const answer = await user.post(`/payments/${id}/refunds`, { amount: 100 }, freshKey());
    assertProblem(answer, 422, 'amount-too-large');
  });

  test('goes on to pre-arbitration: what comes of that decides', async () => {
    for (const [end, status, withdrawn] of [
      ['prearbitration-issuer-withdrawn', 'won', false],
      ['prearbitration-accepted', 'lost', true],
      ['prearbitration-declined', 'open', false],
      ['scheme-arbitration', 'open', false],
    ]) {
      const { id } = await takes();
      await befalls(id, 'chargeback');
      await befalls(id, 'chargeback-reversed');
      await befalls(id, 'prearbitration-open');
      assert.equal((await at(id)).dispute.status, 'open');
      await befalls(id, end);
      const { dispute } = await at(id);
      assert.deepEqual([dispute.status, dispute.funds_withdrawn], [status, withdrawn], end);
    }
  });

  test('holds the money after an Error that was told as a no: it is given back', async () => {
    const card = { payment_method: 'adyen_card_error' };
    const first = await user.pay({ ...AUTHORISATION, ...ADYEN, ...card }, freshKey(), { prefer: 'wait=0' });
    assertProblem(first, 503, 'outcome-unknown');
    await told();
    const { charges } = await site.simulator.ledger(first.payment);
    await site.simulator.befall(charges[0].id, 'authorised');
    await told();
    await givenBack(first.payment);
    const shown = await at(first.payment);
    assert.equal(shown.status, 'declined');
    const { totals } = await site.simulator.ledger(first.payment);
    assert.deepEqual([totals.succeeded_charges, totals.amount_captured], [1, 0]);
  });

  test('says yes to a try that it had refused: what it holds is given back', async () => {
    const order = { ...AUTHORISATION, ...ADYEN, order_id: freshOrder() };
    const first = await user.pay({ ...order, payment_method: 'adyen_card_refused' }, freshKey());
    assertProblem(first, 402, 'payment-failed');
    const [{ id: psp }] = (await site.simulator.ledger(first.payment)).charges;
    const { id } = await paid(user, order);
    assert.equal(id, first.payment);
    await told();
    await site.simulator.befall(psp, 'authorised');
    await told();
    await givenBack(id);
    const { charges } = await site.simulator.ledger(id);
    assert.deepEqual(
      charges.map(({ voided }) => voided),
      [true, false],
    );
    assert.deepEqual([(await at(id)).status, (await at(id)).attempt], ['requires_capture', 2]);
  });
});

describe('a person in the Customer Area', () => {
  test('captures', async () => {
    const { id } = await held();
    await befalls(id, 'capture');
    const shown = await at(id);
    assert.deepEqual([shown.status, shown.amount_captured], ['succeeded', 2500]);
    await refused(id, 'capture', 'succeeded');
    await refused(id, 'void', 'succeeded');
    assert.equal((await site.simulator.moved(id)).captured, 2500);
  });

  test('cancels', async () => {
    const { id } = await held();
    await befalls(id, 'cancel');
    assert.equal((await at(id)).status, 'canceled');
    await refused(id, 'capture', 'canceled');
  });

  test('gives a part back: what is left is all that can be given back here', async () => {
    const { id } = await takes();
    await befalls(id, 'refund', { amount: 2000 });
    assert.deepEqual(await breaks(id), []);
    assert.equal((await at(id)).amount_refunded, 2000);
    const answer = await user.post(`/payments/${id}/refunds`, { amount: 501 }, freshKey());
    assertProblem(answer, 422, 'amount-too-large', { available: 500 });
    await done(id, 'refunds', { amount: 500 });
    assert.deepEqual(await refunds(id), [['succeeded', 500]]);
    assert.equal((await site.simulator.moved(id)).refunded, 2500);
    const records = (await site.objects.audit(id)).filter(({ action }) => action === 'refund.elsewhere');
    assert.deepEqual(
      records.map(({ data }) => JSON.parse(data)),
      [{ amount: 2000, before: 0 }],
    );
  });

  test('gives a part back that comes back: it can be given back here', async () => {
    const { id } = await takes();
    await befalls(id, 'refund', { amount: 2000 });
    await befalls(id, 'refund-reversed');
    assert.equal((await at(id)).amount_refunded, 0);
    await done(id, 'refunds', { amount: 2500 });
    assert.deepEqual(await refunds(id), [['succeeded', 2500]]);
  });
});

test('what cannot befall a payment is refused, and changes nothing', async () => {
  const { id } = await held();
  const { provider_payment: psp } = await at(id);
  for (const [happening, message] of [
    ['recaptured', /409.*no such capture|no such capture/],
    ['refund-reversed', /no such refund/],
    ['authorised', /authorised already/],
    ['nonsense', /There are capture, cancel/],
  ])
    await assert.rejects(site.simulator.befall(psp, happening), message);
  await assert.rejects(site.simulator.befall('NOTHING', 'expire'), /No such payment/);
  assert.equal((await at(id)).status, 'requires_capture');
});
