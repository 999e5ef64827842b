// The forms of a page, as a browser reads them: what goes where when somebody presses a form's button
// (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html).
import { defaultTreeAdapter, parse } from 'parse5';

const CONTROLS = ['input', 'button', 'select', 'textarea'];
const ENCODINGS = ['application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain'];

/**
 * The forms of the page at an address: each with where it goes (`action`, which is undefined where it is no address), its `method` in capitals, its
 * `encoding`, its `controls`, and the `entries` that are sent by its first button: name and value, which is null for a file, since nobody chose one.
 */
export function formsOf(html, address) {
  const inParser = new Map();
  const treeAdapter = {
    ...defaultTreeAdapter,
    // In a table a form's fields need not stand inside of it.
    onElementCreated: (element, { formElement }) => inParser.set(element, formElement),
  };
  const elements = [...elementsIn(parse(html, { treeAdapter }))];
  const base = elements.find(({ tagName, attrs }) => tagName === 'base' && valueOf(attrs, 'href'));
  const here = (base && URL.parse(attribute(base, 'href'), address)) ?? new URL(address);

  const ownerOf = (control) => {
    const id = attribute(control, 'form');
    if (id !== undefined) return elements.find((element) => attribute(element, 'id') === id);
    return inParser.get(control) ?? ancestors(control).find(({ tagName }) => tagName === 'form');
  };
  const controls = elements.filter(({ tagName }) => CONTROLS.includes(tagName));
  return elements
    .filter(({ tagName }) => tagName === 'form')
    .map((form) => {
      const own = controls.filter((control) => ownerOf(control) === form);
      const button = own.find((control) => isButton(control) && !isDisabled(control));
      const said = (name) => (button && attribute(button, `form${name}`)) ?? attribute(form, name);
      const encoding = said('enctype')?.toLowerCase();
      return {
        action: said('action')?.trim() ? (URL.parse(said('action'), here) ?? undefined) : new URL(address),
        method: said('method')?.toUpperCase() ?? 'GET',
        encoding: ENCODINGS.includes(encoding) ? encoding : ENCODINGS[0],
        controls: own.map((control) => ({ name: attribute(control, 'name'), type: typeOf(control) })),
        entries: own.flatMap((control) => entriesOf(control, button)),
      };
    });
}

/** The body of a form for `fetch`, of which `fields` stand in the place of its entries of their names. A form of text/plain has none. */
export function bodyOf({ encoding, entries }, fields = {}) {
  const rest = { ...fields };
  const all = entries.flatMap(([name, value]) => {
    if (!Object.hasOwn(fields, name)) return [[name, value]];
    const isFirst = Object.hasOwn(rest, name);
    delete rest[name];
    return isFirst ? [[name, fields[name]]] : [];
  });
  all.push(...Object.entries(rest));
  const lines = (text) => text.replace(/\r\n?|\n/g, '\r\n');
  if (encoding !== 'multipart/form-data')
    return new URLSearchParams(all.map(([name, value]) => [name, lines(value ?? '')]));
  // Node's own FormData leaves the empty name of a file out, and a shop would see a text.
  const boundary = `----form${crypto.randomUUID()}`;
  const quoted = (name) => lines(name).replace(/["\r\n]/g, (sign) => encodeURIComponent(sign));
  const parts = all.map(([name, value]) =>
    value === null
      ? `${quoted(name)}"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n`
      : `${quoted(name)}"\r\n\r\n${lines(value)}`,
  );
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="`;
  return new Blob([...parts.map((part) => `${head}${part}\r\n`), `--${boundary}--\r\n`], {
    type: `${encoding}; boundary=${boundary}`,
  });
}

/** In the order of the page, and without what only stands in a template. */
function* elementsIn(node) {
  for (const child of node.childNodes ?? []) {
    if (child.tagName) yield child;
    yield* elementsIn(child);
  }
}

const valueOf = (attrs, wanted) => attrs.find(({ name }) => name === wanted)?.value;
const attribute = (element, name) => valueOf(element.attrs, name);
const has = (element, name) => attribute(element, name) !== undefined;

function ancestors(element) {
  const all = [];
  for (let parent = element.parentNode; parent?.tagName; parent = parent.parentNode) all.push(parent);
  return all;
}

/** `submit`, where a button says nothing else. */
function typeOf({ tagName, attrs }) {
  const said = valueOf(attrs, 'type')?.toLowerCase();
  if (tagName === 'button') return ['button', 'reset'].includes(said) ? said : 'submit';
  return tagName === 'input' ? said || 'text' : tagName;
}

const isButton = (control) => ['submit', 'image'].includes(typeOf(control));

/** Itself, or by a `fieldset` in whose legend it does not stand. */
function isDisabled(control) {
  const chain = [control, ...ancestors(control)];
  return chain.some(
    (element, at) =>
      has(element, 'disabled') &&
      (element === control ||
        (element.tagName === 'fieldset' &&
          chain[at - 1] !== element.childNodes.find(({ tagName }) => tagName === 'legend'))),
  );
}

/** What a control sends. */
function entriesOf(control, button) {
  const name = attribute(control, 'name');
  const type = typeOf(control);
  const value = attribute(control, 'value');
  if (isDisabled(control)) return [];
  if (type === 'image' && control === button)
    return ['x', 'y'].map((axis) => [name ? `${name}.${axis}` : axis, '0']);
  if (!name || ['button', 'reset', 'image'].includes(type)) return [];
  switch (type) {
    case 'submit':
      return control === button ? [[name, value ?? '']] : [];
    case 'checkbox':
    case 'radio':
      return has(control, 'checked') ? [[name, value ?? 'on']] : [];
    case 'file':
      return [[name, null]];
    case 'select':
      return chosenIn(control).map((option) => [name, attribute(option, 'value') ?? textOf(option)]);
    case 'textarea':
      return [[name, control.childNodes.map((text) => text.value).join('')]];
    default:
      return [[name, value ?? '']];
  }
}

/** What is chosen; in a list that drops down the first one, where nothing is. */
function chosenIn(select) {
  const isOff = (option) =>
    has(option, 'disabled') ||
    (option.parentNode.tagName === 'optgroup' && has(option.parentNode, 'disabled'));
  const options = [...elementsIn(select)].filter(({ tagName }) => tagName === 'option');
  const chosen = options.filter((option) => has(option, 'selected'));
  if (has(select, 'multiple')) return chosen.filter((option) => !isOff(option));
  const dropsDown = !(Number(attribute(select, 'size')) > 1);
  const one = chosen.at(-1) ?? (dropsDown ? options.find((option) => !isOff(option)) : undefined);
  return one && !isOff(one) ? [one] : [];
}

const textOf = (node) => texts(node).join('').trim().replace(/\s+/g, ' ');
const texts = (node) => (node.childNodes ?? []).flatMap((child) => child.value ?? texts(child));
