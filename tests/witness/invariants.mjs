// What must hold, whatever happened: each invariant by its name. It joins what some witnesses say and gives what breaks it, in sentences.
//
// `acts` are what the clients were told (journal.mjs), `ledger` and `requests` what the provider has booked and was asked (ledger.mjs),
// `objects` the rows on disk (objects.mjs), `shown` the payments as their owners see them, by id, `rows` those of the read model, and
// `emails` the mailbox. An invariant that speaks of a witness needs it.

import { endOf, paymentOf, versionsOf } from './journal.mjs';
import { movedByPayment, movedOf, movedTwice } from './ledger.mjs';
import { receiptsOf } from './mail.mjs';

const CURRENCY = 'usd';
/** In their order. */
const POINTS = ['reserved', 'finished'];
/** What is in the audit as often as it happened. */
const EFFECTS = [
  ...['payment.created', 'payment.captured', 'payment.canceled', 'payment.failed'],
  ...['refund.requested', 'refund.succeeded', 'refund.failed'],
];
/** As many as there are levels, and the first. */
const RECEIPT_TRIES = 5;

export const invariants = {
  'nothing is charged or refunded twice': ({ ledger }) => movedTwice(ledger),

  'what was answered once is answered for ever': ({ acts }) => of(acts, sameAnswers),

  'every act has ended': ({ acts }) => of(acts, hasEnded),

  'what was told is what the ledger holds': told,

  'what was told is what is shown': ({ acts, shown, ledger }) => {
    const moved = movedByPayment(ledger);
    return of(
      acts.filter((act) => endOf(act) && !act.form),
      (act) => isTrue(act, shown.get(paymentOf(act)), moved),
    );
  },

  'a request to the provider never changes': ({ acts, requests }) => {
    const wrong = [];
    const known = new Set(acts.map(paymentOf));
    const sends = requests.filter(({ method }) => method === 'POST');
    for (const [key, sent] of Map.groupBy(sends, ({ idempotency_key: derived }) => derived)) {
      const bodies = new Set(sent.map(({ body_sha256: hash }) => hash));
      if (bodies.size > 1) wrong.push(`${key}: ${bodies.size} different bodies were sent`);
      if (!known.has(key?.split(/_(?:auth|capture|void|refund)/)[0])) wrong.push(`${key}: of no payment`);
    }
    return wrong;
  },

  'each phase left all of its rows, once': ({ objects, ledger }) => {
    const moved = movedByPayment(ledger);
    const paying = objects.filter(({ payments }) => payments.length > 0);
    return paying.flatMap((object) =>
      rowsOf(object, movedOf(moved, object.payments[0].payment_id)).map(
        (what) => `${object.payments[0].payment_id}: ${what}`,
      ),
    );
  },

  'every charge has its object': ({ ledger, objects }) => {
    const onDisk = new Set(objects.flatMap(({ payments }) => payments.map((row) => row.payment_id)));
    const charged = [...movedByPayment(ledger).keys()].filter((id) => !onDisk.has(id));
    return charged.map((id) => `${id} has charges, and no object`);
  },

  'what is shown is what the ledger holds': ({ shown, ledger }) => {
    const moved = movedByPayment(ledger);
    return [...shown].flatMap(([id, view]) =>
      showsIt(view, movedOf(moved, id)).map((what) => `${id}: ${what}`),
    );
  },

  'the read model says what is shown': ({ shown, rows, ledger }) => {
    const moved = movedByPayment(ledger);
    const listed = new Map(rows.payments.map((row) => [row.payment_id, row]));
    const given = Map.groupBy(
      rows.refunds.filter(({ status }) => status === 'succeeded'),
      (row) => row.payment_id,
    );
    const wrong = [...listed.keys()]
      .filter((id) => !shown.has(id))
      .map((id) => `${id} is in the read model only`);
    for (const [id, view] of shown) {
      const row = listed.get(id);
      if (!row) wrong.push(`${id}: the read model does not know it`);
      if (!row || !view) continue;
      const [has, must] = [[row.status, row.captured_minor, row.refunded_minor].join(), faceOf(view)];
      if (has !== must) wrong.push(`${id}: the read model has ${has}, its object ${must}`);
      const ours = (given.get(id) ?? []).map((refund) => refund.provider_refund).sort();
      const theirs = movedOf(moved, id).refunds.map((refund) => refund.id);
      if (ours.join() !== theirs.sort().join())
        wrong.push(`${id}: the read model has ${ours.length} refunds, the ledger ${theirs.length}`);
    }
    return wrong;
  },

  'nothing is left open': ({ objects, rows }) => {
    const open = objects.flatMap(({ keys }) => keys).filter(({ status }) => status === 'open');
    const staged = objects.flatMap(({ jobs }) => jobs);
    const wrong = [];
    if (open.length > 0) wrong.push(`${open.length} keys are open`);
    if (staged.length > 0) wrong.push(`${staged.length} jobs are still staged: ${staged[0].job_id} …`);
    for (const { job_id, state } of rows.jobs)
      if (!['done', 'dead'].includes(state)) wrong.push(`the job ${job_id} is ${state}`);
    for (const { kind, provider_payment, resource, ours, theirs, state } of rows.breaks)
      if (state === 'open')
        wrong.push(`a break, ${kind}: ${provider_payment} of ${resource}: ours ${ours}, theirs ${theirs}`);
    return wrong;
  },

  'each receipt is in the mailbox once': mailed,
};

/** Asks for these by their names, and gives all that is wrong. */
export function judge(witnesses, names) {
  return names.flatMap((name) => invariants[name](witnesses));
}

/** What is wrong with each act, and whose it is. */
function of(acts, examine) {
  return acts.flatMap((act) =>
    examine(act).map((what) => `${act.who ?? act.key ?? 'a form'}, ${act.path}: ${what}`),
  );
}

/** Whatever was answered at the end of a request is answered again, to the byte; what was refused has left nothing. */
function sameAnswers(act) {
  const { answers, replays = [], refused, view } = act;
  const wrong = [];
  const versions = versionsOf(act);
  if (versions.size > 1)
    wrong.push(`had ${versions.size} different answers:\n  ${wherePart([...versions]).join('\n  ')}`);
  if (answers.length > 0 && refused) wrong.push(`was answered, and refused with ${JSON.stringify(refused)}`);
  if (replays.some(({ replayed }) => !replayed)) wrong.push('was not told that it is a replay');
  if (refused && view) wrong.push(`was refused, and its key is ${view.status}`);
  return wrong;
}

/** Of texts that differ, from a little before the first difference on: the beginning of a page says nothing. */
function wherePart(texts) {
  const [first, ...others] = texts;
  const same = [...first].findIndex((_, at) => others.some((other) => other[at] !== first[at]));
  const from = Math.max(0, (same < 0 ? first.length : same) - 60);
  return texts.map((text) => `… ${text.slice(from, from + 200)}`);
}

function hasEnded(act) {
  const { path, answers, abandoned, refused, key, view, expects } = act;
  const wrong = [];
  if (refused) return wrong;
  if (answers.length === 0 && !abandoned) wrong.push('was never answered');
  if (key && answers.length > 0 && !view) wrong.push('its key was never taken');
  if (view && view.status !== 'complete') {
    const lines = view.timeline
      .filter(({ event }) => event !== 'resumed')
      .map(({ at, attempt, event, detail }) => `\n  ${at} ${attempt} ${event} ${detail}`);
    wrong.push(`did not end: ${view.status} at ${view.recovery_point}${lines.join('')}`);
  }
  const end = endOf(act);
  if (view && end?.status !== view.response_code) wrong.push(`was answered ${JSON.stringify(end)}`);
  // A refund's answer leads to it; one that was refused to the refunds.
  const refund = act.name === 'refunds' && end?.status === 201 ? `${path}/${JSON.parse(end.text).id}` : path;
  const ways = [view?.resource, act.form || act.name === 'refunds' ? refund : null];
  if (view && end?.location && !ways.includes(end.location.split('?')[0]))
    wrong.push(`was sent to ${end.location}`);
  if (end && expects && (end.status !== expects.status || !textOf(end).includes(expects.text)))
    wrong.push(`was answered ${end.status} instead of ${expects.status}: ${textOf(end)}`);
  return wrong;
}

/** What a client has read: of a form's answer the page to which it leads. */
const textOf = ({ shown, text }) => shown ?? text ?? '';

/** One effect for each success that somebody was told of, none for the others; and all that is there belongs to somebody. */
function told({ acts, ledger, objects }) {
  const wrong = [];
  const byPayment = Map.groupBy(acts.filter(paymentOf), paymentOf);
  const moved = movedByPayment(ledger);
  const onDisk = new Set(objects.flatMap(({ payments }) => payments.map((row) => row.payment_id)));
  for (const id of new Set([...moved.keys(), ...onDisk]))
    if (!byPayment.has(id)) wrong.push(`${id} belongs to nobody`);
  for (const [id, own] of byPayment) {
    if (!onDisk.has(id)) wrong.push(`${id} is not on disk`);
    const has = movedOf(moved, id);
    const must = promised(own);
    for (const [what, amount] of Object.entries(must)) {
      const count = Array.isArray(has[what]) ? has[what].length : has[what];
      if (count !== amount) wrong.push(`${id}: ${what} ${count}, but its clients were told ${amount}`);
    }
    if (!(has.authorised >= has.captured && has.captured >= has.refunded))
      wrong.push(`${id}: sums out of order: ${JSON.stringify(has)}`);
    if (has.voided && has.captured) wrong.push(`${id}: captured and voided`);
  }
  for (const { id, currency, status, payment_intent: intent, metadata } of ledger.charges) {
    const ends = (byPayment.get(metadata.resource) ?? []).map(endOf).filter(Boolean);
    if (currency !== CURRENCY) wrong.push(`${id}: in ${currency}`);
    // The page of a declined order names no charge.
    if (status === 'succeeded' && !ends.some((end) => textOf(end).includes(intent)))
      wrong.push(`${metadata.resource}: nobody was told of ${intent}`);
  }
  return wrong;
}

function isTrue(act, view, all) {
  const { name, body } = act;
  const { status, text } = endOf(act);
  if (!view) return [`speaks of ${paymentOf(act)}, which is not there`];
  const wrong = [];
  const moved = movedOf(all, paymentOf(act));
  if (name === 'capture' && status === 200 && moved.captured !== body.amount)
    wrong.push(`was told that ${body.amount} were taken, it were ${moved.captured}`);
  if (name === 'void' && status === 200 && (moved.kept > 0 || view.status !== 'canceled'))
    wrong.push(`was told that it is called off, it is ${view.status}`);
  if (!['pay', 'checkout'].includes(name)) return wrong;
  const isOpen =
    status === 201 && text !== '' && ['processing', 'requires_action'].includes(JSON.parse(text).status);
  if (status === 201 && !isOpen && moved.charges < 1) wrong.push('was told that it is paid, and it is not');
  if (status === 402 && moved.captured > 0 && !body.order_id)
    wrong.push('was told that it failed, and it is paid');
  return wrong;
}

/** What all answers about a payment together say must have been moved. */
function promised(acts) {
  const ended = acts.map((act) => ({ ...act, end: endOf(act) })).filter(({ end }) => end);
  const done = (name) =>
    ended.filter((act) => act.name === name && [200, 201, 303].includes(act.end.status) && !act.declines);
  const total = (amounts) => amounts.reduce((sum, amount) => sum + amount, 0);
  const pays = done('pay');
  // Two answers that name one original request are one capture; two that name one refund are one refund.
  const captures = new Map(done('capture').map(({ end, body }) => [end.original, body.amount]));
  const refunds = new Map(
    done('refunds').map(({ end }) => [JSON.parse(end.text).id, JSON.parse(end.text).amount]),
  );
  const amounts = (wanted) => total(wanted.map(({ amount, body }) => amount ?? body.amount));
  return {
    charges: pays.length,
    authorised: amounts(pays),
    captured: amounts(pays.filter(({ body }) => body?.capture !== false)) + total([...captures.values()]),
    refunded: total([...refunds.values()]),
    refunds: refunds.size,
    voided: new Set(done('void').map(({ end }) => end.original)).size,
  };
}

const faceOf = ({ status, amount_captured, amount_refunded }) =>
  [status, amount_captured, amount_refunded].join();

function showsIt(view, { kept, captured, refunded }) {
  if (!view) return ['it is shown to nobody'];
  const wrong = [];
  if (view.amount_captured !== captured)
    wrong.push(`the ledger has ${captured} taken, it shows ${view.amount_captured}`);
  if (view.amount_refunded !== refunded)
    wrong.push(`the ledger has ${refunded} given back, it shows ${view.amount_refunded}`);
  const status =
    captured > 0 ? ['succeeded'] : kept > 0 ? ['requires_capture'] : ['canceled', 'declined', 'failed'];
  if (!status.includes(view.status))
    wrong.push(`it is shown as ${view.status}, the ledger says ${status.join(' or ')}`);
  return wrong;
}

function rowsOf({ keys, payments: [row, ...others], refunds, calls, audits, jobs, timeline }, ledger) {
  const wrong = [];
  if (others.length > 0) wrong.push(`it has ${others.length} payments beside it`);
  if (row.captured_minor !== ledger.captured || row.refunded_minor !== ledger.refunded)
    wrong.push(`its row has ${row.captured_minor} and ${row.refunded_minor}`);
  const open = keys.filter(({ status }) => status === 'open').length;
  if (open > 0) wrong.push(`${open} keys are open`);
  if (calls.some(({ status }) => status !== 'settled')) wrong.push('a call is not settled');
  if (refunds.some(({ status }) => status === 'pending')) wrong.push('a refund is pending');

  const isPaid = ledger.captured > 0;
  const expected = [
    'payment.created',
    ...(ledger.charges === 0 ? ['payment.failed'] : []),
    ...(isPaid ? ['payment.captured'] : []),
    ...(ledger.voided ? ['payment.canceled'] : []),
    ...ledger.refunds.flatMap(() => ['refund.requested', 'refund.succeeded']),
  ];
  const audited = audits.map(({ action }) => action).filter((action) => EFFECTS.includes(action));
  if (audited.sort().join() !== expected.sort().join()) wrong.push(`audited ${audited.join()}`);

  // Nothing carries them away where this is asked: there is no queue.
  const staged = Map.groupBy(jobs, ({ kind }) => kind);
  const idsOf = (kind) => (staged.get(kind) ?? []).map((job) => job.job_id).sort();
  const receipts = Object.values(receiptsOf({ payments: [row], refunds }))
    .flat()
    .sort();
  if (idsOf('send_receipt').join() !== receipts.join())
    wrong.push(`staged ${idsOf('send_receipt').join() || 'no receipt'}, not ${receipts.join() || 'none'}`);
  if (idsOf('project').length !== 1) wrong.push('told the read model nothing, or more than what is true now');

  for (const [key, lines] of Map.groupBy(timeline, (line) => line.key_id)) {
    const points = lines
      .filter(({ event }) => event === 'recovery_point')
      .map(({ detail }) => POINTS.indexOf(detail));
    if (points.some((point, index) => index > 0 && point <= points[index - 1]))
      wrong.push(`a recovery point of ${key} went back`);
    const attempts = lines.map(({ attempt }) => attempt);
    if (attempts.some((attempt, index) => index > 0 && attempt < attempts[index - 1]))
      wrong.push(`a run of ${key} wrote after it was replaced`);
  }
  return wrong;
}

/** One email a job, and a job for all that has moved. */
function mailed({ emails, rows }) {
  const wrong = [];
  const jobs = rows.jobs.filter(({ kind }) => kind === 'send_receipt');
  const known = new Set(jobs.map(({ job_id }) => job_id));
  for (const id of Object.values(receiptsOf(rows)).flat())
    if (!known.has(id)) wrong.push(`${id}: there was no such job`);
  const ids = new Set(emails.map(({ id }) => id));
  const sent = Map.groupBy(
    jobs.filter(({ state }) => state === 'done'),
    ({ result }) => result,
  );
  for (const [email, [{ job_id }, ...others]] of sent) {
    if (!ids.has(email)) wrong.push(`${job_id} is done, and not in the mailbox`);
    if (others.length > 0) wrong.push(`${job_id} and another job share an email`);
  }
  // A dead letter may have been sent: nobody knows, and it says so. None is given up before its last level.
  const dead = jobs.filter(({ state }) => state === 'dead');
  // A try that died with its process counts, and has left no line.
  for (const { job_id, attempts: tries } of dead) {
    if (tries < RECEIPT_TRIES) wrong.push(`${job_id} is dead after ${tries} of ${RECEIPT_TRIES} tries`);
  }
  const more = emails.filter(({ id }) => !sent.has(id));
  if (more.length > dead.length)
    for (const { subject, to, id } of more) wrong.push(`an email too many: ${subject} to ${to}: ${id}`);
  const about = ({ subject, text }) =>
    `${subject.split(':')[0]} ${[...text.matchAll(/\b(?:pay|ref|re)_[\w-]{16,}/g)].join(' ')}`;
  for (const [what, same] of Map.groupBy(emails, about))
    if (same.length > 1) wrong.push(`${same.length} emails say the same: ${what}`);
  return wrong;
}
