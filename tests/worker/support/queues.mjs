// The demo with other queues than wrangler.toml has, and with an entry that tells of each batch, when it begins and when it is over, and of what is
// asked of the read model, and can hold that up.

import { startChanged } from './changed.mjs';

const TABLE = /\[\[env\.demo\.queues\.(?:producers|consumers)\]\]\n(?:\w+ = .*\n)*/g;
/** A Worker's queues in the demo, by their bindings. */
export const DEMO = { JOBS: 'paid-once-demo-jobs', EMAILS: 'paid-once-demo-emails' };

/**
 * What wrangler.toml says of these queues. Each has a dead letter queue of its own, to which a message goes after so many retries, or
 * through a binding.
 */
const tables = (queues, maxRetries) =>
  Object.entries(queues)
    .map(
      ([binding, queue]) => `
[[env.demo.queues.producers]]
binding = "${binding}"
queue = "${queue}"

[[env.demo.queues.consumers]]
queue = "${queue}"
max_batch_size = 20
max_batch_timeout = 0
max_retries = ${maxRetries}
dead_letter_queue = "${queue}-dead"

[[env.demo.queues.producers]]
binding = "${binding}_DEAD"
queue = "${queue}-dead"

[[env.demo.queues.consumers]]
queue = "${queue}-dead"
max_batch_timeout = 0
max_retries = 100
`,
    )
    .join('');

/**
 * The database's own class is changed: workers-rs takes no other object for one. What is asked while it is held waits, in the request that
 * asks.
 */
const ENTRY = `
import { env } from 'cloudflare:workers';
import Site from '../../src/entry.mjs';

export * from '../../src/entry.mjs';

let isHeld = false;
const held = async () => {
  while (isHeld) await scheduler.wait(50);
};
const database = Object.getPrototypeOf(env.DB);
const statement = Object.getPrototypeOf(env.DB.prepare('SELECT 1'));
for (const [kind, names] of [[database, ['batch']], [statement, ['all', 'run', 'first', 'raw']]])
  for (const name of names) {
    const method = kind[name];
    kind[name] = async function (...options) {
      await held();
      console.log('read model: ' + name);
      return method.apply(this, options);
    };
  }

export default class extends Site {
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith('/_read-model/')) return super.fetch(request);
    isHeld = pathname.endsWith('/hold');
    return new Response();
  }

  async queue(batch) {
    const ids = batch.messages.map(({ body }) => body.match(/"job_id":"([^"]+)"/g)).flat();
    const told = JSON.stringify([batch.queue, ids]);
    console.log('batch: ' + told);
    try {
      return await super.queue(batch);
    } finally {
      console.log('batch over: ' + told);
    }
  }
}
`;

let started = Promise.resolve();

/** Starts it with these queues, by their bindings: one after the other, also where tests run beside each other. Several at once take no less time. */
export function startWithQueues(...given) {
  const start = () => startOne(...given);
  started = started.then(start, start);
  return started;
}

async function startOne(queues, { maxRetries = 100, ...options } = {}) {
  const change = (settings) =>
    settings.replace('"../../src/entry.mjs"', '"entry.mjs"').replaceAll(TABLE, '') +
    tables(queues, maxRetries);
  const site = await startChanged(change, { ...options, files: { 'entry.mjs': ENTRY } });
  return {
    ...site,
    /** Nothing that the Worker asks the read model is answered any more, until it is let go. */
    holdReadModel: () => site.fetch('/_read-model/hold'),
    letReadModelGo: () => site.fetch('/_read-model/let-go'),
    /** In which queues a job was, one for each time. */
    queuesOf: (job) =>
      site
        .logs()
        .filter(({ message }) => message.startsWith('batch: ') && message.includes(`:\\"${job}\\"`))
        .map(({ message }) => JSON.parse(message.slice('batch: '.length))[0]),
  };
}
