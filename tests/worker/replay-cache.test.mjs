// Replays that are answered at the edge, from a copy: the same answer, to the same owner only, and not after it is dropped.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, account, freshKey, read } from './support/account.mjs';
import { startWithObjectsOfBefore } from './support/changed.mjs';
import { demoWorkers, startSite } from './support/harness.mjs';
import { AT_ONCE, PAYMENT } from './support/payments.mjs';
import { parse } from './support/prometheus.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'an-operators-token-that-is-long-enough';
const secrets = { ADMIN_TOKEN };
const on = { REPLAY_CACHE_MS: '60000' };
const operator = { authorization: `Bearer ${ADMIN_TOKEN}` };

/** What an act is answered, and whether an edge has answered it from a copy. */
const watching = (site) => {
  const copies = async () =>
    parse(await (await site.fetch('/metrics', { headers: operator })).text()).sum('edge_replays_total');
  return async (act) => {
    const before = await copies();
    const answer = await act();
    return { answer, atEdge: (await copies()) > before };
  };
};

const EXPIRED = [409, '/problems/idempotency-key-expired'];
const refusal = (answer) => [answer.status, answer.json().type];

describe('a copy at the edge', async () => {
  const site = await startSite({ vars: on, secrets });
  const user = account(site);
  const watched = watching(site);
  after(() => site.close());
  afterEach(() => site.simulator.calm());

  /** A payment, and what it is asked and answered. */
  async function paid() {
    const key = freshKey();
    const again = (payment = PAYMENT, client = user) => client.pay(payment, key);
    const first = await again();
    assert.equal(first.status, 201, first.text);
    return { key, again, first, id: first.json().id };
  }

  async function isCopied(again, first) {
    const { answer, atEdge } = await watched(again);
    assert.deepEqual([answer.status, answer.bytes], [first.status, first.bytes]);
    assert.ok(atEdge, 'control: there was a copy');
  }

  test('answers byte for byte, and says that it is a replay', async () => {
    const { again, first } = await paid();
    const { answer, atEdge } = await watched(again);
    assert.ok(atEdge);
    assert.deepEqual([answer.status, answer.bytes], [201, first.bytes]);
    const headers = ['idempotent-replayed', 'original-request', 'location', 'content-type'];
    assert.deepEqual(
      headers.map((name) => answer.header(name)),
      ['true', ...headers.slice(1).map((name) => first.header(name))],
    );
    assert.notEqual(answer.header('request-id'), first.header('request-id'));
  });

  test('answers for an operation that runs elsewhere, and for a payment that was declined', async () => {
    const { id } = await paid();
    const key = freshKey();
    const refund = () => user.post(`/payments/${id}/refunds`, { amount: 100 }, key);
    await isCopied(refund, await refund());
    const declined = freshKey();
    const decline = () => account(site, DECLINED_USER).pay(PAYMENT, declined);
    const first = await decline();
    assert.equal(first.status, 402);
    await isCopied(decline, first);
  });

  test('leaves another request under the key to its object', async () => {
    const { again, first } = await paid();
    const { answer, atEdge } = await watched(() => again({ ...PAYMENT, amount: 2600 }));
    assert.equal(atEdge, false);
    assert.deepEqual([answer.status, answer.json().fields], [422, ['amount']]);
    await isCopied(again, first);
  });

  test('is for its account alone', async () => {
    const { again, first } = await paid();
    const { answer, atEdge } = await watched(() => again(PAYMENT, account(site, DECLINED_USER)));
    assert.deepEqual([answer.status, answer.header('idempotent-replayed'), atEdge], [402, null, false]);
    assert.equal((await again(PAYMENT, account(site, 'nobody@example.com'))).status, 401);
    await isCopied(again, first);
  });

  test('is not made of what may be answered otherwise later', async () => {
    const key = freshKey();
    await site.simulator.fault('slow', { delay_ms: 60_000 });
    const first = user.pay(PAYMENT, key);
    await until('the bank has the request', async () => (await site.simulator.faults()).length === 0);
    for (let times = 0; times < 2; times += 1) {
      const { answer, atEdge } = await watched(() => user.pay(PAYMENT, key, AT_ONCE));
      assert.deepEqual([answer.status, atEdge], [409, false]);
    }
    await site.simulator.calm();
    assert.equal((await first).status, 201);
    await isCopied(() => user.pay(PAYMENT, key), await first);
  });

  test('goes when the key is forgotten', async () => {
    const { key, again, first } = await paid();
    await isCopied(again, first);
    assert.equal((await user.forget(key)).status, 204);
    const { answer, atEdge } = await watched(again);
    assert.deepEqual([refusal(answer), atEdge], [EXPIRED, false]);
  });

  test('goes when the personal data is erased', async () => {
    const { again, first, id } = await paid();
    await isCopied(again, first);
    const erased = await read(
      await site.fetch(`/admin/payments/${id}/erase`, { method: 'POST', headers: operator }),
    );
    assert.equal(erased.status, 200, erased.text);
    const { answer, atEdge } = await watched(again);
    assert.deepEqual([refusal(answer), atEdge], [EXPIRED, false]);
  });

  test('stays for its time where it is not told: the control of the two before', async () => {
    const { again, first, id } = await paid();
    await isCopied(again, first);
    await site.objects.sql(
      id,
      "UPDATE idempotency_keys SET status = 'expired', parameters = NULL, expires_at_ms = finished_at_ms",
    );
    await isCopied(again, first);
  });

  test('is not taken along into a new release', async () => {
    const { again, first } = await paid();
    await isCopied(again, first);
    await site.deploy(demoWorkers({ vars: { ...on, REPLAY_CACHE_MS: '59000' }, secrets }));
    const { answer, atEdge } = await watched(again);
    assert.deepEqual([answer.bytes, answer.header('idempotent-replayed')], [first.bytes, 'true']);
    assert.equal(atEdge, false);
    await isCopied(again, first);
  });
});

test('a copy does not outlive the response', async (t) => {
  const site = await startSite({ vars: { ...on, RETENTION_MS: '3000' }, secrets });
  t.after(() => site.close());
  const key = freshKey();
  const pay = () => account(site).pay(PAYMENT, key);
  assert.equal((await pay()).status, 201);
  await until('it has expired', async () => (await pay()).status === 409);
});

test('without copies, or with objects that do not say that it is final, the object answers', async (t) => {
  const settings = (vars) => demoWorkers({ vars: { ...on, ...vars }, secrets });
  const old = await startWithObjectsOfBefore(BEFORE, { vars: on, secrets });
  t.after(() => old.close());
  const off = await startSite({ workers: settings({ REPLAY_CACHE_MS: '0' }) });
  t.after(() => off.close());
  for (const site of [old, off]) {
    const key = freshKey();
    const pay = () => account(site).pay(PAYMENT, key);
    const first = await pay();
    const { answer, atEdge } = await watching(site)(pay);
    assert.deepEqual([answer.bytes, answer.header('idempotent-replayed')], [first.bytes, 'true']);
    assert.equal(atEdge, false);
  }
});

/** Objects of the release before. */
const BEFORE = `
  async ask(question) {
    const { finality, ...answered } = JSON.parse(await this.#newest.ask(question));
    return JSON.stringify(answered);
  }
`;
