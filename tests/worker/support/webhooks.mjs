// What providers tell by themselves, in tests: a site that listens to them, their notifications, and how a payment stands in its rows.

import { after, afterEach } from 'node:test';

import { ADYEN_KEY, notify } from './adyen.mjs';
import { startSite } from './harness.mjs';
import { worked } from './inbox.mjs';
import { client } from './payments.mjs';
import { IMPATIENT } from './unknown.mjs';
import { until } from './until.mjs';

export const STRIPE_SECRET = 'whsec_demo_0123456789abcdef0123456789abcdef';
export const NEXT_SECRET = 'whsec_next_0123456789abcdef0123456789abcdef';
export const NEXT_KEY = 'ab'.repeat(32);
export const ADYEN = { provider: 'adyen' };
export const HOUR_MS = 3_600_000;
export const MINUTE_MS = 60_000;

/** Both secrets are being rolled. */
const BOTH_SECRETS = {
  ...IMPATIENT,
  STRIPE_WEBHOOK_SECRET: `${STRIPE_SECRET} ${NEXT_SECRET}`,
  ADYEN_HMAC_KEY: `${NEXT_KEY} ${ADYEN_KEY}`,
};

/** A site of a file of tests, which nobody tells anything before the test does; its client, and what its tests ask of it. */
export async function startWebhookSite(vars = {}) {
  const site = await startSite({ vars: { ...BOTH_SECRETS, ...vars } });
  after(() => site.close());
  afterEach(async () => {
    await site.simulator.calm();
    await site.simulator.webhooks('off');
  });

  /** Adyen's notification, and what it is answered; what follows from it is done then. */
  async function toAdyen(...items) {
    const answer = await notify(site, ...items);
    await worked(site);
    return answer;
  }
  /** Adyen's items about a payment, as the simulator records them. */
  const itemsOf = async (payment) => {
    const [row] = await site.objects.sql(payment, 'SELECT provider_payment FROM payments');
    const psp = row.provider_payment ?? (await pspOf(payment));
    return (await site.simulator.notifications(psp)).notificationItems.map(
      (one) => one.NotificationRequestItem,
    );
  };
  /** Adyen's reference of a payment whose answer was lost. */
  const pspOf = async (payment) => (await site.simulator.ledger(payment)).charges[0].id;
  async function tellOf({ pspReference, eventCode }) {
    const status = await site.simulator.tell(`${pspReference}:${eventCode}`);
    await worked(site);
    return status;
  }

  /** How a payment stands in its rows: nobody is asked. */
  const statusOf = async (payment) =>
    (await site.objects.sql(payment, 'SELECT status FROM payments'))[0].status;
  const refundStatuses = async (payment) =>
    (await site.objects.sql(payment, 'SELECT status FROM refunds ORDER BY created_at_ms, refund_id')).map(
      ({ status }) => status,
    );
  const openKeys = async (payment) =>
    (await site.objects.keys(payment)).filter(({ status }) => status === 'open').length;
  const reaches = (payment, status) => until(status, async () => (await statusOf(payment)) === status);
  const breaksOf = (payment) =>
    site.rows('SELECT * FROM breaks WHERE note LIKE ? OR object = ?', `%${payment}%`, hexOf(payment));
  const hexOf = (payment) => Buffer.from(payment.slice('pay_'.length), 'base64url').toString('hex');
  /** Puts off what the alarm would ask. */
  const nobodyAsks = (payment) =>
    site.objects.sql(
      payment,
      "UPDATE payments SET details = json_set(details, '$.check.next_at_ms', CAST(? AS INTEGER)) WHERE details ->> '$.check' IS NOT NULL",
      Date.now() + HOUR_MS,
    );
  return {
    site,
    user: client(site),
    toAdyen,
    itemsOf,
    pspOf,
    tellOf,
    statusOf,
    refundStatuses,
    openKeys,
    reaches,
    breaksOf,
    hexOf,
    nobodyAsks,
  };
}
