// What the judge of `npm run soak` makes of witnesses that do not say the same: each of them lies once.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { judge } from '../../scripts/soak/judge.mjs';

const PAYMENT = `pay_${'p'.repeat(43)}`;
const DECLINED = `pay_${'d'.repeat(43)}`;
const REFUND = 'ref_1';

/** A payment of which some was given back and one that was declined, as all see them. */
function truth() {
  const payment = { id: PAYMENT, status: 'succeeded', amount_captured: 2500, amount_refunded: 500 };
  const job = (job_id, result, more = {}) => ({
    ...{ job_id, result, kind: 'send_receipt', state: 'done', history: '[]' },
    ...more,
  });
  const email = (id, subject, about) => ({
    id,
    subject,
    to: 'ada@example.com',
    text: `Its number is ${about}.`,
  });
  const charge = (id, resource, amount) => ({
    ...{ id, status: 'succeeded', voided: false, amount_captured: amount, metadata: { resource } },
  });
  const answer = (status, body) => ({ status, text: JSON.stringify(body), location: null });
  const act = (name, path, body, end) => ({ name, path, body, key: `key of ${name}`, answers: [end] });
  return {
    acts: [
      act('pay', '/payments', { amount: 2500 }, answer(201, payment)),
      act(
        'refunds',
        `/payments/${PAYMENT}/refunds`,
        { amount: 500 },
        {
          ...answer(201, { id: REFUND }),
          location: `/payments/${PAYMENT}`,
        },
      ),
      act('pay', '/payments', { amount: 2500 }, { ...answer(402, {}), location: `/payments/${DECLINED}` }),
    ],
    objects: [
      { keys: [{ status: 'finished' }], jobs: [], payments: [{ payment_id: PAYMENT }] },
      { keys: [{ status: 'finished' }], jobs: [], payments: [{ payment_id: DECLINED }] },
    ],
    shown: new Map([
      [PAYMENT, payment],
      [DECLINED, { id: DECLINED, status: 'declined', amount_captured: 0, amount_refunded: 0 }],
    ]),
    ledger: {
      charges: [charge('ch_1', PAYMENT, 2500), { ...charge('ch_2', DECLINED, 0), status: 'failed' }],
      refunds: [
        {
          id: 're_1',
          charge: 'ch_1',
          status: 'succeeded',
          amount: 500,
          metadata: { idempotency_key: REFUND },
        },
      ],
    },
    emails: [
      email('e1', 'Your receipt: 25.00', PAYMENT),
      email('e2', 'Your refund: 5.00', `ref_${'f'.repeat(20)}`),
    ],
    rows: {
      payments: [
        { payment_id: PAYMENT, status: 'succeeded', captured_minor: 2500, refunded_minor: 500, attempt: 1 },
        { payment_id: DECLINED, status: 'declined', captured_minor: 0, refunded_minor: 0, attempt: 1 },
      ],
      refunds: [
        {
          ...{ refund_id: REFUND, payment_id: PAYMENT, status: 'succeeded', amount_minor: 500 },
          provider_refund: 're_1',
        },
      ],
      jobs: [job(`${PAYMENT}_receipt`, 'e1'), job(`${REFUND}_receipt`, 'e2')],
      breaks: [],
    },
  };
}

describe('the judge of the soak', () => {
  test('is content when all say the same, and counts it', () => {
    const { wrong, rows } = judge(truth());
    assert.deepEqual(wrong, []);
    const paid = rows.find(({ what }) => what === 'paid');
    assert.deepEqual([paid.ledger, paid.objects, paid['read model'], paid.emails], [1, 1, 1, 1]);
  });

  const lies = {
    'a card that was charged twice': [
      ({ ledger }) => ledger.charges.push({ ...ledger.charges[0], id: 'ch_3' }),
      /was charged 2 times/,
    ],
    'a charge of which no object knows': [
      ({ ledger }) => ledger.charges.push({ ...ledger.charges[0], metadata: { resource: 'pay_x' } }),
      /pay_x has charges, and no object/,
    ],
    'a refund that was made twice': [
      ({ ledger }) => ledger.refunds.push({ ...ledger.refunds[0], id: 're_2' }),
      /was refunded 2 times/,
    ],
    'less taken than is shown': [
      ({ ledger }) => (ledger.charges[0].amount_captured = 2000),
      /the ledger has 2000 taken, it shows 2500/,
    ],
    'more given back than is shown': [
      ({ ledger }) => (ledger.refunds[0].amount = 700),
      /the ledger has 700 given back, it shows 500/,
    ],
    'a payment in another state': [
      ({ shown }) => shown.set(PAYMENT, { ...shown.get(PAYMENT), status: 'failed' }),
      /shown as failed, the ledger says succeeded/,
    ],
    'a payment that is shown to nobody': [({ shown }) => shown.set(PAYMENT, null), /is shown to nobody/],
    'a read model that is behind': [
      ({ rows }) => (rows.payments[0].refunded_minor = 0),
      /the read model has succeeded,2500,0/,
    ],
    'a payment that the read model lost': [
      ({ rows }) => rows.payments.shift(),
      /the read model does not know it/,
    ],
    'a refund that the read model lost': [({ rows }) => rows.refunds.pop(), /the read model has 0 refunds/],
    'a declined payment that was charged': [
      ({ ledger }) => (ledger.charges[1].status = 'succeeded'),
      /pay_d+: it is shown as declined/,
    ],
    'a payment that is in the read model only': [
      ({ rows }) => rows.payments.push({ ...rows.payments[1], payment_id: 'pay_x' }),
      /pay_x is in the read model only/,
    ],
    'two answers to one key': [
      ({ acts }) => acts[0].answers.push({ ...acts[0].answers[0], text: '{}' }),
      /had 2 different answers/,
    ],
    'somebody who was told of what is not there': [
      ({ acts }) => (acts[0].answers[0].text = `{"id":"pay_${'q'.repeat(43)}"}`),
      /which is not there/,
    ],
    'somebody who was told that it failed, and it is paid': [
      ({ acts }) => (acts[0].answers[0].status = 402),
      /told that it failed, and it is paid/,
    ],
    'a receipt too few': [({ emails }) => emails.shift(), /is done, and not in the mailbox/],
    'a receipt that was given up too early': [
      ({ rows, emails }) => {
        Object.assign(rows.jobs[0], { state: 'dead', result: null, attempts: 1 });
        emails.shift();
      },
      /is dead after 1 of 5 tries/,
    ],
    'a receipt for which there was no job': [({ rows }) => rows.jobs.shift(), /there was no such job/],
    'a receipt too many': [
      ({ emails }) => emails.push({ ...emails[0], id: 'e4' }),
      /an email too many[^]*2 emails say the same/,
    ],
    'a key that is open': [({ objects }) => (objects[0].keys[0].status = 'open'), /1 keys are open/],
    'a job that is still staged': [
      ({ objects }) => objects[0].jobs.push({ job_id: 'j', kind: 'project' }),
      /1 jobs are still staged: j/,
    ],
    'a job that is under way': [({ rows }) => (rows.jobs[0].state = 'attempted'), /is attempted/],
    'a break that nobody can explain': [
      ({ rows }) => rows.breaks.push({ kind: 'orphan', state: 'open', provider_payment: 'pi_1' }),
      /a break, orphan: pi_1/,
    ],
  };
  for (const [what, [lie, wrong]] of Object.entries(lies))
    test(`objects to ${what}`, () => {
      const seen = truth();
      lie(seen);
      assert.match(judge(seen).wrong.join('\n'), wrong);
    });
});
