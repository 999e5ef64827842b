// The demo as the tests start it, with times as short as they may be: minutes of an ordinary day pass in seconds.
import { startSite } from '../../tests/worker/support/harness.mjs';

export const ADMIN_TOKEN = 'the-operators-token-of-the-soak-long-enough';

/** Nobody waits longer for one answer: it counts as lost. */
export const ANSWER_MS = 15_000;

const TIMES = {
  LEASE_MS: '2500',
  WAIT_MS: '1000',
  COMPLETER_MS: '1000',
  PROVIDER_TIMEOUT_MS: '800',
  QUIET_MS: '2000',
  // A job of which no word comes back is sent again soon: so the pauses of the queue, up to an hour, need not be waited for.
  CONFIRM_MS: '7000',
  RECONCILE_QUIET_MS: '3000',
  // The harness blocks this process while it evicts an object, and nobody reads the log meanwhile: a runtime that has more to write than
  // fits waits for its reader, and never ends the eviction.
  LOG_LEVEL: 'error',
};

/** Without `isProtected` no derived key reaches the provider. */
export async function startSoak({ isProtected }) {
  const vars = { ...TIMES, ...(isProtected ? {} : { UNPROTECTED: 'true' }) };
  const site = await startSite({ vars, secrets: { ADMIN_TOKEN } });
  // The harness blocks this process while it evicts an object, and an object at work may wait for what goes through the harness. What
  // goes over the network waits for nobody here; and nobody waits for ever.
  const patience = () => AbortSignal.timeout(ANSWER_MS);
  return {
    ...site,
    fetch: (path, init) =>
      fetch(new URL(path, site.url), { redirect: 'manual', signal: patience(), ...init }),
  };
}
