// The read model and the scheduled tasks, as a test sees them.

import assert from 'node:assert/strict';

import { query } from './database.mjs';
import { until } from './until.mjs';

export function readModel(site) {
  const all = async (sql, ...values) => (await query(site.worker, sql, ...values)).results;
  const first = async (sql, ...values) => (await all(sql, ...values))[0];

  return {
    all,
    first,
    run: (sql, ...values) => query(site.worker, sql, ...values),
    /** Lets the clock strike, and gives what came of each task. Where accounts and places have runs of their own these are hurried. */
    async tick() {
      const strike = async () => {
        const { outcome } = await site.desk().scheduled({ cron: '*/5 * * * *' });
        assert.equal(outcome, 'ok');
      };
      const { last } = await first('SELECT coalesce(max(run_id), 0) AS last FROM runs');
      const askedAtMs = Date.now();
      const known = new Map();
      for (const { task } of [...(await ownRuns(all)), ...(await placeRuns(all))])
        known.set(task, await objectOf(site, task));
      // Those of which the run before did not tell yet: their first run may end between that one and this one.
      const begun = new Map();
      const areApart = (await site.desk().getEnv()).TASKS !== undefined;
      for (const { task } of areApart ? await expectedRuns(all) : [])
        if (!known.has(task)) begun.set(task, await objectOf(site, task));
      await strike();
      const results = async () => {
        const sql = "SELECT task, result FROM runs WHERE run_id > ? AND task NOT GLOB '*:*' ORDER BY run_id";
        const runs = await all(sql, last);
        return Object.fromEntries(runs.map(({ task, result }) => [task, JSON.parse(result)]));
      };
      const told = await results();
      const { reconcile, places } = told;
      if (reconcile.begun !== undefined || places) for (const object of known.values()) await object.hurry();
      // One that has come to rest was counted, and is forgotten by its next run, which may come before the others have had theirs.
      const ended = (what, kind, runs, number) =>
        until(`all ${what}`, async () => {
          const found = await runs(all);
          const names = new Set(found.map(({ task }) => task));
          for (const { task } of found.filter(({ at_ms }) => at_ms < askedAtMs)) {
            await begun.get(task)?.hurry();
            begun.delete(task);
          }
          const gone = [...known.keys()].filter((task) => task.startsWith(kind) && !names.has(task)).length;
          return found.length + gone >= number && found.every(({ at_ms }) => at_ms >= askedAtMs) && found;
        });
      if (reconcile.begun !== undefined) {
        const own = await ended('accounts were reconciled', 'reconcile:', ownRuns, reconcile.accounts);
        told.reconcile = together(reconcile, own);
      }
      if (!places) return told;
      await ended('places had their run', 'place:', placeRuns, places.places);
      // What came of these the next one tells.
      await strike();
      const { sweep, settle, history, plots, forget } = await results();
      return { ...told, sweep, settle, history, plots, forget };
    },
    /** Waits until a payment has this status in the read model. */
    reaches: (id, status) =>
      until(`the read model has ${id} as ${status}`, () =>
        first(
          'SELECT payment_id, provider_payment, object FROM payments WHERE payment_id = ?1 AND status = ?2',
          id,
          status,
        ),
      ),
  };
}

/** The newest run of each account that is reconciled by itself: the deployment's own first. */
export const ownRuns = (all) =>
  all(
    `SELECT task, at_ms, result FROM runs WHERE task GLOB 'reconcile:*'
     ORDER BY task <> 'reconcile:deployment', task`,
  );

/** The runs that accounts of payments, and shops with keys of their own, have or are to have. */
const expectedRuns = (all) =>
  all(
    `SELECT 'reconcile:' || stripe_account AS task FROM payments WHERE stripe_account IS NOT NULL
     UNION SELECT 'reconcile:' || name FROM own_key_periods`,
  );

/** The newest run of each place of the read model that has runs of its own. */
export const placeRuns = (all) =>
  all("SELECT task, at_ms, result FROM runs WHERE task GLOB 'place:*' ORDER BY task");

/**
 * The object of a task, found before anything is going on: to find it stops this process until the runtime answers, and a runtime whose log
 * nobody reads meanwhile may not.
 */
export async function objectOf(site, task, binding = 'TASKS') {
  const tasks = (await site.desk().getEnv())[binding];
  const stub = tasks.get(tasks.idFromName(task));
  return {
    /** Tells it to run now. */
    hurry: () => stub.ask(JSON.stringify({ task, after_ms: 0, is_now: true })),
  };
}

/** What one run for all accounts would have said: what the cron says of them itself is of the runs before. */
function together({ failing, error, ...result }, own) {
  const results = own.map(({ result }) => JSON.parse(result));
  const failed = results.find(({ error }) => error);
  if (failed) return { ...result, error: failed.error };
  const missing = results.find(({ missing }) => missing)?.missing;
  const all = { ...result, complete: results.every(({ complete }) => complete), ...(missing && { missing }) };
  for (const name of ['compared', 'movements', 'breaks', 'resolved', 'unmoved', 'asked'])
    all[name] = results.reduce((sum, one) => sum + one[name], 0);
  for (const list of ['events', 'balance_transactions', 'payment_intents'])
    all[`${list}_lag_ms`] = Math.max(...results.map((one) => one[`${list}_lag_ms`]));
  return all;
}

/** The simulated Stripe, past our own system: as somebody does who uses its dashboard, or another system with another API version. */
export async function atStripe(site, path, fields, version) {
  const answer = await site.server
    .getWorker('paid-once-simulator')
    .fetch(`https://stripe.simulator/v1/${path}`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer sk_test_demo',
        'content-type': 'application/x-www-form-urlencoded',
        ...(version && { 'stripe-version': version }),
      },
      body: new URLSearchParams(fields).toString(),
    });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  return body;
}
