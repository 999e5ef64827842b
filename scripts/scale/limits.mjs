// What the platform and the provider allow, with the page that says so. Read in November 2026.

const cloudflare = (page) => `https://developers.cloudflare.com/${page}`;

/** Each is a number, in the unit that its name says, and where it is documented. */
export const limits = {
  objectRequestsPerSecond: {
    value: 1_000,
    source: cloudflare('durable-objects/reference/faq/'),
    note: 'a soft limit of one object',
  },
  objectCpuMs: {
    value: 30_000,
    source: cloudflare('durable-objects/platform/limits/'),
    note: 'for each request or alarm, unless limits.cpu_ms says more',
  },
  objectBytes: { value: 10e9, source: cloudflare('durable-objects/platform/limits/') },
  databaseBytes: { value: 10e9, source: cloudflare('d1/platform/limits/') },
  queueMessagesPerSecond: { value: 5_000, source: cloudflare('queues/platform/limits/') },
  queueConsumersAtOnce: { value: 250, source: cloudflare('queues/platform/limits/') },
  requestsPerInvocation: { value: 10_000, source: cloudflare('workers/platform/limits/') },
  queriesPerInvocation: { value: 1_000, source: cloudflare('d1/platform/limits/') },
  pointsPerInvocation: { value: 250, source: cloudflare('analytics/analytics-engine/limits/') },
  stripeRequestsPerSecond: { value: 100, source: 'https://docs.stripe.com/rate-limits' },
  stripeEndpointRequestsPerSecond: { value: 25, source: 'https://docs.stripe.com/rate-limits' },
};

/**
 * What nobody documents, and what the table takes instead. The read model's writes: D1 says that one database does one thing at a time, so
 * what it does in a second is how often its mean statement fits into one; a write of ours took 2 to 5 ms where it was measured, a look by an
 * index 1 ms. What a batch of history takes of the CPU, of the run's object and of the shard together: `HISTORY_BATCHES=12 npm test -- history-batch`.
 */
export const assumed = {
  readModelWritesPerSecond: 300,
  readModelReadsPerSecond: 1_000,
  readModelBytesPerPayment: 3_090,
  isolatesPerPaymentPerSecond: 0.1,
  consumerSeconds: 2,
  /** By `npm run bench`, with 32 clients; its dollars take what it has just measured. */
  cpuMsPerPayment: 4.4,
  historyBatchCpuMs: 263,
};
