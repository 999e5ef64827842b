// What became of the jobs that an object has staged: it forgets each as soon as that is done, or lies in the dead letters.

import { objectId } from './objects.mjs';
import { until } from './until.mjs';

/** The jobs of a resource's object that left a row, by their ids: once all that was staged is over. */
export async function jobsOf(site, resource) {
  await until('every staged job is over', async () => (await site.objects.jobs(resource)).length === 0, {
    everyMs: 50,
  });
  return site.rows('SELECT * FROM jobs WHERE object = ? ORDER BY job_id', objectId(resource));
}

/** The ids of the receipts that were sent for a resource's object: each is done, and in the mailbox once. */
export async function receiptsOf(site, resource) {
  const jobs = await jobsOf(site, resource);
  const sent = jobs.filter(({ kind, state }) => kind === 'send_receipt' && state === 'done');
  return sent.map(({ job_id }) => job_id);
}
