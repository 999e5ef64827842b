// What is wrong with a gate as it stands before a shop: it is asked for a page with a form, as a browser would, and told apart from outside.

import { bodyOf, formsOf } from './html-forms.mjs';

const KEY = 'paid_once_key';
const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

/**
 * Examines the page at an address. With `fields` its first form that has a key is sent, twice: with the page's own fields, and these. Gives lines
 * of `{ ok, says }`: what is as it should be, and what is not, with what to do.
 */
export async function examine(address, { fields, fetch = globalThis.fetch } = {}) {
  const lines = [];
  const good = (says) => lines.push({ ok: true, says });
  const bad = (says) => lines.push({ ok: false, says });
  const here = new URL(address);

  const script = await get(new URL('/.paid-once/gate.js', here), fetch);
  if (script.status !== 200 || !(await script.text()).includes('paid_once_key')) {
    bad(`No gate answers at ${here.host}: give its Worker a route there, such as ${here.host}/*.`);
    return lines;
  }
  good(`A gate answers at ${here.host}.`);

  const answer = await get(here, fetch);
  const html = await answer.text();
  const type = answer.headers.get('content-type') ?? '';
  if (answer.status !== 200)
    return [
      ...lines,
      { ok: false, says: `${here.pathname} is answered ${answer.status}: name a page that shows the form.` },
    ];
  if (!type.startsWith('text/html'))
    return [...lines, { ok: false, says: `${here.pathname} is ${type || 'without a type'}: name a page.` }];

  const forms = formsOf(html, here).filter(({ method }) => method === 'POST');
  if (forms.length === 0)
    bad('The page has no form that posts. One that a script builds gets its key there: try it in a browser.');
  for (const form of forms) {
    const { action, controls, encoding } = form;
    const where = isOf(here, action) ? action.pathname : action?.href;
    if (!action) {
      bad('A form goes to no address that a browser could read: look at its `action`.');
    } else if (action.host !== here.host) {
      bad(
        `A form goes to ${action.host}, past the gate: the shop writes its own host. Put the gate on a route of that host, or tell the shop that it is ${here.host}.`,
      );
    } else if (!isKeyed(form)) {
      bad(
        `The form to ${where} has no key. Is it to be sent once? Then add "POST ${action.pathname}" to \`forms\`.`,
      );
    } else if (encoding === 'text/plain') {
      bad(
        `The form to ${where} is sent as text/plain, where the gate finds no key: leave its \`enctype\` out.`,
      );
    } else if (controls.some(({ type }) => type === 'password')) {
      bad(
        `The form to ${where} takes a password: its answer may be a session. Leave it out of \`forms\` if it logs somebody in.`,
      );
    } else {
      good(`The form to ${where} has a key.`);
    }
  }
  const keyed = forms.find(
    (form) => isKeyed(form) && isOf(here, form.action) && form.encoding !== 'text/plain',
  );
  if (keyed && !answer.headers.getSetCookie().some((cookie) => /paid_once_visitor=/.test(cookie)))
    bad(
      "The page brings no cookie of the visitor: something between here and the gate takes it away, or keeps the page. It must be 'private'.",
    );
  const policy = answer.headers.get('content-security-policy') ?? '';
  if (keyed && !allowsScript(policy, here))
    bad(
      "The page's content security policy forbids /.paid-once/gate.js: add 'self' to script-src, or set `script = false` where no script builds or sends forms.",
    );
  if (keyed && fields) await send(keyed, { here, answer, fields, good, bad, fetch });
  return lines;
}

const isKeyed = ({ controls }) => controls.some(({ name }) => name === KEY);
const isOf = ({ host }, address) => address?.host === host;
const get = (url, fetch) => fetch(url, { headers: BROWSER, redirect: 'manual' });

function allowsScript(policy, { host }) {
  const directives = policy.split(/[;,]/).map((directive) => directive.trim().split(/\s+/));
  const of = (name) => directives.find(([given]) => given === name);
  const sources = of('script-src-elem') ?? of('script-src') ?? of('default-src');
  return (
    !sources ||
    sources.some(
      (source) =>
        ["'self'", '*', 'https:', 'http:'].includes(source) ||
        source.includes(host) ||
        source.startsWith("'nonce-"),
    )
  );
}

/** What the gate's page tells the site's staff to look for, if it tells something. */
const reference = (page) => {
  const found = page.match(/Reference <strong>([^<]+)</);
  return found ? `; the gate's reference is ${found[1]}` : '';
};

/** Sends a form twice: it must be done once. */
async function send(form, { here, answer, fields, good, bad, fetch }) {
  const to = form.action;
  const cookie = answer.headers
    .getSetCookie()
    .map((header) => header.split(';')[0])
    .join('; ');
  const once = () =>
    fetch(to, {
      method: 'POST',
      redirect: 'manual',
      headers: { ...BROWSER, cookie, origin: here.origin, referer: here.href },
      body: bodyOf(form, fields),
    });
  const [first, again] = [await once(), await once()];
  const told = `The form to ${to.pathname} was answered ${first.status}`;
  if (first.status === 403)
    return bad(
      `${told}: the shop refuses forms of ${here.host}. It compares Origin or Host: put the gate on a route of the shop's own host, or let the shop trust ${here.host}.`,
    );
  if (first.status >= 500)
    return bad(
      `${told}: nobody knows whether it was done. Look at the shop's orders before you send it again${reference(await first.text())}. If the gate logs \`redirect_not_followed\`, the shop leads the form on to another host by 307 or 308: let the form go there itself, and leave this address out.`,
    );
  if (first.status >= 400) return bad(`${told}: give fields that the shop takes, as name=value.`);
  const page = first.headers.get('content-type')?.startsWith('text/html') ? await first.text() : '';
  const isShownAgain = formsOf(page, to).some((shown) => isKeyed(shown) && shown.action?.href === to.href);
  if (
    again.headers.get('idempotent-replayed') !== 'true' ||
    again.headers.get('location') !== first.headers.get('location')
  )
    return bad(
      `${told}, and the same form once more was not answered the same (${again.status}). Was it refused, by a redirect to \`log_in\` or as \`failed_if\` says? Or is the answer larger than \`max_answer\`?`,
    );
  good(`${told}, and the same form once more got the same answer.`);
  if (isShownAgain)
    bad(
      'That page shows the form again. If it says what is missing: give fields that the shop takes, as name=value, and see that the route has `done = "redirect"`, or the gate takes such a page for an order that was made.',
    );
  const location = URL.parse(first.headers.get('location') ?? '', to);
  if (location && location.host !== here.host)
    bad(`The answer leads to ${location.host}, past the gate: tell the shop that it is ${here.host}.`);
  for (const header of first.headers.getSetCookie()) {
    const domain = header.match(/;\s*domain=\.?([^;]+)/i)?.[1].trim();
    if (domain && !here.hostname.endsWith(domain))
      bad(`The cookie ${header.split('=')[0]} is of ${domain}: a browser at ${here.host} does not keep it.`);
  }
}
