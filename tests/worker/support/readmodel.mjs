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
    /** Lets the clock strike, and gives what came of each task. */
    async tick() {
      const { last } = await first('SELECT coalesce(max(run_id), 0) AS last FROM runs');
      const { outcome } = await site.desk().scheduled({ cron: '*/5 * * * *' });
      assert.equal(outcome, 'ok');
      const runs = await all('SELECT task, result FROM runs WHERE run_id > ?', last);
      return Object.fromEntries(runs.map(({ task, result }) => [task, JSON.parse(result)]));
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
