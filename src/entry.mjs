// What the runtime loads: the WebAssembly Worker, wrapped so that a panic cannot leave anybody waiting.
//
// A panic traps the whole WebAssembly instance. The call that panicked fails, but every other future of that instance is
// orphaned: nothing will ever wake it, and whoever waits for it waits for ever. So each call into WebAssembly is raced
// against the trap: when one happens, all calls that are under way fail at once. Their callers ask again by the same key,
// and a new instance goes on from the last committed phase.
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import WasmEntrypoint, { KeyObject as WasmKeyObject } from '../build/index.js';

const underWay = new Set();

addEventListener('error', (event) => {
  if (!(event.error instanceof WebAssembly.RuntimeError)) return;
  for (const fail of underWay) fail(event.error);
  underWay.clear();
});

/** Calls into WebAssembly; fails as soon as the instance traps, in this call or in any other. */
function guarded(call) {
  return new Promise((resolve, reject) => {
    underWay.add(reject);
    Promise.resolve()
      .then(call)
      .then(resolve, reject)
      .finally(() => underWay.delete(reject));
  });
}

export default class extends WorkerEntrypoint {
  constructor(ctx, env) {
    super(ctx, env);
    this.wasm = new WasmEntrypoint(ctx, env);
  }

  async fetch(request) {
    try {
      return await guarded(() => this.wasm.fetch(request));
    } catch (error) {
      console.error(JSON.stringify({ level: 'error', event: 'trapped', error: String(error) }));
      const id = `req_${crypto.randomUUID()}`;
      const body = {
        type: '/problems/interrupted',
        title: 'The request was interrupted',
        status: 500,
        detail: 'Send the same request with the same key again: it goes on from where it was.',
        instance: id,
      };
      const headers = {
        'request-id': id,
        'content-type': 'application/problem+json',
        'retry-after': '1',
        'cache-control': 'private, no-store',
        'x-content-type-options': 'nosniff',
        'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      };
      return new Response(JSON.stringify(body), { status: 500, headers });
    }
  }
}

export class KeyObject extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.wasm = new WasmKeyObject(ctx, env);
  }

  fetch(request) {
    return guarded(() => this.wasm.fetch(request));
  }

  alarm() {
    return guarded(() => this.wasm.alarm());
  }
}
