// Mounts Stripe's Payment Element in the checkout form. What is typed into it goes to Stripe; its token goes into
// the form's hidden field, and from there on the form is sent like any other.

// The last one that takes `paymentMethodTypes`, as the API version that the server speaks.
const STRIPE = 'https://js.stripe.com/dahlia/stripe.js';

const ANSWER_WITHIN_MS = 30_000;

/** What Stripe does without the person; it fails if that takes too long, as behind a log-in page of the network's or a blocker. */
function within(work, lost) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(lost)), ANSWER_WITHIN_MS));
  return Promise.race([work, late]);
}

let stripe; // loaded once, and again only after it could not be loaded

function load(lost) {
  if (window.Stripe || stripe) return window.Stripe || stripe; // it may have come after it was given up
  const loaded = new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = STRIPE;
    script.onerror = () => reject(new Error(lost));
    script.onload = () => (window.Stripe ? resolve(window.Stripe) : script.onerror());
    document.head.append(script);
  });
  stripe = within(loaded, lost);
  stripe.catch(() => (stripe = undefined));
  return stripe;
}

/** Our colours, as they are now: light or dark. */
function appearance() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    theme: 'flat',
    variables: {
      colorPrimary: colour('--accent'),
      colorBackground: colour('--panel'),
      colorText: colour('--ink'),
      colorTextSecondary: colour('--soft'),
      colorDanger: colour('--bad'),
      borderRadius: '10px',
      fontFamily: 'system-ui, sans-serif',
      fontSizeBase: '16px',
      gridRowSpacing: '16px',
    },
    rules: { '.Input': { border: `1px solid ${colour('--edge')}`, boxShadow: 'none' } },
  };
}

/** The Payment Element of a form; ready once it can be typed into. */
async function mount(place) {
  const { key, account, amount, currency, capture, lost } = place.dataset;
  const Stripe = await load(lost);
  const { lang } = document.documentElement;
  const client = Stripe(key, { locale: lang, ...(account && { stripeAccount: account }) });
  const elements = client.elements({
    mode: 'payment',
    amount: Number(amount),
    currency,
    captureMethod: capture, // as the payment will have it
    paymentMethodTypes: ['card'],
    paymentMethodCreation: 'manual',
    appearance: appearance(),
  });
  const element = elements.create('payment');
  const ready = new Promise((resolve, reject) => {
    element.on('ready', resolve);
    element.on('loaderror', ({ error }) => reject(error));
  });
  place.replaceChildren(); // until here it says that the form is loading
  element.mount(place);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
    elements.update({ appearance: appearance() }),
  );
  await within(ready, lost);
  return { client, elements };
}

const cards = new WeakMap(); // form → its Payment Element, or the promise of it

function open() {
  const place = document.getElementById('card-element');
  if (!place) return;
  const form = place.closest('form');
  const card = mount(place);
  cards.set(form, card);
  card.catch((error) => {
    cards.delete(form); // the next press tries once more
    place.replaceChildren();
    say(form, false, error.message);
  });
  return card;
}

function say(form, busy, text) {
  const { pay, progress } = form.elements;
  pay.setAttribute('aria-busy', busy);
  // app.js opens it when the pause is over.
  pay.setAttribute('aria-disabled', busy || form.querySelector('[data-wait-ms]') !== null);
  progress.value = text;
}

/** As the server reads it. */
const ADDRESS = /^[!#-'*+.\-/0-9=?A-Z[\]^-~]+@[!#-'*+\-/0-9=?A-Z[\]^-~]+(\.[!#-'*+\-/0-9=?A-Z[\]^-~]+)+$/;

/** Says so where the address for the receipt is none: the server's answer would come in place of the card that was typed. */
function hasWrongEmail(form, text) {
  const { email } = form.elements;
  if (!email) return false;
  document.getElementById('email-error')?.remove();
  for (const name of ['aria-invalid', 'aria-describedby']) email.removeAttribute(name);
  const address = email.value.trim();
  if (!address || ADDRESS.test(address)) return false;
  const error = { id: 'email-error', className: 'wrong', textContent: text };
  email.after(Object.assign(document.createElement('p'), error));
  email.setAttribute('aria-invalid', true);
  email.setAttribute('aria-describedby', error.id);
  say(form, false, '');
  email.focus();
  return true;
}

/** Asks Stripe for a token of what was typed; without one nothing is sent. */
async function tokenise(form) {
  const { checking, lost, emailWrong } = form.querySelector('#card-element').dataset;
  if (hasWrongEmail(form, emailWrong)) return;
  say(form, true, checking);
  try {
    const { client, elements } = await (cards.get(form) ?? open());
    const checked = await elements.submit(); // a wallet asks the person here, who may take their time
    if (checked.error) return say(form, false, checked.error.message);
    const { paymentMethod, error } = await within(client.createPaymentMethod({ elements }), lost);
    if (error) return say(form, false, error.message);
    form.elements.payment_method.value = paymentMethod.id;
  } catch (error) {
    return say(form, false, error.message);
  }
  say(form, false, '');
  setTimeout(() => form.elements.pay.click()); // later: while it is being submitted a form does not hear this
}

// Before app.js, which sends what is complete.
addEventListener(
  'submit',
  (event) => {
    const form = event.target;
    if (!form.querySelector('#card-element') || form.elements.payment_method.value) return;
    event.preventDefault();
    if (form.querySelector('[data-wait-ms]')) return; // app.js says so
    event.stopImmediatePropagation();
    if (form.elements.pay.getAttribute('aria-disabled') !== 'true') tokenise(form);
  },
  { capture: true },
);
addEventListener('turned', open); // the form is shown again in place
open();
