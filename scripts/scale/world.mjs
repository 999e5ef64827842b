// A day of a whole deployment, which desk/tests/world_day.rs plays: what is put in, and what came out against the limits. Pure.
import { PERIODS } from './deployment.mjs';
import { assumed, limits } from './limits.mjs';
import {
  BATCH,
  DAY_S,
  LAG_MAX_MIN,
  LAYOUTS_S,
  LIST_PLACES,
  PLACES_BEGUN,
  PLACE_STATEMENTS,
  RUN_STATEMENTS,
  statementsOfNew,
} from './parts.mjs';

/** What the test is given, as JSON. Of each hour so many seconds are played payment by payment. */
export function world(deployment, payments, secondsAnHour = 20) {
  const { shops, queues, shards, by, spread, hotDays, accountsCache, accountsCacheS, accountsCacheShards } =
    deployment;
  return {
    perSecond: Math.round(payments),
    shops,
    queues,
    shards,
    by,
    spread,
    hotDays,
    isolates: Math.max(1, Math.round(payments * assumed.isolatesPerPaymentPerSecond)),
    readers: accountsCache === 'object' ? accountsCacheShards : 0,
    registryMs: accountsCacheS * 1_000,
    layoutsMs: LAYOUTS_S * 1_000,
    secondsAnHour,
    placeStatements: PLACE_STATEMENTS,
    shopStatements: Math.round(RUN_STATEMENTS + statementsOfNew(payments / shops, shards)),
    begunAtOnce: PLACES_BEGUN,
  };
}

/** What came of it, each with its limit in the same unit. */
export function played(shown, deployment, payments) {
  const { busy, by, hotDays, shards } = deployment;
  const days = Math.min(hotDays, PERIODS[by].days);
  const stored = payments * busy * DAY_S * days * assumed.readModelBytesPerPayment;
  const part = (name, unit, load, limit) => ({ name, unit, load, limit });
  return [
    part(
      'a queue: messages in the busiest second',
      'messages',
      shown.queueMessages,
      limits.queueMessagesPerSecond.value,
    ),
    part(
      'a queue: consumers at once',
      'invocations',
      Math.ceil(shown.queueMessages / BATCH) * assumed.consumerSeconds,
      limits.queueConsumersAtOnce.value,
    ),
    part(
      'the read model: writes of one place in the busiest second',
      'writes',
      shown.shardWrites,
      assumed.readModelWritesPerSecond,
    ),
    part(
      `the read model: the fullest shard of ${by === 'hour' ? 'an' : 'a'} ${by}`,
      'GB',
      (stored * shown.fullest) / 1e9,
      limits.objectBytes.value / 1e9,
    ),
    part('places that a page of a list asks for the newest', 'places', 1 + shards, LIST_PLACES),
    part(
      'the registry of accounts: requests to an object in the busiest second',
      'requests',
      shown.registryRequests,
      limits.objectRequestsPerSecond.value,
    ),
    part('until all shards of a new period have begun', 'minutes', shown.begunAfterMin, LAG_MAX_MIN),
    part(
      'D1: statements of all runs, in the busiest minute',
      'statements/s',
      shown.runStatements,
      assumed.readModelReadsPerSecond,
    ),
    part(
      'D1: all statements, in the busiest minute',
      'statements/s',
      shown.d1Statements,
      assumed.readModelReadsPerSecond,
    ),
  ];
}
