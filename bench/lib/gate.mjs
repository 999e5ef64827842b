// What the gate adds to a shop: the shop alone, behind a Worker that only passes on, and behind the gate, in turns, one request at a time.

import { copyFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';

import { Runtime, temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { inRoot } from '../../scripts/lib/paths.mjs';
import { startOrigin } from '../../tests/worker/support/gate-origin.mjs';
import { FORM, keysIn, startGate } from '../../tests/worker/support/gate.mjs';
import { cpuMs, memory } from './proc.mjs';
import { median } from './stats.mjs';

const page = (bytes, form) =>
  `<!doctype html><html><head><title>Shop</title></head><body>${form}${'<p>A line of text.</p>'.repeat(bytes / 22)}`;
const PAGES = {
  'a page of 3 kB without a form': page(3_000, ''),
  'a page of 3 kB with a form': page(3_000, FORM),
  'a page of 30 kB with a form': page(30_000, FORM),
  'a page of 300 kB with a form': page(300_000, FORM),
};
const UPLOAD = Buffer.alloc(8 << 20, 'x');

/** Gives a row for each kind of request: ms and ms of CPU by who answers, the shop itself without CPU. */
export async function gateBench({ rounds, requests, onStep }) {
  const shop = await startOrigin();
  const pass = passOn(shop.origin);
  await pass.start();
  const gate = await startGate({ '': { origin: shop.origin, forms: ['POST /checkout'] } });
  const agent = new Agent({ keepAlive: true });
  const who = [
    { name: 'the shop alone', origin: new URL(shop.origin) },
    { name: 'passed on', origin: pass.origin, pid: pass.pid },
    { name: 'behind the gate', origin: gate.runtime.origin, pid: gate.runtime.pid, isGate: true },
  ];
  Object.entries(PAGES).forEach(([, html], at) => shop.page(`/page-${at}`, html));
  shop.page('/checkout', page(1_000, FORM));

  const kinds = [
    ...Object.keys(PAGES).map((name, at) => ({
      name,
      send: ({ origin }) => ask(agent, origin, `/page-${at}`),
    })),
    { name: 'a form, sent first', prepare: key, send: ({ origin }, key) => order(agent, origin, key) },
    {
      name: 'a form, sent again',
      once: async ({ origin, isGate }) => {
        const sent = await key({ origin, isGate });
        await order(agent, origin, sent);
        return sent;
      },
      send: ({ origin }, sent) => order(agent, origin, sent),
    },
  ];

  async function key({ origin, isGate }) {
    const { text, cookie } = await ask(agent, origin, '/checkout');
    return isGate ? { key: keysIn(text)[0], cookie } : {};
  }

  const found = [];
  try {
    for (const kind of kinds) {
      const times = who.map(() => ({ ms: [], cpu: 0 }));
      const onces = await Promise.all(who.map((one) => kind.once?.(one)));
      for (let round = 0; round < rounds; round += 1) {
        onStep(`${kind.name}, round ${round + 1}`);
        for (const [at, one] of who.entries()) {
          const prepared = [];
          while (kind.prepare && prepared.length < requests) prepared.push(await kind.prepare(one));
          const before = one.pid && cpuMs([one.pid]);
          for (let sent = 0; sent < requests; sent += 1) {
            const begun = performance.now();
            await kind.send(one, prepared[sent] ?? onces[at]);
            times[at].ms.push(performance.now() - begun);
          }
          if (one.pid) times[at].cpu += cpuMs([one.pid]) - before;
        }
      }
      found.push({
        name: kind.name,
        ms: times.map(({ ms }) => median(ms)),
        cpu: times.map(({ cpu, ms }) => cpu / ms.length),
      });
    }
    onStep('large bodies');
    const before = memory([gate.runtime.pid]);
    for (let sent = 0; sent < 20; sent += 1)
      await ask(agent, gate.runtime.origin, '/upload', { method: 'POST', body: UPLOAD });
    return { found, bytes: { before, after: memory([gate.runtime.pid]) } };
  } finally {
    agent.destroy();
    await pass.close();
    await gate.close();
    shop.close();
  }
}

function passOn(origin) {
  const root = temporaryDirectory('pass');
  copyFileSync(inRoot('bench', 'workers', 'pass.mjs'), join(root, 'pass.mjs'));
  const settings = [
    'name = "pass"',
    'main = "pass.mjs"',
    'compatibility_date = "2026-10-20"',
    '[vars]',
    `ORIGIN = "${origin}"`,
  ];
  writeFileSync(join(root, 'wrangler.toml'), settings.join('\n'));
  return new Runtime({ root, directory: join(root, 'run'), config: 'wrangler.toml', entry: 'pass.mjs' });
}

const order = (agent, origin, { key, cookie }) =>
  ask(agent, origin, '/checkout', {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...(cookie && { cookie }) },
    body: `name=Ann${key ? `&paid_once_key=${key}` : ''}`,
  });

function ask(agent, origin, path, { method = 'GET', headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const asked = request(new URL(path, origin), {
      agent,
      method,
      headers: { accept: 'text/html', ...headers },
    });
    asked.on('error', reject);
    asked.on('response', async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      const cookie = response.headers['set-cookie']?.map((header) => header.split(';')[0]).join('; ');
      if (response.statusCode >= 500) reject(new Error(`${method} ${path}: ${response.statusCode}`));
      resolve({ text: Buffer.concat(chunks).toString(), cookie });
    });
    asked.end(body);
  });
}
