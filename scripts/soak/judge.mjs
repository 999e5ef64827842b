// Joins what everybody says at rest: the clients, the provider's ledger, the objects, the read model, the mailbox. None of them is
// believed: each is held against all others. Pure.
import { judge as held } from '../../tests/witness/invariants.mjs';
import { movedByPayment } from '../../tests/witness/ledger.mjs';
import { receiptsOf } from '../../tests/witness/mail.mjs';

const HELD = [
  'nothing is charged or refunded twice',
  'every charge has its object',
  'what was answered once is answered for ever',
  'what was told is what is shown',
  'what is shown is what the ledger holds',
  'the read model says what is shown',
  'each receipt is in the mailbox once',
  'nothing is left open',
];

const sum = (lines, name) => lines.reduce((total, line) => total + line[name], 0);

/**
 * `acts` are the clients' requests with their ends, the rest is what `witnesses()` gives. Gives `rows`, one for each kind of thing with
 * what each witness counts, `wrong`, a sentence for each thing that must not be, and `dead`, the dead letters.
 */
export function judge(seen) {
  const { shown, ledger, rows, emails } = seen;
  const dead = rows.jobs.filter(({ state }) => state === 'dead');
  const moved = movedByPayment(ledger);
  const counts = { shown, moved, rows, expected: receiptsOf(rows), emails, dead };
  return { rows: table(counts), wrong: held(seen, HELD), dead };
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
