// The gate: whose a key is, what an answer to a look-up says, two routes of one host, and what the shop is told of who asks.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { FORM, customers, keysIn, startGate } from './support/gate.mjs';
import { until } from './support/until.mjs';

const forms = ['POST /checkout'];
const api = ['POST /v1/*'];
const QUIET_MS = 310;
const LOOKUP = {
  forms,
  log_in: ['/login'],
  on_unknown: { lookup: 'GET /asked?key={key}' },
  wait_ms: 100,
};
const REPLAY = {
  forms,
  log_in: ['/login'],
  on_unknown: 'replay',
  wait_ms: 100,
  timeout_ms: 300,
  quiet_ms: QUIET_MS,
};
const HOSTS = {
  'lookup.test': { ...LOOKUP, timeout_ms: 300, quiet_ms: QUIET_MS },
  // Whose look-up must be answered in time on a slow machine, too.
  'patient.test': { ...LOOKUP, timeout_ms: 1_500, quiet_ms: 1_510 },
  'replay.test': { ...REPLAY, done: 'answer' },
  'shown.test': { ...REPLAY, done: 'redirect' },
  'led.test': { forms: ['POST /led', ...forms] },
  'api.test': { api },
  'named.test': { api, identity: ['x-client'] },
  'shared.test': { api, identity: [] },
  'session.test': { api, session: ['session'] },
  'series.test': { forms, one_at_a_time: true },
  'asked.test': { forms: ['POST /*'], missing: 'ask' },
  // Two routes of one host: the first one has no forms.
  'two.test': { api },
  '': { forms },
};

let gate;
let shop;
let atCheckout;
let someone;
let ordersOf;

before(async () => {
  gate = await startGate(HOSTS);
  ({ shop } = gate);
  ({ atCheckout, someone, ordersOf } = customers(gate));
});

after(() => gate.close());

describe('a look-up', () => {
  /** An order whose answer is lost. */
  async function lost(host, status, headers = {}, body = '') {
    shop.on('/asked', (_, answer) => answer.writeHead(status, headers).end(body));
    const { visitor, key } = await atCheckout(host);
    const name = someone();
    shop.fault = 'lost';
    const again = () => visitor.post('/checkout', { paid_once_key: key, name });
    const orders = () => ordersOf(name).length;
    return { first: await again(), again, orders };
  }

  for (const [what, status, headers] of [
    ['is not allowed', 401],
    ['is forbidden', 403],
    ['comes too often', 429, { 'retry-after': '1' }],
    ['is led to the log-in', 302, { location: '/login?next=/asked' }],
    ['is led to a log-in that no setting names', 302, { location: '/sign-in' }],
    ['is led to another page', 303, { location: '/en/asked' }],
    ['is led on to where it stands', 301, { location: '/asked/' }],
    ['is led on for now', 307, { location: '/asked/' }],
    ['fails', 500],
  ]) {
    test(`that ${what} says nothing: it is not sent again`, async () => {
      const { first, again, orders } = await lost('lookup.test', status, headers);
      const answers = [first];
      // Until long after it would be sent again if it were not there.
      const end = Date.now() + 4 * QUIET_MS;
      while (Date.now() < end) {
        await pause(50);
        answers.push(await again());
      }
      assert.equal(orders(), 1);
      const told = new Set(answers.map((answer) => answer.status));
      assert.ok(!told.has(303) && !told.has(200), [...told].join());
    });
  }

  test('control: one that says that there is nothing has it sent again, to whoever comes by Retry-After', async () => {
    const { again, orders } = await lost('patient.test', 404);
    // Each time just after the gate has tried by itself, which can do nothing. Two look-ups must say so, and then it is said that it was not sent.
    const told = [];
    while (orders() < 2 && told.length < 12) {
      const { status, headers } = await again();
      told.push(status);
      await pause(1000 * Number(headers['retry-after'] ?? 0) + 300);
    }
    assert.equal(orders(), 2, told.join());
  });

  test('with an answer that is too large to be kept has found it', async () => {
    const { again, orders } = await lost(
      'patient.test',
      200,
      { 'content-type': 'text/plain' },
      'x'.repeat(600_000),
    );
    await until('it is found', async () => (await again()).text.includes('This was sent already'));
    assert.equal(orders(), 1);
  });
});

describe('sent again after its answer was lost', () => {
  /** An order whose answer is lost, before a shop that answers so to whoever sends it again. */
  async function lost(host, status, headers = {}) {
    const { visitor, key } = await atCheckout(host);
    const name = someone();
    const send = (more) => visitor.post('/checkout', { paid_once_key: key, name, ...more });
    shop.fault = 'lost';
    const first = await send();
    assert.ok([409, 502].includes(first.status), String(first.status));
    shop.answers['/checkout'] = [status, headers];
    return { send, name };
  }

  /** What is told until the shop is quiet. */
  async function contradicted(host, status, headers) {
    const { send, name } = await lost(host, status, headers);
    const before = shop.requests.length;
    const told = [];
    const end = Date.now() + 2 * QUIET_MS;
    while (Date.now() < end || shop.requests.length === before) {
      await pause(50);
      told.push((await send()).status);
    }
    delete shop.answers['/checkout'];
    return { send, told, name };
  }

  for (const [what, status, headers, host = 'replay.test'] of [
    ['is under way', 409],
    ['has used its key', 422],
    ['is not allowed', 401],
    ['has a token that was used', 403],
    ['has a page that has expired', 419],
    ['comes too often', 429, { 'retry-after': '1' }],
    ['is led to the log-in', 302, { location: '/login?next=/checkout' }],
    ['is for later', 503, { 'retry-after': '1' }],
    ['did not reach the shop', 521],
    ['sees the form again', 200, {}, 'shown.test'],
  ]) {
    test(`who ${what} is told nothing of the first one, and its key stays`, async () => {
      const { send, told, name } = await contradicted(host, status, headers);
      assert.deepEqual([...new Set(told)], [409]);
      assert.equal((await send({ note: 'changed' })).status, 409, 'nor may anything else be sent under it');
      let sends = 0;
      await until('it is done', async () => ((sends += 1), (await send()).status === 303));
      const keys = ordersOf(name).map((order) => order.key);
      // The shop of this test executes whatever comes; one that honours keys would see the same one.
      // On a slow machine an answer may be late once more: then whoever sends it again has it sent again.
      assert.ok(keys.length >= 2 && keys.length <= 1 + sends, `${keys.length} orders, ${sends} sends`);
      assert.equal(new Set(keys).size, 1);
    });
  }

  test('what the shop says that it has answered before ends it', async () => {
    const { send } = await lost('replay.test', 422, { 'idempotent-replayed': 'true' });
    await until('it is refused', async () => (await send()).status === 422);
    delete shop.answers['/checkout'];
    assert.equal((await send()).status, 303, 'it was refused: what comes next is sent');
  });
});

describe('a redirect that has the form sent on', () => {
  const send = async (host, answer, more = {}) => {
    shop.answers['/led'] = answer;
    const visitor = gate.visitor(host);
    const key = await visitor.key('/led');
    const name = someone();
    const answers = [];
    for (const fields of [{ name }, { name }, { name, note: 'changed' }])
      answers.push(await visitor.post('/led', { paid_once_key: key, ...fields, ...more }));
    return { answers, orders: ordersOf(name) };
  };
  before(() => shop.page('/led', FORM.replace('/checkout', '/led')));

  for (const [what, location] of [
    ['by its path', '/checkout'],
    ['beside it', 'checkout'],
    ['by the address of the site', 'http://led.test/checkout'],
    ['by its https address', 'https://led.test/checkout'],
    ['to an address that is no route', '/orders-of-old/'],
  ])
    test(`${what} is followed by the gate: it is one order`, async () => {
      const { answers, orders } = await send('led.test', [308, { location }]);
      assert.deepEqual(
        answers.map(({ status }) => status),
        [303, 303, 422],
      );
      assert.match(answers[0].headers.location, /^http:\/\/led\.test\/thanks\/\d+$/);
      assert.equal(answers[1].headers.location, answers[0].headers.location);
      assert.equal(orders.length, 1);
    });

  test('to https is followed as a request by https: the shop leads nobody there again', async () => {
    const location = 'https://led.test/led';
    const { answers, orders } = await send('led.test', (headers) =>
      headers['x-forwarded-proto'] === 'https' ? undefined : [308, { location }],
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      [303, 303, 422],
    );
    assert.equal(orders.length, 1);
  });

  test('with a cookie is followed with it, and the visitor gets that', async () => {
    const set = ['checked=1; Path=/', 'sessionid=second; Path=/; HttpOnly', 'gone=; Max-Age=0; Path=/'];
    const sent = [];
    const { answers, orders } = await send('led.test', ({ cookie }) => {
      sent.push(cookie);
      if (!cookie?.includes('checked=1')) return [307, { location: '/led', 'set-cookie': set }];
    });
    assert.deepEqual(
      answers.map(({ status }) => status),
      [303, 303, 422],
    );
    assert.equal(orders.length, 1);
    assert.match(sent[1], /checked=1; sessionid=second$/);
    assert.deepEqual(answers[0].set.slice(0, 3), set);
    assert.equal(answers[0].set.length, 5, 'and those of the answer');
    assert.equal(answers[1].headers.location, answers[0].headers.location);
  });

  for (const [what, location, more] of [
    ['to another host', 'http://another.test/checkout'],
    ['to itself', '/led'],
    ['nowhere'],
    ['with a body that is not held', '/checkout', { note: 'x'.repeat(2 << 20) }],
  ])
    test(`${what} is not, and sent once alone`, async () => {
      const before = shop.requests.filter(({ method }) => method === 'POST').length;
      const { answers, orders } = await send('led.test', [308, location ? { location } : {}], more);
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [502]);
      assert.ok(answers.every(({ headers }) => headers.location === undefined));
      assert.equal(orders.length, 0);
      const sent = shop.requests.filter(({ method }) => method === 'POST').length - before;
      assert.equal(sent, location === '/led' ? 6 : 1);
      const line = gate.lines.findLast(({ event }) => event === 'redirect_not_followed');
      assert.equal(line.route, 'POST /led');
    });
});

describe('a key of the API is of whoever has the credentials', () => {
  const send = (host, key, headers, name) =>
    gate.send(host, '/v1/orders', {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'idempotency-key': key,
        ...headers,
      },
      body: new URLSearchParams({ name }).toString(),
    });

  test('another token is another client', async () => {
    const name = someone();
    const key = `key-of-${name.replace(' ', '-')}`;
    for (const token of ['a', 'b', 'a', 'b']) {
      await send('api.test', key, { authorization: `Bearer ${token}` }, name);
    }
    assert.equal(ordersOf(name).length, 2);
  });

  test('a session that changes at each answer is no other client', async () => {
    const name = someone();
    const key = `key-of-${name.replace(' ', '-')}`;
    for (const session of ['one', 'two', 'three']) {
      const headers = { authorization: 'Bearer a', cookie: `sessionid=${session}` };
      await send('api.test', key, headers, name);
    }
    assert.equal(ordersOf(name).length, 1);
  });

  test('without a token the session says who it is', async () => {
    const name = someone();
    const key = `key-of-${name.replace(' ', '-')}`;
    for (const session of ['one', 'two', 'one']) {
      await send('api.test', key, { cookie: `sessionid=${session}` }, name);
    }
    assert.equal(ordersOf(name).length, 2);
  });

  test('a session that is new at each answer says nothing; with it the cookie of the gate does', async () => {
    for (const name of ['laravel_session', '_shop_session', 'session']) {
      const who = someone();
      const key = `key-of-${who.replace(' ', '-')}`;
      const visitor = `paid_once_visitor=${'a'.repeat(32)}`;
      const statuses = [];
      for (const cookie of [`${name}=one`, `${name}=one; ${visitor}`, `${visitor}; ${name}=two`])
        statuses.push((await send('api.test', key, { cookie }, who)).status);
      // The second one's answer is of the first one's session.
      assert.deepEqual(statuses, [400, 201, 409]);
      assert.equal(ordersOf(who).length, 1, name);
    }
  });

  test('a session that the settings name says it, whatever its name', async () => {
    const name = someone();
    const key = `key-of-${name.replace(' ', '-')}`;
    for (const session of ['one', 'one', 'two']) {
      const { status } = await send('session.test', key, { cookie: `session=${session}` }, name);
      assert.equal(status, 201);
    }
    assert.equal(ordersOf(name).length, 2);
  });

  test('where requests are signed, a header that is named says it', async () => {
    const name = someone();
    const key = `key-of-${name.replace(' ', '-')}`;
    for (const signature of ['1', '2', '3']) {
      const headers = { authorization: `Signature ${signature}`, 'x-client': 'c' };
      await send('named.test', key, headers, name);
    }
    assert.equal(ordersOf(name).length, 1);
    await send('named.test', key, { authorization: 'Signature 4', 'x-client': 'd' }, name);
    assert.equal(ordersOf(name).length, 2);
  });

  test('who says nowhere who they are has none, and is not given the answer of another one', async () => {
    const name = someone();
    const key = `key-of-${name.replace(' ', '-')}`;
    const unknown = [{}, { cookie: 'language=en' }, { 'x-user-id': '7' }];
    for (const headers of [{ 'api-key': 'secret' }, ...unknown, { 'x-access-token': 'another' }]) {
      const { status, text } = await send('api.test', key, headers, name);
      const is_known = 'api-key' in headers || 'x-access-token' in headers;
      assert.equal(status, is_known ? 201 : 400);
      if (!is_known) assert.equal(JSON.parse(text).type, '/.paid-once/problems/client-unknown');
    }
    assert.equal(ordersOf(name).length, 2, 'of the two that are known');
    // Without a key there is nothing to be given.
    const { status } = await gate.send('api.test', '/v1/orders', { method: 'POST', body: '{}' });
    assert.notEqual(status, 400);
  });

  test('control: where the site says that its clients share their keys they do', async () => {
    const name = someone();
    const key = `key-of-${name.replace(' ', '-')}`;
    for (const user of ['1', '2'])
      assert.equal((await send('shared.test', key, { 'x-user-id': user }, name)).status, 201);
    assert.equal(ordersOf(name).length, 1);
  });
});

describe('visitors who keep no cookies', () => {
  const host = 'series.test';
  const key = () => gate.visitor(host).key('/checkout');
  const post = (paid_once_key, name) => gate.visitor(host).post('/checkout', { paid_once_key, name });

  test('are not one visitor, where what one sends from several pages is one operation', async () => {
    const names = [someone(), someone()];
    const keys = [await key(), await key()];
    for (const [at, name] of [...names, ...names].entries())
      assert.equal((await post(keys[at % 2], name)).status, 303);
    assert.deepEqual(
      names.map((name) => ordersOf(name).length),
      [1, 1],
    );
  });

  const seenBy = (visitor, key) => visitor.request(`/.paid-once/answer?key=${key}&to=/checkout`);

  test('see no answer by a link, which anybody can send them', async () => {
    const name = someone();
    const own = await key();
    await post(own, name);
    assert.equal((await seenBy(gate.visitor(host), own)).status, 404);
    const edited = await post(own, someone());
    assert.equal(edited.status, 422);
    assert.doesNotMatch(edited.text, /See the answer/);

    const { visitor, key: known } = await atCheckout();
    const { headers } = await visitor.post('/checkout', { paid_once_key: known, name });
    const seen = await seenBy(visitor, known);
    assert.deepEqual([seen.status, seen.headers.location], [303, headers.location], 'control: a known one');
    assert.equal(seen.headers['cache-control'], 'private, no-store');
  });

  test('are not given the session of whoever has another site send their form', async () => {
    const name = someone();
    const copied = await key();
    const first = await post(copied, name);
    assert.ok(first.set.some((cookie) => cookie.startsWith('last=')));
    const sentBy = (headers) =>
      gate.visitor(host).post('/checkout', { paid_once_key: copied, name }, { headers });
    for (const headers of [
      { origin: 'http://evil.test', 'sec-fetch-site': 'cross-site' },
      { origin: 'http://evil.series.test', 'sec-fetch-site': 'same-site' },
      { origin: 'null', 'sec-fetch-site': 'none' },
      { origin: 'http://evil.test' },
      { origin: 'null' },
    ]) {
      const again = await sentBy(headers);
      assert.deepEqual([again.status, again.set, again.headers.location], [409, [], undefined]);
      assert.match(again.text, /This was sent already/);
    }
    const own = await sentBy({ 'sec-fetch-site': 'same-origin' });
    assert.deepEqual([own.status, own.headers.location], [303, first.headers.location], 'control: this site');
    assert.equal(ordersOf(name).length, 1);
  });
});

describe('what a page of another site has sent', () => {
  const elsewhere = { origin: 'http://evil.test', 'sec-fetch-site': 'cross-site' };

  test('is not offered to be sent again by a page of this one', async () => {
    const { visitor, key } = await atCheckout();
    await visitor.post('/checkout', { paid_once_key: key, name: someone() });
    const fields = { paid_once_key: key, name: someone() };
    const from = (headers) => visitor.post('/checkout', fields, { headers });
    for (const headers of [elsewhere, { origin: 'http://evil.test' }, { 'sec-fetch-site': 'same-site' }]) {
      const { status, text } = await from(headers);
      assert.equal(status, 422);
      assert.doesNotMatch(text, /<form/);
    }
    // A page that asks to be named to nobody is named by neither its address nor its origin.
    for (const headers of [
      {},
      { origin: 'null', 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'none' },
    ])
      assert.match((await from(headers)).text, /<form/);
    assert.equal(ordersOf(fields.name).length, 0);
  });

  test('is not asked for with a key', async () => {
    const visitor = gate.visitor('asked.test');
    const name = someone();
    const refused = await visitor.post('/checkout', { name }, { headers: elsewhere });
    assert.equal(refused.status, 403);
    assert.match(refused.text, /This came from another site/);
    assert.doesNotMatch(refused.text, /<form/);
    assert.equal((await visitor.post('/checkout', { name })).status, 400, 'control');
    assert.equal(ordersOf(name).length, 0);
  });
});

test('a form that is sent again goes to this site, however its address begins', async () => {
  const { text } = await gate.visitor('asked.test').post('//evil.test/pay', { name: someone() });
  assert.match(text, /<form method="post" action="http:\/\/asked\.test\/\/evil\.test\/pay"/);
});

test('a route without forms leaves those of the next one their keys', async () => {
  const visitor = gate.visitor('two.test');
  const page = await visitor.request('/checkout');
  assert.equal(keysIn(page.text).length, 1, FORM);
  const name = someone();
  for (let sent = 0; sent < 2; sent += 1) {
    const { status } = await visitor.post('/checkout', { paid_once_key: keysIn(page.text)[0], name });
    assert.equal(status, 303);
  }
  assert.equal(ordersOf(name).length, 1);
});

test('nobody tells the shop for somebody else who they are', async () => {
  const visitor = gate.visitor('two.test');
  const claims = {
    'x-forwarded-for': '192.0.2.1',
    'x-forwarded-host': 'evil.test',
    'x-real-ip': '192.0.2.1',
    'true-client-ip': '192.0.2.1',
    forwarded: 'for=192.0.2.1',
    'client-ip': '192.0.2.1',
    'x-client-ip': '192.0.2.1',
    // Some read these as the same names with dashes.
    x_forwarded_for: '192.0.2.1',
    x_forwarded_host: 'evil.test',
    'paid-once-ask': 'claims',
    // Is of this connection alone.
    connection: 'close, x-hop',
    'x-hop': 'claims',
  };
  await visitor.request('/checkout', { headers: claims });
  const { headers } = shop.requests.at(-1);
  for (const [name, value] of Object.entries(claims)) assert.notEqual(headers[name], value, name);
  assert.equal(headers['x-forwarded-host'], 'two.test');
});
