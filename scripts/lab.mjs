// `npm run lab`: Paid Once for experiments with curl, as docs/lab.md walks through them. No keys, no network, nothing kept.
// `npm run lab -- --monitoring` starts Prometheus beside it, with the alert rules.
import { join } from 'node:path';

import { build } from './build.mjs';
import { checkPortIsFree, portFrom } from './lib/dev-server.mjs';
import { labPorts, startLab } from './lib/lab.mjs';
import { startPrometheus } from './lib/monitoring.mjs';
import { inRoot } from './lib/paths.mjs';
import { endOnSignals } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';
import { prometheus } from './setup/prometheus.mjs';

const standardPort = 8000;
const prometheusPort = 9090;

// Stopping a server is not a failure; workerd gets three seconds to put its databases away.
endOnSignals({ exitCode: 0, patienceMs: 3_000 });
await script(async () => {
  const { port, bank } = await labPorts(process.env.PORT, standardPort);

  const isWatched = process.argv.includes('--monitoring');
  const watch = isWatched && portFrom(process.env.PROMETHEUS_PORT, prometheusPort);
  if (isWatched) await checkPortIsFree(watch);

  say('Setting up');
  await setUp();
  const programs = isWatched && (await prometheus());
  if (isWatched && !programs)
    throw new Stop(
      'Prometheus is not here, and apt is not: put it into your PATH, or set PROMETHEUS and PROMTOOL.',
    );
  say('Building the Workers');
  await build({ profile: 'dev' });

  const state = inRoot('.wrangler', port === standardPort ? 'lab' : `lab-${port}`);
  // Traces go to whoever is named, such as the Jaeger of monitoring/compose.yml.
  const { OTLP_ENDPOINT } = process.env;
  const lab = await startLab({ port, bank, state, vars: OTLP_ENDPOINT ? { OTLP_ENDPOINT } : {} });
  const watcher =
    isWatched &&
    (await startPrometheus({
      program: programs.prometheus,
      port: watch,
      target: port,
      state: join(state, 'prometheus'),
    }));
  say(`
The lab is ready: http://localhost:${port}   (Ctrl-C ends it)

  KEY=$(node -p 'crypto.randomUUID()')
  curl -i http://localhost:${port}/payments -H "Idempotency-Key: $KEY" -H "Content-Type: application/json" \\
    -d '{"amount": 2500, "currency": "usd", "description": "Test payment"}'
  curl -s http://localhost:${port}/idempotency-keys/$KEY
  curl -s http://localhost:${port}/admin/stats

What the bank charged: http://localhost:${bank}   The API: http://localhost:${port}/docs   The experiments: docs/lab.md
`);
  if (watcher)
    say(
      `What Prometheus sees: http://localhost:${watch}/graph   The alerts: http://localhost:${watch}/alerts\n`,
    );
  await Promise.race([lab.ended, watcher?.ended].filter(Boolean));
});
