// What is done at the providers past us, and what they tell of it, in any order. Nothing here waits for the alarm, which is far away.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';

import { freshKey, read } from './support/account.mjs';
import { notify, signed } from './support/adyen.mjs';
import { browser } from './support/browser.mjs';
import { worked } from './support/inbox.mjs';
import { jobsOf, receiptsOf } from './support/jobs.mjs';
import { AUTHORISATION, PAYMENT, assertProblem, moved, paid } from './support/payments.mjs';
import { heading } from './support/shopper.mjs';
import { until } from './support/until.mjs';
import { ADYEN, HOUR_MS, MINUTE_MS, startWebhookSite } from './support/webhooks.mjs';

const { site, user, toAdyen, itemsOf, tellOf, statusOf, refundStatuses, openKeys, reaches, breaksOf } =
  await startWebhookSite();

describe('what is done at the provider past us', () => {
  test('is found out when Stripe tells: a reservation that was given up', async () => {
    await site.simulator.webhooks('on');
    const { id, provider_payment: intent } = await paid(user, AUTHORISATION);
    await site.simulator.stripe(`payment_intents/${intent}/cancel`, { method: 'POST' });
    await site.simulator.flush();
    await reaches(id, 'canceled');
    assert.deepEqual(await receiptsOf(site, id), [`${id}_void_1_receipt`]);
  });

  const checkOf = async (id) => {
    const [{ asks }] = await site.objects.sql(id, "SELECT details ->> '$.check' AS asks FROM payments");
    return asks && JSON.parse(asks);
  };
  /** How a payment and its refunds stand in its rows. */
  const standing = async (id) => [await statusOf(id), ...(await refundStatuses(id))];

  async function reservation() {
    const { id, provider_payment: intent } = await paid(user, AUTHORISATION);
    const change = () => site.simulator.stripe(`payment_intents/${intent}/cancel`, { method: 'POST' });
    return { id, change, after: ['canceled'] };
  }

  async function refund() {
    const { id } = await paid(user, { ...PAYMENT, payment_method: 'pm_card_refundFail' });
    await moved(user, id, 'refunds', { amount: 700 });
    return { id, change: () => site.simulator.advance(MINUTE_MS + 1), after: ['succeeded', 'failed'] };
  }

  test('is found out though Stripe was silent at first, and control: nobody asks without its event', async () => {
    const all = [await reservation(), await refund(), await reservation(), await refund()];
    const before = await Promise.all(all.map(({ id }) => standing(id)));
    assert.deepEqual(before.slice(0, 2), [['requires_capture'], ['succeeded', 'succeeded']]);
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/payment_intents/', count: 1000 });
    await site.simulator.fault('error_before', { method: 'GET', path: '/v1/refunds/', count: 1000 });
    for (const { change } of all) await change();
    const [told, untold] = [all.slice(0, 2), all.slice(2)];
    for (const { id } of told) {
      const event = (await site.simulator.events(id)).at(-1);
      assert.equal(await site.simulator.tell(event.id), 200);
      await until('it was asked in vain', async () => (await checkOf(id))?.tries === 1);
      assert.equal(await site.simulator.tell(event.id), 200, 'it is known');
      await site.objects.evict(id);
    }
    assert.deepEqual(await Promise.all(all.map(({ id }) => standing(id))), before, 'nothing is known yet');
    await site.simulator.calm();
    for (const { id, after: now } of told) {
      await until(`${now}`, async () => `${await standing(id)}` === `${now}`);
      assert.equal(await checkOf(id), null, 'nothing more is asked');
    }
    assert.deepEqual(await Promise.all(untold.map(({ id }) => standing(id))), before.slice(2));
  });

  test('is for a person where a capture fails days later, and again where Adyen repeats it', async () => {
    const { id } = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, id, 'capture');
    const item = (await itemsOf(id)).find(({ eventCode }) => eventCode === 'CAPTURE');
    assert.equal(await tellOf(item), 200);
    assert.equal(await statusOf(id), 'succeeded');
    assert.deepEqual(await breaksOf(id), []);
    // It says "no" by its name.
    const failed = {
      ...item,
      eventCode: 'CAPTURE_FAILED',
      success: 'true',
      eventDate: '2099-01-01T00:00:00Z',
    };
    assert.equal((await toAdyen(signed(failed))).text, '[accepted]');
    assert.equal(await statusOf(id), 'capture_failed');
    const [found, ...more] = await breaksOf(id);
    assert.deepEqual(more, []);
    assert.deepEqual(
      [found.kind, found.provider, found.state, found.theirs],
      ['webhook', 'adyen', 'open', 'CAPTURE_FAILED'],
    );
    assert.match(found.note, /capture failed/);
    const actions = (await site.objects.audit(id)).map(({ action }) => action);
    assert.ok(actions.includes('webhook.alert') && actions.includes('payment.capture_failed'));
    assert.equal((await user.payment(id)).json().amount_captured, 0);
    for (const [move, body] of [['capture'], ['void'], ['refunds', { amount: 100 }]]) {
      const refused = await user.post(`/payments/${id}/${move}`, body, freshKey());
      assertProblem(refused, 409, 'payment-state', { state: 'capture_failed' });
    }
    assert.equal((await toAdyen(signed(failed))).text, '[accepted]');
    assert.equal((await breaksOf(id)).length, 1);
    const again = { ...item, reason: 'Transaction Recaptured', eventDate: '2099-01-02T00:00:00Z' };
    assert.equal((await toAdyen(signed(again))).text, '[accepted]');
    assert.equal(await statusOf(id), 'succeeded');
    assert.equal((await toAdyen(signed(failed))).text, '[accepted]', 'old news');
    assert.equal(await statusOf(id), 'succeeded');
    assert.equal((await user.payment(id)).json().amount_captured, 2500);
    assert.deepEqual(await receiptsOf(site, id), [`${id}_receipt`], 'there is one receipt');
  });

  test('money on a try that was over is for a person, and is given back at once', async () => {
    const order = { ...AUTHORISATION, ...ADYEN, order_id: `order-${randomUUID()}` };
    const refused = await user.pay({ ...order, payment_method: 'adyen_card_refused' }, freshKey());
    assertProblem(refused, 402, 'payment-failed');
    const [first] = await itemsOf(refused.payment);
    const { id } = await paid(user, order);
    assert.equal(id, refused.payment);
    const before = (await user.payment(id)).json();
    assert.deepEqual(
      before.tries.map(({ attempt, status, outcome }) => [attempt, status, outcome]),
      [
        [1, 'declined', 'definitive'],
        [2, 'requires_capture', 'definitive'],
      ],
    );
    // The issuer has authorised it after all.
    const late = { ...first, success: 'true', eventDate: '2099-01-01T00:00:00Z' };
    assert.equal((await toAdyen(signed(late))).text, '[accepted]');
    const asked = await until('Adyen is asked to cancel it', async () =>
      (await site.simulator.requests()).find(({ path }) =>
        path.endsWith(`/payments/${first.pspReference}/cancels`),
      ),
    );
    assert.ok(asked.idempotency_key, 'under a key of its own');
    const [{ kind, note }, ...more] = await breaksOf(id);
    assert.deepEqual([kind, more], ['webhook', []]);
    assert.match(note, /held on try 1/);
    const pending = async () => (await user.payment(id)).json().tries[0].late_money?.status;
    await until('it is received', async () => (await openKeys(id)) === 0);
    assert.equal(await pending(), 'pending');
    const told = {
      ...late,
      eventCode: 'CANCELLATION',
      originalReference: first.pspReference,
      pspReference: `CANCEL${id.slice(4, 12)}`,
      merchantReference: `${id}.${asked.idempotency_key}`,
    };
    assert.equal((await toAdyen(signed(told))).text, '[accepted]');
    assert.equal(await pending(), 'given_back');
    const after = (await user.payment(id)).json();
    assert.deepEqual([after.status, after.attempt], ['requires_capture', 2]);
    const actions = (await site.objects.audit(id)).map(({ action }) => action);
    for (const action of ['try.late_money', 'try.giving_back', 'try.given_back', 'webhook.alert'])
      assert.ok(actions.includes(action), action);
    const rows = await site.objects.sql(id, 'SELECT attempt, provider, status FROM tries ORDER BY attempt');
    assert.equal(rows.length, 2);
  });

  test('money on an earlier try that Adyen refuses to give back holds the order up until a person has given it back', async () => {
    const order = { ...PAYMENT, ...ADYEN, order_id: `order-${randomUUID()}` };
    const refused = await user.pay({ ...order, payment_method: 'adyen_card_refused' }, freshKey());
    assertProblem(refused, 402, 'payment-failed');
    const id = refused.payment;
    const [first] = await itemsOf(id);
    const late = { ...first, success: 'true', eventDate: '2099-01-01T00:00:00Z' };
    assert.equal((await toAdyen(signed(late))).text, '[accepted]');
    const asked = await until('Adyen is asked to refund it', async () =>
      (await site.simulator.requests()).find(({ path }) =>
        path.endsWith(`/payments/${first.pspReference}/refunds`),
      ),
    );
    await until('it is received', async () => (await openKeys(id)) === 0);
    const again = () => user.pay(order, freshKey());
    assertProblem(await again(), 409, 'payment-state', { state: 'giving_back' });
    const told = {
      ...late,
      eventCode: 'REFUND',
      success: 'false',
      originalReference: first.pspReference,
      pspReference: `REFUND${id.slice(4, 12)}`,
      merchantReference: `${id}.${asked.idempotency_key}`,
    };
    assert.equal((await toAdyen(signed(told))).text, '[accepted]');
    const held = await again();
    assertProblem(held, 409, 'payment-state', { state: 'not_given_back' });
    assert.equal(held.header('retry-after'), null);
    assert.equal((await user.payment(id)).json().tries.length, 1);
    const lines = [{ name: 'Enamel mug', unit_amount: 2500, quantity: 1 }];
    const { order_id } = order;
    const { url } = (await user.post('/checkout/sessions', { order_id, currency: 'usd', lines })).json();
    const page = await browser(site).visit(new URL(url).pathname);
    assert.equal(page.status, 409);
    assert.equal(heading(page), 'An earlier payment could not be given back yet');
    await until('a person is told', async () =>
      (await breaksOf(id)).some(({ note }) => /the money of try 1 was not given back/.test(note)),
    );
    const { merchantReference } = first;
    const byHand = { ...told, success: 'true', pspReference: `HAND${id.slice(4, 16)}`, merchantReference };
    assert.equal((await toAdyen(signed(byHand))).text, '[accepted]');
    assert.equal((await user.payment(id)).json().tries[0].late_money.status, 'given_back');
    assert.equal((await again()).status, 201);
  });

  test('a bank that takes money back makes a payment disputed, which is not refunded as well', async () => {
    const { id } = await paid(user, { ...PAYMENT, ...ADYEN });
    const [authorised] = await itemsOf(id);
    const about = (eventCode, eventDate) =>
      signed({
        ...authorised,
        eventCode,
        eventDate,
        originalReference: authorised.pspReference,
        pspReference: `DISPUTE${id.slice(4, 12)}`,
      });
    assert.equal((await toAdyen(about('CHARGEBACK', '2099-01-01T00:00:00Z'))).text, '[accepted]');
    const shown = (await user.payment(id)).json();
    assert.deepEqual([shown.status, shown.dispute.status, shown.dispute.amount], ['disputed', 'open', 2500]);
    const refused = await user.post(`/payments/${id}/refunds`, { amount: 100 }, freshKey());
    assertProblem(refused, 409, 'payment-state', { state: 'disputed' });
    assert.equal((await breaksOf(id)).length, 1);
    assert.equal((await toAdyen(about('CHARGEBACK_REVERSED', '2099-02-01T00:00:00Z'))).text, '[accepted]');
    assert.equal((await user.payment(id)).json().status, 'succeeded');
    assert.equal((await moved(user, id, 'refunds', { amount: 100 })).status, 'pending');
  });

  test('is still for a person where it could not be written down when it was told', async () => {
    const { id } = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, id, 'capture');
    const item = (await itemsOf(id)).find(({ eventCode }) => eventCode === 'CAPTURE');
    assert.equal(await tellOf(item), 200);
    const failed = signed({ ...item, eventCode: 'CAPTURE_FAILED', eventDate: '2099-01-01T00:00:00Z' });
    const told = async () =>
      (await site.objects.audit(id)).filter(({ action }) => action === 'webhook.alert').length;
    await site.rows('ALTER TABLE breaks RENAME TO breaks_away');
    try {
      assert.equal((await notify(site, failed)).status, 200);
      await until('its object knows', async () => (await told()) === 1);
    } finally {
      await site.rows('ALTER TABLE breaks_away RENAME TO breaks');
    }
    await until('it is taken up again', async () => (await breaksOf(id)).length > 0);
    const [{ kind, note }] = await breaksOf(id);
    assert.deepEqual([kind, /capture failed/.test(note)], ['webhook', true]);
    assert.equal(await told(), 1);
  });
});

describe('events in any order', () => {
  /** A little of everything; gives what was paid. */
  async function mix() {
    const stripePaid = await paid(user);
    await moved(user, stripePaid.id, 'refunds', { amount: 500 });
    const captured = await paid(user, AUTHORISATION);
    await moved(user, captured.id, 'capture', { amount: 2000 });
    await moved(user, captured.id, 'refunds');
    const voided = await paid(user, AUTHORISATION);
    await moved(user, voided.id, 'void');
    const adyenPaid = await paid(user, { ...PAYMENT, ...ADYEN });
    await moved(user, adyenPaid.id, 'refunds', { amount: 500 });
    await moved(user, adyenPaid.id, 'refunds', { amount: 600 });
    const adyenCaptured = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, adyenCaptured.id, 'capture', { amount: 2000 });
    const adyenVoided = await paid(user, { ...AUTHORISATION, ...ADYEN });
    await moved(user, adyenVoided.id, 'void');
    return [stripePaid, captured, voided, adyenPaid, adyenCaptured, adyenVoided].map(({ id }) => id);
  }

  /** Each payment stands as the provider's ledger says, here and in the read model. */
  async function assertAsInTheLedger(ids) {
    for (const id of ids) {
      const ledger = await site.simulator.moved(id);
      const shown = (await user.payment(id)).json();
      assert.deepEqual(
        [shown.amount_captured, shown.amount_refunded, shown.status === 'canceled' ? 1 : 0],
        [ledger.captured, ledger.refunded, ledger.voided],
        id,
      );
      assert.ok(
        (await refundStatuses(id)).every((status) => status === 'succeeded'),
        id,
      );
      const receipts = await receiptsOf(site, id);
      const refunds = (await refundStatuses(id)).length;
      assert.equal(receipts.length, refunds + (ledger.captured > 0 ? 1 : 0) + ledger.voided, id);
      const [row] = await site.rows('SELECT shown FROM payments WHERE payment_id = ?', id);
      assert.deepEqual(JSON.parse(row.shown), shown);
      assert.deepEqual(await breaksOf(id), [], id);
    }
  }

  for (const [mode, more] of [
    ['doubled', { delay_ms: 0 }],
    ['shuffled', { delay_ms: HOUR_MS, seed: 7 }],
    ['shuffled', { delay_ms: HOUR_MS, seed: 8 }],
  ])
    test(`${mode}${more.seed ? ` (seed ${more.seed})` : ''} end where the ledger is`, async () => {
      await site.simulator.webhooks(mode, more);
      const ids = await mix();
      // What Stripe tells of the refunds a moment later comes with all else.
      await site.simulator.advance(MINUTE_MS);
      await site.simulator.flush();
      await site.simulator.advance(HOUR_MS + 1);
      await until('all are delivered', site.simulator.isAllTold);
      await worked(site);
      for (const id of ids)
        await until('no refund is open', async () => !(await refundStatuses(id)).includes('pending'));
      await assertAsInTheLedger(ids);
    });

  test('that come late, the newest first, move nothing backward', async () => {
    const ids = await mix();
    for (const id of ids) {
      const isAdyen = (await site.objects.sql(id, 'SELECT provider FROM payments'))[0].provider === 'adyen';
      const told = isAdyen
        ? (await itemsOf(id)).map(({ pspReference, eventCode }) => `${pspReference}:${eventCode}`)
        : (await site.simulator.events(id)).map(({ id: event }) => event);
      for (const event of told.reverse()) assert.equal(await site.simulator.tell(event), 200);
      await worked(site);
      await jobsOf(site, id);
    }
    await assertAsInTheLedger(ids);
  });
});
