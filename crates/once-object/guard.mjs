// Calls into WebAssembly that cannot leave anybody waiting: what the entry of a Worker with such objects is made of.
//
// A panic traps the whole WebAssembly instance. The call that panicked fails, but every other future of that instance is
// orphaned: nothing will ever wake it, and whoever waits for it waits for ever. So each call into WebAssembly is raced
// against the trap: when one happens, all calls that are under way fail at once. Their callers ask again by the same key,
// and a new instance goes on from the last committed phase. Each Worker has an instance of its own: a trap in one is none in another.
import { DurableObject } from 'cloudflare:workers';

/** When an alarm that failed is tried again, in ms. */
const AFTER_FAILURE_MS = 60_000;

/** What the `worker` crate may make of the Worker, and of an object beside its alarm. */
const HANDLERS = ['fetch', 'queue', 'scheduled', 'email', 'connect'];
const OBJECT_HANDLERS = [
  ...['fetch', 'connect', 'webSocketMessage', 'webSocketClose', 'webSocketError'],
  // By RPC, a text for a text.
  'ask',
  // What is answered at once, or not at all.
  'recall',
];

/**
 * The guard of a Worker whose WebAssembly is `wasm`: all that `build/index.js` exports, by worker-build or by wasm-bindgen itself. `handlers`
 * are the Worker's own, for its default export; `objectOf` gives the class of a Durable Object that is written in Rust, by its name and the names of
 * what else may be called of it by RPC. `guarded` makes any other call, of a handler with its `ctx`; `atOnce` one that waits for nothing.
 */
export function guard(wasm) {
  /** The `worker` crate's own: whether the instance has panicked, and the number of the instance. */
  const instance = globalThis.__worker_init_state;
  if (!instance)
    throw new Error(
      'there is no __worker_init_state: import what worker-build has made before guard() is called, of a version of the worker crate that has it (0.8)',
    );
  const underWay = new Set();

  function failAll(trap) {
    if (!(trap instanceof WebAssembly.RuntimeError)) return;
    instance.criticalError = true;
    for (const fail of underWay) fail(trap);
    underWay.clear();
  }

  // A trap in a future is reported here; one in the call itself by its promise, below.
  addEventListener('error', (event) => failAll(event.error));

  /**
   * Calls into WebAssembly; what has to wait fails as soon as the instance traps, in this call or in any other. With the `ctx` of an invocation that its
   * client can cancel it goes on without the client: a promise of a cancelled invocation never settles, so its future would stay in memory,
   * with all that it holds, as long as the instance does.
   */
  function guarded(call, ctx) {
    const made = atOnce(call);
    if (!(made instanceof Promise)) return made;
    const settled = new Promise((resolve, reject) => {
      underWay.add(reject);
      const end = (value) => {
        underWay.delete(reject);
        resolve(value);
      };
      made.then(end, (error) => {
        failAll(error);
        underWay.delete(reject);
        reject(error);
      });
    });
    ctx?.waitUntil(settled.catch(() => {}));
    return settled;
  }

  /** Makes a call into WebAssembly that does not wait for anything. */
  function atOnce(call) {
    renew();
    try {
      return call();
    } catch (error) {
      failAll(error);
      throw error;
    }
  }

  /** Replaces an instance that has trapped. What worker-build makes does it itself, as soon as an object is made or called. */
  function renew() {
    if (!instance.criticalError || !wasm.__wbg_reset_state) return;
    wasm.__wbg_reset_state();
    instance.criticalError = false;
  }

  /** A function with all arguments; by worker-build a method of an entrypoint that has the last two. */
  const { default: Entrypoint } = wasm;
  const call = Entrypoint
    ? (name, event, env, ctx) => new Entrypoint(ctx, env)[name](event)
    : (name, event, env, ctx) => wasm[name](event, env, ctx);
  const handlers = Object.fromEntries(
    HANDLERS.filter((name) => (Entrypoint?.prototype ?? wasm)[name]).map((name) => [
      name,
      (event, env, ctx) => guarded(() => call(name, event, env, ctx), ctx),
    ]),
  );

  return {
    handlers,
    guarded,
    atOnce,
    objectOf: (className, methods = []) => objectOf({ wasm, instance, guarded }, className, methods),
  };
}

/** Nothing but its handlers is on the prototype: callers could reach it. */
function objectOf({ wasm, instance, guarded }, className, methods) {
  const { prototype } = wasm[className] ?? {};
  if (!prototype)
    throw new Error(`no class ${className} is written in Rust: is it #[durable_object] and pub?`);
  const missing = methods.find((name) => !prototype[name]);
  if (missing)
    throw new Error(`${className} has no method ${missing}: is it pub, in an impl with #[wasm_bindgen]?`);
  class RustObject extends DurableObject {
    #inner;
    #instanceId;

    static {
      const handlers = OBJECT_HANDLERS.filter((handler) => prototype[handler]);
      for (const name of new Set([...handlers, ...methods]))
        this.prototype[name] = function (...given) {
          return guarded(() => RustObject.#of(this)[name](...given));
        };
    }

    /** The object in WebAssembly: made anew with a new instance, whose memory knows nothing of the old one's. */
    static #of(object) {
      if (instance.criticalError || object.#instanceId !== instance.instanceId) {
        object.#inner = new wasm[className](object.ctx, object.env);
        object.#instanceId = instance.instanceId;
      }
      return object.#inner;
    }

    /** An alarm that fails is tried six times and then lost for good: it is set again instead, after a trap and after an error. */
    async alarm() {
      try {
        await guarded(() => RustObject.#of(this).alarm());
      } catch (error) {
        log(error instanceof WebAssembly.RuntimeError ? 'alarm_trapped' : 'alarm_failed', error);
        await this.ctx.storage.setAlarm(Date.now() + AFTER_FAILURE_MS);
      }
    }
  }
  if (!prototype.alarm) delete RustObject.prototype.alarm;
  return RustObject;
}

export const log = (event, error, more = {}) =>
  console.error(JSON.stringify({ level: 'error', event, error: String(error), ...more }));
