// Whose key may do what at the simulator's Adyen.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';

import { shareSimulator } from './support/lone-simulator.mjs';

const lone = await shareSimulator();
after(lone.close);
beforeEach(lone.reset);

async function post(path, json, { key, headers } = {}) {
  const all = { 'X-API-Key': 'any', ...(key && { 'Idempotency-Key': key }), ...headers };
  return lone.request(`/adyen/checkout/v71${path}`, { json, headers: all });
}
/** One that is captured later. */
const payment = (more) => ({
  amount: { value: 1250, currency: 'EUR' },
  reference: 'pay_1',
  merchantAccount: 'PaidOnce',
  returnUrl: 'https://shop.test/back',
  paymentMethod: { type: 'scheme', storedPaymentMethodId: 'adyen_card_visa' },
  additionalData: { manualCapture: 'true' },
  ...more,
});
const pay = (body = payment(), options) => post('/payments', body, options);

describe('API keys', () => {
  const of = (key) => ({ headers: { 'X-API-Key': key } });
  const [BERLIN, PARIS] = ['AQE.Acme_Berlin.1', 'AQE.Acme_Paris+Acme_Berlin.2'];
  const berlin = (more) => payment({ merchantAccount: 'Acme_Berlin', ...more });

  test('are good for the merchant accounts that they name, and for no others', async () => {
    const asked = async (merchantAccount, key) =>
      (await post('/paymentMethods', { merchantAccount }, of(key))).status;
    assert.equal(await asked('Acme_Berlin', BERLIN), 200);
    assert.equal(await asked('Acme_Berlin', PARIS), 200);
    assert.equal(await asked('Acme_Paris', PARIS), 200);
    for (const [merchantAccount, key] of [
      ['Acme_Paris', BERLIN],
      ['PaidOnce', BERLIN],
      ['Acme_Berlin', 'any'],
    ]) {
      const { status, body } = await post('/paymentMethods', { merchantAccount }, of(key));
      assert.deepEqual([status, body.errorCode], [403, '901']);
      assert.equal((await pay(payment({ merchantAccount }), of(key))).status, 403);
    }
    assert.equal(await asked('PaidOnce', 'any'), 200, 'control: the demo’s company');
    assert.equal(await asked('Acme_Berlin', `${BERLIN}.revoked`), 401);
    assert.deepEqual((await lone.ledger()).charges, []);
  });

  test('move nothing of another merchant account, and idempotency keys are a company’s', async () => {
    const { body: made } = await pay(berlin(), { key: 'k', ...of(BERLIN) });
    const again = await pay(berlin(), { key: 'k', ...of(PARIS) });
    assert.equal(again.body.pspReference, made.pspReference, 'another key of the same company');
    const { body: others } = await pay(payment(), { key: 'k' });
    assert.notEqual(others.pspReference, made.pspReference, 'another company does not know it');
    const capture = (merchantAccount, key) =>
      post(
        `/payments/${made.pspReference}/captures`,
        { merchantAccount, reference: 'c', amount: { value: 100, currency: 'EUR' } },
        of(key),
      );
    assert.deepEqual((await capture('PaidOnce', 'any')).body.errorCode, '167');
    assert.deepEqual((await capture('Acme_Paris', PARIS)).body.errorCode, '167');
    assert.equal((await capture('Acme_Berlin', BERLIN)).status, 201, 'control');
    assert.deepEqual((await lone.ledger()).charges.map(({ merchant_account: merchant }) => merchant).sort(), [
      'Acme_Berlin',
      'PaidOnce',
    ]);
  });
});
