// An operator settles a call by hand whose outcome nobody knows: what the page shows, what is refused, and what follows.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, USER, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { jobsOver } from './support/jobs.mjs';
import { formOf, operator, wrongEntry } from './support/operator.mjs';
import {
  AT_ONCE,
  AUTHORISATION,
  PAYMENT,
  assertProblem,
  client,
  held,
  insist,
  paid,
} from './support/payments.mjs';
import { atStripe } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const QUIET_MS = 1500;
const site = await startSite({
  secrets: { ADMIN_TOKEN },
  vars: { PROVIDER_TIMEOUT_MS: '400', QUIET_MS: `${QUIET_MS}`, LEASE_MS: '60000', COMPLETER_MS: '60000' },
});
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const HOUR = 3_600_000;
const DASHBOARD = 'the dashboard says so';
const { bearer, look, press } = operator(site, ADMIN_TOKEN);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The number of the object's newest call, and its page. */
async function newest(id) {
  const calls = await site.objects.calls(id);
  const { call_id } = calls.at(-1);
  return { number: call_id, path: `/admin/payments/${id}/calls/${call_id}` };
}

/** No more sends until a person has looked: the last one began long ago, unless `ms` says otherwise. */
async function wait(id, ms = HOUR) {
  const { number } = await newest(id);
  await site.objects.putOff(id);
  const sent = 'UPDATE foreign_calls SET last_sent_at_ms = ? WHERE call_id = ?';
  await site.objects.sql(id, sent, Date.now() - ms, number);
}

/** A request whose outcome nobody knows, and that is left alone. `fault` says whether it was executed. */
async function unknown(path, body, { fault = 'response_lost', provider = '/v1/', ms } = {}) {
  const key = freshKey();
  await site.simulator.fault(fault, { path: provider, count: 1000 });
  await site.simulator.fault('error_before', { method: 'GET', count: 1000 });
  const answer = await user.post(path, body, key, AT_ONCE);
  assert.equal(answer.status, 503, answer.text);
  const id = answer.payment;
  await wait(id, ms);
  await site.simulator.calm();
  return { id, key, again: () => insist(() => user.post(path, body, key)) };
}

/** Says something of the newest call, and confirms it. */
async function settle(id, entries) {
  const { path } = await newest(id);
  const page = await look(path);
  const { entries: hidden } = formOf(page, '/review');
  const review = await press(`${path}/review`, { sends: hidden.sends, reason: DASHBOARD, ...entries });
  if (review.status !== 200) return { review };
  const button = formOf(review, '/settle-by-hand');
  const done = await press(button.path, button.entries);
  assert.equal(done.status, 303, done.text);
  return { review, button, done, shown: await look(done.header('location')) };
}

const intentOf = async (id) => {
  const { charges } = await site.simulator.ledger(id);
  return charges[0].payment_intent;
};
const auditOf = async (id) =>
  (await site.objects.audit(id))
    .filter(({ action }) => action === 'call.settled_by_hand')
    .map(({ data }) => JSON.parse(data));
const open = (text) => text.replaceAll(/&#x27;|&#39;|’/g, "'");

describe('a payment at Stripe', () => {
  test('that was executed is settled as what Stripe shows, and its client gets it', async () => {
    const { id, again } = await unknown('/payments', PAYMENT);
    const intent = await intentOf(id);
    const payment = await look(`/admin/payments/${id}`);
    const { path } = await newest(id);
    assert.match(payment.text, new RegExp(`href="${path}"[^>]*>Settle by hand<`));
    const page = await look(path);
    assert.match(page.text, new RegExp(`Stripe shows ${intent}: charged`));
    assert.match(page.text, /the payment of \$25\.00/);
    const { review, shown } = await settle(id, { said: 'executed', id: intent });
    assert.match(
      open(review.text),
      new RegExp(`You say that the payment of \\$25\\.00 was executed by Stripe as ${intent}`),
    );
    assert.match(shown.text, /the call is settled as charged/i);
    const answer = await again();
    assert.deepEqual([answer.status, answer.json().status], [201, 'succeeded']);
    assert.equal((await site.simulator.moved(id)).charges, 1);
    const [record] = await auditOf(id);
    assert.deepEqual(
      [record.operator, record.settled_as, record.provider_id, record.reason],
      ['operator', 'charged', intent, undefined],
    );
    const { text } = await look(`/admin/payments/${id}`);
    assert.match(text, /settled by hand/);
    assert.ok(text.includes(`by hand, operator: ${DASHBOARD}`));
    const log = await site.rows('SELECT action, outcome FROM operator_actions WHERE subject = ?', id);
    assert.deepEqual(
      log.map(({ outcome }) => outcome),
      ['done: the call is settled as charged'],
    );
    assert.equal(log[0].action, `settle-by-hand: call 1 was executed as ${intent}`);
  });

  test('keeps why it was settled until it is erased, and then in no table and no object', async () => {
    const { id, again } = await unknown('/payments', PAYMENT);
    const { done } = await settle(id, {
      said: 'executed',
      id: await intentOf(id),
      reason: 'Grace Hopper has phoned',
    });
    assert.equal(done.status, 303);
    assert.equal((await again()).status, 201);
    await jobsOver(site, id);
    const dump = async () => JSON.stringify(await site.objects.dump(id));
    assert.ok((await dump()).includes('Grace Hopper'), 'control: the object has it');
    const erased = await site.fetch(`/admin/payments/${id}/erase`, { method: 'POST', headers: bearer });
    assert.equal(erased.status, 200, await erased.text());
    await until('the read model follows', async () => {
      const erasures = "SELECT 1 FROM audit_records WHERE subject = ? AND action = 'personal_data.erased'";
      return (await site.rows(erasures, id)).length > 0;
    });
    assert.ok(!(await dump()).includes('Grace Hopper'));
    const tables = await site.rows(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    );
    for (const { name } of tables) {
      const rows = JSON.stringify(await site.rows(`SELECT * FROM "${name}"`));
      assert.ok(!rows.includes('Grace Hopper'), name);
    }
    assert.match((await look(`/admin/payments/${id}`)).text, /by hand, operator</);
  });

  test('is not settled as another payment, as what is not there, or as what cannot be asked for', async () => {
    const { id } = await unknown('/payments', PAYMENT);
    const intent = await intentOf(id);
    const other = await paid(user, PAYMENT);
    const { review: another } = await settle(id, { said: 'executed', id: other.provider_payment });
    assert.equal(another.status, 409);
    assert.match(another.text, /was made by another call/);
    const { review: nothing } = await settle(id, { said: 'executed', id: 'pi_nothing' });
    assert.match(nothing.text, /Stripe has no pi_nothing/);
    const { review: form } = await settle(id, { said: 'executed', id: 're_1' });
    assert.match(form.text, /begins with pi_/);
    await site.simulator.fault('error_before', { method: 'GET', count: 1000 });
    const { review: down } = await settle(id, { said: 'executed', id: intent });
    assert.match(down.text, /could not be asked/);
    assert.deepEqual(await auditOf(id), []);
    assert.equal((await site.objects.calls(id))[0].status, 'unknown');
  });

  test('that Stripe shows is not settled as not executed', async () => {
    const { id } = await unknown('/payments', PAYMENT);
    const { review } = await settle(id, { said: 'not_executed' });
    assert.equal(review.status, 409);
    assert.match(open(review.text), /Stripe shows pi_\w+: charged/);
    assert.deepEqual(await auditOf(id), []);
  });

  test('that Stripe may show is settled as not executed only by who was told what that is', async () => {
    const { id } = await unknown('/payments', PAYMENT);
    const intent = await intentOf(id);
    // Somebody has edited it at the dashboard: by what is left of it, it may be another one.
    await atStripe(site, `payment_intents/${intent}`, { 'metadata[idempotency_key]': '' });
    const { review, shown } = await settle(id, { said: 'not_executed' });
    assert.match(
      review.text,
      new RegExp(`Stripe shows ${intent} is what was asked for.* only if that is another payment`),
    );
    assert.match(shown.text, /the call is settled as not executed/i);
  });

  test('in quarantine is released: it counts as failed, and the order can be paid again', async () => {
    const { id, again } = await unknown('/payments', PAYMENT, { fault: 'error_before' });
    const { path } = await newest(id);
    const page = await look(path);
    assert.match(page.text, /Quarantined until/);
    assert.match(page.text, /This releases the quarantine/);
    assert.match(page.text, /Stripe shows nothing of it/);
    const { shown } = await settle(id, { said: 'not_executed' });
    assert.match(shown.text, /the call is settled as not executed/i);
    const answer = await again();
    assert.deepEqual([answer.status, answer.json().code], [402, 'payment_not_completed']);
    const [record] = await auditOf(id);
    assert.equal(record.released_quarantine, true);
    const [row] = (await user.payment(id)).json().tries ?? [];
    assert.equal(row?.outcome, 'inferred');
  });

  test('without a reason, or without an id, nothing is done', async () => {
    const { id } = await unknown('/payments', PAYMENT);
    for (const [entries, wrong] of [
      [{ said: 'executed', id: 'pi_1', reason: ' ' }, 'reason-executed'],
      [{ said: 'not_executed', reason: ' ' }, 'reason-absent'],
      [{ said: 'executed', id: '' }, 'provider-id'],
      [{ said: '' }, undefined],
    ]) {
      const { review } = await settle(id, entries);
      assert.equal(review.status, 422, JSON.stringify(entries));
      assert.match(review.text, /<title>Not settled – Settle the [^<]*: pay_/);
      assert.equal(wrongEntry(review), wrong);
    }
    assert.deepEqual(await auditOf(id), []);
  });
});

describe('a refund at Stripe', () => {
  const refundOf = async (id) => {
    const { charges, refunds } = await site.simulator.ledger();
    const [charge] = charges.filter(({ metadata }) => metadata.resource === id);
    return refunds.find((refund) => refund.charge === charge.id);
  };

  test('that was executed is settled as what Stripe shows', async () => {
    const { id: payment } = await paid(user, PAYMENT);
    const { id, again } = await unknown(`/payments/${payment}/refunds`, { amount: 700 });
    const { id: refund } = await refundOf(id);
    const { shown } = await settle(id, { said: 'executed', id: refund });
    assert.match(shown.text, /the call is settled as refunded/i);
    const answer = await again();
    assert.deepEqual([answer.status, answer.json().provider_refund], [201, refund]);
    assert.equal((await site.simulator.moved(id)).refunded, 700);
  });

  test('is settled once, however often the button is pressed', async () => {
    const { id: payment } = await paid(user, PAYMENT);
    const { id } = await unknown(`/payments/${payment}/refunds`, { amount: 700 });
    const { id: refund } = await refundOf(id);
    const { path } = await newest(id);
    const { entries: hidden } = formOf(await look(path), '/review');
    const review = await press(`${path}/review`, {
      ...hidden,
      said: 'executed',
      id: refund,
      reason: DASHBOARD,
    });
    const button = formOf(review, '/settle-by-hand');
    const answers = await Promise.all(Array.from({ length: 5 }, () => press(button.path, button.entries)));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([303]));
    assert.equal((await auditOf(id)).length, 1);
    const stale = await press(`${path}/review`, { ...hidden, said: 'not_executed', reason: DASHBOARD });
    assert.equal(stale.status, 409);
    assert.match(stale.text, /was settled meanwhile: refunded/);
  });

  test('that was settled wrongly is a break as soon as Stripe tells of it', async () => {
    const { id: payment } = await paid(user, PAYMENT);
    const { id } = await unknown(`/payments/${payment}/refunds`, { amount: 700 }, { fault: 'error_before' });
    await settle(id, { said: 'not_executed' });
    const [, call] = await site.objects.calls(id);
    const { charges } = await site.simulator.ledger(id);
    // Stripe completes by itself what it had failed at.
    const body = new URLSearchParams({
      payment_intent: charges[0].payment_intent,
      amount: '700',
      'metadata[payment]': id,
      'metadata[idempotency_key]': call.derived_key,
    });
    const { id: refund } = await site.simulator.make('refunds', body.toString());
    const events = await site.simulator.events(id);
    const event = events.find(({ data }) => data.object.id === refund);
    assert.equal(await site.simulator.tell(event.id), 200);
    const breaks = await site.rows(
      "SELECT note FROM breaks WHERE kind = 'webhook' AND note LIKE 'refund was settled by hand%'",
    );
    assert.equal(breaks.length, 1);
    assert.match(breaks[0].note, /^refund was settled by hand as not executed by operator; stripe shows re_/);
    await until('the money counts', async () => (await user.payment(id)).json().amount_refunded === 700);
  });
});

describe('a void at Stripe', () => {
  test('that was executed is settled as what Stripe shows', async () => {
    const { id: payment, provider_payment: intent } = await paid(user, AUTHORISATION);
    const { id, again } = await unknown(`/payments/${payment}/void`, {});
    const { shown } = await settle(id, { said: 'executed', id: intent });
    assert.match(shown.text, /the call is settled as voided/i);
    const answer = await again();
    assert.deepEqual([answer.status, answer.json().status], [200, 'canceled']);
    assert.equal((await site.simulator.moved(id)).voided, 1);
  });

  test('that was not executed leaves the money reserved', async () => {
    const { id: payment, provider_payment: intent } = await paid(user, AUTHORISATION);
    const { id, again } = await unknown(`/payments/${payment}/void`, {}, { fault: 'error_before' });
    const { review } = await settle(id, { said: 'executed', id: intent });
    assert.equal(review.status, 409, 'Stripe shows that it is not voided');
    await settle(id, { said: 'not_executed' });
    assert.equal((await again()).status, 402);
    assert.equal((await user.payment(id)).json().status, 'requires_capture');
    assert.equal((await site.simulator.moved(id)).voided, 0);
  });
});

describe('at Adyen, which cannot be asked,', () => {
  const ADYEN = { provider: '/adyen/' };
  const at = (payment) => ({ ...payment, provider: 'adyen' });

  test('the operator’s word counts: executed, with the outcome', async () => {
    const { id, again } = await unknown('/payments', at(PAYMENT), ADYEN);
    const page = await look((await newest(id)).path);
    assert.match(page.text, /Adyen cannot be asked/);
    assert.match(page.text, new RegExp(`${id}\\.po_`));
    const { review: wrong } = await settle(id, { said: 'executed', id: 'psp', outcome: 'done' });
    assert.match(wrong.text, /16 capital letters and digits/);
    const { shown } = await settle(id, { said: 'executed', id: 'ABCDEFGH12345678', outcome: 'done' });
    assert.match(shown.text, /the call is settled as charged/i);
    const answer = await again();
    assert.deepEqual([answer.status, answer.json().provider_payment], [201, 'ABCDEFGH12345678']);
  });

  test('and refused', async () => {
    const { id, again } = await unknown('/payments', at(PAYMENT), ADYEN);
    await settle(id, { said: 'executed', id: 'ABCDEFGH12345678', outcome: 'refused' });
    const answer = await again();
    assert.deepEqual([answer.status, answer.json().code], [402, 'card_declined']);
  });

  test('and a capture that was not executed can be asked for again', async () => {
    const { id: payment } = await paid(user, at(AUTHORISATION));
    const { id, again } = await unknown(
      `/payments/${payment}/capture`,
      {},
      { ...ADYEN, fault: 'error_before' },
    );
    await settle(id, { said: 'not_executed' });
    assert.equal((await again()).status, 402);
    const second = await user.post(`/payments/${id}/capture`, {}, freshKey());
    assert.ok([200, 202].includes(second.status), second.text);
  });
});

describe('nothing is settled', () => {
  test('while a send is on its way', async () => {
    // A site of its own: here the provider is waited for as long as it takes to look.
    const patient = await startSite({
      secrets: { ADMIN_TOKEN },
      vars: { PROVIDER_TIMEOUT_MS: '60000', LEASE_MS: '90000' },
    });
    const atDesk = operator(patient, ADMIN_TOKEN);
    try {
      const { answer } = await held(patient, () => client(patient).pay(PAYMENT, freshKey()));
      const [hex, ...others] = await patient.objects.ids();
      assert.deepEqual(others, []);
      const id = `pay_${Buffer.from(hex, 'hex').toString('base64url')}`;
      const page = await atDesk.look(`/admin/payments/${id}/calls/1`);
      assert.match(page.text, /being sent or looked up right now/);
      assert.ok(!page.text.includes('/review"'));
      const said = { said: 'not_executed', reason: DASHBOARD, sends: '1' };
      const review = await atDesk.press(`/admin/payments/${id}/calls/1/review`, said);
      assert.equal(review.status, 409);
      await patient.simulator.calm();
      assert.equal((await answer).status, 201);
      const audit = await patient.objects.audit(id);
      assert.deepEqual(
        audit.filter(({ action }) => action === 'call.settled_by_hand'),
        [],
      );
    } finally {
      await patient.close();
    }
  });

  test('as not executed while the last send may still arrive; sending can be stopped until then', async () => {
    const { id } = await unknown('/payments', PAYMENT, { fault: 'error_before', ms: 0 });
    const { path } = await newest(id);
    // So long as it is in the time to come, the quiet time is not over, however slow the machine is.
    const { last_sent_at_ms: lastSent } = await site.objects.call(id);
    const wasSent = (at) => site.objects.sql(id, 'UPDATE foreign_calls SET last_sent_at_ms = ?', at);
    await wasSent(lastSent + 600_000);
    const page = await look(path);
    assert.match(page.text, /The last send may still arrive/);
    const { review } = await settle(id, { said: 'not_executed' });
    assert.equal(review.status, 409);
    assert.match(review.text, /the last send may still arrive until/i);
    const { path: hold, entries } = formOf(page, '/hold');
    assert.equal((await press(hold, entries)).status, 303);
    const [call] = await site.objects.calls(id);
    assert.ok(call.next_try_at_ms > Date.now() + HOUR / 2 - 60_000);
    await wasSent(lastSent);
    await pause(QUIET_MS);
    const { shown } = await settle(id, { said: 'not_executed' });
    assert.match(shown.text, /the call is settled as not executed/i);
  });

  test('for somebody who is not an operator, or without the button’s key', async () => {
    const { id } = await unknown('/payments', PAYMENT);
    const { path } = await newest(id);
    assert.equal((await site.fetch(path)).status, 401);
    const stranger = await site.fetch(`${path}/review`, { method: 'POST', body: 'said=not_executed' });
    assert.equal(stranger.status, 401);
    const without = await press(`${path}/settle-by-hand`, {
      said: 'not_executed',
      reason: DASHBOARD,
      sends: '1',
    });
    assert.equal(without.status, 403);
    assert.equal((await look(`/admin/payments/${id}/calls/77`)).status, 404);
    assert.deepEqual(await auditOf(id), []);
  });

  test('with an API account’s token, or with the button of another payment', async () => {
    const [{ id }, other] = [await unknown('/payments', PAYMENT), await unknown('/payments', PAYMENT)];
    const { path } = await newest(id);
    const authorization = `Bearer ${USER}`;
    assert.equal((await site.fetch(path, { headers: { authorization } })).status, 401);
    const said = { said: 'executed', id: await intentOf(other.id), reason: DASHBOARD };
    const { path: others } = await newest(other.id);
    const { entries: hidden } = formOf(await look(others), '/review');
    const button = formOf(await press(`${others}/review`, { ...hidden, ...said }), '/settle-by-hand');
    assert.equal((await press(`${path}/settle-by-hand`, button.entries)).status, 403);
    assert.deepEqual(await auditOf(id), []);
    // Another account does not see the payment that the operator has settled.
    await settle(id, { said: 'executed', id: await intentOf(id) });
    const stranger = client(site, DECLINED_USER);
    assertProblem(await stranger.payment(id), 404, 'not-found');
    assertProblem(await stranger.post(`/payments/${id}/refunds`, {}, freshKey()), 404, 'not-found');
  });
});
