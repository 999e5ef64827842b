// Payments in the state that a test needs, and the five operations in one table.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import { account, freshKey } from './account.mjs';
import { conforming, readDocument } from './openapi.mjs';
import { until } from './until.mjs';

export const PAYMENT = { amount: 2500, currency: 'usd' };
export const AUTHORISATION = { ...PAYMENT, capture: false };
export const DECLINED_CARD = 'pm_card_visa_chargeDeclined';

/** Do not wait for another request's result, nor for the provider to come back. */
export const AT_ONCE = { prefer: 'wait=0' };
export const PATIENT = { prefer: 'wait=30' };

/** An API client whose every answer is held against the API's document. */
export function client(site, token) {
  const examine = async (...seen) => {
    await readDocument(site);
    conforming(...seen);
  };
  return account(site, token, { examine });
}

export const freshOrder = () => `order-${randomUUID()}`;

/** A payment that was made, as JSON. */
export async function paid(user, payment = PAYMENT) {
  const answer = await user.pay(payment, freshKey());
  assert.equal(answer.status, 201, answer.text);
  return answer.json();
}

/** A move that was made, as JSON. */
export async function moved(user, payment, move, body) {
  const answer = await user.post(`/payments/${payment}/${move}`, body, freshKey());
  assert.ok([200, 201, 202].includes(answer.status), answer.text);
  return answer.json();
}

const nothing = { charges: 1, captured: 0, refunded: 0, voided: 0 };

/**
 * The five operations. `prepare` makes what one needs and gives its request; `edit` another request that differs in the
 * `fields` alone; `derivedKey` is what the provider must see, `moved` what must have moved in its ledger.
 */
export const operations = [
  {
    name: 'a payment',
    status: 201,
    prepare: async () => ({ path: '/payments', body: PAYMENT }),
    edit: async (_, request) => ({ ...request, body: { ...PAYMENT, amount: 2501, currency: 'eur' } }),
    fields: ['amount', 'currency'],
    derivedKey: ({ payment }) => `${payment}_auth`,
    moved: { ...nothing, captured: 2500 },
  },
  {
    name: 'an authorisation',
    status: 201,
    prepare: async () => ({ path: '/payments', body: AUTHORISATION }),
    edit: async (_, request) => ({ ...request, body: PAYMENT }),
    fields: ['capture'],
    derivedKey: ({ payment }) => `${payment}_auth`,
    moved: nothing,
  },
  {
    name: 'a capture',
    status: 200,
    prepare: async (user) => ({
      path: `/payments/${(await paid(user, AUTHORISATION)).id}/capture`,
      body: { amount: 1500 },
    }),
    edit: async (_, request) => ({ ...request, body: { amount: 1600 } }),
    fields: ['amount'],
    derivedKey: ({ payment }) => `${payment}_capture`,
    moved: { ...nothing, captured: 1500 },
  },
  {
    name: 'a void',
    status: 200,
    prepare: async (user) => ({ path: `/payments/${(await paid(user, AUTHORISATION)).id}/void` }),
    // It has no parameters: only another payment makes another request of it.
    edit: async (user) => ({ path: `/payments/${(await paid(user, AUTHORISATION)).id}/void` }),
    fields: undefined,
    derivedKey: ({ payment }) => `${payment}_void`,
    moved: { ...nothing, voided: 1 },
  },
  {
    name: 'a refund',
    status: 201,
    prepare: async (user) => ({
      path: `/payments/${(await paid(user)).id}/refunds`,
      body: { amount: 700, reason: 'duplicate' },
    }),
    edit: async (_, request) => ({ ...request, body: { amount: 700, reason: 'fraudulent' } }),
    fields: ['reason'],
    derivedKey: (answer) => `${answer.payment}_refund_${answer.json().id}`,
    moved: { ...nothing, captured: 2500, refunded: 700 },
  },
];

/** Sends a request of the table. */
export const send = (user, { path, body }, key, headers) => user.post(path, body, key, headers);

/** The provider holds the next request back until `calm()`; resolves, once it has it, to the answer to come. */
export async function held(site, act) {
  await site.simulator.fault('slow', { delay_ms: 60_000 });
  const answer = act();
  await until('the provider has the request', async () => (await site.simulator.faults()).length === 0);
  return { answer };
}

/** Sends the request again and again until it is answered for good. */
export async function insist(act) {
  const once = async () => {
    const answer = await act();
    if (![409, 500, 503].includes(answer.status)) return answer;
    assert.match(answer.header('retry-after') ?? '', /^[1-9]\d*$/, answer.text);
    return undefined;
  };
  return until('a final answer', once, { everyMs: 50 });
}

/** A problem, and everything that is the same for all of its kind. */
export function assertProblem(answer, status, kind, members = {}) {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.header('content-type'), 'application/problem+json');
  const problem = answer.json();
  assert.equal(problem.type, `/problems/${kind}`);
  assert.equal(problem.status, status);
  assert.ok(problem.title.length > 0 && problem.detail.length > 0);
  for (const [name, value] of Object.entries(members)) assert.deepEqual(problem[name], value, name);
  return problem;
}
