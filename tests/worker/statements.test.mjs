// No statement of the read model reads all payments that there ever were: by the plans that the runtime's own SQLite makes for each, in an
// empty shop and in a large one, and by the rows that pages and scheduled tasks read of a small shop and of a large one.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { PAGES } from './support/desk-pages.mjs';
import { root, startSite } from './support/harness.mjs';
import { largeShop } from './support/large-shop.mjs';
import { readModel } from './support/readmodel.mjs';
import { sent, shape, shapesOf } from './support/statements.mjs';

const collected = JSON.parse(readFileSync(new URL('support/statements.json', import.meta.url), 'utf8'));

/** Indexes of what is open, or waits for a person: they hold little, however much has been paid, and may be read as a whole. */
const OPEN = new Set([
  ...['breaks_open', 'inbox_dead', 'inbox_waiting', 'jobs_dead', 'jobs_unfinished', 'keys_open'],
  'history_batches_unwritten',
  'settlement_places_unwritten',
  ...[
    'payments_by_wake',
    'payments_pending',
    'refunds_waiting',
    'reports_waiting',
    'report_announcements_waiting',
  ],
  'runs_failing',
  'runs_failing_places',
  'runs_telling',
]);

/** Tables that stay small: what is not a payment's, or is gone again soon. */
const SMALL = {
  answers_unfinished: 'acknowledgements of the bank of which lines wait',
  compared_account: 'one row',
  own_key_periods: 'one row for each time that a key of an account’s own was set that was not the one before',
  inbox_turn: 'one row',
  cursors: 'one row for each list of an account at a provider',
  login_attempts: 'addresses that failed to log in, for an hour',
  operator_sessions: 'those who are logged in',
  reconcile_rounds: 'one row for each set of books',
  plot_summed: 'one row',
  plot_changes:
    'minutes in which something has changed since they were summed, until the next run: those of eight days at most',
  payment_searches:
    'payments of Stripe’s lists that are not found yet: they are gone once they are found, or told of as unknown',
  report_searches:
    'payments of a report of Adyen that are not found yet, or are unknown: those are looked for again',
  settlement_closings: 'one row a day',
  settlement_files: 'one row a day',
  settlement_places: 'one row a day for each place',
  settlement_late: 'movements that came late, until the next file has them',
  shard_rest: 'one row',
  shard_layouts: 'one row for each change of the layout',
  shard_counts: 'one row',
  shards:
    'one row for each shard: its own indexes are named in each statement that reads more than one, and 1,000 are read at most, but for those of a day’s settlement, once a day, and those of which nothing was heard, which are counted',
};

/** What no rule below knows of, each with what bounds it. */
const EXCEPTIONS = [
  {
    statement: 'LIMIT ?2)',
    step: '_by_time (updated_at_ms<?)',
    bound: 'what is kept too long and is deleted: at most 10,000 in one run, and then they are gone',
  },
  {
    statement: 'LIMIT ?2)',
    step: 'payment_lookups_by_time (at_ms<?)',
    bound: 'the same of payments that were looked for',
  },
  {
    statement: 'LIMIT ?2)',
    step: 'keys_of_customers (expires_at_ms<?)',
    bound: 'the same of keys of customers',
  },
  {
    statement: 'LIMIT ?2)',
    step: '_by_time (began_at_ms<?)',
    bound: 'the same of what the gate has passed on',
  },
  {
    statement: 'AS number FROM gate_operations',
    step: 'gate_operations_replayed (began_at_ms>?)',
    bound: 'the overview: what had duplicates, of the last 7 days at most',
  },
  {
    statement: 'FROM looks WHERE',
    step: 'looks_by_time',
    bound: 'payments that changed in the minutes before they were compared',
  },
  {
    statement: 'WITH RECURSIVE used',
    step: 'payments_by_stripe_account (stripe_account>?)',
    bound: 'one step for each account at Stripe',
  },
  {
    statement: 'ORDER BY at_ms DESC LIMIT 1)',
    step: '',
    bound: 'a search of the audit records for a name: the newest 10,000',
  },
  {
    statement: 'ORDER BY created_at_ms DESC LIMIT 1)',
    step: '',
    bound: 'a search of the keys for an account: the newest 10,000',
  },
  {
    statement: 'FROM (SELECT * FROM breaks ORDER BY',
    step: 'breaks_by_time',
    bound: 'breaks of a kind in whatever state: the newest 10,000',
  },
  {
    statement: 'WHERE true ORDER BY',
    step: ' USING INDEX ',
    bound: 'a list without a search or a filter: the newest, as many as are shown',
  },
  {
    statement: 'FROM accounts WHERE true ORDER BY id',
    step: 'SCAN accounts',
    bound: 'the list of accounts in the order of their key: as many as are shown',
  },
  {
    statement: 'FROM accounts WHERE id > ?1 ORDER BY id LIMIT',
    step: 'PRIMARY KEY (id>?)',
    bound: 'a page of the accounts: 200 at most, from where the last one ended',
  },
  {
    statement: 'FROM own_key_periods WHERE name > ?1 UNION',
    step: 'accounts_by_stripe_account',
    bound: 'a page of the connected accounts of the registry: 1,000 at most',
  },
  {
    statement: 'FROM account_credentials WHERE merchant_account IS NOT NULL UNION ALL',
    step: '_by_merchant_account',
    bound: 'whether an account has a merchant account of its own: the first one is enough',
  },
  {
    statement: 'SELECT merchant_account FROM reported_merchants LIMIT 1',
    step: 'SCAN reported_merchants',
    bound: 'the same of reports that there are',
  },
  {
    statement: 'FROM reported_merchants WHERE since_ms IS NOT NULL',
    step: 'reported_merchants_by_turn',
    bound: 'merchant accounts of which there are reports: 500 at most, the next run takes others',
  },
  {
    statement: 'FROM account_credentials WHERE sealed_with',
    step: 'account_credentials_by_key',
    bound: 'keys that are sealed under the CREDENTIALS_KEY of before: 100 at most, and then there are none',
  },
  {
    statement: 'FROM key_list WHERE CASE',
    step: '_by_time',
    bound: 'keys whose response is kept, or is not any more: those of a day come before',
  },
  { statement: 'FROM reports ORDER BY', step: 'reports_by_time', bound: 'the newest, as many as are shown' },
  {
    statement: 'FROM history_files f CROSS JOIN history_batches b ON b.batch = f.batch ORDER BY',
    step: 'SCAN f',
    bound: 'the newest files, as many as are shown',
  },
  {
    statement: 'FROM history_files f CROSS JOIN history_batches b ON b.batch = f.batch WHERE b.month',
    step: 'SCAN f',
    bound: 'the newest files of a month: one for some 600 payments, in a shard all of them are of it',
  },
  {
    statement: 'INSERT INTO shard_rest',
    step: 'SCAN',
    bound: 'whether a shard has any row: the first one is enough',
  },
  { statement: 'AS is_at_rest', step: 'SCAN', bound: 'the same, of one that is said to have none' },
  {
    statement: "AS row FROM breaks WHERE state != 'open'",
    step: '(break_id>?)',
    bound:
      'those of a shard from which all payments have left: a hundred at most from where the last ones ended',
  },
  {
    statement: 'AS is_busy',
    step: 'payments_by_time (created_at_ms>?)',
    bound: 'whether a payment was made within the last hour: the first one is enough',
  },
  {
    statement: 'FROM history_payments WHERE object >=',
    step: 'PRIMARY KEY (object>? AND object<?)',
    bound: 'a reference: 36 bits of an id',
  },
  { statement: 'AS place FROM', step: '>?)', bound: 'a page of a rebuild: 50 from where the last one ended' },
  {
    statement: "FROM payments INDEXED BY payments_by_time WHERE status = 'succeeded'",
    step: 'payments_by_time',
    bound: 'the newest whose money was taken: nearly all are',
  },
];

/** Payments. More than a week's, which the overview shows; and four times as many. */
const [SMALL_SHOP, LARGE_SHOP] = [30_000, 120_000];
const newestMs = Date.now() - 3_600_000;

let site;
/** Every statement: those that the suites have sent and that are sent here, and those that stand in the sources as they are. */
let statements;

before(async () => {
  site = await startSite({ looksAtStatements: true, secrets: { ADMIN_TOKEN } });
  for (const path of PAGES) await look(path);
  await readModel(site).tick();
  const known = [...shapesOf(site.logs()).union(new Set(collected))];
  const asTheyAre = literals().map(({ text }) => shape(text));
  const others = asTheyAre.filter(
    (text) => !/\{\w*\}/.test(text) && !known.some((sql) => sql.includes(text)),
  );
  // A part of one has no plan.
  const whole = await Promise.all(
    others.map((sql) =>
      plan(sql).then(
        () => sql,
        () => undefined,
      ),
    ),
  );
  statements = [...known, ...whole.filter(Boolean)].sort();
});
after(() => site.close());

const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
async function look(path) {
  const answer = await site.fetch(path, { headers });
  assert.equal(answer.status, 200, path);
  await answer.text();
}

let asked = 0;

/** How SQLite goes about a statement, step by step. */
async function plan(sql) {
  const values = Array.from(
    { length: Math.max(0, ...[...sql.matchAll(/\?(\d+)/g)].map(([, n]) => Number(n))) },
    () => '1',
  );
  // The runtime keeps statements by their text, and what EXPLAIN has said with them.
  asked += 1;
  return (await site.rows(`EXPLAIN QUERY PLAN /* ${asked} */ ${sql}`, ...values)).map(({ detail }) => detail);
}

/** The steps that read what grows with the payments, whatever is asked for. */
function unbounded(steps) {
  // What a statement itself has made, and lists that are given to it.
  const made = steps.map((step) => /^(?:CO-ROUTINE|MATERIALIZE) (\S+)/.exec(step)?.[1]).filter(Boolean);
  return steps.filter((step) => {
    const [, how, name, index, by = ''] =
      /^(SCAN|SEARCH) (\S+)(?: USING (?:COVERING )?(?:INDEX (\S+)|(?:INTEGER )?PRIMARY KEY))?(?: \((.*)\))?/.exec(
        step,
      ) ?? [];
    if (!how || made.includes(name) || name === 'CONSTANT' || name.startsWith('(')) return false;
    if (step.includes('VIRTUAL TABLE') || name in SMALL || OPEN.has(index)) return false;
    // An index of the moment is made of the whole table.
    if (how === 'SCAN' || step.includes(' USING AUTOMATIC ')) return true;
    // The least or the greatest of an index.
    if (by === '') return false;
    return !by.includes('=') && !(by.includes('>?') && by.includes('<?'));
  });
}

/** The newest plan of each statement. */
const plans = new Map();

const excused = (sql, step) => EXCEPTIONS.some((it) => sql.includes(it.statement) && step.includes(it.step));

async function wrong(some = statements) {
  const found = [];
  for (const sql of some) {
    const steps = await plan(sql);
    plans.set(sql, steps);
    for (const step of unbounded(steps))
      if (!excused(sql, step))
        found.push(`${step}\n    in ${sql}\n${steps.map((each) => `       ${each}`).join('\n')}`);
  }
  return found;
}

describe('each statement of the read model', () => {
  test('finds what it reads by an index, as long as nothing is known of the shop', async () => {
    const found = await wrong();
    assert.equal(found.length, 0, found.join('\n'));
  });

  test('does so with the statistics of a large shop', async () => {
    await largeShop(site.worker, { payments: SMALL_SHOP, newestMs });
    await site.rows('ANALYZE');
    const found = await wrong();
    assert.equal(found.length, 0, found.join('\n'));
  });

  test('control: one that has no index is told', async () => {
    const scans = [
      'SELECT * FROM payments WHERE instr(owner, ?1) > 0',
      'SELECT * FROM payments WHERE updated_at_ms > ?1',
      'SELECT * FROM runs WHERE run_id > ?1',
    ];
    for (const sql of scans) assert.equal(unbounded(await plan(sql)).length, 1, sql);
    const joined = await plan('SELECT * FROM payments p JOIN payments q ON q.amount_minor = p.amount_minor');
    assert.match(unbounded(joined)[1], /USING AUTOMATIC/);
    // No other has another plan without it.
    const users = statements.filter((sql) =>
      plans.get(sql).some((step) => step.includes('payments_by_order')),
    );
    await site.rows('DROP INDEX payments_by_order');
    const without = await wrong(users);
    await site.rows(
      'CREATE INDEX payments_by_order ON payments (order_id, created_at_ms DESC, payment_id DESC) WHERE order_id IS NOT NULL',
    );
    assert.notEqual(without.length, 0);
    assert.deepEqual(await wrong(users), []);
  });

  test('is among those that were collected', () => {
    const known = statements.join('\n');
    const missing = [];
    for (const { file, text } of literals())
      for (const part of text.split(/\{\w*\}/).map((part) => shape(part)))
        if (part.length > 12 && !known.includes(part)) missing.push(`${file}: ${part}`);
    assert.deepEqual(missing, [], 'collect them again: npm run statements');
  });
});

/** The texts in the sources that begin as a statement of the read model does. */
function literals() {
  const found = [];
  for (const folder of ['src', 'desk/src', 'demo/src', 'crates/runtime/src', 'crates/messages/src'])
    for (const name of readdirSync(join(root, folder), { recursive: true })) {
      const file = join(folder, name);
      // The objects have tables of their own, and Analytics Engine is another database.
      if (!name.endsWith('.rs') || name.endsWith('/tests.rs')) continue;
      if (file.startsWith('src/object/') || file.startsWith('src/metrics/')) continue;
      if (file === 'desk/src/analytics/query.rs') continue;
      // What is declared alone is a file of tests, and what stands behind it is none.
      const source = readFileSync(join(root, file), 'utf8').replaceAll(/#\[cfg\(test\)\]\s+mod \w+;/g, '');
      const [code] = source.split('#[cfg(test)]');
      for (const [, text] of code.matchAll(/"((?:[^"\\]|\\.)*)"/gs))
        if (/^\s*(SELECT|INSERT|UPDATE|DELETE|WITH) [^]*\b(FROM|INTO|SET)\b/.test(text))
          found.push({
            file,
            text: text
              .replace(/\\\n\s*/g, '')
              .replaceAll('\\"', '"')
              .replaceAll('{{', '{')
              .replaceAll('}}', '}'),
          });
    }
  assert.ok(found.length > 50, `${found.length}`);
  return found;
}

describe('how many rows are read', () => {
  /** Until the logs are there: those of a request arrive a moment after its answer. */
  const told = async () => {
    for (let last = -1; last !== site.logs().length;) {
      last = site.logs().length;
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  };
  /** By this work. */
  const read = async (work) => {
    await told();
    const before = site.logs().length;
    await work();
    await told();
    return sent(site.logs().slice(before)).reduce((sum, { rows }) => sum + rows, 0);
  };
  const all = async () => {
    const found = {};
    for (const path of PAGES) found[path] = await read(() => look(path));
    found['scheduled tasks'] = await read(() => readModel(site).tick());
    return found;
  };

  test('does not grow with the shop', async (t) => {
    // What is due once is done.
    for (let run = 0; run < 2; run += 1) await readModel(site).tick();
    const small = await all();
    await largeShop(site.worker, { from: SMALL_SHOP + 1, payments: LARGE_SHOP, newestMs });
    for (let run = 0; run < 2; run += 1) await readModel(site).tick();
    const large = await all();
    const grown = Object.keys(small).filter((what) => large[what] > small[what] * 1.1 + 60);
    t.diagnostic(JSON.stringify(large));
    assert.deepEqual(
      grown.map((what) => `${what}: ${small[what]} rows, then ${large[what]}`),
      [],
    );
    // The control: without its index a search reads the whole shop.
    await site.rows('DROP INDEX payments_by_order');
    assert.ok((await read(() => look('/admin/payments?q=order-77'))) > LARGE_SHOP);
  });
});
