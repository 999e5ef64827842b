// The lab: the demo without credentials, and its bank beside it in a process of its own, so that the one can be killed
// while the other goes on and remembers what it charged.
import { randomInt } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { checkPortIsFree, makeSecrets, open, portFrom } from './dev-server.mjs';
import { stopAll } from './run.mjs';
import { Stop, say } from './say.mjs';

/** What the lab's Worker is set to, beside the demo. */
const settings = {
  LAB: 'true',
  KEY_POLICY: 'optional',
  REPLAY_MARKER: 'body',
  MISMATCH_STATUS: '409',
  CREATED_STATUS: '200',
  KEY_ECHO: 'body',
  ERROR_MEMBER: 'error',
  DEFAULT_CURRENCY: 'usd',
};

/** How long the bank takes, in ms: about as long as a real one, so that a charge is slower than a replay. */
const standardBankMs = 250;

/** The bank has the port after the lab's. */
export async function labPorts(wanted, standard) {
  const port = portFrom(wanted, standard);
  const bank = portFrom(port + 1);
  for (const one of [port, bank]) await checkPortIsFree(one);
  return { port, bank };
}

/** A free port whose next one is free too; none of those that the system gives to whoever asks for any. */
export async function freePorts() {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const isFree = await Promise.all([checkPortIsFree(port), checkPortIsFree(port + 1)]).then(
      () => true,
      () => false,
    );
    if (isFree) return { port, bank: port + 1 };
  }
}

/**
 * Starts both, with nothing in `state` from before; when it resolves both answer. The site is started again whenever it
 * ends, as a machine's supervisor would do; `ended` rejects if one of them cannot go on, and then the other does not
 * either. `stop()` ends both, and resolves when they are gone. The files `site.pid` and `bank.pid` name their process
 * groups. `vars` go before the lab's own settings.
 */
export async function startLab({
  port,
  bank,
  state,
  bankMs = standardBankMs,
  vars = {},
  shows = () => true,
}) {
  rmSync(state, { recursive: true, force: true });
  mkdirSync(state, { recursive: true });
  // Workers find each other here: a lab's must not find those of `npm start`.
  process.env.WRANGLER_REGISTRY_PATH = join(state, 'registry');
  makeSecrets();

  const simulator = await open({
    name: 'the bank',
    configs: ['simulator/wrangler.toml'],
    env: ['demo'],
    // The experiments look at what the requests themselves do.
    vars: { LATENCY_MS: bankMs, WEBHOOKS: 'off' },
    port: bank,
    state: join(state, 'bank'),
    readyPath: '/healthz',
    shows: (line) => /warn|error/i.test(line) && shows(line),
  });
  const writePid = (name, { pid }) => writeFileSync(join(state, `${name}.pid`), `${pid}\n`);
  writePid('bank', simulator);
  const openSite = async () => {
    const site = await open({
      name: 'Paid Once',
      configs: ['wrangler.toml', 'desk/wrangler.toml', 'demo/wrangler.toml'],
      env: ['demo'],
      vars: { ...settings, ...vars },
      port,
      state: join(state, 'site'),
      database: 'DB',
      readyPath: '/healthz',
      shows,
    });
    writePid('site', site);
    return site;
  };

  let stopped = false;
  let site = await openSite();
  const keepOpen = async () => {
    for (;;) {
      await site.ended;
      if (stopped) return;
      say('\nPaid Once is gone. It is started again.');
      site = await openSite();
    }
  };
  const keepBank = async () => {
    const { code } = await simulator.ended;
    if (!stopped) throw new Stop(`The bank ended by itself (code ${code}).`);
  };
  const stop = async () => {
    stopped = true;
    stopAll();
    await Promise.all([site.ended, simulator.ended]);
  };
  return { ended: Promise.race([keepOpen(), keepBank()]).finally(stop), stop };
}
