// What the clients were told, joined with what the bank has charged. Nothing is believed: neither that one answer stands for one
// payment, nor that one payment stands for one charge.
import { movedByPayment, movedTwice } from '../../tests/witness/ledger.mjs';

/**
 * `answers` is a list of `{scenario, key, status, problem, payment, replayed, sha256, ms}`, where `key` is null for who had none; `charges`
 * is the bank's ledger. Gives a row for each scenario, and `wrong`, a sentence for each thing that must not be.
 */
export function judge(answers, charges) {
  const chargesOf = movedByPayment({ charges });
  const wrong = movedTwice({ charges });
  const count = (payment) => chargesOf.get(payment)?.charges ?? 0;

  const keyed = Map.groupBy(
    answers.filter(({ key }) => key !== null),
    ({ key }) => key,
  );
  for (const [key, all] of keyed) {
    const paid = all.filter(({ payment }) => payment !== null);
    const payments = new Set(paid.map(({ payment }) => payment));
    const charged = [...payments].reduce((sum, payment) => sum + count(payment), 0);
    if (charged !== 1) wrong.push(`the key ${key} made ${payments.size} payments and ${charged} charges`);
    const bodies = new Set(paid.map(({ sha256 }) => sha256)).size;
    if (bodies > 1) wrong.push(`the key ${key} had ${bodies} different answers`);
  }

  const keyless = answers.filter(({ key }) => key === null);
  for (const { payment } of keyless)
    if (payment !== null && count(payment) !== 1)
      wrong.push(`the payment ${payment}, without a key, was charged ${count(payment)} times`);

  // Who has no key and no answer may have been charged, and cannot ask.
  const told = new Set(answers.map(({ payment }) => payment));
  const unknown = [...chargesOf.keys()].filter((payment) => count(payment) > 0 && !told.has(payment)).length;
  const unanswered = keyless.filter(({ payment }) => payment === null).length;
  if (unknown > unanswered)
    wrong.push(
      `${unknown} payments were charged that nobody was told of, with ${unanswered} keyless requests unanswered`,
    );

  const scenarios = Map.groupBy(answers, ({ scenario }) => scenario);
  const rows = [...scenarios].sort().map(([scenario, own]) => row(scenario, own, count));
  return { rows, wrong, unknown };
}

function row(scenario, answers, count) {
  const payments = new Set(answers.map(({ payment }) => payment).filter(Boolean));
  const times = (condition) =>
    answers
      .filter(condition)
      .map(({ ms }) => ms)
      .sort((a, b) => a - b);
  const made = times(({ status, replayed }) => status === 201 && !replayed);
  const replays = times(({ replayed }) => replayed);
  return {
    scenario,
    requests: answers.length,
    keys: new Set(answers.map(({ key }) => key).filter(Boolean)).size,
    'without key': answers.filter(({ key }) => key === null).length,
    payments: payments.size,
    charges: [...payments].reduce((sum, payment) => sum + count(payment), 0),
    replays: replays.length,
    refused: answers.filter(({ problem }) => problem === '/problems/idempotency-key-reused').length,
    'not now': answers.filter(({ status }) => status === 0 || status === 429 || status >= 500).length,
    'first p50/p95 ms': `${percentile(made, 50)}/${percentile(made, 95)}`,
    'replay p50/p95 ms': `${percentile(replays, 50)}/${percentile(replays, 95)}`,
  };
}

function percentile(sorted, percent) {
  if (sorted.length === 0) return '-';
  return Math.round(sorted[Math.ceil((sorted.length * percent) / 100) - 1]);
}
