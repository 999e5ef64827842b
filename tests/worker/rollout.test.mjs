// While a deploy rolls out, an edge and an object of two releases speak to each other.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { startWithObjectsOfBefore } from './support/changed.mjs';
import { objectId } from './support/objects.mjs';
import { PAYMENT } from './support/payments.mjs';

/** Objects as the release before had them: asked by requests alone, and answering without the time that the provider took. */
const BEFORE = `
  async fetch(request) {
    const { provider_ms, ...answered } = await (await this.#newest.fetch(request)).json();
    return Response.json(answered, { headers: { 'provider-ms': String(provider_ms) } });
  }
`;

describe('objects of the release before', () => {
  let site;
  let user;
  before(async () => {
    site = await startWithObjectsOfBefore(BEFORE);
    user = account(site);
  });
  after(() => site.close());

  test('are asked as they can answer, and an operation runs once', async () => {
    const key = freshKey();
    const first = await user.pay(PAYMENT, key);
    assert.equal(first.status, 201, first.text);
    const again = await user.pay(PAYMENT, key);
    assert.equal(again.header('idempotent-replayed'), 'true');
    assert.equal(again.text, first.text);
    assert.equal(await site.simulator.charges(first.payment), 1);
    assert.equal((await user.payment(first.payment)).json().status, 'succeeded');
  });

  test('have no method for calls', async () => {
    const { payment } = await user.pay(PAYMENT, freshKey());
    const { KEYS } = await site.worker.getEnv();
    const stub = KEYS.get(KEYS.idFromString(objectId(payment)));
    await assert.rejects(async () => stub.ask('{}'), /does not implement/);
  });
});
