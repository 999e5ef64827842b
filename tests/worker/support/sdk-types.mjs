// Whether a value is what the official SDK's types say: a small reader of `stripe`'s declaration files, which are plain and regular.
//
//     misfits(charge, 'Charges', 'Charge')   // [] or ['Charge.amount: missing', …]
//
// It knows what these files use: interfaces, namespaces, type aliases, unions, arrays, literals and inline objects. What it does not know it
// throws on, so that nothing passes unread.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const resources = fileURLToPath(new URL('./resources/', import.meta.resolve('stripe')));

const files = new Map();

/** A declaration file as a scope: what it declares, by name, and what it imports. */
function load(path) {
  if (!files.has(path)) {
    const text = readFileSync(path, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '');
    const scope = { path, declared: new Map(), imported: new Map() };
    files.set(path, scope);
    for (const [, names, from] of text.matchAll(/import (?:type )?\{([^}]*)\} from '([^']+)'/g)) {
      for (const name of names.split(',').map((one) => one.trim().split(/ as /))) {
        if (from.startsWith('.')) scope.imported.set(name.at(-1), { name: name[0], from });
      }
    }
    read(new Words(text), scope);
  }
  return files.get(path);
}

/** The words and signs of a file. */
class Words {
  constructor(text) {
    this.all = text.match(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\w$]+|=>|[^\s]/g) ?? [];
    this.at = 0;
  }
  get next() {
    return this.all[this.at];
  }
  take(expected) {
    const word = this.all[this.at++];
    if (expected !== undefined && word !== expected) {
      const near = this.all.slice(Math.max(0, this.at - 8), this.at + 4).join(' ');
      throw new Error(`"${expected}" expected, not "${word}": ${near}`);
    }
    return word;
  }
  /** Up to a sign that is not inside of brackets; takes the sign, too. */
  until(...ends) {
    const taken = [];
    for (let depth = 0; this.at < this.all.length;) {
      const word = this.take();
      if (depth === 0 && ends.includes(word)) return taken;
      if ('{[(<'.includes(word)) depth += 1;
      if ('}])>'.includes(word)) depth -= 1;
      taken.push(word);
    }
    throw new Error(`${ends.join(' or ')} is missing`);
  }
}

/** Reads the declarations of a file or a namespace. */
function read(words, scope) {
  while (words.next !== undefined && words.next !== '}') {
    const word = words.take();
    if (word === 'interface') {
      const name = words.take();
      const head = words.until('{');
      const bases = head.includes('extends') ? head.slice(head.indexOf('extends') + 1) : [];
      scope.declared.set(name, { ...declaration(scope, name), bases, fields: fields(words), scope });
      words.take('}');
    } else if (word === 'namespace') {
      const name = words.take();
      words.take('{');
      const inner = { path: scope.path, outer: scope, declared: new Map(), imported: scope.imported };
      read(words, inner);
      words.take('}');
      scope.declared.set(name, { ...declaration(scope, name), inner });
    } else if (word === 'type' && /^\w+$/.test(words.next)) {
      const name = words.take();
      const alias = words.until(';');
      scope.declared.set(name, {
        ...declaration(scope, name),
        alias: alias.slice(alias.indexOf('=') + 1),
        scope,
      });
    } else if (word === '{') {
      // Of an import, or of a class, whose methods are of no use here.
      words.until('}');
    }
  }
}

const declaration = (scope, name) => scope.declared.get(name) ?? {};

/** The fields of an interface or of an inline object, up to its closing bracket. */
function fields(words) {
  const found = [];
  while (words.next !== '}') {
    if (words.next === '[') {
      words.take();
      words.until(']');
      words.take(':');
      found.push({ index: true, type: words.until(';') });
      continue;
    }
    const name = words.take();
    if (words.next === '(') {
      // A method is no field.
      words.until(';');
      continue;
    }
    const optional = words.next === '?';
    if (optional) words.take();
    words.take(':');
    found.push({ name, optional, type: words.until(';') });
  }
  return found;
}

/** What a name stands for, seen from a scope. */
function resolve(path, scope) {
  const [first, ...rest] = path;
  for (let at = scope; at; at = at.outer) {
    if (at.declared.has(first)) return descend(at.declared.get(first), rest, path);
  }
  const imported = scope.imported.get(first);
  if (!imported) throw new Error(`${path.join('.')} is declared nowhere (${scope.path})`);
  const file = load(join(dirname(scope.path), imported.from.replace(/\.js$/, '.d.ts')));
  return descend(file.declared.get(imported.name), rest, path);
}

function descend(declared, rest, path) {
  const found = rest.reduce((at, name) => at?.inner?.declared.get(name), declared);
  if (!found) throw new Error(`${path.join('.')} is declared nowhere`);
  return found;
}

function splitAt(words, sign) {
  const parts = [[]];
  let depth = 0;
  for (const word of words) {
    if ('{[(<'.includes(word)) depth += 1;
    if ('}])>'.includes(word)) depth -= 1;
    if (depth === 0 && word === sign) parts.push([]);
    else parts.at(-1).push(word);
  }
  return parts.filter((part) => part.length > 0);
}

/** What is wrong with a value for a type; nothing where it fits. */
function check(value, type, scope, where) {
  const alternatives = splitAt(type, '|');
  const wrong = alternatives.map((alternative) => checkOne(value, alternative, scope, where));
  if (wrong.some((list) => list.length === 0)) return [];
  // An object is best judged by the alternative that is one too, and comes nearest.
  const deeper = wrong.filter((list) => list.some((line) => !line.startsWith(`${where}: `)));
  const nearest = deeper.sort((one, other) => one.length - other.length)[0];
  return (
    nearest ?? [`${where}: ${JSON.stringify(value)?.slice(0, 60)} is not ${type.join(' ').slice(0, 100)}`]
  );
}

function checkOne(value, type, scope, where) {
  const [first] = type;
  const no = [`${where}: ${typeof value}`];
  const fits = (yes) => (yes ? [] : no);
  if (type.length === 1) {
    if (first === 'string' || first === 'OtherString' || first === 'Decimal')
      return fits(typeof value === 'string');
    if (first === 'number') return fits(typeof value === 'number');
    if (first === 'boolean') return fits(typeof value === 'boolean');
    if (first === 'null') return fits(value === null);
    if (first === 'void' || first === 'undefined') return fits(value === undefined);
    if (first === 'any' || first === 'unknown') return [];
    if (first === 'true' || first === 'false') return fits(value === (first === 'true'));
    if (/^['"]/.test(first)) return fits(value === first.slice(1, -1));
    if (/^\d+$/.test(first)) return fits(value === Number(first));
  }
  if (first === '{') {
    const words = new Words('');
    words.all = type.slice(1);
    return checkFields(value, fields(words), scope, where);
  }
  const array = type.at(-1) === ']' && type.at(-2) === '[';
  if (array || (first === 'Array' && type[1] === '<')) {
    if (!Array.isArray(value)) return no;
    const item = array ? type.slice(0, -2) : type.slice(2, -1);
    return value.flatMap((one, index) => check(one, item, scope, `${where}[${index}]`));
  }
  if (first === 'ApiList') return fits(value?.object === 'list');
  if (first === 'Partial' && type[1] === '<') {
    // Of what changed the old values, and of objects within a part, too: the names alone are checked.
    const path = type.slice(2, -1).filter((word) => word !== '.');
    const known = new Set(allFields(resolve(path, scope)).map(({ name }) => name));
    const unknown = Object.keys(value).filter((name) => !known.has(name));
    return unknown.map((name) => `${where}.${name}: unknown`);
  }
  if (type.includes('<')) throw new Error(`${type.join(' ')} cannot be read (${where})`);
  const declared = resolve(
    type.filter((word) => word !== '.'),
    scope,
  );
  return declared.alias
    ? check(value, declared.alias, declared.scope, where)
    : checkDeclared(value, declared, where);
}

function checkDeclared(value, declared, where) {
  return checkFields(value, allFields(declared), declared.scope, where);
}

function allFields(declared) {
  const of = (base) =>
    allFields(
      resolve(
        base.filter((word) => word !== '.'),
        declared.scope,
      ),
    );
  const own = declared.fields.map((field) => ({ ...field, scope: declared.scope }));
  const overridden = new Set(own.map((field) => field.name));
  const inherited = splitAt(declared.bases, ',').flatMap(of);
  return [...inherited.filter((field) => !overridden.has(field.name)), ...own];
}

function checkFields(value, known, scope, where) {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [`${where}: ${typeof value}`];
  const index = known.find((field) => field.index);
  const named = known.filter((field) => !field.index);
  const wrong = named.flatMap(({ name, optional, type, scope: own }) => {
    if (value[name] === undefined) return optional ? [] : [`${where}.${name}: missing`];
    return check(value[name], type, own ?? scope, `${where}.${name}`);
  });
  const others = Object.keys(value).filter((name) => !named.some((field) => field.name === name));
  return [
    ...wrong,
    ...others.flatMap((name) =>
      index ? check(value[name], index.type, scope, `${where}.${name}`) : [`${where}.${name}: unknown`],
    ),
  ];
}

/** What is wrong with a value for a type of a resource's file. */
export function misfits(value, file, name) {
  return checkDeclared(value, resolve([name], load(join(resources, `${file}.d.ts`))), name);
}

/** What is wrong with a list or a search result, and with each object in it. */
export function pageMisfits(page, kind, file, name) {
  const shape = load(join(resources, '../lib.d.ts')).declared.get(kind);
  const { data, ...envelope } = page;
  const known = shape.fields.filter((field) => field.name !== 'data');
  return [
    ...(Array.isArray(data) ? [] : [`${kind}.data: missing`]),
    ...checkFields(envelope, known, shape.scope, kind),
    ...(data ?? []).flatMap((object) => misfits(object, file, name)),
  ];
}

/** The name of the interface of an event, by its type. */
export function eventInterface(type) {
  for (const [name, declared] of load(join(resources, 'Events.d.ts')).declared) {
    const field = declared.fields?.find((one) => one.name === 'type');
    if (field?.type.length === 1 && field.type[0] === `'${type}'`) return name;
  }
  throw new Error(`the SDK knows no event ${type}`);
}
