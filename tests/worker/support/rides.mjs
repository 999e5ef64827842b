// Rocket Rides on the demo's own Worker: what their objects keep, and what the bank has charged for them.

import assert from 'node:assert/strict';

import { SELECT_ROWS } from '../../../scripts/lib/object-tables.mjs';
import { jobsOf } from './jobs.mjs';
import { objectId } from './objects.mjs';
import { until } from './until.mjs';

/** A site that tells of rides, by their ids. */
export function ridesOf(site) {
  const worker = site.server.getWorker('paid-once-demo-site');
  const storage = (ride) => worker.getDurableObjectStorage('RIDES', { id: objectId(ride) });
  /** The rows as they are stored; none where nothing was ever written. */
  const rows = async (ride) =>
    (await storage(ride))
      .exec(SELECT_ROWS)
      .catch((error) => (/no such table/.test(error.message) ? [] : Promise.reject(error)));
  const state = async (ride) => JSON.parse((await rows(ride))[0].state).state;

  /** All that the bank was asked to charge for a ride. */
  const charges = async (ride) =>
    (await site.simulator.ledger()).charges.filter(({ metadata }) => metadata.ride === ride);
  /** The id of its payment, once the bank has been asked. */
  const payment = async (ride) => (await charges(ride))[0]?.metadata.resource;

  const rides = {
    rows,
    state,
    charges,
    payment,
    /** How often a ride's card was charged. */
    paid: async (ride) => (await charges(ride)).filter(({ status }) => status === 'succeeded').length,
    /** The requests to the bank under the key of its payment. */
    sends: async (ride) => {
      const id = await payment(ride);
      return id ? site.simulator.sends(`${id}_auth`) : [];
    },
    /** To whom emails went about it: once all jobs of its payment are over. */
    async receipts(ride) {
      await jobsOf(site, await payment(ride));
      return (await site.simulator.emails(ride)).map(({ to }) => to);
    },
    /** The messages to its pilot: once its own job is over. */
    async messages(ride) {
      await until('the pilot is told', async () => ((await state(ride)).jobs ?? []).length === 0);
      return site.simulator.messages(`${ride}_dispatch`);
    },
    /** Throws its object out of memory, as a deploy or a crash does. */
    evict: (ride) => worker.evictDurableObject('RIDES', { id: objectId(ride) }),
    /** The ids of all objects of rides. */
    ids: () => worker.listDurableObjectIds('RIDES'),
  };

  /** Runs `act`, shows that it neither stored anything nor asked the bank for anything, and gives its result. */
  async function withoutEffect(act) {
    const known = new Set(await rides.ids());
    const moves = async () =>
      (await site.simulator.requests()).filter(({ method }) => method !== 'GET').length;
    const before = await moves();
    const result = await act();
    // The local runtime also lists objects that were only asked: there is nothing in them.
    for (const id of await rides.ids())
      if (!known.has(id))
        assert.deepEqual(await rows(`ride_${Buffer.from(id, 'hex').toString('base64url')}`), []);
    assert.equal(await moves(), before);
    return result;
  }

  return { ...site, rides, withoutEffect };
}
