// The demo on this machine: the Workers beside each other, on data that stays.
import { build } from '../build.mjs';
import { setUp } from '../setup.mjs';
import { checkPortIsFree, makeSecrets, portFrom, serve } from './dev-server.mjs';
import { removeLeftovers } from './leftovers.mjs';
import { inRoot } from './paths.mjs';
import { say } from './say.mjs';

const standardPort = 8787;

/** Sets up, builds, and serves until the process is ended. `onReady` is called once the site answers. */
export async function serveDemo({ onReady = () => {} } = {}) {
  const port = portFrom(process.env.PORT, standardPort);
  await checkPortIsFree(port);

  removeLeftovers();
  say('Setting up');
  await setUp();
  say('Building the Workers');
  await build({ profile: 'dev' });
  const { ADMIN_TOKEN } = makeSecrets();

  await serve({
    name: 'Paid Once, its desk and its simulator',
    configs: ['wrangler.toml', 'desk/wrangler.toml', 'demo/wrangler.toml', 'simulator/wrangler.toml'],
    env: ['demo'],
    port,
    // Two processes must not write one database.
    state: inRoot('.wrangler', port === standardPort ? 'state' : `state-${port}`),
    database: 'DB',
    readyPath: '/healthz',
    onReady: () => {
      say(`\nPaid Once is ready: http://localhost:${port}   (Ctrl-C ends it)`);
      say(`The operator's desk: http://localhost:${port}/admin   (secret: ${ADMIN_TOKEN})\n`);
      onReady();
    },
  });
}
