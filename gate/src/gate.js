// Keys for the forms that scripts build, and fresh ones for what scripts have sent. Without it all stays safe: the gate only asks more.
// A page that comes back from history has the keys that were sent from it there: what is sent once more is the same.
(() => {
  const FIELD = 'paid_once_key';
  /** A second click comes within this time, in ms, also where the answer to the first one came at once. */
  const CLICKS_MS = 1000;
  const { forms } = document;
  const keyOf = (form) => form.querySelector(`input[name="${FIELD}"]`);
  /** What an answer says that was given under a key. */
  const REPLAYED = 'idempotent-replayed';
  /** A form's key stands at its beginning: so much of a body is read, in bytes. */
  const LOOK_BYTES = 1 << 20;
  const fetch0 = window.fetch.bind(window);
  const { open: open0, send: send0 } = XMLHttpRequest.prototype;
  const submit0 = HTMLFormElement.prototype.submit;

  /** The browser may refuse to store anything, or have no room left. */
  const attempt = (act) => {
    try {
      return act();
    } catch {
      return undefined;
    }
  };
  /** What this entry of the history has stored; where the browser does not tell entries apart, this address. */
  const entry = () => `${FIELD} ${window.navigation?.currentEntry?.key ?? location} `;
  /** Which one a form was among those with its action and name, and among how many: one that has gone gives its key to no other. */
  const places = new WeakMap();
  function find() {
    const alike = {};
    for (const form of forms)
      (alike[`${form.getAttribute('action')} ${form.getAttribute('name')}`] ??= []).push(form);
    for (const [like, all] of Object.entries(alike))
      all.forEach((form, at) => places.has(form) || places.set(form, `${like} ${at} ${all.length}`));
  }
  const placeOf = (form) => entry() + places.get(form);
  const sending = (form) =>
    attempt(() => {
      find();
      if (keyOf(form)) sessionStorage[placeOf(form)] = keyOf(form).value;
    });

  /** Asks for a key for what goes there. Until there is an answer it asks again, less often each time. A key that the form has got meanwhile stays. */
  async function renew(form, to, old = keyOf(form)?.value, pauseMs = 500) {
    const at = new URL(to, document.baseURI);
    if (at.host !== location.host) return;
    const [status, key] = await fetch0('/.paid-once/key?to=' + encodeURIComponent(at.pathname + at.search))
      .then(async (answer) => [answer.status, await answer.text()])
      .catch(() => [500]);
    if (status > 499) return setTimeout(renew, pauseMs, form, to, old, pauseMs * 2);
    if (status !== 200 || keyOf(form)?.value !== old) return;
    if (!keyOf(form))
      form.prepend(Object.assign(document.createElement('input'), { type: 'hidden', name: FIELD }));
    keyOf(form).value = key;
    attempt(() => delete sessionStorage[placeOf(form)]);
  }

  /** Where a form is posted: by itself, or by a button that says so. */
  const targets = (form) =>
    [form, ...form.querySelectorAll('[formaction], [formmethod]')]
      .filter((by) => /^post$/i.test(by.getAttribute('formmethod') ?? form.getAttribute('method')))
      .map((by) => by.getAttribute('formaction') ?? form.getAttribute('action'));
  /** Forms that have no key, or the one of another form: a copy. */
  const asked = new WeakSet();
  function look() {
    find();
    const seen = new Set();
    for (const form of forms) {
      const key = keyOf(form)?.value;
      if (!asked.has(form) && (!key || seen.has(key)))
        for (const to of new Set(targets(form))) renew(form, to || location);
      asked.add(form);
      seen.add(key);
    }
  }

  /** What a script has sent itself is over once the shop has answered it, and not the gate for itself: the form's next sending is another one. */
  async function over(body, to) {
    if (body instanceof Request) body = await body.blob();
    if (body instanceof Blob) body = await body.slice(0, LOOK_BYTES).text();
    const sent = String(body instanceof FormData ? body.getAll(FIELD) : body);
    setTimeout(() => {
      for (const form of forms) {
        const key = keyOf(form)?.value;
        if (key && sent.includes(key)) renew(form, to);
      }
    }, CLICKS_MS);
  }
  // Where the answer leads elsewhere, what is seen is the answer there: it does not say of what was sent that it was answered under a key.
  window.fetch = async (...args) => {
    const [asked, init] = args;
    const to = new URL(asked.url ?? asked, document.baseURI);
    const isCopied = asked instanceof Request && asked.method === 'POST' && to.host === location.host;
    const body = init?.body ?? (isCopied ? asked.clone() : undefined);
    const answer = await fetch0(...args);
    if (answer.ok && (answer.redirected || answer.headers.has(REPLAYED))) over(body, to).catch(() => {});
    return answer;
  };
  const addresses = new WeakMap();
  XMLHttpRequest.prototype.open = function (...args) {
    open0.apply(this, args);
    addresses.set(this, new URL(args[1], document.baseURI));
  };
  XMLHttpRequest.prototype.send = function (body) {
    this.addEventListener('load', () => {
      const to = addresses.get(this);
      // Of another host's answer a script may not see every header.
      if (to?.host !== location.host || this.status > 399) return;
      if (this.responseURL !== to.href.split('#')[0] || this.getResponseHeader(REPLAYED))
        over(body, to).catch(() => {});
    });
    return send0.call(this, body);
  };

  // Before any listener of the page's, which may keep it from the others.
  addEventListener('submit', ({ target }) => sending(target), true);
  HTMLFormElement.prototype.submit = function () {
    sending(this);
    return submit0.call(this);
  };

  const isBack = performance.getEntriesByType('navigation')[0]?.type === 'back_forward';
  // A page that is opened anew is about something else.
  if (!isBack)
    attempt(() => {
      for (const name of Object.keys(sessionStorage))
        if (name.startsWith(entry())) delete sessionStorage[name];
    });
  addEventListener('DOMContentLoaded', () => {
    find();
    for (const form of isBack ? forms : []) {
      const sent = attempt(() => sessionStorage[placeOf(form)]);
      if (sent && keyOf(form)) keyOf(form).value = sent;
    }
    look();
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
  });
})();
