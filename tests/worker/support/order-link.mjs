// The links of orders, as src/edge/checkout/order_token.rs makes them: to change them, and to make a past.

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

/** [version, order id, account, currency, lines, return_url, expires_at_ms] */
export const contentOf = (page) => JSON.parse(Buffer.from(page.split('/')[2].split('.')[0], 'base64url'));

/** The page of the same order, whose link has run out. */
export const expired = (page, key) => sign(contentOf(page).with(EXPIRES_AT, Date.now() - 1), key);
