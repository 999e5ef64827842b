// `npm test`: sets up, then runs every suite, one after the other. A suite that fails does not stop the later ones.
// `npm test -- browser` runs only the suites with "browser" in their name. The last line is "N passed, N failed".
import { mkdirSync, writeFileSync } from 'node:fs';

import { inTools } from './lib/paths.mjs';
import { cargoProgress, endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script, seconds, step } from './lib/say.mjs';
import { setUp } from './setup.mjs';
import { failures, verdict } from './test/count.mjs';
import { suites } from './test/suites.mjs';

const shownLines = 200;
/** How many of those that mostly wait run at the same time: they keep two cores busy. */
const atOnce = 4;

endOnSignals({ exitCode: 130 });
await script(async () => {
  const wanted = process.argv.slice(2);
  const chosen = choose(wanted);
  if (chosen.length === 0)
    throw new Stop(`No suite is called like ${wanted.join(' ')}. There are:\n  ${names(suites())}`);

  const started = Date.now();
  say('Setting up');
  await setUp({ lints: true, browser: chosen.some(({ needs }) => needs === 'browser') });

  const results = [];
  for (let next = 0; next < chosen.length;) {
    const end = chosen.findIndex((suite, at) => at >= next && !suite.waits);
    const together = chosen.slice(next, end < 0 ? undefined : end);
    if (together.length > 1) results.push(...(await runTogether(together)));
    else results.push(await runSuite(chosen[next]));
    next += Math.max(1, together.length);
  }
  report(results, Date.now() - started);
});

/** The suites asked for; and the build of what they run, so that none tests an old one. */
function choose(wanted) {
  // What runs once more on the release, say, is asked for as such: to build it takes minutes.
  const isWanted = ({ name, byName, asked }) =>
    wanted.length === 0 ? !byName : wanted.some((part) => (asked ?? name).includes(part));
  const running = new Set(
    suites()
      .filter(isWanted)
      .map(({ runs }) => runs),
  );
  return suites().filter((suite) => isWanted(suite) || (suite.builds && running.has(suite.builds)));
}

async function runSuite(suite) {
  headline(suite.name);
  const shown = step(suite.command.join(' '));
  const { result, ended } = await play(suite, shown.detail);
  if (result.failed === 0) shown.done(result.text);
  else shown.fail(result.text);
  explain(suite, result, ended);
  return result;
}

/** Suites that mostly wait: some at a time, each told of when it ends. */
async function runTogether(together) {
  headline(`${together.length} suites, ${atOnce} at a time`);
  const shown = step('node …');
  const results = [];
  const left = [...together];
  const work = async () => {
    for (let suite = left.shift(); suite; suite = left.shift()) {
      const { result, ended } = await play(suite, (line) => shown.detail(`${suite.name}: ${line}`));
      shown.between(`  ${result.failed ? '✗' : '✓'} ${suite.name}: ${result.text} (${seconds(result.ms)})`);
      explain(suite, result, ended);
      results.push(result);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  const failed = results.filter((result) => result.failed > 0).length;
  if (failed === 0) shown.done(`${together.length} suites`);
  else shown.fail(`${failed} of ${together.length} suites failed`);
  return together.map(({ name }) => results.find((result) => result.name === name));
}

function headline(title) {
  say(`\n── ${title} ${'─'.repeat(Math.max(0, 70 - title.length))}`);
}

async function play(suite, onProgress) {
  const started = Date.now();
  const progress = suite.command[0] === 'cargo' ? cargoProgress() : (line) => line.trim().slice(0, 80);
  const [command, ...args] = suite.command;
  const ended = await run(command, args, {
    cwd: suite.cwd,
    env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0', CARGO_TERM_COLOR: 'never', ...suite.env },
    timeoutMs: suite.timeoutMs,
    onLine: (line) => onProgress(progress(line)),
  });
  const result = {
    name: suite.name,
    ms: Date.now() - started,
    cpuMs: ended.cpuMs,
    ...verdict(suite, ended),
  };
  result.failures = result.failed > 0 ? failures(suite, ended) : [];
  result.text = `${result.passed} passed, ${result.failed} failed${result.reason ? `: ${result.reason}` : ''}`;
  return { result, ended };
}

/** Of a suite that failed, what it printed last. */
function explain(suite, { failed }, { lines }) {
  if (failed === 0) return;
  say(lines.slice(-shownLines).join('\n'));
  const log = keepLog(suite, lines);
  if (lines.length > shownLines) say(`(the last ${shownLines} of ${lines.length} lines; more in ${log})`);
}

function keepLog({ name }, lines) {
  const file = inTools('logs', `${name.replace(/[^a-z0-9]+/gi, '-')}.log`);
  mkdirSync(inTools('logs'), { recursive: true });
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}

function report(results, ms) {
  const width = Math.max(...results.map(({ name }) => name.length));
  const total = (key) => results.reduce((sum, result) => sum + result[key], 0);
  say(`\n── Summary ${'─'.repeat(63)}`);
  for (const { name, passed, failed, ms, cpuMs } of results) {
    say(
      `  ${failed ? '✗' : '✓'} ${name.padEnd(width)} ${`${passed}`.padStart(6)} passed ${`${failed}`.padStart(4)} failed ${seconds(ms).padStart(10)} ${cpu(cpuMs).padStart(10)} CPU`,
    );
  }
  // Once more, where whoever reads the end of a log finds it.
  for (const { name, failures } of results.filter(({ failed }) => failed > 0)) {
    headline(`Failed: ${name}`);
    say(failures.join('\n'));
  }
  say(`\nIn ${seconds(ms)}, with ${cpu(total('cpuMs'))} of CPU.`);
  if (total('failed') > 0) process.exitCode = 1;
  say(`${total('passed')} passed, ${total('failed')} failed`);
}

/** What a suite computes: no clock of a busy machine. */
function cpu(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

function names(all) {
  return all.map(({ name }) => name).join('\n  ');
}
