// What is deployed: over which shards the shops are spread, and what else there is. Pure.
import { createHash } from 'node:crypto';

/** Periods of the read model's shards, in days, and the most shards that one may have: `Period` in crates/messages/src/placement.rs. */
export const PERIODS = {
  month: { days: 31, most: 100 },
  day: { days: 1, most: 480 },
  hour: { days: 1 / 24, most: 100 },
};
/**
 * What is deployed: `shops` with a Stripe account each, `queues` for jobs, `shards` of the read model that a period has (0: D1 alone), `by` month,
 * day or hour, over how many of these each shop is spread, how many days a payment stays in the read model, where the counts go, who reads the
 * registry of accounts: each `isolate`, or an `object` of so many for all of them; and who compares the books of a shop: an `object` of its own, or the `cron`
 * those of all. `busy` is how much of its busiest second a mean second of the day has.
 */
export const small = {
  busy: 0.1,
  shops: 1,
  queues: 1,
  shards: 0,
  by: 'month',
  spread: 1,
  hotDays: 400,
  metrics: 'object',
  metricsShards: 1,
  metricsIntervalS: 1,
  accountsCacheS: 10,
  accountsCache: 'isolate',
  accountsCacheShards: 1,
  tasks: 'object',
};

/** What ten thousand payments a second take, all day: docs/scale.md. */
export const large = {
  ...small,
  busy: 1,
  shops: 400,
  queues: 8,
  shards: 480,
  by: 'day',
  spread: 40,
  hotDays: 90,
  metrics: 'analytics',
  accountsCache: 'object',
  accountsCacheShards: 32,
};
export const LARGE_PAYMENTS = 10_000;

/** A number that stands for a name: `hash` in crates/messages/src/placement.rs. */
export function hash(what, name) {
  const digest = createHash('sha256');
  for (const part of ['shard', what, name]) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(Buffer.byteLength(part)));
    digest.update(length).update(part);
  }
  return digest
    .digest()
    .subarray(0, 7)
    .reduce((number, byte) => number * 256n + BigInt(byte), 0n);
}

/** So many shops are counted one by one; of more there are about as many in each slot. */
const COUNTED_MAX = 20_000;
const hashes = [];
const fullest = new Map();

/** Which part of all payments the fullest of the slots has, with so many shops of one size, called shop-0, shop-1 and so on. */
export function ofFullest(shops, slots, spread) {
  const of = `${shops}/${slots}/${spread}`;
  if (!fullest.has(of))
    fullest.set(of, counted(Math.min(shops, COUNTED_MAX), slots, Math.min(spread, slots)));
  return fullest.get(of);
}

function counted(shops, slots, spread) {
  while (hashes.length < shops) hashes.push(hash('owner', `account:shop-${hashes.length}`));
  const each = new Array(slots).fill(0);
  for (const owner of hashes.slice(0, shops))
    for (let slot = 0; slot < spread; slot += 1) each[Number((owner + BigInt(slot)) % BigInt(slots))] += 1;
  return Math.max(...each) / (shops * spread);
}
