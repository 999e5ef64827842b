// What the runtime loads: the handlers and objects that are written in Rust, guarded so that a panic cannot leave anybody waiting.
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import * as wasm from '../build/index.js';
import { guard, interrupted, log } from '../crates/runtime/guard.mjs';

/** When an alarm that ended in a trap is tried again, in ms. */
const AFTER_TRAP_MS = 60_000;

const { guarded, instance } = guard(wasm);

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

/** What other Workers answer, where there is only one address for all and they are bound here. The desk may have a host of its own. */
const PASSED_ON = [
  ['DESK', /^\/(admin|metrics|assets\/desk\.css)(\/|$)/],
  ['DEMO_SITE', /^\/($|(lab|_sim|assets\/lab\.js)(\/|$))/],
];

export default class extends WorkerEntrypoint {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const passedOn = PASSED_ON.find(([name, paths]) => this.env[name] && paths.test(pathname));
    if (passedOn) return this.env[passedOn[0]].fetch(request);
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
}

/** What the desk asks. Nothing but a service binding reaches it. */
export class Operations extends WorkerEntrypoint {
  fetch(request) {
    return guarded(() => wasm.operations(request, this.env));
  }
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
