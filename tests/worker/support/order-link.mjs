// The links of orders, as src/edge/checkout/order_token.rs makes them: to change them, and to make a past.

import { createHmac } from 'node:crypto';

const EXPIRES_AT = 6;

/** The page of an order with this content, signed as ours are. */
export function sign(content, key) {
  const payload = Buffer.from(JSON.stringify(content)).toString('base64url');
  const signature = createHmac('sha256', key).update(`paid-once order link\0${payload}`).digest('base64url');
  return `/checkout/${payload}.${signature}`;
}

/** [version, order id, account, currency, lines, return_url, expires_at_ms] */
export const contentOf = (page) => JSON.parse(Buffer.from(page.split('/')[2].split('.')[0], 'base64url'));

/** The page of the same order, whose link has run out. */
export const expired = (page, key) => sign(contentOf(page).with(EXPIRES_AT, Date.now() - 1), key);
