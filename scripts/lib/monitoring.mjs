// Prometheus beside a lab: it reads the lab's counts and judges the rules of monitoring/alerts.yml.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { inRoot } from './paths.mjs';
import { start } from './run.mjs';
import { Stop } from './say.mjs';

/**
 * Starts it on a port of this machine, for the lab on `target`; resolves once it answers. Its files are in `state`; `jobs`, in YAML, are
 * read beside the lab. `ended` rejects if it cannot go on.
 */
export async function startPrometheus({ program, port, target, state, jobs = '' }) {
  mkdirSync(state, { recursive: true });
  for (const name of ['lab.yml', 'alerts.yml']) {
    const text = readFileSync(inRoot('monitoring', name), 'utf8');
    writeFileSync(join(state, name), text.replace('127.0.0.1:8000', `127.0.0.1:${target}`));
  }
  appendFileSync(join(state, 'lab.yml'), jobs);
  const args = [
    `--config.file=${join(state, 'lab.yml')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    `--storage.tsdb.path=${join(state, 'data')}`,
  ];
  // It looks up this machine's name before it reads anything: where no name server answers that takes two minutes.
  const env = { ...process.env, RES_OPTIONS: 'timeout:1 attempts:1' };
  const server = start(program, args, { env });
  const ended = server.ended.then(({ lines }) => {
    throw new Stop([...lines.slice(-20), '', 'Prometheus has ended.'].join('\n'));
  });
  const isReady = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/-/ready`).catch(() => undefined);
    return answer?.ok;
  };
  const ready = (async () => {
    while (!(await isReady())) await new Promise((resolve) => setTimeout(resolve, 50));
  })();
  await Promise.race([ready, ended]);
  return { ended, stop: server.stop };
}
