// The gate in front of a shop that knows nothing of it: what is sent twice is done once, in the shop's own books.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { FORM, customers, keysIn, startGate } from './support/gate.mjs';
import { until } from './support/until.mjs';

const SHORT_MS = 400;
const OFTEN_MS = 1_000;
const forms = ['POST /checkout', 'POST /shown', 'POST /page', 'POST /large'];
const HOSTS = {
  'shop.test': { forms, api: ['POST /v1/*'] },
  'control.test': { forms, off: true },
  'django.test': { forms, preset: 'django' },
  'woo.test': { forms, preset: 'woocommerce' },
  'asks.test': { forms, api: ['POST /v1/*'], missing: 'ask' },
  'new.test': { forms, edited: 'new' },
  'short.test': { forms, api: ['POST /v1/*'], keep_ms: SHORT_MS },
  'series.test': { forms, one_at_a_time: true },
  'often.test': { forms, one_at_a_time: true, keep_ms: OFTEN_MS },
  'small.test': { forms, max_body: 1000 },
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

test('a form that is sent six times is one order, and all get the same answer', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const send = () => visitor.post('/checkout', { paid_once_key: key, name });
  const answers = await Promise.all([1, 2, 3, 4, 5].map(send));
  answers.push(await send());
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [303]);
  assert.equal(new Set(answers.map(({ headers }) => headers['location'])).size, 1);
  const replayed = answers.map(({ headers }) => headers['idempotent-replayed']).sort();
  assert.deepEqual(replayed, ['false', 'true', 'true', 'true', 'true', 'true']);
  assert.equal(ordersOf(name).length, 1);
});

test('control: without the gate it is six orders', async () => {
  const visitor = gate.visitor('control.test');
  const name = someone();
  assert.equal(await visitor.key('/checkout'), undefined);
  const send = () => visitor.post('/checkout', { name });
  await Promise.all([1, 2, 3, 4, 5].map(send));
  await send();
  assert.equal(ordersOf(name).length, 6);
});

test('the shop gets what the browser sent, without the key', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const ours = { 'idempotency-key': '"1234567890"', 'paid-once-ask': 'x', 'paid-once-verdict': 'x' };
  await visitor.post('/checkout?step=2', { a: 'x y', paid_once_key: key, name }, { headers: ours });
  const { headers, body, url } = shop.requests.at(-1);
  assert.equal(url, '/checkout?step=2');
  assert.equal(String(body), `a=x+y&name=${name.replace(' ', '+')}`);
  assert.equal(headers.origin, shop.origin);
  assert.equal(headers['x-forwarded-host'], 'shop.test');
  assert.equal(headers['x-forwarded-proto'], 'http');
  assert.match(headers['idempotency-key'], /^gate_[0-9a-f]{40}$/);
  assert.equal(headers['paid-once-ask'], undefined);
});

test('a form with files is one order under a new boundary, too', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const file = new File([new Uint8Array(100_000).fill(7)], 'a.bin');
  for (let sent = 0; sent < 3; sent += 1) {
    const { status } = await visitor.postParts('/checkout', { paid_once_key: key, name, file });
    assert.equal(status, 303);
  }
  assert.equal(ordersOf(name).length, 1);
  assert.equal(ordersOf(name)[0].fields.paid_once_key, undefined);
});

test('two pages are two intents', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const other = await visitor.key('/checkout');
  assert.notEqual(other, key);
  await visitor.post('/checkout', { paid_once_key: key, name });
  await visitor.post('/checkout', { paid_once_key: other, name });
  assert.equal(ordersOf(name).length, 2);
});

test('five tabs are five intents, or one where that is set', async () => {
  for (const [host, orders] of [
    ['shop.test', 5],
    ['series.test', 1],
  ]) {
    const { visitor, key } = await atCheckout(host);
    const name = someone();
    const keys = [key];
    while (keys.length < 5) keys.push(await visitor.key('/checkout'));
    const send = (key) => visitor.another().post('/checkout', { paid_once_key: key, name });
    const answers = await Promise.all(keys.slice(0, 3).map(send));
    for (const key of keys.slice(3)) answers.push(await send(key));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [303]);
    assert.equal(new Set(answers.map(({ headers }) => headers.location)).size, orders);
    assert.equal(ordersOf(name).length, orders);
    // A page that is made afterwards is about another order.
    await send(await visitor.key('/checkout'));
    assert.equal(ordersOf(name).length, orders + 1);
  }
});

test('where tabs are one, a refusal later on frees nothing that was done', async () => {
  const { visitor, key } = await atCheckout('series.test');
  const name = someone();
  assert.equal((await visitor.post('/checkout', { paid_once_key: key, name })).status, 303);
  const later = await visitor.key('/checkout');
  assert.equal((await visitor.post('/checkout', { paid_once_key: later, name: '' })).status, 422);
  const again = await visitor.post('/checkout', { paid_once_key: key, name });
  assert.notEqual(again.headers['idempotent-replayed'], 'false');
  assert.equal(ordersOf(name).length, 1);
});

test('where tabs are one, who has sent often is not locked out for good', async () => {
  const { visitor, key } = await atCheckout('often.test');
  const name = someone();
  const send = (key, name) => visitor.post('/checkout', { paid_once_key: key, name });
  let form = key;
  let isFull = false;
  // As often as there is room for, and more.
  for (let refused = 0; refused <= 100 && !isFull;) {
    const { status } = await send(form, '');
    if (status === 422) refused += 1;
    isFull = status === 429;
    // It was open for too long.
    if (status === 409) form = await visitor.key('/checkout');
  }
  await until('there is room again', async () => {
    return (await send(await visitor.key('/checkout'), name)).status === 303;
  });
  assert.equal(ordersOf(name).length, 1);
});

test('where tabs are one, what differs is asked about, and goes as new', async () => {
  const { visitor, key } = await atCheckout('series.test');
  const name = someone();
  const other = await visitor.key('/checkout');
  const first = await visitor.post('/checkout', { paid_once_key: key, name });
  const edited = await visitor.post('/checkout', { paid_once_key: other, name: `${name} b` });
  assert.equal(edited.status, 422);
  const link = edited.text.match(/href="([^"]*answer[^"]*)"/)[1].replaceAll('&#38;', '&');
  assert.equal((await visitor.request(link)).headers.location, first.headers.location);
  const [fresh] = keysIn(edited.text);
  for (let sent = 0; sent < 2; sent += 1) {
    assert.equal((await visitor.post('/checkout', { paid_once_key: fresh, name: `${name} b` })).status, 303);
  }
  assert.deepEqual([ordersOf(name).length, ordersOf(`${name} b`).length], [1, 1]);
});

test('a refusal frees the key: what is corrected is one order', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const refused = await visitor.post('/checkout', { paid_once_key: key, name: '' });
  assert.equal(refused.status, 422);
  // From the answer's own form, whose key is new; and after Back, with the old one.
  const [fresh] = keysIn(refused.text);
  assert.notEqual(fresh, key);
  assert.equal((await visitor.post('/checkout', { paid_once_key: fresh, name })).status, 303);
  assert.equal((await visitor.post('/checkout', { paid_once_key: fresh, name })).status, 303);
  assert.equal(ordersOf(name).length, 1);
  const back = someone();
  assert.equal((await visitor.post('/checkout', { paid_once_key: key, name: back })).status, 303);
  assert.equal((await visitor.post('/checkout', { paid_once_key: key, name: back })).status, 303);
  assert.equal(ordersOf(back).length, 1);
});

test('a form may be refused many times, with large pages', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  shop.refusal = 'x'.repeat(400_000);
  for (let sent = 0; sent < 12; sent += 1) {
    const { status, text } = await visitor.post('/checkout', { paid_once_key: key, name: '' });
    assert.deepEqual([status, text.length > 400_000], [422, true]);
  }
  shop.refusal = '';
  for (let sent = 0; sent < 2; sent += 1) {
    assert.equal((await visitor.post('/checkout', { paid_once_key: key, name })).status, 303);
  }
  assert.equal(ordersOf(name).length, 1);
});

test('where a redirect is done, a form that is shown again can be corrected', async () => {
  const { visitor } = await atCheckout('django.test');
  shop.page('/shown', '<form method="post" action="/shown"></form>');
  const key = await visitor.key('/shown');
  const name = someone();
  const shown = await visitor.post('/shown', { paid_once_key: key, name: '' });
  assert.equal(shown.status, 200);
  assert.equal(
    (await visitor.post('/shown', { paid_once_key: key, name: '' })).headers['idempotent-replayed'],
    'true',
  );
  assert.equal((await visitor.post('/shown', { paid_once_key: key, name })).status, 303);
  assert.equal((await visitor.post('/shown', { paid_once_key: key, name })).status, 303);
  assert.equal(ordersOf(name).length, 1);
});

for (const location of [
  '/accounts/login/?next=/checkout',
  'accounts/login/',
  '//django.test/accounts/login/',
])
  test(`who has to log in first has done nothing: ${location}`, async () => {
    const { visitor, key } = await atCheckout('django.test');
    const name = someone();
    shop.answers['/checkout'] = [302, { location, 'set-cookie': 'sessionid=out' }];
    const asked = await visitor.post('/checkout', { paid_once_key: key, name });
    assert.match(asked.headers.location, /login/);
    shop.answers = {};
    visitor.cookies.set('sessionid', 'logged in');
    for (let sent = 0; sent < 2; sent += 1) {
      assert.equal((await visitor.post('/checkout', { paid_once_key: key, name })).status, 303);
    }
    assert.equal(ordersOf(name).length, 1);
  });

test('a declined card is told with 200, and the same may be sent again', async () => {
  const { visitor, key } = await atCheckout('woo.test');
  const name = someone();
  const declined = { paid_once_key: key, name, card: 'declined' };
  for (let sent = 0; sent < 2; sent += 1) {
    const { text, headers } = await visitor.post('/checkout', declined);
    assert.deepEqual([text, headers['idempotent-replayed']], ['{"result":"failure"}', 'false']);
  }
  assert.equal((await visitor.post('/checkout', { paid_once_key: key, name })).status, 303);
  assert.equal(ordersOf(name).length, 1);
});

test('a stranger with a copied key does something of their own, and learns nothing', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const first = await visitor.post('/checkout', { paid_once_key: key, name });
  const stranger = gate.visitor('shop.test');
  await stranger.key('/checkout');
  const seen = await stranger.request(`/.paid-once/answer?key=${key}&to=/checkout`);
  assert.equal(seen.status, 404);
  const theirs = await stranger.post('/checkout', { paid_once_key: key, name });
  assert.notEqual(theirs.headers.location, first.headers.location);
  assert.equal(theirs.headers['idempotent-replayed'], 'false');
});

test('what is sent again with other content shows the answer, or goes as new when asked', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const first = await visitor.post('/checkout', { paid_once_key: key, name, note: '"><b>' });
  const edited = await visitor.post('/checkout', { paid_once_key: key, name, note: 'other "><b>' });
  assert.equal(edited.status, 422);
  assert.match(edited.text, /This form was sent already/);
  assert.ok(!edited.text.includes('"><b>'));
  const link = edited.text.match(/href="(\/\.paid-once\/answer\?key=[^"]+)"/)[1].replaceAll('&#38;', '&');
  const answer = await visitor.request(link);
  assert.deepEqual([answer.status, answer.headers.location], [303, first.headers.location]);
  assert.equal(ordersOf(name).length, 1);
  const [fresh] = keysIn(edited.text);
  for (let sent = 0; sent < 2; sent += 1) {
    const { status } = await visitor.post('/checkout', { paid_once_key: fresh, name, note: 'other "><b>' });
    assert.equal(status, 303);
  }
  assert.equal(ordersOf(name).length, 2);
  const script = await visitor.post(
    '/checkout',
    { paid_once_key: key, name },
    { headers: { accept: '*/*' } },
  );
  assert.equal(script.headers['content-type'], 'application/problem+json');
  assert.equal(JSON.parse(script.text).type, '/.paid-once/problems/idempotency-key-reused');
});

test('where edited forms go as new, each edit is one order', async () => {
  const { visitor, key } = await atCheckout('new.test');
  const name = someone();
  const statuses = [];
  for (const note of ['a', 'b', 'b', 'a']) {
    statuses.push((await visitor.post('/checkout', { paid_once_key: key, name, note })).status);
  }
  // The shop has given another cookie with the second order, which no script can read: the first answer is not of this session any more.
  assert.deepEqual(statuses, [303, 303, 303, 409]);
  assert.deepEqual(
    ordersOf(name).map(({ fields }) => fields.note),
    ['a', 'b'],
  );
});

test('fields that only guard a form may change', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  for (const token of ['1', '2']) {
    const fields = { csrfmiddlewaretoken: token, 'cf-turnstile-response': token, paid_once_key: key, name };
    assert.equal((await visitor.post('/checkout', fields)).status, 303);
  }
  assert.deepEqual(
    ordersOf(name).map(({ fields }) => fields.csrfmiddlewaretoken),
    ['1'],
  );
});

test('an answer is for the session that sent it first', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  await visitor.post('/checkout', { paid_once_key: key, name });
  visitor.cookies.set('sessionid', 'second');
  const other = await visitor.post('/checkout', { paid_once_key: key, name });
  assert.equal(other.status, 409);
  assert.deepEqual(other.set, []);
  assert.match(other.text, /This was sent already/);
  assert.equal(ordersOf(name).length, 1);
});

test('a cookie is given again only while the browser has what it had', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const asBefore = visitor.another();
  const send = (who) => who.post('/checkout', { paid_once_key: key, name });
  const first = await send(visitor);
  assert.equal(first.set.length, 2);
  const lost = await send(asBefore);
  assert.deepEqual(lost.set, first.set);
  assert.deepEqual((await send(visitor)).set, first.set.slice(0, 1));
});

test('a page is kept with its answer, and gets a new key at each replay', async () => {
  const { visitor } = await atCheckout();
  shop.page('/page', FORM.replace('/checkout', '/page'));
  const key = await visitor.key('/page');
  const name = someone();
  const answers = [];
  for (let sent = 0; sent < 3; sent += 1) {
    answers.push(await visitor.post('/page', { paid_once_key: key, name }));
  }
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200],
  );
  assert.equal(new Set(answers.map(({ text }) => keysIn(text)[0])).size, 3);
  assert.equal(new Set(answers.map(({ text }) => text.replace(/value="[^"]*"/g, ''))).size, 1);
  assert.equal(ordersOf(name).length, 1);
});

test('an answer that is too large to be kept reaches who asked, and is not asked for again', async () => {
  const { visitor } = await atCheckout();
  shop.page('/large', FORM.replace('/checkout', '/large'));
  const key = await visitor.key('/large');
  const name = someone();
  const first = await visitor.post('/large', { paid_once_key: key, name });
  assert.equal(first.status, 200);
  assert.ok(first.text.endsWith('x'.repeat(700_000)));
  const again = await visitor.post('/large', { paid_once_key: key, name });
  assert.equal(again.status, 409);
  assert.equal(ordersOf(name).length, 1);
});

test('a form that was open too long is asked about', async () => {
  const { visitor, key } = await atCheckout('short.test');
  await pause(SHORT_MS + 1);
  const name = someone();
  const old = await visitor.post('/checkout', { paid_once_key: key, name });
  assert.equal(old.status, 409);
  assert.match(old.text, /This page was open for a long time/);
  assert.equal(ordersOf(name).length, 0);
  // On a slow machine the next one may be too old as well.
  let asked = old;
  await until('it is sent in time', async () => {
    asked = await visitor.post('/checkout', { paid_once_key: keysIn(asked.text)[0], name });
    if (asked.status === 409) assert.equal(ordersOf(name).length, 0);
    return asked.status !== 409;
  });
  assert.equal(asked.status, 303);
  assert.equal(ordersOf(name).length, 1);
});

test('a form without a key passes and is counted, or is asked for', async () => {
  const passing = gate.visitor('shop.test');
  const name = someone();
  const forged = { name, paid_once_key: 'A'.repeat(79) };
  assert.equal((await passing.post('/checkout', forged)).status, 303);
  assert.equal(shop.orders.at(-1).fields.paid_once_key, undefined);
  assert.ok(gate.lines.some(({ event, route }) => event === 'without_key' && route === 'POST /checkout'));
  const asking = gate.visitor('asks.test');
  const asked = await asking.post('/checkout', { name });
  assert.equal(asked.status, 400);
  assert.match(asked.text, /One more click is needed/);
  assert.equal(ordersOf(name).length, 1);
  const sent = await asking.post('/checkout', { name, paid_once_key: keysIn(asked.text)[0] });
  assert.equal(sent.status, 303);
});

test('a form that a script sends as JSON is one order, and the shop sees no key', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const post = (body) =>
    visitor.request('/checkout', {
      method: 'POST',
      body,
      headers: { accept: '*/*', 'content-type': 'application/json; charset=utf-8' },
    });
  const [before, after] = ['{ "total": 1.50e1,', ` "name":"${name}", "in": {"paid_once_key": "ü"} }`];
  const statuses = [];
  for (const asked of [
    `${before} "paid_once_key" : "${key}",${after}`,
    `${before}${after.slice(0, -2)},"paid_once_key":"${key}"}`,
  ])
    statuses.push((await post(asked)).status);
  assert.deepEqual(statuses, [303, 303]);
  assert.equal(ordersOf(name).length, 1);
  const { headers, body } = shop.requests.findLast(({ method }) => method === 'POST');
  assert.equal(String(body), `${before}${after}`);
  assert.equal(headers['content-length'], String(body.length));
  const edited = await post(`{"paid_once_key":"${key}","name":"${name}"}`);
  assert.equal(JSON.parse(edited.text).type, '/.paid-once/problems/idempotency-key-reused');
});

test('JSON that is too large to be held is one order, too', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const rest = `"name":"${name}","file":"${'x'.repeat(2 << 20)}"}`;
  const answers = [];
  for (const member of [`"paid_once_key":"${key}",`, `"paid\\u005fonce_key": "${key}" ,`])
    answers.push(
      await visitor.request('/checkout', {
        method: 'POST',
        body: `{${member}${rest}`,
        headers: { 'content-type': 'application/json', 'content-length': `{${member}${rest}`.length },
      }),
    );
  assert.deepEqual(
    answers.map(({ status, headers }) => [status, headers['idempotent-replayed']]),
    [
      [303, 'false'],
      [303, 'true'],
    ],
  );
  assert.equal(ordersOf(name).length, 1);
  const { headers, body } = shop.requests.findLast(({ method }) => method === 'POST');
  assert.equal(String(body), `{${rest}`);
  assert.equal(headers['content-length'], String(body.length));
});

test('a body that is too large is refused before anything is sent', async () => {
  const { visitor, key } = await atCheckout('small.test');
  const before = shop.requests.length;
  const { status } = await visitor.post('/checkout', { paid_once_key: key, name: 'x'.repeat(2000) });
  assert.equal(status, 413);
  assert.equal(shop.requests.length, before);
});

test('a client of an API sends its key in the header', async () => {
  const send = (key, body, { token = 'one', ...headers } = {}) =>
    gate.send('shop.test', '/v1/charges', {
      method: 'POST',
      body: JSON.stringify(body),
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${token}`,
        ...(key && { 'idempotency-key': key }),
        ...headers,
      },
    });
  const name = someone();
  const answers = await Promise.all([1, 2, 3].map(() => send('k1', { name, amount: 5 })));
  answers.push(await send('"k1"', { amount: 5.0, name }));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.equal(ordersOf(name).length, 1);
  assert.notEqual(ordersOf(name)[0].key, 'k1');
  const other = await send('k1', { name, amount: 6 });
  assert.equal(other.status, 422);
  assert.equal(other.headers['content-type'], 'application/problem+json');
  // Another client's key is another key.
  assert.equal(
    (await send('k1', { name, amount: 5 }, { token: 'two' })).headers['idempotent-replayed'],
    'false',
  );
  assert.equal((await send('k 1', { name })).status, 400);
  assert.equal((await send(undefined, { name, amount: 5 })).status, 201);
  assert.equal(ordersOf(name).length, 3);
});

test('a client of an API is told to take a new key once its own has expired, or was refused too often', async () => {
  const send = async (host, name) => {
    const { status, text, headers } = await gate.send(host, '/v1/charges', {
      method: 'POST',
      body: JSON.stringify({ name }),
      headers: {
        'content-type': 'application/json',
        authorization: 'Bearer one',
        'idempotency-key': `key-at-${host}`,
      },
    });
    return { status, text, type: headers['content-type'] };
  };
  const name = someone();
  assert.equal((await send('short.test', name)).status, 201);
  await pause(SHORT_MS + 1);
  const old = await send('short.test', name);
  for (let sent = 0; sent < 100; sent += 1) assert.equal((await send('shop.test', '')).status, 422);
  const spent = await send('shop.test', '');
  for (const [told, word] of [
    [old, 'idempotency-key-expired'],
    [spent, 'limit-reached'],
  ]) {
    assert.deepEqual([told.status, told.type], [409, 'application/problem+json']);
    const { type, detail } = JSON.parse(told.text);
    assert.equal(type, `/.paid-once/problems/${word}`);
    assert.match(detail, /a new key/);
    assert.doesNotMatch(detail, /page|form/);
  }
  assert.equal(ordersOf(name).length, 1);
});
