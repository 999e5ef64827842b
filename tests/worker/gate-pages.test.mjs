// Pages on their way through the gate: which forms get a key, and that nothing else changes.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';

import { FORM, keysIn, startGate } from './support/gate.mjs';
import { until } from './support/until.mjs';

let gate;
let shop;
let visitor;
let count = 0;

before(async () => {
  const forms = ['POST /checkout', 'POST /cart/*/order', 'POST /?wc-ajax=checkout'];
  gate = await startGate({
    'shop.test': { forms, script: false },
    'scripted.test': { forms },
    'second.test': { forms: [] },
  });
  shop = gate.shop;
  visitor = gate.visitor('shop.test');
});

after(() => gate.close());

/** A page of the shop as it comes through the gate. */
async function through(html, { headers, asks, host = 'shop.test', ...asked } = {}) {
  const path = `/page-${(count += 1)}`;
  shop.page(path, html, { headers });
  return gate.visitor(host).request(path, { headers: asks, ...asked });
}

/** The same without the keys, and how many there were. */
const without = (html) => [
  html.replace(
    /<input type="hidden" name="paid_once_key" value="[^"]+" autocomplete="off"(?: form="[^"]*")?>/g,
    '',
  ),
  keysIn(html).length,
];

for (const [what, html, keys] of [
  ['a form that goes to a route', '<form method="post" action="/checkout">', 1],
  ['a form in capitals', '<FORM METHOD="POST" ACTION="/checkout">', 1],
  ['a form by its whole address', '<form method="post" action="http://shop.test/checkout">', 1],
  ['a form by its https address', '<form method="post" action="https://shop.test/checkout">', 1],
  ['a form without a scheme', '<form method="post" action="//shop.test/checkout">', 1],
  ['a form with a star', '<form method="post" action="/cart/7/order">', 1],
  ['a form by its query', '<form method="post" action="/?x=1&amp;wc-ajax=checkout">', 1],
  [
    'two forms',
    '<form method="post" action="/checkout"></form><form method="post" action="/checkout"></form>',
    2,
  ],
  ['a form in a table', '<table><form method="post" action="/checkout"><tr><td><input name="a"></table>', 1],
  ['a form in a template', '<template><form method="post" action="/checkout"></form></template>', 1],
  ['a form that goes elsewhere', '<form method="post" action="/search">', 0],
  ['a form of another site', '<form method="post" action="https://evil.test/checkout">', 0],
  ['a form that gets', '<form action="/checkout">', 0],
  ['a form of a dialog', '<form method="dialog" action="/checkout">', 0],
  ['a form in a select', '<select><form method="post" action="/checkout"></form></select>', 0],
  ['a form in a drawing', '<svg><form method="post" action="/checkout"></form></svg>', 0],
  ['a form behind a drawing', '<svg><path d=""/></svg><form method="post" action="/checkout">', 1],
  ['a form in a comment', '<!-- <form method="post" action="/checkout"> -->', 0],
  ['a form in a script', '<script>"<form method=post action=/checkout>"</script>', 0],
  ['a base of another site', '<base href="https://evil.test/"><form method="post" action="checkout">', 0],
  ['a base of this site', '<base href="/cart/7/"><form method="post" action="order">', 1],
  ['only the first base', '<base href="/cart/7/"><base href="/x/"><form method="post" action="order">', 1],
  [
    'a button that goes to a route',
    '<form method="post" action="/search"><button>Find</button><button formaction="/checkout">Pay</button></form>',
    1,
  ],
  [
    'a button that posts',
    '<form action="/search"><input type="submit" formmethod="post" formaction="/checkout"></form>',
    1,
  ],
  [
    'a button that posts what its form would get',
    '<form action="/checkout"><button>Look</button><button formmethod="post">Pay</button></form>',
    1,
  ],
  [
    'a button that posts what its form would get elsewhere',
    '<form action="/search"><button formmethod="post">Find</button></form>',
    0,
  ],
  [
    'a button that posts a form from afar',
    '<form id="a" action="/checkout"></form><button form="a" formmethod="post">Pay</button>',
    1,
  ],
  [
    'a button that gets a form from afar',
    '<form id="a" action="/search"></form><button form="a" formaction="/checkout">Look</button>',
    0,
  ],
  [
    'a button of a form that comes later, which says where',
    '<button form="a" formaction="/checkout">Pay</button><form id="a" method="post" action="/search"></form>',
    1,
  ],
  [
    'a button of a form that has a key',
    '<form method="post" action="/checkout"><button formaction="/cart/1/order">Pay</button></form>',
    1,
  ],
  [
    'a button far from its form',
    '<form id="a&amp;b" method="post" action="/search"></form><button form="a&amp;b" formaction="/checkout">Pay</button>',
    1,
  ],
]) {
  test(`${what}: ${keys} ${keys === 1 ? 'key' : 'keys'}`, async () => {
    const { status, text } = await through(html);
    assert.equal(status, 200);
    assert.deepEqual(without(text), [html, keys]);
    assert.equal(new Set(keysIn(text)).size, keys);
  });
}

test('a form without an address goes to its own page', async () => {
  shop.page('/checkout', '<base href="/elsewhere/"><form method="post"><form method="post" action=" ">');
  const { text } = await visitor.request('/checkout?step=2');
  assert.equal(keysIn(text).length, 2);
});

/** The form of a page with a key has buttons that lead elsewhere: what they send has it, too. */
test('the shop gets no key by a button that leads to an address that is no route', async () => {
  const [key] = keysIn((await through(FORM)).text);
  const last = () => shop.requests.at(-1);
  await visitor.post('/cart/update', { a: 'x y', paid_once_key: key, n: '1' });
  assert.deepEqual([String(last().body), last().headers['content-length']], ['a=x+y&n=1', '9']);
  await visitor.postParts('/cart/update', { a: 'x y', paid_once_key: key, file: new File(['abc'], 'a.txt') });
  const { body, headers } = last();
  assert.match(String(body), /name="a"\r\n\r\nx y\r\n/);
  assert.match(String(body), /filename="a.txt"[^]*abc/);
  assert.doesNotMatch(String(body), /paid_once_key/);
  assert.equal(headers['content-length'], String(body.length));
  await visitor.postParts('/cart/update', { paid_once_key: key, file: new File(['x'.repeat(2 << 20)], 'a') });
  assert.ok(last().body.length > 2 << 20 && !last().body.includes('paid_once_key'));
  await visitor.request(`/search?q=a+b&paid_once_key=${key}`);
  assert.equal(last().url, '/search?q=a+b');
});

test('control: what has no key passes byte for byte', async () => {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  for (const body of ['a=1&&b=%7E+~&c', '', 'a=paid_once_key']) {
    await visitor.request('/cart/update?x=%7e&&y', { method: 'POST', body, headers });
    const { url, body: got } = shop.requests.at(-1);
    assert.deepEqual([url, String(got)], ['/cart/update?x=%7e&&y', body]);
  }
  const json = '{"paid_once_key":"K"}';
  const asJson = { method: 'POST', body: json, headers: { 'content-type': 'application/json' } };
  await visitor.request('/cart/update', asJson);
  assert.equal(String(shop.requests.at(-1).body), json);
});

test('a page with a key is private, and only it brings the cookie of the visitor', async () => {
  const headers = {
    etag: '"1"',
    'last-modified': 'Mon, 23 Nov 2026 10:00:00 GMT',
    'cache-control': 'public, max-age=60',
    'cdn-cache-control': 'max-age=60',
    'surrogate-control': 'max-age=60',
  };
  const keyed = await through('<form method="post" action="/checkout">', { headers });
  assert.equal(keyed.headers['cache-control'], 'private, no-cache');
  for (const name of ['etag', 'last-modified', 'content-length', 'cdn-cache-control', 'surrogate-control'])
    assert.equal(keyed.headers[name], undefined, name);
  assert.match(
    keyed.set[0],
    /^paid_once_visitor=[0-9a-f]{32}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Lax$/,
  );
  const plain = await through('<h1>About</h1>', { headers });
  assert.deepEqual(plain.set, []);
  assert.equal(plain.headers.etag, '"1"');
  assert.equal(plain.headers['cache-control'], 'public, max-age=60');
  assert.equal(plain.headers['cdn-cache-control'], 'max-age=60');
  const secret = await through('<form method="post" action="/checkout">', {
    headers: { 'cache-control': 'no-store' },
  });
  assert.equal(secret.headers['cache-control'], 'private, no-store');
});

const RETURN = `<!doctype html><h1>Back from the bank</h1>${FORM}`;
for (const [what, host, page] of [
  ['with a script', 'scripted.test', RETURN],
  ['a long one', 'scripted.test', `<!doctype html>${'<p>x</p>'.repeat(20_000)}${FORM}`],
  ['without a script', 'shop.test', RETURN],
])
  test(`what another site has posted is answered with keys, and no cookie in the place of the visitor's: ${what}`, async () => {
    const elsewhere = { origin: 'https://bank.test', 'sec-fetch-site': 'cross-site' };
    shop.page('/checkout', FORM);
    shop.answers['/return'] = [200, {}, page];
    const someone = gate.visitor(host);
    const key = await someone.key('/checkout');
    const name = `Ann of ${what}`;
    const send = () => someone.post('/checkout', { paid_once_key: key, name });
    const first = await send();
    const kept = new Map(someone.cookies);
    for (const headers of [elsewhere, { origin: 'https://bank.test' }, { origin: 'null' }]) {
      // The browser keeps them back.
      someone.cookies.clear();
      const { status, set, text } = await someone.post('/return', { ok: '1' }, { headers });
      assert.deepEqual([status, set], [200, []]);
      someone.cookies = new Map([...kept, ...someone.cookies]);
      assert.equal((await send()).headers.location, first.headers.location);
      // Before a script could have brought a key, or where the page's policy lets none run.
      const [paid_once_key] = keysIn(text);
      const click = () => someone.post('/checkout', { paid_once_key, name: `${name}, confirmed` });
      const clicks = await Promise.all([click(), click()]);
      assert.equal(clicks[0].headers.location, clicks[1].headers.location);
    }
    const ordersOf = (who) => shop.orders.filter(({ fields }) => fields.name === who).length;
    assert.deepEqual([ordersOf(name), ordersOf(`${name}, confirmed`)], [1, 3]);
    // Control: a page of this site sends what it has, and whoever has none gets one.
    const { set, text } = await gate.visitor(host).post('/return', { ok: '1' });
    assert.deepEqual([set.length, keysIn(text).length], [1, 1]);
  });

test('a visitor keeps the cookie, and the shop its own', async () => {
  shop.page('/checkout', '<form method="post">', {
    headers: { 'set-cookie': ['a=1; Path=/', 'b=2; Path=/'] },
  });
  const first = await visitor.request('/checkout');
  const again = await visitor.request('/checkout');
  assert.deepEqual(again.set.slice(0, 2), ['a=1; Path=/', 'b=2; Path=/']);
  // It is the same, for another month.
  assert.equal(again.set[2], first.set[2]);
});

test('what has not changed stays so', async () => {
  shop.on('/cached', (asked, answer) => {
    answer.writeHead(asked.headers['if-none-match'] ? 304 : 200, {
      'content-type': 'text/html',
      etag: '"1"',
    });
    answer.end(asked.headers['if-none-match'] ? undefined : '<h1>Old</h1>');
  });
  const { status, text } = await visitor.request('/cached', { headers: { 'if-none-match': '"1"' } });
  assert.deepEqual([status, text], [304, '']);
});

test('a part of a page, and what is no page, pass as they are', async () => {
  const form = '<form method="post" action="/checkout">';
  shop.page('/part', form, { status: 206, headers: { 'content-range': 'bytes 0-38/100' } });
  assert.equal((await visitor.request('/part')).text, form);
  assert.equal((await through(form, { headers: { 'content-type': 'text/plain' } })).text, form);
  const head = await through(form, { method: 'HEAD' });
  assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', undefined]);
});

test('characters stay what they are', async () => {
  const form = Buffer.from('<form method="post" action="/checkout">');
  for (const [charset, bytes] of [
    ['windows-1251', [0xcf, 0xf0, 0xe8]],
    ['Shift_JIS', [0x93, 0xfa, 0x96, 0x7b]],
    ['iso-8859-1', [0xe9, 0xe8]],
  ]) {
    const page = Buffer.concat([Buffer.from(bytes), form, Buffer.from(bytes)]);
    const answer = await through(page, { headers: { 'content-type': `text/html; charset=${charset}` } });
    const [same, keys] = without(answer.bytes.toString('latin1'));
    assert.deepEqual([same, keys], [page.toString('latin1'), 1], charset);
  }
});

/** What the log says of the page that was not read last: not its address. */
function notRead() {
  const { event, host, why, ...more } = gate.lines.at(-1);
  assert.equal(event, 'page_not_read');
  assert.doesNotMatch(JSON.stringify(more), /page-/);
  return { host, why };
}

test('a page in unknown characters passes untouched', async () => {
  for (const charset of ['utf-16le', 'x-unknown']) {
    const page = Buffer.from(
      '<form method="post" action="/checkout">',
      charset === 'utf-16le' ? 'utf16le' : 'utf8',
    );
    const headers = { 'content-type': `text/html; charset=${charset}`, etag: '"1"' };
    const answer = await through(page, { headers, host: 'scripted.test' });
    assert.equal(answer.status, 200, charset);
    assert.deepEqual(answer.bytes, page, charset);
    assert.equal(answer.headers.etag, '"1"');
    assert.deepEqual(notRead(), {
      host: 'scripted.test',
      why: `content-type: text/html; charset=${charset}`,
    });
  }
});

test('a packed page is unpacked for its keys', async () => {
  const html = `<form method="post" action="/checkout">${'x'.repeat(5000)}`;
  for (const [encoding, pack, unpack] of [
    ['gzip', gzipSync, gunzipSync],
    ['br', brotliCompressSync, brotliDecompressSync],
  ]) {
    const answer = await through(pack(html), {
      headers: { 'content-encoding': encoding },
      asks: { 'accept-encoding': `${encoding}, zstd` },
    });
    assert.equal(answer.headers['content-encoding'], encoding);
    assert.deepEqual(without(String(unpack(answer.bytes))), [html, 1], encoding);
    // What only the browser could read is not asked for.
    assert.equal(shop.requests.at(-1).headers['accept-encoding'], encoding);
  }
});

test('a page that is packed in another way passes untouched', async () => {
  const page = zstdCompressSync('<form method="post" action="/checkout">');
  const answer = await through(page, { headers: { 'content-encoding': 'zstd' } });
  assert.deepEqual([answer.status, answer.headers['content-encoding']], [200, 'zstd']);
  assert.deepEqual(answer.bytes, page);
  assert.deepEqual(notRead(), { host: 'shop.test', why: 'content-encoding: zstd' });
});

test('a large page streams, with a form at its end', async () => {
  const html = `${'<p>x</p>'.repeat(150_000)}<form method="post" action="/checkout">`;
  const answer = await through(html);
  assert.deepEqual(without(answer.text), [html, 1]);
  assert.equal(answer.headers['cache-control'], 'private, no-cache');
  assert.equal(answer.set.length, 1);
});

test('a page that comes piece by piece is seen from its beginning, and gets its key', async () => {
  let more;
  shop.on('/slow', (_, answer) => {
    answer.writeHead(200, { 'content-type': 'text/html', etag: '"1"' });
    answer.write('<h1>Basket</h1>');
    more = () => answer.end(FORM);
  });
  const asked = request(new URL('/slow', gate.runtime.origin), { headers: { host: 'shop.test' } }).end();
  const [answer] = await once(asked, 'response');
  const [first] = await once(answer, 'data');
  assert.equal(String(first), '<h1>Basket</h1>');
  // What comes later may have a key in it.
  assert.deepEqual([answer.headers['cache-control'], answer.headers.etag], ['private, no-cache', undefined]);
  assert.equal(answer.headers['set-cookie'].length, 1);
  more();
  let rest = '';
  for await (const chunk of answer) rest += chunk;
  assert.deepEqual(without(rest), [FORM, 1]);
});

test('events come as they happen', async () => {
  let more;
  shop.on('/events', (_, answer) => {
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    answer.write('data: 1\n\n');
    more = () => answer.end('data: 2\n\n');
  });
  const asked = request(new URL('/events', gate.runtime.origin), { headers: { host: 'shop.test' } }).end();
  const [answer] = await once(asked, 'response');
  const [first] = await once(answer, 'data');
  assert.equal(String(first), 'data: 1\n\n');
  more();
  const [second] = await once(answer, 'data');
  assert.equal(String(second), 'data: 2\n\n');
});

test('a WebSocket passes', async () => {
  const asked = request(new URL('/socket', gate.runtime.origin), {
    headers: {
      host: 'shop.test',
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    },
  }).end();
  const [answer, socket, head] = await once(asked, 'upgrade');
  assert.equal(answer.statusCode, 101);
  const frame = head.length > 0 ? head : (await once(socket, 'data'))[0];
  assert.equal(frame.subarray(2).toString(), 'hello');
  socket.destroy();
});

test('an address of the shop becomes ours', async () => {
  shop.on('/away', (_, answer) => answer.writeHead(302, { location: `${shop.origin}/there?a=1` }).end());
  const { status, headers } = await visitor.request('/away');
  assert.deepEqual([status, headers.location], [302, 'http://shop.test/there?a=1']);
});

test('a page gets the script, with the nonce that its policy wants', async () => {
  const policy = { 'content-security-policy': "script-src 'nonce-abc123' 'strict-dynamic'" };
  const page = '<html><head><title>x</title></head><body><h1>x</h1></body></html>';
  const plain = await through(page, { host: 'scripted.test', headers: { etag: '"1"' } });
  const tag = '<script src="/.paid-once/gate.js"></script>';
  assert.equal(plain.text, page.replace('</head>', `${tag}</head>`));
  assert.equal(plain.headers.etag, 'W/"1"');
  const strict = await through(page, { host: 'scripted.test', headers: policy });
  assert.equal(strict.text, page.replace('</head>', `${tag.replace('"></', '" nonce="abc123"></')}</head>`));
  const script = await gate.visitor('scripted.test').request('/.paid-once/gate.js');
  assert.match(script.headers['content-type'], /javascript/);
  assert.ok(script.bytes.length <= 4400, `${script.bytes.length} bytes`);
});

test('a page that leaves out its head and its body gets the script, too; a part of one gets none', async () => {
  const tag = '<script src="/.paid-once/gate.js"></script>';
  const content = '<title>x</title><h1>x</h1><p>y</p>';
  const page = await through(`<!doctype html>${content}`, { host: 'scripted.test' });
  assert.equal(page.text, `<!doctype html>${content}${tag}`);
  assert.equal((await through(content, { host: 'scripted.test' })).text, content);
});

test('a script gets keys for its forms, and none for others', async () => {
  const someone = gate.visitor('shop.test');
  const given = await someone.request('/.paid-once/key?to=%2F%3Fwc-ajax%3Dcheckout');
  assert.deepEqual([given.status, given.headers['cache-control']], [200, 'private, no-store']);
  assert.equal(given.set.length, 1);
  const sent = await someone.post(
    '/?wc-ajax=checkout',
    { name: 'by script' },
    { headers: { 'paid-once-key': given.text } },
  );
  assert.equal(sent.headers['idempotent-replayed'], 'false');
  assert.equal((await someone.request('/.paid-once/key?to=/search')).status, 204);
  assert.equal((await someone.request('/.paid-once/nothing')).status, 404);
  assert.equal((await someone.request('/.paid-once/problems/outcome-unknown')).status, 200);
});

test('another host has its own routes, and one that is not set has none', async () => {
  assert.equal(
    keysIn((await through('<form method="post" action="/checkout">', { host: 'second.test' })).text).length,
    0,
  );
  assert.equal((await through('<h1>x</h1>', { host: 'unknown.test' })).status, 404);
  const isSaid = ({ event, host }) => event === 'no_route' && host === 'unknown.test';
  await until('the log says so', () => gate.lines.some(isSaid));
});

test('a shop that is down says so', async () => {
  const down = await startGate({ 'shop.test': { origin: 'http://127.0.0.1:9', forms: ['POST /checkout'] } });
  try {
    const { status, text } = await down.visitor('shop.test').request('/');
    assert.equal(status, 503);
    assert.match(text, /could not be reached/);
  } finally {
    await down.close();
  }
});
