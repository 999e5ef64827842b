// Somebody at the desk, let in by the bearer token: looks at pages and presses their buttons.

import assert from 'node:assert/strict';

import { read } from './account.mjs';

export const FORM = { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' };

/** `headers` of a request go before the operator's own. */
export function operator(site, token) {
  const bearer = { authorization: `Bearer ${token}` };
  const look = async (path, headers = bearer) => read(await site.fetch(path, { headers }));
  return {
    bearer,
    look,
    /** The form of the page that asks once more, to which a button on this page leads. */
    asked: async (page, ending) => {
      const { path, entries } = formOf(page, ending);
      return formOf(await look(`${path}?${new URLSearchParams(entries)}`), ending);
    },
    /** What the log of operators has of a subject. */
    logOf: (subject) =>
      site.rows(
        'SELECT action, outcome FROM operator_actions WHERE subject = ? ORDER BY at_ms, action_id',
        subject,
      ),
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

/** The one-time key of a button on a page. */
export function key(page, path) {
  const [, form] =
    new RegExp(`action="${path}">\\s*<input type="hidden" name="form" value="([^"]+)"`).exec(page.text) ??
    assert.fail(`no button for ${path}`);
  return form;
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

/** The entry that a form marks as wrong, to which the error leads. */
export function wrongEntry({ text }) {
  const led = /<p id="wrong"><a href="#([^"]+)">/.exec(text)?.[1];
  const marked = [...text.matchAll(/<input id="([^"]+)"[^>]*aria-invalid="true"/g)].map(([, id]) => id);
  assert.deepEqual(marked, led ? [led] : [], text);
  return led;
}
