// The bank of a site that is killed: it runs in a process of its own, so it outlives each kill.
import { join } from 'node:path';

import { temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { makeSecrets, open } from '../../scripts/lib/dev-server.mjs';
import { freePorts } from '../../scripts/lib/lab.mjs';

/** Starts it. Gives what the site needs: the ports of both, the folder of the test, the secrets, and how both are served. */
export async function openBank(name) {
  const { port, bank } = await freePorts();
  const state = temporaryDirectory(name);
  // Workers find each other here.
  process.env.WRANGLER_REGISTRY_PATH = join(state, 'registry');
  const secrets = makeSecrets();
  const shared = { env: ['demo'], shows: () => false, readyPath: '/healthz' };
  await open({
    ...shared,
    name: 'the bank',
    configs: ['simulator/wrangler.toml'],
    port: bank,
    state: join(state, 'bank'),
  });
  return { port, bank, state, secrets, shared };
}
