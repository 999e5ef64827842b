// GET /rides/new and POST /rides by a browser's form: a hidden, signed key; nothing runs twice, and nothing that was
// entered is lost.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { USER } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { shareSite, startSite } from './support/harness.mjs';
import { ridesOf } from './support/rides.mjs';
import { until } from './support/until.mjs';

const site = ridesOf(await shareSite());
after(() => site.close());
afterEach(() => site.simulator.calm());

const DECLINED_CARD = 'pm_card_visa_chargeDeclined';
const ENTRIES = ['origin_lat', 'origin_lon', 'target_lat', 'target_lon', 'payment_method'];
const TRIP = {
  origin_lat: '12.5',
  origin_lon: '-3.25',
  target_lat: '-45',
  target_lon: '170.125',
  payment_method: 'pm_card_mastercard',
};

function assertKept(page, sent) {
  for (const name of ENTRIES) assert.equal(page.entries[name], sent[name], name);
}

/** The page offers the same entries under another key, which was not used yet and works. */
async function assertOffersFreshForm(visitor, page, sent) {
  assertKept(page, sent);
  assert.match(page.text, /class="notice/);
  assert.notEqual(page.entries.idempotency_key, sent.idempotency_key);
  const booked = await visitor.submit(page.entries);
  assert.equal(booked.status, 303, 'the form that the page offers can be sent');
  assert.equal(await site.rides.paid(booked.ride), 1);
}

describe('the form', () => {
  test('carries a key of its own for each visitor, which is a valid Idempotency-Key', async () => {
    const [one, other] = [await browser(site).openForm(), await browser(site).openForm()];
    assert.notEqual(one.idempotency_key, other.idempotency_key);
    assert.match(one.idempotency_key, /^[\x21-\x7e]{1,255}$/);
    assert.deepEqual(Object.keys(one).sort(), ['email', 'idempotency_key', ...ENTRIES].sort());
  });

  test('stores nothing when it is shown', () => site.withoutEffect(() => browser(site).openForm()));

  test('is kept by nobody', async () => {
    const page = await browser(site).visit('/rides/new');
    assert.equal(page.status, 200);
    assert.equal(page.header('cache-control'), 'private, no-store');
    assert.match(page.text, /<form[^>]* method="post" action="\/rides"/);
  });

  test('answers HEAD', async () => {
    const page = await browser(site).visit('/rides/new', { method: 'HEAD' });
    assert.equal(page.status, 200);
    assert.equal(page.bytes.length, 0);
    assert.match(page.header('content-type'), /^text\/html/);
  });
});

describe('the key of an open form', () => {
  test('stays the same when the form is loaded again: whichever is paid, it is paid once', async () => {
    const visitor = browser(site);
    const [one, other] = [await visitor.openForm(), await visitor.openForm()];
    assert.equal(other.idempotency_key, one.idempotency_key);
    const [first, second] = [await visitor.submit(one), await visitor.submit(other)];
    assert.equal(second.header('location'), first.header('location'));
    assert.equal((await site.rides.sends(first.ride)).length, 1);
  });

  test('that was sent leads to what became of it, until another booking is asked for', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const answer = visitor.submit(sent);
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    for (const path of ['/rides/new', '/rides/new?another']) {
      const asked = await visitor.visit(path);
      const reloaded = path === '/rides/new' ? asked : await visitor.visit(asked.header('location'));
      assert.equal(reloaded.status, 303, 'no second form while the first one is being paid');
      assert.match((await visitor.visit(reloaded.header('location'))).text, /http-equiv="refresh"/);
    }
    await site.simulator.calm();
    const booked = await answer;
    assert.match((await visitor.visit(booked.header('location'))).text, /Your ride is booked/);
    const back = await visitor.visit('/rides/new');
    assert.equal(back.status, 303, 'nor when it is paid and seen');
    assert.equal(back.header('location'), booked.header('location'));
    const asked = await visitor.visit('/rides/new?another');
    assert.equal(asked.header('location'), '/rides/new');
    const next = await visitor.openForm();
    assert.notEqual(next.idempotency_key, sent.idempotency_key);
    const another = await visitor.submit(next);
    assert.notEqual(another.ride, booked.ride);
    assert.equal(await site.rides.paid(another.ride), 1);
  });

  test('tells the session that sent it what it booked, and nobody else', async () => {
    const [visitor, stranger] = [browser(site), browser(site)];
    const sent = await visitor.openForm();
    const address = `/rides/keys/${sent.idempotency_key}`;
    const headers = { accept: 'application/json' };
    assert.equal((await visitor.visit(address, { headers })).status, 404, 'it is not used yet');
    const made = await visitor.submit(sent);
    const mine = await visitor.visit(address, { headers });
    assert.equal(mine.status, 200);
    assert.deepEqual(mine.json(), { resource: made.header('location') });
    await stranger.openForm();
    assert.equal((await stranger.visit(address, { headers })).status, 404);
    assert.equal((await visitor.visit('/rides/keys/made-up', { headers })).status, 404);
  });

  test('of an older tab is the one to come back to once it is sent', async () => {
    const visitor = browser(site);
    const older = await visitor.openForm();
    const { ride } = await visitor.submit(await visitor.openForm());
    await visitor.visit('/rides/new?another');
    const newer = await visitor.openForm();
    assert.notEqual(newer.idempotency_key, older.idempotency_key);
    assert.equal((await visitor.submit(older)).ride, ride);
    assert.equal((await visitor.visit('/rides/new')).header('location'), `/rides/${ride}`);
  });
});

describe('the cookies', () => {
  /** The Set-Cookie lines of a fresh form, by the cookie's name. */
  const lines = async (origin, headers) => {
    const page = await browser(site, origin).visit('/rides/new', { headers });
    return Object.fromEntries(page.headers.getSetCookie().map((line) => line.split(/=(.*)/s).slice(0, 2)));
  };

  test('on plain http are such as a browser keeps there', async () => {
    const { session, form, ...more } = await lines(site.url.origin);
    assert.deepEqual(more, {});
    assert.match(session, /^[\da-f]{32}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/);
    assert.match(form, /^[\w-]+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/);
  });

  test('on https are __Host- cookies', async () => {
    const { '__Host-session': session, '__Host-form': form, ...more } = await lines('https://pay.example');
    assert.deepEqual(more, {});
    assert.match(session, /^[\da-f]{32}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax; Secure$/);
    assert.match(form, /^[\w-]+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax; Secure$/);
  });

  test('a session is set once, and differs from visitor to visitor', async () => {
    const [visitor, another] = [browser(site), browser(site)];
    await visitor.openForm();
    const session = visitor.cookie();
    const page = await visitor.visit('/rides/new');
    assert.ok(page.headers.getSetCookie().every((line) => !line.startsWith('session=')));
    await another.openForm();
    assert.notEqual(another.cookie(), session);
  });

  test('a session that is malformed, or of plain http on https, is replaced', async () => {
    const value = '0123456789abcdef'.repeat(2);
    const replaced = async (origin, cookie) =>
      Object.keys(await lines(origin, { cookie })).some((name) => name.endsWith('session'));
    assert.equal(await replaced('https://pay.example', `session=${value}`), true);
    assert.equal(await replaced('https://pay.example', `__Host-session=${value}`), false);
    assert.equal(await replaced(site.url.origin, 'session=../../etc'), true);
    assert.equal(await replaced(site.url.origin, `a=b; session=${value}`), false);
  });

  test('an open form of another session, or a made-up one, is passed over', async () => {
    const [owner, thief] = [browser(site), browser(site)];
    const theirs = await owner.openForm();
    await thief.openForm();
    for (const form of [theirs.idempotency_key, 'made-up', '']) {
      const headers = { cookie: `session=${thief.cookie()}; form=${form}` };
      const page = await thief.visit('/rides/new', { headers });
      assert.equal(page.status, 200);
      assert.notEqual(page.entries.idempotency_key, theirs.idempotency_key);
    }
  });
});

describe('a form that is sent', () => {
  test('books the ride and leads to its page', async () => {
    const visitor = browser(site);
    const answer = await visitor.submit({ ...(await visitor.openForm()), ...TRIP });
    assert.equal(answer.status, 303);
    assert.equal(answer.header('location'), `/rides/${answer.ride}`);
    assert.equal(answer.bytes.length, 0);
    assert.equal(answer.header('cache-control'), 'private, no-store');
    assert.equal(await site.rides.paid(answer.ride), 1);
    const page = await visitor.visit(answer.header('location'));
    assert.equal(page.status, 200);
    assert.match(page.text, /Your ride is booked/);
  });

  test('works the same on https', async () => {
    const visitor = browser(site, 'https://pay.example');
    const answer = await visitor.submit(await visitor.openForm());
    assert.equal(answer.status, 303);
    assert.equal((await visitor.visit(answer.header('location'))).status, 200);
    assert.equal(await site.rides.paid(answer.ride), 1);
  });

  test('again gets the same redirect, and charges nothing', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const first = await visitor.submit(sent);
    for (const again of [await visitor.submit(sent), await visitor.submit(sent)]) {
      assert.deepEqual([again.status, again.header('location')], [303, first.header('location')]);
      assert.equal(again.header('idempotent-replayed'), 'true');
      assert.equal(again.header('original-request'), first.header('request-id'));
    }
    assert.equal((await site.rides.sends(first.ride)).length, 1);
  });

  test('with its fields in another order is the same form', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const first = await visitor.submit(sent);
    const again = await visitor.submit(Object.fromEntries(Object.entries(sent).reverse()));
    assert.equal(again.header('location'), first.header('location'));
    assert.equal((await site.rides.sends(first.ride)).length, 1);
  });

  test('twice at once is charged once', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const [one, other] = await Promise.all([visitor.submit(sent), visitor.submit(sent)]);
    assert.deepEqual([one.status, other.status], [303, 303]);
    assert.equal(one.header('location'), other.header('location'));
    assert.equal((await site.rides.sends(one.ride)).length, 1);
  });

  test('whose payment is unknown leads to a page that looks again, until it is settled', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    await site.simulator.fault('connection_reset_after');
    const answer = await visitor.submit(sent, { prefer: 'wait=0' });
    assert.equal(answer.status, 303);
    const page = await visitor.visit(answer.header('location'));
    assert.match(page.text, /<meta http-equiv="refresh" content="\d+">/);
    assert.match(page.text, /will not be charged twice/);
    await until('the page shows the receipt', async () => {
      const { text } = await visitor.visit(answer.header('location'));
      return /Your ride is booked/.test(text);
    });
    assert.equal(await site.rides.paid(answer.ride), 1);
  });
});

describe('an edited form under a used key', () => {
  test('shows what was booked, and that nothing more was charged', async () => {
    const visitor = browser(site);
    const sent = { ...(await visitor.openForm()), ...TRIP };
    const first = await visitor.submit(sent);
    const edited = await visitor.submit({ ...sent, target_lat: '1.5' });
    assert.equal(edited.status, 303);
    assert.equal(edited.header('location'), `${first.header('location')}?edited`);
    const page = await visitor.visit(edited.header('location'));
    assert.equal(page.status, 200);
    assert.match(page.text, /already booked/i);
    assert.match(page.text, /-45, 170\.125/, 'the trip that was booked');
    assert.match(page.text, /href="\/rides\/new\?another"/);
    assert.equal((await site.rides.sends(first.ride)).length, 1);
  });

  test('with entries that are wrong never says that nothing was charged', async () => {
    const visitor = browser(site);
    const sent = { ...(await visitor.openForm()), ...TRIP };
    const first = await visitor.submit(sent);
    const spoilt = await visitor.submit({ ...sent, target_lat: 'nowhere' });
    assert.equal(spoilt.status, 303);
    assert.equal(spoilt.header('location'), `${first.header('location')}?edited`);
    assert.equal((await site.rides.sends(first.ride)).length, 1);
  });

  test('with another card charges nothing either', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const declined = await visitor.submit({ ...sent, payment_method: DECLINED_CARD });
    const other = await visitor.submit({ ...sent, payment_method: 'pm_card_visa' });
    assert.equal(other.header('location'), `${declined.header('location')}?edited`);
    assert.equal(await site.rides.paid(declined.ride), 0);
    const page = await visitor.visit(other.header('location'));
    assert.match(page.text, /declined/i);
  });
});

describe('a declined card', () => {
  test('shows the form again with the reason, the entries and a fresh key', async () => {
    const visitor = browser(site);
    const sent = { ...(await visitor.openForm()), ...TRIP, payment_method: DECLINED_CARD };
    const answer = await visitor.submit(sent);
    assert.equal(answer.status, 303);
    const page = await visitor.visit(answer.header('location'));
    assert.equal(page.status, 200);
    assert.match(page.text, /Your card was declined/);
    assert.match(page.text, /Nothing was charged/);
    assertKept(page, sent);
    assert.notEqual(page.entries.idempotency_key, sent.idempotency_key);
    assert.equal(await site.rides.paid(answer.ride), 0);

    const paid = await visitor.submit({ ...page.entries, payment_method: 'pm_card_visa' });
    assert.equal(paid.status, 303);
    assert.notEqual(paid.ride, answer.ride);
    assert.equal(await site.rides.paid(paid.ride), 1);
  });
});

describe('the receipt by email', () => {
  test('goes where the form says, and the page of the ride says so', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    assert.equal(sent.email, 'you@example.com', 'the demo suggests one');
    const { ride } = await visitor.submit({ ...sent, email: ' ada@example.com ' });
    const { text } = await visitor.visit(`/rides/${ride}`);
    assert.match(text, /A receipt goes to ada@example\.com\./);
    assert.match(text, /href="\/_sim\/mailbox"/);
    assert.deepEqual(await site.rides.receipts(ride), [['ada@example.com']]);
    const mailbox = await visitor.visit('/_sim/mailbox');
    assert.ok(mailbox.text.includes('ada@example.com'), 'it can be read there');
  });

  test('is not sent if the field is empty', async () => {
    const visitor = browser(site);
    const { ride } = await visitor.submit({ ...(await visitor.openForm()), email: ' ' });
    assert.doesNotMatch((await visitor.visit(`/rides/${ride}`)).text, /A receipt goes to/);
    assert.deepEqual(await site.rides.receipts(ride), []);
  });

  test('to what is no address is asked for again: nothing runs, and what was entered is kept', async () => {
    const visitor = browser(site);
    const sent = { ...(await visitor.openForm()), email: 'ada@"example"' };
    const page = await site.withoutEffect(() => visitor.submit(sent));
    assert.equal(page.status, 422);
    assertKept(page, sent);
    assert.equal(page.entries.email, sent.email);
    assert.match(page.text, /<a href="#email">Email must be one address/);
    assert.match(page.text, /id="email"[^>]*aria-invalid="true"/);
    const fixed = await visitor.submit({ ...page.entries, email: 'ada@example.com' });
    assert.deepEqual(await site.rides.receipts(fixed.ride), [['ada@example.com']]);
  });
});

describe('entries that are wrong', () => {
  test('are marked on the same form with the same key, and nothing runs', async () => {
    const visitor = browser(site);
    const sent = { ...(await visitor.openForm()), ...TRIP, origin_lat: '91', target_lon: 'far "away" <b>' };
    const page = await site.withoutEffect(() => visitor.submit(sent));
    assert.equal(page.status, 422);
    assert.match(page.header('content-type'), /^text\/html/);
    assert.equal(page.header('cache-control'), 'private, no-store');
    assertKept(page, sent);
    assert.doesNotMatch(page.text, /<b>/, 'what was entered is escaped');
    assert.equal(page.entries.idempotency_key, sent.idempotency_key);
    const marked = [...page.text.matchAll(/id="([a-z_]+)"[^>]*aria-invalid="true"/g)].map(([, id]) => id);
    assert.deepEqual(marked, ['origin_lat', 'target_lon']);

    const fixed = await visitor.submit({ ...page.entries, origin_lat: '9', target_lon: '9' });
    assert.equal(fixed.status, 303);
    assert.equal(fixed.header('idempotent-replayed'), null);
    assert.equal(await site.rides.paid(fixed.ride), 1);
  });

  test('such as none at all, or a card that is not offered, are named', async () => {
    const visitor = browser(site);
    const { idempotency_key } = await visitor.openForm();
    const empty = await site.withoutEffect(() => visitor.submit({ idempotency_key }));
    assert.equal(empty.status, 422);
    for (const name of ENTRIES.slice(0, 4)) assert.match(empty.text, new RegExp(`href="#${name}"`));
    const card = await site.withoutEffect(() =>
      visitor.submit({ ...TRIP, idempotency_key, payment_method: 'pm_card_amex' }),
    );
    assert.equal(card.status, 422);
    assert.match(card.text, /choose one of the cards/);
  });
});

describe('a key that may not be used', () => {
  test('forged: a page explains, keeps the entries and offers a fresh form', async () => {
    const visitor = browser(site);
    const good = { ...(await visitor.openForm()), ...TRIP };
    const key = good.idempotency_key;
    const flip = (at) => key.slice(0, at) + (key[at] === 'A' ? 'B' : 'A') + key.slice(at + 1);
    const forgeries = [flip(0), flip(5), flip(30), flip(key.length - 10), key.slice(0, -4), 'made-up'];
    for (const forged of forgeries) {
      const sent = { ...good, idempotency_key: forged };
      const page = await site.withoutEffect(() => visitor.submit(sent));
      assert.equal(page.status, 409, forged);
      assertKept(page, sent);
    }
    const sent = { ...good, idempotency_key: forgeries[0] };
    await assertOffersFreshForm(visitor, await visitor.submit(sent), sent);
  });

  test("another visitor's: the same page, and that visitor's form still works", async () => {
    const [owner, thief] = [browser(site), browser(site)];
    const theirs = { ...(await owner.openForm()), ...TRIP };
    await thief.openForm();
    const page = await site.withoutEffect(() => thief.submit(theirs));
    assert.equal(page.status, 409);
    await assertOffersFreshForm(thief, page, theirs);
    assert.equal((await owner.submit(theirs)).header('idempotent-replayed'), null);
  });

  test("another visitor's, used: shows nothing of what it booked", async () => {
    const [owner, thief] = [browser(site), browser(site)];
    const theirs = { ...(await owner.openForm()), ...TRIP };
    const { ride } = await owner.submit(theirs);
    await thief.openForm();
    const page = await site.withoutEffect(() => thief.submit(theirs));
    assert.equal(page.status, 409);
    assert.ok(!page.text.includes(ride));
  });

  test('without its cookie: nothing runs, and a new session begins', async () => {
    const visitor = browser(site);
    const sent = { ...(await visitor.openForm()), ...TRIP };
    visitor.clearCookies();
    const page = await site.withoutEffect(() => visitor.submit(sent));
    assert.equal(page.status, 409);
    assert.ok(page.headers.getSetCookie().some((line) => line.startsWith('session=')));
    await assertOffersFreshForm(visitor, page, sent);
  });

  test('missing: a page explains, keeps the entries and offers a fresh form', async () => {
    const visitor = browser(site);
    const { idempotency_key: _, ...sent } = { ...(await visitor.openForm()), ...TRIP };
    const page = await site.withoutEffect(() => visitor.submit(sent));
    assert.equal(page.status, 409);
    await assertOffersFreshForm(visitor, page, sent);
  });

  test('signed by another deployment: nothing runs', async () => {
    const elsewhere = ridesOf(
      await startSite({ secrets: { SIGNING_KEY: 'another key for signing, just as long' } }),
    );
    try {
      const visitor = browser(site);
      await visitor.openForm();
      const headers = { cookie: `session=${visitor.cookie()}` };
      const { entries: foreign } = await browser(elsewhere).visit('/rides/new', { headers });
      assert.equal((await site.withoutEffect(() => visitor.submit(foreign))).status, 409);
    } finally {
      await elsewhere.close();
    }
  });

  test('is no key for the API: an account cannot spend it, nor take it from its owner', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const { idempotency_key: key, payment_method: _, email: __, ...trip } = sent;
    const headers = {
      authorization: `Bearer ${USER}`,
      'content-type': 'application/x-www-form-urlencoded',
      'idempotency-key': key,
    };
    const body = new URLSearchParams(trip).toString();
    const api = await site.fetch('/rides', { method: 'POST', headers, body });
    assert.equal(api.status, 201, 'for the account it is a key like any other');
    const form = await visitor.submit(sent);
    assert.equal(form.status, 303);
    assert.notEqual(form.header('location'), api.headers.get('location'));
  });
});

describe('a form that has expired', async () => {
  // Long enough for a slow machine to send it in time.
  const FORM_TTL_MS = 3_000;
  const brief = ridesOf(await startSite({ vars: { FORM_TTL_MS: `${FORM_TTL_MS}` } }));
  after(() => brief.close());
  const gone = (opened) => until('the form has expired', () => Date.now() > opened + FORM_TTL_MS + 50);

  test('never runs: a page explains, keeps the entries and offers a fresh one', async () => {
    const visitor = browser(brief);
    const sent = { ...(await visitor.openForm()), ...TRIP };
    await gone(Date.now());
    const requests = await brief.simulator.requests();
    const page = await visitor.submit(sent);
    assert.equal(page.status, 409);
    assert.match(page.text, /expired/);
    assertKept(page, sent);
    assert.notEqual(page.entries.idempotency_key, sent.idempotency_key);
    assert.deepEqual(await brief.simulator.requests(), requests);
    assert.equal((await visitor.submit(page.entries)).status, 303);
  });

  test('but was used in time still shows its result', async () => {
    const visitor = browser(brief);
    const sent = { ...(await visitor.openForm()), ...TRIP };
    const opened = Date.now();
    const first = await visitor.submit(sent);
    assert.equal(first.status, 303, first.text);
    await gone(opened);
    const again = await visitor.submit(sent);
    assert.deepEqual([again.status, again.header('location')], [303, first.header('location')]);
    assert.equal((await brief.rides.sends(first.ride)).length, 1);
  });

  test('and was sent in time is carried on', async () => {
    const visitor = browser(brief);
    const sent = { ...(await visitor.openForm()), ...TRIP };
    const opened = Date.now();
    await brief.simulator.fault('slow', { delay_ms: 60_000 });
    const first = visitor.submit(sent);
    await until('the bank has the request', async () => (await brief.simulator.faults()).length === 0);
    await gone(opened);
    const again = visitor.submit(sent);
    await brief.simulator.calm();
    const { ride } = await first;
    assert.equal((await again).ride, ride);
    assert.equal(await brief.rides.paid(ride), 1);
  });
});

describe('a form from elsewhere', () => {
  for (const origin of ['https://evil.example', 'null', 'http://localhost:1', 'https://']) {
    test(`with Origin: ${origin} is a 403`, async () => {
      const visitor = browser(site);
      const sent = await visitor.openForm();
      const page = await site.withoutEffect(() => visitor.submit(sent, { origin }));
      assert.equal(page.status, 403);
      assert.match(page.header('content-type'), /^text\/html/);
      assert.deepEqual(page.headers.getSetCookie(), []);
      assert.equal(page.entries, undefined);
    });
  }

  test('without an Origin is judged by Sec-Fetch-Site', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const post = (fetchSite) =>
      visitor.visit('/rides', {
        method: 'POST',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          ...(fetchSite && { 'sec-fetch-site': fetchSite }),
        },
        body: new URLSearchParams(sent).toString(),
      });
    for (const fetchSite of ['cross-site', 'same-site'])
      assert.equal((await site.withoutEffect(() => post(fetchSite))).status, 403, fetchSite);
    assert.equal((await post('same-origin')).status, 303);
    assert.equal((await post(undefined)).status, 303, 'curl, with the cookie and the token');
  });
});

describe('a form body', () => {
  test('that is too large, or no form, is a page', async () => {
    const visitor = browser(site);
    const sent = await visitor.openForm();
    const large = await site.withoutEffect(() => visitor.submit({ ...sent, origin_lat: 'x'.repeat(70_000) }));
    assert.equal(large.status, 413);
    assert.match(large.header('content-type'), /^text\/html/);
  });
});
