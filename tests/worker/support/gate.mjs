// The gate on a workerd of its own, in front of a shop that knows nothing of it, and visitors with a browser's cookies. There is no
// development server in between: its network would follow redirects and hide answers that break off.
//
//     const gate = await startGate({ 'shop.test': { forms: ['POST /checkout'] } });
//     const visitor = gate.visitor('shop.test');
//     const key = await visitor.key('/checkout');
//     await visitor.post('/checkout', { paid_once_key: key, name: 'Ann' });

import { Agent, request as httpRequest } from 'node:http';

import { gateRuntime } from '../../../scripts/lib/gate.mjs';
import { startOrigin } from './gate-origin.mjs';

const SIGNING_KEY = 'a-signing-key-for-the-gate-long-enough';
const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

/**
 * Starts it, with the settings of each host; of all where the name is empty. Where they name no origin it stands before a shop of ours, which is
 * started, too. `entry` is a module of the test's own that runs it.
 */
export async function startGate(hosts, { vars = {}, entry } = {}) {
  const shop = Object.values(hosts).every(({ origin }) => origin) ? undefined : await startOrigin();
  const routesOf = (hosts) =>
    Object.entries(hosts).map(([host, route]) => ({
      ...(host && { host }),
      origin: shop?.origin,
      ...route,
    }));
  const runtime = gateRuntime({ routes: routesOf(hosts), vars: { SIGNING_KEY, ...vars }, entry });
  const lines = [];
  runtime.onLog = (line) => lines.push(line);
  await runtime.start();
  const agent = new Agent({ keepAlive: false });
  return {
    shop,
    runtime,
    /** What it has logged: an object for each line that is one. */
    lines,
    send: (host, path, asked) => send(runtime.origin, agent, host, path, asked),
    /** Puts another release in its place: what it has stored stays. */
    async deploy(hosts, { vars = {} } = {}) {
      await runtime.kill();
      await runtime.start({ GATE: JSON.stringify({ routes: routesOf(hosts) }), SIGNING_KEY, ...vars });
    },
    visitor: (host) => new Visitor((path, asked) => send(runtime.origin, agent, host, path, asked), host),
    async close() {
      shop?.close();
      await runtime.close();
    },
  };
}

/** One request, read to its end. */
function send(origin, agent, host, path, { method = 'GET', headers = {}, body, signal, ends = true } = {}) {
  return new Promise((resolve, reject) => {
    // As it stands, also where an address would be read as another host.
    const asked = httpRequest(origin, {
      path,
      agent,
      method,
      headers: { host, ...headers },
      signal,
    });
    asked.on('error', reject);
    asked.on('response', async (response) => {
      try {
        const chunks = [];
        for await (const chunk of response) chunks.push(chunk);
        const bytes = Buffer.concat(chunks);
        const { statusCode: status, headers } = response;
        resolve({ status, headers, set: headers['set-cookie'] ?? [], bytes, text: bytes.toString('utf8') });
      } catch (error) {
        reject(error);
      }
    });
    if (ends) asked.end(body);
    else asked.write(body);
  });
}

/** Somebody at a site that has no gate. */
export const visitorOf = (origin) =>
  new Visitor((path, asked) => send(origin, undefined, origin.host, path, asked), origin.host);

/** What one browser sends and keeps. */
class Visitor {
  cookies = new Map();
  #send;
  #host;

  constructor(send, host) {
    this.#send = send;
    this.#host = host;
  }

  /** A request; all cookies of its answer are kept. */
  async request(path, { headers = {}, ...asked } = {}) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await this.#send(path, {
      ...asked,
      headers: { ...BROWSER, ...(cookie && { cookie }), ...headers },
    });
    for (const header of answer.set) this.#keep(header);
    return answer;
  }

  #keep(header) {
    const [pair, ...attributes] = header.split('; ');
    const [name, value] = pair.split(/=(.*)/s);
    if (attributes.includes('Max-Age=0')) this.cookies.delete(name);
    else this.cookies.set(name, value);
  }

  /** The first key in the forms of a page. */
  async key(path) {
    return keysIn((await this.request(path)).text)[0];
  }

  /** Sends a form. */
  post(path, fields, { headers = {}, ...more } = {}) {
    return this.request(path, {
      method: 'POST',
      body: String(new URLSearchParams(fields)),
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        origin: `http://${this.#host}`,
        ...headers,
      },
      ...more,
    });
  }

  /** The same with parts, as a form with files does it: a new boundary each time. */
  async postParts(path, fields) {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    const encoded = new Response(form);
    return this.request(path, {
      method: 'POST',
      body: Buffer.from(await encoded.arrayBuffer()),
      headers: { 'content-type': encoded.headers.get('content-type') },
    });
  }

  /** The same browser at this moment: what it gets from now on, the other one does not. */
  another() {
    const other = new Visitor(this.#send, this.#host);
    other.cookies = new Map(this.cookies);
    return other;
  }
}

export const keysIn = (html) =>
  [...html.matchAll(/name="paid_once_key" value="([^"]+)"/g)].map(([, key]) => key);

export const FORM = '<form method="post" action="/checkout"><input name="name"></form>';

/** Customers of the shop behind a gate, at its checkout. */
export function customers(gate) {
  let count = 0;
  gate.shop.page('/checkout', FORM);
  return {
    /** Somebody with the key of the form there. */
    async atCheckout(host = 'shop.test') {
      const visitor = gate.visitor(host);
      visitor.cookies.set('sessionid', 'first');
      return { visitor, key: await visitor.key('/checkout') };
    },
    /** A name that no other test orders under. */
    someone: () => `Ann ${(count += 1)}`,
    ordersOf: (name) => gate.shop.orders.filter(({ fields }) => fields.name === name),
  };
}
