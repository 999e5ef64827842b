// Joins what four witnesses saw: the clients, the provider's ledger, the provider's log of requests, and the rows on disk, read without
// our code. It gives a list of what is wrong, each with the rule that it breaks; an empty one is what the test is about.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { SELECT_ROWS, tablesOf } from '../../scripts/lib/object-tables.mjs';

const FARE = 2000;
const CURRENCY = 'usd';
/** The process that writes may hold a file for so long. */
export const LOCKED_AT_MOST_MS = 10_000;
const POINTS = ['started', 'ride_created', 'charge_created', 'finished'];

const AUDITED = {
  paid: ['ride.created', 'ride.charged', 'receipt.staged', 'dispatch.staged'],
  unpaid: ['ride.created', 'ride.not_charged'],
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
        rides: tables.rides.map((ride) => ({ ...ride, state: JSON.parse(ride.state).state })),
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

/** Charges by the ride that they name. `requests` are those that reached the provider. */
export function chargesByRide(ledger) {
  return Map.groupBy(ledger.charges, (charge) => charge.metadata.resource);
}

/** Rides that were charged more than once: the one thing that must never be. */
export function chargedTwice(ledger) {
  return [...chargesByRide(ledger)]
    .map(([ride, charges]) => ({ ride, times: charges.filter((charge) => charge.paid).length }))
    .filter(({ times }) => times > 1);
}

/**
 * `clients` are those whose key was taken, with their `view` (where the key stands) and `replays` (what identical requests were answered at
 * the end).
 */
export function judge({ clients, ledger, requests, objects }) {
  const wrong = [];
  const charges = chargesByRide(ledger);
  const rides = new Map(objects.flatMap((object) => object.rides.map((ride) => [ride.ride_id, object])));

  for (const { ride, times } of chargedTwice(ledger)) wrong.push(`${ride} was charged ${times} times`);
  for (const charge of ledger.charges)
    if (charge.amount !== FARE || charge.currency !== CURRENCY)
      wrong.push(`${charge.id}: ${charge.amount} ${charge.currency}`);

  for (const client of clients) {
    const complain = (what) =>
      wrong.push(`client ${client.number} (${client.channel}, ${client.card}): ${what}`);
    const ride = client.view.resource.replace('/rides/', '');
    judgeEnd(client, complain);
    judgeAnswers(client, ride, complain);
    judgeCharges(client, charges.get(ride) ?? [], complain);
    if (!rides.has(ride)) complain(`${ride} is not on disk`);
  }

  const known = new Set(clients.map((client) => client.view.resource.replace('/rides/', '')));
  for (const ride of new Set([...charges.keys(), ...rides.keys()]))
    if (!known.has(ride)) wrong.push(`${ride} belongs to no client`);
  if (objects.length !== clients.length) wrong.push(`${objects.length} keys on disk`);

  judgeRequests(requests, rides, wrong);
  for (const object of objects)
    judgeRows(object, (what) => wrong.push(`${object.rides[0]?.ride_id}: ${what}`));
  return wrong;
}

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
function judgeAnswers({ channel, card, vanishesAfterMs, answers, replays, view }, ride, complain) {
  if (answers.length === 0 && !vanishesAfterMs) complain('was never answered');
  const all = [...answers, ...replays];
  const versions = new Set(all.map(({ replayed: _, ...answer }) => JSON.stringify(answer)));
  if (versions.size > 1) complain(`was answered differently:\n  ${[...versions].join('\n  ')}`);
  const [first] = all;
  if (first?.status !== view.response_code)
    complain(`was answered ${first?.status ?? JSON.stringify(first)}`);
  if (first?.location !== `/rides/${ride}`) complain(`was sent to ${first?.location}`);
  if (replays.some((answer) => !answer.replayed)) complain('was not told that it is a replay');
  const told = first?.shown ?? first?.text ?? '';
  if (!told.includes(card === 'paid' ? '"status":"paid"' : '"status":"unpaid"'))
    complain(`was told by ${channel}: ${told}`);
}

/** Paid is exactly one charge, and the one that the client was told of; declined is none. */
function judgeCharges({ card, replays }, charges, complain) {
  const taken = charges.filter((charge) => charge.paid);
  const expected = card === 'paid' ? 1 : 0;
  if (taken.length !== expected) complain(`${taken.length} charges instead of ${expected}`);
  const told = replays[0]?.shown ?? replays[0]?.text ?? '';
  for (const charge of charges)
    if (!told.includes(charge.payment_intent))
      complain(`${charge.payment_intent} is not what it was told of`);
}

/** Under one key always the same bytes, and one key for each ride. */
function judgeRequests(requests, rides, wrong) {
  const sends = requests.filter(({ method }) => method === 'POST');
  for (const [key, sent] of Map.groupBy(sends, (request) => request.idempotency_key)) {
    const bodies = new Set(sent.map((request) => request.body_sha256));
    if (bodies.size > 1) wrong.push(`${key}: ${bodies.size} different bodies were sent`);
    if (!rides.has(key?.replace(/_auth$/, ''))) wrong.push(`${key}: a key that no ride has`);
  }
}

/** Each phase left all of its rows, once. */
function judgeRows({ keys, rides, calls, audits, jobs, timeline }, complain) {
  if (keys.length !== 1 || rides.length !== 1 || calls.length !== 1)
    complain(`${keys.length} keys, ${rides.length} rides, ${calls.length} calls`);
  const [ride] = rides;
  const expected = AUDITED[ride?.state] ?? [];
  const audited = audits.map((audit) => audit.action);
  if (audited.join() !== expected.join()) complain(`audited ${audited.join()}`);
  // Nothing carries them away here: there is no queue.
  const staged = jobs.map((job) => `${job.kind} ${job.job_id}`).sort();
  if (staged.shift()?.split(' ')[0] !== 'project') complain('told the read model nothing');
  const expectedJobs =
    ride?.state === 'paid'
      ? [`send_message ${ride.ride_id}_dispatch`, `send_receipt ${ride.ride_id}_receipt`]
      : [];
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
