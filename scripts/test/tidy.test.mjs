// The tidy test can fail: each of its rules, on a small made-up tree, and its baseline.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';

import { check } from './tidy/rules.mjs';
import { circles, modules, split, usedPaths, withoutTests } from './tidy/rust.mjs';

const trees = [];
after(() => {
  for (const tree of trees) rmSync(tree, { recursive: true });
});

/** A tree of these files, as git sees it. */
function tree(files) {
  const root = mkdtempSync(join(tmpdir(), 'tidy-'));
  trees.push(root);
  execFileSync('git', ['init', '-q'], { cwd: root });
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

/** What is wrong with a tree, by rules that are strict enough for a small one. */
function complaints(files, more = {}) {
  return check(tree({ 'src/lib.rs': '', ...files }), {
    crates: [{ name: 'house', dir: '.', old: { items: ['Courier'], modules: ['desk'] } }],
    limits: [{ files: /\.rs$/, lines: 5 }],
    documents: /\.md$/,
    claims: [],
    scripts: ['build', 'test'],
    suites: ['worker: jobs'],
    baseline: {},
    ...more,
  });
}

const assertOnly = (found, pattern) => {
  assert.equal(found.length, 1, found.join('\n'));
  assert.match(found[0], pattern);
};

test('a tree in order has nothing to complain of', () => {
  const files = {
    'src/lib.rs': 'mod a;\nmod b;\n',
    'src/a.rs':
      'use crate::b::B;\n// crate::a is used by nobody; /v1/tmp/x is no file of a machine.\npub fn a(_: B) {}\n',
    'src/b.rs': 'pub struct B; // no Courier any more\n',
    'README.md':
      '# A house\n\n`npm run build`, `npm test -- jobs`, `src/{a,b}.rs`, `src/*.rs` and [this](#a-house).\n',
  };
  assert.deepEqual(complaints(files), []);
});

test('a crate that is not listed is found', () => {
  const crate = { 'more/Cargo.toml': '[package]\n', 'more/src/lib.rs': '' };
  assertOnly(complaints(crate), /^more is a crate that .* does not list: add it$/);
});

test('limiters of two Workers that would count together are found', () => {
  const limiter = (id) => `[[ratelimits]]\nname = "A"\nnamespace_id = "${id}"\n`;
  assert.deepEqual(complaints({ 'wrangler.toml': limiter(1), 'desk/wrangler.toml': limiter(2) }), []);
  const found = complaints({ 'wrangler.toml': limiter(1), 'desk/wrangler.toml': limiter(2) + limiter(1) });
  assertOnly(found, /limiter has the namespace_id "1" of another one$/);
});

test('modules in a circle are found, however they name each other', () => {
  const b = 'pub struct B;\n';
  for (const [a, back] of [
    ['use crate::b::B;\n', 'use crate::a::A;\n'],
    ['use super::b::{self, B as Other};\n', 'fn f() { crate::a::g(); }\n'],
    ['use crate::b;\nfn f() { b::g(); }\n', 'use super::{a};\nfn f() { a::g(); }\n'],
  ]) {
    const files = { 'src/lib.rs': 'mod a;\nmod b;\n', 'src/a.rs': a, 'src/b.rs': b + back };
    assertOnly(complaints(files), /^house: modules in a circle: (a → b → a|b → a → b)$/);
  }
});

test('folders in a circle are found, and a folder with its own file', () => {
  const folders = {
    'src/x/mod.rs': 'pub mod one;\npub mod two;\n',
    'src/x/one.rs': 'use crate::y::Y;\n',
    'src/x/two.rs': 'pub struct Two;\n',
    'src/y.rs': 'use crate::x::two::Two;\npub struct Y;\n',
  };
  assertOnly(complaints(folders), /^house: modules in a circle: x → y → x$/);
  const parent = {
    'src/x/mod.rs': 'mod one;\npub struct X;\nfn f() { one::g(); }\n',
    'src/x/one.rs': 'use super::X;\n',
  };
  assertOnly(complaints(parent), /^house::x: modules in a circle: self → one → self$/);
});

test('that a folder may see an item makes no circle', () => {
  const files = {
    'src/x/mod.rs': 'mod one;\nfn f() { one::g(); }\n',
    'src/x/one.rs': 'pub(in crate::x) fn g() {}\n',
  };
  assert.deepEqual(complaints(files), []);
});

test('tests, comments and texts make no circle', () => {
  const files = {
    'src/a.rs': 'use crate::b::B;\n',
    'src/b.rs':
      '/// See crate::a::A.\nconst T: &str = "crate::a::A";\n#[cfg(test)]\nmod tests { use crate::a::A; }\n',
  };
  assert.deepEqual(complaints(files), []);
});

test('a long file is found, and its tests are not counted', () => {
  const line = 'fn f() {}\n';
  assertOnly(complaints({ 'src/a.rs': line.repeat(6) }), /^src\/a\.rs has 6 lines, more than 5/);
  const tests = `#[cfg(test)]\nmod tests {\n${line.repeat(9)}}\n`;
  assert.deepEqual(complaints({ 'src/a.rs': line.repeat(4) + tests }), []);
});

test('old names are found in items and modules, and not in texts', () => {
  assertOnly(complaints({ 'src/a.rs': 'struct Courier;\n' }), /^src\/a\.rs: "Courier" is an old name/);
  assertOnly(complaints({ 'src/desk/mod.rs': '' }), /^src\/desk\/mod\.rs: "mod desk" is an old name/);
  assert.deepEqual(
    complaints({ 'src/a.rs': 'const T: &str = "Courier"; // Courier\nstruct Couriers;\n' }),
    [],
  );
});

test('a path of one machine is found in comments of every language', () => {
  const path = ['', 'home', 'ada', 'notes'].join('/');
  for (const [file, text] of [
    ['src/a.rs', `// see ${path}\n`],
    ['a.mjs', `const a = 1; // see ${path}\n`],
    ['a.css', `a { color: red } /* see ${path} */\n`],
    ['a.toml', `a = 1 # see ${path}\n`],
  ]) {
    assertOnly(complaints({ [file]: text }), /a comment names a path of one machine: \/home\/ada\/notes/);
  }
  assert.deepEqual(complaints({ 'a.mjs': `const a = '${path}';\n` }), []);
});

test('files, links and commands of documents must be there', () => {
  for (const [text, pattern] of [
    ['`src/b.rs`', /`src\/b\.rs` is no file or folder/],
    ['`src/{lib,b}.rs`', /is no file or folder/],
    ['`b.rs`', /is the name of no file/],
    ['[there](docs/b.md)', /leads nowhere/],
    ['[there](#nowhere)', /names no heading/],
    ['`npm run biuld`', /package\.json has no script biuld/],
    ['```sh\nA=1 npm test -- jbos   # the jobs\n```', /no suite has "jbos" in its name/],
    ['`npm test -- "the jbos of others"`', /no suite has "the jbos of others" in its name/],
    ['`cargo test --test nothing`', /there is no test nothing/],
    ['`node scripts/b.mjs`', /there is no scripts\/b\.mjs/],
  ]) {
    assertOnly(complaints({ 'README.md': `${text}\n` }), pattern);
  }
});

test('a table of modules has each module, and no other', () => {
  const table = '| module | what |\n|---|---|\n| `a`, `b` | what the house needs |\n';
  const files = { 'src/a.rs': '', 'src/b.rs': '', 'README.md': table };
  assert.deepEqual(complaints({ ...files, 'src/lib.rs': 'mod a;\npub mod b;\n' }), []);
  assertOnly(complaints({ ...files, 'src/lib.rs': 'mod a;\n' }), /README\.md: there is no module b/);
  const more = { 'src/c.rs': '', 'src/lib.rs': 'mod a;\nmod b;\npub(crate) mod c;\n' };
  assertOnly(complaints({ ...files, ...more }), /README\.md: no row has the module c/);
});

test('a claim must name a test that there is', () => {
  const claims = [{ file: 'docs/p.md', heading: '## Claims' }];
  const table = (row) => `## Claims\n| claim | shown by |\n|---|---|\n${row}\n`;
  const files = { 'tests/t.mjs': "test('it holds for all', () => {});\n" };
  const found = (row) => complaints({ ...files, 'docs/p.md': table(row) }, { claims });
  assert.deepEqual(found('| a | [t](../tests/t.mjs): “it holds for all” |'), []);
  assertOnly(found('| a | [t](../tests/t.mjs): “it holds for some” |'), /has no test “it holds for some”/);
  assertOnly(found('| a | everybody knows |'), /no test is named/);
  assertOnly(found(''), /has no rows/);
});

test('the baseline excuses what it names, and nothing in vain', () => {
  const long = { 'src/a.rs': 'fn f() {}\n'.repeat(6) };
  const baseline = { 'long files': ['src/a.rs'] };
  assert.deepEqual(complaints(long, { baseline }), []);
  assertOnly(complaints({}, { baseline }), /the baseline of long files has "src\/a\.rs".*remove it/);
  assert.equal(complaints({ ...long, 'src/b.rs': long['src/a.rs'] }, { baseline }).length, 1);
});

test('Rust is read with its comments, texts and lifetimes', () => {
  const source = 'let a = "x // y"; // z\nlet b = r#"{"}"#; let c = \'{\'; fn f<\'a>(_: &\'a str) {}\n';
  const { code, comments } = split(source);
  assert.equal(code.length, source.length);
  assert.deepEqual(
    comments.map(({ text }) => text),
    ['// z'],
  );
  assert.match(code, /fn f<'a>\(_: &'a str\) \{\}/);
  assert.equal(withoutTests('a;\n#[cfg(test)]\nmod t { { } }\nb;\n').replaceAll(/\s/g, ''), 'a;b;');
  const names = usedPaths('a::{b, c::{self, d as e}, f::*}').map(
    ({ path, name }) => `${path.join('::')}=${name}`,
  );
  assert.deepEqual(names, ['a::b=b', 'a::c=c', 'a::c::d=e', 'a::f::*=*']);
});

test('a circle is told with its folder', () => {
  const root = tree({
    'src/lib.rs': 'mod a;',
    'src/a/mod.rs': 'mod b;\nmod c;',
    'src/a/b.rs': '',
    'src/a/c.rs': '',
  });
  assert.deepEqual(circles(modules(join(root, 'src'))), []);
  writeFileSync(join(root, 'src/a/b.rs'), 'use super::c::C;\n');
  writeFileSync(join(root, 'src/a/c.rs'), 'use crate::a::b::B;\n');
  assert.deepEqual(
    circles(modules(join(root, 'src'))).map(({ folder }) => folder),
    ['a'],
  );
});
