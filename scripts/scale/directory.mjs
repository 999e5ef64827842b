// How long the statements take that D1 is asked because there are many shards, on SQLite on this machine: those that the Workers send
// (tests/worker/support/statements.json), over the tables that the migrations make.
//
//     node scripts/scale/directory.mjs [shards] [busy ones]     43,200 and 480 by default
import { readFileSync, readdirSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { DatabaseSync } from 'node:sqlite';

import { inRoot } from '../lib/paths.mjs';
import { table } from '../lib/table.mjs';

const DAY_MS = 86_400_000;
const [all, busyOnes] = [Number(process.argv[2] ?? 43_200), Number(process.argv[3] ?? 480)];
const nowMs = Date.UTC(2026, 10, 25, 12);
const sent = JSON.parse(readFileSync(inRoot('tests/worker/support/statements.json'), 'utf8'));

/** What is asked, by what its statement has, and with which values. */
const ASKED = [
  [
    'the cron: places of which nothing was heard',
    'LIMIT ?4',
    'shards_awake_by_heard',
    [nowMs - 2_400_000, 0, '', 1000],
  ],
  ['the cron: what all runs have done', 'AS task, number.key AS name', '', []],
  ['the cron: how many places there are', 'AS number FROM shard_counts', '', []],
  ['a page of the desk: what waits in all places', "json_each(result, '$.counts')", '', []],
  ['a page of the desk: how old that is', 'AS oldest_ms', '', [nowMs - 2_400_000]],
  [
    'a page of the desk: the newest shards',
    'SELECT name FROM shards INDEXED BY shards_awake WHERE',
    'json_group_array(name)',
    [1001],
  ],
  [
    'an acknowledgement: the next 60 of all shards',
    'INDEXED BY shards_by_time WHERE (period, name)',
    '',
    ['2026-10-01', '', 60],
  ],
];

const database = new DatabaseSync(':memory:');
const migrations = inRoot('migrations');
for (const file of readdirSync(migrations).sort())
  database.exec(readFileSync(`${migrations}/${file}`, 'utf8'));
fill();
const rows = ASKED.map(([what, one, other, values]) => {
  const sql = sent.find((text) => text.includes(one) && text.includes(other));
  if (!sql) throw new Error(`No statement is collected that has ${one}.`);
  const statement = database.prepare(sql);
  const taken = Array.from({ length: 21 }, () => {
    const began = performance.now();
    statement.all(...values);
    return performance.now() - began;
  });
  const median = taken.sort((a, b) => a - b)[10];
  return { what, 'ms (median of 21)': median.toFixed(2) };
});
console.log(`${all.toLocaleString('en-US')} shards, of which ${busyOnes} have something to say`);
console.log(table(rows));

/** Shards of days, each with its newest run: in the newest ones keys are open, the others are quiet. */
function fill() {
  const shard = database.prepare('INSERT INTO shards (name, made_at_ms) VALUES (?, 1)');
  const run = database.prepare('INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?, ?, 9, ?)');
  const busy = JSON.stringify({
    sweep: { late: 1, woken: 1 },
    settle: { lines: 2_812 },
    counts: { open: 31, in_doubt: 2, late_or_flagged: 1, dead: 1 },
  });
  database.exec('BEGIN');
  for (let number = 0; number < all; number += 1) {
    const period = new Date(nowMs - Math.floor(number / 480) * DAY_MS).toISOString().slice(0, 10);
    const name = `g1-${period}-${String(number % 480).padStart(3, '0')}`;
    shard.run(name);
    const isBusy = number < busyOnes;
    const pauseMs = isBusy ? 300_000 : 1_800_000;
    run.run(`place:${name}`, nowMs - ((number * 7_919) % pauseMs), isBusy ? busy : '{}');
  }
  database.exec('COMMIT');
}
