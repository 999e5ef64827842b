// What documents name must be there: files, headings, commands, and the tests that show what is claimed.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** A path in backquotes is one if it begins so; other words with slashes may be anything. */
const CODE = /`([^`\n]+)`/g;
const LINK = /\]\(([^)\s]+)\)/g;
const FENCE = /^```[^\n]*\n([\s\S]*?)^```/gm;
const FILE_NAME = /^[\w-]+\.(?:rs|mjs|js|css|html|md|toml|json|sql|txt)$/;

/** `{ file, text }` of each document against the files of the tree, the scripts of package.json and the names of the suites. */
export function documents(docs, { root, files, scripts, suites }) {
  const folders = new Set(files.flatMap(parents));
  const names = new Set(files.map((file) => file.split('/').at(-1)));
  const tops = new Set([...folders].filter((folder) => !folder.includes('/')));
  return docs.flatMap(({ file, text }) => {
    const wrong = [];
    const isThere = (path) => [path, join(dirname(file), path)].some((one) => exists(one, files, folders));
    const prose = text.replaceAll(FENCE, '');
    for (const [, code] of prose.matchAll(CODE)) {
      const path = code.replace(/\/$/, '');
      const isPath = /^[\w.{},*/-]+$/.test(path) && path.includes('/') && tops.has(path.split('/')[0]);
      if (isPath && !alternatives(path).every(isThere)) wrong.push(`\`${code}\` is no file or folder`);
      if (FILE_NAME.test(path) && !names.has(path)) wrong.push(`\`${code}\` is the name of no file`);
    }
    for (const [, link] of prose.matchAll(LINK)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path, anchor] = link.split('#');
      const target = path ? join(dirname(file), path) : file;
      if (!exists(target.replace(/\/$/, ''), files, folders)) wrong.push(`the link to ${link} leads nowhere`);
      else if (anchor && !anchors(readFileSync(join(root, target), 'utf8')).has(anchor))
        wrong.push(`the link to ${link} names no heading`);
    }
    for (const command of commands(text)) wrong.push(...unreal(command, { files, scripts, suites }));
    return [...new Set(wrong)].map((what) => `${file}: ${what}`);
  });
}

const MODULE_TABLE = /^\| module \| what \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)/m;

/** The table of a crate's modules, in its README, against its `lib.rs`: each module has a row, and each row's modules are there. */
export function moduleTables(docs, { root, files }) {
  return docs.flatMap(({ file, text }) => {
    const lib = join(dirname(file), 'src', 'lib.rs');
    const [, rows] = text.match(MODULE_TABLE) ?? [];
    if (!rows || !files.includes(lib)) return [];
    const source = readFileSync(join(root, lib), 'utf8');
    const modules = [...source.matchAll(/^(?:pub(?:\([^)]*\))? )?mod (\w+);/gm)].map(([, name]) => name);
    const cells = rows.split('\n').map((row) => row.split('|')[1] ?? '');
    const named = cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name));
    return [
      ...modules
        .filter((name) => !named.includes(name))
        .map((name) => `${file}: no row has the module ${name}`),
      ...named.filter((name) => !modules.includes(name)).map((name) => `${file}: there is no module ${name}`),
    ];
  });
}

const parents = (file) => {
  const parts = file.split('/').slice(0, -1);
  return parts.map((_, at) => parts.slice(0, at + 1).join('/'));
};

function exists(path, files, folders) {
  if (!path.includes('*')) return files.includes(path) || folders.has(path) || path === '.';
  const pattern = path.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'));
  const regexp = new RegExp(`^${pattern.join('[^/]*')}$`);
  return [...files, ...folders].some((file) => regexp.test(file));
}

/** `a/{b,c}` is `a/b` and `a/c`. */
function alternatives(path) {
  const braces = path.match(/^(.*)\{([^{}]*)\}(.*)$/);
  if (!braces) return [path];
  const [, before, list, after] = braces;
  return list.split(',').flatMap((one) => alternatives(`${before}${one.trim()}${after}`));
}

const anchors = (text) =>
  new Set(
    [...text.replaceAll(FENCE, '').matchAll(/^#+\s+(.*)$/gm)].map(([, heading]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );

/** Every command of npm, cargo and node, in backquotes or in a block. */
function commands(text) {
  const blocks = [...text.matchAll(FENCE)].flatMap(([, block]) => block.split('\n'));
  const inline = [...text.replaceAll(FENCE, '').matchAll(CODE)].map(([, code]) => code);
  return [...blocks, ...inline].flatMap((line) =>
    line
      .replace(/\s#\s.*$/, '')
      .split(/&&|;|\|/)
      .map((command) => command.trim().replace(/^(?:\w+=\S+\s+)+/, ''))
      .filter((command) => /^(?:npm|cargo|node) /.test(command)),
  );
}

/** A name of a suite may be in quotes: it has spaces. */
const WORDS = /"[^"]*"|\S+/g;

function unreal(command, { files, scripts, suites }) {
  const words = command.match(WORDS);
  const wrong = (what) => [`\`${command}\`: ${what}`];
  if (words[0] === 'npm' && ['run', 'start', 'test'].includes(words[1])) {
    const script = words[1] === 'run' ? words[2] : words[1];
    if (script && !scripts.includes(script)) return wrong(`package.json has no script ${script}`);
    const wanted = script === 'test' && words.includes('--') ? words.slice(words.indexOf('--') + 1) : [];
    const named = wanted
      .filter((part) => /^(?:[\w:-]+|"[^"…]+")$/.test(part))
      .map((part) => part.replaceAll('"', ''));
    const unknown = named.filter((part) => !suites.some((name) => name.includes(part)));
    return unknown.length > 0 ? wrong(`no suite has "${unknown.join('", "')}" in its name`) : [];
  }
  const test = words[0] === 'cargo' && words.includes('--test') && words[words.indexOf('--test') + 1];
  if (test) {
    const isTest = files.some((file) => new RegExp(`(^|/)tests/${test}(\\.rs|/main\\.rs)$`).test(file));
    return isTest ? [] : wrong(`there is no test ${test}`);
  }
  const script = words[0] === 'node' && words.slice(1).find((word) => !word.startsWith('-'));
  const isFile = script && (!script.includes('/') || exists(script, files, new Set()));
  return script && !isFile ? wrong(`there is no ${script}`) : [];
}

const NAMED = /\[[^\]]+\]\((\.\.\/tests\/[^)]+)\): “([^”]+)”/g;
const TITLE = /\btest\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/g;
/** A title that is made of variables alone would be any title. */
const FIXED_MIN = 8;

/**
 * Each row of the table below `heading` must name a test that there is, as [file](../tests/…): “title”; what a title takes from a variable
 * may be anything.
 */
export function claims({ file, text }, heading, root) {
  const document = join(root, file);
  const [, section] = text.split(`${heading}\n`);
  const rows = section?.split('\n## ')[0].match(/^\|.*\|$/gm) ?? [];
  const claimed = rows.filter((row) => !/^\|[\s|:-]+$/.test(row) && !/\| shown by\s*\|$/.test(row));
  if (claimed.length === 0) return [`${file}: “${heading}” has no rows`];
  return claimed.flatMap((row) => {
    const named = [...row.matchAll(NAMED)];
    if (named.length === 0) return [`${file}: no test is named: ${row}`];
    return named.flatMap(([, test, title]) => {
      const path = join(dirname(document), test);
      if (!existsSync(path)) return [`${file}: ${relative(root, path)} does not exist`];
      const isThere = titles(path).some((pattern) => pattern.test(title));
      return isThere ? [] : [`${file}: ${relative(root, path)} has no test “${title}”`];
    });
  });
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
