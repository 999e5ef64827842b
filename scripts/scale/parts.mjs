// What each part of a deployment has to do for so many payments a second, against what it may. Pure.
import { PERIODS, ofFullest } from './deployment.mjs';
import { assumed, limits } from './limits.mjs';

export const DAY_S = 86_400;
/** Requests that a scheduled run leaves for other tasks: `READS_IN_ALL` in desk/src/tasks/pace.rs. */
const RECONCILIATION_REQUESTS = 6_000;
const RUN_S = 300;
const PAGE = 100;
/** Lines of settlement files that a run, of one place or of all, closes and writes: a day of 8,640,000 takes 65 runs, as `npm run scale` plays it. */
const SETTLEMENT_LINES = 133_000;
/** Lines that a payment has there: its capture, and a refund or a dispute of one in fifty. */
const LINES = 1.02;
/** Shards after which no list asks those of another period, and no plot more: `LIST_SHARDS_MAX` in crates/runtime/src/places.rs. */
export const LIST_PLACES = 500;
/** Places that a task or a count of the desk asks, if it asks them all: `PLACES_MAX` in crates/runtime/src/places.rs. */
const PLACES = 200;
/** Places that a run of the import of the bank's acknowledgements asks: `REQUESTS_MAX` in desk/src/tasks/ack_lines.rs. */
const ACK_PLACES = 1_000;
/** Entries that a payment makes in Stripe's lists: two events, a balance transaction, a payment. */
const ENTRIES = 4;
/** Accounts beside the deployment's own that a run of the cron compares: `CONNECTED_MAX` in desk/src/tasks/reconcile/mod.rs. */
const SHOPS_A_RUN = 4;
/** What a payment's isolates ask the registry of: its token, and the keys of its account's own. */
const NAMES = 2;
/** How often a run reads an entry: lists overlap by ten minutes, and a run begins every five. */
const READ_AGAIN = 3;
/** Entries that are looked for together, each shard once and once more for marks: `BATCH` in desk/src/tasks/pace.rs. Each list begins with smaller ones. */
const LOOKED_FOR = 10_000;
const SMALLER = 9;
/** After how long a shop that had no turn is told of: `PaidOnceReconciliationLags`. */
export const LAG_MAX_MIN = 30;
/** Statements of D1 that a run takes in which nothing is new, and that a page more takes: counted by tests/worker/reconcile-apart.test.mjs. */
export const RUN_STATEMENTS = 30;
const PAGE_STATEMENTS = 2;
/** Those that it takes more where there are shards: how far its round is, the next ones, and how far it has come, four times: counted by tests/worker/reconcile-rounds.test.mjs. */
export const ROUND_STATEMENTS = 6;
/** Shards that a run asks for what is late or in no list: `SHARDS_MAX` in desk/src/tasks/reconcile/rounds.rs. */
const ROUND_SHARDS = 1_000;
/** After how long money that has not moved is late: a round of all shards takes no longer. */
const ROUND_MAX_MIN = 1_440;
/** Statements of D1 for entries that are looked for together in shards, at most: as desk/tests/reconcile_day.rs plays it. tests/worker/reconcile-rounds.test.mjs counts them. */
export const BATCH_STATEMENTS = 12;
/** In how many batches a run looks for the entries of a shop with so many payments a second. */
const batches = (paymentsPerSecond) =>
  Math.ceil((paymentsPerSecond * ENTRIES * READ_AGAIN * RUN_S) / LOOKED_FOR) +
  Math.min(SMALLER, Math.ceil((paymentsPerSecond * ENTRIES * RUN_S) / PAGE));
/** Statements of D1 in a run of a shop with so many payments a second, for what is new. */
export const statementsOfNew = (paymentsPerSecond, shards) =>
  shards > 0
    ? batches(paymentsPerSecond) * BATCH_STATEMENTS
    : ((paymentsPerSecond * ENTRIES) / PAGE) * RUN_S * PAGE_STATEMENTS;
/** Statements of D1 that the run of a shard takes in which nothing is new: counted by tests/worker/settlement-shards.test.mjs. */
export const PLACE_STATEMENTS = 4;
/** One more where payments may be old enough to leave. */
const HISTORY_STATEMENTS = 1;
/** After how long a shard is looked at in which nothing is open or was made, in the mean: nine tenths of `PAUSE_MAX_MS` in desk/src/tasks/schedule.rs. */
const QUIET_S = 1_620;
/** Payments that one place lets leave for history in a run, and all of them in a run of the cron: `STEPS_MAX` and `ALL_STEPS_MAX` in desk/src/tasks/history/turns.rs, two steps for a batch. */
export const HISTORY_BATCH = 2_500;
const HISTORY_BATCHES = 12;
const HISTORY_BATCHES_OF_ALL = 48;
/** Places whose runs one run of the cron begins: `PAGE` in desk/src/tasks/place_alarms.rs. */
export const PLACES_BEGUN = 1_000;
/** For how long an isolate goes by the layouts of shards that it has read: `SHARDS_CACHE_MS`. */
export const LAYOUTS_S = 10;
/** Messages of a batch: `max_batch_size` in wrangler.toml. */
export const BATCH = 20;

/** The parts, each with its load and its limit in the same unit. `budget` is what a payment was counted to take (bench/budget.json). */
export function parts(budget, deployment, paymentsPerSecond) {
  const {
    busy,
    shops,
    queues,
    shards,
    by,
    spread,
    hotDays,
    metrics,
    metricsShards,
    metricsIntervalS,
    accountsCacheS,
  } = deployment;
  const { tasks, accountsCache, accountsCacheShards } = deployment;
  const ofShop = paymentsPerSecond / shops;
  const pages = (paymentsPerSecond * ENTRIES) / PAGE;
  const ofRun = tasks === 'object' ? shops : 1;
  const messages = (paymentsPerSecond * budget['queue operations']) / 3;
  const isolates = Math.max(1, paymentsPerSecond * assumed.isolatesPerPaymentPerSecond);
  const share = shards > 0 ? ofFullest(shops, shards, spread) : 1;
  const days = shards > 0 ? Math.min(hotDays, PERIODS[by].days) : hotDays;
  const places = Math.max(1, shards);
  /** All that have rows, with those of the periods before. */
  const allPlaces = 1 + shards * Math.max(1, Math.ceil(hotDays / PERIODS[by].days));
  const areApart = tasks === 'object' && shards > 0;
  /** Payments of the fullest shard that grow old enough in a run. Those of an hour may take a day to leave, since other hours leave beside them. */
  const leaving = paymentsPerSecond * busy * RUN_S;
  const leavingOfOne = leaving * share * Math.min(1, shards > 0 ? PERIODS[by].days : 1);
  const ofPlaces =
    (places * PLACE_STATEMENTS) / RUN_S +
    ((allPlaces - places) * (PLACE_STATEMENTS + HISTORY_STATEMENTS)) / QUIET_S +
    // Of each batch a shard asks D1 which of its payments have open breaks; and one in a run is not full.
    (leaving / HISTORY_BATCH + places * (PLACE_STATEMENTS + HISTORY_STATEMENTS + 1)) / RUN_S;
  const stored = paymentsPerSecond * busy * DAY_S * days * assumed.readModelBytesPerPayment;
  const ofReconciliation =
    (Math.min(shops, tasks === 'object' ? shops : 1 + SHOPS_A_RUN) *
      (RUN_STATEMENTS + (shards > 0 ? ROUND_STATEMENTS : 0))) /
      RUN_S +
    (areApart ? (shops * statementsOfNew(ofShop, shards)) / RUN_S : pages * PAGE_STATEMENTS);
  // Of an object an isolate may learn what it has known for half of the time already; and the object asks D1 once in that half.
  const registry =
    accountsCache === 'object'
      ? { lastsS: accountsCacheS / 2, names: shops * NAMES }
      : { lastsS: accountsCacheS, names: Infinity };
  const looks = NAMES * Math.min(paymentsPerSecond, (isolates * Math.min(shops, 100)) / registry.lastsS);
  const readsOfRegistry = Math.min(looks, registry.names / registry.lastsS);
  const part = (name, unit, load, limit, remedy) => ({ name, unit, load, limit, remedy });
  return [
    part(
      'one payment: requests to its object, in all its life',
      'requests',
      budget['requests to objects'],
      limits.objectRequestsPerSecond.value,
    ),
    part(
      'Stripe, an account: payments',
      'requests/s',
      ofShop,
      limits.stripeEndpointRequestsPerSecond.value,
      'Stripe raises the limit of an account on request; or more accounts',
    ),
    part(
      'a queue: messages',
      'messages/s',
      messages / queues,
      limits.queueMessagesPerSecond.value,
      'bind more queues',
    ),
    part(
      'a queue: consumers at once',
      'invocations',
      ((messages / BATCH) * assumed.consumerSeconds) / queues,
      limits.queueConsumersAtOnce.value,
      'bind more queues',
    ),
    part(
      'the read model: writes of one place',
      'writes/s',
      paymentsPerSecond * share,
      assumed.readModelWritesPerSecond,
      'shards, or each shop in more of them',
    ),
    part(
      `the read model: ${shards > 0 && days < hotDays ? `${by === 'hour' ? 'an' : 'a'} ${by}` : `${hotDays} days`} in ${shards > 0 ? 'the fullest shard' : 'D1'}`,
      'GB',
      (stored * share) / 1e9,
      limits.databaseBytes.value / 1e9,
      'shards, of a shorter time, or each shop in more of them',
    ),
    metrics === 'analytics'
      ? part('metrics: points of an invocation', 'points', 3, limits.pointsPerInvocation.value)
      : part(
          'metrics: requests to an object',
          'requests/s',
          isolates / metricsIntervalS / metricsShards,
          limits.objectRequestsPerSecond.value,
          'METRICS_INTERVAL_MS, METRICS_SHARDS, or Analytics Engine',
        ),
    part(
      'the registry of accounts: reads of D1',
      'reads/s',
      readsOfRegistry,
      assumed.readModelReadsPerSecond,
      'the binding ACCOUNTS_CACHE: an object reads for all isolates',
    ),
    ...(accountsCache === 'object'
      ? [
          part(
            'the registry of accounts: requests to an object',
            'requests/s',
            looks / accountsCacheShards,
            limits.objectRequestsPerSecond.value,
            'ACCOUNTS_CACHE_SHARDS',
          ),
        ]
      : []),
    part(
      `settlement files, a run of ${areApart ? 'one place' : 'all places'}`,
      'lines',
      paymentsPerSecond * busy * LINES * RUN_S * (areApart ? share : 1),
      SETTLEMENT_LINES,
      'shards, with the binding TASKS: each has runs of its own',
    ),
    ...(areApart || shards === 0
      ? [
          part(
            `history, a run of ${shards > 0 ? 'one place' : 'D1'}: payments that leave`,
            'payments',
            leavingOfOne,
            HISTORY_BATCHES * HISTORY_BATCH,
            'shards, with the binding TASKS: each lets its own leave',
          ),
          part(
            'history, its twelve batches: CPU of an alarm',
            'ms',
            HISTORY_BATCHES * assumed.historyBatchCpuMs,
            limits.objectCpuMs.value,
          ),
        ]
      : [
          part(
            'history, a run of all places: payments that leave',
            'payments',
            leaving,
            HISTORY_BATCHES_OF_ALL * HISTORY_BATCH,
            'the binding TASKS: each place lets its own leave in a run of its own',
          ),
        ]),
    ...(areApart
      ? [
          part(
            'runs of places: until all shards of a new period have begun',
            'minutes',
            (Math.ceil((1 + shards) / PLACES_BEGUN) * RUN_S) / 60,
            LAG_MAX_MIN,
            'fewer shards a period',
          ),
        ]
      : []),
    part(
      'places that a page of a list asks for the newest',
      'places',
      1 + shards,
      LIST_PLACES,
      'shards of a shorter time, and fewer of them',
    ),
    // Of more places D1 has what each has counted.
    part(
      'places that counts of the desk ask',
      'places',
      areApart && allPlaces >= PLACES ? 1 : allPlaces,
      PLACES,
      'the binding TASKS: each shard counts in runs of its own',
    ),
    part(
      'places that an acknowledgement of the lines of a period asks, a run',
      'places',
      1 + shards,
      ACK_PLACES,
      'the next run goes on',
    ),
    part(
      'places with payments of the last day, which plots of the desk ask',
      'places',
      1 + shards * Math.max(1, Math.ceil(1 / PERIODS[by].days)),
      LIST_PLACES,
      'the newest are asked, and it says so: fewer shards a day',
    ),
    ...(areApart
      ? []
      : [
          part(
            'places that tasks of one run for all ask',
            'places',
            allPlaces,
            PLACES,
            'the binding TASKS: each place has runs of its own',
          ),
        ]),
    part(
      'reconciliation of one shop',
      'payments/s',
      ofShop,
      100,
      'more Stripe accounts: a day of 100 a second is played below',
    ),
    part(
      `reconciliation of ${tasks === 'object' ? 'one shop' : 'all shops'}, a run`,
      'requests',
      (pages * RUN_S + shops * ENTRIES) / ofRun,
      RECONCILIATION_REQUESTS,
      'the binding TASKS: an object for each shop',
    ),
    ...(shards > 0
      ? [
          part(
            `reconciliation of ${tasks === 'object' ? 'one shop' : 'all shops'}, a run: requests to shards`,
            'requests',
            (2 * Math.min(shards, spread) * batches(ofShop) * shops) / ofRun +
              Math.min(allPlaces, ROUND_SHARDS),
            limits.requestsPerInvocation.value - RECONCILIATION_REQUESTS,
            'the binding TASKS: an object for each shop; or each shop in fewer shards',
          ),
        ]
      : []),
    part(
      'reconciliation: until each shop has had its turn',
      'minutes',
      tasks === 'object' ? RUN_S / 60 : (Math.ceil((shops - 1) / SHOPS_A_RUN) * RUN_S) / 60,
      LAG_MAX_MIN,
      'the binding TASKS: an object for each shop',
    ),
    ...(shards > 0
      ? [
          part(
            'reconciliation: a round of all shards, for what is late or in no list',
            'minutes',
            (Math.ceil(
              (allPlaces - 1) /
                (ROUND_SHARDS / (tasks === 'object' ? 1 : 1 + Math.min(shops - 1, SHOPS_A_RUN))),
            ) *
              RUN_S) /
              60,
            ROUND_MAX_MIN,
            'fewer shards a period, or longer ones; keys of its own for each shop: its round is of its own shards',
          ),
        ]
      : []),
    part(
      'reconciliation of all shops: statements of D1',
      'statements/s',
      ofReconciliation,
      assumed.readModelReadsPerSecond,
      'more deployments: all shops have one D1',
    ),
    ...(areApart
      ? [
          part(
            'all that asks D1: runs, the registry, layouts',
            'statements/s',
            ofReconciliation + ofPlaces + readsOfRegistry + isolates / LAYOUTS_S,
            assumed.readModelReadsPerSecond,
            'more deployments, or fewer days until history leaves: all places have one D1',
          ),
        ]
      : []),
  ];
}

/** Those that have more to do than they may. */
export const over = (parts) => parts.filter(({ load, limit }) => load > limit);

/** How many payments a second a part takes, where its load grows with them; `Infinity` where it does not. */
export function ceiling(budget, deployment, position) {
  const at = (paymentsPerSecond) => parts(budget, deployment, paymentsPerSecond)[position];
  const fits = (paymentsPerSecond) => at(paymentsPerSecond).load <= at(paymentsPerSecond).limit;
  let [low, high] = [0, 1];
  while (fits(high)) {
    if (high > 1e9) return Infinity;
    [low, high] = [high, high * 2];
  }
  while (high - low > Math.max(0.01, high * 1e-4)) {
    const middle = (low + high) / 2;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}
