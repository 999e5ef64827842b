// What the runtime writes while nobody reads it: a test that asks a binding stops its process until the runtime answers.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { ownFolder } from '../../scripts/lib/leftovers.mjs';
import { root } from './support/harness.mjs';
import { readAll } from './support/runtime-log.mjs';
import { HANGS_AFTER_MS, until } from './support/until.mjs';
import { createTestHarness } from './support/wrangler.mjs';

/** More than the pipe to a process holds by far. */
const LINES = 4_000;

const WORKER = `export class Thing {}
export default {
  async fetch() {
    console.log('begun');
    await scheduler.wait(100);
    for (let line = 1; line <= ${LINES}; line += 1) console.log('line ' + line);
    return new Response('written');
  },
};
`;

test(
  'a runtime whose log nobody reads answers, and all of it is there when it is asked for',
  { timeout: HANGS_AFTER_MS },
  async (t) => {
    const main = join(ownFolder('writes'), 'worker.mjs');
    writeFileSync(main, WORKER);
    const config = {
      name: 'writes',
      main,
      compatibility_date: '2026-10-20',
      durable_objects: { bindings: [{ name: 'THINGS', class_name: 'Thing' }] },
      migrations: [{ tag: 'v1', new_sqlite_classes: ['Thing'] }],
    };
    const server = createTestHarness({ root, workers: [{ config }] });
    const { url } = await server.listen();
    t.after(() => server.close());
    const lines = () => {
      readAll();
      return server.getLogs().map(({ message }) => message.trim());
    };
    const { THINGS } = await server.getWorker().getEnv();
    const answer = server.getWorker().fetch(url);
    await until('it writes soon', () => lines().includes('begun'));
    // This process does nothing while the runtime writes, and then waits for it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
    assert.equal(THINGS.idFromName('a').toString().length, 64);
    assert.equal(await (await answer).text(), 'written');
    const read = lines().filter((line) => line.startsWith('line '));
    assert.deepEqual(
      read,
      Array.from({ length: LINES }, (_, index) => `line ${index + 1}`),
    );
  },
);
