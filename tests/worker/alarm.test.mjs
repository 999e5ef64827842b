// What the object does on its own: it finishes what was abandoned, and drops old responses, without any client.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, TRIP, account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { rideOf } from './support/objects.mjs';
import { until } from './support/until.mjs';

const COMPLETER_MS = 300;
const AT_ONCE = { prefer: 'wait=0' };

/** Waits until the alarm has brought a key to this state: nobody but the alarm does anything meanwhile. */
const reaches = (site, ride, status) =>
  until(`the key is ${status}`, async () => (await site.objects.key(ride)).status === status);

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

  async function assertCompleted(key, ride) {
    await reaches(site, ride, 'finished');
    assert.equal(await site.simulator.charges(ride), 1);
    assert.deepEqual(await receiptsOf(site, ride), [`${ride}_receipt`]);
    const late = await user.book(key);
    assert.equal(late.status, 201);
    assert.equal(late.header('idempotent-replayed'), 'true');
    assert.equal(late.json().ride.status, 'paid');
  }

  test('that failed in the middle is completed', async () => {
    const key = freshKey();
    const { ride } = await user.book(key, { ...TRIP, raise_error: 'true' });
    await assertCompleted(key, ride);
    const { finished_at_ms: finished, created_at_ms: created } = await site.objects.key(ride);
    assert.ok(finished - created >= COMPLETER_MS, 'a young key is left to its client');
    assert.equal((await site.objects.key(ride)).attempt, 2);
  });

  test('whose WebAssembly trapped is completed', async () => {
    const key = freshKey();
    assert.equal((await user.book(key, { ...TRIP, raise_error: 'crash' })).status, 500);
    const ride = (await user.key(key)).json().resource.slice('/rides/'.length);
    await assertCompleted(key, ride);
  });

  test('whose object was thrown out of memory is completed', async () => {
    const key = freshKey();
    const { ride } = await user.book(key, { ...TRIP, raise_error: 'true' });
    await site.objects.evict(ride);
    await assertCompleted(key, ride);
  });

  test('whose outcome is unknown is settled', async () => {
    const key = freshKey();
    await site.simulator.fault('connection_reset_after');
    const unknown = await user.book(key, TRIP, AT_ONCE);
    assert.equal(unknown.status, 503);
    await assertCompleted(key, unknown.ride);
  });

  test('is tried again and again while the provider is down', async () => {
    const key = freshKey();
    await site.simulator.fault('connection_reset', { count: 3 });
    const { ride } = await user.book(key, TRIP, AT_ONCE);
    await assertCompleted(key, ride);
    assert.equal((await site.simulator.payments(ride)).length, 4);
    assert.equal((await site.objects.key(ride)).attempt, 4);
  });

  test('of a declined card ends as declined', async () => {
    const key = freshKey();
    const declined = account(site, DECLINED_USER);
    const { ride } = await declined.book(key, { ...TRIP, raise_error: 'true' });
    await reaches(site, ride, 'finished');
    assert.equal((await declined.book(key)).status, 402);
    assert.deepEqual(await receiptsOf(site, ride), []);
  });

  test('of a form is completed, and its page turns into the receipt', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const { ride } = await visitor.submit({ ...sent, raise_error: 'true' });
    assert.match((await visitor.visit(`/rides/${ride}`)).text, /http-equiv="refresh"/);
    await reaches(site, ride, 'finished');
    assert.match((await visitor.visit(`/rides/${ride}`)).text, /Your ride is booked/);
    assert.equal(await site.simulator.charges(ride), 1);
  });

  test('is not what a slow one is: a run that is alive is left alone', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: COMPLETER_MS * 3 });
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    assert.equal((await site.objects.key(answer.ride)).attempt, 1);
    assert.equal((await site.simulator.payments(answer.ride)).length, 1);
  });

  test('has an alarm from its first row on, whatever happens next', async () => {
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const visitor = browser(site);
    const answer = visitor.submit(await visitor.openForm());
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    await user.book(freshKey(), { ...TRIP, raise_error: 'crash' }); // takes the run down
    await answer;
    await site.simulator.calm();
    const open = async () => {
      const ids = await site.objects.ids();
      const keys = await Promise.all(ids.map((id) => site.objects.key(rideOf(id))));
      return keys.filter((key) => key?.status === 'open');
    };
    await until('no key is open', async () => (await open()).length === 0);
  });
});

describe('a finished request', async () => {
  const RETENTION_MS = 400;
  const site = await startSite({ vars: { RETENTION_MS: `${RETENTION_MS}`, COMPLETER_MS: '60000' } });
  const user = account(site);
  after(() => site.close());

  /** A late retry: refused with a way to what was made, and nothing is charged. */
  async function assertRefused(key, ride, charges) {
    const late = await user.book(key);
    assert.equal(late.status, 409, late.text);
    assert.equal(late.json().type, '/problems/idempotency-key-expired');
    assert.equal(late.json().resource, `/rides/${ride}`);
    assert.equal(late.header('location'), `/rides/${ride}`);
    assert.equal(late.header('retry-after'), null, 'it is of no use to come again');
    assert.equal((await site.simulator.payments(ride)).length, charges);
    assert.equal(await site.simulator.charges(ride), charges);
  }

  test('expires into a tombstone: a late retry is shown the ride and charges nothing', async () => {
    const key = freshKey();
    const { ride } = await user.book(key);
    await reaches(site, ride, 'expired');
    await assertRefused(key, ride, 1);

    const row = await site.objects.key(ride);
    assert.deepEqual(
      [row.response_body, row.response_headers, row.parameters, row.operation],
      [null, null, null, null],
      'the response and the parameters are gone',
    );
    assert.ok(row.expires_at_ms - row.finished_at_ms >= RETENTION_MS);
  });

  test('stays refused when the object was thrown out of memory', async () => {
    const key = freshKey();
    const { ride } = await user.book(key);
    await reaches(site, ride, 'expired');
    await site.objects.evict(ride);
    await assertRefused(key, ride, 1);
  });

  test('keeps its ride, and its key says that it has expired', async () => {
    const key = freshKey();
    const { ride } = await user.book(key);
    await reaches(site, ride, 'expired');
    const shown = (await user.key(key)).json();
    assert.equal(shown.status, 'expired');
    assert.equal(shown.response_code, 201);
    assert.equal(shown.resource, `/rides/${ride}`);
    assert.equal(shown.timeline.at(-1).event, 'expired');
    assert.equal((await user.ride(ride)).json().status, 'paid');
  });

  test('still refuses another request under its key', async () => {
    const key = freshKey();
    const { ride } = await user.book(key);
    await reaches(site, ride, 'expired');
    const other = await user.book(key, { ...TRIP, origin_lat: 1 });
    assert.equal(other.status, 422);
    assert.equal(other.json().type, '/problems/idempotency-key-reused');
    assert.equal(await site.simulator.charges(ride), 1);
  });

  test('leads a form that comes late to its receipt', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const { ride } = await visitor.submit(sent);
    await reaches(site, ride, 'expired');
    const late = await visitor.submit(sent);
    assert.equal(late.status, 303);
    const page = await visitor.visit(late.header('location'));
    assert.match(page.text, /Your ride is booked/);
    assert.equal(await site.simulator.charges(ride), 1);
  });

  test('of a declined card stays declined: its key never pays later', async () => {
    const declined = account(site, DECLINED_USER);
    const key = freshKey();
    const { ride } = await declined.book(key);
    await reaches(site, ride, 'expired');
    const late = await declined.book(key);
    assert.equal(late.status, 409);
    assert.equal(late.header('location'), `/rides/${ride}`);
    assert.equal((await declined.ride(ride)).json().status, 'unpaid');
    assert.equal(await site.simulator.charges(ride), 0);
  });
});

describe('an alarm that is late', async () => {
  const site = await startSite();
  const user = account(site);
  after(() => site.close());

  test('does not make an old response valid again', async () => {
    const key = freshKey();
    const { ride } = await user.book(key);
    await site.objects.sql(ride, 'UPDATE idempotency_keys SET expires_at_ms = ?', Date.now() - 1);
    assert.equal((await site.objects.key(ride)).status, 'finished', 'the alarm has not come');
    const late = await user.book(key);
    assert.equal(late.status, 409);
    assert.equal(late.json().type, '/problems/idempotency-key-expired');
    assert.equal(await site.simulator.charges(ride), 1);
  });

  test('lets an unfinished key stand, however old it is', async () => {
    const key = freshKey();
    const { ride } = await user.book(key, { ...TRIP, raise_error: 'true' });
    const age = 48 * 3_600_000;
    await site.objects.sql(
      ride,
      `UPDATE idempotency_keys SET created_at_ms = created_at_ms - ${age}, last_run_at_ms = last_run_at_ms - ${age}`,
    );
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    assert.equal(answer.ride, ride);
    assert.equal(await site.simulator.charges(ride), 1);
  });
});
