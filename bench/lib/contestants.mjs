// Who is measured. Each one can be started on a folder, and again on the same folder: then it has its keys still.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { bytesIn } from './proc.mjs';
import { floor, ours } from './sites.mjs';
import { startWorkerd } from './workerd.mjs';

/** Work that goes on after the answers has ended when this little was done in this long. */
const quiet = { cpuMs: 20, inMs: 200, patienceMs: 20_000 };

const workerd = (name, describe, keysIn, more = {}) => ({
  name,
  /** The folder of the objects of keys. */
  bytesOfKeys: (dir) => bytesIn(join(dir, 'objects', keysIn)),
  start: async (dir) => {
    const site = await startWorkerd(dir, await describe());
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

/** Resolves when nothing is left to be done and the process rests. */
export async function settled(site, left = () => 0) {
  const end = Date.now() + quiet.patienceMs;
  for (;;) {
    const before = site.cpuMs();
    await sleep(quiet.inMs);
    if (site.cpuMs() - before <= quiet.cpuMs && (await left()) === 0) return;
    if (Date.now() > end) throw new Error('it does not come to rest');
  }
}
