// What the runtime loads: the desk's handlers and its objects, which are written in Rust, guarded so that a panic cannot leave anybody waiting.
import { WorkerEntrypoint } from 'cloudflare:workers';
import * as wasm from '../build/index.js';
import { guard } from '../../crates/once-object/guard.mjs';
import { interrupted } from '../../crates/runtime/interrupted.mjs';

const { guarded, objectOf } = guard(wasm);

export default class extends WorkerEntrypoint {
  async fetch(request) {
    try {
      return await guarded(() => wasm.fetch(request, this.env, this.ctx), this.ctx);
    } catch (error) {
      return interrupted(request, error);
    }
  }
  /** The clock strikes. What ends in a trap is done by the next run. */
  scheduled(controller) {
    return guarded(() => wasm.scheduled(controller, this.env, this.ctx));
  }
}

export class TaskObject extends objectOf('TaskObject') {}
