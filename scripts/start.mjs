// `npm start`: the whole of Paid Once on this machine, with its simulated Stripe beside it. No keys, no network.
import { serveDemo } from './lib/demo.mjs';
import { endOnSignals } from './lib/run.mjs';
import { script } from './lib/say.mjs';

// Stopping a server is not a failure; workerd gets three seconds to put its databases away.
endOnSignals({ exitCode: 0, patienceMs: 3_000 });
await script(() => serveDemo());
