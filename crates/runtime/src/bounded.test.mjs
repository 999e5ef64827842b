// A body is read up to a length, and no further.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bounded } from './bounded.mjs';

/** A response of so many chunks of four bytes, and how many of them were taken. */
function response(chunks, headers = {}) {
  const seen = { taken: 0, isCanceled: false };
  const body = new ReadableStream(
    {
      pull(controller) {
        if (seen.taken === chunks) return controller.close();
        seen.taken += 1;
        controller.enqueue(new Uint8Array(4).fill(seen.taken));
      },
      cancel() {
        seen.isCanceled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return [new Response(body, { headers }), seen];
}

test('a body within the length is whole, in one chunk, in several, and in none', async () => {
  assert.deepEqual([...(await bounded(response(2)[0], 8))], [1, 1, 1, 1, 2, 2, 2, 2]);
  assert.deepEqual([...(await bounded(response(1)[0], 8))], [1, 1, 1, 1]);
  assert.equal((await bounded(new Response(null), 8)).length, 0);
});

test('of one that is longer no more is read', async () => {
  const [long, seen] = response(1_000);
  assert.equal(await bounded(long, 8), null);
  assert.deepEqual(seen, { taken: 3, isCanceled: true });
});

test('one that says that it is longer is not read at all', async () => {
  const [long, seen] = response(1_000, { 'content-length': '4000' });
  assert.equal(await bounded(long, 8), null);
  assert.deepEqual(seen, { taken: 0, isCanceled: true });
  assert.equal((await bounded(response(2, { 'content-length': '8' })[0], 8)).length, 8);
});
