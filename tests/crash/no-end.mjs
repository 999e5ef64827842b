// The example with a host that waits for ever: the timer by which it ends its own calls never rings.
/** `provider_timeout_ms` of the example. */
const TIMEOUT_MS = 2_000;
const ring = globalThis.setTimeout;
globalThis.setTimeout = (then, ms, ...rest) => (ms === TIMEOUT_MS ? 0 : ring(then, ms, ...rest));

export { Accounts, default } from '../../crates/once-object/examples/transfers/entry.mjs';
