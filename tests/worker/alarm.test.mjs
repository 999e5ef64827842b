// What the object does on its own: it finishes what was abandoned, and drops old responses, without any client.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { AT_ONCE, PAYMENT } from './support/payments.mjs';
import { until } from './support/until.mjs';

const COMPLETER_MS = 300;

/** Waits until the alarm has brought a key to this state: nobody but the alarm does anything meanwhile. */
const reaches = (site, payment, status) =>
  until(`the key is ${status}`, async () => (await site.objects.key(payment)).status === status);

describe('an abandoned request', async () => {
  const site = await startSite({
    vars: {
      COMPLETER_MS: `${COMPLETER_MS}`,
      PROVIDER_TIMEOUT_MS: '3000',
      QUIET_MS: '4000',
      LEASE_MS: '8000',
    },
  });
  const user = account(site);
  after(() => site.close());
  afterEach(() => site.simulator.calm());

  async function assertCompleted(key, payment) {
    await reaches(site, payment, 'finished');
    assert.equal(await site.simulator.charges(payment), 1);
    assert.deepEqual(await receiptsOf(site, payment), [`${payment}_receipt`]);
    const late = await user.pay(PAYMENT, key);
    assert.equal(late.status, 201);
    assert.equal(late.header('idempotent-replayed'), 'true');
    assert.equal(late.json().status, 'succeeded');
  }

  test('that failed in the middle is completed', async () => {
    const key = freshKey();
    const { payment } = await user.pay({ ...PAYMENT, raise_error: 'true' }, key);
    await assertCompleted(key, payment);
    const { finished_at_ms: finished, created_at_ms: created } = await site.objects.key(payment);
    assert.ok(finished - created >= COMPLETER_MS, 'a young key is left to its client');
    assert.equal((await site.objects.key(payment)).attempt, 2);
  });

  test('whose object was thrown out of memory is completed', async () => {
    const key = freshKey();
    const { payment } = await user.pay({ ...PAYMENT, raise_error: 'true' }, key);
    await site.objects.evict(payment);
    await assertCompleted(key, payment);
  });

  test('is tried again and again while the provider is down', async () => {
    const key = freshKey();
    await site.simulator.fault('connection_reset', { count: 3 });
    const { payment } = await user.pay(PAYMENT, key, AT_ONCE);
    await assertCompleted(key, payment);
    assert.equal((await site.simulator.payments(payment)).length, 4);
    assert.equal((await site.objects.key(payment)).attempt, 4);
  });

  test('of a declined card ends as declined', async () => {
    const key = freshKey();
    const declined = account(site, DECLINED_USER);
    const { payment } = await declined.pay({ ...PAYMENT, raise_error: 'true' }, key);
    await reaches(site, payment, 'finished');
    assert.equal((await declined.pay(PAYMENT, key)).status, 402);
    assert.deepEqual(await receiptsOf(site, payment), []);
  });

  test('of a form is completed, and its page turns into the receipt', async () => {
    const visitor = browser(site);
    const { path, form } = await visitor.openOrder();
    await site.simulator.fault('connection_reset_after');
    const sent = await visitor.send(path, form, AT_ONCE);
    assert.match((await visitor.follow(sent)).text, /http-equiv="refresh"/);
    const { charges } = await site.simulator.ledger();
    const { resource: payment } = charges.at(-1).metadata;
    await reaches(site, payment, 'finished');
    assert.match((await visitor.visit(path)).text, /Thank you for your order/);
    assert.equal(await site.simulator.charges(payment), 1);
  });

  test('is not what a slow one is: a run that is alive is left alone', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: COMPLETER_MS * 3 });
    const answer = await user.pay(PAYMENT, key);
    assert.equal(answer.status, 201);
    assert.equal((await site.objects.key(answer.payment)).attempt, 1);
    assert.equal((await site.simulator.payments(answer.payment)).length, 1);
  });
});

describe('a finished request', async () => {
  const RETENTION_MS = 400;
  const site = await startSite({ vars: { RETENTION_MS: `${RETENTION_MS}`, COMPLETER_MS: '60000' } });
  const user = account(site);
  after(() => site.close());

  /** A late retry: refused with a way to what was made, and nothing is charged. */
  async function assertRefused(key, payment, charges) {
    const late = await user.pay(PAYMENT, key);
    assert.equal(late.status, 409, late.text);
    assert.equal(late.json().type, '/problems/idempotency-key-expired');
    assert.equal(late.json().resource, `/payments/${payment}`);
    assert.equal(late.header('location'), `/payments/${payment}`);
    assert.equal(late.header('retry-after'), null, 'it is of no use to come again');
    assert.equal((await site.simulator.payments(payment)).length, charges);
    assert.equal(await site.simulator.charges(payment), charges);
  }

  test('expires into a tombstone: a late retry is shown the payment and charges nothing', async () => {
    const key = freshKey();
    const { payment } = await user.pay(PAYMENT, key);
    await reaches(site, payment, 'expired');
    await assertRefused(key, payment, 1);

    const row = await site.objects.key(payment);
    assert.deepEqual(
      [row.response_body, row.response_headers, row.parameters, row.operation],
      [null, null, null, null],
      'the response and the parameters are gone',
    );
    assert.ok(row.expires_at_ms - row.finished_at_ms >= RETENTION_MS);
  });

  test('stays refused when the object was thrown out of memory', async () => {
    const key = freshKey();
    const { payment } = await user.pay(PAYMENT, key);
    await reaches(site, payment, 'expired');
    await site.objects.evict(payment);
    await assertRefused(key, payment, 1);
  });

  test('keeps its payment, and its key says that it has expired', async () => {
    const key = freshKey();
    const { payment } = await user.pay(PAYMENT, key);
    await reaches(site, payment, 'expired');
    const shown = (await user.key(key)).json();
    assert.equal(shown.status, 'expired');
    assert.equal(shown.response_code, 201);
    assert.equal(shown.resource, `/payments/${payment}`);
    assert.equal(shown.timeline.at(-1).event, 'expired');
    assert.equal((await user.payment(payment)).json().status, 'succeeded');
  });

  test('still refuses another request under its key', async () => {
    const key = freshKey();
    const { payment } = await user.pay(PAYMENT, key);
    await reaches(site, payment, 'expired');
    const other = await user.pay({ ...PAYMENT, amount: 2501 }, key);
    assert.equal(other.status, 422);
    assert.equal(other.json().type, '/problems/idempotency-key-reused');
    assert.equal(await site.simulator.charges(payment), 1);
  });

  test('leads a form that comes late to its receipt', async () => {
    const visitor = browser(site);
    const { path, form } = await visitor.openOrder();
    const { payment } = await visitor.follow(await visitor.send(path, form));
    await reaches(site, payment, 'expired');
    const late = await visitor.send(path, form);
    assert.equal(late.status, 303);
    const page = await visitor.follow(late);
    assert.match(page.text, /Thank you for your order/);
    assert.equal(await site.simulator.charges(payment), 1);
  });

  test('of a declined card stays declined: its key never pays later', async () => {
    const declined = account(site, DECLINED_USER);
    const key = freshKey();
    const { payment } = await declined.pay(PAYMENT, key);
    await reaches(site, payment, 'expired');
    const late = await declined.pay(PAYMENT, key);
    assert.equal(late.status, 409);
    assert.equal(late.header('location'), `/payments/${payment}`);
    assert.equal((await declined.payment(payment)).json().status, 'declined');
    assert.equal(await site.simulator.charges(payment), 0);
  });
});

describe('an alarm that is late', async () => {
  const site = await startSite();
  const user = account(site);
  after(() => site.close());

  test('does not make an old response valid again', async () => {
    const key = freshKey();
    const { payment } = await user.pay(PAYMENT, key);
    await site.objects.sql(payment, 'UPDATE idempotency_keys SET expires_at_ms = ?', Date.now() - 1);
    assert.equal((await site.objects.key(payment)).status, 'finished', 'the alarm has not come');
    const late = await user.pay(PAYMENT, key);
    assert.equal(late.status, 409);
    assert.equal(late.json().type, '/problems/idempotency-key-expired');
    assert.equal(await site.simulator.charges(payment), 1);
  });

  test('lets an unfinished key stand, however old it is', async () => {
    const key = freshKey();
    const { payment } = await user.pay({ ...PAYMENT, raise_error: 'true' }, key);
    const age = 48 * 3_600_000;
    await site.objects.sql(
      payment,
      `UPDATE idempotency_keys SET created_at_ms = created_at_ms - ${age}, last_run_at_ms = last_run_at_ms - ${age}`,
    );
    const answer = await user.pay(PAYMENT, key);
    assert.equal(answer.status, 201);
    assert.equal(answer.payment, payment);
    assert.equal(await site.simulator.charges(payment), 1);
  });
});
