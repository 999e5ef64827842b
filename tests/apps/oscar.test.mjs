// django-oscar as it comes from PyPI, behind the gate and without it: what stands in its own database.
//
//     npm run gate:apps

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { setUpPython } from '../../scripts/setup/python.mjs';
import { startGate, visitorOf } from '../worker/support/gate.mjs';
import { formOf, open } from './support/page.mjs';
import { freePort } from './support/port.mjs';
import { startWire } from './support/wire.mjs';

const FOLDER = inRoot('tests', 'apps', 'oscar');
const forms = ['POST /catalogue/*/reviews/add/', 'POST /checkout/preview/', 'POST /admin/sites/site/add/'];

let shop;
let gate;
let wire;
let product;
let count = 0;

before(async () => {
  shop = await startOscar();
  wire = await startWire(shop.origin);
  const route = { origin: wire.origin.origin, forms, preset: 'django' };
  // It has a page that only who has ordered sees.
  const on_unknown = { lookup: 'GET /checkout/thank-you/' };
  gate = await startGate({ 'shop.test': route, 'asks.test': { ...route, on_unknown } });
});
after(async () => {
  await gate?.close();
  wire?.close();
  shop?.stop();
});

async function startOscar() {
  const bin = await setUpPython('oscar', join(FOLDER, 'requirements.txt'));
  const home = temporaryDirectory('oscar');
  const env = { ...process.env, SHOP_HOME: home, PYTHONDONTWRITEBYTECODE: '1' };
  const prepared = spawnSync(join(bin, 'python'), ['prepare.py'], { cwd: FOLDER, env, encoding: 'utf8' });
  assert.equal(prepared.status, 0, prepared.stderr);
  product = prepared.stdout.trim().split('\n').at(-1);
  const port = await freePort();
  const args = ['shop.wsgi', '--bind', `127.0.0.1:${port}`, '--workers', '3', '--threads', '2'];
  const origin = new URL(`http://127.0.0.1:${port}`);
  let server;
  const start = async () => {
    server = spawn(join(bin, 'gunicorn'), [...args, '--log-level', 'error'], {
      cwd: FOLDER,
      env,
      // It tells of what the control does to it.
      stdio: 'ignore',
      // A group of its own: a kill takes the workers, too.
      detached: true,
    });
    while (!(await fetch(new URL(product, origin)).catch(() => undefined))?.ok) await pause(100);
  };
  await start();
  const books = new DatabaseSync(join(home, 'shop.sqlite3'), { readOnly: true });
  return {
    origin,
    /** The number that a query gives, in the shop's own database. */
    count: (sql, ...values) => Object.values(books.prepare(sql).get(...values))[0],
    start,
    /** kill -9, of all of its processes. */
    async kill() {
      process.kill(-server.pid, 'SIGKILL');
      await once(server, 'exit');
    },
    stop() {
      books.close();
      process.kill(-server.pid, 'SIGKILL');
    },
  };
}

/** Sends a form five times at once and once more. Gives where each of them has led to. */
async function hammer(visitor, { path, fields }) {
  const send = () => visitor.another().post(path, fields);
  const answers = await Promise.all([1, 2, 3, 4, 5].map(send));
  answers.push(await send());
  return answers.map(({ status, headers }) => `${status} ${headers.location ?? ''}`);
}

const someone = () => `ann${(count += 1)}@shop.test`;
const people = [
  ['without the gate', () => visitorOf(wire.origin), 6],
  ['behind the gate', () => gate.visitor('shop.test'), 1],
];

/** The form of a review, filled in. */
async function review(visitor, email) {
  const page = await open(visitor, `${product}reviews/add/`);
  const form = formOf(page.text, (text) => text.includes('add_review_form'), page.path);
  Object.assign(form.fields, { title: 'Good', score: '5', body: 'I like it.', name: 'Ann', email });
  return form;
}

const reviewsOf = (email) => shop.count('SELECT COUNT(*) FROM reviews_productreview WHERE email = ?', email);

for (const [where, visitor, expected] of people) {
  test(`a review that is sent six times stands there ${expected} times, ${where}`, async () => {
    const ann = visitor();
    const email = someone();
    const form = await review(ann, email);
    const answers = await hammer(ann, form);
    assert.ok(
      answers.every((answer) => answer.startsWith('302')),
      answers.join('\n'),
    );
    assert.equal(reviewsOf(email), expected);
  });

  for (const fault of ['lost', 'half', 'gateway']) {
    const times = expected === 1 ? 1 : 4;
    test(`a review whose answer is ${fault}, tried four times, stands there ${times} times, ${where}`, async () => {
      const ann = visitor();
      const email = someone();
      const { path, fields } = await review(ann, email);
      const told = [];
      for (let tried = 0; tried < 4; tried += 1) {
        wire.fault = fault;
        told.push(await ann.post(path, fields).catch(() => undefined));
      }
      wire.fault = undefined;
      assert.equal(reviewsOf(email), times);
      if (times === 1)
        for (const { text } of told) assert.match(text, /It is not known whether this arrived/);
    });
  }

  test(`what an operator adds six times is added ${expected === 1 ? 'once' : 'or refused each time'}, ${where}`, async () => {
    const operator = visitor();
    const login = await open(operator, '/admin/login/');
    const enter = formOf(login.text, (text) => text.includes('password'), '/admin/login/');
    Object.assign(enter.fields, { username: 'operator', password: 'a password of a test' });
    assert.equal((await operator.post(enter.path, enter.fields)).status, 302);
    const page = await open(operator, '/admin/sites/site/add/');
    const form = formOf(page.text, (text) => text.includes('site_form'), page.path);
    const domain = `shop${(count += 1)}.test`;
    Object.assign(form.fields, { domain, name: 'Shop' });
    const answers = await hammer(operator, form);
    // The domain is unique there: only what the others are told differs.
    assert.equal(shop.count('SELECT COUNT(*) FROM django_site WHERE domain = ?', domain), 1);
    const led = answers.filter((answer) => answer.startsWith('302')).length;
    assert.equal(led, expected === 1 ? 6 : 1, answers.join('\n'));
  });
}

/** A guest with a mug in the basket and an address, at the last page before the order. */
async function atPreview(guest, email) {
  const mug = await open(guest, product);
  const add = formOf(mug.text, (text) => text.includes('add_to_basket_form'), product);
  await guest.post(add.path, add.fields);
  const begin = await open(guest, '/checkout/');
  const who = formOf(begin.text, (text) => text.includes('name="options"'), begin.path);
  await guest.post(who.path, { ...who.fields, username: email, options: 'anonymous' });
  const where = await open(guest, '/checkout/shipping-address/');
  const address = formOf(where.text, (text) => text.includes('name="postcode"'), where.path);
  const lines = {
    first_name: 'Ann',
    last_name: 'Lee',
    line1: '1 Road',
    line4: 'London',
    postcode: 'N1 9GU',
    country: 'GB',
  };
  await guest.post(address.path, { ...address.fields, ...lines });
  await open(guest, '/checkout/shipping-method/');
  await open(guest, '/checkout/payment-method/');
  const preview = await open(guest, '/checkout/preview/');
  return formOf(preview.text, (text) => text.includes('place_order'), preview.path);
}

for (const [where, visitor, expected] of people) {
  test(`an order that is placed six times is paid ${expected === 1 ? 'once' : 'several times'}, ${where}`, async () => {
    const placed = async () => {
      const email = someone();
      const guest = visitor();
      const answers = await hammer(guest, await atPreview(guest, email));
      assert.equal(shop.count('SELECT COUNT(*) FROM order_order WHERE guest_email = ?', email), 1);
      return {
        answers,
        payments: shop.count('SELECT COUNT(*) FROM books_payment WHERE email = ?', email),
      };
    };
    if (expected === 1) {
      const { answers, payments } = await placed();
      assert.equal(payments, 1);
      assert.deepEqual([...new Set(answers)], ['302 /checkout/thank-you/']);
      return;
    }
    // The shop's processes race for it: on a busy machine one may have done it before the next one begins.
    for (let tried = 0; tried < 10; tried += 1) if ((await placed()).payments > 1) return;
    assert.fail('none of ten orders was paid twice');
  });
}

test('the gate is killed in the middle of an order, and the guest tries again', async () => {
  for (const afterMs of [0, 5, 10, 20, 40, 80]) {
    const guest = gate.visitor('shop.test');
    const email = someone();
    const { path, fields } = await atPreview(guest, email);
    const first = guest.post(path, fields).catch(() => 'killed');
    await pause(afterMs);
    await gate.runtime.kill();
    await first;
    await gate.runtime.start();
    for (let tried = 0; tried < 3; tried += 1) {
      const { status, headers } = await guest.post(path, fields);
      assert.ok(
        status === 502 || headers.location === '/checkout/thank-you/',
        `${status} after ${afterMs} ms`,
      );
    }
    const payments = shop.count('SELECT COUNT(*) FROM books_payment WHERE email = ?', email);
    assert.ok(payments <= 1, `${payments} payments, killed after ${afterMs} ms`);
  }
});

test('the shop is killed in the middle of an order, and the guest tries again', async () => {
  for (const afterMs of [0, 10, 20, 40, 80, 160]) {
    const guest = gate.visitor('shop.test');
    const email = someone();
    const { path, fields } = await atPreview(guest, email);
    const first = guest.post(path, fields);
    await pause(afterMs);
    await shop.kill();
    const told = [await first];
    await shop.start();
    for (let tried = 0; tried < 3; tried += 1) told.push(await guest.post(path, fields));
    for (const { status, headers } of told)
      assert.ok(
        status === 502 || headers.location === '/checkout/thank-you/',
        `${status} after ${afterMs} ms`,
      );
    const payments = shop.count('SELECT COUNT(*) FROM books_payment WHERE email = ?', email);
    assert.ok(payments <= 1, `${payments} payments, killed after ${afterMs} ms`);
  }
});

test('an order whose answer is lost is found by the page that only who has ordered sees', async () => {
  const guest = gate.visitor('asks.test');
  const email = someone();
  const { path, fields } = await atPreview(guest, email);
  wire.fault = 'lost';
  const answer = await guest.post(path, fields);
  assert.equal(answer.status, 200, answer.text);
  assert.match(answer.text, /Your order has been placed/);
  assert.equal(shop.count('SELECT COUNT(*) FROM books_payment WHERE email = ?', email), 1);
});
