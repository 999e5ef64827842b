// A browser without a window: keeps its cookies, reads a page's form and sends it back.

import { read } from './account.mjs';

const decode = (text) =>
  text
    .replace(/&#(\d+);/g, (_, code) => String.fromCodePoint(code))
    .replace(/&#x([\da-f]+);/gi, (_, code) => String.fromCodePoint(parseInt(code, 16)))
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&');

const attribute = (tag, name) => {
  const found = new RegExp(`\\s${name}="([^"]*)"`).exec(tag);
  return found ? decode(found[1]) : undefined;
};

/** The entries of a page's form as a browser would send them; `undefined` if there is no form. */
export function entries(page) {
  const form = /<form[^>]*>([\s\S]*?)<\/form>/.exec(page)?.[1];
  if (form === undefined) return undefined;
  const sent = {};
  for (const [tag] of form.matchAll(/<input[^>]*>/g)) {
    const isChosen = attribute(tag, 'type') !== 'radio' || /\schecked/.test(tag);
    if (isChosen) sent[attribute(tag, 'name')] = attribute(tag, 'value') ?? '';
  }
  return sent;
}

/** A visitor at `origin`, by default where the site listens, who sends `always` with every request. */
export function browser(site, origin = site.url.origin, always = {}) {
  const jar = new Map();
  const cookies = () => [...jar].map((pair) => pair.join('=')).join('; ');
  const keep = (line) => {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
    if (/;\s*Max-Age=0\b/.test(line)) jar.delete(name);
    else jar.set(name, value);
  };

  const visit = async (path, { headers, ...init } = {}) => {
    const sent = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8', ...always, ...headers };
    if (jar.size > 0 && !('cookie' in sent)) sent.cookie = cookies();
    const answer = await read(await site.fetch(new URL(path, origin), { ...init, headers: sent }));
    answer.headers.getSetCookie().forEach(keep);
    return { ...answer, entries: entries(answer.text) };
  };

  const send = (path, sent, headers = {}) =>
    visit(path, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', origin, ...headers },
      body: new URLSearchParams(sent).toString(),
    });

  return {
    visit,
    /** Sends a form to this address as a browser does. */
    send,
    /** Goes where an answer leads, as far as that is one of our pages. */
    async follow(answer) {
      let at = answer;
      while (at.status === 303) at = await visit(at.header('location'));
      return at;
    },
    /** `GET /rides/new`: the page's entries, ready to be changed and sent. */
    openForm: async () => (await visit('/rides/new')).entries,
    /** Sends the form of a ride. */
    submit: (sent, headers) => send('/rides', sent, headers),
    /** A new order of the demo: where its page is, and the entries of its form, ready to be changed and sent there. */
    openOrder: async () => {
      const path = (await visit('/checkout')).header('location');
      return { path, form: { ...(await visit(path)).entries, payment_method: 'pm_card_visa' } };
    },
    /** All its cookies, as it sends them. */
    cookies,
    /** One of them; `undefined` if it has none of this name. */
    cookie: (name = 'session') => jar.get(name) ?? jar.get(`__Host-${name}`),
    /** Forgets them all. */
    clearCookies: () => jar.clear(),
  };
}
