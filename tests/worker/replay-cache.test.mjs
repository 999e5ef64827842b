// Replays that are answered at the edge, from a copy: the same answer, to the same owner only, and not after it is dropped. The very same request
// is then answered without being read; where there is no copy, by what the object recalls.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { DECLINED_USER, USER, account, freshKey, read } from './support/account.mjs';
import { startWithObjectsOfBefore } from './support/changed.mjs';
import { demoWorkers, root, startSite } from './support/harness.mjs';
import { AT_ONCE, PAYMENT } from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { begin, declared } from './support/raw.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'an-operators-token-that-is-long-enough';
const secrets = { ADMIN_TOKEN };
const on = { REPLAY_CACHE_MS: '60000' };
const operator = { authorization: `Bearer ${ADMIN_TOKEN}` };

/** What an act is answered, whether an edge has answered it from a copy, and whether that did not even read it. */
const watching = (site) => {
  const copies = async () =>
    parse(await (await site.fetch('/metrics', { headers: operator })).text()).sum('edge_replays_total');
  return async (act) => {
    const [before, unread] = [await copies(), verbatim(site).length];
    const answer = await act();
    return { answer, atEdge: (await copies()) > before, verbatim: verbatim(site).length > unread };
  };
};

/** The lines of requests that were answered without being read. */
const verbatim = (site) =>
  site
    .logs()
    .filter(({ message }) => message.includes('"verbatim":true'))
    .map(({ message }) => JSON.parse(message));

const EXPIRED = [409, '/problems/idempotency-key-expired'];
const refusal = (answer) => [answer.status, answer.json().type];

describe('a copy at the edge', async () => {
  const site = await startSite({ vars: on, secrets });
  const user = account(site);
  const watched = watching(site);
  after(() => site.close());
  afterEach(() => site.simulator.calm());

  /** A payment, and what it is asked and answered. */
  async function paid() {
    const key = freshKey();
    const again = (payment = PAYMENT, client = user) => client.pay(payment, key);
    const first = await again();
    assert.equal(first.status, 201, first.text);
    return { key, again, first, id: first.json().id };
  }

  /** The second time at the latest it is not even read. */
  async function isCopied(again, first) {
    for (const wanted of [undefined, true]) {
      const { answer, atEdge, verbatim } = await watched(again);
      assert.deepEqual([answer.status, answer.bytes], [first.status, first.bytes]);
      assert.ok(atEdge, 'control: there was a copy');
      assert.equal(verbatim, wanted ?? verbatim);
    }
  }

  test('answers byte for byte, and says that it is a replay', async () => {
    const { again, first } = await paid();
    const { answer, atEdge } = await watched(again);
    assert.ok(atEdge);
    assert.deepEqual([answer.status, answer.bytes], [201, first.bytes]);
    const headers = ['idempotent-replayed', 'original-request', 'location', 'content-type'];
    assert.deepEqual(
      headers.map((name) => answer.header(name)),
      ['true', ...headers.slice(1).map((name) => first.header(name))],
    );
    assert.notEqual(answer.header('request-id'), first.header('request-id'));
  });

  test('answers for an operation that runs elsewhere, and for a payment that was declined', async () => {
    const { id } = await paid();
    const key = freshKey();
    const refund = () => user.post(`/payments/${id}/refunds`, { amount: 100 }, key);
    await isCopied(refund, await refund());
    const declined = freshKey();
    const decline = () => account(site, DECLINED_USER).pay(PAYMENT, declined);
    const first = await decline();
    assert.equal(first.status, 402);
    await isCopied(decline, first);
  });

  test('leaves another request under the key to its object', async () => {
    const { again, first } = await paid();
    const { answer, atEdge } = await watched(() => again({ ...PAYMENT, amount: 2600 }));
    assert.equal(atEdge, false);
    assert.deepEqual([answer.status, answer.json().fields], [422, ['amount']]);
    await isCopied(again, first);
  });

  test('is for its account alone', async () => {
    const { again, first } = await paid();
    const { answer, atEdge } = await watched(() => again(PAYMENT, account(site, DECLINED_USER)));
    assert.deepEqual([answer.status, answer.header('idempotent-replayed'), atEdge], [402, null, false]);
    assert.equal((await again(PAYMENT, account(site, 'nobody@example.com'))).status, 401);
    await isCopied(again, first);
  });

  test('answers the very same request as if it had read it', async () => {
    const { again, first } = await paid();
    const { answer: read } = await watched(again);
    const { answer, atEdge, verbatim: unread } = await watched(again);
    assert.deepEqual([unread, atEdge], [true, true]);
    assert.deepEqual([answer.status, answer.bytes], [201, first.bytes]);
    const own = ['request-id', 'server-timing', 'date'];
    const headers = (of) => [...of.headers].filter(([name]) => !own.includes(name)).sort();
    assert.deepEqual(headers(answer), headers(read));
    assert.equal(answer.header('idempotent-replayed'), 'true');
    const form = /^req_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    const ids = [first, read, answer].map((one) => one.header('request-id'));
    for (const id of ids) assert.match(id, form);
    assert.deepEqual(ids, ids.toSorted(), 'ids sort by time');
    const timing = /^total;dur=\d+, object;dur=0, provider;dur=0$/;
    for (const one of [read, answer]) assert.match(one.header('server-timing'), timing);
    const lines = site
      .logs()
      .filter(({ message }) => message.includes('"event":"request"'))
      .map(({ message }) => JSON.parse(message));
    const lineOf = (one) => lines.find(({ request_id: id }) => id === one.header('request-id'));
    const { ms: _, request_id: __, ...line } = lineOf(answer);
    const { ms: ___, request_id: ____, ...asRead } = lineOf(read);
    assert.deepEqual(line, { ...asRead, verbatim: true });
  });

  test('is for a request that is the same in all that the answer depends on', async () => {
    const { key, again, first } = await paid();
    await isCopied(again, first);
    const mismatch = { ...PAYMENT, amount: PAYMENT.amount + 1 };
    assert.equal(JSON.stringify(mismatch).length, JSON.stringify(PAYMENT).length, 'control: of one length');
    const { answer, verbatim } = await watched(() => again(mismatch));
    assert.deepEqual([answer.status, answer.json().fields, verbatim], [422, ['amount'], false]);
    const trace = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
    for (const [headers, status] of [
      [{ 'idempotency-key': freshKey() }, 201],
      [{ 'idempotency-key': `${key}, ${key}x` }, 400],
      [{ 'content-type': 'application/x-www-form-urlencoded' }, 415],
      [{ 'content-type': 'text/plain' }, 415],
      [{ 'content-encoding': 'gzip' }, 415],
      [{ authorization: 'Bearer nobody@example.com' }, 401],
      [trace, 201],
    ]) {
      const other = await watched(() => user.pay(PAYMENT, key, headers));
      assert.deepEqual([other.answer.status, other.verbatim], [status, false], JSON.stringify(headers));
    }
    await isCopied(again, first);
    const elsewhere = await watched(() => user.post('/payments?x=1', PAYMENT, key));
    assert.deepEqual([elsewhere.answer.bytes, elsewhere.verbatim], [first.bytes, false], 'it is another one');
  });

  test('is not for a request whose key depends on how things stand', async () => {
    const { json } = await user.pay({ ...PAYMENT, capture: false }, freshKey());
    const capture = () => user.post(`/payments/${json().id}/capture`, undefined);
    const first = await capture();
    assert.equal(first.status, 200, first.text);
    for (let times = 0; times < 3; times += 1) {
      const { answer, verbatim } = await watched(capture);
      assert.deepEqual([answer.bytes, verbatim], [first.bytes, false]);
    }
  });

  test('is read where its body comes late, or breaks off', async () => {
    const { key, again, first } = await paid();
    await isCopied(again, first);
    const body = JSON.stringify(PAYMENT);
    const headers = {
      authorization: `Bearer ${USER}`,
      'content-type': 'application/json',
      'idempotency-key': key,
      ...declared(body.length),
    };
    const send = () => begin(site.url, 'POST', '/payments', headers);
    // Sent like that it is remembered in the place of the one before, and found.
    for (const unread of [false, true]) {
      const { answer, verbatim } = await watched(() => {
        const whole = send();
        whole.write(body);
        return whole.head(30_000);
      });
      assert.match(answer, /^HTTP\/1.1 201/);
      assert.equal(verbatim, unread);
    }
    const late = await watched(async () => {
      const slow = send();
      slow.write(body.slice(0, 5));
      assert.equal(await slow.head(1_500), '', 'control: it is waited for');
      slow.write(body.slice(5));
      return slow.head(30_000);
    });
    assert.match(late.answer, /^HTTP\/1.1 201[^]*idempotent-replayed: true/i);
    assert.deepEqual([late.verbatim, late.atEdge], [false, true]);
    const broken = send();
    broken.write(body.slice(0, 5));
    broken.end();
    await isCopied(again, first);
  });

  test('is not made of what may be answered otherwise later', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const first = user.pay(PAYMENT, key);
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    for (let times = 0; times < 2; times += 1) {
      const { answer, atEdge } = await watched(() => user.pay(PAYMENT, key, AT_ONCE));
      assert.deepEqual([answer.status, atEdge], [409, false]);
    }
    await site.simulator.calm();
    assert.equal((await first).status, 201);
    await isCopied(() => user.pay(PAYMENT, key), await first);
  });

  test('goes when the key is forgotten', async () => {
    const { key, again, first } = await paid();
    await isCopied(again, first);
    assert.equal((await user.forget(key)).status, 204);
    const { answer, atEdge } = await watched(again);
    assert.deepEqual([refusal(answer), atEdge], [EXPIRED, false]);
  });

  test('goes when the personal data is erased', async () => {
    const { again, first, id } = await paid();
    await isCopied(again, first);
    const erased = await read(
      await site.fetch(`/admin/payments/${id}/erase`, { method: 'POST', headers: operator }),
    );
    assert.equal(erased.status, 200, erased.text);
    const { answer, atEdge } = await watched(again);
    assert.deepEqual([refusal(answer), atEdge], [EXPIRED, false]);
  });

  test('stays for its time where it is not told: the control of the two before', async () => {
    const { again, first, id } = await paid();
    await isCopied(again, first);
    await site.objects.sql(
      id,
      "UPDATE idempotency_keys SET status = 'expired', parameters = NULL, expires_at_ms = finished_at_ms",
    );
    await isCopied(again, first);
  });

  test('is not taken along into a new release', async () => {
    const { again, first } = await paid();
    await isCopied(again, first);
    await site.deploy(demoWorkers({ vars: { ...on, REPLAY_CACHE_MS: '59000' }, secrets }));
    const { answer, atEdge } = await watched(again);
    assert.deepEqual([answer.bytes, answer.header('idempotent-replayed')], [first.bytes, 'true']);
    assert.equal(atEdge, false);
    await isCopied(again, first);
  });
});

test('a copy does not outlive the response', async (t) => {
  const site = await startSite({ vars: { ...on, RETENTION_MS: '5000' }, secrets });
  t.after(() => site.close());
  const key = freshKey();
  const user = account(site);
  const pay = () => user.pay(PAYMENT, key);
  const paid = await pay();
  assert.equal(paid.status, 201);
  const { atEdge } = await watching(site)(pay);
  assert.ok(atEdge, 'control: until then a copy answers');
  const shown = await user.key(key);
  const expiresAt = Date.parse(shown.json().expires_at);
  assert.ok(expiresAt - Date.now() < 10_000);
  for (;;) {
    const sentAt = Date.now();
    const { status } = await pay();
    if (sentAt >= expiresAt) {
      assert.equal(status, 409, `sent ${sentAt - expiresAt} ms after it has expired`);
      break;
    }
    await pause(20);
  }
});

for (const REPLAY_CACHE_MS of ['60000', '0']) {
  test(`the very same request is refused once its token is revoked, with ${REPLAY_CACHE_MS} ms of copies`, (t) =>
    isRefusedOnceRevoked(t, REPLAY_CACHE_MS));
}

async function isRefusedOnceRevoked(t, REPLAY_CACHE_MS) {
  const vars = { REPLAY_CACHE_MS, ACCOUNTS_CACHE_MS: '2000' };
  const site = await startSite({ vars, secrets });
  t.after(() => site.close());
  const id = 'a-shop';
  const [token, another] = ['one', 'another'].map(
    (one) => `${one}-token-of-the-registry-that-is-long-enough`,
  );
  const hash = (of) => createHash('sha256').update(of).digest('hex');
  const settings = JSON.stringify({ payment_method: 'pm_card_visa' });
  await site.rows("INSERT INTO accounts VALUES (?, ?, 'active', 1, 0, 0)", id, settings);
  for (const one of [token, another])
    await site.rows("INSERT INTO account_tokens VALUES (?, ?, 'server', 0, NULL)", hash(one), id);
  const key = freshKey();
  const payWith = (one) => account(site, one).pay(PAYMENT, key);
  const pay = () => payWith(token);
  await until('it is not read any more', async () => (await watching(site)(pay)).verbatim);
  await site.rows('UPDATE account_tokens SET ends_at_ms = 1 WHERE token_sha256 = ?', hash(token));
  await until('nobody has the token', async () => (await pay()).status === 401);
  const { answer, atEdge } = await watching(site)(() => payWith(another));
  assert.deepEqual(
    [answer.status, answer.header('idempotent-replayed')],
    [201, 'true'],
    'control: another token has it',
  );
  assert.equal(atEdge, REPLAY_CACHE_MS !== '0', 'control: the copy is there still');
}

describe('the very same request without a copy', async () => {
  const site = await startSite({ vars: { REPLAY_CACHE_MS: '0' }, secrets });
  const user = account(site);
  const watched = watching(site);
  after(() => site.close());

  async function paid(payment = PAYMENT) {
    const key = freshKey();
    const again = (headers) => user.pay(payment, key, headers);
    const first = await again();
    assert.equal(first.status, 201, first.text);
    return { key, again, first, id: first.json().id };
  }

  async function isRecalled(again, first) {
    const { answer, atEdge, verbatim } = await watched(again);
    assert.deepEqual([answer.status, answer.bytes], [first.status, first.bytes]);
    assert.deepEqual([verbatim, atEdge], [true, false]);
    return answer;
  }

  test('is answered by its object as if it had been read', async () => {
    const { key, again, first } = await paid();
    const recalled = await isRecalled(again, first);
    // White space says nothing, and makes another request.
    const spaced = await watched(() => user.pay(JSON.stringify(PAYMENT, null, 1), key));
    assert.equal(spaced.verbatim, false, 'control: it is read');
    const asRead = spaced.answer;
    assert.deepEqual(asRead.bytes, first.bytes);
    const own = ['request-id', 'server-timing', 'date'];
    const headers = (of) => [...of.headers].filter(([name]) => !own.includes(name)).sort();
    assert.deepEqual(headers(recalled), headers(asRead));
    assert.match(recalled.header('server-timing'), /^total;dur=\d+, object;dur=\d+, provider;dur=0$/);
    const { timeline } = (await user.key(key)).json();
    const replays = timeline.filter(({ event }) => event === 'replayed').map(({ detail }) => detail);
    assert.deepEqual(
      replays,
      [recalled, asRead].map((one) => one.header('request-id')),
    );
  });

  test('is answered for an operation that runs elsewhere, and for a payment that was declined', async () => {
    const { id } = await paid();
    const key = freshKey();
    const refund = () => user.post(`/payments/${id}/refunds`, { amount: 100 }, key);
    await isRecalled(refund, await refund());
    const declined = freshKey();
    const decline = () => account(site, DECLINED_USER).pay(PAYMENT, declined);
    const first = await decline();
    assert.equal(first.status, 402);
    await isRecalled(decline, first);
  });

  test('is one of the same account, key and body', async () => {
    const { key, again, first } = await paid();
    const mismatch = await watched(() => user.pay({ ...PAYMENT, amount: PAYMENT.amount + 1 }, key));
    assert.deepEqual(
      [mismatch.answer.status, mismatch.answer.json().fields, mismatch.verbatim],
      [422, ['amount'], false],
    );
    const other = await watched(() => account(site, DECLINED_USER).pay(PAYMENT, key));
    assert.deepEqual([other.answer.status, other.verbatim], [402, false]);
    await isRecalled(again, first);
  });

  test('is read where its key was forgotten, or the personal data erased', async () => {
    for (const drop of [
      ({ key }) => user.forget(key),
      ({ id }) => site.fetch(`/admin/payments/${id}/erase`, { method: 'POST', headers: operator }),
    ]) {
      const payment = await paid();
      await isRecalled(payment.again, payment.first);
      assert.ok([200, 204].includes((await drop(payment)).status));
      const { answer, verbatim } = await watched(payment.again);
      assert.deepEqual([refusal(answer), verbatim], [EXPIRED, false]);
    }
  });

  test('is found again after its object and a new release have begun anew', async () => {
    const { again, first } = await paid();
    await isRecalled(again, first);
    await site.deploy(demoWorkers({ vars: { REPLAY_CACHE_MS: '0', KEYS_MAX: '100' }, secrets }));
    const { answer, verbatim } = await watched(again);
    assert.deepEqual([answer.bytes, verbatim], [first.bytes, false]);
    await isRecalled(again, first);
  });
});

test('the very same request is told what its object says at that time', async (t) => {
  const vars = { REPLAY_CACHE_MS: '0', RETENTION_MS: '3000' };
  const site = await startSite({ vars, secrets });
  t.after(() => site.close());
  let pay;
  // A machine may take longer for two requests than an answer is kept here.
  await until('control: one is recalled', async () => {
    const key = freshKey();
    pay = () => account(site).pay(PAYMENT, key);
    assert.equal((await pay()).status, 201);
    const { answer, verbatim } = await watching(site)(pay);
    if (answer.status === 409) return false;
    assert.ok(verbatim && answer.status === 201);
    return true;
  });
  await until('it has expired', async () => (await pay()).status === 409);
});

/** What comes of a question to recall on its way to the object, and whether it recalls it then. */
const CHANGES = [
  ['', true],
  ["asked.owner = { account: 'somebody else' };"],
  ['asked.owner = { session: asked.owner.account };'],
  ["asked.key_hash = asked.key_hash.replace(/.$/, (last) => (last === '0' ? '1' : '0'));"],
  ["asked.fingerprint += '0';"],
  ['asked.version += 1;'],
  ["asked.version = 'what is this';"],
  ['throw new Error(\'The RPC receiver does not implement the method "recall".\');'],
  ['return undefined;'],
  ["return '201';"],
  // The control: one that tells again what is not there any more would be noticed.
  ['if (this.told) return this.told;', true, 201],
];

/** The payment's description says which change it is. */
const CHANGED = `
  ask(question) {
    this.change ??= /change (\\d+)/.exec(question)?.[1];
    return this.#newest.ask(question);
  }
  async recall(question, id) {
    const asked = JSON.parse(question);
    switch (this.change) {
      ${CHANGES.map(([change], number) => `case '${number}': { ${change} break; }`).join('\n      ')}
    }
    return (this.told = await this.#newest.recall(JSON.stringify(asked), id));
  }
`;

test('an object judges by itself what it recalls, and what it does not is read', async (t) => {
  const site = await startWithObjectsOfBefore(CHANGED, { vars: { REPLAY_CACHE_MS: '0' }, secrets });
  t.after(() => site.close());
  const user = account(site);
  for (const [number, [change, isRecalled = false, afterwards = 409]] of CHANGES.entries()) {
    const key = freshKey();
    const pay = () => user.pay({ ...PAYMENT, description: `change ${number}` }, key);
    const first = await pay();
    const { answer, verbatim } = await watching(site)(pay);
    assert.deepEqual([answer.status, answer.bytes], [201, first.bytes], change);
    assert.deepEqual([answer.header('idempotent-replayed'), verbatim], ['true', isRecalled], change);
    assert.equal((await user.forget(key)).status, 204);
    assert.equal((await pay()).status, afterwards, change);
  }
});

/** They recall what is asked of them, and tell it later than anybody waits for it. */
const LATE = `
  ask(question) {
    return this.#newest.ask(question);
  }
  async recall(question, id) {
    const told = await this.#newest.recall(question, id);
    await new Promise((later) => setTimeout(later, 2_500));
    return told;
  }
`;

test('a replay whose object answers too late is read, and counted once, under the id that it is told', async (t) => {
  const site = await startWithObjectsOfBefore(LATE, { vars: { REPLAY_CACHE_MS: '0' }, secrets });
  t.after(() => site.close());
  const user = account(site);
  const key = freshKey();
  const pay = () => user.pay(PAYMENT, key);
  const first = await pay();
  const saved = async () =>
    parse(await (await site.fetch('/metrics', { headers: operator })).text()).sum('charges_saved_total');
  const before = await saved();
  const { answer, verbatim } = await watching(site)(pay);
  assert.deepEqual([answer.status, answer.bytes, verbatim], [201, first.bytes, false]);
  const { timeline } = (await user.key(key)).json();
  const replays = timeline.filter(({ event }) => event === 'replayed').map(({ detail }) => detail);
  assert.deepEqual(replays, [answer.header('request-id')]);
  assert.equal(await saved(), before + 1);
});

test('whatever header the edge reads is one that finds the very same request, or needs not be', () => {
  const source = readFileSync(join(root, 'src/edge/verbatim.rs'), 'utf8');
  const [, list] = /const HEADERS: [^=]*= \[([^\]]*)\]/.exec(source);
  const finding = [...list.matchAll(/"([^"]+)"/g)].map(([, name]) => name);
  const others = {
    'accept-language': 'pages alone are in a language',
    'access-control-request-method': 'of OPTIONS',
    'cf-connecting-ip': 'counts tokens that are not known; and the pages',
    'if-match': 'of customers, which are not copied',
    'if-none-match': 'of customers and static files, which are not copied',
    'stripe-signature': 'of webhooks',
    tracestate: 'says nothing without a traceparent',
  };
  const folders = [
    'src/edge',
    'src/edge/checkout',
    'crates/web/src',
    'crates/web/src/trace',
    'crates/runtime/src',
  ];
  const read = folders.flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((file) => file.endsWith('.rs'))
      .flatMap((file) => readFileSync(join(root, folder, file), 'utf8').split('#[cfg(test)]')[0])
      .flatMap((text) => [
        ...text.matchAll(/request\.header\("([^"]+)"\)|self\.header\("([^"]+)"\)|name == "([^"]+)"/g),
      ])
      .map(([, ...names]) => names.find(Boolean)),
  );
  const noneOfThem = ['content-type', 'server-timing', 'lines', 'fallback'];
  for (const name of ['idempotency-key', 'authorization', 'prefer', 'origin'])
    assert.ok(read.includes(name), name);
  const unknown = read.filter((name) => ![...finding, ...Object.keys(others), ...noneOfThem].includes(name));
  assert.deepEqual([...new Set(unknown)], []);
});

test('without copies, or with objects that do not say that it is final, the object answers', async (t) => {
  const settings = (vars) => demoWorkers({ vars: { ...on, ...vars }, secrets });
  const old = await startWithObjectsOfBefore(BEFORE, { vars: on, secrets });
  t.after(() => old.close());
  const off = await startSite({ workers: settings({ REPLAY_CACHE_MS: '0' }) });
  t.after(() => off.close());
  for (const site of [old, off]) {
    const key = freshKey();
    const pay = () => account(site).pay(PAYMENT, key);
    const first = await pay();
    const { answer, atEdge } = await watching(site)(pay);
    assert.deepEqual([answer.bytes, answer.header('idempotent-replayed')], [first.bytes, 'true']);
    assert.equal(atEdge, false);
  }
});

/** Objects of the release before. */
const BEFORE = `
  async ask(question) {
    const { finality, ...answered } = JSON.parse(await this.#newest.ask(question));
    return JSON.stringify(answered);
  }
`;
