// The gate where something goes wrong between it and the shop: answers that are lost or late, uploads that break off, and kill -9.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { customers, keysIn, startGate } from './support/gate.mjs';
import { until } from './support/until.mjs';

const forms = ['POST /checkout'];
const QUIET_MS = 5_010;
const HOSTS = {
  'shop.test': { forms },
  'replay.test': { forms, on_unknown: 'replay' },
  'lookup.test': { forms, on_unknown: { lookup: 'GET /orders?key={key}' }, timeout_ms: 1500, quiet_ms: 1510 },
  'late.test': { forms, timeout_ms: 5_000, quiet_ms: QUIET_MS },
  'maintained.test': { forms, not_taken: [503] },
  'edited.test': { forms, edited: 'new' },
  'asking.test': { forms, edited: 'ask' },
  'slow.test': { forms, timeout_ms: 400, wait_ms: 200 },
  // Nobody listens there.
  'dead.test': { forms, origin: 'http://127.0.0.1:9' },
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

for (const fault of ['lost', 'half', 'gateway', 'cache']) {
  test(`an answer that is ${fault} is unknown, and is not sent again`, async () => {
    const { visitor, key } = await atCheckout();
    const name = someone();
    shop.fault = fault;
    const answers = [];
    for (let sent = 0; sent < 4; sent += 1) {
      answers.push(await visitor.post('/checkout', { paid_once_key: key, name }));
    }
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [502]);
    const references = answers.map(({ text }) => text.match(/<strong>([0-9A-F]{4}-[0-9A-F]{4})/)?.[1]);
    assert.equal(new Set(references).size, 1);
    assert.match(answers[0].text, /It is not known whether this arrived/);
    assert.equal(ordersOf(name).length, 1);
    // The operator finds it by what the person reads out.
    assert.ok(gate.lines.some((line) => line.reference === references[0] && line.outcome === 'unknown'));
    // Something else under the same key is not sent either.
    const other = await visitor.post('/checkout', { paid_once_key: key, name: `${name} edited` });
    assert.equal(other.status, 502);
    assert.equal(ordersOf(`${name} edited`).length, 0);
  });
}

test('what nobody knows is sent as new by a button, once the shop cannot be at work on it any more', async () => {
  const { visitor, key } = await atCheckout('late.test');
  const name = someone();
  const send = (key) => visitor.post('/checkout', { paid_once_key: key, name });
  const sentAtMs = Date.now();
  shop.fault = 'lost';
  const lost = await send(key);
  assert.match(lost.text, /look again in [0-9]+ seconds/);
  assert.match(lost.text, /Look again<\/button>/);
  let told = lost;
  while (keysIn(told.text)[0] === key) {
    assert.equal(told.status, 502);
    assert.equal(ordersOf(name).length, 1, 'the button only looks');
    told = await send(key);
  }
  // The gate's clock is this machine's; the send was later than this.
  assert.ok(Date.now() - sentAtMs >= QUIET_MS);
  assert.doesNotMatch(told.text, /look again/i);
  assert.match(told.text, /It did not arrive: send it as new/);
  assert.equal((await send(keysIn(told.text)[0])).status, 303);
  assert.equal(ordersOf(name).length, 2);
});

test('of a shop that cannot be reached who wants a page is told so, and who has sent something that nobody knows', async () => {
  const visitor = gate.visitor('dead.test');
  const page = await visitor.request('/');
  assert.equal(page.status, 503);
  assert.match(page.text, /The site could not be reached/);
  assert.doesNotMatch(page.text, /sen[dt]/, 'nobody has');
  const passed = await visitor.post('/search', { q: 'mug' });
  assert.equal(passed.status, 503);
  assert.match(passed.text, /it is not known whether it arrived/);
});

test('where a shop says by 503 that it has not taken it, the same is sent again', async () => {
  const { visitor, key } = await atCheckout('maintained.test');
  const name = someone();
  shop.fault = 'busy';
  const busy = await visitor.post('/checkout', { paid_once_key: key, name });
  assert.deepEqual([busy.status, busy.text], [503, 'busy']);
  assert.equal((await visitor.post('/checkout', { paid_once_key: key, name })).status, 303);
  assert.equal(ordersOf(name).length, 1);
});

test('a shop that honours our key is asked again', async () => {
  const { visitor, key } = await atCheckout('replay.test');
  const name = someone();
  shop.fault = 'lost';
  const send = () => visitor.post('/checkout', { paid_once_key: key, name });
  let answer = await send();
  for (let sent = 0; answer.status !== 303 && sent < 50; sent += 1) answer = await send();
  assert.equal(answer.status, 303);
  const keys = ordersOf(name).map((order) => order.key);
  assert.deepEqual([keys.length, new Set(keys).size], [2, 1]);
});

test('a shop that can be asked tells what became of it', async () => {
  const { visitor, key } = await atCheckout('lookup.test');
  const name = someone();
  shop.fault = 'lost';
  const send = () => visitor.post('/checkout', { paid_once_key: key, name });
  const answer = await until('it is found', async () => {
    const answer = await send();
    return answer.status === 200 && answer;
  });
  assert.equal(answer.text, 'your orders');
  assert.equal(ordersOf(name).length, 1);
  const asked = shop.requests.findLast(({ url }) => url.startsWith('/orders?key='));
  assert.equal(asked.url, `/orders?key=${ordersOf(name)[0].key}`);
  assert.match(asked.headers.cookie, /sessionid=first/);
});

test('what a shop does not show is sent again only once that is certain', async () => {
  const { visitor, key } = await atCheckout('lookup.test');
  const name = someone();
  shop.fault = 'dropped';
  const statuses = [];
  const sentBefore = shop.requests.length;
  await until('it is sent again', async () => {
    statuses.push((await visitor.post('/checkout', { paid_once_key: key, name })).status);
    return statuses.at(-1) === 303;
  });
  // It waits, it says that nothing was sent, and then it is sent.
  assert.deepEqual(statuses.slice(-2), [503, 303]);
  assert.equal(ordersOf(name).length, 1);
  const since = shop.requests.slice(sentBefore);
  const second = since.findLastIndex(({ method }) => method === 'POST');
  assert.ok(since.slice(0, second).some(({ url }) => url.startsWith('/orders?key=')));
});

test('a duplicate waits, and is told when it takes too long', async () => {
  const { visitor, key } = await atCheckout('slow.test');
  const name = someone();
  const release = shop.hold();
  const before = shop.requests.filter(({ method }) => method === 'POST').length;
  const first = visitor.post('/checkout', { paid_once_key: key, name });
  await shop.reached(before + 1, 'POST');
  const second = await visitor.post('/checkout', { paid_once_key: key, name });
  assert.equal(second.status, 409);
  assert.match(second.text, /It is on its way/);
  assert.equal(second.headers['retry-after'], '1');
  assert.deepEqual(keysIn(second.text), [key]);
  // The shop takes longer than it may: that is unknown, whatever it does afterwards.
  assert.equal((await first).status, 502);
  release();
  assert.equal((await visitor.post('/checkout', { paid_once_key: key, name })).status, 502);
});

/** A form with a large file: `boundary` as each sending has another one. */
function upload(key, name, { boundary, bytes = 50 << 20, fill = 'x' }) {
  const part = (head, content) => [
    `--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`,
    content,
    '\r\n',
  ];
  const body = [
    ...part('name="paid_once_key"', key),
    ...part('name="name"', name),
    ...part('name="file"; filename="a.bin"', Buffer.alloc(bytes, fill)),
    `--${boundary}--\r\n`,
  ];
  return {
    method: 'POST',
    body: Buffer.concat(body.map((part) => Buffer.from(part))),
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  };
}

test('a body of 50 MB is one order, too, and is not held in memory', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const send = (boundary, more) =>
    visitor.another().request('/checkout', upload(key, name, { boundary, ...more }));
  // What it takes once, however often they come.
  const warm = await atCheckout();
  await warm.visitor.request('/checkout', upload(warm.key, someone(), { boundary: 'aaaa0' }));
  const before = residentMb(gate.runtime.pid);
  // Who waits for the other one longer than the gate lets them, as on a slow machine, sends again.
  const answered = (boundary) =>
    until('it is answered', async () => {
      const answer = await send(boundary);
      return answer.status !== 409 && answer;
    });
  const answers = await Promise.all([answered('aaaa1'), answered('aaaa2')]);
  answers.push(await answered('aaaa3'));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [303, 303, 303],
  );
  assert.equal(new Set(answers.map(({ headers }) => headers.location)).size, 1);
  assert.equal(ordersOf(name).length, 1);
  // The shop has got it whole, with its length, and without the key.
  const { headers, body } = shop.requests.findLast(({ method }) => method === 'POST');
  assert.equal(Number(headers['content-length']), body.length);
  assert.equal(headers['transfer-encoding'], undefined);
  assert.ok(body.length > 50 << 20 && !body.includes('paid_once_key'));
  const grown = residentMb(gate.runtime.pid) - before;
  assert.ok(grown < 100, `${grown} MB more for three of 50 MB, two at once`);
  // Another length, or another beginning, is another form.
  assert.equal((await send('aaaa4', { bytes: (50 << 20) + 1 })).status, 422);
  assert.equal((await send('aaaa5', { fill: 'y' })).status, 422);
  assert.equal(ordersOf(name).length, 1);
});

test('an upload that breaks off was not sent, and the whole one is', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const whole = upload(key, name, { boundary: 'bbbb1', bytes: 20 << 20 });
  const over = new AbortController();
  const before = shop.requests.length;
  const broken = visitor
    .request('/checkout', {
      ...whole,
      headers: { ...whole.headers, 'content-length': String(whole.body.length) },
      body: whole.body.subarray(0, 10 << 20),
      ends: false,
      signal: over.signal,
    })
    .catch(() => 'given up');
  await until('the shop is reached', () => shop.begun > before);
  over.abort();
  assert.equal(await broken, 'given up');
  let answer;
  await until('it is sent again', async () => {
    answer = await visitor.request('/checkout', upload(key, name, { boundary: 'bbbb2', bytes: 20 << 20 }));
    return answer.status === 303;
  });
  assert.equal(ordersOf(name).length, 1);
});

/** What a process has of the machine's memory, in MB. */
const residentMb = (pid) =>
  Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

test('the gate killed in the middle does not send it again', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const release = shop.hold();
  const before = shop.requests.filter(({ method }) => method === 'POST').length;
  const first = visitor.post('/checkout', { paid_once_key: key, name }).catch(() => 'killed');
  await shop.reached(before + 1, 'POST');
  await gate.runtime.kill();
  assert.equal(await first, 'killed');
  release();
  await gate.runtime.start();
  for (let sent = 0; sent < 3; sent += 1) {
    assert.equal((await visitor.post('/checkout', { paid_once_key: key, name })).status, 502);
  }
  assert.equal(ordersOf(name).length, 1);
});

test('what was answered before the gate was killed is answered after it', async () => {
  const { visitor, key } = await atCheckout();
  const name = someone();
  const first = await visitor.post('/checkout', { paid_once_key: key, name });
  await gate.runtime.kill();
  await gate.runtime.start();
  const again = await visitor.post('/checkout', { paid_once_key: key, name });
  assert.deepEqual([again.status, again.headers.location], [303, first.headers.location]);
  assert.equal(ordersOf(name).length, 1);
});

for (const host of ['edited.test', 'asking.test'])
  test(`what was sent stays the same when another field is ignored from then on: ${host}`, async () => {
    const { visitor, key } = await atCheckout(host);
    const name = someone();
    const form = { paid_once_key: key, name, seal: 'of the page' };
    const first = await visitor.post('/checkout', form);
    const incomplete = { ...form, paid_once_key: await visitor.key('/checkout'), name: '' };
    assert.equal((await visitor.post('/checkout', incomplete)).status, 422);
    await gate.deploy({ ...HOSTS, [host]: { ...HOSTS[host], ignore: ['seal'] } });
    const again = await visitor.post('/checkout', form);
    assert.deepEqual([again.status, again.headers.location], [303, first.headers.location]);
    assert.equal(ordersOf(name).length, 1);
    // What the shop has refused may be corrected all the same.
    assert.equal((await visitor.post('/checkout', { ...incomplete, name: someone() })).status, 303);
    await gate.deploy(HOSTS);
  });

test('a form is passed on under its key alone, also where the secret that has signed it is gone', async () => {
  const { visitor, key } = await atCheckout();
  const [done, open] = [someone(), someone()];
  const first = await visitor.post('/checkout', { paid_once_key: key, name: done });
  const unsent = await visitor.key('/checkout');
  await gate.deploy(HOSTS, { vars: { SIGNING_KEY: 'another-signing-key-for-the-gate-long-enough' } });
  const again = await visitor.post('/checkout', { paid_once_key: key, name: done });
  assert.deepEqual([again.status, again.headers.location], [303, first.headers.location]);
  assert.equal(ordersOf(done).length, 1);
  // One that was not sent is asked for once more, with all that was filled in.
  const old = await visitor.post('/checkout', { paid_once_key: unsent, name: open });
  assert.equal(old.status, 409);
  assert.equal(ordersOf(open).length, 0);
  const [fresh] = keysIn(old.text);
  assert.equal((await visitor.post('/checkout', { paid_once_key: fresh, name: open })).status, 303);
  assert.equal(ordersOf(open).length, 1);
  await gate.deploy(HOSTS);
});
