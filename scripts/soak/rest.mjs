// Brings the site to rest after the troubles, and gives what all witnesses say then.
import { setTimeout as pause } from 'node:timers/promises';

import { DECLINED_USER, USER, account } from '../../tests/worker/support/account.mjs';
import { rowsOf } from '../../tests/witness/objects.mjs';
import { paymentOf } from '../../tests/worker/support/objects.mjs';

const ROUND_MS = 500;
/** The round in which the time of what is processing passes a second time. */
const LAST_PUSH = 4;
/** As if so much time had passed for the sweep: an alarm that is as late as this is taken for lost. */
const LATE_MS = 180_000;
/** What is processing at the provider is decided after a minute there. */
const DECIDED_MS = 61_000;
/** How many are asked at the same time. */
const AT_ONCE = 16;

/** Resolves when nothing is open any more, or after `patienceMs`. Gives what is left, in words. */
export async function rest(site, patienceMs, shown) {
  const deadline = Date.now() + patienceMs;
  await site.simulator.calm();
  await site.simulator.webhooks('on');
  // Twice: a payment that is processing may have been made by an alarm meanwhile.
  await site.simulator.advance(DECIDED_MS);
  for (let round = 0; ; round += 1) {
    await site.simulator.flush();
    if (round % 4 === 0) {
      await site.rows("UPDATE keys SET wake_at_ms = wake_at_ms - ? WHERE status = 'open'", LATE_MS);
      await site.desk().scheduled({ cron: '*/5 * * * *' });
    }
    if (round === LAST_PUSH) await site.simulator.advance(DECIDED_MS);
    const left = await open(site, { inside: round > LAST_PUSH });
    const words = Object.entries(left).filter(([, count]) => count > 0);
    const text = words.map(([what, count]) => `${count} ${what}`).join(', ');
    shown.detail(text);
    if (words.length === 0 && round > LAST_PUSH) return '';
    // A break that no run resolves is for the judge to show.
    if (round > 40 && words.length === 1 && left.breaks) return '';
    if (Date.now() > deadline) return text;
    await pause(ROUND_MS);
  }
}

/** What is not over yet, by kind; and `inside` the objects, which takes long, if nothing else is left. */
async function open(site, { inside }) {
  const count = async (sql) => (await site.rows(`SELECT count(*) AS n FROM ${sql}`))[0].n;
  const left = {
    'open keys in the read model': await count("keys WHERE status = 'open'"),
    'jobs under way': await count("jobs WHERE state IN ('tried', 'attempted')"),
    'undecided payments': await count("payments WHERE status IN ('processing', 'pending')"),
    breaks: await count("breaks WHERE state = 'open'"),
  };
  if (!inside || Object.values(left).some((n) => n > 0)) return left;
  const objects = await inObjects(site);
  return {
    ...left,
    'open keys': objects.flatMap(({ keys }) => keys).filter(({ status }) => status === 'open').length,
    'staged jobs': objects.flatMap(({ jobs }) => jobs).length,
  };
}

/** What lies in each object's own tables. Those that were never used have none. */
async function inObjects(site) {
  const all = await each(await site.objects.ids(), (id) => site.objects.dump(paymentOf(id)));
  return all.filter((tables) => tables.idempotency_keys).map(rowsOf);
}

/** What all say, for the judge. */
export async function witnesses(site) {
  const objects = await inObjects(site);
  const users = [account(site, USER), account(site, DECLINED_USER)];
  const ids = objects.flatMap(({ payments }) => payments.map((row) => row.payment_id));
  const shown = await each(ids, async (id) => {
    for (const user of users) {
      const answer = await user.payment(id);
      if (answer.status === 200) return [id, answer.json()];
    }
    return [id, null];
  });
  const control = async (path) => {
    const worker = site.server.getWorker('paid-once-simulator');
    return (await worker.fetch(`http://simulator/_sim/${path}`)).json();
  };
  return {
    objects,
    shown: new Map(shown),
    ledger: await control('ledger'),
    emails: (await control('mailbox.json')).emails,
    deliveries: (await control('webhooks')).deliveries,
    rows: {
      payments: await site.rows('SELECT * FROM payments'),
      refunds: await site.rows('SELECT * FROM refunds'),
      jobs: await site.rows('SELECT job_id, kind, state, attempts, history, result FROM job_list'),
      breaks: await site.rows('SELECT * FROM breaks'),
    },
  };
}

async function each(list, work) {
  const results = new Array(list.length);
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < list.length; i = next++) results[i] = await work(list[i]);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}
