// As much of k6 as tests/load/tutorial.js uses. Its requests wait, as k6's do, so each is a process of curl.

import { execFileSync } from 'node:child_process';

/** The checks by name: how often each passed and failed. */
export const checks = {};

export function check(answer, conditions) {
  for (const [name, holds] of Object.entries(conditions)) {
    checks[name] ??= { passes: 0, fails: 0 };
    checks[name][holds(answer) ? 'passes' : 'fails'] += 1;
  }
}

export function sleep() {}

function post(url, body, { headers }) {
  const named = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const output = execFileSync('curl', ['-sS', '-i', '-X', 'POST', url, ...named, '-d', body], {
    encoding: 'utf8',
  });
  const end = output.indexOf('\r\n\r\n');
  const [status, ...lines] = output.slice(0, end).split('\r\n');
  const text = output.slice(end + 4);
  return {
    status: Number(status.split(' ')[1]),
    headers: Object.fromEntries(lines.map(canonical)),
    body: text,
    json: (name) => JSON.parse(text)[name],
  };
}

/** A header line as k6 names it: Idempotency-Key. */
function canonical(line) {
  const at = line.indexOf(': ');
  const name = line.slice(0, at).replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
  return [name, line.slice(at + 2)];
}

export default { post };
