// Writes keys into the forms of a page as it passes, with the runtime's HTMLRewriter. Which form gets one is decided in Rust (page.rs).

/** How much of a page is looked at before its headers are sent, in bytes: they say whether it has a key in it. */
const LOOK_BYTES = 64 * 1024;

/** And for how long after its beginning is there, in ms: of a page that comes piece by piece the visitor sees the first one at once. */
const LOOK_MS = 50;

/** What stands for what in an attribute: the rewriter gives its text as it is written. Names of letters do not occur in addresses. */
const NAMED = {
  amp: '&',
  quot: '"',
  apos: "'",
  lt: '<',
  gt: '>',
  colon: ':',
  sol: '/',
  quest: '?',
  equals: '=',
  num: '#',
};
const REFERENCE = /&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|([a-z]+));?/gi;

/** The value of an attribute that is an address. */
const decoded = (written) =>
  written?.replace(REFERENCE, (all, hex, decimal, name) => {
    if (name) return NAMED[name] ?? all;
    const code = hex ? parseInt(hex, 16) : Number(decimal);
    return code > 0x10ffff ? all : String.fromCodePoint(code);
  });

const asAttribute = (address) => address.replaceAll('&', '&amp;');

/** Has a page name all from `here`, wherever it is in the browser: by its base, and where a form without an address goes to its page. */
async function standAt(here, rewriter, response) {
  let isBased = await hasBase(response);
  const action = (name) => ({
    element(element) {
      if (!element.getAttribute(name)?.trim()) element.setAttribute(name, asAttribute(here.href));
    },
  });
  rewriter.on('form', action('action')).on('[formaction]', action('formaction'));
  rewriter.on('*', {
    element(element) {
      if (isBased || element.tagName === 'html') return;
      isBased = true;
      const base = `<base href="${asAttribute(here.href)}">`;
      if (element.tagName === 'head') element.prepend(base, { html: true });
      else element.before(base, { html: true });
    },
  });
}

/** Whether a page has a base of its own. */
async function hasBase(response) {
  let has = false;
  const found = {
    element() {
      has = true;
    },
  };
  try {
    await new HTMLRewriter().on('base[href]', found).transform(response.clone()).arrayBuffer();
  } catch {
    // It is not read: nothing is written into it either.
  }
  return has;
}

/**
 * `[body, isKeyed]`: the page, and whether it has a key in it, or may have. `page.key(method, path, query)` gives the key of a form, or nothing.
 * `address` is the page's own, `script` the tag that goes into its head. In the browser it may be at another one (`isElsewhere`). A page whose characters
 * are not known comes as it is, and nothing is said of it.
 */
export async function rewrite(response, page, address, script, isElsewhere) {
  const here = new URL(address);
  let base = here;
  let isBased = false;
  let isKeyed = false;
  let scripted = script === '';
  /** Elements around in which a form is none, or an input would break it. */
  let around = 0;
  /** The form that is open. */
  let form;
  /** Those that have an id, by it as it is written: a button may stand elsewhere. */
  const named = new Map();

  /** The input for a form that goes there, if that is one of the gate's. Its `owner` is an id as it is written. */
  function input(written, method, owner) {
    const action = decoded(written)?.trim();
    // Without an address it goes to the page's own.
    const target = action ? URL.parse(action, base) : here;
    if (target?.host !== here.host || !target.protocol.startsWith('http')) return undefined;
    const key = page.key(method.toUpperCase(), target.pathname, target.search.slice(1));
    if (key === undefined) return undefined;
    isKeyed = true;
    const of = owner === undefined ? '' : ` form="${owner.replaceAll('"', '&quot;')}"`;
    return `<input type="hidden" name="paid_once_key" value="${key}" autocomplete="off"${of}>`;
  }

  const atEnd = (element, then) => {
    try {
      element.onEndTag(then);
    } catch {
      // It has none.
      then();
    }
  };
  const html = { html: true };

  const rewriter = new HTMLRewriter();
  if (isElsewhere) await standAt(here, rewriter, response);
  rewriter
    .on('base[href]', {
      element(element) {
        if (isBased) return;
        isBased = true;
        base = URL.parse(decoded(element.getAttribute('href')), here) ?? here;
        if (isElsewhere) element.setAttribute('href', asAttribute(base.href));
      },
    })
    .on('select, svg, math', {
      element(element) {
        around += 1;
        atEnd(element, () => (around -= 1));
      },
    })
    .on('form', {
      element(element) {
        if (around > 0) return;
        const method = element.getAttribute('method') ?? 'get';
        const action = element.getAttribute('action');
        const opened = { method, action, isKeyed: false };
        form = opened;
        atEnd(element, () => {
          if (form === opened) form = undefined;
        });
        const id = element.getAttribute('id');
        if (id && !named.has(id)) named.set(id, opened);
        const added = method.toLowerCase() === 'post' && input(action, method);
        if (!added) return;
        element.prepend(added, html);
        opened.isKeyed = true;
      },
    })
    .on('button[formaction], input[formaction], button[formmethod], input[formmethod]', {
      element(element) {
        if (around > 0) return;
        const owner = element.getAttribute('form') ?? undefined;
        const its = owner === undefined ? form : named.get(owner);
        if (its?.isKeyed || (owner === undefined && !its)) return;
        // What it does not say the form says. Of a form that comes later nothing is known.
        const method = element.getAttribute('formmethod') ?? its?.method ?? 'post';
        const action = element.getAttribute('formaction') ?? its?.action;
        if (method.toLowerCase() !== 'post' || (action === undefined && !its)) return;
        const added = input(action, method, owner);
        if (!added) return;
        element.before(added, html);
        if (its) its.isKeyed = true;
        else named.set(owner, { isKeyed: true });
      },
    });
  if (!scripted) {
    const add = (how) => ({
      element(element) {
        if (scripted) return;
        scripted = true;
        element[how](script, html);
      },
    });
    rewriter.on('head', add('append')).on('body', add('prepend'));
    // A page may leave both tags away; a part of one, for a script of the shop's, has no document type.
    let isPage = false;
    rewriter.onDocument({
      doctype() {
        isPage = true;
      },
      end(end) {
        if (isPage && !scripted) end.append(script, html);
      },
    });
  }

  let body;
  try {
    body = rewriter.transform(response).body;
  } catch {
    return [response.body];
  }
  const { readable, writable } = new IdentityTransformStream();
  const reader = body.getReader();
  const first = [];
  let size = 0;
  let isWhole = false;
  /** What is being read. */
  let next;
  let timer;
  let isOver;
  while (!isKeyed && !isWhole && size < LOOK_BYTES) {
    next = reader.read();
    const read = await (isOver ? Promise.race([next, isOver]) : next);
    if (!read) break;
    next = undefined;
    isWhole = read.done;
    if (isWhole) break;
    first.push(read.value);
    size += read.value.byteLength;
    isOver ??= new Promise((resolve) => (timer = setTimeout(resolve, LOOK_MS)));
  }
  clearTimeout(timer);
  pump().catch(() => {});
  return [readable, isKeyed || !isWhole];

  async function pump() {
    const writer = writable.getWriter();
    try {
      for (const chunk of first) await writer.write(chunk);
      while (!isWhole) {
        const { done, value } = await (next ?? reader.read());
        next = undefined;
        if (done) break;
        await writer.write(value);
      }
      await writer.close();
    } catch (error) {
      await writer.abort(error);
    }
  }
}
