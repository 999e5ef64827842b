// A payment that is at a bank is asked for by an alarm, whether anybody comes or not.

import { until } from './until.mjs';

/** After how long it is asked for first: FIRST_PAUSE_MS in crates/payments/src/transitions/polling.rs. */
const FIRST_LOOK_MS = 5_000;

/**
 * Runs `attempt`, which makes a payment and looks at what others ask the provider about it. What is over before the alarm asks is theirs; on a
 * machine that is slower it says nothing, and another payment is made. `attempt` gives what is to hold, to be run then.
 */
export const beforeTheAlarm = (attempt) =>
  until('it is over before the alarm asks', async () => {
    const sinceMs = Date.now();
    const holds = await attempt();
    if (Date.now() - sinceMs >= FIRST_LOOK_MS) return false;
    await holds();
    return true;
  });

/** How often the provider was asked for anything, but how other payments stand than the one whose bank has this page. */
export async function asksFor(site, bankPage) {
  const intent = new URL(bankPage, 'https://bank.example').pathname.split('/').at(-1);
  const requests = await site.simulator.requests();
  return requests.filter(({ method, path }) => method !== 'GET' || path.includes(`/${intent}`)).length;
}
