// The simulator alone on real workerd, and how to talk to it. Nothing sleeps: a test waits for a signal.
//
//     const lone = await startSimulator({ vars: { WEBHOOK_URL: 'http://127.0.0.1:8080' } });
//     await lone.sim('POST', 'clock', { advance_ms: 1000 });
//     await lone.close();

import assert from 'node:assert/strict';
import Stripe from 'stripe';
import { sharing } from './shared.mjs';
import { createTestHarness } from './wrangler.mjs';

// No test needs the network: this keeps the runtime from asking where on Earth it runs.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = 'false';

const root = new URL('../../..', import.meta.url).pathname;

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** A Worker beside it that calls it over a service binding. */
export const caller = {
  config: {
    name: 'caller',
    main: new URL('caller.mjs', import.meta.url).pathname,
    compatibility_date: '2026-10-20',
    services: [{ binding: 'SIMULATOR', service: 'paid-once-simulator' }],
  },
};

/** Starts it, with other Workers beside it. */
export async function startSimulator({ env, vars = {}, beside = [] } = {}) {
  const server = createTestHarness({
    root,
    workers: [{ configPath: 'simulator/wrangler.toml', env, vars }, ...beside],
  });
  const { url: origin } = await server.listen();

  /** Any request; the answer's body as text, and as JSON where it is some. */
  async function request(path, { json, headers = {}, ...init } = {}) {
    const response = await fetch(new URL(path, origin), {
      redirect: 'manual',
      method: json === undefined ? 'GET' : 'POST',
      body: json && JSON.stringify(json),
      headers: json === undefined ? headers : { 'Content-Type': 'application/json', ...headers },
      ...init,
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json');
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? JSON.parse(text) : undefined,
    };
  }

  /** The control surface, which must not refuse. */
  async function sim(method, path, body) {
    const answer = await request(`/_sim/${path}`, { method, body: body && JSON.stringify(body) });
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  const requests = async (key) =>
    (await sim('GET', `requests?idempotency_key=${encodeURIComponent(key)}`)).requests;

  return {
    server,
    origin,
    /** Stripe's official client of it. */
    stripe: ({ secret = 'sk_test_simulator', ...options } = {}) =>
      new Stripe(secret, {
        host: origin.hostname,
        port: origin.port,
        protocol: 'http',
        maxNetworkRetries: 0,
        telemetry: false,
        apiVersion: API_VERSION,
        ...options,
      }),
    request,
    sim,
    requests,
    ledger: (query = '') => sim('GET', `ledger${query}`),
    /** Resolves as soon as a request with this key has arrived; the test runner's own time limit is the bound. */
    async arrived(key) {
      while ((await requests(key)).length === 0);
    },
    /** What the [`caller`] sees. */
    async call(url, init, more = {}) {
      const body = JSON.stringify({ url, init, ...more });
      return (await server.getWorker('caller').fetch('/', { method: 'POST', body })).json();
    },
    fault: (fault, more = {}) => sim('POST', 'faults', { fault, ...more }),
    advance: (ms) => sim('POST', 'clock', { advance_ms: ms }),
    reset: () => sim('POST', 'reset'),
    async close() {
      await sim('POST', 'reset');
      await server.close();
    },
  };
}

/** The same, for files that begin with an empty account in each test, and may so have it together in one process. */
export const shareSimulator = sharing(startSimulator);

/** As the Worker's: the one of Stripe's own package does without `payment_method_types`. */
export const API_VERSION = '2026-08-26.dahlia';

/** The parameters of a card payment at Stripe. */
export const card = (more = {}) => ({
  amount: 1250,
  currency: 'usd',
  payment_method: 'pm_card_visa',
  payment_method_types: ['card'],
  confirm: true,
  ...more,
});

/** What a promise was rejected with. */
export async function rejected(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: 'it should have been refused' });
}
