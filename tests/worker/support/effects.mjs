import assert from 'node:assert/strict';

import { paymentOf } from './objects.mjs';

// What another payment's alarm asks in the meantime moves nothing.
const moves = async (site) => (await site.simulator.requests()).filter(({ method }) => method !== 'GET');

/** Runs `act`, shows that it neither stored anything new nor asked the provider for anything, and gives its result. */
export async function withoutEffect(site, act) {
  const known = new Set(await site.objects.ids());
  const requests = await moves(site);
  const result = await act();
  // The local runtime also lists objects that were only asked: there is nothing in them.
  for (const id of await site.objects.ids())
    if (!known.has(id)) assert.deepEqual(await site.objects.dump(paymentOf(id)), {});
  assert.deepEqual(await moves(site), requests);
  return result;
}
