// What the desk asks to be confirmed is done as its page showed it, or not at all.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { shareSite } from './support/harness.mjs';
import { formOf, operator } from './support/operator.mjs';
import { PAYMENT, paid } from './support/payments.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await shareSite({ secrets: { ADMIN_TOKEN } });
const user = account(site);
after(() => site.close());

const { asked, look, press, logOf } = operator(site, ADMIN_TOKEN);

test('a button ends with the session in which its page was made', async () => {
  const { id } = await paid(user);
  const path = `/admin/payments/${id}/refund`;
  const ada = browser(site);
  const login = async () =>
    assert.equal((await ada.send('/admin/login', { token: ADMIN_TOKEN })).status, 303);
  await login();
  const open = async () => formOf(await ada.visit(`${path}?amount=10`), path).entries;
  const left = await open();
  assert.equal((await ada.send('/admin/logout', {})).status, 303);
  assert.equal((await ada.send(path, left)).status, 401);
  await login();
  const refused = await ada.send(path, left);
  assert.equal(refused.status, 403);
  assert.match(refused.text, /load the page again/);
  const refunds = async () => (await user.ask(`/payments/${id}/refunds`)).json().data.length;
  assert.equal(await refunds(), 0);
  assert.equal((await ada.send(path, await open())).status, 303, 'the control');
  assert.equal(await refunds(), 1);
});

describe('a refund whose payment has changed since its page was loaded', () => {
  const CHANGED = 'refused: It has changed since the page was loaded: look again. Nothing was executed.';
  const refunds = async (id) =>
    (await user.ask(`/payments/${id}/refunds`)).json().data.map(({ amount }) => amount);

  test('is refused: another refund of as much would be a second one', async () => {
    const { id } = await paid(user);
    const path = `/admin/payments/${id}/refund`;
    const open = async () => formOf(await look(`${path}?amount=10&reason=duplicate`), path).entries;
    const [mine, theirs] = [await open(), await open()];
    const made = await user.post(`/payments/${id}/refunds`, { amount: 1000 }, freshKey());
    assert.equal(made.status, 201, made.text);
    const told = await look((await press(path, mine)).header('location'));
    assert.match(told.text, /It has changed since the page was loaded: look again/);
    assert.match(told.text, /<dt>Refunded<\/dt><dd>\$10\.00/, 'with the page as it is now');
    assert.equal((await press(path, theirs)).status, 303);
    assert.deepEqual(await refunds(id), [1000]);
    const { seen, ...blind } = await open();
    assert.equal((await press(path, blind)).status, 303);
    assert.deepEqual(await refunds(id), [1000], 'nor without saying what was seen');
    assert.deepEqual(
      (await logOf(id)).map(({ outcome }) => outcome),
      [CHANGED, CHANGED, CHANGED],
    );
    assert.equal((await press(path, { ...(await open()), seen })).status, 303);
    assert.deepEqual(await refunds(id), [1000, 1000], 'the control');
  });

  test('by the same press is told what that did', async () => {
    const { id } = await paid(user);
    const path = `/admin/payments/${id}/refund`;
    const entries = formOf(await look(`${path}?amount=10`), path).entries;
    const first = await press(path, entries);
    const told = { action: 'refund $10.00, requested by customer', outcome: 'refunded $10.00' };
    for (const outcome of [told.outcome, 'begun']) {
      // As if the press had been broken off before it could say how it ended.
      await site.rows('UPDATE operator_actions SET outcome = ? WHERE subject = ?', outcome, id);
      const again = await press(path, entries);
      assert.equal(again.header('location'), first.header('location'));
      assert.deepEqual(await logOf(id), [told]);
    }
    assert.deepEqual(await refunds(id), [1000]);
  });

  test('is refused as a capture is that was confirmed for another try', async () => {
    const { id } = await paid(user, { ...PAYMENT, capture: false });
    const path = `/admin/payments/${id}/capture`;
    const entries = formOf(await look(path), path).entries;
    assert.match(entries.seen, /^1\.0\.0\.0$/);
    assert.equal((await press(path, { ...entries, seen: entries.seen.replace('1', '2') })).status, 303);
    assert.equal((await user.ask(`/payments/${id}`)).json().status, 'requires_capture');
    const fresh = formOf(await look(path), path).entries;
    assert.equal((await press(path, fresh)).status, 303);
    assert.equal((await user.ask(`/payments/${id}`)).json().status, 'succeeded', 'the control');
  });
});

describe('a dead letter', () => {
  const PROBLEM = 'the queue of tests was full';
  async function bury(job, { kind = 'project', at = Date.now() } = {}) {
    await site.rows(
      `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
       VALUES (?1, ?2, ?3, 'dead', 5, '{}', ?4, ?5, ?4, ?4)`,
      ...[job, kind, 'ab'.repeat(32), at, JSON.stringify([{ at_ms: at, error: PROBLEM }])],
    );
  }
  const state = async (job) => (await site.rows('SELECT state FROM jobs WHERE job_id = ?', job))[0].state;

  test('is purged from a page that says what is lost, and from no list', async () => {
    await bury('lost', { kind: 'send_receipt' });
    const list = await look('/admin/dead-letters');
    const form = formOf(list, '/admin/dead-letters/lost/purge');
    assert.deepEqual(form.entries, {}, 'it only asks');
    const page = await look(form.path);
    for (const said of ['Purge the receipt?', 'It is dropped for good', 'does not get this email', PROBLEM])
      assert.ok(page.text.includes(said), said);
    assert.ok(page.text.includes(`/admin/keys/${'ab'.repeat(32)}/1`), 'its object');
    assert.doesNotMatch(page.text, /data-live="/, 'it stays as it is');
    assert.equal(await state('lost'), 'dead');
    const { path, entries } = formOf(page, '/purge');
    const told = await look((await press(path, entries)).header('location'));
    assert.match(told.text, /Dropped, with what it carried/);
    assert.equal(await state('lost'), 'purged');
    const over = await look(path);
    assert.deepEqual([over.status, over.header('location')], [303, '/admin/dead-letters/lost']);
  });

  test('that was tried again since its page was loaded is not purged', async () => {
    await bury('again');
    const { path, entries } = await asked(await look('/admin/dead-letters'), '/again/purge');
    await site.rows("UPDATE jobs SET updated_at_ms = updated_at_ms + 1 WHERE job_id = 'again'");
    const { seen, ...blind } = entries;
    assert.ok(seen);
    for (const sent of [
      entries,
      { ...blind, form: (await asked(await look('/admin/dead-letters'), '/again/purge')).entries.form },
    ]) {
      const told = await look((await press(path, sent)).header('location'));
      assert.match(told.text, /it has changed since the page was loaded: look again/);
      assert.equal(await state('again'), 'dead');
    }
    const fresh = await asked(await look('/admin/dead-letters'), '/again/purge');
    await press(fresh.path, fresh.entries);
    assert.equal(await state('again'), 'purged', 'the control');
  });

  test('is asked about only if it is there, by who may', async () => {
    await bury('there');
    const status = async (...asked) => (await look(...asked)).status;
    assert.equal(await status('/admin/dead-letters/nothing/purge'), 404);
    assert.equal(await status('/admin/dead-letters/there/requeue'), 404);
    assert.equal(await status('/admin/dead-letters/there/purge', {}), 401);
    assert.equal(await status('/admin/dead-letters/there/purge'), 200, 'the control');
    await site.rows("DELETE FROM jobs WHERE job_id = 'there'");
  });
});

test('what stops a shop says so on a page of its own, and changes nothing before it is confirmed', async () => {
  const form = formOf(await look('/admin/accounts/new'), '/admin/accounts/new');
  const settings = { id: 'asked', payment_method: 'pm_card_visa', currencies: 'usd' };
  const made = await press(form.path, { ...form.entries, ...settings });
  assert.equal(made.status, 303, made.text);
  const token = formOf(await look('/admin/accounts/asked'), '/tokens');
  await press(token.path, { ...token.entries, name: 'the shop' });
  const now = Date.now();
  await site.rows(
    `INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, mode, changed_at_ms)
     VALUES ('asked', 'stripe_secret_key', 'x', 'y', 'sk_test_…0000', 'test', ?)`,
    now,
  );
  const shown = await look('/admin/accounts/asked');
  for (const [ending, ...said] of [
    ['/close', 'Close the account asked?', 'Its tokens are refused', 'It can be opened again.'],
    ['/revoke', 'Revoke the token “the shop” now?', 'It cannot be taken back.'],
    ['/remove', 'Remove the key “Secret key” of asked?', 'all its payments are refused'],
  ]) {
    const button = formOf(shown, ending);
    assert.deepEqual(button.entries, {}, `${ending} only asks`);
    const page = await look(button.path);
    assert.equal(page.status, 200, page.text);
    for (const sentence of said) assert.ok(page.text.includes(sentence), `${ending}: ${sentence}`);
    assert.equal((await look(button.path, {})).status, 401);
  }
  assert.doesNotMatch(shown.text, /<button[^>]* title=/, 'a tooltip is seen by nobody who touches');
  assert.deepEqual(
    await site.rows(
      `SELECT state, (SELECT count(*) FROM account_tokens WHERE account = 'asked' AND ends_at_ms IS NULL) AS tokens,
         (SELECT count(*) FROM account_credentials WHERE account = 'asked') AS keys FROM accounts WHERE id = 'asked'`,
    ),
    [{ state: 'active', tokens: 1, keys: 1 }],
  );
  const close = await asked(shown, '/close');
  assert.equal((await press(close.path, close.entries)).status, 303);
  assert.equal((await look(close.path)).status, 303, 'it is closed already');
});
