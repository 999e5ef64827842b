// Joins what four witnesses saw: the clients, the provider's ledger, the provider's log of requests, and the rows on disk, read without
// our code. It gives a list of what is wrong, each with the rule that it breaks; an empty one is what the test is about.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { SELECT_ROWS, tablesOf } from '../../scripts/lib/object-tables.mjs';

const CURRENCY = 'usd';
/** The process that writes may hold a file for so long. */
export const LOCKED_AT_MOST_MS = 10_000;
const POINTS = ['reserved', 'finished'];

const AUDITED = {
  succeeded: ['payment.created', 'payment.captured'],
  declined: ['payment.created', 'payment.failed'],
};

/** The rows of every object on disk that was ever used. What a live process is writing is in them, or is not. */
export function rowsOnDisk(directory) {
  const objects = [];
  for (const file of readdirSync(directory)) {
    if (!/^[0-9a-f]{64}\.sqlite$/.test(file)) continue;
    const database = new DatabaseSync(join(directory, file), { timeout: LOCKED_AT_MOST_MS });
    try {
      // Killed before its table was there: nothing was taken.
      if (!database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'timeline'").get()) continue;
      const tables = tablesOf(database.prepare(SELECT_ROWS).all());
      const keys = tables.idempotency_keys;
      if (keys.length === 0) continue;
      objects.push({
        keys,
        payments: tables.payments,
        refunds: tables.refunds,
        calls: tables.foreign_calls,
        audits: tables.audit_records,
        jobs: tables.staged_jobs,
        timeline: tables.timeline,
      });
    } finally {
      database.close();
    }
  }
  return objects;
}

/** Charges by the payment that they name. */
function chargesByPayment(ledger) {
  return Map.groupBy(ledger.charges, (charge) => charge.metadata.resource);
}

/** Payments that were charged more than once: the one thing that must never be. */
export function chargedTwice(ledger) {
  return [...chargesByPayment(ledger)]
    .map(([payment, charges]) => ({ payment, times: charges.filter((charge) => charge.paid).length }))
    .filter(({ times }) => times > 1);
}

/**
 * `clients` are those whose key was taken, with their `view` (where the key stands) and `replays` (what identical requests were answered at
 * the end). `requests` are those that reached the provider.
 */
export function judge({ clients, ledger, requests, objects }) {
  const wrong = [];
  const charges = chargesByPayment(ledger);
  const payments = new Set(objects.flatMap((object) => object.payments.map(({ payment_id: id }) => id)));

  for (const { payment, times } of chargedTwice(ledger)) wrong.push(`${payment} was charged ${times} times`);

  for (const client of clients) {
    const complain = (what) =>
      wrong.push(`client ${client.number} (${client.channel}, ${client.card}): ${what}`);
    const payment = paymentOf(client);
    judgeEnd(client, complain);
    judgeAnswers(client, complain);
    judgeCharges(client, charges.get(payment) ?? [], complain);
    if (!payments.has(payment)) complain(`${payment} is not on disk`);
  }

  const known = new Set(clients.map(paymentOf));
  for (const payment of new Set([...charges.keys(), ...payments]))
    if (!known.has(payment)) wrong.push(`${payment} belongs to no client`);
  if (objects.length !== clients.length) wrong.push(`${objects.length} keys on disk`);

  judgeRequests(requests, payments, wrong);
  for (const object of objects)
    judgeRows(object, (what) => wrong.push(`${object.payments[0]?.payment_id}: ${what}`));
  return wrong;
}

const paymentOf = ({ view }) => view.resource.replace('/payments/', '');

function judgeEnd({ channel, card, view }, complain) {
  const expected = channel === 'form' ? 303 : card === 'paid' ? 201 : 402;
  if (view.status !== 'complete') {
    const lines = view.timeline
      .filter(({ event }) => event !== 'resumed')
      .map(({ at, attempt, event, detail }) => `\n  ${at} ${attempt} ${event} ${detail}`);
    complain(`did not end: ${view.status} at ${view.recovery_point}${lines.join('')}`);
  }
  if (view.status === 'complete' && view.response_code !== expected)
    complain(`ended with ${view.response_code}`);
}

/** Whatever was answered at the end of a request is answered for ever, to the byte. */
function judgeAnswers({ channel, card, vanishesAfterMs, answers, replays, view, path }, complain) {
  if (answers.length === 0 && !vanishesAfterMs) complain('was never answered');
  const all = [...answers, ...replays];
  const versions = new Set(all.map(({ replayed: _, ...answer }) => JSON.stringify(answer)));
  if (versions.size > 1) complain(`was answered differently:\n  ${[...versions].join('\n  ')}`);
  const [first] = all;
  if (first?.status !== view.response_code)
    complain(`was answered ${first?.status ?? JSON.stringify(first)}`);
  const way = channel === 'form' ? path : view.resource;
  if (first?.location?.split('?')[0] !== way) complain(`was sent to ${first?.location}`);
  if (replays.some((answer) => !answer.replayed)) complain('was not told that it is a replay');
  const told = first?.shown ?? first?.text ?? '';
  const says = {
    api: { paid: '"status":"succeeded"', declined: '"status":"declined"' },
    form: { paid: 'Thank you for your order', declined: 'card was declined' },
  };
  if (!told.includes(says[channel][card])) complain(`was told by ${channel}: ${told}`);
}

/** Paid is exactly one charge, and the one that the client was told of; declined is none. */
function judgeCharges({ channel, card, amount, replays }, charges, complain) {
  const taken = charges.filter((charge) => charge.paid);
  const expected = card === 'paid' ? 1 : 0;
  if (taken.length !== expected) complain(`${taken.length} charges instead of ${expected}`);
  for (const charge of charges)
    if (charge.amount !== amount || charge.currency !== CURRENCY)
      complain(`${charge.id}: ${charge.amount} ${charge.currency}`);
  const told = replays[0]?.shown ?? replays[0]?.text ?? '';
  // The page of a declined order names no charge.
  for (const charge of channel === 'form' ? taken : charges)
    if (!told.includes(charge.payment_intent))
      complain(`${charge.payment_intent} is not what it was told of`);
}

/** Under one key always the same bytes, and one key for each payment. */
function judgeRequests(requests, payments, wrong) {
  const sends = requests.filter(({ method }) => method === 'POST');
  for (const [key, sent] of Map.groupBy(sends, (request) => request.idempotency_key)) {
    const bodies = new Set(sent.map((request) => request.body_sha256));
    if (bodies.size > 1) wrong.push(`${key}: ${bodies.size} different bodies were sent`);
    if (!payments.has(key?.replace(/_auth$/, ''))) wrong.push(`${key}: a key that no payment has`);
  }
}

/** Each phase left all of its rows, once. */
function judgeRows({ keys, payments, calls, audits, jobs, timeline }, complain) {
  if (keys.length !== 1 || payments.length !== 1 || calls.length !== 1)
    complain(`${keys.length} keys, ${payments.length} payments, ${calls.length} calls`);
  const [payment] = payments;
  const expected = AUDITED[payment?.status] ?? [];
  const audited = audits.map((audit) => audit.action);
  if (audited.join() !== expected.join()) complain(`audited ${audited.join()}`);
  // Nothing carries them away here: there is no queue.
  const staged = jobs.map((job) => `${job.kind} ${job.job_id}`).sort();
  if (staged.shift()?.split(' ')[0] !== 'project') complain('told the read model nothing');
  const expectedJobs = payment?.status === 'succeeded' ? [`send_receipt ${payment.payment_id}_receipt`] : [];
  if (staged.join() !== expectedJobs.join()) complain(`staged ${staged.join() || 'nothing'}`);
  if (calls.some((call) => call.status !== 'settled')) complain(`its call is ${calls[0].status}`);

  const points = timeline
    .filter(({ event }) => event === 'recovery_point')
    .map(({ detail }) => POINTS.indexOf(detail));
  if (points.some((point, index) => index > 0 && point <= points[index - 1]))
    complain('a recovery point went back');
  const attempts = timeline.map(({ attempt }) => attempt);
  if (attempts.some((attempt, index) => index > 0 && attempt < attempts[index - 1]))
    complain('a run wrote after it was replaced');
}
