// A form of a page as a browser would send it: all of its fields as they stand there, and what somebody enters.

const NAMED = { amp: '&', quot: '"', '#x27': "'", '#39': "'", lt: '<', gt: '>' };
const decoded = (text) => text.replace(/&(amp|quot|#x27|#39|lt|gt);/g, (_, name) => NAMED[name]);
const attribute = (tag, name) => {
  const value = tag.match(new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`, 'i'));
  return value && decoded(value[1] ?? value[2]);
};

/** The form of which `wanted` says that it is it, by its text: where it goes, and its fields. */
export function formOf(html, wanted, here) {
  const form = [...html.matchAll(/<form\b[^>]*>[^]*?<\/form>/gi)].map(([form]) => form).find(wanted);
  if (!form) throw new Error(`There is no such form in ${html.slice(0, 2000)}`);
  const fields = {};
  for (const [tag] of form.matchAll(/<input\b[^>]*>/gi)) {
    const [name, type] = [attribute(tag, 'name'), attribute(tag, 'type')?.toLowerCase()];
    const isOff = (type === 'checkbox' || type === 'radio') && !/\schecked/i.test(tag);
    if (name && !isOff && !['submit', 'image', 'button', 'file'].includes(type)) {
      fields[name] = attribute(tag, 'value') ?? '';
    }
  }
  for (const [, tag, text] of form.matchAll(/<textarea\b([^>]*)>\n?([^]*?)<\/textarea>/gi)) {
    fields[attribute(tag, 'name')] = decoded(text);
  }
  for (const [, tag, options] of form.matchAll(/<select\b([^>]*)>([^]*?)<\/select>/gi)) {
    const chosen = options.match(/<option\b[^>]*\sselected[^>]*>/i) ?? options.match(/<option\b[^>]*>/i);
    if (chosen) fields[attribute(tag, 'name')] = attribute(chosen[0], 'value') ?? '';
  }
  const action = attribute(form.match(/<form\b[^>]*>/i)[0], 'action') ?? '';
  const { pathname, search } = new URL(action, `http://shop${here}`);
  return { path: pathname + search, fields };
}

/** A page, its redirects followed. */
export async function open(visitor, path) {
  for (let hops = 0; hops < 10; hops += 1) {
    const answer = await visitor.request(path);
    const { location } = answer.headers;
    if (!location) return { ...answer, path };
    const to = new URL(location, `http://shop${path}`);
    path = to.pathname + to.search;
  }
  throw new Error(`Too many redirects from ${path}`);
}
