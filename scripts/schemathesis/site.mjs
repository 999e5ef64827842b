// The demo as the tests start it, for a client of its own: prints its address, serves until it is told to end.
import { startSite } from '../../tests/worker/support/harness.mjs';

const site = await startSite();
process.once('SIGTERM', async () => {
  await site.close();
  process.exit();
});
console.log(`listening at ${site.url.origin}`);
