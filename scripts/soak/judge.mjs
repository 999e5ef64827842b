// Joins what everybody says at rest: the clients, the provider's ledger, the objects, the read model, the mailbox. None of them is
// believed: each is held against all others. Pure.

/** As many as there are levels, and the first. */
const RECEIPT_TRIES = 5;

const sum = (lines, name) => lines.reduce((total, line) => total + line[name], 0);

/**
 * `acts` are the clients' requests with their ends, the rest is what `witnesses()` gives. Gives `rows`, one for each kind of thing with
 * what each witness counts, `wrong`, a sentence for each thing that must not be, and `dead`, the dead letters.
 */
export function judge({ acts, objects, shown, ledger, emails, rows }) {
  const wrong = [];
  const charges = Map.groupBy(ledger.charges, ({ metadata }) => metadata.resource);
  const moved = new Map();
  for (const id of new Set([...charges.keys(), ...shown.keys()])) {
    const own = charges.get(id) ?? [];
    const ids = new Set(own.map((charge) => charge.id));
    const refunds = ledger.refunds.filter(({ charge, status }) => ids.has(charge) && status !== 'failed');
    const taken = own.filter(({ status }) => status === 'succeeded');
    moved.set(id, {
      charges: taken.length,
      kept: taken.filter(({ voided }) => !voided).length,
      captured: sum(taken, 'amount_captured'),
      refunded: sum(refunds, 'amount'),
      refunds,
    });
  }
  for (const id of charges.keys()) if (!shown.has(id)) wrong.push(`${id} has charges, and no object`);
  for (const [id, view] of shown) {
    if (!view) wrong.push(`${id} is shown to nobody`);
    // An order that was called off can be tried anew: what was reserved for it then is voided.
    const { charges: times, kept } = moved.get(id);
    if (kept > 1) wrong.push(`${id} was charged ${times} times`);
  }
  for (const [key, lines] of Map.groupBy(ledger.refunds, ({ metadata }) => metadata.idempotency_key))
    if (key && lines.length > 1) wrong.push(`${key} was refunded ${lines.length} times`);

  judgePayments({ shown, moved, rows }, wrong);
  judgeAnswers({ acts, shown, moved, rows }, wrong);
  const expected = receipts({ rows });
  judgeReceipts({ expected, emails, rows }, wrong);

  const open = sum(objects, 'open');
  const staged = objects.flatMap((object) => object.staged);
  if (open > 0) wrong.push(`${open} keys are open`);
  if (staged.length > 0) wrong.push(`${staged.length} jobs are still staged: ${staged[0].job_id} …`);
  for (const job of rows.jobs)
    if (['tried', 'attempted'].includes(job.state)) wrong.push(`the job ${job.job_id} is ${job.state}`);
  for (const { kind, provider_payment, resource, ours, theirs, state } of rows.breaks)
    if (state === 'open')
      wrong.push(`a break, ${kind}: ${provider_payment} of ${resource}: ours ${ours}, theirs ${theirs}`);

  const dead = rows.jobs.filter(({ state }) => state === 'dead');
  return { rows: table({ shown, moved, rows, expected, emails, dead }), wrong, dead };
}

function judgePayments({ shown, moved, rows }, wrong) {
  const projected = new Map(rows.payments.map((row) => [row.payment_id, row]));
  for (const [id, view] of shown) {
    if (!view) continue;
    const complain = (what) => wrong.push(`${id}: ${what}`);
    const { kept, captured, refunded } = moved.get(id);
    if (view.amount_captured !== captured)
      complain(`the ledger has ${captured} taken, it shows ${view.amount_captured}`);
    if (view.amount_refunded !== refunded)
      complain(`the ledger has ${refunded} given back, it shows ${view.amount_refunded}`);
    const status =
      captured > 0 ? ['succeeded'] : kept > 0 ? ['requires_capture'] : ['canceled', 'declined', 'failed'];
    if (!status.includes(view.status))
      complain(`it is shown as ${view.status}, the ledger says ${status.join(' or ')}`);
    const row = projected.get(id);
    if (!row) {
      complain('the read model does not know it');
      continue;
    }
    const face = [row.status, row.captured_minor, row.refunded_minor].join();
    if (face !== [view.status, view.amount_captured, view.amount_refunded].join())
      complain(
        `the read model has ${face}, its object ${view.status}, ${view.amount_captured}, ${view.amount_refunded}`,
      );
    const given = rows.refunds.filter(
      ({ payment_id, status: at }) => payment_id === id && at === 'succeeded',
    );
    const theirs = moved.get(id).refunds.map((refund) => refund.id);
    if (
      given
        .map(({ provider_refund }) => provider_refund)
        .sort()
        .join() !== theirs.sort().join()
    )
      complain(`the read model has ${given.length} refunds, the ledger ${theirs.length}`);
  }
  for (const id of projected.keys()) if (!shown.has(id)) wrong.push(`${id} is in the read model only`);
}

/** Whatever a client was told for good is true, and was always the same. */
function judgeAnswers({ acts, shown, moved, rows }, wrong) {
  const refunds = new Map(rows.refunds.map((row) => [row.refund_id, row]));
  for (const act of acts) {
    const complain = (what) => wrong.push(`${act.path} (${act.key ?? 'a form'}): ${what}`);
    const versions = new Set(act.answers.map((answer) => JSON.stringify(answer)));
    if (versions.size > 1)
      complain(`had ${versions.size} different answers:\n    ${[...versions].join('\n    ')}`);
    if (act.answers.length > 0 && act.refused) complain(`was answered and refused with ${act.refused}`);
    if (!act.end) continue;
    const { status, text, location } = act.end;
    const id = act.payment ?? /pay_[\w-]{43}/.exec(location ?? text)?.[0];
    const view = shown.get(id);
    const money = moved.get(id);
    if (!view || !money) {
      complain(`speaks of ${id}, which is not there`);
      continue;
    }
    const told = act.name === 'checkout' ? {} : JSON.parse(text);
    if (act.name === 'capture' && status === 200 && money.captured !== act.body.amount)
      complain(`was told that ${act.body.amount} were taken, it were ${money.captured}`);
    if (act.name === 'void' && status === 200 && (money.kept > 0 || view.status !== 'canceled'))
      complain(`was told that it is called off, it is ${view.status}`);
    if (act.name === 'refunds' && status === 201) {
      const row = refunds.get(told.id);
      if (!row || row.amount_minor !== act.body.amount) complain(`its refund ${told.id} is not there`);
      else if (!money.refunds.some((refund) => refund.id === row.provider_refund))
        complain(`its refund ${told.id} is not in the ledger`);
    }
    if (['pay', 'checkout'].includes(act.name)) {
      const isPaid = status === 201 && !['processing', 'requires_action'].includes(told.status);
      if (isPaid && money.charges < 1) complain('was told that it is paid, and it is not');
      if (status === 402 && money.captured > 0 && !act.body.order_id)
        complain('was told that it failed, and it is paid');
    }
  }
}

/** The ids of the emails that must be: what each is about. All that pay here have an address. */
function receipts({ rows }) {
  const payments = rows.payments
    .filter(({ status }) => status === 'succeeded')
    // A later try of an order has a receipt of its own.
    .map((row) => `${row.payment_id}_receipt${row.attempt > 1 ? `_${row.attempt}` : ''}`);
  const voids = rows.payments
    .filter(({ status }) => status === 'canceled')
    .map((row) => `${row.payment_id}_void_${row.attempt}_receipt`);
  const refunds = rows.refunds
    .filter(({ status }) => status === 'succeeded')
    .map((row) => `${row.refund_id}_receipt`);
  return { payments, voids, refunds };
}

/** One email a job, and a job for all that has moved. */
function judgeReceipts({ expected, emails, rows }, wrong) {
  const jobs = new Map(rows.jobs.map((job) => [job.job_id, job]));
  const byId = new Map(emails.map((email) => [email.id, email]));
  const sent = rows.jobs.filter(({ kind, state }) => kind === 'send_receipt' && state === 'done');
  for (const id of Object.values(expected).flat()) {
    const job = jobs.get(id);
    if (!job) wrong.push(`${id}: there was no such job`);
  }
  for (const { job_id, result } of sent) {
    if (!byId.has(result)) wrong.push(`${job_id} is done, and not in the mailbox`);
    byId.delete(result);
  }
  const claimed = new Set();
  for (const { result, job_id } of sent) {
    if (claimed.has(result)) wrong.push(`${job_id} and another job share an email`);
    claimed.add(result);
  }
  // A dead letter may have been sent: nobody knows, and it says so. None is given up before its last level.
  const dead = rows.jobs.filter(({ kind, state }) => kind === 'send_receipt' && state === 'dead');
  for (const { job_id, history } of dead) {
    const tries = JSON.parse(history).length;
    if (tries < RECEIPT_TRIES) wrong.push(`${job_id} is dead after ${tries} of ${RECEIPT_TRIES} tries`);
  }
  if (byId.size > dead.length)
    for (const email of byId.values())
      wrong.push(`an email too many: ${email.subject} to ${email.to}: ${email.id}`);
  const about = ({ subject, text }) =>
    `${subject.split(':')[0]} ${[.../\b(?:pay|ref|re)_[\w-]{16,}/g[Symbol.matchAll](text)].join(' ')}`;
  for (const [what, same] of Map.groupBy(emails, about))
    if (same.length > 1) wrong.push(`${same.length} emails say the same: ${what}`);
}

/** What each of them counts. */
function table({ shown, moved, rows, expected, emails, dead }) {
  const payments = [...shown.values()].filter(Boolean);
  const ledger = (name) => sum([...moved.values()], name);
  const succeeded = rows.refunds.filter(({ status }) => status === 'succeeded');
  const subject = (word) => emails.filter((email) => email.subject.startsWith(word)).length;
  const deadly = (suffix) => dead.filter(({ job_id }) => suffix.test(job_id)).length;
  const row = (what, ...[theirs, objects, readModel, mails, letters]) => ({
    what,
    ledger: theirs,
    objects,
    'read model': readModel,
    emails: mails,
    'dead letters': letters,
  });
  const charged = [...moved.values()].filter(({ captured }) => captured > 0).length;
  return [
    row('payments', '-', payments.length, rows.payments.length, '-', '-'),
    row(
      'paid',
      charged,
      payments.filter(({ status }) => status === 'succeeded').length,
      expected.payments.length,
      subject('Your receipt'),
      deadly(/^pay_[\w-]{43}_receipt(?:_\d+)?$/),
    ),
    row(
      'taken',
      ledger('captured'),
      sum(payments, 'amount_captured'),
      sum(rows.payments, 'captured_minor'),
      '-',
      '-',
    ),
    row(
      'refunds',
      [...moved.values()].reduce((total, money) => total + money.refunds.length, 0),
      '-',
      succeeded.length,
      subject('Your refund'),
      deadly(/^(?!pay_).*_receipt$/),
    ),
    row(
      'given back',
      ledger('refunded'),
      sum(payments, 'amount_refunded'),
      sum(succeeded, 'amount_minor'),
      '-',
      '-',
    ),
    row(
      'called off',
      '-',
      payments.filter(({ status }) => status === 'canceled').length,
      expected.voids.length,
      subject('Not charged'),
      deadly(/_void_\d+_receipt$/),
    ),
  ];
}
