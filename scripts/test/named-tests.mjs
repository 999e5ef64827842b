// Fails when docs/protocol.md names a test that does not exist, or has a row in its table that names none: what is said to
// be shown must be shown. A test is named as [file](../tests/…): “title”; what a title takes from a variable may be anything.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { inRoot } from '../lib/paths.mjs';

const DOCUMENT = inRoot('docs', 'protocol.md');
const HEADING = '## What the standard asks and where it is shown';
const NAMED = /\[[^\]]+\]\((\.\.\/tests\/[^)]+)\): “([^”]+)”/g;
const TITLE = /\btest\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/g;
/** A title that is made of variables alone would be any title. */
const FIXED_MIN = 8;

const [, section] = readFileSync(DOCUMENT, 'utf8').split(`${HEADING}\n`);
const rows = section?.split('\n## ')[0].match(/^\|.*\|$/gm) ?? [];
const claims = rows.filter((row) => !/^\|[\s|:-]+$/.test(row) && !/\| shown by\s*\|$/.test(row));
if (claims.length === 0) complain(`“${HEADING}” has no rows`);
for (const row of claims) {
  const named = [...row.matchAll(NAMED)];
  if (named.length === 0) complain(`no test is named: ${row}`);
  for (const [, file, title] of named) {
    const path = join(dirname(DOCUMENT), file);
    if (!existsSync(path)) complain(`${file} does not exist`);
    else if (!titles(path).some((pattern) => pattern.test(title))) complain(`${file} has no test “${title}”`);
  }
}

/** The titles of a file's tests, and of those that it takes from a file beside it, as patterns. */
function titles(path) {
  const source = readFileSync(path, 'utf8');
  const shared = [...source.matchAll(/from '(\.\/support\/[^']+)'/g)].map(([, file]) =>
    readFileSync(join(dirname(path), file), 'utf8'),
  );
  return [source, ...shared].flatMap((text) => [...text.matchAll(TITLE)].map(pattern));
}

function pattern([, single, double, template]) {
  const parts = template === undefined ? [single ?? double] : template.split(/\$\{[^}]*\}+/);
  const fixed = parts.map((part) => part.replaceAll(/\\(.)/g, '$1'));
  const isTitle = fixed.join('').length >= FIXED_MIN;
  const escaped = fixed.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return isTitle ? new RegExp(`^${escaped.join('.+')}$`) : /$^/;
}

function complain(what) {
  console.log(`docs/protocol.md: ${what}`);
  process.exitCode = 1;
}
