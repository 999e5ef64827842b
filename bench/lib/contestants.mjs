// Who is measured. Each one can be started on a folder, and again on the same folder: then it has its keys still.
import { join } from 'node:path';

import { bytesIn, settled } from './proc.mjs';
import { floor, ours } from './sites.mjs';
import { startWorkerd } from './workerd.mjs';

const workerd = (name, describe, keysIn, more = {}) => ({
  name,
  /** The folder of the objects of keys. */
  bytesOfKeys: (dir) => bytesIn(join(dir, 'objects', keysIn)),
  start: async (dir, options) => {
    const site = await startWorkerd(dir, await describe(), options);
    return { ...site, url: site.origin('http'), settled: () => settled(site, more.left?.(site)) };
  },
});

/** `provider` and `database` are the addresses of what they call. */
export const contestants = ({ provider, database }) => [
  workerd('ours', () => ours({ provider, database }), 'KeyObject', {
    left: (site) => async () => (await site.ask('queue', '/stats')).open,
  }),
  workerd('floor', () => floor(provider), 'keys'),
];
