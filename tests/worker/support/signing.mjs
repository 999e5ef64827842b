// The signatures of forms, links and sessions, as crates/web/src/signing.rs documents them: to make a past, and to forge.

import { createHmac, hkdfSync } from 'node:crypto';

const derived = (secret, info, length) =>
  Buffer.from(hkdfSync('sha256', secret, 'paid-once signing keys', info, length));

/** Key id and HMAC, with the key that is derived for a purpose such as `order links`. */
export function signature(secret, purpose, ...parts) {
  const mac = createHmac('sha256', derived(secret, `key of ${purpose}`, 32));
  for (const part of parts) mac.update(part);
  return Buffer.concat([derived(secret, 'key id', 4), mac.digest()]);
}

/** As the version before it signed: with the secret itself. */
export function oldSignature(secret, domain, ...parts) {
  const mac = createHmac('sha256', secret).update(`${domain}\0`);
  for (const part of parts) mac.update(part);
  return mac.digest();
}
