// What is written down of who works at the desk: who was shown what, and who has logged in.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { account } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startSite } from './support/harness.mjs';
import { FORM, operator } from './support/operator.mjs';
import { paid } from './support/payments.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const site = await startSite({ secrets: { ADMIN_TOKEN } });
const user = account(site);
after(() => site.close());

const { look } = operator(site, ADMIN_TOKEN);

const login = (visitor, token, headers) =>
  visitor.visit('/admin/login', {
    method: 'POST',
    headers: { ...FORM, origin: site.url.origin, ...headers },
    body: new URLSearchParams({ token }).toString(),
  });

test('the log says who was shown what', async () => {
  const { id } = await paid(user);
  assert.equal((await look(`/admin/payments/${id}`)).status, 200);
  assert.equal((await look('/admin/keys', {})).status, 401);
  const lines = await until('both are logged', () => {
    const requests = site.logs().flatMap(({ message }) => {
      try {
        const line = JSON.parse(message);
        return line.event === 'request' ? [line] : [];
      } catch {
        return [];
      }
    });
    const shown = requests.find((line) => line.route === '/admin/payments/{id}' && line.subject === id);
    const refused = requests.find((line) => line.route === '/admin/keys' && line.status === 401);
    return shown && refused && { shown, refused };
  });
  assert.equal(lines.shown.operator, 'operator');
  assert.equal(lines.refused.operator, undefined);
});

test('a login stands in the log of operators, with its end, and a wrong secret once a day', async () => {
  const from = '203.0.113.77';
  const address = { 'cf-connecting-ip': from };
  const ada = browser(site);
  await login(ada, 'wrong', address);
  await login(ada, 'wrong again', address);
  const marked = await site.rows(
    "SELECT subject FROM operator_actions WHERE action = 'login' AND operator = 'unknown'",
  );
  await login(ada, ADMIN_TOKEN, address);
  const out = await ada.visit('/admin/logout', {
    method: 'POST',
    headers: { ...FORM, ...address, origin: site.url.origin },
  });
  assert.equal(out.status, 303);
  const subjects = [...new Set(marked.map(({ subject }) => subject))];
  const logs = await Promise.all(
    subjects.map((subject) =>
      site.rows('SELECT operator, action, outcome FROM operator_actions WHERE subject = ?', subject),
    ),
  );
  const line = (operator, action, outcome) => ({ operator, action, outcome });
  assert.ok(
    logs.some((log) =>
      isDeepStrictEqual(
        log.toSorted((one, other) => one.outcome.localeCompare(other.outcome)),
        [
          line('operator', 'login', 'logged in'),
          line('operator', 'logout', 'logged out'),
          line('unknown', 'login', 'refused: a wrong secret'),
        ],
      ),
    ),
    JSON.stringify(logs),
  );
  const rows = JSON.stringify(await site.rows('SELECT * FROM operator_actions'));
  assert.ok(!rows.includes(from), 'the address itself is in none');
});
