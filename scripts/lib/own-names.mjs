// Imported before wrangler, also by `node --import`: what this process makes for itself alone, and wrangler and miniflare in it, has the process's id in
// its name. What it could not remove itself, because it was killed, is known by that and removed later (leftovers.mjs).
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// miniflare's folder and all else that is temporary. wrangler's command starts wrangler in another process, which has one inside.
process.env.TMPDIR = join(tmpdir(), `paid-once-of-${process.pid}`);
fs.mkdirSync(process.env.TMPDIR, { recursive: true });
process.on('exit', () => fs.rmSync(process.env.TMPDIR, { recursive: true, force: true }));

/** Where wrangler puts the Workers that it has bundled. */
const BUNDLES = /[\\/]\.wrangler[\\/]tmp[\\/][a-z-]+-$/;
const { mkdtempSync } = fs;
fs.mkdtempSync = (prefix, options) =>
  mkdtempSync(BUNDLES.test(prefix) ? `${prefix}${process.pid}-` : prefix, options);
