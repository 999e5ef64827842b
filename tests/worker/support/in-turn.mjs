// Runs several test files in one process, one after the other: it reads a file when all of the one before it is over. So each has its Workers to
// itself, and what takes as long as a small file's tests, wrangler and the checks of answers against the API's document, is made ready once.
//
//     node --test-reporter=spec tests/worker/support/in-turn.mjs tests/worker/keys.test.mjs tests/worker/card.test.mjs

import { basename, resolve } from 'node:path';
import { after, describe } from 'node:test';
import { pathToFileURL } from 'node:url';

import { open } from './harness.mjs';

/** A process whose Workers run does not end: a hook that is not the file's own does not close them. */
async function assertClosed(file) {
  if (open.size === 0) return;
  await Promise.all([...open].map((site) => site.close()));
  throw new Error(`${file} has left a site open`);
}

for (const file of process.argv.slice(2)) {
  const { promise: over, resolve: isOver } = Promise.withResolvers();
  describe(basename(file, '.test.mjs'), async () => {
    try {
      await import(pathToFileURL(resolve(file)).href);
      // Its own hooks come first.
      after(() => assertClosed(file).finally(isOver));
    } catch (error) {
      isOver();
      throw error;
    }
  });
  await over;
}
