// The lab: the demo without credentials, and its bank beside it in a process of its own, so that the one can be killed
// while the other goes on and remembers what it charged.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { checkPortIsFree, makeSecrets, open, portFrom } from './dev-server.mjs';
import { Stop, say } from './say.mjs';

/** What the lab's Worker is set to, beside the demo. */
const vars = { LAB: 'true', KEY_POLICY: 'optional', REPLAY_MARKER: 'body', MISMATCH_STATUS: '409' };

/** How long the bank takes, in ms: about as long as a real one, so that a charge is slower than a replay. */
const bankMs = 250;

/** The bank has the port after the lab's. */
export async function labPorts(wanted, standard) {
  const port = portFrom(wanted, standard);
  const bank = portFrom(port + 1);
  for (const one of [port, bank]) await checkPortIsFree(one);
  return { port, bank };
}

/**
 * Starts both, with nothing in `state` from before; when it resolves both answer. The site is started again whenever it
 * ends, as a machine's supervisor would do; `ended` rejects if one of them cannot go on. The file `site.pid` names the
 * site's process group.
 */
export async function startLab({ port, bank, state, shows = () => true }) {
  rmSync(state, { recursive: true, force: true });
  mkdirSync(state, { recursive: true });
  // Workers find each other here: a lab's must not find those of `npm start`.
  process.env.WRANGLER_REGISTRY_PATH = join(state, 'registry');
  makeSecrets();

  const simulator = await open({
    name: 'the bank',
    configs: ['simulator/wrangler.toml'],
    env: ['demo'],
    vars: { LATENCY_MS: bankMs },
    port: bank,
    state: join(state, 'bank'),
    readyPath: '/healthz',
    shows: (line) => /warn|error/i.test(line),
  });
  const openSite = async () => {
    const site = await open({
      name: 'Paid Once',
      configs: ['wrangler.toml'],
      env: ['demo'],
      vars,
      port,
      state: join(state, 'site'),
      readyPath: '/healthz',
      shows,
    });
    writeFileSync(join(state, 'site.pid'), `${site.pid}\n`);
    return site;
  };

  const keepOpen = async (site) => {
    for (;;) {
      await site.ended;
      say('\nPaid Once is gone. It is started again.');
      site = await openSite();
    }
  };
  const bankEnded = simulator.ended.then(({ code }) => {
    throw new Stop(`The bank ended by itself (code ${code}).`);
  });
  return { ended: Promise.race([keepOpen(await openSite()), bankEnded]) };
}
