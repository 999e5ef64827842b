// Adyen's notifications are acknowledged first and worked on afterwards.

import { until } from './until.mjs';

/** Waits until the first try of all that names one of our payments has ended. */
export async function worked(site) {
  const waiting = () =>
    site.rows(
      "SELECT * FROM inbox WHERE state = 'waiting' AND outcome IS NULL AND object IS NOT NULL ORDER BY event_key",
    );
  await until('the inbox is worked on', async () => (await waiting()).length === 0).catch(async (error) => {
    throw new Error(`${error.message}: ${JSON.stringify(await waiting(), null, 2)}`, { cause: error });
  });
}

/** The inbox's rows of a reference of Adyen's. */
export const inboxOf = (site, psp) =>
  site.rows("SELECT * FROM inbox WHERE event_key LIKE 'adyen:%:' || ? || ':%' ORDER BY event_key", psp);

/** Lets all that waits be due, as if its pause were over. */
export const pausesEnd = (site) => site.rows("UPDATE inbox SET next_at_ms = 0 WHERE state = 'waiting'");
