// The bank of a site that is killed: it runs in a process of its own, so it outlives each kill.
import { root } from '../../scripts/lib/paths.mjs';
import { createTestHarness } from '../worker/support/wrangler.mjs';

/** Starts it. Its webhooks go to this address. Gives where it listens, and how it is closed. */
export async function openBank(merchant) {
  const vars = { WEBHOOK_URL: merchant.origin };
  const server = createTestHarness({ root, workers: [{ configPath: 'simulator/wrangler.toml', vars }] });
  const { url } = await server.listen();
  return { origin: new URL(url), close: () => server.close() };
}
