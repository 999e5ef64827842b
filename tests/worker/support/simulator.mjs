// The simulator's control surface: what the "bank" saw, and what goes wrong there.

import assert from 'node:assert/strict';

import { movedByPayment, movedOf } from '../../witness/ledger.mjs';

export function simulator(server) {
  async function control(method, path, body) {
    const worker = server.getWorker('paid-once-simulator');
    const init = { method, body: body && JSON.stringify(body) };
    const ask = () => worker.fetch(`http://simulator/_sim/${path}`, init);
    const response = await ask().catch((error) => {
      // The runtime may close a connection that was idle just as it is used again. What may be asked twice is.
      if (error.cause?.code !== 'UND_ERR_SOCKET' || method === 'POST') throw error;
      return ask();
    });
    const answer = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    return answer;
  }

  const ledger = (resource) => {
    const query = resource ? `?metadata%5Bresource%5D=${encodeURIComponent(resource)}` : '';
    return control('GET', `ledger${query}`);
  };

  /** Stripe's own API, by the demo's account. */
  async function stripe(path, init = {}) {
    const headers = { authorization: 'Bearer sk_test_demo', ...init.headers };
    const response = await server
      .getWorker('paid-once-simulator')
      .fetch(`http://simulator/v1/${path}`, { ...init, headers });
    return response.json();
  }

  return {
    /** What somebody else makes at Stripe with this account, by its form body. */
    make: (path, body) =>
      stripe(path, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      }),
    /** The address to which the bank sends the browser back from its page, as it was given with the payment. */
    async wayBack(bankPage) {
      const { pathname } = new URL(bankPage, 'https://bank.example');
      const { next_action } = await stripe(`payment_intents/${pathname.split('/').at(-1)}`);
      return new URL(next_action.redirect_to_url.return_url);
    },
    /** The last four digits of the card of a PaymentIntent. */
    async cardOf(intent) {
      const { payment_method } = await stripe(`payment_intents/${intent}`);
      return (await stripe(`payment_methods/${payment_method}`)).card.last4;
    },
    /** Arms a fault for the next `count` payments at Stripe; look-ups are not disturbed unless `method` says so. */
    fault: (fault, more = {}) => control('POST', 'faults', { fault, method: 'POST', path: '/v1/', ...more }),
    /** Faults that wait for a request. */
    faults: async () => (await control('GET', 'faults')).faults,
    /** Forgets all faults, and lets go whatever is held. */
    calm: () => control('DELETE', 'faults'),
    /** All charges and refunds, or those of one resource. */
    ledger,
    /** How often a resource's card was charged. */
    charges: async (resource) => (await ledger(resource)).totals.succeeded_charges,
    /** The requests that came under a resource's derived key, oldest first. */
    payments: async (resource) =>
      (await control('GET', `requests?idempotency_key=${encodeURIComponent(`${resource}_auth`)}`)).requests,
    /** The requests that came under a derived key, oldest first. */
    sends: async (key) =>
      (await control('GET', `requests?idempotency_key=${encodeURIComponent(key)}`)).requests,
    /** What a payment has moved: how often the bank said yes, and how much was taken, given back and given free. */
    async moved(payment) {
      const { charges, captured, refunded, voided } = movedOf(movedByPayment(await ledger()), payment);
      return { charges, captured, refunded, voided };
    },
    /** All requests to the providers of payments, oldest first. Emails and text messages go out when their time comes. */
    requests: async () =>
      (await control('GET', 'requests')).requests.filter(({ provider }) =>
        ['stripe', 'adyen'].includes(provider),
      ),
    /** The emails that were sent about a resource: a payment, a ride or a refund. Oldest first. */
    emails: async (resource) =>
      (await control('GET', 'mailbox.json')).emails.filter(({ text }) => text.includes(resource)),
    /** Sends an email past the site. */
    async send(key, email) {
      const response = await server.getWorker('paid-once-simulator').fetch('http://simulator/resend/emails', {
        method: 'POST',
        headers: {
          authorization: 'Bearer re_demo',
          'content-type': 'application/json',
          'idempotency-key': key,
        },
        body: JSON.stringify(email),
      });
      assert.equal(response.status, 200, await response.text());
    },
    /** The text messages that were sent under a reference, oldest first. */
    messages: async (reference) =>
      (await control('GET', `messages?reference=${encodeURIComponent(reference)}`)).messages,
    /** Adyen's notifications of a payment, oldest first. */
    notifications: async (payment) =>
      control('GET', `adyen/notifications?payment=${encodeURIComponent(payment)}`),
    /** Where what happens in a merchant account at Adyen is told: `{ merchant_account, path, hmac_key, basic }`. */
    adyenWebhook: (settings) => control('POST', 'adyen/webhook', settings),
    /** What befalls a payment at Adyen without a request of ours, such as `capture-failed` or `chargeback`. */
    befall: (payment, happening, options = {}) =>
      control('POST', `adyen/payments/${encodeURIComponent(payment)}/${happening}`, options),
    /** Closes a payout at Adyen, of a merchant account's or of all, and tells of its report: its name and address. */
    report: (options = {}) => control('POST', 'adyen/reports', options),
    /** The report, as Adyen gives it to whoever has a key. */
    async reportFile(name, { key = 'any' } = {}) {
      const worker = server.getWorker('paid-once-simulator');
      const answer = await worker.fetch(`http://simulator/adyen/reports/${name}`, {
        headers: { 'x-api-key': key },
      });
      assert.equal(answer.status, 200);
      return answer.text();
    },
    /** The same at Stripe, by the id of a PaymentIntent: `captures`, `cancel`, `expire`, `disputes`. */
    befallAtStripe: (intent, happening, options = {}) =>
      control('POST', `payments/${intent}/${happening}`, options),
    /** Stripe's events about a payment, its charges and its refunds, oldest first. */
    async events(payment) {
      const { data } = await stripe('events?limit=100');
      const isAbout = ({ metadata }) => metadata?.resource === payment || metadata?.payment === payment;
      return data.filter((event) => isAbout(event.data.object)).reverse();
    },
    /** Stripe's API past the site, as somebody at its dashboard uses it. */
    stripe,
    /** How webhooks are sent from now on: `on`, `off`, `late`, `doubled`, `shuffled`. */
    webhooks: (mode, more = {}) => control('POST', 'webhooks', { mode, ...more }),
    /** Sends all webhooks that are due; gives what each was answered. */
    flush: async () => (await control('POST', 'webhooks/flush')).sent,
    /** Whether webhooks were sent, and all of them were taken. */
    async isAllTold() {
      await control('POST', 'webhooks/flush');
      const { deliveries } = await control('GET', 'webhooks');
      return deliveries.length > 0 && deliveries.every(({ standing }) => standing !== 'waiting');
    },
    /** Sends the webhook of one event now; gives the status of the answer. */
    tell: async (event_id) => (await control('POST', 'webhooks/resend', { event_id })).status,
    /** Moves the simulator's clock. */
    advance: (ms) => control('POST', 'clock', { advance_ms: ms }),
    /** An empty account. */
    reset: () => control('POST', 'reset'),
  };
}
