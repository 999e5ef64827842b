// The JavaScript around a compiled Worker, as wasm-bindgen writes it for all that runs JavaScript, and what of it is otherwise here: because a bundler
// would not read it, or because workerd does the same for less another way. What each costs was measured on workerd: docs/performance.md.

/** Longer strings go to WebAssembly by the encoder, in characters; of shorter ones the call would cost more than the loop. */
const LONG = 256;

/** What is written, what takes its place, and why. */
const changes = [
  // Bundlers do not know imports of the source phase yet (https://github.com/tc39/proposal-source-phase-imports).
  ['import source ', 'import '],
  // By `queueMicrotask` the runtime goes through C++ on the way out and on the way back; a promise that is resolved stays in V8. A trap is reported, as
  // it would be there: guard.mjs hears of it.
  [
    'queueMicrotask(arg0);',
    'resolved.then(() => { try { arg0(); } catch (error) { reportError(error); } });',
  ],
  // One character after the other takes as long as a thousand of them by the encoder. All are ASCII if all fit.
  [
    'const mem = getUint8ArrayMemory0();\n\n    let offset = 0;\n',
    `const mem = getUint8ArrayMemory0();

    if (len > ${LONG} && cachedTextEncoder.encodeInto(arg, mem.subarray(ptr, ptr + len)).read === len) {
        WASM_VECTOR_LEN = len;
        return ptr;
    }
    let offset = 0;
`,
  ],
];

/** Gives what is bundled for a Worker. What is not found is an error: another version of wasm-bindgen may write something else. */
export function adapted(glue) {
  const changed = changes.reduce((text, [written, instead]) => {
    const parts = text.split(written);
    if (parts.length !== 2)
      throw new Error(`wasm-bindgen has written this ${parts.length - 1} times, not once: ${written}`);
    return parts.join(instead);
  }, glue);
  return `const resolved = Promise.resolve();\n${changed}`;
}
