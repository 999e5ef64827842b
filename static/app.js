// What every page has: `data-pay-once` forms are carried through bad connections (their hidden key prevents a second charge, so
// this may send as often as it likes), and examples can be copied.

const TRIES = 8;
const ANSWER_WITHIN_MS = 30_000;

/** Gives up after that time. Safari has `AbortSignal.timeout` since its version 16. */
function timeout() {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), ANSWER_WITHIN_MS);
  return controller.signal;
}

/** With jitter: not all may come back at once. */
function pause(attempt, retryAfter) {
  const backoff = Math.min(500 * 2 ** attempt, 8_000) * (0.75 + Math.random() / 2);
  const asked = Math.min(Number(retryAfter) * 1000 || 0, 60_000);
  return new Promise((resolve) => {
    setTimeout(resolve, Math.max(backoff, asked));
    if (!asked) addEventListener('online', resolve, { once: true });
  });
}

/** Repeats one request until `read` takes an answer. `tell` hears of each try without one whether the connection was lost. */
async function insist(url, options, tries, tell, read) {
  for (let attempt = 0; attempt < tries; attempt++) {
    let retryAfter;
    try {
      const response = await fetch(url, { ...options, signal: timeout() });
      retryAfter = response.headers.get('Retry-After');
      const { status } = response;
      // A form that is sent too often is answered by a page that asks the person to wait. A question just waits.
      const isTooOften = status === 429 && options.method !== 'POST';
      // Where anything else is refused there is a page that says so, also if `Retry-After` tells programs when to come again.
      if (status < 500 && status !== 408 && !isTooOften) return await read(response);
      tell(false);
    } catch {
      tell(true); // on its way there or back: only the server knows
    }
    if (attempt + 1 < tries) await pause(attempt, retryAfter);
  }
}

// By attributes: Firefox has `ariaDisabled` and its like since its version 119.
const isBusy = (form) => form.elements.pay.getAttribute('aria-disabled') === 'true';

/** The button is not `disabled`: it would lose the focus. */
function show(form, busy, text, label) {
  const button = form.elements.pay;
  const words = button.lastChild; // behind its picture, if it has one
  button.dataset.label ??= words.data;
  words.data = label ?? button.dataset.label;
  for (const name of ['aria-busy', 'aria-disabled']) button.setAttribute(name, busy);
  form.elements.progress.value = text;
  const isFixed = busy || 'sent' in form; // what was sent is sent again: the key stands for it
  if (isFixed && form.querySelector('fieldset:focus-within')) button.focus(); // what is disabled loses it
  for (const fieldset of form.querySelectorAll('fieldset')) fieldset.disabled = isFixed;
  for (const input of form.querySelectorAll('input')) input.readOnly = isFixed;
  form.querySelector('#card-element')?.toggleAttribute('inert', isFixed); // Stripe's fields are not in our fieldsets
}

/** A try that must wait: until then the button only says so. */
function wait() {
  for (const told of document.querySelectorAll('[data-wait-ms]')) {
    const { pay: button, progress } = told.closest('form').elements;
    button.setAttribute('aria-disabled', true);
    setTimeout(() => {
      told.remove();
      button.removeAttribute('aria-describedby');
      button.setAttribute('aria-disabled', false);
      progress.value = told.dataset.over;
    }, told.dataset.waitMs);
  }
}

/** On to another page; Back skips the used form. Whoever goes elsewhere meanwhile, and comes back to this one, is led there again. */
function leave(form, url) {
  form.leadsTo = url;
  location.replace(url);
}

/** Whether a page is the same form, to be sent again as it is: then this one stays, with the card that was typed into it. */
const isSameForm = (form, page) =>
  page.querySelector('[name=idempotency_key]')?.value === form.elements.idempotency_key.value &&
  !page.querySelector('[data-wait-ms]');

/** Sends the same entries each time: the key stands for them. */
async function pay(form) {
  form.sent ??= new URLSearchParams(new FormData(form));
  const request = { method: 'POST', body: form.sent, headers: { Accept: 'text/html' } };
  const say = form.dataset; // in the language of its page
  const tell = (text) => show(form, true, text, say.paying);
  const retry = (isLost) => tell(isLost ? say.lostRetry : say.noAnswerRetry);
  tell(say.aFewSeconds);
  const done = await insist(form.action, request, TRIES, retry, async (response) => {
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    const later =
      response.status === 429 &&
      isSameForm(form, page) &&
      page.querySelector('.notice > :not(.notice-title)');
    if (response.redirected) leave(form, response.url);
    else if (later) show(form, false, later.textContent);
    else turnTo(page);
    return true;
  });
  if (!done) show(form, false, say.gotLost, say.tryAgain);
}

/** Shows a page in place; throws if it is not ours. */
function turnTo(page) {
  const main = document.adoptNode(page.getElementById('main'));
  const first = main.querySelector('[autofocus]') ?? main;
  first.autofocus = false;
  document.getElementById('main').replaceWith(main);
  document.title = page.title;
  document.documentElement.lang = page.documentElement.lang;
  scrollTo(0, 0);
  first.focus();
  dispatchEvent(new Event('turned'));
}

/** An old page came back: is its key used? Until that is known nobody pays. */
async function check(form) {
  if (form.leadsTo) return leave(form, form.leadsTo);
  if (isBusy(form)) return; // it asks already
  const say = form.dataset;
  const tell = (isLost) => show(form, true, isLost ? say.lostCheck : say.noAnswerCheck);
  show(form, true, say.momentCheck);
  if (form.dataset.payOnce === 'order') {
    // An order has one page: once it can be had, it shows how the order stands. What was entered stays where nothing was sent and all can be paid yet.
    const request = { headers: { Accept: 'text/html' } };
    const { isPayable } = await insist(form.action, request, Infinity, tell, async (response) => {
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      return { isPayable: response.ok && page.querySelector('[data-pay-once=order]') };
    });
    return isPayable && !('sent' in form) ? show(form, false, '') : leave(form, form.action);
  }
  const url = `${form.action}/keys/${encodeURIComponent(form.elements.idempotency_key.value)}`;
  const request = { headers: { Accept: 'application/json' } };
  const used = await insist(url, request, Infinity, tell, (response) => response.ok && response.json());
  if (used) return leave(form, used.resource);
  delete form.sent;
  show(form, false, '');
}

/** Where something is under way this looks how it stands, and loads the page anew only when it is over: each time a screen reader would start over. */
function lookAgain() {
  const told = document.querySelector('[data-look-again-s]');
  if (!told) return;
  const { href } = document.getElementById('look');
  const { lost } = told.dataset;
  setTimeout(async () => {
    try {
      const request = { headers: { Accept: 'text/html' }, signal: timeout() };
      const response = await fetch(href, request);
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const isOver =
        response.status < 500 && response.status !== 429 && !page.querySelector('[data-look-again-s]');
      if (isOver) return location.replace(href);
      for (const part of ['[role=status]', '[data-look-again-s]']) renew(part, page);
    } catch {
      // No connection: the page says how it stood, and that it looks again.
      const status = document.querySelector('[role=status]');
      if (status.lastElementChild.textContent !== lost)
        status.append(Object.assign(document.createElement('p'), { textContent: lost }));
    }
    lookAgain();
  }, told.dataset.lookAgainS * 1000);
}

/** Makes a part of a page what it is now, if that says something else. A screen reader hears of what changes in an element, not of another in its place. */
function renew(selector, page) {
  const [old, now] = [document, page].map((from) => from.querySelector(selector));
  if (!now || old.isEqualNode(now)) return;
  for (const { name, value } of now.attributes) old.setAttribute(name, value);
  old.replaceChildren(...now.childNodes);
}

wait();
lookAgain();
addEventListener('turned', wait);
addEventListener('submit', (event) => {
  const form = event.target;
  if (!form.matches('[data-pay-once]')) return;
  event.preventDefault();
  const waits = form.querySelector('[data-wait-ms]');
  if (waits) form.elements.progress.value = waits.textContent;
  else if (!isBusy(form)) pay(form);
});
addEventListener('pageshow', (event) => {
  const [navigation] = performance.getEntriesByType('navigation');
  const old = event.persisted || navigation?.type === 'back_forward';
  if (old) document.querySelectorAll('[data-pay-once]').forEach(check);
});

// Examples get a button that copies them: without this script there is nothing to press. One place says that it was done.
const examples = navigator.clipboard ? document.querySelectorAll('[data-copy]') : [];
const copied = Object.assign(document.createElement('p'), { className: 'unseen' });
copied.setAttribute('role', 'status');
if (examples.length > 0) document.getElementById('main').append(copied);
for (const example of examples) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'button small quiet copy';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', `Copy: ${example.getAttribute('aria-label')}`);
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(example.textContent);
    button.textContent = copied.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
      copied.textContent = '';
    }, 2000);
  });
  example.after(button);
}
