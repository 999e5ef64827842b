// The example's Worker as worker-build of workers-rs gives it: no functions, but an entrypoint, and classes that begin anew after a trap by
// themselves. `crash: outside` has the real one.
import { WorkerEntrypoint } from 'cloudflare:workers';
import * as wasm from '../../crates/once-object/examples/transfers/build/index.js';
import { guard } from '../../crates/once-object/guard.mjs';

const state = wasm.__worker_init_state();

const beginsAnew = (made) =>
  new Proxy(made, {
    construct(...given) {
      if (state.criticalError) {
        wasm.__wbg_reset_state();
        state.criticalError = false;
        state.instanceId += 1;
      }
      return Reflect.construct(...given);
    },
  });

class Entrypoint extends WorkerEntrypoint {
  fetch(request) {
    return wasm.fetch(request, this.env, this.ctx);
  }
}

const { handlers, guarded, objectOf } = guard({
  default: beginsAnew(Entrypoint),
  Accounts: beginsAnew(wasm.Accounts),
});

/** A class without an alarm, and with WebSockets. */
class Sockets {
  fetch() {}
  webSocketMessage() {}
  webSocketClose() {}
  webSocketError() {}
  transfer() {}
  secret() {}
}
const { prototype } = guard({ Sockets }).objectOf('Sockets', ['transfer']);

const refused = (wrong) => {
  try {
    return `not refused: ${wrong()}`;
  } catch ({ message }) {
    return message;
  }
};
const refusals = [
  refused(() => guard({ Sockets }).objectOf('Nobody')),
  refused(() => guard({ Sockets }).objectOf('Sockets', ['transfer', 'refund'])),
];
delete globalThis.__worker_init_state;
refusals.push(refused(() => guard({ Sockets })));
globalThis.__worker_init_state = state;

export class Accounts extends objectOf('Accounts') {}

const trap = () => {
  throw new WebAssembly.RuntimeError('unreachable');
};

export default {
  fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    if (pathname === '/instance') return new Response(String(state.instanceId));
    if (pathname === '/refusals') return Response.json(refusals);
    if (pathname === '/handlers') return Response.json(Object.getOwnPropertyNames(prototype));
    return pathname === '/trap' ? guarded(trap) : handlers.fetch(request, env, ctx);
  },
};
