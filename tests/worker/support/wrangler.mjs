// wrangler's test harness, and what makes it start in half the time: a process of its own for each suite pays for it.

import { createRequire, enableCompileCache, registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

// Compiled once, not in each process. And required, not imported: Node would first read its 15 MB for names of exports.
enableCompileCache(fileURLToPath(new URL('../../../.wrangler/compiled', import.meta.url)));
const require = createRequire(import.meta.url);

// miniflare writes the Workers into a message that grows by 4 KiB, and copies all of it each time: with some megabytes of
// WebAssembly that takes longer than the start of the runtime. Should it change, nothing is replaced.
const GROWTH = /(?<=MIN_SINGLE_SEGMENT_GROWTH = )4096\b/;
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith('/miniflare/dist/src/index.js')) return loaded;
    return { ...loaded, source: String(loaded.source).replace(GROWTH, '16777216') };
  },
});

export const { createTestHarness, unstable_readConfig: readConfig } = require('wrangler');
