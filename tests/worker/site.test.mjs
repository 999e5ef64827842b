// Every address, every method, and what every answer carries.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { account, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { withoutEffect } from './support/effects.mjs';
import { shareSite } from './support/harness.mjs';
import { AT_ONCE } from './support/payments.mjs';

const site = await shareSite();
after(() => site.close());

const HTML = { accept: 'text/html' };
const USER = { authorization: 'Bearer user@example.com' };
const ask = async (path, init) => read(await site.fetch(site.url.origin + path, init));

const ORDER = (await ask('/checkout')).header('location');
const PAGES = {
  '/': '/',
  'an order': ORDER,
  '/problems/outcome-unknown': '/problems/outcome-unknown',
};
/** And those that others test: here only what every page has. */
const MORE_PAGES = [
  '/lab',
  '/rides/new',
  '/docs',
  '/guide',
  '/guide/protocol',
  '/admin',
  '/_sim/mailbox',
  '/nowhere',
];
const ASSETS = {
  '/assets/style.css': /^text\/css/,
  '/assets/lab.css': /^text\/css/,
  '/assets/app.js': /^text\/javascript/,
  '/assets/checkout.js': /^text\/javascript/,
  '/assets/favicon.svg': /^image\/svg\+xml/,
};

describe('plain http, anywhere but on this machine', () => {
  const elsewhere = (path, init) =>
    site.fetch(`http://pay.example.com${path}`, { redirect: 'manual', ...init });

  test('is sent on to https, with its query', async () => {
    const answer = await elsewhere('/checkout?another');
    assert.equal(answer.status, 308);
    assert.equal(answer.headers.get('location'), 'https://pay.example.com/checkout?another');
    assert.deepEqual(answer.headers.getSetCookie(), []);
  });

  test('takes no credentials and runs nothing', async () => {
    await withoutEffect(site, async () => {
      const headers = { ...USER, 'idempotency-key': freshKey() };
      const answer = await elsewhere('/payments', { method: 'POST', headers, body: new URLSearchParams({}) });
      assert.equal(answer.status, 403);
      assert.equal((await answer.json()).type, '/problems/https-required');
    });
    const look = await elsewhere('/payments', { headers: USER });
    assert.equal(look.status, 403, 'nor does a client that follows go on to send them in the clear');
    assert.equal((await look.json()).type, '/problems/https-required');
  });
});

describe('a link to the demo', () => {
  const property = (text, name) =>
    text.match(new RegExp(`<meta (?:property|name)="${name}" content="([^"]*)">`))?.[1];

  test('has a title, a text and a picture of the size that it says', async () => {
    const { text } = await ask('/', { headers: HTML });
    for (const name of ['og:title', 'og:description', 'og:image:alt'])
      assert.ok(property(text, name)?.length > 10, name);
    assert.equal(property(text, 'og:url'), `${site.url.origin}/`);
    assert.equal(property(text, 'twitter:card'), 'summary_large_image');

    const address = property(text, 'og:image');
    assert.equal(new URL(address).origin, site.url.origin);
    const picture = await ask(new URL(address).pathname);
    assert.equal(picture.status, 200);
    assert.equal(picture.header('content-type'), 'image/png');
    assert.ok(picture.bytes.length < 60_000, `${picture.bytes.length} bytes`);
    const bytes = Buffer.from(picture.bytes);
    assert.equal(bytes.toString('latin1', 1, 4), 'PNG');
    const size = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
    assert.deepEqual(size.map(String), [property(text, 'og:image:width'), property(text, 'og:image:height')]);
    assert.deepEqual(size, [1200, 630]);
  });
});

describe('the pages', () => {
  for (const path of [...Object.values(PAGES), ...MORE_PAGES])
    test(`GET ${path === ORDER ? 'an order' : path} says what it is about`, async () => {
      const { text } = await ask(path, { headers: HTML });
      const abouts = [...text.matchAll(/<meta name="description" content="([^"]*)">/g)];
      assert.equal(abouts.length, 1);
      assert.ok(abouts[0][1].length > 30, abouts[0][1]);
    });

  for (const [name, path] of Object.entries(PAGES)) {
    test(`GET ${name} is HTML with a title and a language`, async () => {
      const page = await ask(path, { headers: HTML });
      assert.equal(page.status, 200);
      assert.equal(page.header('content-type'), 'text/html; charset=utf-8');
      assert.match(page.text, /^<!doctype html>\s*<html lang="en">/);
      assert.match(page.text, /<title>[^<]+<\/title>/);
    });

    test(`HEAD ${name} is the same without the body`, async () => {
      const page = await ask(path, { method: 'HEAD', headers: HTML });
      assert.equal(page.status, 200);
      assert.equal(page.header('content-type'), 'text/html; charset=utf-8');
      assert.equal(page.bytes.length, 0);
    });
  }

  test('GET / leads to the forms', async () => {
    const { text } = await ask('/');
    assert.match(text, /<a [^>]*href="\/rides\/new\?another"/);
    assert.match(text, /<a [^>]*href="\/checkout"/);
  });

  test('have no script, style or handler of their own: the policy would forbid them', async () => {
    /** Every page that one visitor sees who sends the form of an order with this. */
    const seen = async (changes) => {
      const visitor = browser(site);
      const pages = [];
      for (const path of [...Object.values(PAGES), '/nowhere']) pages.push([path, await visitor.visit(path)]);
      const { path, form } = await visitor.openOrder();
      const sent = await visitor.send(path, { ...form, ...changes }, AT_ONCE);
      assert.equal(sent.status, 303);
      return [...pages, [JSON.stringify(changes), await visitor.visit(path)]];
    };
    const pages = [...(await seen({})), ...(await seen({ payment_method: 'pm_card_visa_chargeDeclined' }))];
    await site.simulator.fault('connection_reset_after');
    pages.push(...(await seen({ email: '' })));
    for (const [path, { text }] of pages) {
      assert.doesNotMatch(text, /<style|\sstyle=|\son[a-z]+=|javascript:/i, path);
      for (const [tag] of text.matchAll(/<script[^>]*>/g)) assert.match(tag, /\ssrc="\/assets\//, path);
      assert.doesNotMatch(text, /(src|href|action)="(https?:)?\/\//, `${path} loads nothing from elsewhere`);
    }
  });
});

for (const path of ['/healthz', '/health'])
  describe(`GET ${path}`, () => {
    test('says that it is set up', async () => {
      const answer = await ask(path);
      assert.equal(answer.status, 200);
      assert.deepEqual(answer.json(), { status: 'ok' });
    });
  });

describe('the assets', () => {
  for (const [path, type] of Object.entries(ASSETS)) {
    test(`${path} is served, and may be kept for a while`, async () => {
      const asset = await ask(path);
      assert.equal(asset.status, 200);
      assert.match(asset.header('content-type'), type);
      assert.equal(asset.header('cache-control'), 'public, max-age=300');
      assert.ok(asset.bytes.length > 0);
      const head = await ask(path, { method: 'HEAD' });
      assert.equal(head.status, 200);
      assert.equal(head.bytes.length, 0);
    });
  }

  test('that pages link to exist, and with their version may be kept for ever', async () => {
    const { text } = await ask('/', { headers: HTML });
    const addresses = [...text.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, address]) => address);
    assert.equal(addresses.length, 5);
    for (const address of addresses) {
      const asset = await ask(address);
      assert.equal(asset.status, 200, address);
      if (address.includes('?v='))
        assert.equal(asset.header('cache-control'), 'public, max-age=31536000, immutable');
    }
    assert.equal(addresses.filter((address) => address.includes('?v=')).length, 4);
    const old = await ask('/assets/style.css?v=0000');
    assert.equal(old.header('cache-control'), 'public, max-age=300', 'another version is not kept');
  });

  test('that do not exist are a 404', async () => {
    for (const path of ['/assets/', '/assets/x.css', '/assets/../src/lib.rs', '/assets/%2e%2e/x'])
      assert.equal((await ask(path)).status, 404, path);
  });
});

describe('an address that does not exist', () => {
  const paths = [
    '/nowhere',
    '/payments/',
    '/payments/a/b',
    '/checkout/sessions/',
    '/healthz/x',
    '/problems',
    '/problems/none',
    '/idempotency-keys',
    '/idempotency-keys/',
    '/PAYMENTS',
    '//payments',
    '/_sim/ledger',
    '/v1/payment_intents',
    '/%00',
    '/%ff',
  ];
  for (const path of paths) {
    test(`${path} is a 404`, async () => {
      const answer = await ask(path);
      assert.equal(answer.status, 404);
      assert.equal(answer.header('content-type'), 'application/problem+json');
      assert.equal(answer.json().type, '/problems/not-found');
    });
  }

  test('is a page for a person, with a way back', async () => {
    const page = await ask('/nowhere', { headers: HTML });
    assert.equal(page.status, 404);
    assert.equal(page.header('content-type'), 'text/html; charset=utf-8');
    assert.match(page.text, /<a [^>]*href="\/"/);
    assert.ok(page.text.includes(page.header('request-id')), 'it names its request, for support');
  });

  test('is a 404 for every method', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH'])
      assert.equal((await ask('/nowhere', { method })).status, 404, method);
  });
});

describe('a method that is not allowed', () => {
  const reading = ['/', '/healthz', '/assets/style.css', '/checkout', '/payments/x'];
  for (const path of [...reading, '/problems/not-found']) {
    test(`on ${path} is a 405 that allows GET and HEAD`, async () => {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const answer = await ask(path, { method });
        assert.equal(answer.status, 405, method);
        assert.equal(answer.header('allow'), 'GET, HEAD, OPTIONS');
        assert.equal(answer.json().type, '/problems/method-not-allowed');
      }
    });
  }

  test('on an address that is only written to is a 405 that allows POST', async () => {
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE']) {
      const answer = await ask('/payments/x/capture', { method });
      assert.equal(answer.status, 405, method);
      assert.equal(answer.header('allow'), 'POST, OPTIONS');
    }
  });
});

describe('the problem pages', () => {
  // Every type that an answer can name, with its status.
  const kinds = {
    'idempotency-key-missing': 400,
    'idempotency-key-invalid': 400,
    'bad-request': 400,
    unauthorized: 401,
    'payment-failed': 402,
    'operation-refused': 402,
    forbidden: 403,
    'not-found': 404,
    'method-not-allowed': 405,
    'request-timeout': 408,
    'request-in-progress': 409,
    'idempotency-key-expired': 409,
    'payment-state': 409,
    'content-too-large': 413,
    'unsupported-media-type': 415,
    'invalid-parameters': 422,
    'idempotency-key-reused': 422,
    'amount-too-large': 422,
    'rate-limited': 429,
    interrupted: 500,
    'outcome-unknown': 503,
    'temporarily-unavailable': 503,
    misconfigured: 503,
    'https-required': 403,
    'cannot-be-shown': 503,
  };
  for (const [kind, status] of Object.entries(kinds)) {
    test(`/problems/${kind} explains a ${status}`, async () => {
      const page = await ask(`/problems/${kind}`);
      assert.equal(page.status, 200);
      assert.equal(page.header('content-type'), 'text/html; charset=utf-8');
      assert.ok(page.text.includes(`<p class="status">${status}</p>`));
    });
  }
});

describe('every answer', () => {
  /** One of each sort: pages, problems, assets, JSON, redirects. */
  async function everySort(origin) {
    const visitor = browser(site, origin);
    const { path, form } = await visitor.openOrder();
    const paid = await visitor.send(path, form);
    const at = (path, init) => visitor.visit(path, init);
    return {
      page: await at('/'),
      form: await at((await visitor.openOrder()).path),
      redirect: paid,
      receipt: await at(paid.header('location')),
      json: await at('/payments', { headers: { accept: 'application/json', ...USER } }),
      'page of a problem': await at('/nowhere'),
      problem: await at('/nowhere', { headers: { accept: '*/*' } }),
      'wrong method': await at('/payments/x/capture'),
      forbidden: await visitor.send(path, form, { origin: 'null' }),
      invalid: await visitor.send(path, { ...form, payment_method: 'x' }),
      unauthorized: await at('/payments', { method: 'POST', headers: { authorization: 'Bearer x' } }),
      asset: await at('/assets/app.js'),
      health: await at('/healthz'),
    };
  }

  for (const origin of [site.url.origin, 'https://pay.example']) {
    test(`over ${new URL(origin).protocol} carries the security headers`, async () => {
      for (const [sort, answer] of Object.entries(await everySort(origin))) {
        const header = (name) => answer.header(name) ?? '';
        assert.equal(header('x-content-type-options'), 'nosniff', sort);
        assert.equal(header('referrer-policy'), 'same-origin', sort);
        assert.equal(header('cross-origin-opener-policy'), 'same-origin', sort);
        assert.equal(header('cross-origin-resource-policy'), 'same-origin', sort);
        assert.match(header('content-security-policy'), /default-src 'none'/, sort);
        assert.match(header('content-security-policy'), /frame-ancestors 'none'/, sort);
        assert.doesNotMatch(header('content-security-policy'), /unsafe|\*|http/, sort);
        assert.equal(header('strict-transport-security') !== '', origin.startsWith('https'), sort);
        if (header('content-type').startsWith('text/html')) {
          assert.match(header('content-security-policy'), /form-action 'self'/, sort);
          assert.match(header('content-security-policy'), /base-uri 'none'/, sort);
        }
      }
    });
  }

  test('has a request id of its own', async () => {
    const answers = Object.values(await everySort());
    const ids = answers.map((answer) => answer.header('request-id'));
    for (const id of ids)
      assert.match(id, /^req_[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    assert.equal(new Set(ids).size, ids.length);
  });

  test('is kept by no cache, unless it is an asset', async () => {
    for (const [sort, answer] of Object.entries(await everySort())) {
      const expected = sort === 'asset' ? 'public, max-age=300' : 'private, no-store';
      assert.equal(answer.header('cache-control'), expected, sort);
    }
  });

  test('that needed nothing but reading stores nothing', async () => {
    await withoutEffect(site, async () => {
      const visitor = browser(site);
      const { form } = await visitor.openOrder();
      for (const path of [...Object.values(PAGES), ...Object.keys(ASSETS), '/healthz', '/nowhere'])
        await visitor.visit(path);
      const headers = { accept: 'application/json' };
      await visitor.visit(`/idempotency-keys/${form.idempotency_key}`, { headers });
      await account(site).key(freshKey());
    });
  });
});
