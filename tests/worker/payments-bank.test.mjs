// What only the bank decides: 3-D Secure, payments that are processing, refunds that are pending. Nothing that an address
// says is believed: the provider is asked.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { receiptsOf } from './support/jobs.mjs';
import { AUTHORISATION, PAYMENT, assertProblem, client, insist, moved, paid } from './support/payments.mjs';
import { until } from './support/until.mjs';

const site = await shareSite({ vars: { PROVIDER_TIMEOUT_MS: '1000', QUIET_MS: '2000' } });
const user = client(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

const MINUTE_MS = 60_000;
const RETURN_URL = 'https://shop.example/thanks?cart=7#top';
const CARD = { payment_method: 'pm_card_authenticationRequired', return_url: RETURN_URL };

/** What the person does at the bank. */
const atTheBank = (pathname, decision) =>
  site.server
    .getWorker('paid-once-simulator')
    .fetch(`https://bank.example${pathname}/${decision}`, { method: 'POST', redirect: 'manual' });

/** The person at the bank's page. Gives the address to which the bank sends the browser. */
async function decide(payment, decision) {
  const { pathname } = new URL(payment.next_action.redirect_to_url.url);
  const page = await site.fetch(pathname);
  assert.equal(page.status, 200);
  const answer = await atTheBank(pathname, decision);
  assert.equal(answer.status, 303, await answer.text());
  return answer.headers.get('location');
}

/** The address to which the bank sends the browser, as the provider was given it. */
async function wayBack({ next_action }) {
  const { pathname, search } = await site.simulator.wayBack(next_action.redirect_to_url.url);
  assert.match(search, /^\?k=[\w-]{70}$/);
  return `${pathname}${search}`;
}

/** The browser comes back from the bank, and is sent on to the shop. */
async function comeBack(id, address) {
  const answer = await user.ask(address);
  assert.equal(answer.status, 303, answer.text);
  assert.equal(
    answer.header('location'),
    `https://shop.example/thanks?cart=7&payment=${id}&amount=2500&currency=usd#top`,
  );
}

const shown = async (id) => (await user.payment(id)).json();
const becomes = (id, status) =>
  until(`it is ${status}`, async () => {
    const payment = await shown(id);
    return payment.status === status && payment;
  });

describe('a card that asks for its holder', () => {
  for (const [payment, status, captured] of [
    [PAYMENT, 'succeeded', 2500],
    [AUTHORISATION, 'requires_capture', 0],
  ])
    test(`leads to the bank's page, and is ${status} when the holder comes back`, async () => {
      const key = freshKey();
      const first = await user.pay({ ...payment, ...CARD }, key);
      const made = first.json();
      assert.deepEqual([first.status, made.status, made.amount_captured], [201, 'requires_action', 0]);
      assert.equal(made.next_action.type, 'redirect_to_url');
      assert.equal((await site.simulator.moved(made.id)).charges, 0);

      const back = new URL(await decide(made, 'accept'));
      assert.equal(back.pathname, `/payments/${made.id}/return`);
      await comeBack(made.id, `${back.pathname}${back.search}`);
      const now = await shown(made.id);
      assert.deepEqual([now.status, now.next_action, now.amount_captured], [status, null, captured]);
      assert.deepEqual(await site.simulator.moved(made.id), { charges: 1, captured, refunded: 0, voided: 0 });
      assert.deepEqual(
        (await user.pay({ ...payment, ...CARD }, key)).bytes,
        first.bytes,
        'the replay is the first answer',
      );
    });

  test('is declined if the holder fails', async () => {
    const made = await paid(user, { ...PAYMENT, ...CARD });
    const back = new URL(await decide(made, 'fail'));
    await comeBack(made.id, `${back.pathname}${back.search}`);
    const now = await shown(made.id);
    assert.deepEqual([now.status, now.next_action], ['declined', null]);
    assert.equal(now.failure.code, 'payment_intent_authentication_failure');
    assert.equal((await site.simulator.moved(made.id)).captured, 0);
  });

  test('is not believed paid because an address says so', async () => {
    const made = await paid(user, { ...PAYMENT, ...CARD });
    const lie = `redirect_status=succeeded&payment_intent=${made.provider_payment}`;
    await comeBack(made.id, `${await wayBack(made)}&${lie}`);
    assert.equal((await shown(made.id)).status, 'requires_action');
    assert.equal((await site.simulator.moved(made.id)).captured, 0);
  });

  test('is found out when somebody looks, if the holder does not come back', async () => {
    const made = await paid(user, { ...PAYMENT, ...CARD });
    await decide(made, 'accept');
    assert.equal((await becomes(made.id, 'succeeded')).amount_captured, 2500);
  });

  test('is found out by the alarm, if nobody looks either', async () => {
    const made = await paid(user, { ...PAYMENT, ...CARD });
    await decide(made, 'accept');
    const receipts = await until('the receipt is in the mailbox', async () => {
      const emails = await site.simulator.emails(made.id);
      return emails.length > 0 && receiptsOf(site, made.id);
    });
    assert.deepEqual(receipts, [`${made.id}_receipt`]);
  });

  test('that is abandoned can be given up, and then the bank takes nothing any more', async () => {
    const made = await paid(user, { ...PAYMENT, ...CARD });
    assert.equal((await moved(user, made.id, 'void')).status, 'canceled');
    const { pathname } = new URL(made.next_action.redirect_to_url.url);
    const late = await atTheBank(pathname, 'accept');
    assert.equal(late.status, 200);
    assert.match(await late.text(), /canceled/);
    assert.equal((await shown(made.id)).status, 'canceled');
    assert.equal((await site.simulator.moved(made.id)).charges, 0);
  });

  test('is declined where nobody could be sent to the bank', async () => {
    const answer = await user.pay({ ...PAYMENT, payment_method: CARD.payment_method }, freshKey());
    assertProblem(answer, 402, 'payment-failed', { code: 'authentication_required' });
    assert.equal((await site.simulator.moved(answer.payment)).charges, 0);
  });

  test('whose first answer was lost leads to the same page', async () => {
    const key = freshKey();
    await site.simulator.fault('response_lost');
    const answer = await insist(() => user.pay({ ...PAYMENT, ...CARD }, key));
    assert.equal(answer.json().status, 'requires_action');
    await decide(answer.json(), 'accept');
    await becomes(answer.payment, 'succeeded');
    assert.equal((await site.simulator.moved(answer.payment)).charges, 1);
  });

  test('has no way back for a payment that has no return_url, or that is none', async () => {
    const { id } = await paid(user);
    const signed = new URL(await wayBack(await paid(user, { ...PAYMENT, ...CARD })), site.url).search;
    for (const one of [id, `pay_${Buffer.alloc(32).toString('base64url')}`, 'pay_'])
      for (const search of ['', signed])
        assertProblem(await user.ask(`/payments/${one}/return${search}`), 404, 'not-found');
  });
});

describe('a payment that is processing', () => {
  for (const [card, status, captured] of [
    ['pm_card_processing', 'succeeded', 2500],
    ['pm_card_processingDeclined', 'declined', 0],
  ])
    test(`becomes ${status} when the provider has decided`, async () => {
      const made = await paid(user, { ...PAYMENT, payment_method: card });
      assert.deepEqual([made.status, made.amount_captured], ['processing', 0]);
      await site.simulator.advance(MINUTE_MS + 1);
      const now = await becomes(made.id, status);
      assert.equal(now.amount_captured, captured);
      assert.equal(now.failure?.decline_code ?? null, status === 'declined' ? 'insufficient_funds' : null);
      assert.equal((await site.simulator.moved(made.id)).captured, captured);
      assert.deepEqual(await receiptsOf(site, made.id), captured > 0 ? [`${made.id}_receipt`] : []);
    });
});

describe('a refund that is pending at the provider', () => {
  test('counts from the first, and succeeds when the bank has it', async () => {
    const { id } = await paid(user, { ...PAYMENT, payment_method: 'pm_card_pendingRefund' });
    const refund = await moved(user, id, 'refunds', { amount: 2000 });
    assert.equal(refund.status, 'pending');
    assert.equal((await shown(id)).amount_refunded, 2000);
    assertProblem(
      await user.post(`/payments/${id}/refunds`, { amount: 501 }, freshKey()),
      422,
      'amount-too-large',
      {
        available: 500,
      },
    );
    await site.simulator.advance(MINUTE_MS + 1);
    await until(
      'it has succeeded',
      async () => (await user.refunds(id)).json().data[0].status === 'succeeded',
    );
    assert.equal((await shown(id)).amount_refunded, 2000);
  });
});
