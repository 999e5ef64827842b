// Adyen's notifications, signed as it documents it:
// https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures

import { createHmac } from 'node:crypto';

import { read } from './account.mjs';

/** The demo's key. */
export const ADYEN_KEY = '44782def547aaa06c910c43932b1eb0c71fc68d9d0c057550c48ec2acf6ba056';

/** An item with its signature. */
export function signed(item, key = ADYEN_KEY) {
  const names = ['pspReference', 'originalReference', 'merchantAccountCode', 'merchantReference'];
  const { value, currency } = item.amount;
  const text = [...names.map((name) => item[name]), value, currency, item.eventCode, item.success].join(':');
  const hmacSignature = createHmac('sha256', Buffer.from(key, 'hex')).update(text).digest('base64');
  return { ...item, additionalData: { ...item.additionalData, hmacSignature } };
}

/** Sends a notification with these items, and gives what it is answered. */
export const notify = (site, ...items) => notifyAt(site, '/webhooks/adyen', undefined, ...items);

/** The same at another address, with a user and a password (`user:password`). */
export const notifyAt = async (site, path, auth, ...items) =>
  read(
    await site.fetch(path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(auth && { authorization: `Basic ${Buffer.from(auth).toString('base64')}` }),
      },
      body: JSON.stringify({
        live: 'false',
        notificationItems: items.map((item) => ({ NotificationRequestItem: item })),
      }),
    }),
  );
