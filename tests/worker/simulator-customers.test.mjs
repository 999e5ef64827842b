// Customers as Stripe keeps them, and what a merchant may write on charges and refunds, by the official `stripe` package.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';

import { DAY_MS, card, shareSimulator } from './support/lone-simulator.mjs';

const lone = await shareSimulator();
const { advance, fault, ledger } = lone;
after(lone.close);
beforeEach(lone.reset);
const stripe = lone.stripe();

const pay = (more) => stripe.paymentIntents.create(card(more));
const refused = (promise) => promise.then(assert.fail, (error) => error);
const missing = async (promise, status, param) => {
  const error = await refused(promise);
  assert.deepEqual([error.statusCode, error.code, error.param], [status, 'resource_missing', param]);
};
const emails = (page) => page.data.map((customer) => customer.email);
const events = async (type) => (await stripe.events.list({ type })).data;

describe('customers', () => {
  test('are listed by email, to the letter, over as many pages as it takes', async () => {
    const made = [];
    for (let n = 0; n < 7; n += 1) {
      const email = n % 2 === 0 ? 'ann@shop.test' : `bob${n}@shop.test`;
      made.push((await stripe.customers.create({ email, name: `n${n}` })).id);
    }
    const anns = [made[6], made[4], made[2], made[0]];
    const ids = async (params) =>
      (await stripe.customers.list({ email: 'ann@shop.test', ...params })).data.map(({ id }) => id);
    assert.deepEqual(await ids(), anns);
    assert.deepEqual(await ids({ limit: 2 }), anns.slice(0, 2));
    assert.deepEqual(await ids({ limit: 2, starting_after: anns[1] }), anns.slice(2));
    assert.deepEqual(await ids({ limit: 2, ending_before: anns[3] }), anns.slice(1, 3));
    assert.equal((await stripe.customers.list({ email: 'ann@shop.test', limit: 4 })).has_more, false);
    assert.equal((await stripe.customers.list({ email: 'ann@shop.test', limit: 3 })).has_more, true);
    assert.deepEqual(emails(await stripe.customers.list({ email: 'Ann@shop.test' })), []);
    await stripe.customers.update(made[0], { email: 'cleo@shop.test' });
    assert.equal((await ids()).length, 3);
    assert.deepEqual(emails(await stripe.customers.list({ email: 'cleo@shop.test' })), ['cleo@shop.test']);
  });

  test('are searched by email, name and metadata, a minute after they were made', async () => {
    await stripe.customers.create({ email: 'ann@shop.test', name: 'Ann Lee', metadata: { shop: '7' } });
    await stripe.customers.create({ email: 'bob@shop.test', name: 'Bob Lee' });
    const found = async (query) => emails(await stripe.customers.search({ query })).sort();
    assert.deepEqual(await found("email:'ann@shop.test'"), []);
    await advance(61_000);
    assert.deepEqual(await found("email:'ann@shop.test'"), ['ann@shop.test']);
    assert.deepEqual(await found("metadata['shop']:'7'"), ['ann@shop.test']);
    assert.deepEqual(await found("name~'lee'"), ['ann@shop.test', 'bob@shop.test']);
    assert.deepEqual(await found("name~'lee' AND -email:'ann@shop.test'"), ['bob@shop.test']);
    for (const query of ["name~'le'", "description:'x'", "name:'a' OR name:'b'", 'email']) {
      const error = await refused(stripe.customers.search({ query }));
      assert.deepEqual([error.statusCode, error.param], [400, 'query'], query);
      assert.match(error.message, /The simulator reads up to 10 clauses .* joined by AND/);
    }
  });

  test('that are deleted are gone for everything but their id', async () => {
    const { id } = await stripe.customers.create({ email: 'ann@shop.test' });
    const paid = await pay({ customer: id });
    assert.deepEqual({ ...(await stripe.customers.del(id)) }, { id, object: 'customer', deleted: true });
    assert.equal((await stripe.customers.retrieve(id)).deleted, true);
    await missing(stripe.customers.del(id), 404, 'id');
    await missing(stripe.customers.update(id, { name: 'x' }), 404, 'id');
    await missing(pay({ customer: id }), 400, 'customer');
    await advance(61_000);
    assert.deepEqual((await stripe.customers.list()).data, []);
    assert.deepEqual((await stripe.customers.search({ query: "email:'ann@shop.test'" })).data, []);
    // What they have paid stays.
    assert.equal((await stripe.paymentIntents.retrieve(paid.id)).customer, id);
    assert.equal((await ledger()).totals.succeeded_charges, 1);
    assert.equal((await events('customer.deleted'))[0].data.object.email, 'ann@shop.test');
  });

  test('of one account are nothing to another', async () => {
    const elsewhere = { stripeAccount: 'acct_C' };
    const { id } = await stripe.customers.create({ email: 'ann@shop.test' }, elsewhere);
    await advance(61_000);
    assert.deepEqual((await stripe.customers.list({ email: 'ann@shop.test' })).data, []);
    assert.deepEqual((await stripe.customers.search({ query: "email:'ann@shop.test'" })).data, []);
    await missing(stripe.customers.del(id), 404, 'id');
    await missing(pay({ customer: id }), 400, 'customer');
    assert.equal((await stripe.customers.retrieve(id, {}, elsewhere)).email, 'ann@shop.test');
  });

  test('are made with a payment method that is attached, and pays for nobody else', async () => {
    const card = await stripe.paymentMethods.create({ type: 'card', card: { token: 'tok_visa' } });
    const { id } = await stripe.customers.create({ email: 'ann@shop.test', payment_method: card.id });
    assert.equal((await stripe.paymentMethods.retrieve(card.id)).customer, id);
    assert.equal((await pay({ customer: id, payment_method: card.id })).status, 'succeeded');
    const { id: other } = await stripe.customers.create({ email: 'bob@shop.test' });
    for (const customer of [{}, { customer: other }]) {
      const error = await refused(pay({ ...customer, payment_method: card.id }));
      assert.deepEqual([error.statusCode, error.param], [400, 'payment_method']);
    }
    const again = await refused(stripe.customers.create({ payment_method: card.id }));
    assert.match(again.message, /already been attached/);
    const declined = await refused(
      stripe.customers.create({ email: 'cleo@shop.test', payment_method: 'pm_card_visa_chargeDeclined' }),
    );
    assert.deepEqual([declined.statusCode, declined.code], [402, 'card_declined']);
    assert.deepEqual((await stripe.customers.list({ email: 'cleo@shop.test' })).data, [], 'nothing was made');
    const later = { email: 'dora@shop.test', payment_method: 'pm_card_chargeCustomerFail' };
    assert.match((await stripe.customers.create(later)).id, /^cus_/, 'this one is declined afterwards');
    const unknown = await refused(stripe.customers.update(id, { payment_method: card.id }));
    assert.match(unknown.message, /payment_method/);
  });

  test('may be given an id, which nobody else gets, not even when they are deleted', async () => {
    const { id } = await stripe.customers.create({ id: 'shop7_ann', email: 'ann@shop.test' });
    assert.equal(id, 'shop7_ann');
    assert.equal((await refused(stripe.customers.create({ id }))).code, 'resource_already_exists');
    await stripe.customers.del(id);
    assert.equal((await refused(stripe.customers.create({ id }))).code, 'resource_already_exists');
    assert.equal((await refused(stripe.customers.create({ id: 'a/b' }))).param, 'id');
  });

  // What docs/choices.md advises, "A PUT that needs no key": a key and a mark, both made of the id of the shop's own row.
  const row = 'user_42';
  const ann = { email: 'ann@shop.test', metadata: { user: row } };
  const make = (params = ann) => stripe.customers.create(params, { idempotencyKey: `customer-${row}` });
  /** Those with the row's mark, in the list from a time on, page by page. */
  const marked = async (since_s) => {
    const found = [];
    for await (const customer of stripe.customers.list({ created: { gte: since_s }, limit: 1 })) {
      if (customer.metadata.user === row) found.push(customer.id);
    }
    return found;
  };

  test('are several of one address: nothing but a key makes two requests one', async () => {
    const first = await stripe.customers.create(ann);
    const second = await stripe.customers.create(ann);
    assert.notEqual(first.id, second.id);
    assert.deepEqual(await marked(first.created), [second.id, first.id]);
  });

  test('are made once under a key of the own row, though an answer is lost', async () => {
    await fault('connection_reset_after');
    assert.equal((await refused(make())).type, 'StripeConnectionError');
    const made = await make();
    assert.equal(made.lastResponse.headers['idempotent-replayed'], 'true', 'the lost one was executed');
    assert.equal((await make()).id, made.id);
    assert.deepEqual(await marked(made.created), [made.id]);
    const error = await refused(make({ ...ann, name: 'Ann Lee' }));
    assert.deepEqual([error.statusCode, error.type], [400, 'StripeIdempotencyError']);
    assert.deepEqual(await marked(made.created), [made.id]);
  });

  test('are found by their mark when the key is forgotten, under which another one would be made', async () => {
    const made = await make();
    await stripe.customers.create({ email: ann.email, metadata: { user: 'user_43' } });
    await advance(DAY_MS + 1000);
    assert.deepEqual(await marked(made.created), [made.id]);
    assert.notEqual((await make()).id, made.id);
    assert.equal((await marked(made.created)).length, 2);
  });
});

describe('what a merchant writes', () => {
  test('on a refund: metadata, at any time, and nothing else', async () => {
    const { id: payment_intent } = await pay({ payment_method: 'pm_card_pendingRefund' });
    const { id } = await stripe.refunds.create({ payment_intent, metadata: { a: '1' } });
    const written = await stripe.refunds.update(id, { metadata: { b: '2' } });
    assert.deepEqual([written.metadata, written.status], [{ a: '1', b: '2' }, 'pending']);
    assert.match((await refused(stripe.refunds.update(id, { amount: 1 }))).message, /amount/);
    // It still settles when its time comes.
    await advance(61_000);
    assert.equal((await stripe.refunds.retrieve(id)).status, 'succeeded');
    assert.deepEqual((await stripe.refunds.update(id, { metadata: '' })).metadata, {});
    await missing(stripe.refunds.update('re_nothing', { metadata: {} }), 404, 'id');
  });

  test('a refund is canceled while it waits for the customer, and only then', async () => {
    const { id: payment_intent } = await pay({ payment_method: 'pm_card_pendingRefund' });
    const { id } = await stripe.refunds.create({ payment_intent });
    const error = await refused(stripe.refunds.cancel(id));
    assert.deepEqual([error.statusCode, error.type], [400, 'StripeInvalidRequestError']);
    assert.match(error.message, /status of requires_action: this one has a status of pending/);
    await missing(stripe.refunds.cancel('re_nothing'), 404, 'id');
    assert.equal((await stripe.refunds.retrieve(id)).status, 'pending');
    await lone.request(`/_sim/refunds/${id}/ask`, { json: {} });
    assert.equal((await stripe.refunds.retrieve(id)).next_action.type, 'display_details');
    // Time alone does not end it.
    await advance(61_000);
    assert.equal((await stripe.refunds.retrieve(id)).status, 'requires_action');
    const { status, failure_reason, failure_balance_transaction } = await stripe.refunds.cancel(id);
    assert.deepEqual([status, failure_reason], ['canceled', 'merchant_request']);
    const back = await stripe.balanceTransactions.retrieve(failure_balance_transaction);
    assert.equal(back.type, 'refund_failure');
    assert.match((await refused(stripe.refunds.cancel(id))).message, /this one has a status of canceled/);
    // The money can be given back again.
    assert.equal((await stripe.refunds.create({ payment_intent })).amount, 1250);
  });

  test('on a charge: a description and metadata, and no sum', async () => {
    const { latest_charge: id } = await pay();
    const written = await stripe.charges.update(id, { description: 'x', metadata: { a: '1' } });
    assert.deepEqual(
      [written.description, written.metadata, written.amount_captured],
      ['x', { a: '1' }, 1250],
    );
    assert.equal((await events('charge.updated')).length, 1);
    assert.match((await refused(stripe.charges.update(id, { amount: 1 }))).message, /amount/);
    await missing(stripe.charges.update('ch_nothing', { description: 'x' }), 404, 'charge');
  });
});
