// What the desk asks to be confirmed is done as its page showed it, or not at all.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { account, freshKey } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { formOf, operator } from './support/operator.mjs';
import { PAYMENT, paid } from './support/payments.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await shareSite({ secrets: { ADMIN_TOKEN } });
const user = account(site);
after(() => site.close());

const { look, press, logOf } = operator(site, ADMIN_TOKEN);

describe('a refund whose payment has changed since its page was loaded', () => {
  const CHANGED =
    'refused: It has changed since the page was loaded: look again. Nothing was run.';
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
