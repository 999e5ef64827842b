// What a million payments cost at Cloudflare's list price of 2026, on the Workers Paid plan, past what is included.
// https://developers.cloudflare.com/workers/platform/pricing/

/** Dollars for each. */
export const PRICE = {
  workerRequest: 0.3 / 1e6,
  workerCpuMs: 0.02 / 1e6,
  objectRequest: 0.15 / 1e6,
  objectRow: 1 / 1e6,
  objectByteMonth: 0.2 / 1e9,
  readModelRow: 1 / 1e6,
  queueOperation: 0.4 / 1e6,
  /** https://developers.cloudflare.com/analytics/analytics-engine/pricing/ */
  point: 0.25 / 1e6,
  /** https://developers.cloudflare.com/r2/pricing/, class A */
  fileWrite: 4.5 / 1e6,
};
const MILLION = 1e6;
/** Messages of which one batch, and so one request of the Worker, is made, where there is traffic. */
const BATCH = 20;

/** Lines of a table from bench/budget.json: what comes at once, what a day later, and what each month. */
export function dollars({ payment, expiry }, cpuMs) {
  const line = (what, count, price) => ({ '': what, counted: count, dollars: count * price * MILLION });
  const each = (when, counts) => [
    line(`${when}: rows written in objects`, counts['rows written in objects'], PRICE.objectRow),
    line(`${when}: rows in the read model`, counts['rows written in the read model'], PRICE.readModelRow),
    line(`${when}: queue operations`, counts['queue operations'], PRICE.queueOperation),
    line(`${when}: requests to objects`, counts['requests to objects'], PRICE.objectRequest),
  ];
  const messages = payment['queue operations'] / 3;
  const lines = [
    ...each('a payment', payment),
    line('a payment: requests of the Worker', 1 + messages / BATCH, PRICE.workerRequest),
    ...(cpuMs ? [line('a payment: ms of CPU', cpuMs, PRICE.workerCpuMs)] : []),
    ...each('a day later', expiry),
  ];
  // What is left when the response has expired.
  const bytes = payment['bytes in objects'] + expiry['bytes in objects'];
  const storage = line('each month: bytes in objects', bytes, PRICE.objectByteMonth);
  const once = lines.reduce((sum, one) => sum + one.dollars, 0);
  return { lines: [...lines, storage], once, monthly: storage.dollars };
}
