// `npm run simulator`: the simulated Stripe alone, for the official SDKs and the Stripe CLI.
import { build } from './build.mjs';
import { checkPortIsFree, portFrom, serve } from './lib/dev-server.mjs';
import { inRoot } from './lib/paths.mjs';
import { endOnSignals } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

// Stopping a server is not a failure; workerd gets three seconds to put its databases away.
endOnSignals({ exitCode: 0, patienceMs: 3_000 });
await script(async () => {
  const port = portFrom(process.env.PORT, 12111);
  await checkPortIsFree(port);
  const { WEBHOOK_URL, STRIPE_WEBHOOK_SECRET } = process.env;
  if (WEBHOOK_URL && !URL.canParse(WEBHOOK_URL))
    throw new Stop(
      `WEBHOOK_URL must be an address such as http://localhost:4242/webhook, not "${WEBHOOK_URL}".`,
    );
  const set = Object.entries({ WEBHOOK_URL, STRIPE_WEBHOOK_SECRET }).filter(([, value]) => value);

  say('Setting up');
  await setUp();
  say('Building the simulator');
  await build({ names: ['simulator'], profile: 'dev' });

  await serve({
    name: 'the simulator',
    configs: ['simulator/wrangler.toml'],
    vars: Object.fromEntries(set),
    port,
    // Not the state of `npm start`: both may run at once, and two processes must not write one database.
    state: inRoot('simulator', '.wrangler', 'state'),
    readyPath: '/',
    isReady: ({ status }) => status < 500, // Stripe has no health page: any answer of its own will do
    onReady: () => {
      say(`\nThe simulator is ready: http://localhost:${port}   (Ctrl-C ends it)`);
      say(
        WEBHOOK_URL
          ? `Webhooks go to ${WEBHOOK_URL}\n`
          : 'Webhooks go nowhere: WEBHOOK_URL=http://… npm run simulator\n',
      );
    },
  });
});
