// Plays a k6 script with Node: node play-k6.mjs SCRIPT TIMES. Prints how often each of its checks passed and failed, as JSON.

import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const standIn = new URL('./k6.mjs', import.meta.url).href;
registerHooks({
  resolve: (name, context, next) =>
    name === 'k6' || name.startsWith('k6/') ? { url: standIn, shortCircuit: true } : next(name, context),
});

const [script, times] = process.argv.slice(2);
Object.assign(globalThis, { __ENV: process.env, __VU: 1, __ITER: 0 });
const { default: iteration } = await import(pathToFileURL(resolve(script)).href);
const { checks } = await import(standIn);
for (; globalThis.__ITER < Number(times); globalThis.__ITER += 1) iteration();
console.log(JSON.stringify(checks));
