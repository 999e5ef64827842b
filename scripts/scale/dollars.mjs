// What a million payments cost where so many are made, at Cloudflare's list prices of 2026, past what is included: what bench/lib/dollars.mjs knows of one
// payment, and what is there for all of them. Pure.
import { PRICE, dollars } from '../../bench/lib/dollars.mjs';
import { assumed } from './limits.mjs';
import { BATCH, DAY_S, HISTORY_BATCH } from './parts.mjs';

const MILLION = 1e6;
const MONTH_DAYS = 30;
/** Files of a batch that leaves for history. */
const HISTORY_FILES = 4;
/** Rows of D1 that a run writes about itself, with those of indexes, and the alarm that it sets. */
const ROWS_OF_A_RUN = 4;

/** Lines of a table, and their sums: what comes once, and what each month while the objects are there. `runs` are those of a day, of places and shops. */
export function dollarsOfMany(budget, deployment, payments, runs) {
  const { busy, hotDays, metrics, accountsCache } = deployment;
  const base = dollars(budget, assumed.cpuMsPerPayment);
  const line = (what, dollars) => ({ '': what, 'dollars per million payments': dollars });
  const paid = payments * busy * DAY_S;
  const invocations = 1 + 1 / BATCH + budget.payment['requests to objects'];
  const ofRuns = ((runs * MILLION) / paid) * (PRICE.objectRequest + ROWS_OF_A_RUN * PRICE.objectRow);
  const gb = (assumed.readModelBytesPerPayment * MILLION) / 1e9;
  const lines = [
    line('what each payment writes, sends and computes, and its end a day later', base.once),
    line(`${hotDays} days in the read model`, (gb * PRICE.objectByteMonth * 1e9 * hotDays) / MONTH_DAYS),
    line('runs of places and of shops', ofRuns),
    line('history: files', ((MILLION * HISTORY_FILES) / HISTORY_BATCH) * PRICE.fileWrite),
    ...(metrics === 'analytics'
      ? [line('counts: three points an invocation at most', 3 * invocations * MILLION * PRICE.point)]
      : []),
    ...(accountsCache === 'object'
      ? [line('the registry: two requests at most', 2 * MILLION * PRICE.objectRequest)]
      : []),
  ];
  const once = lines.reduce((sum, one) => sum + one['dollars per million payments'], 0);
  return { lines, once, monthly: base.monthly };
}
