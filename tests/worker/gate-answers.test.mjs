// Answers that the gate has stored: seen later at its own address, packed as the shop has packed them, and with the cookies of whatever stands around.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';

import { keysIn, startGate } from './support/gate.mjs';

const HOST = 'shop.test';
const HOSTS = { [HOST]: { forms: ['POST /cart/*/order'], api: ['POST /v1/*'] } };
const PATH = '/cart/7/order';

let gate;
let shop;
let count = 0;

before(async () => {
  gate = await startGate(HOSTS);
  ({ shop } = gate);
  shop.page(PATH, '<form method="post"><input name="name"></form>');
});

after(() => gate.close());

describe('what a form was answered, seen later by its link,', () => {
  /** It, after the form was sent and then edited. The shop answers so. */
  async function seen(...answer) {
    const visitor = gate.visitor(HOST);
    const paid_once_key = await visitor.key(PATH);
    shop.answers[PATH] = answer;
    await visitor.post(`${PATH}?step=2`, { paid_once_key, name: 'Ann' });
    const edited = await visitor.post(`${PATH}?step=2`, { paid_once_key, name: 'Bob' });
    delete shop.answers[PATH];
    assert.equal(edited.status, 422);
    const link = edited.text.match(/href="(\/\.paid-once\/answer\?[^"]*)"/)[1].replaceAll('&#38;', '&');
    return visitor.request(link);
  }

  for (const [what, location, to] of [
    ['beside it', 'thanks.php', 'http://shop.test/cart/7/thanks.php'],
    ['above it', '../thanks?a=1#b', 'http://shop.test/cart/thanks?a=1#b'],
    ['by its query', '?step=3', 'http://shop.test/cart/7/order?step=3'],
    ['by a path', '/thanks', '/thanks'],
    ['by a whole address', 'https://bank.test/pay', 'https://bank.test/pay'],
  ])
    test(`leads where the shop has led, ${what}`, async () => {
      const { status, headers } = await seen(303, { location });
      assert.deepEqual([status, headers.location], [303, to]);
    });

  const AT = 'http://shop.test/cart/7/order?step=2';
  const base = `<base href="${AT}">`;
  const own = (html) => html.replace(/<script src="\/\.paid-once[^>]*><\/script>/, '');
  for (const [what, page, got] of [
    [
      'a whole page',
      '<html><head><link rel="stylesheet" href="a.css"></head><body>Done</body></html>',
      `<html><head>${base}<link rel="stylesheet" href="a.css"></head><body>Done</body></html>`,
    ],
    [
      'one that leaves out its head',
      '<!doctype html><title>x</title><a href="b">b</a>',
      `<!doctype html>${base}<title>x</title><a href="b">b</a>`,
    ],
    [
      'one that has a base of its own',
      '<head><link href="a.css"><base href="../x/"></head>',
      '<head><link href="a.css"><base href="http://shop.test/cart/x/"></head>',
    ],
  ])
    test(`is a page that finds what is beside it: ${what}`, async () => {
      assert.equal(own((await seen(200, {}, page)).text), got);
    });

  test('has forms that go to the address of the page', async () => {
    const { text } = await seen(
      200,
      {},
      '<head></head><form method="post"><button formaction="">Pay</button></form><form method="post" action="x"></form>',
    );
    assert.equal(keysIn(text).length, 1);
    assert.match(text, new RegExp(`<form method="post" action="${AT.replace('?', '\\?')}">`));
    assert.match(text, /<button formaction="http:\/\/shop\.test\/cart\/7\/order\?step=2">/);
    assert.match(text, /<form method="post" action="x">/);
  });

  test('control: at its own address a page stays as it is', async () => {
    shop.answers[PATH] = [200, {}, '<head></head><form><a href="b">b</a></form>'];
    const { text } = await gate.visitor(HOST).post(PATH, { name: 'Ann' });
    delete shop.answers[PATH];
    assert.equal(own(text), '<head></head><form><a href="b">b</a></form>');
  });
});

/** An order of an API that no other test makes, as a client sends it with its key. */
function anOrder() {
  const [path, key] = [`/v1/orders/${(count += 1)}`, `key-${count}`];
  return {
    path,
    send: (headers) =>
      gate.send(HOST, path, {
        method: 'POST',
        headers: {
          authorization: 'Bearer one',
          'content-type': 'application/json',
          'idempotency-key': key,
          ...headers,
        },
        body: '{}',
      }),
  };
}

describe('an answer that is packed', () => {
  const plain = '{"id":7}'.repeat(50);
  for (const [encoding, bytes] of [
    ['deflate', deflateSync(plain)],
    ['zstd', zstdCompressSync(plain)],
    ['x-gzip', gzipSync(plain)],
    ['GZIP', gzipSync(plain)],
    ['gzip, br', brotliCompressSync(gzipSync(plain))],
  ])
    test(`as the runtime does not unpack it keeps its name: ${encoding}`, async () => {
      const { path, send } = anOrder();
      shop.answers[path] = [200, { 'content-type': 'application/json', 'content-encoding': encoding }, bytes];
      for (const replayed of ['false', 'true']) {
        const { headers, bytes: got } = await send({ 'accept-encoding': encoding });
        assert.deepEqual([headers['content-encoding'], headers['idempotent-replayed']], [encoding, replayed]);
        assert.deepEqual(got, bytes);
      }
    });

  test('control: as it does unpack it it comes unpacked', async () => {
    const { path, send } = anOrder();
    shop.answers[path] = [200, { 'content-encoding': 'gzip' }, gzipSync(plain)];
    for (let sent = 0; sent < 2; sent += 1) {
      const { headers, text } = await send();
      assert.deepEqual([headers['content-encoding'], text], [undefined, plain]);
    }
  });
});

describe('an answer that sets a cookie that no script can read', () => {
  const bot = (value) => `__cf_bm=${value}; Path=/; HttpOnly; Secure`;

  /** What is told of the first answer to whoever has got another such cookie since. */
  async function again(cookies, headers) {
    const { path, send } = anOrder();
    shop.answers[path] = [201, { 'set-cookie': bot('of the answer') }];
    const told = [];
    for (const cookie of cookies) told.push((await send({ ...headers, cookie })).status);
    return told;
  }

  test('is for a client with its token, whatever becomes of that cookie', async () => {
    assert.deepEqual(await again(['__cf_bm=a', '__cf_bm=b', '__cf_bm=c; lang=en']), [201, 201, 201]);
    assert.deepEqual(await again(['sessionid=a', 'sessionid=b']), [201, 409], 'a session is one by its name');
  });

  test('control: is for the session of whoever nothing else names', async () => {
    const visitor = `paid_once_visitor=${'a'.repeat(32)}`;
    const cookies = ['a', 'a', 'b'].map((value) => `${visitor}; __cf_bm=${value}`);
    assert.deepEqual(await again(cookies, { authorization: '' }), [201, 201, 409]);
  });
});
