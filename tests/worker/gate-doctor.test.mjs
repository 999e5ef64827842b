// The doctor of a gate: it says what is missing, and finds nothing where nothing is.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';

import { examine } from '../../scripts/lib/gate-doctor.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { startGate } from './support/gate.mjs';

const FORM =
  '<form method="post" action="/checkout"><input name="name" value="Ann"><input type="checkbox" name="x"></form>';
let gate;
let shop;

before(async () => {
  gate = await startGate({
    '': { forms: ['POST /checkout', 'POST /shown', 'POST /forbidden', 'POST /elsewhere'] },
  });
  shop = gate.shop;
});
after(() => gate.close());

/** What the doctor complains of at a page. */
async function complaints(html, { headers, fields, path = '/checkout' } = {}) {
  shop.page(path, html, { headers });
  const lines = await examine(new URL(path, gate.runtime.origin), { fields });
  return lines.filter(({ ok }) => !ok).map(({ says }) => says);
}

test('a gate that does what it should is in order', async () => {
  assert.deepEqual(await complaints(FORM), []);
  const before = shop.orders.length;
  assert.deepEqual(await complaints(FORM, { fields: { name: 'Bob' } }), []);
  assert.equal(shop.orders.length, before + 1);
  assert.deepEqual(shop.orders.at(-1).fields, { name: 'Bob' });
});

test('a form is sent as its page says, with all that it has', async () => {
  const form = `<table><form method="post" action="/checkout" enctype="multipart/form-data"><tr><td><textarea name="note">
one &amp; two</textarea><select name="size"><option>S</option><option selected value="m">M</option></select><input type="file" name="picture">
<button name="go" value="1">Pay</button></td></tr></form></table>`;
  const before = shop.orders.length;
  assert.deepEqual(await complaints(form, { fields: { name: 'Cleo' } }), []);
  assert.equal(shop.orders.length, before + 1);
  const { fields } = shop.orders.at(-1);
  assert.deepEqual(fields, { note: 'one & two', size: 'm', picture: '', go: '1', name: 'Cleo' });
  const { headers, body } = shop.requests.at(-1);
  assert.match(headers['content-type'], /^multipart\/form-data; boundary=/);
  assert.match(String(body), /name="picture"; filename=""\r\nContent-Type: application\/octet-stream\r\n/);
});

for (const [what, html, options, expected] of [
  ['a form that is not named', FORM.replace('/checkout', '/cart'), {}, /add "POST \/cart" to `forms`/],
  [
    'a form past the gate',
    FORM.replace('/checkout', 'https://shop.example/checkout'),
    {},
    /goes to shop\.example, past the gate/,
  ],
  ['a form that logs in', FORM.replace('name="name"', 'name="p" type="password"'), {}, /takes a password/],
  [
    'a form that is sent as text',
    FORM.replace('<form', '<form enctype="text/plain"'),
    { fields: {} },
    /text\/plain, where the gate finds no key/,
  ],
  [
    'a page that shows the form again',
    FORM.replace('/checkout', '/shown'),
    { fields: { name: '' } },
    /shows the form again.*done = "redirect"/,
  ],
  ['a form that only stands in a comment', `<!-- ${FORM} -->`, {}, /no form that posts/],
  ['a page without a form', '<h1>About</h1>', {}, /no form that posts/],
  ['a strict policy', FORM, { headers: { 'content-security-policy': "script-src 'none'" } }, /script-src/],
  ['fields that are refused', FORM, { fields: { name: '' } }, /answered 422: give fields/],
]) {
  test(`it tells of ${what}`, async () => {
    const said = await complaints(html, options);
    assert.equal(said.length, 1, said.join('\n'));
    assert.match(said[0], expected);
  });
}

test('it tells of a shop that refuses another host, leads past the gate, or sets cookies of its own host', async () => {
  const at = (path) => FORM.replace('/checkout', path);
  shop.answers = {
    '/forbidden': [403, {}],
    '/elsewhere': [
      303,
      { location: 'https://shop.example/thanks', 'set-cookie': 'a=1; Domain=shop.example' },
    ],
  };
  const refused = await complaints(at('/forbidden'), { fields: {}, path: '/form-1' });
  assert.match(refused.join('\n'), /the shop refuses forms of 127\.0\.0\.1/);
  const led = await complaints(at('/elsewhere'), { fields: {}, path: '/form-2' });
  assert.deepEqual(led.length, 2, led.join('\n'));
  assert.match(led[0], /leads to shop\.example/);
  assert.match(led[1], /cookie a is of shop\.example/);
  shop.answers['/elsewhere'] = [307, { location: 'https://shop.example/checkout' }];
  const [sentOn, ...more] = await complaints(at('/elsewhere'), { fields: {}, path: '/form-3' });
  assert.match(sentOn, /answered 502.*leads the form on to another host by 307 or 308/);
  assert.deepEqual(more, []);
  shop.answers = {};
});

test('of an order whose answer was lost it does not say to try again', async () => {
  shop.fault = 'lost';
  const before = shop.orders.length;
  const [said, ...more] = await complaints(FORM, { fields: { name: 'Ida' } });
  assert.equal(shop.orders.length, before + 1);
  assert.deepEqual(more, []);
  assert.match(
    said,
    /answered 502: nobody knows whether it was done.*the gate's reference is [0-9A-F]{4}-[0-9A-F]{4}/,
  );
});

test('it tells where there is no gate', async () => {
  const lines = await examine(`${shop.origin}/checkout`);
  assert.match(lines[0].says, /No gate answers/);
});

test('its command ends with 1 where something is missing', async () => {
  shop.page('/checkout', FORM);
  const run = (...args) =>
    new Promise((resolve) => {
      execFile(process.execPath, [inRoot('scripts', 'gate-doctor.mjs'), ...args], (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, text: stdout + stderr }),
      );
    });
  const good = await run(String(new URL('/checkout', gate.runtime.origin)), 'name=Eve');
  assert.equal(good.code, 0, good.text);
  assert.match(good.text, /✓ The form to \/checkout was answered 303/);
  const wordless = await run('localhost:8793/checkout');
  assert.deepEqual([wordless.code, /Name a page with a form/.test(wordless.text)], [1, true], wordless.text);
  const bad = await run(`${shop.origin}/checkout`);
  assert.equal(bad.code, 1);
  assert.match(bad.text, /✗ No gate answers/);
  assert.equal((await run('checkout')).code, 1);
});
