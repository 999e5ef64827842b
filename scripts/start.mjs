// `npm start`: the whole of Paid Once on this machine, with its simulated Stripe beside it. No keys, no network.
import { build } from './build.mjs';
import { checkPortIsFree, makeSecrets, portFrom, serve } from './lib/dev-server.mjs';
import { inRoot } from './lib/paths.mjs';
import { endOnSignals } from './lib/run.mjs';
import { say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

const standardPort = 8787;

// Stopping a server is not a failure; workerd gets three seconds to put its databases away.
endOnSignals({ exitCode: 0, patienceMs: 3_000 });
await script(async () => {
  const port = portFrom(process.env.PORT, standardPort);
  await checkPortIsFree(port);

  say('Setting up');
  await setUp();
  say('Building both Workers');
  await build({ profile: 'dev' });
  const { ADMIN_TOKEN } = makeSecrets();

  await serve({
    name: 'Paid Once and its simulator',
    configs: ['wrangler.toml', 'simulator/wrangler.toml'],
    env: ['demo'],
    port,
    // Two processes must not write one database.
    state: inRoot('.wrangler', port === standardPort ? 'state' : `state-${port}`),
    database: 'DB',
    readyPath: '/healthz',
    onReady: () => {
      say(`\nPaid Once is ready: http://localhost:${port}   (Ctrl-C ends it)`);
      say(`The operator's desk: http://localhost:${port}/admin   (secret: ${ADMIN_TOKEN})\n`);
    },
  });
});
