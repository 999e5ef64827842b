// What Stripe tells of accounts with keys of their own, at an address each; and the books of each, which reconciliation reads with its own key.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import Stripe from 'stripe';

import { read } from './support/account.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { startLimited } from './support/limits.mjs';
import { ADMIN_TOKEN, registry, restrictedKey, secretKey, webhookSecret } from './support/own-keys.mjs';
import { assertProblem, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { STRIPE_SECRET } from './support/webhooks.mjs';
import { until } from './support/until.mjs';

const options = {
  vars: { ACCOUNTS_CACHE_MS: '0', RECONCILE_QUIET_MS: '0' },
  secrets: { ADMIN_TOKEN, STRIPE_SECRET_KEY: secretKey('Deployment') },
};
const site = await startSite({ workers: demoWorkers(options) });
after(() => site.close());
const model = readModel(site);
afterEach(() => model.run('DELETE FROM breaks'));
const { shop } = registry(site);
const stripe = new Stripe('sk_test_any');

/** A shop with a webhook's secret. */
async function listening(open = shop) {
  const [own, secret] = [await open(), webhookSecret()];
  assert.equal((await own.set('stripe_webhook_secret', secret)).status, 200);
  return { ...own, signs: secret };
}
const eventOf = (payment, more = {}) => ({
  id: `evt_${randomUUID()}`,
  object: 'event',
  type: 'charge.refunded',
  livemode: false,
  data: {
    object: {
      id: 'ch_1',
      object: 'charge',
      payment_intent: payment.intent,
      metadata: { resource: payment.id },
    },
  },
  ...more,
});
async function tell(path, event, secret, { at = site, address = '192.0.2.1' } = {}) {
  const payload = JSON.stringify(event);
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret });
  return read(
    await at.fetch(path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'stripe-signature': header,
        'cf-connecting-ip': address,
      },
      body: payload,
    }),
  );
}
const addressOf = ({ id }) => `/webhooks/stripe/${id}`;
const paidAt = async ({ client }) => {
  const { id } = await paid(client);
  const { provider_payment: intent } = await model.reaches(id, 'succeeded');
  return { id, intent };
};
/** Given back at the dashboard of an account. */
async function refundedAt(intent, key) {
  const answer = await site.simulator.stripe('refunds', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: `payment_intent=${intent}&amount=300`,
  });
  assert.ok(answer);
}
/** How many events a payment's object has taken in. */
const taken = async (payment) =>
  (await site.objects.dump(payment)).timeline.filter(({ event }) => event === 'webhook').length;

describe('an event of an account with keys of its own', () => {
  test('is believed at its own address, with its own secret, and what it tells is asked there', async () => {
    const own = await listening();
    const payment = await paidAt(own);
    await refundedAt(payment.intent, own.secret);
    const answer = await tell(addressOf(own), eventOf(payment), own.signs);
    assert.deepEqual([answer.status, answer.json()], [200, { received: true }], answer.text);
    await until(
      'it is known',
      async () => (await own.client.payment(payment.id)).json().amount_refunded === 300,
    );
  });

  test('attack: a shop’s own secret tells nothing of another’s payment', async () => {
    const [own, thief] = [await listening(), await listening()];
    const payment = await paidAt(own);
    const before = await taken(payment.id);
    for (const more of [{}, { account: `keys:${own.id}` }, { account: own.stripe }]) {
      const answer = await tell(addressOf(thief), eventOf(payment, more), thief.signs);
      assert.equal(answer.status, 200, 'signed by the shop: acknowledged, and nothing of it is taken');
      const byIntent = {
        ...eventOf(payment, more),
        data: { object: { id: payment.intent, object: 'payment_intent', metadata: {} } },
      };
      assert.equal((await tell(addressOf(thief), byIntent, thief.signs)).status, 200);
    }
    // Not by the address of the other, nor at the deployment's.
    assertProblem(await tell(addressOf(own), eventOf(payment), thief.signs), 400, 'webhook-signature');
    assertProblem(await tell('/webhooks/stripe', eventOf(payment), thief.signs), 400, 'webhook-signature');
    assert.equal((await tell('/webhooks/stripe', eventOf(payment), STRIPE_SECRET)).status, 200);
    assert.equal(await taken(payment.id), before);
    assert.equal((await tell(addressOf(own), eventOf(payment), own.signs)).status, 200);
    assert.equal(await taken(payment.id), before + 1, 'control: its own is taken in');
    // Nor of a payment that was made with the deployment's key.
    const others = await paidAt(await shop({ own: false, key: null }));
    assert.equal((await tell(addressOf(thief), eventOf(others), thief.signs)).status, 200);
    assert.equal(await taken(others.id), 0);
    assert.equal((await tell('/webhooks/stripe', eventOf(others), STRIPE_SECRET)).status, 200);
    assert.equal(await taken(others.id), 1, 'control');
  });

  test('is refused alike where the account is unknown, has no secret, or has not signed', async () => {
    const own = await listening();
    const event = eventOf(await paidAt(own));
    const answers = [
      await tell(addressOf(own), event, webhookSecret()),
      await tell(addressOf(await shop()), event, own.signs),
      await tell('/webhooks/stripe/nobody', event, own.signs),
      await tell('/webhooks/stripe/%20', event, own.signs),
    ];
    for (const answer of answers) {
      assertProblem(answer, 400, 'webhook-signature');
      assert.equal(answer.json().detail, answers[0].json().detail);
    }
  });

  test('is believed with two secrets, until the one before is removed', async () => {
    const own = await listening();
    const payment = await paidAt(own);
    const next = webhookSecret();
    assert.equal((await own.set('stripe_webhook_secret', next)).status, 200);
    assert.equal(
      (await own.set('stripe_webhook_secret', next)).status,
      200,
      'sent again it pushes nothing out',
    );
    for (const secret of [own.signs, next])
      assert.equal((await tell(addressOf(own), eventOf(payment), secret)).status, 200);
    assert.equal((await own.remove('stripe_webhook_secret_before')).status, 204);
    assertProblem(await tell(addressOf(own), eventOf(payment), own.signs), 400, 'webhook-signature');
    assert.equal((await tell(addressOf(own), eventOf(payment), next)).status, 200);
  });

  test('comes again while the secret key is removed, and is taken in once there is one', async () => {
    const own = await listening();
    const payment = await paidAt(own);
    assert.equal((await own.remove('stripe_secret_key')).status, 204);
    const event = eventOf(payment);
    assertProblem(await tell(addressOf(own), event, own.signs), 503, 'cannot-be-shown');
    assertProblem(await tell(addressOf(own), event, webhookSecret()), 400, 'webhook-signature');
    assert.equal(await taken(payment.id), 0);
    assert.equal((await own.set('stripe_secret_key', own.secret)).status, 200);
    assert.equal((await tell(addressOf(own), event, own.signs)).status, 200);
    assert.equal(await taken(payment.id), 1);
  });

  test('of the other mode is acknowledged, and nothing of it is taken in', async () => {
    const own = await listening();
    const payment = await paidAt(own);
    assert.equal((await tell(addressOf(own), eventOf(payment, { livemode: true }), own.signs)).status, 200);
    assert.equal(await taken(payment.id), 0);
  });
});

test('whoever makes accounts up does not get to their keys, and many shops from one address do', async () => {
  const at = await startLimited({ TOKEN_LIMITER: 3 }, options);
  try {
    const nothing = eventOf({ id: 'pay_1', intent: 'pi_1' });
    const told = async (own, address) =>
      (await tell(addressOf(own), nothing, own.signs, { at, address })).status;
    const shops = [];
    for (let number = 0; number < 6; number += 1) shops.push(await listening(registry(at).shop));
    const last = shops.pop();
    for (const own of shops) assert.equal(await told(own), 200);
    const made = () => told({ id: `shop-${randomUUID()}`, signs: webhookSecret() });
    assert.equal(await made(), 400);
    for (let number = 0; number < 8; number += 1) await made();
    const unread = await tell(addressOf(last), nothing, last.signs, { at });
    assertProblem(unread, 503, 'temporarily-unavailable');
    assert.equal(unread.header('retry-after'), '10', 'it comes again');
    assert.equal(await made(), 503, 'as one that is not there');
    assert.equal(await told({ ...shops[0], signs: webhookSecret() }), 503, 'and as one that is known');
    assert.equal(await told(shops[0]), 200, 'who is known needs no look');
    assert.equal(await told(last, '203.0.113.9'), 200);
  } finally {
    await at.close();
  }
});

describe('two who change an account’s keys at once', () => {
  const asked = async () =>
    (await site.simulator.requests()).filter(({ path }) => path === '/v1/account').length;

  /** What the first is answered, if this was done while Stripe was asked whose key it is. */
  async function meanwhile(own, work) {
    const before = await asked();
    await site.simulator.fault('slow', { method: 'GET', path: '/v1/account', delay_ms: 60_000 });
    const first = own.set('stripe_secret_key', own.rolled);
    await until('Stripe is asked', async () => (await asked()) > before);
    await work();
    await site.simulator.calm();
    return first;
  }
  const hints = async (own) => (await own.shown()).credentials.map(({ kind, hint }) => [kind, hint]);

  test('do not undo each other’s: the last one looks at what was done', async () => {
    const own = await listening();
    const next = webhookSecret();
    for (const work of [
      () => own.set('stripe_webhook_secret', next),
      () => own.remove('stripe_webhook_secret'),
      () => own.remove('stripe_secret_key'),
    ]) {
      let done;
      const answer = await meanwhile(own, async () => {
        assert.ok([200, 204].includes((await work()).status));
        done = await hints(own);
      });
      assertProblem(answer, 422, 'invalid-parameters');
      assert.match(
        answer.text,
        /changed by another at the same time\. Nothing was changed: look at the list/,
      );
      assert.deepEqual(await hints(own), done);
    }
    assert.equal((await own.set('stripe_secret_key', own.rolled)).status, 200, 'control: nobody else');
  });

  test('to the same are both answered that it is done', async () => {
    const own = await shop();
    const answer = await meanwhile(own, async () => {
      assert.equal((await own.set('stripe_secret_key', own.rolled)).status, 200);
    });
    assert.equal(answer.status, 200, answer.text);
  });
});

describe('the reconciliation', () => {
  const breaks = () => model.all('SELECT break_id, stripe_account FROM breaks ORDER BY break_id');
  const booked = (id) =>
    model.first('SELECT listed_payment, moved_payment FROM payments WHERE payment_id = ?', id);
  /** The shops of tests before leave with their books: each run would compare these as well. */
  const left = async () => {
    await model.run('DELETE FROM payments WHERE stripe_account IS NOT NULL');
    for (const table of ['account_credentials', 'own_key_periods', 'accounts'])
      await model.run(`DELETE FROM ${table}`);
  };
  before(left);
  afterEach(left);

  test('reads the books of each shop with its own key', async () => {
    const shops = [await shop(), await shop(), await shop({ own: false, key: null })];
    const payments = [];
    for (const one of shops) payments.push(await paidAt(one));
    for (let run = 0; run < 3; run += 1) {
      const { reconcile } = await model.tick();
      assert.equal(reconcile.error, undefined);
      assert.deepEqual(await breaks(), []);
    }
    await refundedAt(payments[0].intent, shops[0].secret);
    const found = await until('it is found', async () => {
      await model.tick();
      return (await breaks()).find(({ break_id: id }) => id === `amount:stripe:${payments[0].intent}`);
    });
    assert.equal(found.stripe_account, `keys:${shops[0].id}`);
    for (const { id, intent } of payments)
      await until('it is in the books', async () => {
        if ((await booked(id)).listed_payment === intent) return true;
        await model.tick();
        return false;
      });
  });

  test('takes a shop with live keys of a connected account for none with test keys', async () => {
    const own = await shop();
    const [first, connected] = [await paidAt(own), await paidAt(own)];
    await model.run(
      `INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, mode, stripe_account, changed_at_ms)
       VALUES ('a-live-shop', 'stripe_secret_key', 'AAAA', '0', '', 'live', ?, 0)`,
      own.stripe,
    );
    // As one that was made before the shop had keys of its own.
    await model.run('UPDATE payments SET stripe_account = ? WHERE payment_id = ?', own.stripe, connected.id);
    await until('the books of the connected account were read', async () => {
      await model.tick();
      return (await booked(connected.id)).listed_payment === connected.intent;
    });
    const found = await breaks();
    assert.ok(!found.some(({ break_id: id }) => id.includes(first.intent)), JSON.stringify(found));
    await model.run("DELETE FROM account_credentials WHERE account = 'a-live-shop'");
    await model.run(
      'UPDATE payments SET stripe_account = ? WHERE payment_id = ?',
      `keys:${own.id}`,
      connected.id,
    );
  });

  const ended = (own, of = own.stripe) =>
    model.first(
      'SELECT state, ours, theirs FROM breaks WHERE break_id = ?',
      `ended:stripe:keys:${own.id} of ${of} (test)`,
    );
  const breaksOf = async (intent) =>
    (await breaks()).map(({ break_id: id }) => id).filter((id) => id.includes(intent));
  /** Runs until this is so. */
  const ticked = (what, so) =>
    until(what, async () => {
      await model.tick();
      return so();
    });
  const listed = ({ id, intent }) =>
    ticked('it is in the books', async () => (await booked(id)).listed_payment === intent);
  /** Its books are asked for it again. */
  const forgotten = ({ id }) =>
    model.run('UPDATE payments SET listed_payment = NULL WHERE payment_id = ?', id);

  test('compares a payment with the account of its time, and tells of books that have ended', async () => {
    const own = await shop();
    const first = await paidAt(own);
    await listed(first);
    assert.equal((await own.remove('stripe_secret_key')).status, 204);
    assert.ok((await untilCompared()).without_keys >= 1);
    const { ours, theirs } = await ticked('it is told', () => ended(own));
    assert.match(ours, new RegExp(`^1 payment in ${own.stripe} \\(test\\), made from 20\\S+ to 20\\S+$`));
    assert.match(theirs, new RegExp(`no account has a key of ${own.stripe}\\. Enter a restricted key`));
    const page = await site.fetch('/admin/breaks', { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
    assert.ok((await page.text()).includes(`1 payment in ${own.stripe}`));

    const moved = `Moved${own.stripe.slice('acct_'.length)}`;
    assert.equal((await own.set('stripe_secret_key', secretKey(moved))).status, 200);
    const second = await paidAt(own);
    await listed(second);
    await forgotten(first);
    for (let run = 0; run < 2; run += 1) assert.equal((await model.tick()).reconcile.error, undefined);
    for (const { intent } of [first, second]) assert.deepEqual(await breaksOf(intent), []);
    assert.equal((await booked(first.id)).listed_payment, null, 'nobody has read its books');
    assert.equal((await ended(own)).state, 'open');
    assert.equal(await ended(own, `acct_${moved}`), undefined);

    // The way back: the books of the second account have ended now, and those of the first were compared.
    assert.equal((await own.remove('stripe_secret_key')).status, 204);
    assert.equal((await own.set('stripe_secret_key', own.secret)).status, 200);
    await listed(first);
    await ticked('it is over', async () => (await ended(own)).state === 'resolved');
    assert.match(
      (await ticked('it is told', () => ended(own, `acct_${moved}`))).ours,
      /^1 payment in acct_Moved/,
    );
    for (const { intent } of [first, second]) assert.deepEqual(await breaksOf(intent), []);
    // Control: where nobody knows when which key was there, it would be missing in the books of the first account.
    await model.run('DELETE FROM own_key_periods WHERE name = ?', `keys:${own.id}`);
    await ticked('it is missing', async () => {
      await forgotten(second);
      return (await breaksOf(second.intent)).includes(`missing:stripe:${second.intent}`);
    });
  });

  test('reads books that an account has left with the key of another one, where its payments are no orphans', async () => {
    const own = await shop();
    const payment = await paidAt(own);
    assert.equal((await own.remove('stripe_secret_key')).status, 204);
    await ticked('it is told', () => ended(own));
    assert.equal((await booked(payment.id)).listed_payment, null, 'it was not compared before');
    // It is charged with the deployment's key: its own one only reads.
    const reader = await shop({ own: false, key: null });
    const name = own.stripe.slice('acct_'.length);
    assert.equal((await reader.set('stripe_secret_key', restrictedKey(name))).status, 200);
    await listed(payment);
    await ticked('it is over', async () => (await ended(own)).state === 'resolved');
    assert.deepEqual(await breaksOf(payment.intent), []);
    // Control: where nobody knows whose it was, it is one that nobody has made.
    await model.run("UPDATE own_key_periods SET name = 'keys:nobody' WHERE name = ?", `keys:${own.id}`);
    await ticked('it is an orphan', async () =>
      (await breaksOf(payment.intent)).includes(`orphan:stripe:${payment.intent}`),
    );
  });

  test('takes nothing that was read with another key than the one whose books it compares', async () => {
    const own = await shop();
    const payment = await paidAt(own);
    await listed(payment);
    const asked = async () =>
      (await site.simulator.requests()).filter(({ path }) => path === '/v1/events').length;
    const before = await asked();
    await site.simulator.fault('slow', { method: 'GET', path: '/v1/events', count: 1000, delay_ms: 60_000 });
    const run = model.tick();
    await until('a list is read', async () => (await asked()) > before);
    assert.equal((await own.remove('stripe_secret_key')).status, 204);
    const set = await own.set('stripe_secret_key', secretKey(`Other${own.stripe.slice('acct_'.length)}`));
    assert.equal(set.status, 200, set.text);
    await forgotten(payment);
    await site.simulator.calm();
    await run;
    assert.deepEqual(await breaksOf(payment.intent), [], 'its books were not read any more');
  });

  /** A run in which the account without a key had its turn. */
  const untilCompared = () =>
    until('it had its turn', async () => {
      const { reconcile } = await model.tick();
      return reconcile.without_keys ? reconcile : undefined;
    });
});
