// Holds answers against the API's own document.
//
//     await readDocument(site);
//     conforms('POST', '/payments', response, await response.json());

import assert from 'node:assert/strict';

import Ajv from 'ajv/dist/2020.js';

/** The document, once it was read. */
export let document;

const ajv = new Ajv({ allErrors: true, allowUnionTypes: true, strictTypes: false });
const isUrl = (text, base) => URL.canParse(text, base);
ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
ajv.addFormat('email', /^[^\s@]+@[^\s@]+\.[^\s@]+$/);
ajv.addFormat('uri', (text) => isUrl(text));
ajv.addFormat('uri-reference', (text) => isUrl(text, 'https://site.example'));

let reading;
/** Reads the document that a site serves. All sites of a suite have the same. */
export async function readDocument(site) {
  // Each caller waits for a promise of its own: with the first one's, a test file would go on as a part of the first one's.
  await (reading ??= read(site));
}

async function read(site) {
  document = await (await site.fetch('/openapi.json')).json();
  // To whom a value belongs is in the schemas themselves, too.
  ajv.addKeyword('discriminator');
  ajv.addVocabulary(Object.keys(document)); // the document is no schema itself, but holds them
  ajv.addSchema(closed(document), 'openapi');
}

/** The same document without room for what it does not name: a later release may answer more, this one does not. */
function closed(document) {
  // What all problems have is a part of each.
  const { Problem } = document.components.schemas;
  const close = (value) => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map(close);
    const same = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, close(one)]));
    if (value.type !== 'object' || !value.properties || value === Problem) return same;
    return value.allOf ? { ...same, unevaluatedProperties: false } : { additionalProperties: false, ...same };
  };
  return close(document);
}

const escaped = (name) => name.replaceAll('~', '~0').replaceAll('/', '~1');
const pointer = (...names) => `/${names.map(escaped).join('/')}`;
const at = (place) =>
  place
    .split('/')
    .slice(1)
    .reduce((value, name) => value?.[name.replaceAll('~1', '/').replaceAll('~0', '~')], document);

/** Where what stands at a place really is. */
function resolved(place) {
  const target = at(place)?.$ref;
  return target ? resolved(target.slice(1)) : place;
}

/** The schemas that were compiled, by their places: ajv knows only the very same object again. */
const validators = new Map();

/** Fails unless `value` is what the schema at this place of the document says. */
export function isValid(place, value, what = place) {
  if (!validators.has(place)) validators.set(place, ajv.compile({ $ref: `openapi#${encodeURI(place)}` }));
  const validate = validators.get(place);
  if (validate(value)) return;
  const errors = validate.errors.map(({ instancePath, message, params }) =>
    [instancePath || '(all)', message, JSON.stringify(params)].join(' '),
  );
  assert.fail(`${what}:\n  ${errors.join('\n  ')}\n${JSON.stringify(value, null, 2)}`);
}

/** The path of the document that an address belongs to; one without parameters comes first. */
export function pathOf(address) {
  const segments = new URL(address, 'https://site.example').pathname.split('/');
  const matches = (path) => {
    const pattern = path.split('/');
    const fits = (part, i) => part === segments[i] || (part.startsWith('{') && segments[i]);
    return pattern.length === segments.length && pattern.every(fits);
  };
  return Object.keys(document.paths)
    .sort((a, b) => a.split('{').length - b.split('{').length)
    .find(matches);
}

/** Where the document says what this answer looks like. */
function expected(method, address, status) {
  const path = pathOf(address);
  if (!path) return resolved(pointer('components', 'responses', 'NotFound'));
  const operation = pointer('paths', path, (method === 'HEAD' ? 'GET' : method).toLowerCase());
  if (!at(operation)) return resolved(pointer('components', 'responses', 'MethodNotAllowed'));
  return resolved(`${operation}/responses/${status}`);
}

/**
 * Fails unless the document foresees this answer: its status, its headers, its media type and its body. `path` is the
 * address that was asked for; `response` has `status` and `headers`; `body` is parsed if it is JSON.
 */
export function conforms(method, path, { status, headers }, body) {
  const what = `${method} ${path}: ${status}`;
  const place = expected(method, path, status);
  assert.ok(at(place), `${what} is not documented`);
  for (const name of Object.keys(at(place).headers ?? {})) {
    const header = resolved(`${place}${pointer('headers', name)}`);
    const value = headers.get(name);
    if (value === null) assert.ok(!at(header).required, `${what} has no ${name}`);
    else isValid(`${header}/schema`, typed(at(header).schema, value), `${what}, ${name}`);
  }
  const { content } = at(place);
  if (!content) return assert.ok(!body, `${what} has a body`);
  const type = (headers.get('content-type') ?? '').split(';')[0];
  assert.ok(content[type], `${what} is ${type || 'of no type'}; documented is ${Object.keys(content)}`);
  if (method !== 'HEAD') isValid(`${place}${pointer('content', type, 'schema')}`, body, what);
}

const typed = ({ type }, value) => (type === 'integer' ? Number(value) : value);

/** The same for an answer that was read to its end (see `read` in account.mjs). Gives the answer. */
export function conforming(method, path, answer) {
  const isJson = /^application\/(\w+\+)?json/.test(answer.header('content-type') ?? '');
  conforms(method, path, answer, isJson && answer.text ? answer.json() : answer.text);
  return answer;
}
