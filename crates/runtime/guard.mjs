// Calls into WebAssembly that cannot leave anybody waiting: what each Worker's entry is made of.
//
// A panic traps the whole WebAssembly instance. The call that panicked fails, but every other future of that instance is
// orphaned: nothing will ever wake it, and whoever waits for it waits for ever. So each call into WebAssembly is raced
// against the trap: when one happens, all calls that are under way fail at once. Their callers ask again by the same key,
// and a new instance goes on from the last committed phase. Each Worker has an instance of its own: a trap in one is none in another.

/** The guard of a Worker whose WebAssembly is `wasm`: what wasm-bindgen made of it. */
export function guard(wasm) {
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

  return { guarded, instance };
}

export const log = (event, error) =>
  console.error(JSON.stringify({ level: 'error', event, error: String(error) }));

/** The only answer that is not made in WebAssembly. */
export function interrupted(forPerson) {
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
