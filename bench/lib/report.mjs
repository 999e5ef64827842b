// What was measured, for a terminal. Every number has its unit.
import { readFileSync } from 'node:fs';

import { table } from '../../scripts/lib/table.mjs';
import { budgetFile } from './counts.mjs';
import { dollars } from './dollars.mjs';
import { short } from './stats.mjs';

export function report({ scenarios, resources, startups, growth, promises }) {
  return [
    'Load: medians of the slices; × is the ratio to the floor in the same round.',
    table(scenarios.flatMap(loadRows)),
    'Load generator: ' + share(scenarios),
    '',
    ...promises.map(({ name, promises: what }) => `  ${name}: ${what}.`),
    '',
    'A process: what it takes, and how it begins.',
    table(resources.map((row) => resourceRow(row, startups[row.name], startups.floor))),
    '',
    'Growth: 32 clients, by the number of keys that are stored.',
    table(growth.flatMap(growthRows)),
    '',
    'A million payments by list price: the counts of bench/budget.json, and the CPU measured here.',
    dollarTable(scenarios),
  ].join('\n');
}

const loadRows = ({ name, at, of }) =>
  Object.entries(of).map(([site, one]) => ({
    '': `${name}, c=${at}`,
    who: site,
    'requests/s': short(one.rate_per_s),
    '×': short(one.rate_ratio),
    'CPU ms/request': short(one.cpu_ms),
    'CPU ×': short(one.cpu_ratio),
    'p50 ms': short(one.p50_ms),
    'p99 ms': short(one.p99_ms),
    requests: one.requests,
  }));

function share(scenarios) {
  const all = scenarios.flatMap(({ of }) => Object.values(of).map(({ load_cpu_ms: ms }) => ms));
  return `${short(Math.min(...all))} to ${short(Math.max(...all))} ms of CPU a request, in a process of its own.`;
}

function dollarTable(scenarios) {
  const { cpu_ms: cpuMs } = scenarios.find(({ name, at }) => name === 'first payment' && at === 32).of.ours;
  const budget = JSON.parse(readFileSync(budgetFile, 'utf8'));
  const { lines, once, monthly } = dollars(budget, cpuMs);
  const sums = { '': `in all: $${short(once)} once, and $${short(monthly)} a month`, counted: '', $: '' };
  return table([
    ...lines.map(({ dollars: sum, counted, ...what }) => ({
      ...what,
      counted: short(counted),
      $: sum.toFixed(2),
    })),
    sums,
  ]);
}

const ratio = (one, other) => (other ? short(one / other) : '');

const resourceRow = ({ name, memory_bytes: memory, bytes_a_key: bytes }, one, base) => ({
  '': name,
  'memory MB': short(memory / 1e6),
  'disk bytes/key': short(bytes),
  'start to first answer ms': short(one.first_answer_ms),
  '×': ratio(one.first_answer_ms, base?.first_answer_ms),
  'first payment after it ms': short(one.first_payment_ms),
  'second ms': short(one.second_payment_ms),
});

const growthRows = ({ name, points }) =>
  points.map((point) => ({
    '': name,
    keys: point.keys.toLocaleString('en'),
    'replays/s': short(point.replay_per_s),
    '×': ratio(point.replay_per_s, points[0].replay_per_s),
    'first payments/s': short(point.first_payment_per_s),
    ' ×': ratio(point.first_payment_per_s, points[0].first_payment_per_s),
  }));
