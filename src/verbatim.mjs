// The very same request once more, answered without reading it in WebAssembly: src/edge/verbatim.rs says when, and with what. Here are only the
// request's parts read by which it is found, its object asked where there is no copy, and what each answer has of its own added: its id, its time, its
// line in the log.

import { requestId } from '../crates/runtime/interrupted.mjs';

/** How long a body may take to come, or an object to answer, in ms. What is slower is waited for where all are, for as long as the settings say. */
const PATIENCE_MS = 1_000;

/** Asks for answers. `atOnce` makes a call into the WebAssembly `wasm` that does not wait. */
export function answersVerbatim(wasm, atOnce) {
  const names = wasm.verbatim_headers().split(',');

  /** The head of a request that may be the very same as one before; `undefined` if it is none. */
  function knownHead(request) {
    if (request.method !== 'POST' || !atOnce(wasm.verbatim_is_any)) return undefined;
    const head = headOf(names, request);
    return atOnce(() => wasm.verbatim_is_known(head)) ? head : undefined;
  }

  /** A `response`; or a `request` to be read in WebAssembly, which is alike: something of this one's body was read. Whatever its object was asked under an `id` it counts once under that. */
  async function answer(request, head, env, ctx) {
    const came = Date.now();
    const whole = request.arrayBuffer();
    const { soon, done } = patience();
    const body = await soon(whole);
    const found = body && atOnce(() => wasm.verbatim_answer(head, new Uint8Array(body), env, ctx));
    let response;
    let id;
    if (found?.length === PARTS) response = respond(found, came, requestId(came), 0);
    else if (found) response = await fromObject(found);
    done();
    if (response) return { response };
    return { request: body ? new Request(request, { body }) : withBody(request, whole), id };

    async function fromObject([object, question, number]) {
      const asked = Date.now();
      id = requestId(came);
      const told = await soon(env.KEYS.get(object).recall(question, id));
      const objectMs = Date.now() - asked;
      const answered = told && atOnce(() => wasm.verbatim_told(head, number, came, told, env, ctx));
      return answered && respond(answered, came, id, objectMs);
    }
  }

  return { knownHead, answer };
}

/** How many parts an answer is given in. */
const PARTS = 4;

/** Alike in Rust. */
function headOf(names, request) {
  const { url, headers } = request;
  let head = url;
  for (const name of names) {
    const value = headers.get(name);
    if (value !== null) head += `\n${name}:${value}`;
  }
  return head;
}

function respond([status, headers, body, line], came, id, objectMs) {
  const ms = Date.now() - came;
  if (line !== null) console.log(`${line},"ms":${ms},"request_id":"${id}"}`);
  const response = new Response(body, { status, headers });
  response.headers.set('request-id', id);
  response.headers.set('server-timing', `total;dur=${ms}, object;dur=${objectMs}, provider;dur=0`);
  return response;
}

/** One timer for all that is waited for, one after the other. `soon` gives what a promise gives, or `undefined` if the time is over by then, or if it fails: whoever waits for it again is told. */
function patience() {
  let giveUp;
  const timer = setTimeout(() => giveUp(), PATIENCE_MS);
  return {
    soon: (promise) =>
      new Promise((resolve) => {
        giveUp = resolve;
        promise.then(resolve, () => resolve());
      }),
    done: () => clearTimeout(timer),
  };
}

/** The same request, whose body was asked for already, and has not come yet. */
const withBody = (request, whole) =>
  new Request(request, {
    body: new ReadableStream({
      type: 'bytes',
      async start(controller) {
        const bytes = new Uint8Array(await whole);
        if (bytes.length > 0) controller.enqueue(bytes);
        controller.close();
      },
    }),
  });
