// Rust as the tidy test reads it: the code without comments, texts and tests, and what its modules use of one another.
// It is no parser: what a macro makes is not seen, and an inline module counts as a part of its file.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const TOKENS =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|\bb?r(#*)"[\s\S]*?"\1|b?"(?:\\[\s\S]|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|[\s\S])|[^'\\\n])'/g;

const blank = (text) => text.replaceAll(/[^\n]/g, ' ');

/** `{ code, comments }`: in `code`, comments and texts are blank, so that every line keeps its number. */
export function split(source) {
  const comments = [];
  const code = source.replaceAll(TOKENS, (token, _, at) => {
    const isComment = token.startsWith('//') || token.startsWith('/*');
    if (isComment) comments.push({ at, text: token });
    return blank(token);
  });
  return { code, comments };
}

/** The code with everything under `#[cfg(test)]` blank. */
export function withoutTests(code) {
  let rest = code;
  for (let at = rest.indexOf('#[cfg(test)]'); at >= 0; at = rest.indexOf('#[cfg(test)]', at)) {
    const end = endOfItem(rest, at);
    rest = rest.slice(0, at) + blank(rest.slice(at, end)) + rest.slice(end);
  }
  return rest;
}

function endOfItem(code, from) {
  let depth = 0;
  for (let at = from; at < code.length; at += 1) {
    if (code[at] === '{') depth += 1;
    if (code[at] === '}' && --depth === 0) return at + 1;
    if (code[at] === ';' && depth === 0) return at + 1;
  }
  return code.length;
}

/** Every module that is a file: `{ path: ['edge', 'desk'], file, code }`, tests apart. The crate's root has the empty path. */
export function modules(src) {
  return readdirSync(src, { recursive: true })
    .filter((file) => file.endsWith('.rs'))
    .sort()
    .map((file) => {
      const path = file.replace(/\.rs$/, '').split('/');
      if (['mod', 'lib', 'main'].includes(path.at(-1)) && (path.at(-1) === 'mod' || path.length === 1))
        path.pop();
      const code = withoutTests(split(readFileSync(join(src, file), 'utf8')).code);
      return { path, file: join(src, file), code };
    });
}

/** The paths of a `use`: `a::{b, c::{self, d}}` is `a::b`, `a::c` and `a::c::d`; with the name that each has here. */
export function usedPaths(tree, before = []) {
  const at = tree.indexOf('{');
  if (at < 0) {
    const [path, alias] = tree.trim().split(/\s+as\s+/);
    const segments = [...before, ...path.split('::').map((segment) => segment.trim())].filter(Boolean);
    if (segments.at(-1) === 'self' && segments.length > 1) segments.pop();
    return segments.length > 0 ? [{ path: segments, name: alias ?? segments.at(-1) }] : [];
  }
  const head = [...before, ...tree.slice(0, at).split('::')].map((segment) => segment.trim()).filter(Boolean);
  const parts = [];
  let depth = 0;
  let part = '';
  for (const letter of tree.slice(at + 1, tree.lastIndexOf('}'))) {
    if (letter === '{') depth += 1;
    if (letter === '}') depth -= 1;
    if (letter === ',' && depth === 0) {
      parts.push(part);
      part = '';
    } else part += letter;
  }
  return [...parts, part].filter((one) => one.trim()).flatMap((one) => usedPaths(one, head));
}

/** What each module uses of others: a map from `a::b` to a set of `c::d`. */
export function uses(all) {
  const known = new Map(all.map((module) => [module.path.join('::'), module]));
  return new Map(all.map((module) => [module.path.join('::'), usesOf(module, known)]));
}

function usesOf({ path, code }, known) {
  const found = new Set();
  const absolute = ([first, ...rest]) => {
    if (first === 'crate') return rest;
    if (first === 'self') return [...path, ...rest];
    if (first !== 'super') return known.has([...path, first].join('::')) ? [...path, first, ...rest] : null;
    const up = [...path.slice(0, -1)];
    while (rest[0] === 'super') {
      up.pop();
      rest.shift();
    }
    return [...up, ...rest];
  };
  const moduleOf = (segments) => {
    for (let length = segments.length; length >= 0; length -= 1) {
      const name = segments.slice(0, length).join('::');
      if (known.has(name)) return { name, whole: length === segments.length };
    }
    return null;
  };
  const names = new Map();
  // Who may see an item is no use of the module that may.
  const rest = code.replaceAll(/\bpub\s*\([^)]*\)/g, '').replaceAll(/\buse\s+([^;]+);/g, (_, tree) => {
    for (const used of usedPaths(tree)) {
      const segments = absolute(used.path);
      const target = segments && moduleOf(segments);
      if (!target) continue;
      // Of a module that is named, what counts is what is used of it.
      if (target.whole && used.path.at(-1) !== '*') names.set(used.name, segments);
      else found.add(target.name);
    }
    return '';
  });
  for (const [, text] of rest.matchAll(/(?<![:\w])((?:\w+)(?:::\w+)+)/g)) {
    const [first, ...more] = text.split('::');
    const segments = names.has(first) ? [...names.get(first), ...more] : absolute([first, ...more]);
    const target = segments && moduleOf(segments);
    if (target) found.add(target.name);
  }
  found.delete(path.join('::'));
  return found;
}

/**
 * The circles of a crate, folder by folder: `[{ folder, circle: ['a', 'b', 'a'] }]`. The modules of a folder, each with all that is below
 * it, and the folder's own file (`mod.rs`, here `self`), must use one another in one direction only.
 */
export function circles(all) {
  const used = uses(all);
  const folders = new Set(
    all.flatMap(({ path }) => path.map((_, length) => path.slice(0, length).join('::'))),
  );
  return [...folders].sort().flatMap((folder) => {
    const graph = new Map();
    for (const [from, targets] of used) {
      const source = childOf(folder, from);
      for (const to of targets) {
        const target = childOf(folder, to);
        if (source && target && source !== target)
          graph.set(source, (graph.get(source) ?? new Set()).add(target));
      }
    }
    const circle = circleOf(graph);
    return circle ? [{ folder, circle }] : [];
  });
}

/** The part of a folder that a module stands in; `self` is the folder's own file. */
function childOf(folder, module) {
  if (module === folder) return 'self';
  const below = folder === '' ? module : module.startsWith(`${folder}::`) && module.slice(folder.length + 2);
  return below ? below.split('::')[0] : null;
}

function circleOf(graph) {
  const done = new Set();
  const way = [];
  const visit = (node) => {
    const at = way.indexOf(node);
    if (at >= 0) return [...way.slice(at), node];
    if (done.has(node)) return null;
    way.push(node);
    for (const next of graph.get(node) ?? []) {
      const circle = visit(next);
      if (circle) return circle;
    }
    way.pop();
    done.add(node);
    return null;
  };
  for (const node of graph.keys()) {
    const circle = visit(node);
    if (circle) return circle;
  }
  return null;
}
