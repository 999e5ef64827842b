// What @node-idempotency/core requires as `crypto`, under the name that workerd knows.
export { createHash } from 'node:crypto';
