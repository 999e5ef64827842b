// The provider's books against ours: what differs is written down, and mended where no money has to move for that.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { LOOKS_SOON, jobsForgotten } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { ADMIN_TOKEN, abandoned } from './support/abandoned.mjs';
import { PAYMENT } from './support/payments.mjs';
import { atStripe, readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

const COLUMNS = `payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider,
  provider_payment, order_id, failure_code, attempt, shown, created_at_ms, updated_at_ms`;
/** As if none of the object's projections had ever arrived. */
async function forgottenBy(model, payment) {
  for (const table of ['payments', 'keys', 'audit_records'])
    await model.run(`DELETE FROM ${table} WHERE object = ?`, objectId(payment));
}

/** The last API version in which the rest of a capture of a part counts as refunded. */
const BEFORE_BASIL = '2025-02-24.acacia';

const MADE_ELSEWHERE = {
  amount: '4200',
  currency: 'eur',
  payment_method: 'pm_card_visa',
  'payment_method_types[]': 'card',
  confirm: 'true',
};

describe('the reconciliation', async () => {
  const site = await startSite({
    vars: { ...LOOKS_SOON, RECONCILE_QUIET_MS: '0' },
    secrets: { ADMIN_TOKEN },
  });
  const user = account(site);
  const model = readModel(site);
  const breakOf = (id) => model.first('SELECT * FROM breaks WHERE provider_payment = ?', id);
  const paid = async () => {
    const { id } = (await user.pay(PAYMENT, freshKey())).json();
    return { id, ...(await model.reaches(id, 'succeeded')) };
  };
  after(() => site.close());
  afterEach(() => site.simulator.calm());

  test('finds nothing where both say the same', async () => {
    const before = await model.all('SELECT break_id FROM breaks');
    await paid();
    await paid();
    const held = (await user.pay({ ...PAYMENT, capture: false }, freshKey())).json();
    await model.reaches(held.id, 'requires_capture');
    const { reconcile } = await model.tick();
    assert.ok(reconcile.compared >= 3, JSON.stringify(reconcile));
    assert.equal(reconcile.complete, true);
    assert.deepEqual(await model.all('SELECT break_id FROM breaks'), before);
  });

  test('finds a payment that was made elsewhere, once', async () => {
    const orphan = await atStripe(site, 'payment_intents', MADE_ELSEWHERE);
    await model.tick();
    const first = await breakOf(orphan.id);
    assert.equal(first.break_id, `orphan:stripe:${orphan.id}`);
    assert.deepEqual([first.kind, first.state, first.resource], ['orphan', 'open', null]);
    assert.match(first.theirs, /4200 of 4200 eur taken/);
    await model.tick();
    const again = await breakOf(orphan.id);
    assert.equal(again.first_seen_at_ms, first.first_seen_at_ms);
    assert.ok(again.last_seen_at_ms > first.last_seen_at_ms);
  });

  test('leaves alone what nobody has paid elsewhere', async () => {
    const unpaid = await atStripe(site, 'payment_intents', { amount: '700', currency: 'usd' });
    await model.tick();
    assert.equal(await breakOf(unpaid.id), undefined);
  });

  test('tells the object of a refund that was made on the dashboard: no more than the rest can be refunded', async () => {
    const { provider_payment: intent, id } = await paid();
    await atStripe(site, 'refunds', { payment_intent: intent, amount: '300' });
    await model.tick();
    const found = await breakOf(intent);
    assert.deepEqual([found.kind, found.resource], ['amount', id]);
    assert.match(found.theirs, /300 refunded/);
    assert.match(found.ours, /0 refunded/);
    assert.equal((await user.ask(`/payments/${id}`)).json().amount_refunded, 300);

    await until('the read model knows', () =>
      model.first('SELECT 1 FROM payments WHERE payment_id = ? AND refunded_minor = 300', id),
    );
    await model.tick();
    assert.equal((await breakOf(intent)).state, 'repaired');
    const tooMuch = await user.post(`/payments/${id}/refunds`, { amount: 2300 }, freshKey());
    assert.deepEqual([tooMuch.status, tooMuch.json().available], [422, 2200]);
    assert.equal((await user.post(`/payments/${id}/refunds`, {}, freshKey())).json().amount, 2200);
    const { data } = await site.simulator.stripe(`charges?payment_intent=${intent}`);
    assert.equal(data[0].amount_refunded, 2500);
  });

  test('keeps what a person has accepted, until it says something else', async () => {
    const orphan = await atStripe(site, 'payment_intents', MADE_ELSEWHERE);
    await model.tick();
    await model.run(
      "UPDATE breaks SET state = 'accepted' WHERE break_id = ?",
      (await breakOf(orphan.id)).break_id,
    );
    await model.tick();
    assert.equal((await breakOf(orphan.id)).state, 'accepted');
    await atStripe(site, 'refunds', { payment_intent: orphan.id, amount: '200' });
    await model.tick();
    assert.equal((await breakOf(orphan.id)).state, 'open', 'it says something else now');
  });

  test('tells the object of what was captured on the dashboard', async () => {
    const held = (await user.pay({ ...PAYMENT, capture: false }, freshKey())).json();
    await model.reaches(held.id, 'requires_capture');
    await atStripe(site, `payment_intents/${held.provider_payment}/capture`, {});
    await model.tick();
    await model.reaches(held.id, 'succeeded');
    assert.equal((await breakOf(held.provider_payment)).kind, 'status');
    await model.tick();
    assert.equal((await breakOf(held.provider_payment)).state, 'repaired');
  });

  describe('after a capture of a part', () => {
    const REST = PAYMENT.amount - 1000;
    const reserved = async () => {
      const held = (await user.pay({ ...PAYMENT, capture: false }, freshKey())).json();
      await model.reaches(held.id, 'requires_capture');
      return { id: held.id, intent: held.provider_payment };
    };
    const capturedHere = async (amount = 1000) => {
      const held = await reserved();
      const key = freshKey();
      assert.equal((await user.post(`/payments/${held.id}/capture`, { amount }, key)).status, 200);
      await until('the read model knows who captured it', () =>
        model.first(
          `SELECT 1 FROM payments JOIN key_list USING (object)
           WHERE payment_id = ? AND payments.status = 'succeeded' AND operation = 'capture' AND response_status = 200`,
          held.id,
        ),
      );
      return held;
    };
    /** At the dashboard, or by another system; the object hears of it by the clock. */
    const capturedElsewhere = async (version, amount = 1000) => {
      const held = await reserved();
      const fields = { amount_to_capture: String(amount) };
      await atStripe(site, `payment_intents/${held.intent}/capture`, fields, version);
      await model.tick();
      await model.reaches(held.id, 'succeeded');
      return held;
    };
    const givenBack = async ({ id }, amount) => {
      const { id: refund } = (await user.post(`/payments/${id}/refunds`, { amount }, freshKey())).json();
      await until('the refund is known', () =>
        model.first("SELECT 1 FROM refunds WHERE refund_id = ? AND status = 'succeeded'", refund),
      );
    };
    const theirs = async ({ intent }) => {
      const { data } = await site.simulator.stripe(`charges?payment_intent=${intent}`);
      return data[0].amount_refunded;
    };
    const openBreak = async ({ intent }) => {
      await model.tick();
      return model.first("SELECT * FROM breaks WHERE provider_payment = ? AND state = 'open'", intent);
    };

    for (const [who, captured, released] of [
      ['of ours', capturedHere, 0],
      ['made elsewhere', () => capturedElsewhere(), 0],
      ['made elsewhere, that counts the rest as refunded', () => capturedElsewhere(BEFORE_BASIL), REST],
    ])
      test(`${who}, finds nothing, also when we give some of it back`, async () => {
        const held = await captured();
        assert.equal(await theirs(held), released);
        assert.equal(await openBreak(held), undefined);
        await givenBack(held, 300);
        assert.equal(await theirs(held), released + 300);
        assert.equal(await openBreak(held), undefined);
        await givenBack(held, 700);
        assert.equal(await openBreak(held), undefined);
      });

    for (const [who, captured, refunded] of [
      ['of ours', capturedHere, 300],
      ['of ours, as much as its rest', () => capturedHere(1250), 1250],
      ['made elsewhere', () => capturedElsewhere(), 300],
      ['made elsewhere, that counts the rest as refunded', () => capturedElsewhere(BEFORE_BASIL), 300],
    ])
      test(`${who}, control: finds a refund that we have not made`, async () => {
        const held = await captured();
        await atStripe(site, 'refunds', { payment_intent: held.intent, amount: String(refunded) });
        await model.tick();
        const found = await model.first(
          "SELECT * FROM breaks WHERE provider_payment = ? AND kind = 'amount'",
          held.intent,
        );
        assert.deepEqual([found?.kind, found?.resource], ['amount', held.id]);
        const { amount_refunded, amount_captured } = (await user.ask(`/payments/${held.id}`)).json();
        assert.deepEqual(
          [amount_refunded, amount_captured > 0],
          [refunded, true],
          'the object has learnt of it',
        );
      });
  });

  test('mends a read model that says something else than the object', async () => {
    const { id, provider_payment: intent } = await paid();
    // Before, the object itself would find that its version is not shown, and mend the row.
    await jobsForgotten(site, id);
    await model.run(
      "UPDATE payments SET provider_payment = 'pi_unknown', version = 0 WHERE payment_id = ?",
      id,
    );
    await model.tick();
    const missing = await breakOf('pi_unknown');
    assert.deepEqual([missing.kind, missing.resource], ['missing', id]);
    await until('the read model is right', async () =>
      model.first('SELECT 1 FROM payments WHERE payment_id = ? AND provider_payment = ?', id, intent),
    );
    await model.tick();
    const states = await model.all('SELECT kind, state FROM breaks WHERE resource = ?', id);
    assert.ok(states.length > 0 && states.every(({ state }) => state === 'repaired'), JSON.stringify(states));
  });

  test('finds an object whose alarm and whose projections were lost', async () => {
    const { key, payment } = await abandoned(site, user, model);
    await forgottenBy(model, payment);
    const { sweep } = await model.tick();
    assert.equal(sweep.late, 0, 'the sweep does not know it');
    await until(
      'the payment is finished',
      async () => (await site.objects.key(payment)).status === 'finished',
    );
    const { provider_payment: intent } = await model.reaches(payment, 'succeeded');
    assert.deepEqual([(await breakOf(intent)).kind, (await breakOf(intent)).resource], ['orphan', payment]);
    assert.equal(await site.simulator.charges(payment), 1);
    assert.equal((await user.pay(PAYMENT, key)).status, 201);
    await model.tick();
    assert.equal((await breakOf(intent)).state, 'repaired');
  });

  test('misses each payment that the provider does not know, also while a break of another one is open', async () => {
    const { id } = await paid();
    await model.tick();
    for (const number of [1, 2]) {
      const now = Date.now();
      await model.run(
        `INSERT INTO payments (${COLUMNS}) SELECT ?2, '', version, owner, status, amount_minor, captured_minor, 0,
           currency, 'stripe', ?3, NULL, NULL, attempt, shown, ?1, ?1 FROM payments WHERE payment_id = ?4`,
        ...[now, `pay_lost_${number}`, `pi_lost_${number}`, id],
      );
      await until(`the break of payment ${number}`, async () => {
        await model.tick();
        return breakOf(`pi_lost_${number}`);
      });
    }
    assert.deepEqual(
      [(await breakOf('pi_lost_1')).state, (await breakOf('pi_lost_2')).kind],
      ['open', 'missing'],
    );
    await model.run("DELETE FROM payments WHERE payment_id LIKE 'pay_lost_%'");
    await model.tick();
    assert.equal((await breakOf('pi_lost_2')).state, 'resolved', 'nobody claims it any more');
  });

  test('looks again at a break that has left the window', async () => {
    const { id } = await paid();
    const old = Date.now() - 36_000_000;
    await model.run(
      `INSERT INTO payments (${COLUMNS}) SELECT 'pay_old', '', version, owner, status, amount_minor, captured_minor, 0,
         currency, 'stripe', 'pi_never', NULL, NULL, attempt, shown, ?1, ?1 FROM payments WHERE payment_id = ?2`,
      old,
      id,
    );
    await model.run(
      `INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, state, first_seen_at_ms, last_seen_at_ms)
       VALUES ('missing:stripe:pi_never', 'missing', 'stripe', 'pi_never', 'pay_old', 'open', ?1, ?1)`,
      old,
    );
    await model.tick();
    const seen = await breakOf('pi_never');
    assert.equal(seen.state, 'open', 'it is still not there');
    assert.ok(seen.last_seen_at_ms > old);
    await model.run("DELETE FROM payments WHERE payment_id = 'pay_old'");
    await model.tick();
    assert.equal((await breakOf('pi_never')).state, 'resolved', 'nobody claims it any more');
  });

  test('tells of a payment with Adyen of which nothing was heard for a day', async () => {
    const { id } = await paid();
    const row = (at, payment) =>
      model.run(
        `INSERT INTO payments (${COLUMNS}) SELECT ?1, object, version, owner, 'processing', amount_minor, 0, 0, currency,
           'adyen', NULL, NULL, NULL, attempt, shown, ?2, updated_at_ms FROM payments WHERE payment_id = ?3`,
        payment,
        at,
        id,
      );
    await row(Date.now() - 90_000_000, 'pay_silent');
    await row(Date.now() - 3_600_000, 'pay_young');
    await model.tick();
    const silent = () => model.all("SELECT resource, state FROM breaks WHERE kind = 'silent'");
    assert.deepEqual(await silent(), [{ resource: 'pay_silent', state: 'open' }]);
    await model.run("UPDATE payments SET status = 'succeeded' WHERE payment_id = 'pay_silent'");
    await model.tick();
    assert.deepEqual(await silent(), [{ resource: 'pay_silent', state: 'resolved' }]);
    await model.run("DELETE FROM payments WHERE payment_id IN ('pay_silent', 'pay_young')");
  });

  test('says that it could not read the books, and the other tasks run', async () => {
    await site.simulator.fault('error_before', { method: 'GET' });
    const { reconcile, sweep } = await model.tick();
    assert.match(reconcile.error, /answered 5/);
    assert.ok('late' in sweep);
  });
});

describe('with a window of a second and no webhooks', async () => {
  const vars = { RECONCILE_QUIET_MS: '0', RECONCILE_WINDOW_MS: '1000' };
  const site = await startSite({ vars, secrets: { ADMIN_TOKEN } });
  const user = account(site);
  const model = readModel(site);
  after(() => site.close());
  const old = async (payment) => {
    const { id, provider_payment: intent } = (await user.pay(payment, freshKey())).json();
    await model.reaches(id, payment.capture === false ? 'requires_capture' : 'succeeded');
    // The events that made it are read, and it leaves the list of payments, as if more than the window and the overlap of two passes were over.
    await model.tick();
    await model.run(
      "UPDATE cursors SET through_ms = ?, until_ms = NULL, slices = NULL WHERE name = 'stripe_payments'",
      Date.now() + 660_000,
    );
    return { id, intent };
  };
  const breaks = (intent) => model.all('SELECT kind FROM breaks WHERE provider_payment = ?', intent);

  test('a refund at the dashboard of a payment that has left it is found', async () => {
    const { id, intent } = await old(PAYMENT);
    assert.deepEqual(await breaks(intent), []);
    await atStripe(site, 'refunds', { payment_intent: intent, amount: '300' });
    const { reconcile } = await model.tick();
    for (const list of ['events', 'balance_transactions', 'payment_intents'])
      assert.ok(reconcile[`${list}_lag_ms`] < 1_000, JSON.stringify(reconcile));
    assert.deepEqual(await breaks(intent), [{ kind: 'amount' }]);
    assert.equal((await user.ask(`/payments/${id}`)).json().amount_refunded, 300);
  });

  test('so is one that is told of late, or after a run that broke off', async () => {
    const { id, intent } = await old({ ...PAYMENT, capture: false });
    await atStripe(site, `payment_intents/${intent}/capture`, {});
    // As if all until in five minutes had been read; and the next run breaks off.
    await model.run('UPDATE cursors SET through_ms = ?, until_ms = NULL', Date.now() + 300_000);
    await site.simulator.fault('error_before', { method: 'GET' });
    assert.match((await model.tick()).reconcile.error, /answered 5/);
    await site.simulator.calm();
    await model.run('UPDATE cursors SET until_ms = ?', Date.now() + 1_000);
    await model.tick();
    await model.reaches(id, 'succeeded');
    assert.deepEqual(await breaks(intent), [{ kind: 'status' }]);
  });

  test('an inquiry of which no webhook tells is found, and what has passed of it is no difference', async () => {
    const { id, intent } = await old(PAYMENT);
    const inquiry = async (status) => {
      await site.simulator.befallAtStripe(intent, 'disputes', { status });
      const { reconcile } = await model.tick();
      assert.equal(reconcile.error, undefined);
      return (await user.ask(`/payments/${id}`)).json().dispute;
    };
    const open = await inquiry('warning_needs_response');
    assert.deepEqual(await breaks(intent), [], 'the payment itself agrees');
    assert.deepEqual(
      await model.all("SELECT kind FROM breaks WHERE resource = ? AND kind != 'webhook'", id),
      [{ kind: 'dispute' }],
    );
    assert.equal(open.status, 'open');
    assert.equal((await inquiry('warning_closed')).status, 'won');
    // Both events are read again: the older one says that it is open. The read model has the newer one some time after the answer.
    await until('no difference is left', async () => {
      const { reconcile } = await model.tick();
      assert.equal(reconcile.error, undefined);
      const left = await model.all(
        "SELECT * FROM breaks WHERE resource = ? AND kind != 'webhook' AND state = 'open'",
        id,
      );
      return left.length === 0;
    });
  });

  test('a dispute that we do not know of stays a break while all else of its payment agrees', async () => {
    const { id, intent } = await old(PAYMENT);
    const states = () =>
      model.all("SELECT kind, state FROM breaks WHERE resource = ? AND kind != 'webhook'", id);
    await site.simulator.befallAtStripe(intent, 'disputes', { status: 'warning_needs_response' });
    await model.tick();
    const { shown } = await until('it is known', () =>
      model.first(
        "SELECT shown FROM payments WHERE payment_id = ? AND shown ->> '$.dispute.id' IS NOT NULL",
        id,
      ),
    );
    // As if its news were lost, and the events had left the list: what is left to look at is the break.
    await model.run("UPDATE payments SET shown = json_remove(shown, '$.dispute') WHERE payment_id = ?", id);
    await model.run(
      "UPDATE cursors SET through_ms = ?, until_ms = NULL, slices = NULL WHERE name = 'stripe_events'",
      Date.now() + 86_400_000,
    );
    // A look at the payment is due: it is compared, and both say the same.
    await model.run('INSERT INTO looks (provider_payment, since_ms) VALUES (?, 0)', intent);
    await model.tick();
    assert.equal(await model.first('SELECT 1 FROM looks WHERE provider_payment = ?', intent), undefined);
    assert.deepEqual(await states(), [{ kind: 'dispute', state: 'open' }]);
    await model.run('UPDATE payments SET shown = ? WHERE payment_id = ?', shown, id);
    await model.tick();
    assert.deepEqual(await states(), [{ kind: 'dispute', state: 'repaired' }], 'once both say the same');
    await model.run(
      "UPDATE cursors SET through_ms = ?, until_ms = NULL, slices = NULL WHERE name = 'stripe_events'",
      Date.now() - 1_000,
    );
  });

  describe('by what has moved the balance', () => {
    /** As if all of these lists had been read, whatever comes. */
    const read = (...names) =>
      model.run(
        `UPDATE cursors SET through_ms = ?, until_ms = NULL, slices = NULL WHERE name IN ('${names.join("', '")}')`,
        Date.now() + 86_400_000,
      );
    const readAgain = () =>
      model.run(
        "UPDATE cursors SET through_ms = ?, until_ms = NULL, slices = NULL WHERE name NOT LIKE '%_since'",
        Date.now() - 1_000,
      );
    const openBreaks = (id) =>
      model.all("SELECT kind, state FROM breaks WHERE provider_payment = ? AND state = 'open'", id);
    after(readAgain);

    test('a refund is found of which no other list tells, and control: not without it', async () => {
      const { id, intent } = await old(PAYMENT);
      await read('stripe_events', 'stripe_payments', 'stripe_movements');
      await atStripe(site, 'refunds', { payment_intent: intent, amount: '300' });
      await model.tick();
      assert.deepEqual(await breaks(intent), [], 'nobody has looked');
      await model.run(
        "UPDATE cursors SET through_ms = ? WHERE name = 'stripe_movements'",
        Date.now() - 60_000,
      );
      await model.tick();
      assert.deepEqual(await breaks(intent), [{ kind: 'amount' }]);
      assert.equal((await user.ask(`/payments/${id}`)).json().amount_refunded, 300);
      await readAgain();
    });

    test('a charge in another currency is compared as the customer paid it', async () => {
      const { id, intent } = await old({ ...PAYMENT, currency: 'eur' });
      const refund = (await user.post(`/payments/${id}/refunds`, { amount: 700 }, freshKey())).json();
      await until('the refund is known', () =>
        model.first("SELECT 1 FROM refunds WHERE refund_id = ? AND status = 'succeeded'", refund.id),
      );
      await read('stripe_events', 'stripe_payments');
      const { reconcile } = await model.tick();
      assert.ok(reconcile.movements >= 2, JSON.stringify(reconcile));
      assert.deepEqual(await breaks(intent), []);
      const marks = await model.first(
        `SELECT moved_payment, moved_refund, provider_refund FROM payments JOIN refunds USING (payment_id)
         WHERE payment_id = ?`,
        id,
      );
      assert.deepEqual([marks.moved_payment, marks.moved_refund], [intent, marks.provider_refund]);
      await readAgain();
    });

    test('money that we hold to be taken, and that has not moved for a day, is a break until it has', async () => {
      const { id, intent } = await old(PAYMENT);
      const heard = (at, moved) =>
        model.run(
          'UPDATE payments SET updated_at_ms = ?, moved_payment = ? WHERE payment_id = ?',
          at,
          moved,
          id,
        );
      await read('stripe_events', 'stripe_payments', 'stripe_movements');
      await model.run(
        "UPDATE cursors SET through_ms = ? WHERE name = 'stripe_movements_since'",
        Date.now() - 10 * 86_400_000,
      );
      await heard(Date.now() - 86_000_000, null);
      assert.equal((await model.tick()).reconcile.unmoved, 0, 'not yet');
      await heard(Date.now() - 87_000_000, null);
      // One that has left for history has moved before: that it is here again, since it has changed, is no break.
      const { object } = await model.first('SELECT object FROM payments WHERE payment_id = ?', id);
      await model.run('INSERT INTO history_payments VALUES (unhex(?), 1, 1, 2, 1)', object);
      assert.equal((await model.tick()).reconcile.unmoved, 0);
      await model.run('DELETE FROM history_payments WHERE object = unhex(?)', object);
      assert.equal((await model.tick()).reconcile.unmoved, 1);
      assert.deepEqual(await openBreaks(intent), [{ kind: 'unmoved', state: 'open' }]);
      assert.equal((await model.tick()).reconcile.unmoved, 0, 'once');
      await readAgain();
      await heard(Date.now() - 87_000_000, intent);
      await model.tick();
      assert.deepEqual(await openBreaks(intent), []);
    });

    test('what had only just changed is compared again, however far the lists are read', async () => {
      const { id, intent } = await old(PAYMENT);
      const heardAt = (at) => model.run('UPDATE payments SET updated_at_ms = ? WHERE payment_id = ?', at, id);
      await atStripe(site, 'refunds', { payment_intent: intent, amount: '100' });
      await heardAt(Date.now() + 3_600_000);
      await model.tick();
      assert.deepEqual(await breaks(intent), []);
      await read('stripe_events', 'stripe_payments', 'stripe_movements');
      await heardAt(Date.now() - 1_000);
      await model.tick();
      assert.deepEqual(await breaks(intent), [{ kind: 'amount' }]);
      assert.deepEqual(
        await model.all('SELECT * FROM looks WHERE provider_payment = ?', intent),
        [],
        'it is done with',
      );
      await readAgain();
    });
  });

  test('no break is left off, however many there are, and a pass that was broken off goes on', async () => {
    const made = 230;
    for (let n = 0; n < made; n += 23)
      await Promise.all(Array.from({ length: 23 }, () => atStripe(site, 'payment_intents', MADE_ELSEWHERE)));
    const before = await model.first("SELECT count(*) AS number FROM breaks WHERE kind = 'orphan'");
    // As the run before has left it: in the middle of the list, which it has cut in two.
    await model.run(
      "UPDATE cursors SET through_ms = ? WHERE name IN ('stripe_events', 'stripe_movements')",
      Date.now() + 86_400_000,
    );
    const page = await site.simulator.stripe('payment_intents?limit=100');
    const until_ms = Date.now() + 2_000;
    const last = page.data[99];
    const slices = [
      { from_s: last.created, until_s: last.created, after: last.id },
      { from_s: page.data[0].created - 3_600, until_s: last.created - 1 },
    ];
    await model.run(
      "UPDATE cursors SET until_ms = ?, slices = ? WHERE name = 'stripe_payments'",
      until_ms,
      JSON.stringify(slices),
    );
    const { reconcile } = await model.tick();
    assert.equal(reconcile.complete, true);
    const orphans = () => model.first("SELECT count(*) AS number FROM breaks WHERE kind = 'orphan'");
    assert.equal(
      (await orphans()).number - before.number,
      made - 100,
      'what was read before is not read again',
    );
    await model.tick();
    assert.equal((await orphans()).number - before.number, made);
    assert.ok(made > 200);
  });

  test('how far the lists are read is to be seen by programs and persons', async () => {
    await model.run("UPDATE cursors SET through_ms = ? WHERE name = 'stripe_events'", Date.now() - 7_200_000);
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const text = async (path) => (await site.fetch(path, { headers })).text();
    const metrics = await text('/metrics');
    const lag = /^paid_once_reconciliation_lag_seconds\{source="events"\} (\d+)$/m.exec(metrics)?.[1];
    assert.ok(lag >= 7_200 && lag < 7_260, metrics);
    assert.match(metrics, /lag_seconds\{source="balance_transactions"\} \d+/);
    const stats = JSON.parse(await text('/admin/stats'));
    assert.ok(stats.reconciliation_lag_seconds.events >= 7_200);
    assert.match(await text('/admin'), /Reconciled up to[\s\S]*2 h[\s\S]*balance transactions/);
  });
});

describe('control: what has only just changed', async () => {
  const site = await startSite({
    vars: { ...LOOKS_SOON, RECONCILE_QUIET_MS: '3600000' },
    secrets: { ADMIN_TOKEN },
  });
  const user = account(site);
  const model = readModel(site);
  after(() => site.close());

  test('is left to the next run, so that an object that was lost stays as it is', async () => {
    const { payment } = await abandoned(site, user, model);
    await forgottenBy(model, payment);
    const { reconcile } = await model.tick();
    assert.deepEqual([reconcile.compared, reconcile.breaks], [0, 0]);
    assert.equal((await site.objects.key(payment)).status, 'open');
  });
});
