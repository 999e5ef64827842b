// What was measured, for a terminal. Every number has its unit.
import { table } from '../../scripts/lib/table.mjs';
import { short } from './stats.mjs';

export function report({ scenarios, resources, startups, growth }) {
  return [
    'Load: medians of the slices; × is the ratio to the floor in the same round.',
    table(scenarios.flatMap(loadRows)),
    'Load generator: ' + share(scenarios),
    '',
    'A process: what it takes, and how it begins.',
    table(resources.map((row) => resourceRow(row, startups[row.name], startups.floor))),
    '',
    'Growth: 32 clients, by the number of keys that are stored.',
    table(growth.flatMap(growthRows)),
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
