// The site and its simulator under workerd, a browser before them, and the simulator's ledger as the witness.
//
//     const site = useSite();
//     test('…', async (t) => {
//       const { page } = await site.visit(t);
//       …
//       await site.paidOnce(page);
//     });

import assert from 'node:assert/strict';
import { after, before, beforeEach } from 'node:test';
import { fileURLToPath } from 'node:url';

import { query } from '../../worker/support/database.mjs';
import { migrate } from '../../worker/support/migrations.mjs';
import { objects } from '../../worker/support/objects.mjs';
import { HANGS_AFTER_MS, until } from '../../worker/support/until.mjs';
import { createTestHarness } from '../../worker/support/wrangler.mjs';

import { browsers, actWithoutFrames } from './browsers.mjs';

export const SIGNING_KEY = 'of-the-browser-tests-'.repeat(2);

/** Short enough to see what happens when they are over. */
const TIMES = {
  PROVIDER_TIMEOUT_MS: '700',
  LEASE_MS: '2000',
  WAIT_MS: '2000',
  COMPLETER_MS: '2000',
  QUIET_MS: '3000',
};

/** Starts all for the tests of a file; each begins with an empty account at the simulator. */
export function useSite({ vars = {} } = {}) {
  const site = new Site({ ...TIMES, ...vars });
  before(() => site.open());
  beforeEach(() => site.sim('POST', 'reset'));
  after(() => site.close());
  return site;
}

class Site {
  #vars;
  #server;
  #browsers = browsers();

  constructor(vars) {
    this.#vars = vars;
  }

  async open() {
    process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= 'false'; // no call home
    this.#server = createTestHarness(options(this.#vars));
    this.origin = (await this.#server.listen()).url.origin;
    await migrate(this.#server.getWorker());
  }

  async close() {
    try {
      await this.sim('POST', 'reset'); // lets go what is being held
      await this.#browsers.close();
    } finally {
      await this.#server?.close();
    }
  }

  /** Restarts the Workers with other settings; what they stored stays. */
  async configure(vars) {
    await this.#server.update(options({ ...this.#vars, ...vars }));
    assert.equal((await this.#server.listen()).url.origin, this.origin);
  }

  /** Somebody with a browser of their own. At the end nothing may have been reported by the browser. */
  async visit(t, options = {}) {
    const context = await this.#browsers.visit({ baseURL: this.origin, ...options });
    context.setDefaultTimeout(HANGS_AFTER_MS);
    const complaints = [];
    context.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    context.on('weberror', (error) => complaints.push(String(error.error())));
    context.on('response', (response) => {
      const asset = !['document', 'fetch'].includes(response.request().resourceType());
      if (asset && response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
    });
    t.after(async () => {
      await context.close();
      // A refusal that a test is about is no defect of the page.
      const defects = complaints.filter((text) => !/^Failed to load resource/.test(text));
      assert.deepEqual(defects, [], 'the browser complained');
    });
    const page = await context.newPage();
    actWithoutFrames(page);
    return { context, page };
  }

  /** Somebody who has the form before them. */
  async visitForm(t, options) {
    const visitor = await this.visit(t, options);
    await visitor.page.goto('/rides/new');
    return visitor;
  }

  /** The simulator's control surface. */
  async sim(method, path, body) {
    const simulator = this.#server.getWorker('paid-once-simulator');
    const response = await simulator.fetch(`/_sim/${path}`, { method, body: body && JSON.stringify(body) });
    const answer = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    return answer;
  }

  /** What somebody else makes at Stripe, by its form body. */
  stripe(path, body) {
    const simulator = this.#server.getWorker('paid-once-simulator');
    const headers = {
      authorization: 'Bearer sk_test_demo',
      'content-type': 'application/x-www-form-urlencoded',
    };
    return simulator.fetch(`/v1/${path}`, { method: 'POST', headers, body });
  }

  /** The next `count` charges meet this fault. */
  fault(fault, { count = 1, ...more } = {}) {
    return this.sim('POST', 'faults', { fault, count, path: '/v1/payment_intents', method: 'POST', ...more });
  }

  /** Runs a statement in the read model and gives its rows. */
  async sql(statement, ...values) {
    return (await query(this.#server.getWorker(), statement, ...values)).results;
  }

  /** Runs a statement in the object of a payment. */
  objectSql(id, statement, ...values) {
    return objects(this.#server.getWorker()).sql(id, statement, ...values);
  }

  /** No fault any more, and what was held goes on. */
  calm() {
    return this.sim('DELETE', 'faults');
  }

  /** When the simulator has been asked for this many charges. */
  charging(count = 1) {
    return until(`${count} requests for charges`, async () => {
      const { requests } = await this.sim('GET', 'requests');
      // Receipts and messages go out in the meantime.
      const posts = requests.filter(({ method, path }) => method === 'POST' && path.startsWith('/v1/'));
      return posts.length >= count && posts;
    });
  }

  /** Every charge for which a bank said yes. */
  async charges() {
    const { charges } = await this.sim('GET', 'ledger');
    return charges.filter(({ status }) => status === 'succeeded');
  }

  async nothingCharged() {
    assert.deepEqual(await this.charges(), []);
  }

  /** The page is the receipt of the only charge there is. Gives the address of the ride. */
  async paidOnce(page) {
    const charges = await this.paidTimes(1, page);
    assert.equal(await charge(page), charges[0].payment_intent);
    assert.equal(rideOf(page), charges[0].metadata.ride);
    return new URL(page.url()).pathname;
  }

  /** The page is a receipt, and this many rides were paid in all, each once. */
  async paidTimes(times, page) {
    await arriveAt(page, /\/rides\/ride_/);
    await page.getByRole('heading', { name: 'Your ride is booked' }).waitFor();
    const charges = await this.charges();
    assert.equal(charges.length, times, JSON.stringify(charges, null, 2));
    assert.equal(new Set(charges.map(({ metadata }) => metadata.ride)).size, times);
    for (const { amount, currency } of charges) assert.deepEqual([amount, currency], [2000, 'usd']);
    return charges;
  }
}

/**
 * Waits for an address, also where one navigation is aborted by the next: who presses twice without a script does that. A page that has got no
 * answer in all of its tries, as on a machine that takes half a minute for each, asks to try again: whoever waits does as they are told.
 */
async function arriveAt(page, address) {
  const again = page.getByRole('button', { name: 'Try again' });
  for (;;) {
    try {
      const arrived = page.waitForURL(address).then(() => true);
      const isTold = again.waitFor({ timeout: 0 }).then(() => false);
      for (const wait of [arrived, isTold]) wait.catch(() => {}); // of the one that comes later
      if (await Promise.race([arrived, isTold])) return;
      await again.click();
    } catch (error) {
      if (/ERR_ABORTED|NS_BINDING_ABORTED/.test(error.message)) continue;
      const main = page.getByRole('main').innerText({ timeout: 5_000 });
      const seen = await main.catch((refused) => refused.message);
      throw new Error(`${page.url()} is not ${address}, and shows: ${seen}`, { cause: error });
    }
  }
}

const rideOf = (page) => new URL(page.url()).pathname.replace('/rides/', '');
const charge = (page) => page.getByText(/^pi_/).textContent();

function options(vars) {
  return {
    root: fileURLToPath(new URL('../../..', import.meta.url)),
    workers: [
      {
        configPath: 'wrangler.toml',
        env: 'demo',
        vars,
        secrets: { SIGNING_KEY },
      },
      { configPath: 'desk/wrangler.toml', env: 'demo', vars, secrets: { SIGNING_KEY } },
      { configPath: 'demo/wrangler.toml', env: 'demo', vars, secrets: { SIGNING_KEY } },
      { configPath: 'simulator/wrangler.toml', env: 'demo' },
    ],
  };
}
