// What is a file of tests is run by `npm test`: one that no suite names would be believed to pass.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { isAbsolute, relative } from 'node:path';
import { test } from 'node:test';

import { root } from '../lib/paths.mjs';
import { suites } from './suites.mjs';

const isTest = (file) => /\.test\.mjs$/.test(file);
/** Of applications of others, which have to be installed first: scripts/gate-apps.mjs runs them. */
const BY_HAND = 'tests/apps/';

test('each file of tests is in a suite', () => {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  const named = suites().flatMap(({ command }) => command.filter(isTest));
  const run = new Set(named.map((file) => (isAbsolute(file) ? relative(root, file) : file)));
  assert.deepEqual(
    listed.split('\n').filter((file) => isTest(file) && !file.startsWith(BY_HAND) && !run.has(file)),
    [],
  );
});

test('node is given one file, or what runs several of them', () => {
  const several = suites().filter(({ command }) => command.filter(isTest).length > 1);
  assert.ok(several.length > 0);
  for (const { name, command } of several)
    assert.match(
      command.find((part) => part.endsWith('.mjs')),
      /\/support\/(together|in-turn)\.mjs$/,
      name,
    );
});
