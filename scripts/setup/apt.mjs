// The few things that only root may do. Never without a right that is already there or a yes from a person.
import { spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline/promises';

import { ask, runStep } from '../lib/run.mjs';
import { Stop, say } from '../lib/say.mjs';

const mayUseSudo = () => ask('sudo', ['-n', 'true']) !== null;

/** Whether `asRoot` needs nobody's yes. */
export const isRoot = () => process.getuid() === 0 || mayUseSudo();

export async function asRoot(title, command) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  if (process.getuid() === 0) return runStep(title, command[0], command.slice(1), { env });
  if (mayUseSudo()) return runStep(title, 'sudo', ['-n', ...command], { env });

  const line = `sudo ${command.join(' ')}`;
  const problem = `This needs root once (${title}). Run\n\n  ${line}\n\nand start again.`;
  if (!process.stdin.isTTY || process.env.CI || ask('sudo', ['--version']) === null) throw new Stop(problem);
  if (!(await agreed(`${title} is missing. Run "${line}" now? [y/N] `))) throw new Stop(problem);
  // In the foreground, because sudo asks for the password on the terminal.
  if (spawnSync('sudo', command, { stdio: 'inherit' }).status !== 0) throw new Stop(problem);
  say(`  ✓ ${title}`);
}

async function agreed(question) {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await terminal.question(question)).trim());
  } finally {
    terminal.close();
  }
}
