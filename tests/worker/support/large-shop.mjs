// Writes payments of a large shop into the read model, as they would be there after a year: nearly all of them paid and found in the
// provider's books, some refused, refunded or disputed, some captured later by a key of their own.

import { query } from './database.mjs';

const YEAR_MS = 365 * 86_400_000;
/** A million a year. */
const STEP_MS = Math.floor(YEAR_MS / 1_000_000);
/** So many payments one statement writes. */
const BATCH = 10_000;
/** Payment `n` is of the account `shop-N`, where N is `n` modulo this. */
export const SHOPS = 40;

/** Status and failure code of payment `n`. */
const STATUS = `CASE WHEN n % 50 = 1 THEN 'declined' WHEN n % 200 = 2 THEN 'failed' WHEN n % 500 = 3 THEN 'disputed'
  WHEN n % 300 = 4 THEN 'canceled' WHEN n % 1000 = 5 THEN 'expired' ELSE 'succeeded' END`;
const IS_PAID = `(${STATUS} IN ('succeeded', 'disputed'))`;
/** Not in the order of time, as real ids are not. */
const ID = "printf('%016x%048x', (n * 7919) % 1000003, n)";

/** The payments `from` to `until` for which a condition holds, and what stands where they do. Those with higher numbers are older. */
const ofPayments = (from, until, { newestMs, stepMs, isHere }) => {
  const { numbers, at } = numbered(from, until, newestMs, stepMs, isHere);
  return [
    `${numbers} INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
       provider, provider_payment, order_id, failure_code, attempt, shown, created_at_ms, updated_at_ms, listed_payment, moved_payment,
       stripe_account, wake_at_ms, key_hash, key_attempts, key_response_status, key_finished_at_ms, key_expires_at_ms, created_data,
       captured_data, captured_at_ms, done_jobs)
     SELECT 'pay_' || substr(${ID}, 1, 43), ${ID}, 3, 'account:shop-' || (n % ${SHOPS}), ${STATUS}, 100 + n % 9000,
       iif(${IS_PAID}, 100 + n % 9000, 0), 0, iif(n % 3, 'usd', 'eur'), iif(n % 4, 'stripe', 'adyen'), 'pi_shop_' || n, 'order-' || n,
       CASE ${STATUS} WHEN 'declined' THEN 'insufficient_funds' WHEN 'failed' THEN 'card_not_supported' END, 1, '{}', ${at}, ${at} + 900,
       iif(${IS_PAID}, 'pi_shop_' || n, NULL), iif(${IS_PAID}, 'pi_shop_' || n, NULL), iif(n % 5, NULL, 'acct_' || (n % 7)),
       iif(${IS_PAID}, ${newestMs + YEAR_MS}, NULL), printf('%064x', n), 1, 201, ${at} + 800, ${at} + 86400800, '{}',
       iif(${IS_PAID}, json_object('provider', iif(n % 4, 'stripe', 'adyen'), 'provider_payment', 'pi_shop_' || n, 'amount_captured', 100 + n % 9000,
         'currency', iif(n % 3, 'usd', 'eur')), NULL), iif(${IS_PAID}, ${at} + 700, NULL),
       json_object(printf('%064x_receipt', n), json_array('send_receipt', 'sent', ${at} + 700, ${at} + 900))
     FROM numbers`,
    `${numbers} INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
       created_at_ms, updated_at_ms, moved_refund)
     SELECT 're_shop_' || n, 'pay_' || substr(${ID}, 1, 43), 4, 'succeeded', 50, 'usd', 'requested_by_customer', 'stripe', 're_at_' || n,
       ${at} + 5000, ${at} + 6000, 're_at_' || n FROM numbers WHERE n % 20 = 0`,
    `${numbers} INSERT INTO keys (object, key_id, version, key_hash, owner, operation, status, recovery_point, attempts, failures, in_doubt,
       flagged, response_status, created_at_ms, finished_at_ms, updated_at_ms, expires_at_ms)
     SELECT ${ID}, 2, 4, printf('%064x', n + 1000000000), 'account:shop-' || (n % ${SHOPS}), 'refund', 'finished', 'finished', 1, 0, 0, 0, 200,
       ${at} + 5000, ${at} + 5800, ${at} + 6000, ${at} + 86400000 FROM numbers WHERE n % 20 = 0`,
    `${numbers} INSERT INTO audit_records (object, audit_id, at_ms, actor, action, subject, data)
     SELECT ${ID}, 3, ${at} + 5000, 'account:shop-' || (n % ${SHOPS}), 'refund.succeeded', 're_shop_' || n,
       json_object('provider', 'stripe', 'provider_refund', 're_at_' || n, 'amount', 50, 'currency', 'usd') FROM numbers WHERE n % 20 = 0`,
    `${numbers} INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
     SELECT printf('%064x_receipt', n + 1000000000), 'send_receipt', ${ID}, 'done', 2, ${at}, '[]', ${at}, ${at} + 60000
     FROM numbers WHERE n % 100 = 0`,
  ];
};

/** What belongs to them and stands in D1, wherever they do. */
const ofShop = (from, until, { newestMs, stepMs }) => {
  const { numbers, at } = numbered(from, until, newestMs, stepMs, 'true');
  return [
    `${numbers} INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, state, first_seen_at_ms, last_seen_at_ms)
     SELECT 'status:stripe:pi_shop_' || n, iif(n < 1000, 'webhook', 'status'), 'stripe', 'pi_shop_' || n, 'pay_' || substr(${ID}, 1, 43),
       iif(n < 1000, 'open', iif(n % 200, 'resolved', 'repaired')), ${at}, ${at}
     FROM numbers WHERE n % 100 = 0`,
    `${numbers} INSERT INTO operator_actions (action_id, at_ms, operator, action, subject, outcome)
     SELECT 1000000000 + n, ${at}, 'somebody-' || (n % 9), 'refund', 'pay_' || substr(${ID}, 1, 43), 'done' FROM numbers WHERE n % 100 = 0`,
    `${numbers} INSERT INTO runs (task, at_ms, took_ms, result)
     SELECT iif(n % 20, 'sweep', 'settle'), ${at}, 5, '{}' FROM numbers WHERE n % 10 = 0`,
    `${numbers} INSERT INTO inbox (event_key, provider, kind, object, event_id, told_at_ms, state, attempts, history, next_at_ms,
       received_at_ms, updated_at_ms)
     SELECT 'shop-' || n, 'adyen', 'CAPTURE', ${ID}, 'e' || n, ${at}, 'done', 1, '[]', ${at}, ${at}, ${at}
     FROM numbers WHERE n % 4 = 0 AND ${at} > ${newestMs - 40 * 86_400_000}`,
    `${numbers} INSERT INTO gate_operations (key_hash, number, version, host, route, state, status, attempts, replays, began_at_ms,
       ended_at_ms)
     SELECT ${ID}, 1, 2, 'shop.example', 'POST /checkout', CASE WHEN n % 10 THEN 'done' WHEN n < 1000 THEN 'unknown' ELSE 'refused' END,
       iif(n % 10, 303, 422), 1, iif(n % 50, 0, 2), ${at}, ${at} + 300 FROM numbers WHERE n % 2 = 0`,
  ];
};

function numbered(from, until, newestMs, stepMs, isHere) {
  const every = `every (n) AS (SELECT ${from} UNION ALL SELECT n + 1 FROM every WHERE n < ${until - 1})`;
  return {
    numbers: `WITH RECURSIVE ${every}, numbers (n) AS (SELECT n FROM every WHERE ${isHere})`,
    at: `(${newestMs} - n * ${stepMs})`,
  };
}

/** Payments, from the one with this number until there are so many of them: each is older than the one before it, and none is newer than this. */
export async function largeShop(worker, { from = 1, payments, newestMs }) {
  const shop = { newestMs, stepMs: STEP_MS, isHere: 'true' };
  for (const [first, until] of batches(from, payments))
    for (const sql of [...ofPayments(first, until, shop), ...ofShop(first, until, shop)])
      await query(worker, sql);
  // The shop has learned of them in time.
  await query(worker, 'DELETE FROM settlement_late');
}

/** The same in shards. Each has a condition in SQL for the numbers of its payments, and `run`, which runs a statement there. */
export async function largeShopInShards(worker, shards, { payments, ...shop }) {
  for (const { isHere, run } of shards) {
    for (const [first, until] of batches(1, payments))
      for (const sql of ofPayments(first, until, { ...shop, isHere })) await run(sql);
    await run('DELETE FROM settlement_late');
  }
  // A connection to D1 that nobody has used for long is closed, which the first one to use it is told.
  const isThere = () => query(worker, 'SELECT 1');
  await isThere().catch(isThere);
  for (const [first, until] of batches(1, payments))
    for (const sql of ofShop(first, until, shop)) await query(worker, sql);
  await query(worker, 'DELETE FROM settlement_late');
}

function* batches(from, payments) {
  for (let first = from; first <= payments; first += BATCH)
    yield [first, Math.min(first + BATCH, payments + 1)];
}
