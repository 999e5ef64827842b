// `PUT /customers/{email}`: the address is the key. It makes at most one customer, changes it once for each content, and needs nobody to
// come back.

import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { withoutEffect } from './support/effects.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { operator } from './support/operator.mjs';
import {
  AT_ONCE,
  DECLINED_CARD,
  PATIENT,
  PAYMENT,
  assertProblem,
  client,
  insist,
} from './support/payments.mjs';
import { IMPATIENT, down } from './support/unknown.mjs';
import { until } from './support/until.mjs';

const token_sha256 = (token) => createHash('sha256').update(token).digest('hex');
const ACCOUNTS = {
  one: { token_sha256: token_sha256('one-token'), payment_method: 'pm_card_visa' },
  other: { token_sha256: token_sha256('other-token'), payment_method: 'pm_card_visa' },
  connected: {
    token_sha256: token_sha256('connected-token'),
    payment_method: 'pm_card_visa',
    stripe_account: 'acct_B',
  },
  fenced: {
    token_sha256: token_sha256('fenced-token'),
    payment_method: 'pm_card_visa',
    customer_prefix: 'shop7_',
  },
};
const ADMIN_TOKEN = 'an-operator-of-the-tests-with-a-long-enough-token';
const workers = (vars = {}) =>
  demoWorkers({
    vars: { ...IMPATIENT, COMPLETER_MS: '300', ...vars },
    secrets: { API_ACCOUNTS: JSON.stringify(ACCOUNTS), ADMIN_TOKEN },
  });
const site = await startSite({ workers: workers() });
const [one, other, connected, fenced] = ['one', 'other', 'connected', 'fenced'].map((name) =>
  client(site, `${name}-token`),
);
after(() => site.close());
afterEach(() => site.simulator.calm());

const ADA = { name: 'Ada Lovelace', payment_method: 'pm_card_visa' };
const fresh = () => `ada-${randomUUID()}@shop.example`;
const address = (email) => `/customers/${encodeURIComponent(email)}`;
const put = (user, email, content = ADA, headers = {}) =>
  user.ask(address(email), {
    method: 'PUT',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(content),
  });
const show = (user, email) => user.ask(address(email));
/** A customer that was made. */
async function made(user, email, content) {
  const answer = await put(user, email, content);
  assert.equal(answer.status, 201, answer.text);
  return answer.json();
}
/** What Stripe has under an address, in an account. */
async function atStripe(email, account) {
  const headers = account ? { 'stripe-account': account } : {};
  const path = `customers?limit=100&email=${encodeURIComponent(email)}`;
  return (await site.simulator.stripe(path, { headers })).data;
}
/** All writes of a customer that reached Stripe, by our id of it. */
async function writes(customer) {
  const all = await site.simulator.requests();
  return all.filter(({ idempotency_key }) => idempotency_key?.startsWith(`${customer.metadata.resource}_`));
}
const keysOf = (sent) => new Set(sent.map(({ idempotency_key }) => idempotency_key));

describe('a customer', () => {
  test('is made by the first request, and found by all others', async () => {
    const email = fresh();
    const first = await put(one, email);
    assert.equal(first.status, 201, first.text);
    const customer = first.json();
    assert.match(customer.id, /^cus_/);
    const { object, name, payment_method, revision, description } = customer;
    assert.deepEqual(
      { object, name, payment_method, revision, description, email: customer.email },
      { object: 'customer', ...ADA, revision: 1, description: null, email },
    );
    assert.deepEqual(
      [first.header('etag'), first.header('location'), first.header('idempotent-replayed')],
      ['"1"', `/customers/${email}`, null],
    );

    await withoutEffect(site, async () => {
      for (let times = 0; times < 2; times += 1) {
        const again = await put(one, email);
        assert.equal(again.status, 200, again.text);
        assert.deepEqual(again.json(), customer);
        assert.deepEqual(
          [again.header('etag'), again.header('idempotent-replayed'), again.header('original-request')],
          ['"1"', 'true', first.header('request-id')],
        );
      }
    });
    const shown = await show(one, email);
    assert.deepEqual([shown.status, shown.json(), shown.header('etag')], [200, customer, '"1"']);
    for (const [known, status] of Object.entries({
      '"1"': 304,
      'W/"1"': 304,
      '"0", "1"': 304,
      '*': 304,
      '"2"': 200,
    })) {
      const asked = await one.ask(address(email), { headers: { 'if-none-match': known } });
      assert.deepEqual(
        [asked.status, asked.header('etag'), asked.text === ''],
        [status, '"1"', status === 304],
        known,
      );
    }
    const [stripes, ...more] = await atStripe(email);
    assert.deepEqual([stripes.id, stripes.name, more], [customer.id, ADA.name, []]);
    assert.equal((await writes(stripes)).length, 1);
  });

  test('is the same however its request is written', async () => {
    const email = fresh();
    const customer = await made(one, email);
    const form = await one.ask(address(email), {
      method: 'PUT',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ payment_method: 'pm_card_visa', name: ADA.name }).toString(),
    });
    assert.deepEqual([form.status, form.json()], [200, customer]);
    const [local, domain] = email.split('@');
    const other = await put(one, ` ${local}@${domain.toUpperCase()} `);
    assert.deepEqual([other.status, other.json()], [200, customer], 'the domain may be in any case');
    const capital = await put(one, `A${email.slice(1)}`);
    assert.equal(capital.status, 201, 'what is before the @ is taken to the letter');
    assert.notEqual(capital.json().id, customer.id);
  });

  test('asked for by five at once is made once', async () => {
    const email = fresh();
    const answers = await Promise.all(Array.from({ length: 5 }, () => put(one, email, ADA, PATIENT)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 200, 200, 201]);
    assert.equal(new Set(answers.map((answer) => answer.text)).size, 1);
    const [customer, ...more] = await atStripe(email);
    assert.deepEqual([answers[0].json().id, more], [customer.id, []]);
    assert.equal((await writes(customer)).length, 1);
  });

  test('control: Stripe itself makes another one for each request', async () => {
    const email = fresh();
    for (let times = 0; times < 2; times += 1)
      await site.simulator.make('customers', new URLSearchParams({ email }).toString());
    assert.equal((await atStripe(email)).length, 2);
  });

  test('has no key: a header is ignored', async () => {
    const [email, key] = [fresh(), freshKey()];
    await made(one, email);
    const keyed = { 'idempotency-key': key };
    assert.equal((await put(one, email, ADA, keyed)).status, 200);
    const changed = await put(one, email, { name: 'Ada King' }, keyed);
    assert.deepEqual([changed.status, changed.json().name], [200, 'Ada King'], changed.text);
    assert.equal((await one.key(key)).status, 404);
  });

  test('can be paid for', async () => {
    const { id } = await made(one, fresh(), { name: 'Ada' });
    const paid = await one.pay({ ...PAYMENT, customer: id }, freshKey());
    assert.deepEqual([paid.status, paid.json().customer, paid.json().status], [201, id, 'succeeded']);
    const { customer } = await site.simulator.stripe(`payment_intents/${paid.json().provider_payment}`);
    assert.equal(customer, id);
  });

  test('is nothing to another account', async () => {
    const email = fresh();
    const { id } = await made(one, email);
    assertProblem(await show(other, email), 404, 'not-found');
    const theirs = await made(other, email, { name: 'Somebody else' });
    assert.notEqual(theirs.id, id);
    assert.equal((await show(one, email)).json().name, ADA.name);
    const unknown = await site.fetch(address(email), { headers: { authorization: 'Bearer nobody' } });
    assert.equal(unknown.status, 401);
  });

  test('of an account that is connected is made there', async () => {
    const email = fresh();
    const { id } = await made(connected, email);
    assert.deepEqual(await atStripe(email), []);
    assert.deepEqual(
      (await atStripe(email, 'acct_B')).map((customer) => customer.id),
      [id],
    );
    const changed = await put(connected, email, { name: 'Ada King' });
    assert.deepEqual(
      [changed.status, changed.json().id, changed.json().revision],
      [200, id, 2],
      changed.text,
    );
    const paid = await connected.pay({ ...PAYMENT, customer: id }, freshKey());
    assert.equal(paid.status, 201, paid.text);
    assert.equal(
      (await one.pay({ ...PAYMENT, customer: id }, freshKey())).status,
      402,
      'nobody else pays for it',
    );
  });

  test('of an account with a prefix has an id that begins with it, so that payments may name it', async () => {
    const email = fresh();
    const { id } = await made(fenced, email, { name: 'Ada' });
    assert.match(id, /^shop7_[0-9a-f]{24}$/);
    assert.equal((await put(fenced, email, { name: 'Ada' })).json().id, id);
    assert.equal((await put(fenced, email, { name: 'Ada King' })).json().id, id);
    assert.equal((await fenced.pay({ ...PAYMENT, customer: id }, freshKey())).status, 201);
    const { id: others } = await made(one, fresh());
    assertProblem(await fenced.pay({ ...PAYMENT, customer: others }, freshKey()), 422, 'invalid-parameters');
  });

  test('that is refused by Stripe is not there, and can be asked for again', async () => {
    const email = fresh();
    const refused = await put(one, email, { payment_method: DECLINED_CARD });
    assertProblem(refused, 402, 'operation-refused', { code: 'card_declined', customer: null });
    assertProblem(await show(one, email), 404, 'not-found');
    assert.deepEqual(await atStripe(email), []);
    const customer = await made(one, email);
    assert.equal(customer.revision, 1);
    assert.equal((await atStripe(email)).length, 1);
  });
});

describe('other content', () => {
  test('changes the customer, once', async () => {
    const email = fresh();
    const { id, created_at } = await made(one, email, { ...ADA, description: 'a friend' });
    const changed = await put(one, email, { name: 'Ada King' });
    const { revision, name, description, payment_method } = changed.json();
    assert.deepEqual(
      { status: changed.status, revision, name, description, payment_method },
      { status: 200, revision: 2, name: 'Ada King', description: null, payment_method: 'pm_card_visa' },
    );
    assert.deepEqual([changed.json().id, changed.json().created_at], [id, created_at]);
    assert.deepEqual([changed.header('etag'), changed.header('idempotent-replayed')], ['"2"', null]);
    await withoutEffect(site, async () => {
      const again = await put(one, email, { name: 'Ada King' });
      assert.deepEqual([again.status, again.json()], [200, changed.json()]);
    });
    const [customer, ...more] = await atStripe(email);
    assert.deepEqual([customer.id, customer.name, customer.description, more], [id, 'Ada King', null, []]);
    assert.equal((await writes(customer)).length, 2);
  });

  test('of several at once is one after the other, and Stripe has what the last revision says', async () => {
    const email = fresh();
    await made(one, email, {});
    const names = ['Ada', 'Bob', 'Cleo', 'Dora', 'Eve'];
    const answers = await Promise.all(names.map((name) => put(one, email, { name }, PATIENT)));
    for (const answer of answers) assert.equal(answer.status, 200, answer.text);
    const told = answers.map((answer) => answer.json());
    assert.deepEqual(told.map(({ revision }) => revision).sort(), [2, 3, 4, 5, 6]);
    for (const [at, { name }] of told.entries()) assert.equal(name, names[at], 'each hears of its own');
    const last = told.find(({ revision }) => revision === 6);
    const [customer] = await atStripe(email);
    assert.equal(customer.name, last.name);
    assert.deepEqual((await show(one, email)).json(), last);
    assert.equal(keysOf(await writes(customer)).size, 6);
  });

  test('with If-Match is written over the revision that it names alone', async () => {
    const email = fresh();
    assertProblem(await put(one, email, ADA, { 'if-match': '*' }), 412, 'revision-mismatch', { revision: 0 });
    assert.deepEqual(await atStripe(email), [], 'nothing was made');
    await made(one, email, { name: 'Ada' });
    const changed = await put(one, email, { name: 'Bob' }, { 'if-match': '"1"' });
    assert.deepEqual([changed.status, changed.json().revision], [200, 2], changed.text);
    // Its answer was lost: the retry finds what it has done.
    const retry = await put(one, email, { name: 'Bob' }, { 'if-match': '"1"' });
    assert.deepEqual([retry.status, retry.json()], [200, changed.json()]);
    // One that comes late, of before.
    await withoutEffect(site, async () => {
      const late = await put(one, email, { name: 'Ada King' }, { 'if-match': '"1"' });
      assertProblem(late, 412, 'revision-mismatch', { revision: 2, resource: `/customers/${email}` });
      assertProblem(await put(one, email, { name: 'X' }, { 'if-match': 'W/"1"' }), 412, 'revision-mismatch');
      assertProblem(await put(one, email, { name: 'X' }, { 'if-match': '2' }), 400, 'bad-request');
      assertProblem(await put(one, email, { name: 'X' }, { 'if-none-match': '*' }), 400, 'bad-request');
    });
    assert.equal((await put(one, email, { name: 'Cleo' }, { 'if-match': '"7", "2"' })).status, 200);
    // As Cloudflare hands it out, once it has compressed the answer.
    const weak = await put(one, email, { name: 'Dora' }, { 'if-match': 'W/"3"' });
    assert.deepEqual([weak.status, weak.json().revision], [200, 4], weak.text);
  });

  test('control: without If-Match a late request of before writes over the newer one', async () => {
    const email = fresh();
    await made(one, email, { name: 'Ada' });
    await put(one, email, { name: 'Bob' });
    const late = await put(one, email, { name: 'Ada' });
    assert.deepEqual([late.status, late.json().name, late.json().revision], [200, 'Ada', 3]);
  });

  test('does not take another payment method: that is attached at Stripe', async () => {
    const email = fresh();
    await made(one, email);
    await withoutEffect(site, async () => {
      const answer = await put(one, email, { ...ADA, payment_method: 'pm_card_mastercard' });
      const [{ field }] = assertProblem(answer, 422, 'invalid-parameters').errors;
      assert.equal(field, 'payment_method');
      assert.equal((await put(one, email, { name: ADA.name })).status, 200, 'left out, it stays');
    });
  });

  test('for a customer that somebody has deleted at Stripe makes another one', async () => {
    const email = fresh();
    const { id } = await made(one, email, { name: 'Ada' });
    await site.simulator.stripe(`customers/${id}`, { method: 'DELETE' });
    assert.equal((await put(one, email, { name: 'Ada' })).json().id, id, 'nobody has asked');
    const answer = await put(one, email, { name: 'Ada King' });
    assert.equal(answer.status, 201, answer.text);
    assert.notEqual(answer.json().id, id);
    assert.equal(answer.json().revision, 2, 'no revision is named twice');
    const customers = await atStripe(email);
    assert.deepEqual(
      customers.map((customer) => customer.id),
      [answer.json().id],
    );
  });
});

test('what is wrong is named, and nothing is made', async () => {
  await withoutEffect(site, async () => {
    for (const email of [
      'nobody',
      'a@b',
      'a b@c.example',
      'a@b.example,c@d.example',
      `${'a'.repeat(250)}@b.example`,
    ]) {
      const [{ field }] = assertProblem(await put(one, email), 422, 'invalid-parameters').errors;
      assert.equal(field, 'email', email);
      assertProblem(await show(one, email), 422, 'invalid-parameters');
    }
    for (const method of ['GET', 'PUT']) {
      const answer = await one.ask('/customers/%FF%40x.example', { method });
      const [{ field }] = assertProblem(answer, 422, 'invalid-parameters').errors;
      assert.equal(field, 'email', 'what is no text is no address');
    }
    const wrong = [
      [{ name: 'x'.repeat(257) }, 'name'],
      [{ name: 'a\u0000' }, 'name'],
      [{ name: ['a'] }, 'name'],
      [{ description: 'x'.repeat(501) }, 'description'],
      [{ payment_method: '' }, 'payment_method'],
      [{ payment_method: 'pm card' }, 'payment_method'],
      [{ emial: 'a' }, 'emial'],
      [{ email: 'a@b.example' }, 'email'],
    ];
    for (const [content, name] of wrong) {
      const { errors } = assertProblem(await put(one, fresh(), content), 422, 'invalid-parameters');
      assert.deepEqual(
        errors.map(({ field }) => field),
        [name],
      );
    }
    const headers = { 'content-type': 'text/plain' };
    const text = await one.ask(address(fresh()), { method: 'PUT', headers, body: 'name=Ada' });
    assertProblem(text, 415, 'unsupported-media-type');
    const twice = await one.ask(address(fresh()), {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: '{"name":"a","name":"b"}',
    });
    assertProblem(twice, 400, 'bad-request');
    const posted = await one.post(address(fresh()), ADA, freshKey());
    assertProblem(posted, 405, 'method-not-allowed');
    assert.equal(posted.header('allow'), 'GET, HEAD, PUT, OPTIONS');
  });
});

describe('a request whose outcome is not known', () => {
  const faults = {
    response_lost: true,
    connection_reset: true,
    connection_reset_after: true,
    error_after: true,
    error_before: true,
    rate_limited: false,
  };
  for (const [fault, inDoubt] of Object.entries(faults))
    for (const [what, prepare] of [
      ['that makes a customer', async () => {}],
      ['that changes one', (email) => made(one, email, { name: 'Ada' })],
    ])
      test(`${what}, ${fault}: 503 first, then the truth, and it is done once`, async () => {
        const email = fresh();
        const before = await prepare(email);
        await down(site, fault);
        const first = await put(one, email, { name: 'Ada King' }, AT_ONCE);
        assertProblem(first, 503, inDoubt ? 'outcome-unknown' : 'temporarily-unavailable', {
          resource: `/customers/${email}`,
        });
        assert.match(first.header('retry-after'), /^[1-9]\d*$/);
        assert.equal((await show(one, email)).status, before ? 200 : 404, 'it shows what is known');
        // Nobody writes over what is not known.
        assertProblem(await put(one, email, { name: 'Bob' }, AT_ONCE), 409, 'request-in-progress');

        await site.simulator.calm();
        const answer = await insist(() => put(one, email, { name: 'Ada King' }));
        assert.ok([200, 201].includes(answer.status), answer.text);
        const [customer, ...more] = await atStripe(email);
        assert.deepEqual([customer.id, customer.name, more], [answer.json().id, 'Ada King', []]);
        assert.equal(answer.json().revision, before ? 2 : 1);
        const sent = await writes(customer);
        assert.equal(keysOf(sent).size, before ? 2 : 1);
        assert.equal(new Set(sent.map(({ body_sha256 }) => body_sha256)).size, before ? 2 : 1);
      });

  test('is ended by the alarm, though nobody comes back', async () => {
    const email = fresh();
    await down(site, 'rate_limited');
    assertProblem(await put(one, email, ADA, AT_ONCE), 503, 'temporarily-unavailable');
    await site.simulator.calm();
    const shown = await until('it is made', async () => {
      const answer = await show(one, email);
      return answer.status === 200 && answer.json();
    });
    assert.equal(shown.name, ADA.name);
    const found = await put(one, email);
    assert.deepEqual([found.status, found.json()], [200, shown]);
    assert.equal((await atStripe(email)).length, 1);
  });

  test('whose Worker dies in the middle goes on, and makes one', async () => {
    for (const raise_error of ['true', 'crash', 'crash_after_call']) {
      const email = fresh();
      const answer = await put(one, email, { ...ADA, raise_error });
      assertProblem(answer, 500, 'interrupted');
      const retried = await insist(() => put(one, email));
      assert.ok([200, 201].includes(retried.status), retried.text);
      const [customer, ...more] = await atStripe(email);
      assert.deepEqual([customer.id, more], [retried.json().id, []], raise_error);
      assert.equal(keysOf(await writes(customer)).size, 1);
    }
  });

  test('is looked up once its key is no longer sent', async () => {
    const email = fresh();
    await site.simulator.fault('response_lost', { count: 1000 });
    assertProblem(await put(one, email, ADA, AT_ONCE), 503, 'outcome-unknown');
    const [customer] = await atStripe(email);
    const id = customer.metadata.resource;
    // A day and more has passed.
    await site.objects.sql(
      id,
      'UPDATE foreign_calls SET first_sent_at_ms = first_sent_at_ms - 86400000, next_try_at_ms = 0',
    );
    const before = (await writes(customer)).length;
    await site.simulator.calm();
    const answer = await insist(() => put(one, email));
    assert.deepEqual([answer.json().id, (await atStripe(email)).length], [customer.id, 1], answer.text);
    assert.equal((await writes(customer)).length, before, 'it was not sent again');
  });
});

describe('what is personal', () => {
  test('is erased, and stays at Stripe; the next request writes it anew, to the same customer', async () => {
    const email = fresh();
    const { id } = await made(one, email, { ...ADA, description: 'a friend' });
    const [{ metadata }] = await atStripe(email);
    const desk = operator(site, ADMIN_TOKEN);
    const kept = async () => JSON.stringify(await site.objects.dump(metadata.resource));
    assert.ok((await kept()).includes('a friend'), 'the control');
    const erased = await desk.press(
      `/admin/customers/${metadata.resource}/erase`,
      {},
      { accept: 'application/json' },
    );
    assert.equal(erased.status, 200, erased.text);
    const left = await kept();
    for (const text of [email, email.split('@')[0], ADA.name, 'a friend'])
      assert.ok(!left.includes(text), `${text} in ${left}`);
    const shown = (await show(one, email)).json();
    assert.deepEqual([shown.id, shown.name, shown.description], [id, null, null]);
    const anew = await put(one, email, { ...ADA, description: 'a friend' });
    assert.deepEqual([anew.status, anew.json().id, anew.json().name], [200, id, ADA.name], anew.text);
    assert.equal((await atStripe(email)).length, 1);
  });

  test('is in no log, and not in the read model', async () => {
    const email = fresh();
    await made(one, email, { name: 'Grace Hopper' });
    await put(one, email, { name: 'Grace B. Hopper' });
    const [{ metadata }] = await atStripe(email);
    const hex = Buffer.from(metadata.resource.slice(5), 'base64url').toString('hex');
    const actions = await until('the read model has it', async () => {
      const rows = await site.rows(
        'SELECT action FROM audit_trail WHERE subject = ? ORDER BY audit_id',
        metadata.resource,
      );
      return rows.length === 2 && rows.map(({ action }) => action);
    });
    assert.deepEqual(actions, ['customer.created', 'customer.updated']);
    const keys = await site.rows('SELECT * FROM key_list WHERE object = ?', hex);
    assert.equal(keys.length, 2);
    const local = email.split('@')[0];
    for (const table of ['keys', 'audit_records', 'payments', 'jobs']) {
      const rows = JSON.stringify(await site.rows(`SELECT * FROM ${table}`));
      assert.ok(!rows.includes(local) && !rows.includes('Hopper'), table);
    }
    const logs = site
      .logs()
      .map(({ message }) => message)
      .join('\n');
    assert.ok(!logs.includes(local) && !logs.includes('Hopper'), 'the log has it');
  });
});
