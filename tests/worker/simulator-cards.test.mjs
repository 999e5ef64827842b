// Stripe's documented test cards, by the official `stripe` package: https://docs.stripe.com/testing, written down here once more, so that
// a wrong line of the simulator's own table is found.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import Stripe from 'stripe';

import { card, shareSimulator } from './support/lone-simulator.mjs';

const lone = await shareSimulator();
const { ledger, reset } = lone;
after(lone.close);
const stripe = lone.stripe();

const pay = (payment_method, more = {}) => stripe.paymentIntents.create(card({ payment_method, ...more }));
const refused = (promise) => promise.then(assert.fail, (error) => error);

const brands = `
  visa visa US credit 4242            visa_debit visa US debit 5556
  mastercard mastercard US credit 4444    mastercard_debit mastercard US debit 8210
  mastercard_prepaid mastercard US prepaid 5100    amex amex US credit 0005
  discover discover US credit 1117    diners diners US credit 0004
  jcb jcb JP credit 0505              unionpay unionpay CN credit 0005
  visa_cartesBancaires visa FR credit 1001    mastercard_cartesBancaires mastercard FR credit 1001
  visa_debit_eftposAuCoBranded visa AU debit 0001    mastercard_debit_eftposAuCoBranded mastercard AU debit 0080
  debit_visaFsaProductCode visa US debit 0072    debit_visaHsaProductCode visa US debit 0072
  mastercard_debit_mastercardFsaProductCode mastercard US debit 8897
  ae_mastercard mastercard AE credit 0022    gb_mastercard mastercard GB credit 4449
  gb_debit visa GB debit 0005    th_credit visa TH credit 0003    th_debit visa TH debit 0008
  bypassPending visa US credit 0077    bypassPendingInternational visa IE credit 0278
  riskLevelElevated visa US credit 9235    avsLine1Fail visa US credit 0028    avsUnchecked visa US credit 0044
  threeDSecureOptional visa US credit 3055    threeDSecureOptionalProcessingError visa US credit 3097
  amex_threeDSecureNotSupported amex US credit 0005
  pendingRefund visa US credit 7726    refundFail visa US credit 5126`;

const countries = `us 4242 ar 0021 br 0002 ca 0000 cl 0001 co 0003 cr 0005 ec 0000 mx 8001 pa 0000 py 0066 pe 0068 uy 0003
  ae 0001 at 0008 be 0004 bg 0000 by 0005 hr 0009 cy 0008 cz 0002 dk 0001 ee 0009 fi 0001 fr 0003 de 0016 gi 0005 gr 0030 hu 0005
  ie 0005 it 0008 lv 0005 li 0004 lt 0000 lu 0006 mt 0007 nl 0002 no 0007 pl 0005 pt 0007 ro 0001 si 0006 sk 0001 es 0007 se 0008
  ch 0009 gb 0000 au 0006 cn 0002 hk 0004 in 0008 jp 0003 my 0002 nz 0008 sg 0003 tw 0008`;

function rows(text, columns) {
  const cells = text.trim().split(/\s+/);
  return Array.from({ length: cells.length / columns }, (_, row) =>
    cells.slice(row * columns, (row + 1) * columns),
  );
}

const approving = [
  ...rows(brands, 5),
  ...rows(countries, 2).map(([code, last4]) => [code, 'visa', code.toUpperCase(), 'credit', last4]),
];

describe('cards that approve', () => {
  test(`each of ${approving.length} does, with its brand, country, funding and digits, as pm_card_ and as tok_`, async () => {
    await reset();
    for (const [name, brand, country, funding, last4] of approving) {
      const paid = await pay(`pm_card_${name}`, { expand: ['latest_charge', 'payment_method'] });
      const { card: shown } = paid.payment_method;
      assert.deepEqual(
        [paid.status, shown.brand, shown.country, shown.funding, shown.last4],
        ['succeeded', brand, country, funding, last4],
        name,
      );
      assert.equal(paid.latest_charge.payment_method_details.card.last4, last4, name);
      const made = await stripe.paymentMethods.create({ type: 'card', card: { token: `tok_${name}` } });
      assert.deepEqual([made.card.brand, made.card.country, made.card.last4], [brand, country, last4], name);
    }
    assert.equal((await ledger()).totals.succeeded_charges, approving.length);
  });

  test('a card of two brands names its local network, and one of elevated risk says so', async () => {
    const of = async (name) => (await pay(name, { expand: ['payment_method'] })).payment_method.card;
    const french = await of('pm_card_visa_cartesBancaires');
    assert.deepEqual(french.networks.available, ['cartes_bancaires', 'visa']);
    assert.equal(french.display_brand, 'cartes_bancaires');
    assert.equal((await of('pm_card_amex')).display_brand, 'american_express');
    const risky = await pay('pm_card_riskLevelElevated', { expand: ['latest_charge'] });
    assert.equal(risky.latest_charge.outcome.risk_level, 'elevated');
  });

  test('a payment method that was made of a token can be paid with', async () => {
    const { id } = await stripe.paymentMethods.create({ type: 'card', card: { token: 'tok_mastercard' } });
    assert.equal((await pay(id)).status, 'succeeded');
    const declining = { type: 'card', card: { token: 'tok_chargeDeclined' } };
    const error = await refused(pay((await stripe.paymentMethods.create(declining)).id));
    assert.equal(error.code, 'card_declined');
  });
});

describe('cards that decline', () => {
  for (const [name, code, declineCode] of rows(
    `visa_chargeDeclined card_declined generic_decline
     chargeDeclined card_declined generic_decline
     chargeCustomerFail card_declined generic_decline
     visa_chargeDeclinedInsufficientFunds card_declined insufficient_funds
     visa_chargeDeclinedLostCard card_declined lost_card
     visa_chargeDeclinedStolenCard card_declined stolen_card
     visa_chargeDeclinedVelocityLimitExceeded card_declined card_velocity_exceeded
     chargeDeclinedFraudulent card_declined fraudulent
     radarBlock card_declined fraudulent
     riskLevelHighest card_declined fraudulent
     chargeDeclinedExpiredCard expired_card -
     chargeDeclinedIncorrectCvc incorrect_cvc -
     chargeDeclinedProcessingError processing_error -
     threeDSecureRequiredProcessingError card_declined generic_decline`,
    3,
  )) {
    test(`${name}: ${code}, ${declineCode}`, async () => {
      await reset();
      const error = await refused(pay(`pm_card_${name}`));
      assert.ok(error instanceof Stripe.errors.StripeCardError);
      assert.deepEqual(
        [error.statusCode, error.code, error.decline_code || '-', error.payment_intent.status],
        [402, code, declineCode, 'requires_payment_method'],
      );
      assert.equal((await ledger()).totals.succeeded_charges, 0);
    });
  }

  test('what Radar blocks never gets to the issuer', async () => {
    const error = await refused(pay('pm_card_radarBlock'));
    const { outcome } = await stripe.charges.retrieve(error.charge);
    assert.deepEqual(
      [outcome.type, outcome.network_status, outcome.risk_level],
      ['blocked', 'not_sent_to_network', 'highest'],
    );
  });
});

describe('3-D Secure', () => {
  for (const [name, onSession, offSession] of rows(
    `authenticationRequired requires_action authentication_required
     authenticationRequiredOnSetup requires_action authentication_required
     authenticationRequiredSetupForOffSession requires_action succeeded
     authenticationRequiredChargeDeclinedInsufficientFunds requires_action authentication_required
     threeDSecure2Required requires_action authentication_required
     threeDSecureRequired requires_action authentication_required
     threeDSecureRequiredChargeDeclined requires_action authentication_required`,
    3,
  )) {
    test(`${name}: ${onSession} where the card holder is there, else ${offSession}`, async () => {
      assert.equal((await pay(`pm_card_${name}`)).status, onSession);
      const outcome = pay(`pm_card_${name}`, { off_session: true });
      assert.equal(
        await outcome.then(
          ({ status }) => status,
          ({ code }) => code,
        ),
        offSession,
      );
    });
  }

  test('the charge after it says how the card holder was authenticated, any other says nothing', async () => {
    const asked = await pay('pm_card_threeDSecure2Required', { return_url: 'https://shop.test/back' });
    await fetch(`${asked.next_action.redirect_to_url.url}/accept`, { method: 'POST', redirect: 'manual' });
    const authentication = async (id) => {
      const { latest_charge } = await stripe.paymentIntents.retrieve(id, { expand: ['latest_charge'] });
      return latest_charge.payment_method_details.card.three_d_secure;
    };
    const { result, authentication_flow } = await authentication(asked.id);
    assert.deepEqual([result, authentication_flow], ['authenticated', 'challenge']);
    assert.equal(await authentication((await pay('pm_card_visa')).id), null);
    // Nobody went to the page, and another card was taken.
    const other = await pay('pm_card_threeDSecure2Required', { return_url: 'https://shop.test/back' });
    await stripe.paymentIntents.confirm(other.id, { payment_method: 'pm_card_visa' });
    assert.equal(await authentication(other.id), null);
  });

  test('insufficient funds after it', async () => {
    const intent = await pay('pm_card_authenticationRequiredChargeDeclinedInsufficientFunds', {
      return_url: 'https://shop.test/back',
    });
    await fetch(`${intent.next_action.redirect_to_url.url}/accept`, { method: 'POST', redirect: 'manual' });
    const { last_payment_error } = await stripe.paymentIntents.retrieve(intent.id);
    assert.equal(last_payment_error.decline_code, 'insufficient_funds');
  });
});

describe('cards that are not played', () => {
  for (const name of rows(
    `createDispute createDisputeProductNotReceived createDisputeInquiry createMultipleDisputes
     createIssuerFraudRecord cvcCheckFail cvcCheckFailElevatedRisk avsFail avsZipFail avsZipFailElevatedRisk
     highFraudDisputeScore highEfwScore radarDynamicRiskThreshold freeTrialAbuseBlock adaptive3dsChallenge`,
    1,
  ).flat()) {
    test(`${name} is refused by name, and never approved`, async () => {
      await reset();
      for (const refusal of [
        await refused(pay(`pm_card_${name}`)),
        await refused(stripe.paymentMethods.create({ type: 'card', card: { token: `tok_${name}` } })),
      ]) {
        assert.deepEqual([refusal.statusCode, refusal.code], [400, 'resource_missing']);
        assert.match(refusal.message, new RegExp(`The simulator does not play pm_card_${name}: `));
      }
      assert.equal((await ledger()).charges.length, 0);
    });
  }

  test('what Stripe does not document either is no payment method', async () => {
    const error = await refused(pay('pm_card_nonsense'));
    assert.match(error.message, /^No such PaymentMethod: 'pm_card_nonsense'/);
    const numbered = { type: 'card', card: { number: '4242424242424242', exp_month: 1, exp_year: 2040 } };
    assert.match((await refused(stripe.paymentMethods.create(numbered))).message, /reads no card numbers/);
  });
});
