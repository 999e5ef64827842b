// What the runtime loads: the handlers and objects that are written in Rust, guarded so that a panic cannot leave anybody waiting.
import { WorkerEntrypoint } from 'cloudflare:workers';
import * as wasm from '../build/index.js';
import { guard } from '../crates/once-object/guard.mjs';
import { interrupted } from '../crates/runtime/interrupted.mjs';
import { answersVerbatim } from './verbatim.mjs';

const { guarded, atOnce, objectOf } = guard(wasm);
const verbatim = answersVerbatim(wasm, atOnce);

/** What other Workers answer, where there is only one address for all and they are bound here. The desk may have a host of its own. */
const PASSED_ON = [
  ['DESK', /^\/(admin|metrics|assets\/desk\.(?:css|js))(\/|$)/],
  ['DEMO_SITE', /^\/($|(lab|rides|_sim|assets\/lab\.(?:css|js))(\/|$))/],
];

export default class extends WorkerEntrypoint {
  async fetch(request) {
    const passedOn = PASSED_ON.find(
      ([name, paths]) => this.env[name] && paths.test(new URL(request.url).pathname),
    );
    if (passedOn) return this.env[passedOn[0]].fetch(request);
    try {
      const head = verbatim.knownHead(request);
      const known =
        head === undefined ? { request } : await verbatim.answer(request, head, this.env, this.ctx);
      if (known.response) return known.response;
      return await guarded(() => wasm.fetch(known.request, this.env, this.ctx, known.id), this.ctx);
    } catch (error) {
      return interrupted(request, error, this.env.CORS_ORIGINS);
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
    return guarded(() => wasm.operations(request, this.env), this.ctx);
  }
}

export class KeyObject extends objectOf('KeyObject') {}

export class MetricsObject extends objectOf('MetricsObject') {}

export { AccountsCacheObject } from './accounts/cache_object.mjs';
export { ReadModelShard } from './shard.mjs';
