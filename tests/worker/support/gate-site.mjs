// The demo with a gate beside it, which tells its desk.

import { join } from 'node:path';

import { demoWorkers, deployed, root, SIGNING_KEY } from './harness.mjs';
import { readConfig } from './wrangler.mjs';

const gate = deployed('gate');
const objects = { name: 'GATE_OBJECTS', class_name: 'GateObject', script_name: gate.name };

/** The Worker's name. */
export const GATE = gate.name;

/** The Workers: the desk is bound to the gate's objects, and the gate to the read model, as docs/gate.md says. */
export function workersWithGate(routes, secrets) {
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
      config: { ...gate, d1_databases: desk.d1_databases },
      vars: { GATE: JSON.stringify({ routes }) },
      secrets: { SIGNING_KEY },
    },
  ];
}
