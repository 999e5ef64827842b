// Runs several test files in one process, one after the other, so that those with equal settings share their Workers (harness.mjs,
// `shareSite`). Each file is a suite of its own: its hooks are for its tests alone.
//
//     node --test-reporter=spec tests/worker/support/together.mjs tests/worker/rides-api.test.mjs tests/worker/rides-form.test.mjs

import { basename, resolve } from 'node:path';
import { before, describe } from 'node:test';
import { pathToFileURL } from 'node:url';

const files = process.argv.slice(2).map((file) => {
  const { promise: read, resolve: isRead } = Promise.withResolvers();
  describe(basename(file, '.test.mjs'), async () => {
    await import(pathToFileURL(resolve(file)).href).finally(isRead);
  });
  return read;
});
// What a file does while it is read must not meet the tests of another one.
before(() => Promise.all(files));
