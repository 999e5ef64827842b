// What the runtime loads: the simulator's Worker and its object, which are written in Rust.
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import * as wasm from '../build/index.js';

/** The `worker` crate's own: whether the instance has panicked, and the number of the instance. */
const instance = wasm.__worker_init_state();

const onTrap = (error) => {
  if (error instanceof WebAssembly.RuntimeError) instance.criticalError = true;
};
addEventListener('error', (event) => onTrap(event.error));

/** Calls into WebAssembly, into a new instance if the last one has trapped. */
async function inWasm(call) {
  if (instance.criticalError) {
    wasm.__wbg_reset_state();
    instance.criticalError = false;
  }
  try {
    return await call();
  } catch (error) {
    onTrap(error);
    throw error;
  }
}

export default class extends WorkerEntrypoint {
  fetch(request) {
    const answer = inWasm(() => wasm.fetch(request, this.env, this.ctx));
    // Whoever asks may leave: what never settles would stay in memory.
    this.ctx.waitUntil(answer.catch(() => {}));
    return answer;
  }
}

export class Account extends DurableObject {
  #inner;
  #instanceId;

  fetch(request) {
    return inWasm(() => this.#account().fetch(request));
  }

  /** The webhooks that are due. */
  alarm() {
    return inWasm(() => this.#account().alarm());
  }

  #account() {
    if (this.#instanceId !== instance.instanceId) {
      this.#inner = new wasm.Account(this.ctx, this.env);
      this.#instanceId = instance.instanceId;
    }
    return this.#inner;
  }
}
