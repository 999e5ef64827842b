// An object that nothing takes up any more: its operation is open, money has moved, and its alarm is lost.

import assert from 'node:assert/strict';

import { freshKey } from './account.mjs';
import { jobsForgotten } from './jobs.mjs';
import { AT_ONCE, PAYMENT } from './payments.mjs';

export const ADMIN_TOKEN = 'an-operators-token-that-is-long-enough';

/** Makes a payment that the bank executes and never answers. The site needs ADMIN_TOKEN as that secret, and the settings LOOKS_SOON. */
export async function abandoned(site, user, model) {
  await site.simulator.fault('connection_reset_after');
  await site.simulator.fault('connection_reset', { count: 100 });
  const key = freshKey();
  const { status, payment } = await user.pay(PAYMENT, key, AT_ONCE);
  assert.equal(status, 503, 'the outcome is unknown');
  const due = async (at) => {
    await site.objects.sql(payment, "UPDATE idempotency_keys SET resume_at_ms = ? WHERE status = 'open'", at);
    await site.objects.sql(payment, 'UPDATE foreign_calls SET next_try_at_ms = ?', at);
  };
  await site.objects.putOff(payment, 86_400_000);
  // A transaction of the object's own moves its alarm to tomorrow; then it is not told that there is something to do today.
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const projected = await site.fetch(`/admin/payments/${payment}/project`, { method: 'POST', headers });
  assert.equal(projected.status, 200);
  await jobsForgotten(site, payment);
  await model.reaches(payment, 'processing');
  await due(Date.now() - 1);
  await site.simulator.calm();
  assert.equal((await site.objects.key(payment)).status, 'open');
  return { key, payment };
}
