// Uploads that the gate does not hold: what breaks off, what is dropped and what is too large.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { watched } from '../../gate/src/stream.mjs';
import { startGate } from './support/gate.mjs';
import { until } from './support/until.mjs';

const MAX_BODY = 3 << 20;
/** More than the gate holds, and less than it takes. */
const LARGE = 2 << 20;
const CHUNK = 64 << 10;
const HOST = 'shop.test';

/** How often the shop has got the beginning, and all, of what was sent to it. */
let got;
const shop = createServer(async (request, response) => {
  got.begun += 1;
  // It answers before it has read what it answers, as one does that writes to a queue.
  if (request.url === '/v1/early') response.writeHead(200, { 'content-type': 'text/plain' }).write('taken');
  let size = 0;
  try {
    for await (const chunk of request) {
      size += chunk.length;
      // Its last byte is there, and the connection is lost before anything is said.
      if (request.url === '/v1/dropped' && size === Number(request.headers['content-length'])) {
        got.whole += 1;
        return response.destroy();
      }
    }
    got.whole += 1;
    response.end(String(size));
  } catch {
    response.destroy();
  }
});

let gate;
let count = 0;

before(async () => {
  shop.listen(0, '127.0.0.1');
  await once(shop, 'listening');
  const origin = `http://127.0.0.1:${shop.address().port}`;
  gate = await startGate({ [HOST]: { origin, api: ['POST /v1/*'], max_body: MAX_BODY } });
});

after(async () => {
  await gate.close();
  shop.closeAllConnections();
  shop.close();
});

beforeEach(() => {
  got = { begun: 0, whole: 0 };
});

/** A request whose body a test writes as it likes. */
async function open(path, headers) {
  const { hostname, port } = gate.runtime.origin;
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await once(socket, 'connect');
  const head = [`POST ${path} HTTP/1.1`, `Host: ${HOST}`, 'Authorization: Bearer one', 'Connection: close'];
  for (const [name, value] of Object.entries(headers)) head.push(`${name}: ${value}`);
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  return socket;
}

/** The same sent whole. */
const send = (path, key, size = LARGE) =>
  gate.send(HOST, path, {
    method: 'POST',
    headers: { authorization: 'Bearer one', 'idempotency-key': key, 'content-length': size },
    body: Buffer.alloc(size, 'x'),
  });

const slug = ({ text }) => JSON.parse(text).type.split('/').at(-1);

describe('an upload that breaks off', () => {
  /** Half of one, until the shop is reached. */
  async function broken(path, key) {
    const socket = await open(path, { 'Idempotency-Key': key, 'Content-Length': LARGE });
    socket.write(Buffer.alloc(LARGE - CHUNK, 'x'));
    await until('the shop is reached', () => got.begun === 1);
    // What it has answered by then is on its way.
    await pause(200);
    socket.destroy();
  }

  /** What is answered to the same, whole, once the gate is through with the first one, and has told whoever came meanwhile that that was not sent. */
  const answered = (path, key) =>
    until('it is answered', async () => {
      const answer = await send(path, key);
      return ![409, 503].includes(answer.status) && answer;
    });

  test('after the shop has begun to answer may have been taken: it is not sent again', async () => {
    await broken('/v1/early', 'early');
    const { status, text } = await answered('/v1/early', 'early');
    assert.deepEqual([status, slug({ text })], [502, 'outcome-unknown']);
    assert.equal(got.begun, 1);
  });

  test('control: before it has answered it was not sent, and is sent whole', async () => {
    await broken('/v1/read', 'read');
    const { status, text } = await answered('/v1/read', 'read');
    assert.deepEqual([status, text], [200, String(LARGE)]);
    assert.deepEqual(got, { begun: 2, whole: 1 });
  });
});

test('an upload of which the shop has every byte is sent once, though its connection is lost then', async () => {
  for (let sent = 1; sent <= 8; sent += 1) {
    const key = `dropped-${(count += 1)}`;
    const { status, text } = await send('/v1/dropped', key);
    assert.deepEqual([status, slug({ text })], [502, 'outcome-unknown']);
    assert.equal((await send('/v1/dropped', key)).status, 502);
    assert.deepEqual(got, { begun: sent, whole: sent });
  }
});

describe('what a body tells of itself once it is over', () => {
  /** A body of so many bytes that says that it has four, of which all that comes is read before it ends. */
  async function over(size, leaves) {
    globalThis.FixedLengthStream = class extends TransformStream {
      constructor() {
        super();
      }
    };
    let source;
    const [readable, state] = watched(new ReadableStream({ start: (it) => (source = it) }), 4);
    source.enqueue(new Uint8Array(size));
    const reader = readable.getReader();
    await reader.read();
    if (leaves) await reader.cancel();
    source.close();
    await pause(0);
    return state.isBroken;
  }

  test('all of it was taken, though whoever took it was gone before its end', async () => {
    assert.equal(await over(4, true), false);
    assert.equal(await over(4, false), false);
  });

  test('control: it is shorter than it has said', async () => {
    assert.equal(await over(3, false), true);
  });
});

describe('an upload that does not say how long it is', () => {
  /** One in chunks, with so many bytes. */
  const inChunks = (size, headers = {}) =>
    gate.send(HOST, '/v1/read', {
      method: 'POST',
      headers: { authorization: 'Bearer one', 'transfer-encoding': 'chunked', ...headers },
      body: Buffer.alloc(size, 'x'),
    });

  for (const [what, headers] of [
    ['with a key', { 'Idempotency-Key': 'of-chunks' }],
    ['without one', {}],
  ]) {
    test(`and is too large is told so, and no part of it is sent, ${what}`, async () => {
      const answer = await inChunks(MAX_BODY + CHUNK, headers);
      assert.deepEqual([answer.status, slug(answer)], [413, 'too-large']);
      assert.deepEqual(got, { begun: 0, whole: 0 });
    });

    test(`and breaks off is not sent, ${what}`, async () => {
      const socket = await open('/v1/read', { 'Transfer-Encoding': 'chunked', ...headers });
      const chunk = Buffer.alloc(CHUNK, 'x');
      for (let size = 0; size < LARGE; size += CHUNK) {
        socket.write(`${CHUNK.toString(16)}\r\n`);
        socket.write(chunk);
        socket.write('\r\n');
      }
      await pause(200);
      socket.destroy();
      await pause(200);
      assert.deepEqual(got, { begun: 0, whole: 0 });
    });
  }

  test('control: a whole one is sent, once', async () => {
    for (let sent = 0; sent < 2; sent += 1) {
      const { status, text } = await inChunks(LARGE, { 'idempotency-key': 'whole' });
      assert.deepEqual([status, text], [200, String(LARGE)]);
    }
    assert.deepEqual(got, { begun: 1, whole: 1 });
  });
});
