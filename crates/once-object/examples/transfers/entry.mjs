// What the runtime loads: the handler and the object that are written in Rust, guarded against traps.
import * as wasm from './build/index.js';
import { guard } from '../../guard.mjs';

const { handlers, objectOf } = guard(wasm);

export class Accounts extends objectOf('Accounts') {}

export default handlers;
