// What the desk shows of the gate, and how an operator settles what nobody knows the end of.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { send as sendTo, workersWithGate } from './support/gate-site.mjs';
import { startSite } from './support/harness.mjs';
import { key as buttonKey, operator } from './support/operator.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const QUIET_MS = 1500;
/** How long answers of the brief ones are kept. */
const KEEP_MS = 6_000;

/** A shop: it counts what it gets, by Idempotency-Key, and answers as the path says. */
const got = [];
const shop = createServer(async (request, response) => {
  for await (const _ of request);
  got.push({ url: request.url, key: request.headers['idempotency-key'] });
  if (request.url.includes('/lost-')) return request.socket.destroy();
  if (request.url.startsWith('/order/refused')) return response.writeHead(422).end('no');
  response.writeHead(201, { 'content-type': 'text/plain' }).end('ordered');
});
shop.listen(0, '127.0.0.1');
await once(shop, 'listening');
const origin = `http://127.0.0.1:${shop.address().port}`;

const routes = [
  { origin, api: ['POST /order/*'], timeout_ms: 1000, quiet_ms: QUIET_MS },
  { origin, api: ['POST /brief-order/*'], timeout_ms: 1000, quiet_ms: QUIET_MS, keep_ms: KEEP_MS },
  { origin, api: ['POST /long-order/*'], timeout_ms: 1000, quiet_ms: 3_600_000 },
  { origin, api: ['POST /asked/*'], on_unknown: { lookup: 'GET /done?key={key}' }, wait_ms: 300 },
];
const site = await startSite({ workers: workersWithGate(routes, { ADMIN_TOKEN }) });
after(async () => {
  await site.close();
  shop.close();
});
const { look, press, logOf } = operator(site, ADMIN_TOKEN);

let sentAtMs = 0;
const send = (...what) => {
  sentAtMs = Date.now();
  return sendTo(site, ...what);
};
const times = (path) => got.filter(({ url }) => url === path).length;
/** What the read model is told of the newest that was sent, once it says `wanted`. */
const told = (wanted) =>
  until(`the read model says ${wanted}`, async () => {
    const [row] = await site.rows(
      'SELECT * FROM gate_operations WHERE began_at_ms >= ? ORDER BY began_at_ms DESC, number DESC LIMIT 1',
      sentAtMs,
    );
    return row?.state === wanted && row;
  });
const stateOf = async ({ key_hash, number }) =>
  (await site.rows('SELECT * FROM gate_operations WHERE key_hash = ? AND number = ?', key_hash, number))[0];
const pageOf = ({ key_hash, number }) => `/admin/gate/${key_hash}/${number}`;

describe('what was passed on', () => {
  test('is told of when it has ended, with the duplicates that came', async () => {
    const path = `/order/${randomUUID()}`;
    const key = randomUUID();
    await Promise.all([1, 2, 3].map(() => send(path, key)));
    const row = await told('done');
    assert.equal(times(path), 1);
    const { host, route, status, replays, number } = row;
    assert.deepEqual(
      { host, route, status, replays, number },
      { host: 'shop.example', route: 'POST /order/*', status: 201, replays: 2, number: 1 },
    );
    assert.ok(!JSON.stringify(row).includes(path.slice(7)), 'no address is told');
    const page = await look(pageOf(row));
    assert.equal(page.status, 200);
    for (const text of ['done', 'POST /order/*', 'shop.example', 'Origin', 'Answered again', got.at(-1).key])
      assert.ok(page.text.includes(text), text);
    assert.ok(!page.text.includes('It was not done'), 'nothing is to be said');
  });

  test('is found by its reference, and by its state', async () => {
    const lost = `/order/lost-${randomUUID()}`;
    const { reference } = (await send(lost, randomUUID())).json();
    assert.match(reference, /^[0-9A-F]{4}-[0-9A-F]{4}$/);
    const row = await told('unknown');
    for (const query of [`q=${reference}`, `q=${reference}&state=unknown`, 'state=unknown', '']) {
      const list = await look(`/admin/gate?${query}`);
      assert.ok(list.text.includes(pageOf(row)), query);
    }
    for (const query of [`q=${reference}&state=done`, 'q=nothing+of+the+kind', 'state=refused', 'state=done'])
      assert.ok(!(await look(`/admin/gate?${query}`)).text.includes(pageOf(row)), query);
  });

  test('is on the overview, and in the menu', async () => {
    const lost = `/order/lost-${randomUUID()}`;
    await send(lost, randomUUID());
    await told('unknown');
    const { text } = await look('/admin');
    assert.match(text, /of the gate ha(s|ve) an unknown outcome/);
    assert.match(text, /Gate: duplicates stopped/);
    assert.match(text, /href="\/admin\/gate"/);
  });
});

describe('an operator', () => {
  let path, key, row, page;
  before(() => got.splice(0));
  const lose = async (what = 'order') => {
    path = `/${what}/lost-${randomUUID()}`;
    key = randomUUID();
    assert.equal((await send(path, key)).status, 502);
    row = await told('unknown');
    page = await look(pageOf(row));
  };
  const say = (word, note, from = page) => {
    const address = `${pageOf(row)}/${word}`;
    return press(address, { form: buttonKey(from, address), note });
  };
  const outcomes = async () => (await logOf(`${row.key_hash}/${row.number}`)).map(({ outcome }) => outcome);

  test('says that it was done: it is never sent again', async () => {
    await lose();
    assert.ok(page.text.includes(got.at(-1).key), 'the key that the site got');
    const pressed = await say('done', 'order 7 is in the shop');
    assert.equal(pressed.status, 303);
    assert.deepEqual(await outcomes(), ['settled as done']);
    assert.equal((await stateOf(row)).state, 'done');
    const again = await send(path, key);
    assert.equal(again.status, 409);
    assert.match(again.json().type, /already-done/);
    assert.equal(times(path), 1);
    const after = await look(pageOf(row));
    assert.match(after.text, /by hand, [^:<]+: order 7 is in the shop/);
    assert.ok(!after.text.includes('It was not done'), 'it is said once');
  });

  test('says that it was not done: it is sent once more', async () => {
    await lose('long-order');
    const early = await say('not-done', 'the shop was down');
    assert.equal(early.status, 303);
    assert.match((await outcomes())[0], /^refused: the origin may still work on it/);
    assert.equal((await send(path, key)).status, 502);
    assert.equal(times(path), 1, 'nothing has changed');
    await lose();
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    page = await look(pageOf(row));
    const pressed = await Promise.all([1, 2].map(() => say('not-done', 'the shop was down')));
    assert.deepEqual(
      pressed.map(({ status }) => status),
      [303, 303],
    );
    assert.equal((await stateOf(row)).state, 'not_done');
    await send(path, key);
    assert.equal(times(path), 2, 'once more');
    const next = await told('unknown');
    assert.deepEqual([next.key_hash, next.number], [row.key_hash, 2]);
    assert.ok((await look(pageOf(next))).text.includes('number 1'), 'each names the other');
  });

  test('is known to have said it for good, and how they knew it for as long as an answer is kept', async () => {
    await lose('brief-order');
    await say('done', 'order 8 is in the shop');
    const { text } = await look(pageOf(row));
    assert.equal(text.split('order 8 is in the shop').length, 2, 'in no line of its timeline');
    const left = await until('it is forgotten', async () => {
      const after = await look(pageOf(row));
      return !after.text.includes('order 8') && after.text;
    });
    assert.match(left, /done, by hand/);
    assert.match((await send(path, key)).json().type, /expired|already-done/);
    assert.equal(times(path), 1);
  });

  test('says how they know it', async () => {
    await lose();
    for (const note of ['', ' ', 'x'.repeat(301)]) {
      const refused = await say('done', note);
      assert.equal(refused.status, 422, note);
      assert.match(refused.text, /how you know it/);
    }
    assert.deepEqual(await outcomes(), []);
  });

  test('cannot say it of what is known', async () => {
    await lose();
    const both = await look(pageOf(row));
    await say('done', 'it is there');
    await say('not-done', 'it is not there', both);
    const [, second] = await outcomes();
    assert.equal(second, 'refused: it is known meanwhile: done');
    await send(path, key);
    assert.equal(times(path), 1);
  });
});

test('what its visitor would find out can be settled, too', async () => {
  const path = `/asked/${randomUUID()}`;
  // The look-up gets no answer either.
  const listener = shop.listeners('request')[0];
  shop.removeAllListeners('request');
  shop.on('request', (request) => request.socket.destroy());
  const key = randomUUID();
  await send(path, key);
  const row = await told('in_doubt');
  const page = await look(pageOf(row));
  const address = `${pageOf(row)}/done`;
  await press(address, { form: buttonKey(page, address), note: 'it is in the books' });
  assert.equal((await stateOf(row)).state, 'done');
  shop.removeAllListeners('request');
  shop.on('request', listener);
  assert.match((await send(path, key)).json().type, /already-done/);
});

test('a made-up address shows nothing, and makes nothing', async () => {
  for (const path of [
    `/admin/gate/${'0a'.repeat(32)}/1`,
    '/admin/gate/abc/1',
    `/admin/gate/${'0A'.repeat(32)}/1`,
  ])
    assert.equal((await look(path)).status, 404, path);
});

test('what is told late is not told over what came after', async () => {
  const path = `/order/lost-${randomUUID()}`;
  await send(path, randomUUID());
  const row = await told('unknown');
  const page = await look(pageOf(row));
  // Something has been told meanwhile that is newer.
  const of = [row.key_hash];
  await site.rows('UPDATE gate_operations SET version = version + 100 WHERE key_hash = ?', ...of);
  const address = `${pageOf(row)}/done`;
  await press(address, { form: buttonKey(page, address), note: 'it is in the books' });
  assert.ok((await look(pageOf(row))).text.includes('it is in the books'));
  const [kept] = await site.rows('SELECT state FROM gate_operations WHERE key_hash = ?', ...of);
  assert.equal(kept.state, 'unknown');
  await site.rows("UPDATE gate_operations SET state = 'done' WHERE key_hash = ?", ...of);
});
