// What the runtime loads: the handler and the object that are written in Rust, guarded so that a panic cannot leave anybody waiting.
import * as wasm from '../build/index.js';
import { guard } from '../../crates/once-object/guard.mjs';
import { interrupted } from '../../crates/runtime/interrupted.mjs';

const { guarded, objectOf } = guard(wasm);

export default {
  async fetch(request, env, ctx) {
    try {
      return await guarded(() => wasm.fetch(request, env, ctx), ctx);
    } catch (error) {
      return interrupted(request, error);
    }
  },
};

export class GateObject extends objectOf('GateObject') {}
