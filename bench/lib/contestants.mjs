// Who is measured. Each one can be started on a folder, and again on the same folder: then it has its keys still.
import { join } from 'node:path';

import { peers } from './peers.mjs';
import { bytesIn, settled } from './proc.mjs';
import { floor, hono, ours } from './sites.mjs';
import { startWorkerd } from './workerd.mjs';

const workerd = (name, describe, keysIn, { left, ...more }) => ({
  name,
  ...more,
  /** The folder of the objects of keys. */
  bytesOfKeys: (dir) => bytesIn(join(dir, 'objects', keysIn)),
  start: async (dir, options) => {
    const site = await startWorkerd(dir, await describe(), options);
    return { ...site, url: site.origin('http'), settled: () => settled(site, left?.(site)) };
  },
});

const leftInQueue = (site) => async () => (await site.ask('queue', '/stats')).open;

/** `provider` and `database` are the addresses of what they call; `isWide` says whether the peers take part. */
export const contestants = ({ provider, database, isWide }) => [
  workerd('ours', () => ours({ provider, database, vars: { REPLAY_CACHE_MS: '0' } }), 'KeyObject', {
    left: leftInQueue,
    promises:
      'edge; each replay asks its object; synced before the send and after it; resumed by itself; an unknown outcome is asked until known',
  }),
  workerd(
    'ours, copies',
    () => ours({ provider, database, vars: { REPLAY_CACHE_MS: '60000' } }),
    'KeyObject',
    {
      left: leftInQueue,
      plays: ['replay'],
      isPeer: true,
      promises: 'the same, but a replay is answered from a copy at the edge',
    },
  ),
  workerd('floor', () => floor(provider), 'keys', {
    promises: 'edge; the answer is synced; no lock, nothing before the send, nobody comes back',
  }),
  ...(isWide
    ? [
        workerd('hono', () => hono(provider), 'keys', {
          isPeer: true,
          promises:
            'edge; lock and answer are synced; a crash leaves the key locked for a day, nobody comes back',
        }),
        ...peers(provider),
      ]
    : []),
];
