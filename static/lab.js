// Shows an experiment of the lab live, on its own page and on the home page: while the presses are under way, the page's results are fetched again and again. Without
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

/** What runs now. */
function running(form) {
  const data = new FormData(form);
  const times = data.get('times') === '1' ? 'One click' : `${data.get('times')} clicks at once`;
  const label = form.querySelector('[name=fault]:checked + span .fault-label')?.textContent;
  const fault = label && data.get('fault') !== 'none' ? ` “${label}”.` : '';
  return `${times}, each with automatic retries, to both shops.${fault} The bank’s ledger fills in…`;
}

/** The button is not `disabled`: it would lose the focus. */
function busy(form, is) {
  form.elements.pay.ariaBusy = form.elements.pay.ariaDisabled = is;
  if (is) form.elements.progress.value = running(form);
}

async function watch(url, isOver, show) {
  for (let isFirst = true; !isOver();) {
    const seen = await fetchPage(url).catch(() => undefined);
    if (seen && !isOver()) {
      show(seen.page, isFirst);
      isFirst = false;
    }
    await pause(EVERY_MS);
  }
}

/** Presses Pay, and shows what the bank has done meanwhile. Gives the page of the result; nothing if it was not to be had. */
async function press(form, show) {
  const body = new URLSearchParams(new FormData(form));
  const experiment = form.action.replace(/\/pay$/, '');
  let isOver = false;
  isPlaying = true;
  busy(form, true);
  watch(`${experiment}?fault=${body.get('fault')}&times=${body.get('times')}`, () => isOver, show);
  try {
    return await fetchPage(form.action, { method: 'POST', body });
  } catch {
    busy(form, false);
    form.elements.progress.value = 'We could not get through. Press again.';
  } finally {
    isOver = true;
    isPlaying = false;
  }
}

async function play(form) {
  document.getElementById('results').ariaBusy = true;
  const ended = await press(form, (page, isFirst) => {
    showResults(page);
    if (isFirst) toTheVerdict();
  });
  if (!ended) {
    document.getElementById('results').ariaBusy = false;
    return;
  }
  const { url, page } = ended;
  showMain(page);
  history.pushState(null, '', url);
  shown = address();
  toTheVerdict().focus({ preventScroll: true });
  if (page.querySelector('meta[http-equiv=refresh]')) await settled(url);
}

/** The home page has one button and the two sums; all else stands on the page of the result. */
async function playSmall(lab, form) {
  const showSums = (page) => {
    for (const side of lab.querySelectorAll('[data-side]')) {
      const sum = page.getElementById(side.dataset.side)?.closest('.side').querySelector('.sum');
      if (sum?.querySelector('span')) side.querySelector('.sum').replaceChildren(...sum.childNodes);
    }
  };
  // What stands there is of the thing before.
  for (const sum of lab.querySelectorAll('[data-side] .sum')) {
    sum.querySelector('span').textContent = '$0.00';
    sum.querySelector('strong').textContent = 'not charged';
  }
  const ended = await press(form, showSums);
  if (!ended) return;
  showSums(ended.page);
  busy(form, false);
  form.action = ended.page.querySelector('[data-lab]').action; // another try is another payment
  form.elements.pay.textContent = 'Once more';
  const link = document.createElement('a');
  link.href = ended.url;
  link.textContent = 'See what happened';
  form.elements.progress.replaceChildren(`${ended.page.getElementById('verdict').textContent} `, link);
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
  const small = event.target.closest('[data-small-lab]');
  if (!small && !event.target.matches('[data-lab]')) return;
  event.preventDefault();
  if (isPlaying) return;
  if (small) playSmall(small, event.target);
  else play(event.target);
});

/** The address of a result is copied, where it can be; it is a link all the same. */
addEventListener('click', async (event) => {
  if (!event.target.matches('[data-share]') || !navigator.clipboard) return;
  event.preventDefault();
  await navigator.clipboard.writeText(event.target.href);
  event.target.textContent = 'copied';
});

addEventListener('popstate', () => {
  if (address() !== shown) location.reload();
});
