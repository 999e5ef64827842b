// Shows an experiment of the lab live: while the presses are under way, the page's results are fetched again and again. Without
// this script the same form does the same, and the page comes when all is over.

const EVERY_MS = 500;

const address = () => location.pathname + location.search;

let isPlaying = false;
let shown = address();

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function fetchPage(url, options) {
  const response = await fetch(url, { ...options, headers: { Accept: 'text/html' } });
  if (!response.ok) throw new Error(`${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  return { url: response.url, page };
}

const showMain = (page) =>
  document.getElementById('main').replaceWith(document.adoptNode(page.getElementById('main')));

/**
 * Takes over the results. They and the verdict stay the same elements: a live region that is replaced would be read out each
 * time, and one that is busy would not be any more.
 */
function showResults(page) {
  const results = document.getElementById('results');
  const fresh = document.adoptNode(page.getElementById('results'));
  const verdict = results.querySelector('#verdict');
  const next = fresh.querySelector('#verdict');
  if (!verdict || !next) return results.replaceChildren(...fresh.childNodes);
  if (verdict.textContent !== next.textContent) verdict.replaceChildren(...next.childNodes);
  for (const node of [...results.childNodes]) if (node !== verdict) node.remove();
  next.remove();
  verdict.after(...fresh.childNodes);
}

function toTheVerdict() {
  const verdict = document.getElementById('verdict');
  verdict.scrollIntoView();
  return verdict;
}

/** The button is not `disabled`: it would lose the focus. */
function busy(form, is) {
  form.elements.pay.ariaBusy = form.elements.pay.ariaDisabled = is;
  if (is) form.elements.progress.value = 'Pressing… The bank’s ledger fills in below.';
}

async function watch(url, isOver) {
  for (let isFirst = true; !isOver();) {
    const seen = await fetchPage(url).catch(() => undefined);
    if (seen && !isOver()) {
      showResults(seen.page);
      if (isFirst) toTheVerdict();
      isFirst = false;
    }
    await pause(EVERY_MS);
  }
}

async function play(form) {
  const body = new URLSearchParams(new FormData(form));
  const experiment = form.action.replace(/\/pay$/, '');
  let isOver = false;
  isPlaying = true;
  busy(form, true);
  document.getElementById('results').ariaBusy = true;
  watch(`${experiment}?fault=${body.get('fault')}&times=${body.get('times')}`, () => isOver);
  try {
    const { url, page } = await fetchPage(form.action, { method: 'POST', body });
    isOver = true;
    isPlaying = false;
    showMain(page);
    history.pushState(null, '', url);
    shown = address();
    toTheVerdict().focus({ preventScroll: true });
    if (page.querySelector('meta[http-equiv=refresh]')) await settled(url);
  } catch {
    isOver = true;
    isPlaying = false;
    busy(form, false);
    document.getElementById('results').ariaBusy = false;
    form.elements.progress.value = 'We could not get through. Press again.';
  }
}

/** Looks again until the payment is decided, while this page is shown. */
async function settled(url) {
  while (location.href === url) {
    await pause(EVERY_MS * 2);
    const seen = await fetchPage(url).catch(() => undefined);
    if (!seen || location.href !== url) continue;
    showResults(seen.page);
    if (!seen.page.querySelector('meta[http-equiv=refresh]')) return;
  }
}

addEventListener('submit', (event) => {
  if (!event.target.matches('[data-lab]')) return;
  event.preventDefault();
  if (!isPlaying) play(event.target);
});
addEventListener('popstate', () => {
  if (address() !== shown) location.reload();
});
