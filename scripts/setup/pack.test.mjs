// What `paid-once-bindgen --pack` makes of a module: the same to whoever calls it, and smaller.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';

import { bindgen, setUpBindgen } from './bindgen.mjs';

const I32 = 0x7f;
const types = { number: [[], [I32]], select: [[I32], [I32]], nothing: [[], []] };
const constant = (value) => [0x41, ...signed(value)];
const call = (name) => [0x10, ...unsigned(1 + functions.findIndex((each) => each.name === name))];
const ADD = 0x6a;
const DROP = 0x1a;

// What is imported has the number 0. Those of a family have all but the last instruction in common, and lie as far apart as gzip looks back.
const families = 12;
const members = 5;
const functions = [
  { name: 'one', type: 'number', body: () => constant(1) },
  { name: 'sum', type: 'number', body: () => sumOf('one', 'two') },
  { name: 'two', type: 'number', body: () => constant(2) },
  { name: 'selected', type: 'select', body: () => [0x20, 0, 0x11, 0, 0] },
  { name: 'start', type: 'nothing', body: () => [...constant(42), 0x24, 0] },
  { name: 'started', type: 'number', body: () => [0x23, 0] },
  { name: 'one_again', type: 'number', body: () => constant(1) },
  { name: 'sum_again', type: 'number', body: () => sumOf('one_again', 'two') },
  ...Array.from({ length: members }, (_, member) =>
    Array.from({ length: families }, (_, family) => ({
      name: `family_${family}_${member}`,
      type: 'number',
      body: () => [...unlikeOthers(family), ...constant(family * members + member)],
    })),
  ).flat(),
];
const inTable = ['two', 'family_7_3', 'one', 'sum'];

describe('a packed module', () => {
  let dir, original, packed;
  before(async () => {
    await setUpBindgen();
    dir = mkdtempSync(join(tmpdir(), 'paid-once-pack-'));
    original = module();
    packed = pack(original);
  });
  after(() => rmSync(dir, { recursive: true }));

  it('means the same functions by its calls, exports, table and start', () => {
    const [expected, found] = [original, packed].map(results);
    assert.deepEqual(found, expected);
    assert.equal(expected.sum, 1 + 2 + 100);
    assert.equal(expected.started, 42);
    assert.equal(expected.family_7_3, 7 * members + 3);
    assert.deepEqual(expected.selected, [2, 7 * members + 3, 1, 103]);
  });

  it('has equal functions once, and those that are equal then', () => {
    const one = (wasm) => {
      const { exports } = instance(wasm);
      return [
        exports.one === exports.one_again,
        exports.sum === exports.sum_again,
        exports.one === exports.two,
      ];
    };
    assert.deepEqual(one(original), [false, false, false]);
    assert.deepEqual(one(packed), [true, true, false]);
  });

  it('compresses better, because similar functions lie beside each other', () => {
    assert.ok(gzipSync(packed).length < gzipSync(original).length / 3);
  });

  it('is the same at each build', () => {
    assert.deepEqual(pack(original), packed);
  });

  function pack(wasm) {
    const [from, to] = [join(dir, 'original.wasm'), join(dir, 'packed.wasm')];
    writeFileSync(from, wasm);
    execFileSync(bindgen(), ['--pack', from, to]);
    return readFileSync(to);
  }
});

const instance = (wasm) =>
  new WebAssembly.Instance(new WebAssembly.Module(wasm), { env: { hundred: () => 100 } });

function results(wasm) {
  const { selected, ...exports } = instance(wasm).exports;
  const called = Object.entries(exports).map(([name, exported]) => [name, exported()]);
  return { ...Object.fromEntries(called), selected: inTable.map((_, at) => selected(at)) };
}

function module() {
  const names = Object.keys(types);
  const index = (name) => call(name).slice(1);
  const exported = functions.filter(({ name }) => name !== 'start');
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, list(Object.values(types).map(([from, to]) => [0x60, ...list(from), ...list(to)]))),
    ...section(2, list([[...text('env'), ...text('hundred'), 0, 0]])),
    ...section(3, list(functions.map(({ type }) => names.indexOf(type)))),
    ...section(4, list([[0x70, 0, inTable.length]])),
    ...section(6, list([[I32, 1, ...constant(0), 0x0b]])),
    ...section(7, list(exported.map(({ name }) => [...text(name), 0, ...index(name)]))),
    ...section(8, index('start')),
    ...section(9, list([[0, ...constant(0), 0x0b, ...list(inTable.map(index))]])),
    ...section(10, list(functions.map(({ body }) => sized([0, ...body(), 0x0b])))),
  ]);
}

const sumOf = (one, other) => [...call(one), ...call(other), ADD, 0x10, 0, ADD];

/** Some four thousand bytes, other ones for each family. */
function unlikeOthers(family) {
  let state = family + 1;
  return Array.from({ length: 800 }, () => {
    state = (state * 48271) % 0x7fffffff;
    return [...constant(state & 0x7ffffff), DROP];
  }).flat();
}

function section(id, content) {
  return [id, ...sized(content)];
}

function sized(content) {
  return [...unsigned(content.length), ...content];
}

function list(items) {
  return [...unsigned(items.length), ...items.flat()];
}

function text(value) {
  return sized([...Buffer.from(value)]);
}

function unsigned(value) {
  return value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >> 7)];
}

function signed(value) {
  return value < 64 ? [value] : [(value & 127) | 128, ...signed(value >> 7)];
}
