// Child processes. Each one leads a process group of its own, so that ending it ends whatever it started (cargo's
// compilers, wrangler's workerd), and nothing outlives the script.
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';

import { Stop, step } from './say.mjs';

const groups = new Set();
let ending = false;
const maxLines = 5_000;
const maxLineLength = 300; // a failed wasm link prints hundreds of kilobytes in one line

/**
 * Runs a command to its end, never throws for its exit code, keeps the last lines of its output.
 * `onLine` sees each line as it comes. Past `timeoutMs` it is killed, with all that it has started.
 */
export function run(command, args, { onLine = () => {}, timeoutMs, ...options } = {}) {
  return start(command, args, { onLine, timeoutMs, ...options }).ended;
}

/** Like `run`, for what keeps running: gives `stop()` and the promise `ended`. One that `isNice` takes the time that others leave. */
export function start(command, args, { onLine = () => {}, timeoutMs, isNice, ...options } = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options, detached: true });
  if (isNice && child.pid) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  const lines = [];
  let timedOut = false;

  const keep = (line) => {
    lines.push(line.length > maxLineLength ? `${line.slice(0, maxLineLength)} …` : line);
    if (lines.length > maxLines) lines.shift();
    onLine(line);
  };
  const flushes = [child.stdout, child.stderr].filter(Boolean).map((stream) => splitLines(stream, keep));

  const stop = (signal = 'SIGTERM') => signalGroup(child.pid, signal);
  const timer =
    timeoutMs &&
    setTimeout(() => {
      timedOut = true;
      withOffspring([child.pid]).forEach((pid) => signalGroup(pid, 'SIGKILL'));
    }, timeoutMs);

  if (child.pid) groups.add(child.pid);
  const ended = new Promise((resolve) => {
    let cpuMs = 0;
    const finish = (code, signal) => {
      clearTimeout(timer);
      stop('SIGKILL'); // what the leader left behind
      groups.delete(child.pid);
      flushes.forEach((flush) => flush());
      if (timedOut) keep(`(killed: longer than ${timeoutMs / 1000} s)`);
      // After Ctrl-C nothing goes on: what was waiting for this child must not report its death as a failure.
      if (!ending) resolve({ code, signal, timedOut, lines, cpuMs, ok: code === 0 });
    };
    child.on('error', (error) => {
      keep(`${command}: ${error.message}`);
      finish(127, null);
    });
    // `exit` and not `close`: a grandchild that keeps the pipe open must not keep us waiting for ever.
    child.on('exit', (code, signal) => {
      cpuMs = cpuSinceLastExit();
      const drained = new Promise((closed) => child.on('close', closed));
      const patience = new Promise((tired) => setTimeout(tired, 1000));
      Promise.race([drained, patience]).then(() => finish(code, signal));
    });
  });
  return { pid: child.pid, stop, ended };
}

let cpuSeenMs = 0;

/**
 * What the child that has just ended cost, with all that it has waited for: Linux adds it to its parent's account at that moment. What a
 * child left behind is not in it.
 */
function cpuSinceLastExit() {
  const before = cpuSeenMs;
  cpuSeenMs = cpuOfEndedChildrenMs();
  return cpuSeenMs - before;
}

/** The fields `cutime` and `cstime` of proc(5), which count hundredths of a second. Nothing where there is no such file. */
function cpuOfEndedChildrenMs() {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(13, 15)
      .map(Number);
    return (user + system) * 10;
  } catch {
    return 0;
  }
}

/** A quick question to a program: its trimmed stdout, or null when it is missing or fails. */
export function ask(command, args, { timeoutMs = 60_000 } = {}) {
  const { status, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    timeout: timeoutMs,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return status === 0 ? stdout.trim() : null;
}

/** A step of set-up that is one command: shows its progress, stops the script with its last lines if it fails. Gives the lines. */
export async function runStep(
  title,
  command,
  args,
  { detail = lastLine, excerpt = lastLines, ...options } = {},
) {
  const shown = step(title);
  const { ok, lines } = await run(command, args, {
    ...options,
    onLine: (line) => shown.detail(detail(line)),
  });
  if (ok) {
    shown.done();
    return lines;
  }
  shown.fail();
  throw new Stop([...excerpt(lines), '', `${title} failed: ${command} ${args.join(' ')}`].join('\n'));
}

const lastLine = (line) => line.trim().slice(0, 100);
const lastLines = (lines) => lines.slice(-60);

/** Progress of cargo, for `detail`: the number of crates so far and the one at work. */
export function cargoProgress() {
  let crates = 0;
  let shown = 'resolving';
  return (line) => {
    const [, verb, crate] = line.match(/^\s*(Compiling|Checking|Downloaded|Documenting) (\S+)/) ?? [];
    if (verb === 'Downloaded') shown = `downloading, ${crate}`;
    else if (verb) shown = `${++crates} crates, ${crate}`;
    return shown;
  };
}

/** Ends every group that still runs. Who is killed cannot end what it has started itself: that is killed too. */
export function stopAll(signal = 'SIGKILL') {
  const ended = signal === 'SIGKILL' ? withOffspring([...groups]) : [...groups];
  ended.forEach((pid) => signalGroup(pid, signal));
}

/**
 * Ctrl-C, a closed terminal or a `kill`: ends all children and then this process. A server that is told to stop has
 * done its work (code 0); a test run that is cut short has not.
 */
export function endOnSignals({ exitCode, patienceMs = 0 }) {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, async () => {
      if (ending) return;
      ending = true;
      if (patienceMs > 0) {
        stopAll('SIGINT');
        const deadline = Date.now() + patienceMs;
        while (groups.size > 0 && Date.now() < deadline) await new Promise((turn) => setTimeout(turn, 50));
      }
      stopAll();
      process.exit(exitCode);
    });
  }
  process.on('exit', () => stopAll());
}

/** These groups, and those that their processes have started: a suite's servers lead groups of their own. */
function withOffspring(pids) {
  if (pids.length === 0) return pids;
  const running = (ask('ps', ['-A', '-o', 'pid=,ppid=,pgid=']) ?? '')
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  const family = new Set(pids);
  const found = new Set(pids);
  for (let before = 0; before < family.size;) {
    before = family.size;
    for (const [pid, parent, group] of running) {
      if (!family.has(parent)) continue;
      family.add(pid);
      found.add(group);
    }
  }
  return [...found];
}

function signalGroup(pid, signal) {
  try {
    if (pid) process.kill(-pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH' && error.code !== 'EPERM') throw error; // gone already
  }
}

function splitLines(stream, keep) {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk) => {
    const lines = (rest + chunk).split(/\r?\n/);
    rest = lines.pop();
    lines.forEach(keep);
  });
  return () => rest && keep(rest);
}
