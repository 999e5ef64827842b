// What is changed in the JavaScript around a Worker does what it did before.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { adapted } from './glue.mjs';

/** As wasm-bindgen writes it. */
const WRITTEN = `import source wasmModule from "./index_bg.wasm";
function queued(arg0) {
    queueMicrotask(arg0);
}
let WASM_VECTOR_LEN = 0;
function passStringToWasm0(arg, malloc, realloc) {
    let len = arg.length;
    let ptr = malloc(len, 1) >>> 0;

    const mem = getUint8ArrayMemory0();

    let offset = 0;

    for (; offset < len; offset++) {
        const code = arg.charCodeAt(offset);
        if (code > 0x7F) break;
        mem[ptr + offset] = code;
    }
    if (offset !== len) {
        if (offset !== 0) {
            arg = arg.slice(offset);
        }
        ptr = realloc(ptr, len, len = offset + arg.length * 3, 1) >>> 0;
        const view = getUint8ArrayMemory0().subarray(ptr + offset, ptr + len);
        const ret = cachedTextEncoder.encodeInto(arg, view);

        offset += ret.written;
        ptr = realloc(ptr, len, offset, 1) >>> 0;
    }

    WASM_VECTOR_LEN = offset;
    return ptr;
}
`;

/** What a text of the glue makes, with a memory of its own. */
function made(glue, reportError) {
  const memory = new Uint8Array(100_000).fill(0xee);
  let end = 0;
  const malloc = (bytes) => (end += bytes) - bytes;
  const realloc = (from, bytes, wanted) => {
    const to = malloc(wanted);
    memory.copyWithin(to, from, from + Math.min(bytes, wanted));
    return to;
  };
  const body = `${glue.replace(/^.*import .*$/m, '')}
    return { queued, pass: (text) => [passStringToWasm0(text, malloc, realloc), WASM_VECTOR_LEN] };`;
  const names = ['cachedTextEncoder', 'getUint8ArrayMemory0', 'malloc', 'realloc', 'reportError'];
  const values = [new TextEncoder(), () => memory, malloc, realloc, reportError];
  const { queued, pass } = new Function(...names, body)(...values);
  return {
    queued,
    /** The bytes of a string in memory, and whether none was written behind what was asked for. */
    bytes: (text) => {
      const [at, length] = pass(text);
      assert.ok(
        memory.subarray(end).every((byte) => byte === 0xee),
        'written past the end',
      );
      return Buffer.from(memory.subarray(at, at + length));
    },
  };
}

test('a string comes over as the bytes that it is in UTF-8, however long', () => {
  const lengths = [0, 1, 20, 255, 256, 257, 258, 1000, 4000];
  for (const length of lengths)
    for (const other of ['', 'é', '€', '😀', '\ud800', '\0'])
      for (const at of [0, length >> 1, length]) {
        const text = 'x'.repeat(at) + other + 'y'.repeat(length - at);
        const { bytes } = made(adapted(WRITTEN));
        assert.deepEqual(
          bytes(text),
          Buffer.from(text),
          `${length} characters with ${JSON.stringify(other)}`,
        );
      }
});

test('what is queued runs in order, before any timer, and what it throws is reported', async () => {
  const [happened, reported] = [[], []];
  const { queued } = made(adapted(WRITTEN), (error) => reported.push(error.message));
  setTimeout(() => happened.push('timer'));
  queued(() => {
    happened.push('first');
    queued(() => happened.push('third'));
    throw new Error('a trap');
  });
  queued(() => happened.push('second'));
  happened.push('at once');
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(happened, ['at once', 'first', 'second', 'third', 'timer']);
  assert.deepEqual(reported, ['a trap']);
});

test('what another version of wasm-bindgen writes is not taken for granted', () => {
  const changed = ['import source ', 'queueMicrotask(arg0);', 'let offset = 0;'];
  const others = changed.map((written) => WRITTEN.replace(written, ''));
  for (const other of [...others, WRITTEN + WRITTEN]) assert.throws(() => adapted(other), /not once/);
});
