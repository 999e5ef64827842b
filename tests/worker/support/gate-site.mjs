// The demo with a gate beside it, which tells its desk.

import { join } from 'node:path';

import { read } from './account.mjs';
import { demoWorkers, deployed, root, SIGNING_KEY } from './harness.mjs';
import { readConfig } from './wrangler.mjs';

const gate = deployed('gate');
const objects = { name: 'GATE_OBJECTS', class_name: 'GateObject', script_name: gate.name };

const answers = { binding: 'ANSWERS', bucket_name: 'paid-once-gate-answers' };

/** The gate's Worker of a site. */
export const gateOf = (site) => site.server.getWorker(gate.name);

/** Sends something through the gate, as one client of an API. */
export async function send(site, path, key, body = 'a=1', headers = {}) {
  const answer = await gateOf(site).fetch(`http://shop.example${path}`, {
    method: 'POST',
    headers: {
      'idempotency-key': key,
      'content-type': 'application/x-www-form-urlencoded',
      authorization: 'Bearer a client',
      accept: 'application/json',
      ...headers,
    },
    body,
  });
  return read(answer);
}

/**
 * The Workers: the desk is bound to the gate's objects, and the gate to the read model, as docs/gate.md says. `settings` are more of the gate's
 * wrangler.toml.
 */
export function workersWithGate(routes, secrets, settings = {}) {
  const desk = readConfig({ config: join(root, 'desk', 'wrangler.toml'), env: 'demo' });
  const bindings = [...desk.durable_objects.bindings, objects];
  const bound = {
    config: { ...desk, build: {}, durable_objects: { bindings } },
    secrets: { SIGNING_KEY, ...secrets },
  };
  return [
    ...demoWorkers({ secrets }).map((worker) =>
      worker.configPath === 'desk/wrangler.toml' ? bound : worker,
    ),
    {
      config: { ...gate, d1_databases: desk.d1_databases, r2_buckets: [answers], ...settings },
      vars: { GATE: JSON.stringify({ routes }) },
      secrets: { SIGNING_KEY },
    },
  ];
}
