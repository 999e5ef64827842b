// What the runtime loads: the demo's handler, which is written in Rust, guarded so that a panic cannot leave anybody waiting.
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
}

export class RideObject extends objectOf('RideObject') {}
