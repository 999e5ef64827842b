// GET /rides/{id}: the ride as a page or as JSON, for its owner only.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, TRIP, account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { shareSite } from './support/harness.mjs';
import { ridesOf } from './support/rides.mjs';
import { objectId, rideOf } from './support/objects.mjs';
import { until } from './support/until.mjs';

const site = ridesOf(await shareSite({ vars: { COMPLETER_MS: '60000' } }));
const user = account(site);
const other = account(site, DECLINED_USER);
after(() => site.close());
afterEach(() => site.simulator.calm());

const HTML = { accept: 'text/html,*/*;q=0.8' };
const withoutInstance = (answer) => {
  const { instance: _, ...rest } = answer.json();
  return rest;
};

describe('a ride as JSON', () => {
  test('is what its booking answered', async () => {
    const booked = await user.book(freshKey());
    const answer = await user.ride(booked.ride);
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'application/json');
    assert.equal(answer.header('cache-control'), 'private, no-store');
    assert.deepEqual(answer.json(), booked.json().ride);
  });

  test('that was declined is unpaid', async () => {
    const { ride } = await other.book(freshKey());
    assert.equal((await other.ride(ride)).json().status, 'unpaid');
  });

  test('that is under way is pending', async () => {
    const known = new Set(await site.rides.ids());
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const booked = user.book(freshKey());
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    const [id] = (await site.rides.ids()).filter((one) => !known.has(one));
    const shown = (await user.ride(rideOf(id))).json();
    assert.deepEqual([shown.status, shown.charge], ['pending', null]);
    await site.simulator.calm();
    assert.equal((await booked).ride, rideOf(id));
  });

  test('answers HEAD as GET, without a body', async () => {
    const { ride } = await user.book(freshKey());
    const answer = await user.ask(`/rides/${ride}`, { method: 'HEAD' });
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'application/json');
    assert.equal(answer.bytes.length, 0);
  });
});

describe('a ride as a page', () => {
  test('that is paid is a receipt', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const { ride } = await visitor.submit({ ...sent, ...TRIP });
    const page = await visitor.visit(`/rides/${ride}`);
    assert.equal(page.status, 200);
    assert.match(page.header('content-type'), /^text\/html/);
    assert.equal(page.header('cache-control'), 'private, no-store');
    const charges = await site.rides.charges(ride);
    for (const part of [ride, charges[0].payment_intent, '$20.00', '37.7749, -122.4194'])
      assert.ok(page.text.includes(part), part);
    assert.doesNotMatch(page.text, /http-equiv="refresh"|<form/);
  });

  test('by Accept: the same address gives JSON to whoever prefers it', async () => {
    const visitor = browser(site);
    const { ride } = await visitor.submit(await visitor.openForm());
    const as = async (accept) =>
      (await visitor.visit(`/rides/${ride}`, { headers: { accept } })).header('content-type');
    assert.match(await as('text/html'), /^text\/html/);
    assert.match(await as('text/html;q=0.9, application/json;q=0.5'), /^text\/html/);
    assert.equal(await as('application/json'), 'application/json');
    assert.equal(await as('application/json, text/html;q=0.5'), 'application/json');
    assert.equal(await as('*/*'), 'application/json');
    const { ride: mine } = await user.book(freshKey());
    assert.match((await user.ride(mine, HTML)).text, /Your ride is booked/);
  });

  test('that is not settled looks again by itself, and says that nothing is charged twice', async () => {
    const visitor = browser(site);
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const before = new Set(await site.rides.ids());
    const answer = visitor.submit(await visitor.openForm());
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    const [id] = (await site.rides.ids()).filter((one) => !before.has(one));
    const page = await visitor.visit(`/rides/${rideOf(id)}`);
    assert.equal(page.status, 200);
    assert.match(page.text, /<meta http-equiv="refresh" content="\d+">/);
    assert.match(page.text, /will not be charged twice/);
    assert.doesNotMatch(page.text, /Your ride is booked|<form/);
    await site.simulator.calm();
    await answer;
    assert.match((await visitor.visit(`/rides/${rideOf(id)}`)).text, /Your ride is booked/);
  });

  test('of an unpaid ride never says that it is booked', async () => {
    const cards = {
      pm_card_visa_chargeDeclined: /declined/i,
      pm_card_visa_chargeDeclinedInsufficientFunds: /insufficient/i,
      pm_card_chargeDeclinedExpiredCard: /expired/i,
    };
    for (const [payment_method, reason] of Object.entries(cards)) {
      const visitor = browser(site);
      const { ride } = await visitor.submit({ ...(await visitor.openForm()), payment_method });
      const page = await visitor.visit(`/rides/${ride}`);
      assert.match(/<div class="notice error"[\s\S]*?<\/div>/.exec(page.text)[0], reason);
      assert.match(page.text, /Nothing was charged/);
      assert.doesNotMatch(page.text, /Your ride is booked/);
    }
  });
});

describe("somebody else's ride", () => {
  test('is the same 404 as one that does not exist', async () => {
    const { ride } = await user.book(freshKey());
    const unused = browser(site);
    // An object of ours in which nothing ever happened, a made-up id, and no id at all.
    const token = Buffer.from((await unused.openForm()).idempotency_key, 'base64url');
    const empty = rideOf(token.subarray(10, 42).toString('hex'));
    const altered = rideOf(objectId(ride).replace(/^./, (digit) => (digit === '0' ? '1' : '0')));
    const missing = [empty, altered, `ride_${'A'.repeat(43)}`, 'ride_x', 'x', 'ride_'];
    const foreign = await other.ride(ride);
    assert.equal(foreign.status, 404);
    assert.equal(foreign.header('content-type'), 'application/problem+json');
    for (const id of missing) {
      const answer = await other.ride(id);
      assert.equal(answer.status, 404, id);
      assert.deepEqual(withoutInstance(answer), withoutInstance(foreign), id);
    }
  });

  test('is hidden from other visitors, and an account does not see a form booking nor the other way round', async () => {
    const [visitor, stranger] = [browser(site), browser(site)];
    const { ride } = await visitor.submit(await visitor.openForm());
    await stranger.openForm();
    assert.equal((await stranger.visit(`/rides/${ride}`)).status, 404);
    assert.equal((await user.ride(ride)).status, 404);
    const { ride: booked } = await user.book(freshKey());
    assert.equal((await visitor.visit(`/rides/${booked}`)).status, 404);
    const page = await stranger.visit(`/rides/${ride}`);
    assert.ok(!page.text.includes(ride));
  });

  test('without any session or credentials is a 404 page, and a 401 for a client', async () => {
    const { ride } = await user.book(freshKey());
    const page = await read(await site.fetch(`/rides/${ride}`, { headers: HTML }));
    assert.equal(page.status, 404);
    assert.match(page.header('content-type'), /^text\/html/);
    const client = await read(await site.fetch(`/rides/${ride}`));
    assert.equal(client.status, 401);
    assert.match(client.header('www-authenticate'), /^Bearer realm="paid-once"/);
  });

  test('with wrong credentials is a 401, even with a valid session', async () => {
    const visitor = browser(site);
    const { ride } = await visitor.submit(await visitor.openForm());
    const headers = { authorization: 'Bearer nobody', accept: 'application/json' };
    assert.equal((await visitor.visit(`/rides/${ride}`, { headers })).status, 401);
  });
});
