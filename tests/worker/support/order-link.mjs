// The links of orders, as src/edge/checkout/order_token.rs makes them: to change them, and to make a past.

import { createHash, randomBytes } from 'node:crypto';

import { objectId } from './objects.mjs';
import { oldSignature, signature } from './signing.mjs';

const EXPIRES_AT = 6;

const payloadOf = (content) => Buffer.from(JSON.stringify(content)).toString('base64url');

/** The page of an order with this content, signed as ours are. */
export function sign(content, key) {
  const payload = payloadOf(content);
  return `/checkout/${payload}.${signature(key, 'order links', payload).toString('base64url')}`;
}

/** The same, as the version before signed it. */
export function signAsBefore(content, key) {
  const payload = payloadOf(content);
  return `/checkout/${payload}.${oldSignature(key, 'paid-once order link', payload).toString('base64url')}`;
}

/** [version, order id, account, currency, lines, return_url, expires_at_ms, revision, locale, cancel_url, capture], the last three if any */
export const contentOf = (page) => JSON.parse(Buffer.from(page.split('/')[2].split('.')[0], 'base64url'));

/** The page of the same order, whose link has run out. */
export const expired = (page, key) => sign(contentOf(page).with(EXPIRES_AT, Date.now() - 1), key);

/** The key of a form of an order's page, as src/edge/checkout/form_key.rs makes it. */
export function formKey(page, payment, expires_at_ms, key) {
  const u64 = (number) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(BigInt(number));
    return bytes;
  };
  const parts = [Buffer.from('order link'), Buffer.from(page.split('/')[2])];
  const link = createHash('sha256');
  for (const part of parts) link.update(u64(part.length)).update(part);
  const signed = Buffer.concat([Buffer.of(1), u64(expires_at_ms), randomBytes(16)]);
  const object = Buffer.from(objectId(payment), 'hex');
  const bytes = [signed, signature(key, 'order forms', signed, object, link.digest())];
  return Buffer.concat(bytes).toString('base64url');
}
