// Clients that leave before they are answered, as a browser does with the first request of a double click: what they have sent goes on
// without them, and nothing of it stays in memory.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { relative } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { inRoot } from '../../scripts/lib/paths.mjs';
import { startGate } from './support/gate.mjs';
import { ownEntry } from './support/own-entry.mjs';
import { until } from './support/until.mjs';

const HOST = 'shop.test';
const CLIENTS = 16;
/** As much as the gate holds of a body, less what stands around it. */
const BODY_BYTES = 1_000_000;
/** What the memory may grow by though nothing is left in it: it is taken in pieces. */
const SLACK_BYTES = 4 * BODY_BYTES;
const main = inRoot('gate', 'src', 'entry.mjs');

/** Remembers the memory of each instance that is made. */
ownEntry(
  'gate-memory',
  main,
  () => `
const { Instance } = WebAssembly;
WebAssembly.Instance = new Proxy(Instance, {
  construct(made, given) {
    const instance = new made(...given);
    globalThis.memories ??= [];
    globalThis.memories.push(instance.exports.memory);
    return instance;
  },
});
`,
  'memory',
);

/** The gate with an address more, which says how much memory it has, and with the invocation's context as `ctx` says. */
const entryOf = (ctx, name) =>
  ownEntry(
    'gate-memory',
    main,
    (main) => `
import './memory.mjs';
import gate from ${main};
export { GateObject } from ${main};
export default {
  fetch(request, env, ctx) {
    if (new URL(request.url).pathname !== '/memory') return gate.fetch(request, env, ${ctx});
    return new Response(String(globalThis.memories.reduce((all, { buffer }) => all + buffer.byteLength, 0)));
  },
};
`,
    name,
  );

/** A gate whose clients leave. */
class Left {
  constructor(gate) {
    this.gate = gate;
  }

  static async start(ctx, name) {
    const entry = relative(inRoot(), entryOf(ctx, name));
    return new Left(await startGate({ [HOST]: { api: ['POST /v1/*'] } }, { entry }));
  }

  async memory() {
    return Number((await this.gate.send(HOST, '/memory')).text);
  }

  /** How many of what was sent the gate is through with. */
  ended() {
    return this.gate.lines.filter(({ event }) => event === 'gated').length;
  }

  /** Clients send something each, and leave while the shop is at work on it. Then the shop answers. */
  async leave() {
    const { shop } = this.gate;
    const ordered = shop.orders.length + CLIENTS;
    const begun = shop.requests.length + CLIENTS;
    const release = shop.hold();
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => this.#send()));
    await until('the shop has got all', () => shop.requests.length === begun);
    await Promise.all(
      clients.map((client) => {
        client.resetAndDestroy();
        return once(client, 'close');
      }),
    );
    // What comes after they have left is answered after the gate has seen that.
    await this.memory();
    await this.memory();
    release();
    await until('all is ordered', () => shop.orders.length === ordered);
  }

  async #send() {
    const { hostname, port } = this.gate.runtime.origin;
    const client = connect(Number(port), hostname);
    await once(client, 'connect');
    const body = JSON.stringify({ text: 'x'.repeat(BODY_BYTES) });
    const head = [
      'POST /v1/orders HTTP/1.1',
      `Host: ${HOST}`,
      'Authorization: Bearer a client',
      `Idempotency-Key: ${randomUUID()}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    ];
    client.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    return client;
  }
}

describe('clients that leave', () => {
  let left;
  before(async () => (left = await Left.start('ctx', 'entry')));
  after(() => left.gate.close());

  test('are served to the end, and leave nothing in memory', async () => {
    await left.leave();
    await until('the gate is through with all', () => left.ended() === CLIENTS);
    const before = await left.memory();
    for (let times = 2; times <= 4; times += 1) {
      await left.leave();
      await until('the gate is through with all', () => left.ended() === CLIENTS * times);
    }
    const grown = (await left.memory()) - before;
    assert.ok(grown < SLACK_BYTES, `${grown} bytes more`);
  });
});

describe('control: where an invocation ends with its client', () => {
  let left;
  before(async () => (left = await Left.start('{ waitUntil() {} }', 'cancelled')));
  after(() => left.gate.close());

  test('each one leaves what it has sent in memory', async () => {
    await left.leave();
    const before = await left.memory();
    await left.leave();
    await left.leave();
    const grown = (await left.memory()) - before;
    assert.equal(left.ended(), 0, 'they were cancelled');
    assert.ok(grown > CLIENTS * BODY_BYTES, `${grown} bytes more`);
  });
});
