// Somebody in front of a shop behind the gate: clicks twice, goes back, has no JavaScript. The shop's books are the witness.
//
// Other pages to compare:  GATE_CORPUS=/folder/with/html node --test tests/browser/gate.test.mjs

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { inRoot } from '../../scripts/lib/paths.mjs';
import { startGate } from '../worker/support/gate.mjs';
import { until } from '../worker/support/until.mjs';
import { browsers } from './support/browsers.mjs';
import { look } from './support/look.mjs';

const people = browsers();
/** Pages of a folder that are compared at most. */
const PAGES_MAX = 300;

let gate;
let shop;
let count = 0;

before(async () => {
  gate = await startGate({
    '': { forms: ['POST /checkout', 'POST /page'], timeout_ms: 10_000, quiet_ms: 10_010 },
  });
  shop = gate.shop;
});
after(async () => {
  await people.close();
  await gate.close();
});

const someone = () => `Ann ${(count += 1)}`;
const ordersOf = (name) => shop.orders.filter(({ fields }) => fields.name === name).length;

/** A page of the shop with its form, seen through the gate, or without it. */
async function at(t, html, { javaScriptEnabled = true, bypass = false, initScript, ...options } = {}) {
  const context = await people.visit({ javaScriptEnabled, ...options });
  t.after(() => context.close());
  if (initScript) await context.addInitScript(initScript);
  const page = await context.newPage();
  shop.page('/checkout', `<!doctype html><html><head><title>Shop</title></head><body>${html}</body></html>`);
  await page.goto(`${bypass ? shop.origin : gate.runtime.origin.origin}/checkout`);
  return page;
}

const form = (name, button = '<button>Pay</button>') =>
  `<form method="post" action="/checkout"><input name="name" value="${name}">${button}</form>`;
/** What its submit event does. */
const onSubmit = (act) =>
  `<script>document.forms[0].addEventListener('submit', (event) => { ${act} })</script>`;
const keyIn = (page) => page.locator('input[name="paid_once_key"]').inputValue();

for (const javaScriptEnabled of [true, false]) {
  test(`a double click is one order, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async (t) => {
    const name = someone();
    const page = await at(t, form(name), { javaScriptEnabled });
    await page.getByRole('button', { name: 'Pay' }).dblclick({ noWaitAfter: true });
    await page.waitForURL(/\/thanks\//);
    assert.equal(ordersOf(name), 1);
  });
}

/** Who goes back to the form of this page, and sends it once more, has one order. */
async function isOneOrder(t, html, browser) {
  const name = someone();
  const page = await at(t, html(name), browser);
  await pay(page);
  const thanks = page.url();
  await back(page);
  await pay(page);
  assert.equal(page.url(), thanks);
  assert.equal(ordersOf(name), 1);
}

for (const [how, browser] of [
  ['to the page as it was', { backForwardCache: true }],
  ['to the page as it was, without JavaScript', { backForwardCache: true, javaScriptEnabled: false }],
  ['to a page that is loaded again', { backForwardCache: false }],
]) {
  test(`back ${how} and once more is one order`, (t) => isOneOrder(t, form, browser));

  test(`what is edited after going back ${how} is asked about`, async (t) => {
    const name = someone();
    const page = await at(t, form(name), browser);
    await pay(page);
    const thanks = page.url();
    await back(page);
    await page.getByRole('textbox').fill(`${name} edited`);
    await page.getByRole('button', { name: 'Pay' }).click();
    await page.getByRole('link', { name: 'See the answer' }).click();
    await page.waitForURL(thanks);
    assert.deepEqual([ordersOf(name), ordersOf(`${name} edited`)], [1, 0]);
  });
}

for (const [how, initScript] of [
  ['', undefined],
  [', where the browser has no Navigation API', 'delete window.navigation'],
]) {
  test(`a page that is opened again is another order, also after going back to it${how}`, async (t) => {
    const name = someone();
    const page = await at(t, form(name), { backForwardCache: false, initScript });
    const opened = page.url();
    await pay(page);
    await page.goto(opened);
    await page.goto(new URL('/thanks/', opened).href);
    await back(page);
    await pay(page);
    assert.equal(ordersOf(name), 2);
    await back(page);
    await pay(page);
    assert.equal(ordersOf(name), 2);
  });
}

test('back at the page from which something was sent it is the same, whatever was sent from later ones', async (t) => {
  const name = someone();
  const page = await at(t, form(name), { backForwardCache: false });
  const opened = page.url();
  await pay(page);
  await page.goto(opened);
  await pay(page);
  assert.equal(ordersOf(name), 2);
  for (let steps = 0; steps < 3; steps += 1) await page.goBack();
  await page.getByRole('button', { name: 'Pay' }).click();
  // The second order has begun another session.
  await page.getByRole('heading', { name: 'This was sent already' }).waitFor();
  assert.equal(ordersOf(name), 2);
});

for (const [how, action] of [
  ['of one address', () => '/checkout'],
  ['of an address of its own', (name) => `/checkout?item=${encodeURIComponent(name)}`],
])
  test(`a form ${how} does not get the key of one that is gone when the page comes back`, async (t) => {
    const [first, second] = [someone(), someone()];
    const of = (name) => form(name).replace('/checkout', action(name)).replace('Pay', name);
    const page = await at(t, of(first) + of(second), { backForwardCache: false });
    await page.getByRole('button', { name: first }).click();
    await page.waitForURL(/\/thanks\//);
    shop.page('/checkout', `<!doctype html><title>Shop</title>${of(second)}`);
    await back(page);
    await page.getByRole('button', { name: second }).click();
    await page.waitForURL(/\/thanks\//);
    assert.deepEqual([ordersOf(first), ordersOf(second)], [1, 1]);
  });

for (const [how, html] of [
  ['a script sends', (name) => form(name, '<button type="button" onclick="this.form.submit()">Pay</button>')],
  ['keeps its submit event to itself', (name) => form(name) + onSubmit('event.stopPropagation()')],
])
  test(`a form that ${how} is one order, too, when its page is loaded again`, (t) =>
    isOneOrder(t, html, { backForwardCache: false }));

test('what a script has sent is over when its page comes back: it is sent once more', async (t) => {
  const name = someone();
  const send = `event.preventDefault(); fetch('/checkout', { method: 'POST', body: new FormData(event.target) })`;
  const page = await at(t, form(name) + onSubmit(send), { backForwardCache: false });
  const pressed = async () => {
    const key = await keyIn(page);
    await page.getByRole('button', { name: 'Pay' }).click();
    await until('another key', async () => (await keyIn(page)) !== key);
  };
  await pressed();
  await page.goto(new URL('/thanks/', page.url()).href);
  await back(page);
  await pressed();
  assert.equal(ordersOf(name), 2);
});

test('what was edited is sent as new by a button', async (t) => {
  const name = someone();
  const page = await at(t, form(name));
  await pay(page);
  await back(page);
  await page.getByRole('textbox').fill(`${name} edited`);
  await page.getByRole('button', { name: 'Pay' }).click();
  await page.getByRole('button', { name: 'Send it as new' }).dblclick({ noWaitAfter: true });
  await page.waitForURL(/\/thanks\//);
  assert.deepEqual([ordersOf(name), ordersOf(`${name} edited`)], [1, 1]);
});

test('control: without the gate back and once more is two orders', async (t) => {
  const name = someone();
  const page = await at(t, form(name), { bypass: true });
  await pay(page);
  await back(page);
  await pay(page);
  assert.equal(ordersOf(name), 2);
});

test('an answer that was lost is told, with what to do', async (t) => {
  const name = someone();
  const page = await at(t, form(name));
  shop.fault = 'lost';
  await page.getByRole('button', { name: 'Pay' }).click();
  await page.getByRole('heading', { name: 'It is not known whether this arrived' }).waitFor();
  await look(page, 'gate unknown', { title: /It is not known/ });
  // While the shop may still be at work on it, nothing is sent as new.
  const again = page.getByRole('button', { name: /Look again|It did not arrive/ });
  await until('it can be sent as new', async () => {
    assert.equal(ordersOf(name), 1);
    if ((await again.textContent()).includes('It did not arrive')) return true;
    await again.click();
    await page.waitForLoadState();
    return false;
  });
  await again.click();
  await page.waitForURL(/\/thanks\//);
  assert.equal(ordersOf(name), 2);
});

test('the page that asks is good to look at', async (t) => {
  const name = someone();
  const page = await at(t, form(name));
  await pay(page);
  await back(page);
  await page.getByRole('textbox').fill(`${name} edited`);
  await page.getByRole('button', { name: 'Pay' }).click();
  await page.getByRole('heading', { name: 'This form was sent already' }).waitFor();
  await look(page, 'gate differs', { title: /This form was sent already/ });
});

test('a form that a script builds gets a key', async (t) => {
  const name = someone();
  const page = await at(t, '<div id="here"></div>');
  await page.evaluate((html) => (document.getElementById('here').innerHTML = html), form(name));
  await page.locator('input[name="paid_once_key"]').waitFor({ state: 'attached' });
  await page.getByRole('button', { name: 'Pay' }).dblclick({ noWaitAfter: true });
  await page.waitForURL(/\/thanks\//);
  assert.equal(ordersOf(name), 1);
});

for (const [what, made] of [
  ['posts it', '<form action="/checkout">FIELD<button formmethod="post">Pay</button></form>'],
  [
    'says where it goes',
    '<form method="post" action="/search">FIELD<button formaction="/checkout">Pay</button></form>',
  ],
])
  test(`a form that a script builds gets a key for a button that ${what}`, async (t) => {
    const name = someone();
    const page = await at(t, '<div id="here"></div>');
    const html = made.replace('FIELD', `<input name="name" value="${name}">`);
    await page.evaluate((html) => (document.getElementById('here').innerHTML = html), html);
    await page.locator('input[name="paid_once_key"]').waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'Pay' }).dblclick({ noWaitAfter: true });
    await page.waitForURL(/\/thanks\//);
    assert.equal(ordersOf(name), 1);
  });

test('a form whose key does not come at once gets it later', async (t) => {
  const page = await at(t, '<div id="here"></div>');
  const asked = [];
  await page.route('**/.paid-once/key?*', (route) => {
    asked.push(route.request().url());
    if (asked.length === 1) return route.abort();
    return asked.length === 2 ? route.fulfill({ status: 503 }) : route.continue();
  });
  const errors = [];
  page.on('pageerror', (error) => errors.push(error));
  await page.evaluate((html) => (document.getElementById('here').innerHTML = html), form(someone()));
  await page.locator('input[name="paid_once_key"]').waitFor({ state: 'attached' });
  assert.deepEqual([asked.length, errors], [3, []]);
});

test('a copy of a form gets a key of its own', async (t) => {
  const page = await at(t, form(someone()));
  await page.evaluate(() => document.body.append(document.forms[0].cloneNode(true)));
  const keys = () =>
    page.locator('input[name="paid_once_key"]').evaluateAll((all) => all.map(({ value }) => value));
  await until('two keys', async () => new Set(await keys()).size === 2);
});

const asText = (form) => String(new URLSearchParams(new FormData(form)));
const inText = { 'content-type': 'application/x-www-form-urlencoded' };
const SENDERS = {
  'a form by fetch': (form, to) => fetch(to, { method: 'POST', body: new FormData(form) }),
  'a text by fetch': (form, to) => fetch(to, { method: 'POST', body: asText(form), headers: inText }),
  'a text by XMLHttpRequest': (form, to) =>
    new Promise((resolve) => {
      const asked = new XMLHttpRequest();
      asked.open('POST', to);
      asked.setRequestHeader('content-type', inText['content-type']);
      asked.onload = () => resolve(asked);
      asked.send(asText(form));
    }),
  'JSON by fetch': (form, to) =>
    fetch(to, {
      method: 'POST',
      body: JSON.stringify(Object.fromEntries(new FormData(form))),
      headers: { 'content-type': 'application/json' },
    }),
  'a Request of a form': (form, to) => fetch(new Request(to, { method: 'POST', body: new FormData(form) })),
  'a Request of a text': (form, to) =>
    fetch(new Request(to, { method: 'POST', body: asText(form), headers: inText })),
};
/** What the page needs to send in one of these ways. */
const sender = (how) =>
  `<script>var asText = ${asText}, inText = ${JSON.stringify(inText)}, send = ${SENDERS[how]}</script>`;
/** The form's next sendings, all at once: their statuses. */
const sent = (page, to, times = 1) =>
  page.evaluate(
    async ([to, times]) => {
      const all = Array.from({ length: times }, () => send(document.forms[0], to));
      return (await Promise.all(all)).map(({ status }) => status);
    },
    [to, times],
  );

for (const how of Object.keys(SENDERS))
  for (const [answered, to] of [
    ['with a redirect', '/checkout'],
    ['with a page', '/page'],
  ])
    test(`${how} that is sent twice at once, and answered ${answered}, is one order, and later another one`, async (t) => {
      const name = someone();
      const page = await at(t, form(name) + sender(how));
      const first = await keyIn(page);
      assert.deepEqual(await sent(page, to, 2), [200, 200]);
      assert.equal(ordersOf(name), 1);
      await until('another key', async () => (await keyIn(page)) !== first);
      await sent(page, to);
      assert.equal(ordersOf(name), 2);
    });

test('a form with a control that is named method gets keys like any other', async (t) => {
  const name = someone();
  const html = form(name, '<input name="method" value="card"><button>Pay</button>');
  const page = await at(t, `<div id="here"></div>${sender('a form by fetch')}`);
  await page.evaluate((html) => (document.getElementById('here').innerHTML = html), html);
  await page.locator('input[name="paid_once_key"]').waitFor({ state: 'attached' });
  const first = await keyIn(page);
  await sent(page, '/checkout', 2);
  await until('another key', async () => (await keyIn(page)) !== first);
  assert.equal(ordersOf(name), 1);
});

test('what a script sends elsewhere, or what the gate answers itself, leaves the key as it is', async (t) => {
  const name = someone();
  const page = await at(t, form(name) + sender('a text by fetch'), { backForwardCache: false });
  const key = await keyIn(page);
  await pay(page);
  await back(page);
  assert.equal(await keyIn(page), key);
  // Addresses that are none of the gate's: one leads on, and one does not.
  assert.deepEqual([await sent(page, '/v1/validate'), await sent(page, '/validate')], [[201], [200]]);
  // As htmx sends it: the gate's own page comes with 200.
  const told = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const asked = new XMLHttpRequest();
        asked.open('POST', '/checkout');
        for (const [name, value] of Object.entries({ ...inText, accept: 'text/html', 'hx-request': 'true' }))
          asked.setRequestHeader(name, value);
        asked.onload = () => resolve([asked.status, asked.responseText]);
        asked.send(`${asText(document.forms[0])}&more=1`);
      }),
  );
  assert.equal(told[0], 200);
  assert.match(told[1], /This form was sent already/);
  // Once a later one has got another key, theirs would have come.
  await page.evaluate(() => document.body.append(document.forms[0].cloneNode(true)));
  const keys = () =>
    page.locator('input[name="paid_once_key"]').evaluateAll((all) => all.map(({ value }) => value));
  await until('a key of its own', async () => new Set(await keys()).size === 2);
  const [, second] = await keys();
  await page.evaluate(() => send(document.forms[1], '/checkout'));
  await until('another key', async () => (await keys())[1] !== second);
  assert.equal((await keys())[0], key);
});

async function pay(page) {
  await page.getByRole('button', { name: 'Pay' }).click();
  await page.waitForURL(/\/thanks\//);
}

/** Back at the form, once all of it is there. */
async function back(page) {
  await page.goBack({ waitUntil: 'commit' });
  await page.waitForURL(/\/checkout$/, { waitUntil: 'commit' });
  await until('the page is there', () => page.evaluate(() => document.readyState === 'complete'));
}

/** Where a form breaks most easily. */
const PAGES = [
  form('a'),
  `<table><tr><td>${form('a')}</td></tr></table>`,
  '<table><form method="post" action="/checkout"><tr><td><input name="a"></td></tr></form></table>',
  `<p>one${form('a')}two</p>`,
  `<ul><li>${form('a')}<li>${form('b')}</ul>`,
  `<select><option>1</option>${form('a')}</select>`,
  `<svg><g>${form('a')}</g></svg>`,
  `<math><mi>x</mi>${form('a')}</math>`,
  `<svg><foreignObject>${form('a')}</foreignObject></svg>`,
  '<form method="post" action="/checkout"><div><form method="post" action="/checkout"><input></div></form>',
  `<template>${form('a')}</template>`,
  `<noscript>${form('a')}</noscript>`,
  `<textarea>${form('a')}</textarea><title>${form('a')}</title>`,
  '<form method=post action=/checkout><fieldset><legend>x</legend><button>y',
  '<div><form id=f method=post action=/search></form></div><button form=f formaction=/checkout>Pay</button>',
  `<a href=x>link${form('a')}</a><b><i>wrong</b></i>`,
  '<body><form method=post action=/checkout></body></html><form method=post action=/checkout>',
  `<details><summary>x</summary>${form('a')}</details><dialog>${form('b')}</dialog>`,
  `<iframe srcdoc="${form('a').replaceAll('"', '&quot;')}"></iframe>`,
];

test('a parser sees the same page but for the keys', async (t) => {
  const page = await at(t, '<h1>x</h1>');
  const files = process.env.GATE_CORPUS
    ? globSync('**/*.html', { cwd: process.env.GATE_CORPUS }).map((file) =>
        join(process.env.GATE_CORPUS, file),
      )
    : globSync('node_modules/{playwright-core,miniflare,pino}/**/*.html', { cwd: inRoot() }).map((file) =>
        inRoot(file),
      );
  assert.ok(files.length >= 5, `pages of others to compare: ${files}`);
  const step = Math.ceil(files.length / PAGES_MAX);
  const real = await Promise.all(
    files.filter((_, at) => at % step === 0).map((file) => readFile(file, 'utf8')),
  );
  let keys = 0;
  for (const [at, html] of [
    ...PAGES,
    ...real.flatMap((html, seed) => [html, withForms(html, seed)]),
  ].entries()) {
    shop.page('/compared', html);
    const compared = await page.evaluate(async (html) => {
      const rewritten = await (await fetch('/compared')).text();
      const parsed = (text) => new DOMParser().parseFromString(text, 'text/html');
      const [before, after] = [parsed(html), parsed(rewritten)];
      const ours = [
        ...after.querySelectorAll('input[name="paid_once_key"], script[src="/.paid-once/gate.js"]'),
      ];
      for (const template of after.querySelectorAll('template'))
        ours.push(...template.content.querySelectorAll('input[name="paid_once_key"]'));
      for (const element of ours) element.remove();
      const [wanted, found] = [before, after].map((document) => document.documentElement.outerHTML);
      let same = 0;
      while (same < wanted.length && wanted[same] === found[same]) same += 1;
      const around = (text) => text.slice(Math.max(same - 300, 0), same + 300);
      return { keys: ours.length, isSame: wanted === found, difference: [around(wanted), around(found)] };
    }, html);
    keys += compared.keys;
    if (!compared.isSame) assert.equal(compared.difference[1], compared.difference[0], `page ${at}`);
  }
  t.diagnostic(`${PAGES.length} pages of ours and ${real.length} of others, ${keys} keys and scripts`);
  assert.ok(keys > PAGES.length);
});

/** A page of others with forms at places that a dice has chosen: before some of its tags. */
function withForms(html, seed) {
  let dice = seed + 1;
  return html.replace(/<(?!\/|!|html|head)[a-z]/g, (tag) => {
    dice = (dice * 1_103_515_245 + 12_345) % 2 ** 31;
    return dice % 40 === 0 ? `${form('a')}${tag}` : tag;
  });
}
