// Judges the payments of a load: joins what the payers were told, the provider's ledger and its log of requests, and the rows on disk. It
// gives a list of what is wrong; an empty one is what the test is about.

import { AMOUNT } from './payers.mjs';

/** What one payment has moved, as the provider knows it. */
function moved(charges, refunds) {
  const ids = new Set(charges.map(({ id }) => id));
  const given = refunds.filter(({ charge, status }) => ids.has(charge) && status !== 'failed');
  const sum = (lines, name) => lines.reduce((total, line) => total + line[name], 0);
  const paid = charges.filter((charge) => charge.paid);
  return {
    charges: paid.length,
    authorised: sum(paid, 'amount'),
    captured: sum(paid, 'amount_captured'),
    refunded: sum(given, 'amount'),
    refunds: given.length,
    voided: paid.filter(({ voided }) => voided).length,
  };
}

const byPayment = ({ charges }) => Map.groupBy(charges, (charge) => charge.metadata.resource);

/** Payments that were charged twice, and refunds that were given twice: what must never be. */
export function movedTwice(ledger) {
  const charged = [...byPayment(ledger).values()].filter((lines) => moved(lines, []).charges > 1);
  const refunds = Map.groupBy(ledger.refunds, ({ metadata }) => metadata.idempotency_key);
  return [...charged, ...[...refunds.values()].filter((lines) => lines.length > 1)];
}

/** `payers` have their acts, each with its `view` (where its key stands) and its `replays`; `shown` are payments by id, at the end. */
export function judgeMoney({ payers, shown, ledger, requests, objects }) {
  const wrong = [];
  const charges = byPayment(ledger);
  const rows = new Map(objects.flatMap((object) => object.payments.map((row) => [row.payment_id, object])));
  const told = new Map();

  for (const payer of payers)
    for (const act of payer.acts) {
      const complain = (what) => wrong.push(`payer ${payer.number} (${payer.story}), ${act.path}: ${what}`);
      judgeAnswers(act, complain);
      const id = act.payment ?? paymentOf(act);
      if (id) told.set(id, [...(told.get(id) ?? []), { ...act, story: payer.story }]);
    }

  for (const [id, acts] of told)
    judgePayment(
      {
        acts,
        row: rows.get(id),
        shown: shown.get(id),
        ledger: moved(charges.get(id) ?? [], ledger.refunds),
      },
      (what) => wrong.push(`${id}: ${what}`),
    );
  for (const id of new Set([...charges.keys(), ...rows.keys()]))
    if (!told.has(id)) wrong.push(`${id} belongs to no payer`);

  const sends = requests.filter(({ method }) => method === 'POST');
  for (const [key, sent] of Map.groupBy(sends, (request) => request.idempotency_key)) {
    if (new Set(sent.map((request) => request.body_sha256)).size > 1) wrong.push(`${key}: its bytes changed`);
    if (!told.has(key?.split(/_(?:auth|capture|void|refund)/)[0])) wrong.push(`${key}: of no payment`);
  }
  return wrong;
}

const ending = ({ answers, replays }) => [...answers, ...replays][0];
const paymentOf = (act) => /pay_[\w-]{43}/.exec(ending(act)?.text ?? act.view?.resource ?? '')?.[0];

/** What was answered at the end is answered for ever; what was refused has left nothing. */
function judgeAnswers(act, complain) {
  const { answers, replays, refused, abandoned, key, view } = act;
  if (refused) {
    if (answers.length > 0) complain('was refused and answered');
    if (view) complain(`was refused, and its key is ${view.status}`);
    return;
  }
  if (answers.length === 0 && !abandoned) complain('was never answered');
  if (key && answers.length > 0 && !view) complain('its key was never taken');
  if (view && view.status !== 'complete') complain(`did not end: ${view.status} at ${view.recovery_point}`);
  const all = [...answers, ...replays];
  const versions = new Set(all.map(({ replayed: _, ...answer }) => JSON.stringify(answer)));
  if (versions.size > 1) complain(`was answered differently:\n  ${[...versions].join('\n  ')}`);
  if (replays.some((answer) => !answer.replayed)) complain('was not told that it is a replay');
  if (view && all[0]?.status !== view.response_code) complain(`was answered ${JSON.stringify(all[0])}`);
}

/** What all its answers together say must have been moved. */
function promised(acts) {
  const ended = acts.map((act) => ({ ...act, end: ending(act) })).filter(({ end }) => end);
  const yes = (name) => ended.filter((act) => act.name === name && [200, 201].includes(act.end.status));
  const pays = yes('pay');
  const captures = new Map(yes('capture').map((act) => [act.end.original, act.body.amount]));
  const voids = new Set(yes('void').map(({ end }) => end.original));
  const refunds = new Map(
    yes('refunds').map(({ end }) => [JSON.parse(end.text).id, JSON.parse(end.text).amount]),
  );
  const total = (amounts) => amounts.reduce((sum, amount) => sum + amount, 0);
  const atOnce = pays.filter(({ body }) => body.capture !== false).length * AMOUNT;
  return {
    charges: pays.length,
    authorised: pays.length * AMOUNT,
    captured: atOnce + total([...captures.values()]),
    refunded: total([...refunds.values()]),
    refunds: refunds.size,
    voided: voids.size,
  };
}

function judgePayment({ acts, row, shown, ledger }, complain) {
  const expected = promised(acts);
  if (JSON.stringify(ledger) !== JSON.stringify(expected))
    complain(`moved ${JSON.stringify(ledger)}, but its payers were told ${JSON.stringify(expected)}`);
  if (!(ledger.authorised >= ledger.captured && ledger.captured >= ledger.refunded))
    complain(`sums out of order: ${JSON.stringify(ledger)}`);
  if (ledger.charges > 1) complain(`charged ${ledger.charges} times`);
  if (ledger.voided && ledger.captured) complain('captured and voided');

  const declined = acts.some(({ story }) => story === 'declined');
  const status = declined
    ? 'declined'
    : ledger.voided
      ? 'canceled'
      : ledger.captured
        ? 'succeeded'
        : 'requires_capture';
  const says = [shown?.status, shown?.amount_captured, shown?.amount_refunded];
  if (says.join() !== [status, ledger.captured, ledger.refunded].join()) complain(`is shown as ${says}`);
  if (!row) return complain('is not on disk');
  judgeRows(row, ledger, complain);
}

/** Each phase left all of its rows, once. */
function judgeRows({ keys, payments: [row], refunds, calls, audits, jobs }, ledger, complain) {
  if (row.captured_minor !== ledger.captured || row.refunded_minor !== ledger.refunded)
    complain(`its row has ${row.captured_minor} and ${row.refunded_minor}`);
  const open = keys.filter(({ status }) => status === 'open').length;
  if (open > 0) complain(`${open} keys are open`);
  if (calls.some(({ status }) => status !== 'settled')) complain('a call is not settled');
  if (refunds.some(({ status }) => status === 'pending')) complain('a refund is pending');
  const count = (action) => audits.filter((audit) => audit.action === action).length;
  for (const [action, times] of [
    ['payment.created', 1],
    ['payment.captured', ledger.captured > 0 ? 1 : 0],
    ['payment.canceled', ledger.voided],
    ['refund.requested', ledger.refunds],
    ['refund.succeeded', ledger.refunds],
  ])
    if (count(action) !== times) complain(`${action} is in the audit ${count(action)} times`);
  const staged = (wanted) => jobs.filter(({ kind }) => kind === wanted).length;
  const expectedReceipts = (ledger.captured > 0 ? 1 : 0) + ledger.voided + ledger.refunds;
  if (staged('send_receipt') !== expectedReceipts) complain(`${staged('send_receipt')} receipts`);
  if (staged('project') !== 1) complain('told the read model nothing, or more than what is true now');
}
