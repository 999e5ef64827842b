// What a payment costs on Cloudflare's price list as the Worker itself counts it for its metrics: docs/operations.md has the numbers. It runs as in
// cost-budget.test.mjs, where time stands still, so that they are the same on every machine.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { PAYMENT, neighbourhood, pay } from '../../bench/lib/counts.mjs';

const dir = mkdtempSync(join(tmpdir(), 'paid-once-cost-'));
let near;
let site;
before(async () => {
  near = await neighbourhood(dir);
  site = await near.start('site', { REPLAY_CACHE_MS: '0' });
});
after(async () => {
  await site?.stop();
  await near?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** As docs/operations.md has them. */
const DOCUMENTED = {
  'requests to objects': 2,
  'rows written in objects': 7,
  'rows written in the read model': 8,
  'queue operations': 3,
};

test('one payment with its receipt', async () => {
  assert.deepEqual(await site.own(() => pay(site, PAYMENT)), DOCUMENTED);
});

test('a replay writes nothing, but for the sixteenth of a key', async () => {
  const key = randomUUID();
  const first = await site.settled(() => pay(site, PAYMENT, key));
  for (const [replays, rows] of [
    [15, 0],
    [1, 1],
    [2, 0],
  ]) {
    const cost = await site.own(async () => {
      for (let one = 0; one < replays; one += 1) assert.deepEqual(await pay(site, PAYMENT, key), first);
    });
    assert.deepEqual(cost, {
      'requests to objects': replays,
      'rows written in objects': rows,
      'rows written in the read model': 0,
      'queue operations': 0,
    });
  }
});

test('what the Worker counts of itself is what is counted from outside', async () => {
  let outside;
  const own = await site.own(async () => {
    outside = await site.meter(() => pay(site, PAYMENT));
  });
  for (const [what, count] of Object.entries(own)) assert.equal(count, outside[what], what);
});
