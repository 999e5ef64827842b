// The demo with rate limiting bindings of other sizes than its own.

import { startChanged } from './changed.mjs';

let started = 0;

/**
 * Starts the demo with these bindings only, by their names: how many a minute each allows. What is left out holds nobody up.
 */
export function startLimited(limits, options = {}) {
  started += 1;
  const bindings = Object.entries(limits).map(
    ([name, limit], i) => `
[[env.demo.ratelimits]]
name = "${name}"
namespace_id = "${started}${i}"
simple = { limit = ${limit}, period = 60 }
`,
  );
  const limited = (settings) =>
    settings.replaceAll(/\[\[env\.demo\.ratelimits\]\]\n(?:\w.*\n)+/g, '') + bindings.join('');
  return startChanged(limited, options);
}
