// The rules of the tidy test, each over a whole tree. A rule gives what it finds as `{ key, what }`; `check` takes off what the
// baseline excuses, and complains of what it excuses in vain.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { claims, documents, moduleTables } from './documents.mjs';
import { circles, modules, split, withoutTests } from './rust.mjs';

/** Comments that begin at a line's first sign, or after a space; what stands in a text of the same form is taken for one. */
const COMMENTS = {
  rs: null,
  mjs: /(?:^|\s)\/\/.*$|^\s*\*.*$|\/\*[\s\S]*?\*\//gm,
  js: /(?:^|\s)\/\/.*$|^\s*\*.*$|\/\*[\s\S]*?\*\//gm,
  css: /\/\*[\s\S]*?\*\//g,
  html: /<!--[\s\S]*?-->|\{#[\s\S]*?#\}/g,
  sql: /--.*$/gm,
  ...Object.fromEntries(['toml', 'py', 'sh', 'yml', 'yaml'].map((ext) => [ext, /(?:^|\s)#.*$/gm])),
};
const MACHINE_PATH = /(?<![\w.:/}])\/(?:home|work|tmp)\/\w[\w./-]*/;

/** Every file that git knows, or would take. */
export const filesOf = (root) =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((file) => file && existsSync(join(root, file)));

/** All complaints about a tree. See tidy.mjs for what `config` says. */
export function check(root, config) {
  const files = filesOf(root);
  const tree = { root, files, read: (file) => readFileSync(join(root, file), 'utf8') };
  return [
    ...unlisted(tree, config),
    ...excused('circles', circlesOf(tree, config), config),
    ...excused('long files', longFiles(tree, config), config),
    ...excused('old names', oldNames(tree, config), config),
    ...machinePaths(tree),
    ...sharedLimiters(tree),
    ...documented(tree, config),
  ];
}

function excused(rule, found, { baseline }) {
  const entries = baseline[rule] ?? [];
  const keys = new Set(found.map(({ key }) => key));
  return [
    ...found.filter(({ key }) => !entries.includes(key)).map(({ what }) => what),
    ...entries
      .filter((entry) => !keys.has(entry))
      .map((entry) => `the baseline of ${rule} has "${entry}", which is no longer needed: remove it`),
  ];
}

/** A crate that nobody lists would be held to nothing. */
function unlisted({ files }, { crates }) {
  const dirs = files.filter((file) => /(^|\/)Cargo\.toml$/.test(file)).map((file) => dirname(file));
  return dirs
    .filter((dir) => files.some((file) => file.startsWith(join(dir, 'src/'))))
    .filter((dir) => !crates.some((crate) => crate.dir === dir))
    .map((dir) => `${dir} is a crate that scripts/test/tidy.mjs does not list: add it`);
}

function circlesOf({ root }, { crates }) {
  return crates.flatMap(({ name, dir }) =>
    circles(modules(join(root, dir, 'src'))).map(({ folder, circle }) => {
      const key = [name, folder].filter(Boolean).join('::');
      return { key, what: `${key}: modules in a circle: ${circle.join(' → ')}` };
    }),
  );
}

/** Of Rust, the tests inside of a file are not counted: they may be as long as they need. */
function longFiles({ files, read }, { limits }) {
  return files.flatMap((file) => {
    const limit = limits.find(({ files: pattern }) => pattern.test(file))?.lines;
    if (!limit) return [];
    const lines = linesOf(file, read(file));
    return lines > limit
      ? [{ key: file, what: `${file} has ${lines} lines, more than ${limit}: split it` }]
      : [];
  });
}

function linesOf(file, source) {
  if (!file.endsWith('.rs')) return source.trimEnd().split('\n').length;
  const { code } = split(source);
  const kept = withoutTests(code).split('\n');
  const inTests = code.split('\n').filter((line, at) => line.trim() !== '' && kept[at].trim() === '').length;
  return source.trimEnd().split('\n').length - inTests;
}

/** Names that an engineer would have to guess at: of items (words of code, not of comments or texts) and of modules. */
function oldNames({ files, read }, { crates }) {
  return crates.flatMap(({ name, dir, old }) => {
    const found = new Map();
    const own = [join(dir, 'src'), join(dir, 'tests')].map((folder) => `${folder}/`);
    for (const file of files.filter(
      (one) => one.endsWith('.rs') && own.some((folder) => one.startsWith(folder)),
    )) {
      const { code } = split(read(file));
      const words = new Set(code.match(/[A-Za-z]\w*/g));
      for (const word of old.items) if (words.has(word)) found.set(word, file);
      const path = file
        .slice(dir === '.' ? 0 : dir.length + 1)
        .split('/')
        .map((part) => part.replace(/\.rs$/, ''));
      for (const word of old.modules) if (path.includes(word)) found.set(`mod ${word}`, file);
    }
    return [...found].map(([word, file]) => ({
      key: `${name}: ${word}`,
      what: `${file}: "${word}" is an old name: see the list in scripts/test/tidy.mjs`,
    }));
  });
}

function machinePaths({ files, read }) {
  return files.flatMap((file) => {
    const ext = file.split('.').at(-1);
    if (!Object.hasOwn(COMMENTS, ext)) return [];
    const source = read(file);
    const comments =
      ext === 'rs' ? split(source).comments.map(({ text }) => text) : (source.match(COMMENTS[ext]) ?? []);
    const path = comments.map((comment) => comment.match(MACHINE_PATH)?.[0]).find(Boolean);
    return path ? [`${file}: a comment names a path of one machine: ${path}`] : [];
  });
}

/** Limiters with the same id count together in an account at Cloudflare, whichever Workers they are of. */
function sharedLimiters({ files, read }) {
  const configs = files.filter((file) => /(^|\/)wrangler\.toml$/.test(file));
  const ids = configs.flatMap((file) =>
    [...read(file).matchAll(/^namespace_id = "(\w+)"$/gm)].map(([, id]) => ({ file, id })),
  );
  return ids
    .filter(({ id }, at) => ids.findIndex((other) => other.id === id) < at)
    .map(({ file, id }) => `${file}: a limiter has the namespace_id "${id}" of another one`);
}

function documented({ root, files, read }, { documents: wanted, claims: claimed, scripts, suites }) {
  const docs = files.filter((file) => wanted.test(file)).map((file) => ({ file, text: read(file) }));
  return [
    ...documents(docs, { root, files, scripts, suites }),
    ...moduleTables(docs, { root, files }),
    ...claimed.flatMap(({ file, heading }) => claims({ file, text: read(file) }, heading, root)),
  ];
}
