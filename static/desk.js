// Shows times where the operator is, with UTC on hover, and keeps a list, the overview or the page of a payment up to date while it is
// open. Without this script all times are in UTC, and a page changes when it is loaded again.

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** Shows the times of a page that came from the server. */
function localise(root) {
  for (const time of root.querySelectorAll('time[datetime]')) {
    time.title = `${time.textContent.trim()} UTC`;
    time.textContent = local.format(new Date(time.dateTime));
  }
  for (const heading of root.querySelectorAll('th'))
    if (heading.textContent.endsWith(' (UTC)'))
      heading.textContent = heading.textContent.replace(' (UTC)', '');
  for (const cell of root.querySelectorAll('[data-label$="(UTC)"]'))
    cell.dataset.label = cell.dataset.label.replace(' (UTC)', '');
  for (const note of root.querySelectorAll('[data-times]')) note.textContent = note.dataset.times;
}

// Updates. Only a page that says so has them (`data-live`, in how many seconds): none that asks for a confirmation, takes an entry that is
// more than a search, or shows a token once.

const ANSWER_WITHIN_MS = 10_000;
/** The longest wait after answers that did not come, in times of the usual one. */
const WAIT_AT_MOST = 6;
const PAUSED = 'desk-paused';
const STATES = {
  runs: 'Updates by itself',
  held: 'Updates wait while the page is in use',
  unanswered: 'No answer from the desk: it is asked again',
};

const content = document.querySelector('[data-live]');
const control = document.querySelector('[data-live-control]');
const trouble = document.querySelector('[data-live-trouble]');
/** As the server sent it. Each answer has fresh keys in its buttons, which are no news. */
const sent = (root) => root.innerHTML.replaceAll(/(name="form" value=")[^"]*/g, '$1');
let shown = content && sent(content);
let timer;
let isOn = false;
/** One of STATES. */
let state;
/** How many answers in a row did not come. */
let missed = 0;
let isPressing = false;
let isLeaving = false;

/** Where no option is chosen by the page, the first one is. */
const chosenAtFirst = ({ options }) =>
  Math.max(
    0,
    [...options].findIndex((option) => option.defaultSelected),
  );
const isChanged = (field) =>
  field.matches('select')
    ? field.selectedIndex !== chosenAtFirst(field)
    : field.checked !== field.defaultChecked || field.value !== field.defaultValue;
const marksText = () => !getSelection().isCollapsed && content.contains(getSelection().anchorNode);
/** Somebody has entered something, is about to, presses a button, or marks a text. */
const isInUse = () =>
  isPressing ||
  isLeaving ||
  marksText() ||
  Boolean(document.activeElement?.closest('form')) ||
  [...content.querySelectorAll('input:not([type=hidden]), textarea, select')].some(isChanged);

/** What stands for the same thing before and after: a row by where it leads, all else by its id. */
const keyOf = (node) =>
  node.getAttribute?.('id') ??
  (node.localName === 'tr' ? node.querySelector('a[href]')?.getAttribute('href') : undefined);

/** Makes an element what a newer one is, and keeps what is equal: with it the focus, the places scrolled to, and what is unfolded. */
function update(old, newer) {
  for (const { name, value } of newer.attributes)
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes])
    if (!newer.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  const kept = new Set([...newer.children].map(keyOf));
  const keyed = new Map();
  for (const child of [...old.children]) {
    const key = keyOf(child);
    if (kept.has(key) && !keyed.has(key)) keyed.set(key, child);
    else if (key) child.remove();
  }
  let next = old.firstChild;
  for (const child of [...newer.childNodes]) {
    const key = keyOf(child);
    const same = key ? keyed.get(key) : next;
    keyed.delete(key);
    if (same && same.nodeName === child.nodeName && keyOf(same) === key) {
      if (same === next) next = next.nextSibling;
      else old.insertBefore(same, next);
      if (child.nodeType === Node.ELEMENT_NODE) update(same, child);
      else if (same.data !== child.data) same.data = child.data;
    } else {
      old.insertBefore(document.adoptNode(child), next);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/** This page cannot be had any more: somebody has logged out, say. To ask again does not help. */
class Gone extends Error {}

/** Asks for the page once more. Throws if there is no answer, or the desk is in trouble; `Gone` if it is not this page any more. */
async function refresh() {
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const response = await fetch(location.href, {
    headers: { Accept: 'text/html' },
    cache: 'no-store',
    signal,
  });
  if (response.status === 429 || response.status >= 500)
    throw new Error(`the desk answered ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const newer = page.querySelector('[data-live]');
  if (!response.ok || response.redirected || !newer) throw new Gone(`the desk answered ${response.status}`);
  if (isInUse() || !isOn) return; // since it was asked for
  const html = sent(newer);
  if (html === shown) return;
  shown = html;
  localise(newer);
  update(content, newer);
  update(document.querySelector('.desk-menu'), page.querySelector('.desk-menu'));
}

async function tick() {
  if (document.hidden) return wait();
  if (isInUse()) {
    tell('held');
    return wait();
  }
  tell(stateOfAnswers());
  try {
    await refresh();
    missed = 0;
  } catch (error) {
    if (isLeaving) return wait();
    if (error instanceof Gone) {
      if (isOn) stop('Updates have stopped', 'Reload', () => location.reload());
      trouble.textContent = 'Updates have stopped';
      return;
    }
    missed += 1;
  }
  tell(stateOfAnswers());
  wait();
}

const stateOfAnswers = () => (missed > 0 ? 'unanswered' : 'runs');

/** Until the next look: longer after each answer that did not come. */
function wait() {
  clearTimeout(timer);
  const times = Math.min(2 ** missed, WAIT_AT_MOST);
  if (isOn) timer = setTimeout(tick, 1000 * Number(content.dataset.live) * times);
}

/** Says how it stands, with a button. That is not announced: what changes by itself and matters is, in `trouble`. */
function say(text, label, act) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'link';
  button.textContent = label;
  button.addEventListener('click', act);
  const hadFocus = control.contains(document.activeElement);
  control.replaceChildren(`${text} · `, button);
  control.hidden = false;
  if (hadFocus) button.focus();
}

function stop(...why) {
  isOn = false;
  clearTimeout(timer);
  say(...why);
}

function pause() {
  sessionStorage.setItem(PAUSED, 'yes');
  stop('Updates are paused', 'Resume', () => {
    sessionStorage.removeItem(PAUSED);
    run();
    void tick();
  });
}

/** `next` is one of STATES. */
function tell(next) {
  if (!isOn || next === state) return;
  state = next;
  trouble.textContent = state === 'unanswered' ? STATES[state] : '';
  say(STATES[state], 'Pause', pause);
}

function run() {
  isOn = true;
  missed = 0;
  state = undefined;
  tell('runs');
}

localise(document);
if (content && control) {
  addEventListener('pointerdown', ({ target }) => (isPressing = Boolean(target.closest('form, a, summary'))));
  for (const end of ['pointerup', 'pointercancel', 'blur']) addEventListener(end, () => (isPressing = false));
  for (const leave of ['submit', 'pagehide']) addEventListener(leave, () => (isLeaving = true));
  addEventListener('pageshow', () => (isLeaving = false));
  document.addEventListener('visibilitychange', () => isOn && !document.hidden && tick());
  const savesData = navigator.connection?.saveData || matchMedia('(prefers-reduced-data: reduce)').matches;
  if (savesData || sessionStorage.getItem(PAUSED)) pause();
  else {
    run();
    wait();
  }
}
