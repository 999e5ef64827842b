// Somebody at the desk, let in by the bearer token: looks at pages and presses their buttons.

import assert from 'node:assert/strict';

import { read } from './account.mjs';

export const FORM = { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' };

/** `headers` of a request go before the operator's own. */
export function operator(site, token) {
  const bearer = { authorization: `Bearer ${token}` };
  return {
    bearer,
    look: async (path, headers = bearer) => read(await site.fetch(path, { headers })),
    press: async (path, entries, headers = {}) =>
      read(
        await site.fetch(path, {
          method: 'POST',
          headers: { ...FORM, ...bearer, ...headers },
          body: new URLSearchParams(entries).toString(),
        }),
      ),
  };
}

/** The hidden entries and the address of a form on a page, by what its address ends with. */
export function formOf(page, ending) {
  for (const [text, path] of page.text.matchAll(/<form[^>]* action="([^"]+)"[^]*?<\/form>/g)) {
    if (!path.endsWith(ending)) continue;
    const entries = [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
    return { path, entries: Object.fromEntries(entries.map(([, name, value]) => [name, value])) };
  }
  return assert.fail(`no form for ${ending}: ${page.text}`);
}
