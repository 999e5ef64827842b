// `npm run gate`: the gate before an application on this machine.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

import { routeOf } from '../../scripts/lib/gate.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { freePort } from '../apps/support/port.mjs';
import { startOrigin } from './support/gate-origin.mjs';
import { keysIn, visitorOf } from './support/gate.mjs';
import { until } from './support/until.mjs';

test('its words become a route', () => {
  const route = routeOf([
    'http://localhost:3000',
    'POST /checkout',
    '--preset=django',
    '--one-at-a-time',
    '--api=POST /v1/*',
    '--on_unknown={"lookup":"GET /orders?key={key}"}',
  ]);
  assert.deepEqual(route, {
    origin: 'http://localhost:3000',
    forms: ['POST /checkout'],
    api: ['POST /v1/*'],
    preset: 'django',
    one_at_a_time: true,
    on_unknown: { lookup: 'GET /orders?key={key}' },
  });
});

/** The command, with what it says. */
async function gate(t, port, ...args) {
  const child = spawn(process.execPath, ['scripts/gate.mjs', ...args], {
    cwd: inRoot(),
    env: { ...process.env, PORT: port, BUILD_PROFILE: 'dev' },
  });
  t.after(() => child.kill('SIGKILL'));
  const lines = [];
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  const ended = once(child, 'exit').then(([code]) => code);
  return {
    child,
    lines,
    ended,
    says: (what) =>
      until(what, () => {
        if (lines.some((line) => line.includes(what))) return true;
        assert.equal(child.exitCode, null, lines.join('\n'));
      }),
  };
}

test('it stands before an application, and tells what it does', async (t) => {
  const shop = await startOrigin();
  t.after(() => shop.close());
  shop.page('/checkout', '<form method="post" action="/checkout"><input name="name"></form>');
  const port = await freePort();
  const { child, ended, says } = await gate(t, port, shop.origin, 'POST /checkout');
  await says(`http://localhost:${port}`);
  const visitor = visitorOf(new URL(`http://localhost:${port}`));
  const [key] = keysIn((await visitor.request('/checkout')).text);
  for (let sent = 0; sent < 2; sent += 1) {
    assert.equal((await visitor.post('/checkout', { paid_once_key: key, name: 'Ann' })).status, 303);
  }
  assert.equal(shop.orders.length, 1);
  await says('POST /checkout: passed on');
  await says('POST /checkout: replayed');
  child.kill('SIGINT');
  assert.equal(await ended, 0);
});

test('wrong settings end it, and are named', async (t) => {
  const { lines, ended } = await gate(
    t,
    await freePort(),
    'http://localhost:1',
    'POST /checkout',
    '--presets=django',
  );
  assert.equal(await ended, 1);
  assert.match(lines.join('\n'), /unknown field `presets`/);
});

test('without an address it says how it is called', async (t) => {
  const { lines, ended } = await gate(t, 0);
  assert.equal(await ended, 1);
  assert.match(lines.join('\n'), /npm run gate -- http/);
});

test('without a form it would keep nothing, and says so', async (t) => {
  const { lines, ended } = await gate(t, 0, 'http://localhost:3000', '--preset=django');
  assert.equal(await ended, 1);
  assert.match(lines.join('\n'), /which forms: npm run gate/);
});
