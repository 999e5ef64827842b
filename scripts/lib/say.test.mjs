// Every command says what it is for, and of an option that it does not know that there is none, before it does anything.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';

import { HANGS_AFTER_MS } from '../../tests/worker/support/until.mjs';
import { inRoot } from './paths.mjs';

const { scripts } = JSON.parse(readFileSync(inRoot('package.json'), 'utf8'));

/** What a command of package.json says with these options, and its exit code. */
const says = (command, ...options) =>
  new Promise((resolve) => {
    const [, ...words] = scripts[command].replace(/^exec /, '').split(' ');
    execFile(
      process.execPath,
      [...words, ...options],
      { cwd: inRoot(), timeout: HANGS_AFTER_MS },
      (error, out, err) => resolve({ code: error ? error.code : 0, out, err }),
    );
  });

describe('a command', { concurrency: 2 }, () => {
  for (const command of Object.keys(scripts))
    it(`says what it is for: ${command}`, async () => {
      const { code, out } = await says(command, '--help');
      assert.equal(code, 0);
      // `npm run check` is a part of `npm test`, and the operator's commands share a script.
      assert.match(out, command === 'check' ? /^`npm test`/ : new RegExp(`npm (run )?${command}\\b`));
      assert.doesNotMatch(out, /Setting up|^\/\//m);
    });

  for (const command of ['scale', 'shards', 'bench', 'soak', 'load'])
    it(`refuses an option that it does not know: ${command}`, async () => {
      const { code, out, err } = await says(command, '--nope');
      assert.equal(code, 1);
      assert.match(err, /--nope/);
      assert.doesNotMatch(out + err, /Setting up|\n {4}at /);
    });

  for (const [file, said] of [
    ['/nowhere', /There is no file \/nowhere/],
    ['package.json', /neither a SQLite file nor/],
    ['README.md', /neither a SQLite file nor/],
  ])
    it(`says what cannot be shown as an object: ${file}`, async () => {
      const { code, err } = await says('object', file);
      assert.equal(code, 1);
      assert.match(err, said);
      assert.doesNotMatch(err, /\n {4}at /);
    });
});
