// Five kinds of clients at once, for k6: `npm run load` starts it, with a lab of its own, and joins what it notes here with what
// the bank has charged. What must hold is in `thresholds`; how fast it is is not among it, for machines differ.

import { sleep } from 'k6';
import { sha256 } from 'k6/crypto';
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Rate } from 'k6/metrics';

const { SITE, BANK, SUMMARY, DURATION: duration = '30s' } = __ENV;
/** The control: the same clients forget their keys. */
const WITH_KEYS = __ENV.KEYS !== 'off';

const TRIES_MAX = 30;
const TIMEOUT = '40s';
const AT_ONCE = 5;
/** What befalls the bank in the storm. It passes, and no charge is lost: a client that tries again gets its payment. */
const BANK_FAULTS = [
  { fault: 'connection_reset_after' },
  { fault: 'rate_limited' },
  { fault: 'slow_response', delay_ms: 500 },
  { fault: 'connection_reset' },
  { fault: 'error_before' },
  { fault: 'lock_timeout' },
];

const clients = (name, vus) => ({ executor: 'constant-vus', exec: name, vus, duration });

export const options = {
  scenarios: {
    new_payments: clients('newPayments', 3),
    retries: clients('retries', 3),
    duplicates: clients('duplicates', 2),
    conflicts: clients('conflicts', 2),
    storm: clients('storm', 2),
  },
  thresholds: {
    second_ids: ['count==0'],
    replays_equal: ['rate==1'],
    mismatches_refused: ['rate==1'],
    got_an_answer: ['rate==1'],
    unexpected_answers: ['rate==0'],
    trouble: ['rate<0.1'],
  },
  batchPerHost: 2 * AT_ONCE,
  noUsageReport: true,
};

/** Answers that name another payment than the first answer to the same key did. */
const secondIds = new Counter('second_ids');
/** Replays that are the first answer byte for byte, and say that they are replays. */
const replaysEqual = new Rate('replays_equal');
const mismatchesRefused = new Rate('mismatches_refused');
/** Clients with a key who know in the end how it ended. */
const gotAnAnswer = new Rate('got_an_answer');
/** Answers that the API does not promise to anybody who asks so. */
const unexpectedAnswers = new Rate('unexpected_answers');
/** Answers of "not now": they are only to be expected while the bank fails. */
const trouble = new Rate('trouble');

export function newPayments() {
  ask(newKey(), 2500);
}

/** The answer was lost, or so the client believes: it asks twice more. */
export function retries() {
  const key = newKey();
  const first = ask(key, 2500);
  for (let i = 0; i < 2; i += 1) compare(first, ask(key, 2500), true);
}

/** The double click, and more. */
export function duplicates() {
  const key = newKey();
  const answers = askAtOnce(Array(AT_ONCE).fill(key), 2500);
  const first = ask(key, 2500);
  for (const answer of answers) if (isPaid(answer)) compare(first, answer, false);
}

/** A key that was used for another amount, now and at the same time. */
export function conflicts() {
  const key = newKey();
  const first = ask(key, 2500);
  mismatchesRefused.add(isRefused(ask(key, 5000)));
  for (const answer of askAtOnce([key, key], 9900)) mismatchesRefused.add(isRefused(answer));
  compare(first, ask(key, 2500), true);
}

/** The bank fails, and everybody presses the button again: some with one key, some with none, who mean another payment. */
export function storm() {
  const fault = BANK_FAULTS[exec.scenario.iterationInTest % BANK_FAULTS.length];
  http.post(`${BANK}/_sim/faults`, JSON.stringify({ method: 'POST', ...fault }));
  const key = newKey();
  const answers = askAtOnce([key, null, key, null, key], 2500);
  const first = ask(key, 2500);
  const own = answers.filter((answer, index) => index % 2 === 0 && isPaid(answer));
  for (const answer of own) compare(first, answer, false);
  compare(first, ask(key, 2500), true);
}

/** Asks until there is an answer that asking again would not change. */
function ask(key, amount) {
  for (let tries = 1; ; tries += 1) {
    const answer = note(key, http.post(...request(key, amount)));
    if (!isNotNow(answer) || tries === TRIES_MAX) {
      gotAnAnswer.add(!isNotNow(answer));
      return answer;
    }
    sleep(Number(answer.headers['Retry-After']) || 0.2);
  }
}

function askAtOnce(keys, amount) {
  const answers = http.batch(keys.map((key) => ['POST', ...request(key, amount)]));
  return keys.map((key, index) => note(key, answers[index]));
}

function request(key, amount) {
  const headers = { 'Content-Type': 'application/json' };
  if (key !== null && WITH_KEYS) headers['Idempotency-Key'] = key;
  const body = JSON.stringify({ amount, currency: 'usd', description: 'Load test' });
  return [`${SITE}/payments`, body, { headers, timeout: TIMEOUT }];
}

/** Writes down who asked and what came: a line of JSON for each answer. */
function note(key, answer) {
  trouble.add(isNotNow(answer));
  unexpectedAnswers.add(!isPaid(answer) && !isNotNow(answer) && !isRefused(answer));
  console.log(
    JSON.stringify({
      scenario: exec.scenario.name,
      key,
      status: answer.status,
      problem: isPaid(answer) ? null : (problemOf(answer) ?? answer.error),
      payment: isPaid(answer) ? answer.json('id') : null,
      replayed: isReplay(answer),
      sha256: sha256(answer.body ?? '', 'hex'),
      ms: answer.timings.duration,
    }),
  );
  return answer;
}

function compare(first, answer, mustBeReplay) {
  const isSame = isPaid(first) && isPaid(answer) && answer.json('id') === first.json('id');
  if (!isSame) secondIds.add(1);
  replaysEqual.add(isSame && answer.body === first.body && (!mustBeReplay || isReplay(answer)));
}

const isPaid = ({ status }) => status === 201;
const isReplay = ({ headers }) => headers['Idempotent-Replayed'] === 'true';
const isRefused = (answer) =>
  answer.status === 409 && problemOf(answer) === '/problems/idempotency-key-reused';
const isNotNow = (answer) =>
  answer.status === 0 ||
  answer.status === 429 ||
  answer.status >= 500 ||
  (answer.status === 409 && problemOf(answer) === '/problems/request-in-progress');

function problemOf(answer) {
  const type = answer.headers['Content-Type'] ?? '';
  return type.startsWith('application/problem+json') ? answer.json('type') : null;
}

const newKey = () => `${exec.scenario.name}-${exec.scenario.iterationInTest}`;

export function handleSummary({ metrics }) {
  const thresholds = Object.entries(metrics).flatMap(([name, { thresholds = {} }]) =>
    Object.entries(thresholds).map(([rule, { ok }]) => ({ name, rule, ok })),
  );
  return { [SUMMARY]: JSON.stringify(thresholds) };
}
