// The registry in a D1 that does not answer, and does not fail either: whoever was known goes on, and nobody waits for long.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, test } from 'node:test';

import { freshKey } from './support/account.mjs';
import { PAYMENT, assertProblem, client, paid } from './support/payments.mjs';
import { startWithSilentDatabase } from './support/silent-database.mjs';

const site = await startWithSilentDatabase({ vars: { ACCOUNTS_CACHE_MS: '0' } });
after(() => site.close());

/** An account of the registry, and a client with its token. */
async function made(id) {
  const token = randomBytes(32).toString('base64url');
  const settings = JSON.stringify({ payment_method: 'pm_card_visa' });
  await site.rows("INSERT INTO accounts VALUES (?1, ?2, 'active', 1, 1, 1)", id, settings);
  const hash = createHash('sha256').update(token).digest('hex');
  await site.rows("INSERT INTO account_tokens VALUES (?1, ?2, 'server', 1, NULL)", hash, id);
  return client(site, token);
}

test('the log says that settings cannot be read, and nothing of what stands there', async () => {
  const shop = await made('unusable');
  await site.rows(
    "UPDATE accounts SET settings = json_set(settings, '$.own_stripe_keys', 'hush-value') WHERE id = 'unusable'",
  );
  assertProblem(await shop.pay(PAYMENT, freshKey()), 503, 'misconfigured');
  const logs = JSON.stringify(site.logs());
  assert.match(logs, /account_unusable/);
  assert.doesNotMatch(logs, /hush-value/);
});

test('an account that is known pays on, also where D1 says nothing at all', async () => {
  const [known, unknown] = [await made('known'), await made('unknown')];
  await paid(known);
  await site.silence('account_tokens');
  await paid(known);
  // It is asked no more for a while: the second one waits for nothing.
  await paid(known);
  assertProblem(await unknown.pay(PAYMENT, freshKey()), 503, 'temporarily-unavailable');
  await site.silence();
});
