// What the runtime loads: the handlers and objects that are written in Rust, guarded so that a panic cannot leave anybody waiting.
//
// A panic traps the whole WebAssembly instance. The call that panicked fails, but every other future of that instance is
// orphaned: nothing will ever wake it, and whoever waits for it waits for ever. So each call into WebAssembly is raced
// against the trap: when one happens, all calls that are under way fail at once. Their callers ask again by the same key,
// and a new instance goes on from the last committed phase.
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import * as wasm from '../build/index.js';

/** When an alarm that ended in a trap is tried again, in ms. */
const AFTER_TRAP_MS = 60_000;

/** The `worker` crate's own: whether the instance has panicked, and the number of the instance. */
const instance = wasm.__worker_init_state();
const underWay = new Set();

function failAll(trap) {
  if (!(trap instanceof WebAssembly.RuntimeError)) return;
  instance.criticalError = true;
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
      .then(renew)
      .then(call)
      .then(resolve, (error) => {
        failAll(error);
        reject(error);
      })
      .finally(() => underWay.delete(reject));
  });
}

/** Replaces an instance that has trapped. */
function renew() {
  if (!instance.criticalError) return;
  wasm.__wbg_reset_state();
  instance.criticalError = false;
}

/** A Durable Object that is written in Rust. Nothing but its handlers is on its prototype: callers could reach it. */
class RustObject extends DurableObject {
  #className;
  #inner;
  #instanceId;

  constructor(ctx, env, className) {
    super(ctx, env);
    this.#className = className;
  }

  fetch(request) {
    return guarded(() => RustObject.inner(this).fetch(request));
  }

  /** The object in WebAssembly: made anew with a new instance, whose memory knows nothing of the old one's. */
  static inner(object) {
    if (object.#instanceId !== instance.instanceId) {
      object.#inner = new wasm[object.#className](object.ctx, object.env);
      object.#instanceId = instance.instanceId;
    }
    return object.#inner;
  }
}

const log = (event, error) => console.error(JSON.stringify({ level: 'error', event, error: String(error) }));

export default class extends WorkerEntrypoint {
  async fetch(request) {
    try {
      return await guarded(() => wasm.fetch(request, this.env, this.ctx));
    } catch (error) {
      log('trapped', error);
      return interrupted(request.headers.get('accept')?.includes('text/html'));
    }
  }

  /** What is not acknowledged by then comes again. */
  queue(batch) {
    return guarded(() => wasm.queue(batch, this.env, this.ctx));
  }

  scheduled(controller) {
    return guarded(() => wasm.scheduled(controller, this.env, this.ctx));
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
  <link rel="icon" href="data:," />
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
      'content-security-policy': "default-src 'none'; img-src data:; frame-ancestors 'none'",
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'same-origin',
      'request-id': id,
      'retry-after': '1',
      'x-content-type-options': 'nosniff',
    },
  });
}

export class KeyObject extends RustObject {
  constructor(ctx, env) {
    super(ctx, env, 'KeyObject');
  }

  /** An alarm that fails is tried six times and then lost for good: after a trap it is set again instead. */
  async alarm() {
    try {
      await guarded(() => RustObject.inner(this).alarm());
    } catch (error) {
      log('alarm_trapped', error);
      await this.ctx.storage.setAlarm(Date.now() + AFTER_TRAP_MS);
    }
  }
}

export class MetricsObject extends RustObject {
  constructor(ctx, env) {
    super(ctx, env, 'MetricsObject');
  }
}
