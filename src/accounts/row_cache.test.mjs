// The cache of rows, with isolates in front of it and a database behind it: played by a seed, in a time of their own. Each protection is taken away
// once, and then something is found.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { RowCache } from './row_cache.mjs';

/** `ACCOUNTS_CACHE_MS`, of which an object has half. */
const WINDOW_MS = 1_000;
const LASTS_MS = WINDOW_MS / 2;
const ISOLATES = 8;
const RUN_MS = 20_000;

/** The same class, with a line that is another one. */
async function without(line, instead) {
  const source = readFileSync(new URL('row_cache.mjs', import.meta.url), 'utf8');
  assert.ok(source.includes(line), line);
  const text = Buffer.from(source.replace(line, instead)).toString('base64');
  return (await import(`data:text/javascript;base64,${text}`)).RowCache;
}

function dice(seed) {
  let state = seed + 0x9e3779b9;
  return (sides) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5;
    return ((state ^ (state >>> 13)) >>> 0) % sides;
  };
}

/** Time, in which what is put off happens in its order. */
function timeOf() {
  const due = [];
  const time = {
    now: 0,
    at(atMs, what) {
      const position = due.findIndex((other) => other.atMs > atMs);
      due.splice(position < 0 ? due.length : position, 0, { atMs, what });
    },
    pause: (ms) => new Promise((go) => time.at(time.now + ms, go)),
    async run() {
      for (let next = due.shift(); next; next = due.shift()) {
        time.now = next.atMs;
        next.what();
        await new Promise(setImmediate);
      }
    },
  };
  return time;
}

/**
 * A settings row that is edited, and isolates that go by it as `src/accounts` does: by what the object says, with its age, for the window in all. What
 * a request is told must have been true less than a window before it came, and two readings of the database begin no closer than the object keeps one.
 */
async function play(Cache, seed) {
  const [time, roll, wrong] = [timeOf(), dice(seed), []];
  const replacedAt = [];
  let version = 0;
  const begun = [];
  const latency = () => (roll(12) === 0 ? roll(3 * WINDOW_MS) : roll(40));
  const readRows = async () => {
    if (begun.length > 0 && begun.at(-1) > time.now - LASTS_MS)
      wrong.push(`read at ${begun.at(-1)} and at ${time.now}`);
    begun.push(time.now);
    await time.pause(latency());
    const rows = JSON.stringify([{ version }]);
    await time.pause(latency());
    return rows;
  };
  const cache = new Cache({ readRows, now: () => time.now });
  const isolates = Array.from({ length: ISOLATES }, () => ({ readAtMs: -Infinity, version: undefined }));
  const request = async (isolate) => {
    const cameAt = time.now;
    let told = isolate.version;
    if (cameAt - isolate.readAtMs >= WINDOW_MS) {
      await time.pause(roll(30));
      const { rows, ageMs } = await cache.get('shop', LASTS_MS);
      await time.pause(roll(30));
      told = JSON.parse(rows)[0].version;
      Object.assign(isolate, { readAtMs: cameAt - ageMs, version: told });
    }
    if (replacedAt[told] <= cameAt - WINDOW_MS)
      wrong.push(`at ${cameAt} what was replaced at ${replacedAt[told]}`);
  };
  for (let atMs = 0; atMs < RUN_MS; atMs += 1 + roll(60))
    time.at(atMs, () => request(isolates[roll(ISOLATES)]));
  for (let atMs = 0; atMs < RUN_MS; atMs += 1 + roll(2 * WINDOW_MS))
    time.at(atMs, () => {
      replacedAt[version] = time.now;
      version += 1;
    });
  await time.run();
  assert.ok(begun.length > RUN_MS / WINDOW_MS / 4, 'the database was read');
  return wrong;
}

async function playAll(Cache, seeds) {
  for (let seed = 0; seed < seeds; seed += 1) {
    const [first] = await play(Cache, seed);
    if (first) return `seed ${seed}: ${first}`;
  }
  return undefined;
}

test('an edit counts everywhere within the window, and however many ask the database is read once in half of it', async () => {
  assert.equal(await playAll(RowCache, 40), undefined);
});

for (const [what, line, instead] of [
  [
    'an age that counts from the end of the reading',
    'const entry = { rows: await this.#readRows(name), beganAtMs };',
    'const rows = await this.#readRows(name); const entry = { rows, beganAtMs: this.#now() };',
  ],
  ['no age', 'ageMs: Math.max(0, this.#now() - beganAtMs)', 'ageMs: 0'],
  ['joining any reading', 'if (this.#isFresh(underWay, lastsMs)) return', 'if (underWay) return'],
  ['joining none', 'if (this.#isFresh(underWay, lastsMs)) return underWay.done;', ''],
  ['an older reading that ends later and stays', 'if (kept && kept.beganAtMs > entry.beganAtMs) return;', ''],
])
  test(`control: with ${what} something is found`, async () => {
    assert.notEqual(await playAll(await without(line, instead), 40), undefined);
  });

/** A cache of a database in which names that begin with `shop` have rows; it tells which were read. */
function counted(options) {
  const reads = [];
  const clock = { now: 1_000 };
  const readRows = (name) => {
    reads.push(name);
    return Promise.resolve(name.startsWith('shop') ? JSON.stringify([{ name }]) : '[]');
  };
  const cache = new RowCache({ readRows, now: () => clock.now, ...options });
  const ask = async (names) => {
    reads.length = 0;
    for (const name of names) await cache.get(name, LASTS_MS);
    return [...reads];
  };
  return { cache, clock, ask };
}
const names = (prefix, number) => Array.from({ length: number }, (_, at) => `${prefix}-${at}`);
/** What is kept of `shop-0` to `shop-9`. */
const SIZE = '[{"name":"shop-0"}]'.length + 'shop-0'.length + 100;

test('what is not there is read once, too', async () => {
  const { ask, clock } = counted();
  assert.deepEqual(await ask(['nobody', 'nobody']), ['nobody']);
  clock.now += LASTS_MS;
  assert.deepEqual(await ask(['nobody', 'nobody']), ['nobody'], 'it may be there by now');
});

test('made-up names take only so much, and drive out no account', async () => {
  const [MADE_UP, KEPT] = [1_000, 50];
  const { ask } = counted({ absentChars: KEPT * ('[]made-up-999'.length + 100) });
  const [shops, madeUp] = [names('shop', 10), names('made-up', MADE_UP)];
  await ask(shops);
  await ask(madeUp);
  assert.deepEqual(await ask(shops), []);
  assert.equal((await ask(madeUp.reverse())).length, MADE_UP - KEPT);
});

test('of many accounts the one that was used least recently gives way', async () => {
  const { ask } = counted({ foundChars: 3 * SIZE });
  await ask(['shop-0', 'shop-1', 'shop-2']);
  await ask(['shop-0']);
  assert.deepEqual(await ask(['shop-3']), ['shop-3']);
  assert.deepEqual(await ask(['shop-0', 'shop-2', 'shop-3']), []);
  assert.deepEqual(await ask(['shop-1']), ['shop-1']);
});

test('a name that is found from now on, or no more, is kept as that', async () => {
  let rows = '[]';
  let now = 0;
  const cache = new RowCache({ readRows: async () => rows, now: () => now });
  for (const newest of ['[]', '[1]', '[]', '[2]']) {
    rows = newest;
    now += LASTS_MS;
    assert.equal((await cache.get('shop', LASTS_MS)).rows, newest);
    assert.equal((await cache.get('shop', LASTS_MS)).rows, newest);
  }
});

test('what could not be read is read again by whoever asks next', async () => {
  let fails = true;
  const readRows = async () => (fails ? Promise.reject(new Error('down')) : '[1]');
  const cache = new RowCache({ readRows, now: () => 0 });
  await assert.rejects(cache.get('shop', LASTS_MS), /down/);
  fails = false;
  assert.deepEqual(await cache.get('shop', LASTS_MS), { rows: '[1]', ageMs: 0 });
});

test('a clock that is set back makes nothing younger, and no time keeps nothing', async () => {
  const { ask, clock } = counted();
  await ask(['shop-0']);
  clock.now -= 10;
  assert.deepEqual(await ask(['shop-0']), ['shop-0']);
  const reads = [];
  const cache = new RowCache({ readRows: async (name) => `[${reads.push(name)}]`, now: () => 0 });
  for (let times = 0; times < 2; times += 1) await cache.get('shop', 0);
  assert.equal(reads.length, 2);
});
