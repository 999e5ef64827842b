// The invariants that are held after kill -9 (tests/witness/invariants.mjs), with witnesses of whom one lies once: each lie is found, and by the
// invariant that it breaks. Those of the read model and the mailbox are in tests/soak/judge.test.mjs.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { invariants, judge } from '../witness/invariants.mjs';
import { HELD_AFTER_KILLS } from './chaos.mjs';

const ID = `pay_${'p'.repeat(43)}`;
const SHOWN = { id: ID, status: 'succeeded', amount_captured: 2500, amount_refunded: 500, intent: 'pi_1' };

/** A payment of which some was given back, as all see it. */
function truth() {
  const answer = (status, body, replayed) => ({
    ...{ status, contentType: 'application/json', location: `/payments/${ID}`, original: 'req_1', replayed },
    text: JSON.stringify(body),
  });
  const act = (name, path, body, key, answered) => ({
    ...{ name, path, body, key, who: 'payer 1', refused: null, abandoned: false },
    answers: [answer(201, answered, false)],
    replays: [answer(201, answered, true), answer(201, answered, true)],
    view: { status: 'complete', response_code: 201, resource: `/payments/${ID}`, timeline: [] },
  });
  const audit = (action) => ({ action });
  const line = (key_id, attempt, detail) => ({ key_id, attempt, event: 'recovery_point', detail });
  const ask = (idempotency_key) => ({ method: 'POST', idempotency_key, body_sha256: idempotency_key });
  return {
    acts: [
      act('pay', '/payments', { amount: 2500 }, 'k1', SHOWN),
      act('refunds', `/payments/${ID}/refunds`, { amount: 500 }, 'k2', { id: 're_1', amount: 500 }),
    ],
    shown: new Map([[ID, { ...SHOWN }]]),
    ledger: {
      charges: [
        {
          ...{ id: 'ch_1', status: 'succeeded', voided: false, amount: 2500, amount_captured: 2500 },
          ...{ currency: 'usd', payment_intent: 'pi_1', metadata: { resource: ID } },
        },
      ],
      refunds: [{ charge: 'ch_1', status: 'succeeded', amount: 500, metadata: { idempotency_key: 're_1' } }],
    },
    requests: [ask(`${ID}_auth`), ask(`${ID}_auth`), ask(`${ID}_refund_re_1`)],
    objects: [
      {
        keys: [{ status: 'finished' }, { status: 'finished' }],
        payments: [{ payment_id: ID, status: 'succeeded', captured_minor: 2500, refunded_minor: 500 }],
        refunds: [{ refund_id: 're_1', status: 'succeeded' }],
        calls: [{ status: 'settled' }, { status: 'settled' }],
        audits: ['payment.created', 'payment.captured', 'refund.requested', 'refund.succeeded'].map(audit),
        jobs: [
          { kind: 'project', job_id: `${ID}_project` },
          { kind: 'send_receipt', job_id: `${ID}_receipt` },
          { kind: 'send_receipt', job_id: 're_1_receipt' },
        ],
        timeline: [line(1, 1, 'reserved'), line(1, 2, 'finished'), line(2, 1, 'reserved')],
      },
    ],
  };
}

test('a truthful report breaks no invariant', () => assert.deepEqual(judge(truth(), HELD_AFTER_KILLS), []));

const lies = {
  'nothing is charged or refunded twice': [
    [({ ledger }) => ledger.charges.push({ ...ledger.charges[0], id: 'ch_2' }), /was charged 2 times/],
    [({ ledger }) => ledger.refunds.push({ ...ledger.refunds[0] }), /re_1 was refunded 2 times/],
  ],
  'what was answered once is answered for ever': [
    [({ acts }) => (acts[0].replays[1].text = '{}'), /had 2 different answers/],
    [({ acts }) => (acts[0].replays[0].replayed = false), /not told that it is a replay/],
    [({ acts }) => (acts[0].refused = { type: '/problems/payment-state' }), /answered, and refused/],
  ],
  'every act has ended': [
    [({ acts }) => (acts[0].answers = []), /was never answered/],
    [({ acts }) => (acts[0].view = null), /its key was never taken/],
    [({ acts }) => (acts[0].view.status = 'processing'), /did not end: processing/],
    [({ acts }) => (acts[0].view.response_code = 402), /was answered \{"status":201/],
    [({ acts }) => (acts[0].view.resource = '/payments/pay_other'), /was sent to/],
    [({ acts }) => (acts[0].expects = { status: 402, text: '' }), /answered 201 instead of 402/],
  ],
  'every charge has its object': [[({ objects }) => objects.pop(), /has charges, and no object/]],
  'what was told is what the ledger holds': [
    [({ acts }) => acts.splice(0), /belongs to nobody/],
    [({ objects }) => objects.pop(), /is not on disk/],
    [({ ledger }) => ledger.refunds.pop(), /refunded 0, but its clients were told 500/],
    [({ ledger }) => (ledger.charges[0].amount = 2600), /authorised 2600, but its clients were told 2500/],
    [({ ledger }) => (ledger.charges[0].amount_captured = 400), /sums out of order/],
    [({ ledger }) => (ledger.charges[0].voided = true), /captured and voided/],
    [({ ledger }) => (ledger.charges[0].currency = 'eur'), /ch_1: in eur/],
    [({ ledger }) => (ledger.charges[0].payment_intent = 'pi_2'), /nobody was told of pi_2/],
  ],
  'what was told is what is shown': [
    [({ shown }) => shown.delete(ID), /which is not there/],
    [({ ledger }) => (ledger.charges[0].status = 'failed'), /told that it is paid, and it is not/],
    [({ acts }) => Object.assign(acts[0].answers[0], { status: 402 }), /told that it failed, and it is paid/],
  ],
  'what is shown is what the ledger holds': [
    [({ shown }) => shown.set(ID, null), /is shown to nobody/],
    [({ shown }) => (shown.get(ID).status = 'canceled'), /shown as canceled, the ledger says succeeded/],
  ],
  'a request to the provider never changes': [
    [({ requests }) => (requests[0].body_sha256 = 'other'), /2 different bodies were sent/],
    [({ requests }) => (requests[2].idempotency_key = 'pay_x_auth'), /pay_x_auth: of no payment/],
  ],
  'each phase left all of its rows, once': [
    [({ objects }) => objects[0].payments.push({}), /1 payments beside it/],
    [({ objects }) => (objects[0].payments[0].captured_minor = 0), /its row has 0 and 500/],
    [({ objects }) => (objects[0].keys[1].status = 'open'), /1 keys are open/],
    [({ objects }) => (objects[0].calls[0].status = 'sending'), /a call is not settled/],
    [({ objects }) => (objects[0].refunds[0].status = 'pending'), /a refund is pending/],
    [({ objects }) => objects[0].audits.pop(), /audited /],
    [({ objects }) => objects[0].audits.push({ action: 'payment.captured' }), /audited /],
    [({ objects }) => objects[0].jobs.pop(), /staged pay_p+_receipt, not pay_p+_receipt,re_1_receipt/],
    [({ objects }) => objects[0].jobs.shift(), /told the read model nothing/],
    [({ objects }) => objects[0].timeline.reverse(), /a recovery point of 1 went back/],
    [({ objects }) => (objects[0].timeline[0].attempt = 3), /a run of 1 wrote after it was replaced/],
  ],
};

test('each invariant is shown to be broken by some report', () =>
  assert.deepEqual(Object.keys(lies).sort(), [...HELD_AFTER_KILLS].sort()));

for (const [name, all] of Object.entries(lies))
  for (const [lie, wrong] of all)
    test(`${name}: ${wrong.source}`, () => {
      const witnesses = truth();
      lie(witnesses);
      assert.match(invariants[name](witnesses).join('\n'), wrong);
    });
