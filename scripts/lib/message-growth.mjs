// Loaded before wrangler (dev-server.mjs, and the harness of the tests): miniflare writes the Workers into a message that grows by 4 KiB, and copies
// all of it each time. With some megabytes of WebAssembly that takes as long as the start of the runtime. Should it change, nothing is replaced.
import { registerHooks } from 'node:module';

const MINIFLARE = '/miniflare/dist/src/index.js';
// It does not look behind: then Node would look at each of the six million characters.
const GROWTH = /(MIN_SINGLE_SEGMENT_GROWTH = )4096\b/;

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith(MINIFLARE)) return loaded;
    return { ...loaded, source: String(loaded.source).replace(GROWTH, (_, name) => `${name}16777216`) };
  },
});
