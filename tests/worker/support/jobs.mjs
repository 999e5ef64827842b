// What became of the jobs that an object has staged. The read model knows which are over; the object looks there a while after it has staged
// them, and forgets those.

import { objectId } from './objects.mjs';
import { until } from './until.mjs';

/** The jobs that an object has staged and that are not over. */
async function openJobs(site, resource) {
  const staged = await site.objects.jobs(resource);
  if (!staged?.length) return [];
  const object = objectId(resource);
  // At once: each question has its price.
  const [{ version, over }] = await site.rows(
    `SELECT
       (SELECT coalesce(max(version), 0) FROM key_list WHERE object = ?1) AS version,
       (SELECT json_group_array(job_id) FROM job_list
        WHERE object = ?1 AND state IN ('done', 'dead', 'purged')) AS over`,
    object,
  );
  const ended = JSON.parse(over);
  const isOver = ({ job_id }) =>
    ended.includes(job_id) || Number(/_project_(\d+)$/.exec(job_id)?.[1] ?? Infinity) <= version;
  return staged.filter((job) => !isOver(job));
}

/** Waits until all that an object has staged is over. */
export const jobsOver = (site, resource) =>
  until('every staged job is over', async () => (await openJobs(site, resource)).length === 0, {
    everyMs: 50,
  });

/** Settings with which an object looks at once what is over, and again soon: so its alarm is free for other things. */
export const LOOKS_SOON = { OUTBOX_MS: '400', CONFIRM_MS: '1200' };

/** Waits until an object has forgotten all that it has staged. The site needs `LOOKS_SOON`. */
export const jobsForgotten = (site, resource) =>
  until('its jobs are forgotten', async () => (await site.objects.jobs(resource)).length === 0);

/** The jobs of a resource's object that are known to the read model, by their ids: once all that was staged is over. */
export async function jobsOf(site, resource) {
  await jobsOver(site, resource);
  return site.rows('SELECT * FROM job_list WHERE object = ? ORDER BY job_id', objectId(resource));
}

/** The ids of the receipts that were sent for a resource's object: each is done, and in the mailbox once. */
export async function receiptsOf(site, resource) {
  const jobs = await jobsOf(site, resource);
  const sent = jobs.filter(({ kind, state }) => kind === 'send_receipt' && state === 'done');
  return sent.map(({ job_id }) => job_id);
}
