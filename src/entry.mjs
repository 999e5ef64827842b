// What the runtime loads: the WebAssembly Worker, wrapped so that a panic cannot leave anybody waiting.
//
// A panic traps the whole WebAssembly instance. The call that panicked fails, but every other future of that instance is
// orphaned: nothing will ever wake it, and whoever waits for it waits for ever. So each call into WebAssembly is raced
// against the trap: when one happens, all calls that are under way fail at once. Their callers ask again by the same key,
// and a new instance goes on from the last committed phase.
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import WasmEntrypoint, {
  KeyObject as WasmKeyObject,
  MetricsObject as WasmMetricsObject,
} from '../build/index.js';

/** When an alarm that ended in a trap is tried again, in ms. */
const AFTER_TRAP_MS = 60_000;

const underWay = new Set();

function failAll(trap) {
  if (!(trap instanceof WebAssembly.RuntimeError)) return;
  for (const fail of underWay) fail(trap);
  underWay.clear();
}

// A trap in a future is reported here; one in the call itself by its promise, below.
addEventListener('error', (event) => failAll(event.error));

/** Calls into WebAssembly; fails as soon as the instance traps, in this call or in any other. */
function guarded(call) {
  return new Promise((resolve, reject) => {
    underWay.add(reject);
    Promise.resolve()
      .then(call)
      .then(resolve, (error) => {
        failAll(error);
        reject(error);
      })
      .finally(() => underWay.delete(reject));
  });
}

const log = (event, error) => console.error(JSON.stringify({ level: 'error', event, error: String(error) }));

export default class extends WorkerEntrypoint {
  constructor(ctx, env) {
    super(ctx, env);
    this.wasm = new WasmEntrypoint(ctx, env);
  }

  async fetch(request) {
    try {
      return await guarded(() => this.wasm.fetch(request));
    } catch (error) {
      log('trapped', error);
      return interrupted(request.headers.get('accept')?.includes('text/html'));
    }
  }

  /** What is not acknowledged by then comes again. */
  queue(batch) {
    return guarded(() => this.wasm.queue(batch));
  }

  scheduled(controller) {
    return guarded(() => this.wasm.scheduled(controller));
  }
}

/** The only answer that is not made in WebAssembly. */
function interrupted(forPerson) {
  const id = `req_${crypto.randomUUID()}`;
  const title = 'The request was interrupted';
  const detail = 'Send the same request with the same key again: it goes on from where it was.';
  const problem = { type: '/problems/interrupted', title, status: 500, detail, instance: id };
  const page = `<!doctype html>
<html lang="en">
  <meta charset="utf-8" />
  <meta name="viewport" content="width=device-width" />
  <title>${title}</title>
  <h1>${title}</h1>
  <p>Load this page again to go on from where it was. You pay once, however often the form is sent.</p>
</html>
`;
  return new Response(forPerson ? page : JSON.stringify(problem), {
    status: 500,
    headers: {
      'content-type': forPerson ? 'text/html; charset=utf-8' : 'application/problem+json',
      'cache-control': 'private, no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'same-origin',
      'request-id': id,
      'retry-after': '1',
      'x-content-type-options': 'nosniff',
    },
  });
}

export class KeyObject extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.wasm = new WasmKeyObject(ctx, env);
  }

  fetch(request) {
    return guarded(() => this.wasm.fetch(request));
  }

  /** An alarm that fails is tried six times and then lost for good: after a trap it is set again instead. */
  async alarm() {
    try {
      await guarded(() => this.wasm.alarm());
    } catch (error) {
      log('alarm_trapped', error);
      await this.ctx.storage.setAlarm(Date.now() + AFTER_TRAP_MS);
    }
  }
}

export class MetricsObject extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.wasm = new WasmMetricsObject(ctx, env);
  }

  fetch(request) {
    return guarded(() => this.wasm.fetch(request));
  }
}
