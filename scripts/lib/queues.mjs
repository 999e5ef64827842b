// The queues that a Worker's configuration names, and how those are made that are not there yet.
import { inRoot } from './paths.mjs';
import { run, runStep } from './run.mjs';

/** Their names: what it sends to, what it works on, and where messages go that it has given up. */
export function queuesOf({ producers = [], consumers = [] }) {
  const named = [
    ...producers.map(({ queue }) => queue),
    ...consumers.flatMap(({ queue, dead_letter_queue: dead }) => [queue, dead]),
  ];
  return [...new Set(named.filter(Boolean))];
}

/** Makes those that are not there. One that is there stays as it is. */
export async function makeQueues(names) {
  for (const name of names) {
    const { ok } = await run('wrangler', ['queues', 'info', name], { cwd: inRoot(), timeoutMs: 60_000 });
    // Should the question have failed for another reason, this says so.
    if (!ok)
      await runStep(`making the queue ${name}`, 'wrangler', ['queues', 'create', name], { cwd: inRoot() });
  }
}
