// The receipts that must be in the mailbox, each by the id of the job that sends it.

/** `payments` and `refunds` are rows, of an object or of the read model. A later try of an order has receipts of its own. */
export function receiptsOf({ payments, refunds }) {
  const having = (rows, wanted) => rows.filter(({ status }) => status === wanted);
  const later = (attempt = 1) => (attempt > 1 ? `_${attempt}` : '');
  return {
    payments: having(payments, 'succeeded').map((row) => `${row.payment_id}_receipt${later(row.attempt)}`),
    voids: having(payments, 'canceled').map((row) => `${row.payment_id}_void_${row.attempt ?? 1}_receipt`),
    refunds: having(refunds, 'succeeded').map((row) => `${row.refund_id}_receipt`),
  };
}

/** The id of the job that an email must come from, by what it tells its reader. */
export function receiptOf({ subject, text }) {
  const [resource] = /pay_[\w-]{43}|re_[\w-]{16}/.exec(text) ?? [`nothing known: ${text}`];
  return subject.startsWith('Not charged') ? `${resource}_void_1_receipt` : `${resource}_receipt`;
}
