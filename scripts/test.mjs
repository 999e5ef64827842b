// `npm test`: sets up, then runs every suite. A suite that fails does not stop the others.
// `npm test -- browser` runs only the suites with "browser" in their name. The last line is "N passed, N failed".
import { mkdirSync, writeFileSync } from 'node:fs';

import { removeLeftovers, temporaryInMemory } from './lib/leftovers.mjs';
import { inRoot, inTools } from './lib/paths.mjs';
import { cargoProgress, endOnSignals, run } from './lib/run.mjs';
import { Stop, say, script, seconds, step } from './lib/say.mjs';
import { setUp } from './setup.mjs';
import { failures, verdict } from './test/count.mjs';
import { suites } from './test/suites.mjs';

const shownLines = 200;
/**
 * One after the other, and how many suites of each run at the same time: what cargo compiles (it waits for itself) beside the other checks, the
 * builds of the Workers, the suites that mostly wait for these (four keep two cores busy; eight take a tenth more of their time), what would be
 * deployed, and the few that run on it.
 */
const stages = { cargo: 2, build: 1, runtime: 4, release: 1, 'on the release': 5 };
/**
 * What runs beside them, one at a time, from one stage on, and takes what they leave of two cores: what is to be deployed is compiled until it is
 * needed, and cargo's tests, which never wait, run beside suites that do.
 */
const besides = { compile: { from: 'cargo', until: 'build' }, 'cargo tests': { from: 'runtime' } };

endOnSignals({ exitCode: 130 });
await script(async () => {
  const wanted = process.argv.slice(2);
  const chosen = choose(wanted);
  if (chosen.length === 0)
    throw new Stop(`No suite is called like ${wanted.join(' ')}. There are:\n  ${names(suites())}`);

  const started = Date.now();
  removeLeftovers();
  say('Setting up');
  await setUp({ lints: true, browser: chosen.some(({ needs }) => needs === 'browser') });

  if (chosen.some(({ buildsTests }) => buildsTests)) process.env.TESTS_ARE_BUILT = '1';
  // Some suites build Workers by themselves, too.
  process.env.BUILD_PROFILE ??= wanted.length === 0 ? 'tested' : 'dev';
  spareProcessor();
  const results = await runAll(chosen);
  report(
    chosen.map((suite) => results.get(suite)),
    Date.now() - started,
  );
});

/**
 * For each process of wrangler's: it is compiled once, and without what it has for people who look at a Worker. workerd collects garbage without
 * threads of its own: other suites need the processors.
 */
function spareProcessor() {
  process.env.MINIFLARE_WORKERD_V8_FLAGS ??= '--single-threaded-gc';
  process.env.NODE_COMPILE_CACHE ??= inRoot('.wrangler', 'compiled');
  process.env.X_LOCAL_EXPLORER ??= 'false';
  process.env.X_LOCAL_OBSERVABILITY ??= 'false';
}

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

async function runAll(chosen) {
  const results = new Map();
  const shown = step(`${chosen.length} suites`);
  const running = new Map();
  const tell = () => shown.detail([...running].map(([{ name }, line]) => `${name}: ${line}`).join(' · '));

  const runSuite = async (suite) => {
    const { result, ended } = await play(suite, (line) => {
      running.set(suite, line);
      tell();
    });
    running.delete(suite);
    tell();
    shown.between(`  ${result.failed ? '✗' : '✓'} ${suite.name}: ${result.text} (${seconds(result.ms)})`);
    explain(suite, result, ended);
    results.set(suite, result);
  };
  const runStage = async (stage, atOnce) => {
    const left = chosen.filter((suite) => suite.stage === stage);
    const inTurn = async () => {
      for (let suite = left.shift(); suite; suite = left.shift()) await runSuite(suite);
    };
    await Promise.all(Array.from({ length: atOnce }, inTurn));
  };
  const beside = {};
  for (const [stage, atOnce] of Object.entries(stages)) {
    const among = (when) => Object.keys(besides).filter((other) => besides[other][when] === stage);
    await Promise.all(among('until').map((other) => beside[other]));
    for (const other of among('from')) beside[other] = runStage(other, 1);
    await runStage(stage, atOnce);
  }
  await Promise.all(Object.values(beside));

  const failed = [...results.values()].filter((result) => result.failed > 0).length;
  if (failed === 0) shown.done();
  else shown.fail(`${failed} of ${chosen.length} suites failed`);
  return results;
}

function headline(title) {
  say(`\n── ${title} ${'─'.repeat(Math.max(0, 70 - title.length))}`);
}

async function play(suite, onProgress) {
  const started = Date.now();
  const progress = suite.command[0] === 'cargo' ? cargoProgress() : (line) => line.trim().slice(0, 60);
  const [command, ...args] = suite.command;
  const ended = await run(command, args, {
    cwd: suite.cwd,
    env: {
      ...process.env,
      NO_COLOR: '1',
      FORCE_COLOR: '0',
      CARGO_TERM_COLOR: 'never',
      ...(suite.isTemporary && temporaryInMemory()),
      ...suite.env,
    },
    timeoutMs: suite.timeoutMs,
    isNice: Object.hasOwn(besides, suite.stage),
    onLine: (line) => onProgress(progress(line)),
  });
  removeLeftovers();
  const result = {
    name: suite.name,
    ms: Date.now() - started,
    cpuMs: ended.cpuMs,
    ...verdict(suite, ended),
  };
  result.failures = result.failed > 0 ? failures(suite, ended) : [];
  const skipped = result.skipped > 0 ? `, ${result.skipped} skipped` : '';
  result.text = `${result.passed} passed, ${result.failed} failed${skipped}${result.reason ? `: ${result.reason}` : ''}`;
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
  for (const { name, passed, failed, skipped, ms, cpuMs } of results) {
    say(
      `  ${failed ? '✗' : '✓'} ${name.padEnd(width)} ${`${passed}`.padStart(6)} passed ${`${failed}`.padStart(4)} failed ${seconds(ms).padStart(10)} ${cpu(cpuMs).padStart(10)} CPU${skipped > 0 ? `, ${skipped} skipped` : ''}`,
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
