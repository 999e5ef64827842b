// The repository's documents as pages of the demo: each is there, and no link of any of them leads nowhere.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { read } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';

// The documents lead to the desk, which is closed without a secret.
const site = await shareSite({ secrets: { ADMIN_TOKEN: 'the-operators-own-secret-of-the-tests' } });
after(() => site.close());

const ask = async (path, init) => read(await site.fetch(site.url.origin + path, init));
const HTML = { accept: 'text/html' };

const unescaped = (text) => text.replaceAll('&amp;', '&').replaceAll('&#38;', '&');
const idsOf = (text) => [...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
const linksOf = (text) => [...text.matchAll(/<a [^>]*href="([^"]+)"/g)].map(([, link]) => unescaped(link));

/** All pages under /guide, from the first one on, by their paths. */
const pages = new Map();
for (const waits = ['/guide']; waits.length > 0;) {
  const path = waits.pop();
  if (pages.has(path)) continue;
  const page = await ask(path);
  pages.set(path, page);
  const further = linksOf(page.text).map((link) => new URL(link, site.url.origin + path));
  waits.push(...further.map(({ pathname }) => pathname).filter((path) => /^\/guide(\/|$)/.test(path)));
}

/** Links of these pages that lead nowhere, as `page → link`. */
async function broken(pages) {
  const found = new Map();
  const lost = [];
  for (const [path, { text }] of pages) {
    for (const link of linksOf(text)) {
      const url = new URL(link, site.url.origin + path);
      if (url.origin !== site.url.origin) continue;
      const target = url.pathname;
      if (!found.has(target)) found.set(target, pages.get(target) ?? (await ask(target, { headers: HTML })));
      const { status, text } = found.get(target);
      // 401 is the desk's page that asks for the secret.
      const isThere =
        (status < 400 || status === 401) &&
        (!url.hash || idsOf(text).includes(decodeURIComponent(url.hash.slice(1))));
      if (!isThere) lost.push(`${path} → ${link}`);
    }
  }
  return lost;
}

describe('the guide', () => {
  test('has a page for each document that its list names, and the list is on each', () => {
    assert.ok(pages.size >= 18, [...pages.keys()].join(' '));
    for (const [path, page] of pages) {
      assert.equal(page.status, 200, path);
      const list = linksOf(page.text.match(/<nav class="contents documents"[^]*?<\/nav>/)[0]);
      assert.deepEqual(
        [...pages.keys()].filter((one) => !list.includes(one)),
        [],
        path,
      );
    }
  });

  test('has no link that leads nowhere, by its address or its anchor', async () => {
    assert.deepEqual(await broken(pages), []);
  });

  test('control: a link to no page, or to no heading, is found', async () => {
    const text =
      '<a href="/guide/nothing">x</a><a href="/guide/protocol#nothing">x</a><a href="#there" id="there">x</a>';
    const spoiled = new Map([...pages, ['/guide/spoiled', { status: 200, text }]]);
    assert.deepEqual(await broken(spoiled), [
      '/guide/spoiled → /guide/nothing',
      '/guide/spoiled → /guide/protocol#nothing',
    ]);
  });

  test('says what each page is about, has one first heading, and no place twice', () => {
    const abouts = [...pages.values()].map(
      ({ text }) => text.match(/<meta name="description" content="([^"]+)">/)[1],
    );
    assert.equal(new Set(abouts).size, pages.size);
    for (const [path, { text }] of pages) {
      assert.equal(text.match(/<h1/g).length, 1, path);
      const ids = idsOf(text);
      assert.deepEqual([...new Set(ids)], ids, path);
    }
  });

  test('is under the policy of all pages, and has no script or style of its own inside', async () => {
    const home = await ask('/');
    for (const [path, page] of pages) {
      assert.equal(page.header('content-security-policy'), home.header('content-security-policy'), path);
      assert.doesNotMatch(page.text, /<style|<script(?! src)| style=| onclick=/, path);
    }
  });

  test('may be kept for a while, and is not sent twice', async () => {
    const page = pages.get('/guide/protocol');
    assert.equal(page.header('cache-control'), 'public, max-age=300');
    const again = await ask('/guide/protocol', { headers: { 'if-none-match': page.header('etag') } });
    assert.equal(again.status, 304);
  });

  test('has nothing else', async () => {
    for (const path of ['/guide/', '/guide/overview', '/guide/x', '/guide/protocol.html'])
      assert.equal((await ask(path)).status, 404, path);
  });
});
