// What a person sees while a script works: one line per step, with a live tail on a terminal.
import { readFileSync } from 'node:fs';

const live = process.stdout.isTTY && !process.env.CI;
const quietMs = live ? 100 : 15_000;

export const seconds = (ms) =>
  ms < 60_000
    ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;

export const say = (text = '') => process.stdout.write(`${text}\n`);

/** What each step that is under way says. */
const underWay = new Set();

/**
 * Announces a long step and keeps telling how far it is: in place on a terminal, else one line every 15 s, so that
 * a log stays short and yet never looks dead.
 */
export function step(title) {
  const started = Date.now();
  let lastShown = started;
  let lastDetail = '';

  const told = () => `${title} (${seconds(Date.now() - started)})${lastDetail && `: ${lastDetail}`}`;
  underWay.add(told);
  const show = () => {
    lastShown = Date.now();
    // In place there is one line for all of them.
    const line = `  … ${live ? [...underWay].map((told) => told()).join(' · ') : told()}`;
    process.stdout.write(
      live ? `\r\x1b[2K${line.slice(0, (process.stdout.columns ?? 80) - 1)}` : `${line}\n`,
    );
  };
  const end = (mark, text) => {
    clearInterval(timer);
    underWay.delete(told);
    say(`${live ? '\r\x1b[2K' : ''}  ${mark} ${text} (${seconds(Date.now() - started)})`);
  };

  if (live) show();
  else say(`  … ${title}`);
  const timer = setInterval(() => Date.now() - lastShown >= quietMs && show(), Math.min(quietMs, 1000));

  return {
    detail: (text) => (lastDetail = text),
    between: (text) => say(`${live ? '\r\x1b[2K' : ''}${text}`),
    done: (text = title) => end('✓', text),
    fail: (text = title) => end('✗', text),
  };
}

/** An end that a person can act on: printed without a stack trace. */
export class Stop extends Error {}

/** Runs a script's `main`; whatever it throws ends the process with code 1. With `--help` it says instead what stands at the script's top. */
export async function script(main) {
  const [file, ...options] = process.argv.slice(1);
  if (options.some((option) => option === '--help' || option === '-h')) return say(top(file));
  try {
    await main();
  } catch (error) {
    process.exitCode = 1;
    process.stderr.write(`\n${isForAPerson(error) ? error.message : error.stack}\n`);
    if (isOfOptions(error)) process.stderr.write('-- --help says which options there are.\n');
  }
}

const isOfOptions = ({ code }) => code?.startsWith('ERR_PARSE_ARGS');
const isForAPerson = (error) => error instanceof Stop || isOfOptions(error);

/** The comment at the top of a script. */
function top(file) {
  const lines = readFileSync(file, 'utf8').split('\n');
  const end = lines.findIndex((line) => !line.startsWith('//'));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^\/\/ ?/, ''))
    .join('\n');
}
