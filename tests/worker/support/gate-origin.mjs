// A shop that knows nothing of the gate: what stands behind it in tests. It keeps its own books, and executes whatever it gets.
//
//     const shop = await startOrigin();
//     shop.page('/checkout', '<form method="post" action="/checkout">…</form>');
//     shop.fault = 'lost';          // of the next order: the answer is lost once the order is written
//     shop.orders                   // what was ordered, with the fields as they came

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

/** The constant of RFC 6455. */
const WEBSOCKET = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const HTML = { 'content-type': 'text/html; charset=utf-8' };

/** Starts it. `rules` are more handlers, by method and path. */
export async function startOrigin() {
  const pages = new Map();
  const shop = {
    orders: [],
    /** What stands on the page of a refusal, too. */
    refusal: '',
    /** How many requests have begun. */
    begun: 0,
    /** All that came, whole: method, address, headers and body. */
    requests: [],
    /** What happens to the next order. */
    fault: undefined,
    /** What orders of an address are answered, whatever they say: a status and headers, or a function of their headers that gives them. */
    answers: {},
    /** How long the next order takes, in ms. */
    answersWithin: undefined,
    /** Whether the answer to the next order is lost. */
    loses: () => false,
    /** Orders wait for it. */
    held: undefined,
    page(path, html, { headers = {}, status = 200 } = {}) {
      pages.set(path, { html, headers: { ...HTML, ...headers }, status });
    },
    /** An address whose answers are the test's own. */
    on(path, answer) {
      pages.set(path, { answer });
    },
    /** Orders wait until the function that it gives is called. */
    hold() {
      let release;
      shop.held = new Promise((resolve) => (release = resolve));
      return () => {
        shop.held = undefined;
        release();
      };
    },
    /** Resolves once so many requests of this method have come. */
    async reached(count, wanted) {
      while (shop.requests.filter(({ method }) => method === wanted).length < count) await pause(5);
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };

  async function answer(request, response) {
    shop.begun += 1;
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    const body = Buffer.concat(chunks);
    shop.requests.push({ method, url, headers, body });
    const path = url.split('?')[0];
    const send = (status, more = {}, text = '') => {
      response.writeHead(status, { ...HTML, ...more });
      response.end(method === 'HEAD' ? '' : text);
    };
    const page = pages.get(path);
    if (page?.answer && method !== 'POST') return page.answer(request, response);
    if (page && method !== 'POST') {
      response.writeHead(page.status, page.headers);
      return response.end(method === 'HEAD' ? '' : page.html);
    }
    if (method === 'POST') return order({ path, headers, body, send, response });
    if (path.startsWith('/thanks/')) return send(200, {}, `<h1>Thank you</h1><p>Order ${path.slice(8)}</p>`);
    if (path === '/orders') {
      const key = new URL(url, 'http://shop').searchParams.get('key');
      return send(shop.orders.some((order) => order.key === key) ? 200 : 404, {}, 'your orders');
    }
    return send(404);
  }

  async function order({ path, headers, body, send, response }) {
    const answers = shop.answers[path];
    const answered = typeof answers === 'function' ? answers(headers) : answers;
    if (answered) return send(...answered);
    if (shop.held) await shop.held;
    if (shop.answersWithin) await pause(shop.answersWithin());
    const fault = shop.loses() ? 'lost' : shop.fault;
    shop.fault = undefined;
    if (fault === 'dropped') return response.destroy();
    if (fault === 'busy') return send(503, { 'retry-after': '1' }, 'busy');
    const fields = read(headers['content-type'], body);
    const form = `<form method="post" action="${path}"><input name="name"></form>`;
    if (fields.name === '')
      return send(path.startsWith('/shown') ? 200 : 422, {}, `<p>No name</p>${shop.refusal}${form}`);
    if (fields.card === 'declined') {
      return send(200, { 'content-type': 'application/json' }, '{"result":"failure"}');
    }
    shop.orders.push({ path, fields, key: headers['idempotency-key'] });
    const number = shop.orders.length;
    if (fault === 'lost') return response.destroy();
    if (fault === 'half') {
      response.writeHead(200, { ...HTML, 'content-length': '1000' });
      response.write('<p>half');
      await pause(20);
      return response.destroy();
    }
    // As Varnish answers for a shop that has got it and is too slow.
    if (fault === 'cache') return send(503, { 'retry-after': '5' }, 'Error 503 Backend fetch failed');
    if (fault === 'gateway') return send(504, {}, 'the gateway has lost it');
    if (path.startsWith('/v1/')) {
      return send(201, { 'content-type': 'application/json' }, JSON.stringify({ id: number, ...fields }));
    }
    if (path.startsWith('/large')) return send(200, {}, `<p>${number}</p>${'x'.repeat(700_000)}`);
    if (path.startsWith('/page')) return send(200, {}, `<p>Order ${number}</p>${form}`);
    return send(303, {
      location: `/thanks/${number}`,
      'set-cookie': [`basket=; Max-Age=0; Path=/`, `last=${number}; Path=/; HttpOnly`],
    });
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  // An echo, without frames that would need to be read: what comes goes back.
  server.on('upgrade', (request, socket) => {
    const accept = createHash('sha1')
      .update(`${request.headers['sec-websocket-key']}${WEBSOCKET}`)
      .digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    // One text frame of a server: 'hello'.
    socket.write(Buffer.from([0x81, 5, ...Buffer.from('hello')]));
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  shop.origin = `http://127.0.0.1:${server.address().port}`;
  return shop;
}

function read(contentType = '', body) {
  const text = body.toString('latin1');
  if (contentType.includes('json')) return JSON.parse(body.toString('utf8'));
  if (contentType.startsWith('application/x-www-form-urlencoded')) {
    return Object.fromEntries(new URLSearchParams(text));
  }
  const named = [
    ...text
      .slice(0, 100_000)
      .matchAll(/name="([^"]*)"(?:; filename="[^"]*")?(?:\r\n[^\r]+)*\r\n\r\n([^]*?)\r\n--/g),
  ];
  return Object.fromEntries(named.map(([, name, value]) => [name, value]));
}
