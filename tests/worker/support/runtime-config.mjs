// What wrangler gives the runtime that no Worker of ours needs: a service is an isolate, which is made and compiled at each start.

/** The Cache API; the addresses under which a public bucket's objects are read; emails that a Worker sends or gets by Cloudflare. */
const UNUSED = /^(cache|r2:public|email)\b/;

/** Workers that run elsewhere, by their names: where they listen, as `host:port`. The harness must have a Worker of that name, which is not asked. */
export const elsewhere = new Map();

/** Takes it out of a configuration of miniflare's, and the names of functions out of the WebAssembly: a fifth of it. */
export function spare(config) {
  config.services = config.services.filter(({ name }) => !UNUSED.test(name));
  for (const [name, address] of elsewhere) bindElsewhere(config, `core:user:${name}`, address);
  for (const { worker } of config.services.filter((service) => service.worker)) {
    worker.bindings = worker.bindings?.filter((binding) => !isUnused(binding));
    if (UNUSED.test(worker.cacheApiOutbound?.name)) delete worker.cacheApiOutbound;
    // For the stack of a trap they are kept: WASM_NAMES=1 node --test-reporter=spec tests/worker/…
    if (process.env.WASM_NAMES) continue;
    for (const module of worker.modules ?? []) if (module.wasm) module.wasm = withoutNames(module.wasm);
  }
}

/** Lets the Workers that are bound to one of them ask what listens at an address instead. */
function bindElsewhere({ services }, name, address) {
  const instead = `elsewhere:${name}`;
  for (const { worker } of services.filter((service) => service.name?.startsWith('core:user:')))
    for (const { service } of worker?.bindings ?? []) if (service?.name === name) service.name = instead;
  services.push({ name: instead, external: { address, http: {} } });
}

const isUnused = ({ service, durableObjectNamespace }) =>
  UNUSED.test(service?.name ?? durableObjectNamespace?.serviceName);

/** Without its custom sections, which only tools read: each section is its kind, its length and its bytes. */
function withoutNames(wasm) {
  const HEAD = 8;
  const kept = [wasm.subarray(0, HEAD)];
  for (let at = HEAD; at < wasm.length;) {
    const start = at;
    const kind = wasm[at++];
    let length = 0;
    for (let shift = 0, more = true; more; shift += 7) {
      length += (wasm[at] & 0x7f) * 2 ** shift;
      more = wasm[at++] >= 0x80;
    }
    at += length;
    if (kind !== 0) kept.push(wasm.subarray(start, at));
  }
  return Buffer.concat(kept);
}
