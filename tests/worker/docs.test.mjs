// The API's document and its page: how they are served, and that the answers are what the document says.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { shareSite } from './support/harness.mjs';
import { conforming, conforms, document, isValid, readDocument } from './support/openapi.mjs';
import { AT_ONCE, PAYMENT, held } from './support/payments.mjs';
import { until } from './support/until.mjs';

const site = await shareSite({ vars: { PROVIDER_TIMEOUT_MS: '1000', QUIET_MS: '2000' } });
await readDocument(site);
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const escaped = (text) => text.replaceAll('&', '&#38;').replaceAll("'", '&#39;');
const ask = async (path, init) => read(await site.fetch(path, init));

describe('GET /openapi.json', () => {
  test('is the document, and may be kept for a while', async () => {
    const answer = conforming('GET', '/openapi.json', await ask('/openapi.json'));
    assert.equal(answer.status, 200);
    assert.equal(answer.header('content-type'), 'application/json');
    assert.equal(answer.header('cache-control'), 'public, max-age=300');
  });

  test('has examples that are what their schemas say', () => {
    let count = 0;
    const walk = (value, place) => {
      if (typeof value !== 'object' || value === null) return;
      if (Array.isArray(value.examples) && !place.endsWith('/properties'))
        for (const example of value.examples) isValid(place, example, `${place}, example ${++count}`);
      for (const [name, member] of Object.entries(value))
        if (name !== 'examples') walk(member, `${place}/${name.replaceAll('/', '~1')}`);
    };
    walk(document.components.schemas, '/components/schemas');
    // Beside a schema stands an example of a parameter, a header, a request or an answer.
    const walkBeside = (value, place) => {
      if (typeof value !== 'object' || value === null) return;
      if (value.schema && value.example !== undefined)
        isValid(`${place}/schema`, value.example, `${place}, example ${++count}`);
      for (const [name, member] of Object.entries(value))
        if (name !== 'example')
          walkBeside(member, `${place}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`);
    };
    walkBeside(document.paths, '/paths');
    walkBeside(document.components, '/components');
    for (const [name, { value }] of Object.entries(document.components.examples))
      isValid(`/components/schemas/${name}Problem`, value, `the example ${name}`);
    assert.ok(count > 60, `${count} examples`);
  });
});

describe('GET /docs', () => {
  test('is a page under the policy of all pages', async () => {
    const page = await browser(site).visit('/docs');
    const home = await browser(site).visit('/');
    assert.equal(page.status, 200);
    assert.equal(page.header('content-type'), 'text/html; charset=utf-8');
    assert.equal(page.header('content-security-policy'), home.header('content-security-policy'));
  });

  test('shows every operation, schema and problem of the document, without any script', async () => {
    const { text } = await ask('/docs');
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const { schemas, examples } = document.components;
    const ids = [
      ...operations.map(({ operationId }) => operationId),
      ...Object.keys(schemas).filter((name) => name === 'Problem' || !name.endsWith('Problem')),
      ...Object.values(examples).map(({ summary }) => summary),
    ];
    for (const id of ids) assert.ok(text.includes(`<article id="${id}"`), id);
    for (const { summary } of operations) assert.ok(text.includes(escaped(summary)), summary);
  });

  test('names each operation once in its contents', async () => {
    const { text } = await ask('/docs');
    const [contents] = /<nav class="contents"[^]*?<\/nav>/.exec(text);
    const names = [...contents.matchAll(/<a href="#[^"]+">([^<]+)<\/a>/g)].map(([, name]) => name);
    assert.equal(names.filter((name) => name === 'Is it set up').length, 1, 'it has two addresses');
    assert.deepEqual([...new Set(names)], names);
  });

  test('has no two places of one name, and each link within it leads to one', async () => {
    const { text } = await ask('/docs');
    const ids = [...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    assert.deepEqual([...new Set(ids)].sort(), ids.toSorted());
    const targets = [...text.matchAll(/href="#([^"]+)"/g)].map(([, target]) => target);
    assert.ok(targets.length > 100, `${targets.length} links`);
    assert.deepEqual(
      targets.filter((target) => !ids.includes(target)),
      [],
    );
  });

  test('knows the account of the demo, and nowhere else', async () => {
    assert.match((await ask('/docs')).text, /Bearer user@example\.com/);
    const production = readFileSync(new URL('../../build/assets/docs/page.html', import.meta.url), 'utf8');
    assert.match(production, /Bearer \$TOKEN/);
    assert.doesNotMatch(production, /Bearer user@example\.com|aria-label="Demo"/);
  });

  test('has a first request that pays as it stands', async () => {
    const { text } = await ask('/docs');
    const [, example] = text.match(/<article id="createPayment"[\s\S]*?<pre[^>]*><code>([\s\S]*?)<\/code>/);
    const [, body] = example
      .replaceAll('&#34;', '"')
      .replaceAll('&#39;', "'")
      .match(/-d '([^']*)'/);
    assert.equal((await user.pay(JSON.parse(body), freshKey())).status, 201);
  });

  const files = {
    '/docs': /^text\/html/,
    '/openapi.json': /^application\/json/,
    '/docs/docs.js': /^text\/javascript/,
    '/docs/docs.css': /^text\/css/,
  };
  for (const [path, type] of Object.entries(files)) {
    test(`${path} is served, may be kept for a while, and is not sent twice`, async () => {
      const file = await ask(path);
      assert.equal(file.status, 200);
      assert.match(file.header('content-type'), type);
      assert.equal(file.header('cache-control'), 'public, max-age=300');
      assert.equal(file.header('x-content-type-options'), 'nosniff');
      assert.match(file.header('content-security-policy'), /default-src 'none'/);
      assert.ok(file.header('request-id'));
      assert.ok(file.bytes.length > 0);

      const again = await ask(path, { headers: { 'if-none-match': file.header('etag') } });
      assert.equal(again.status, 304);
      assert.equal(again.bytes.length, 0);
      const head = await ask(path, { method: 'HEAD' });
      assert.equal(head.status, 200);
      assert.equal(head.bytes.length, 0);
    });
  }

  test('has all its files', async () => {
    const { text } = await ask('/docs');
    const asked = [...text.matchAll(/(?:href|src)="(\/docs\/[^"]+)"/g)].map(([, address]) => address);
    assert.equal(asked.length, 2);
    for (const address of asked) assert.ok(address in files, address);
  });

  test('serves nothing else, wherever it lies', async () => {
    const paths = [
      '/docs/',
      '/docs/x',
      '/docs/page.html',
      '/docs/openapi.json',
      '/docs/docs.js/',
      '/docs/%2e%2e/index.js',
    ];
    for (const path of [...paths, '/index.js', '/assets/docs/docs.js', '/docs/../index_bg.wasm']) {
      const answer = await ask(path);
      assert.equal(answer.status, 404, path);
      assert.equal(answer.json().type, '/problems/not-found', path);
    }
    assert.equal((await ask('/docs/docs.js', { method: 'POST' })).status, 405);
  });
});

describe('an answer is what the document says', () => {
  const pay = async (client, key, payment = PAYMENT, headers) =>
    conforming('POST', '/payments', await client.pay(payment, key, headers));
  const problem = (answer) => answer.json().type.replace('/problems/', '');

  test('to a payment: made, replayed, shown', async () => {
    const key = freshKey();
    const first = await pay(user, key);
    assert.equal(first.status, 201);
    const again = await pay(user, key);
    assert.equal(again.header('idempotent-replayed'), 'true');
    assert.equal((await pay(user, freshKey(), new URLSearchParams(PAYMENT).toString(), FORM)).status, 201);
    const path = `/payments/${first.payment}`;
    assert.equal(conforming('GET', path, await user.payment(first.payment)).status, 200);
    assert.equal(conforming('HEAD', path, await user.ask(path, { method: 'HEAD' })).status, 200);
    conforming('GET', `/idempotency-keys/${key}`, await user.key(key));
  });

  test('and another one is found out', async () => {
    const key = freshKey();
    const made = await user.pay(PAYMENT, key);
    const { status, ...rest } = made.json();
    const { headers } = made;
    const foreign = [
      [{ status: 202, headers }, made.json()],
      [{ status: 201, headers: new Headers() }, made.json()],
      [{ status: 201, headers }, rest],
      [
        { status: 201, headers },
        { ...rest, status: 'lost' },
      ],
      [
        { status: 201, headers },
        { ...rest, status, secret: 1 },
      ],
      [
        { status: 201, headers },
        { ...rest, status, tries: [{ ...rest.tries[0], secret: 1 }] },
      ],
    ];
    for (const [answer, body] of foreign) assert.throws(() => conforms('POST', '/payments', answer, body));
  });

  test('to metadata, by its names and values', async () => {
    const long = 'x'.repeat(41);
    for (const [name, value, isTaken] of [
      ['gift wrap – ä', 'ja', true],
      [long.slice(1), '', true],
      ...['', 'a[b', 'b]', 'a\u0007', 'a\u0085', 'a\n', long].map((name) => [name, 'x', false]),
      ...['resource', 'idempotency_key', 'capture_key'].map((name) => [name, 'x', false]),
      ['gift', 'a\u0007', false],
    ]) {
      const body = { ...PAYMENT, metadata: { [name]: value } };
      const said = () => isValid('/components/schemas/PaymentRequest', body);
      assert.equal((await pay(user, freshKey(), body)).status, isTaken ? 201 : 422, JSON.stringify(body));
      if (isTaken) said();
      else assert.throws(said);
    }
  });

  test('to a payment that was declined', async () => {
    const client = account(site, DECLINED_USER);
    const answer = await pay(client, freshKey());
    assert.equal(answer.status, 402);
    conforming('GET', `/payments/${answer.payment}`, await client.payment(answer.payment));
  });

  test('to what is refused', async () => {
    const key = freshKey();
    await pay(user, key);
    const refused = {
      'idempotency-key-missing': [user, undefined],
      'idempotency-key-invalid': [user, 'two words'],
      'bad-request': [user, freshKey(), '{'],
      unauthorized: [account(site, 'nobody'), freshKey()],
      'content-too-large': [user, freshKey(), `{"x":"${'x'.repeat(70_000)}"}`],
      'unsupported-media-type': [user, freshKey(), 'x', { 'content-type': 'text/plain' }],
      'invalid-parameters': [user, freshKey(), { ...PAYMENT, amount: 'much' }],
      'idempotency-key-reused': [user, key, { ...PAYMENT, amount: 2501 }],
    };
    for (const [type, arguments_] of Object.entries(refused))
      assert.equal(problem(await pay(...arguments_)), type);
    for (const path of ['/nowhere', '/payments/pay_x', '/idempotency-keys/unused', '/problems/none'])
      assert.equal(problem(conforming('GET', path, await user.ask(path))), 'not-found');
    for (const [path, method] of Object.entries({
      '/payments/x/capture': 'GET',
      '/payments/x': 'POST',
      '/': 'PUT',
    }))
      assert.equal(problem(conforming(method, path, await user.ask(path, { method }))), 'method-not-allowed');
    const path = `/idempotency-keys/${encodeURIComponent('two words')}`;
    assert.equal(problem(conforming('GET', path, await user.ask(path))), 'idempotency-key-invalid');
    for (const owned of ['/payments/x', '/idempotency-keys/x'])
      assert.equal(problem(conforming('GET', owned, await ask(owned))), 'unauthorized');
  });

  test('to what is not over', async () => {
    const key = freshKey();
    const { answer: running } = await held(site, () => user.pay(PAYMENT, key));
    assert.equal(problem(await pay(user, key, PAYMENT, AT_ONCE)), 'request-in-progress');
    conforming('GET', `/idempotency-keys/${key}`, await user.key(key));
    await site.simulator.calm();
    conforming('POST', '/payments', await running);

    const unknown = freshKey();
    await site.simulator.fault('response_lost', { count: 1000 });
    const answer = await pay(user, unknown, PAYMENT, AT_ONCE);
    assert.equal(problem(answer), 'outcome-unknown');
    conforming('GET', `/payments/${answer.payment}`, await user.payment(answer.payment));
    await until('the key says so', async () => {
      const view = conforming('GET', `/idempotency-keys/${unknown}`, await user.key(unknown));
      return view.json().status === 'unknown';
    });
  });

  test('to what was interrupted', async () => {
    for (const raise_error of ['true', 'crash']) {
      const key = freshKey();
      const answer = await pay(user, key, { ...PAYMENT, raise_error });
      assert.equal(problem(answer), 'interrupted');
      assert.equal((await pay(user, key)).status, 201);
    }
  });

  test('to a browser', async () => {
    const visitor = browser(site);
    const visit = async (path) => conforming('GET', path, await visitor.visit(path));
    for (const path of ['/', '/docs', '/healthz', '/checkout', '/problems/not-found', '/nowhere'])
      await visit(path);
    const { path, form } = await visitor.openOrder();
    await visit(path);
    for (const spoiled of [{ payment_method: 'x' }, { idempotency_key: 'x' }])
      conforming('POST', path, await visitor.send(path, { ...form, ...spoiled }));
    conforming('POST', path, await visitor.send(path, form, { origin: 'https://evil.example' }));
    const paid = conforming('POST', path, await visitor.send(path, form));
    assert.equal(paid.status, 303);
    await visit(paid.header('location'));
  });
});
