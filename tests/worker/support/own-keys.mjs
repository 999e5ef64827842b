// Accounts of the registry with keys of their own at Stripe and at Adyen. The simulator keeps accounts apart by their keys' names.

import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';

import { read } from './account.mjs';
import { client } from './payments.mjs';

export const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const fresh = () => randomBytes(6).toString('hex');

/** A key of the simulated account `acct_NAME`, as long as Stripe's are. */
export const secretKey = (name, number = 1) => `sk_test_acct_${name}_${number}_${'0'.repeat(24)}`;
export const restrictedKey = (name) => secretKey(name).replace('sk_', 'rk_');
export const publishableKey = (mode = 'test') => `pk_${mode}_${fresh()}${'0'.repeat(24)}`;
export const webhookSecret = () => `whsec_${fresh()}${'0'.repeat(24)}`;

/** A key that is good for one merchant account of the simulated Adyen, and for no other. */
export const adyenKey = (merchant, number = 1) => `AQE.${merchant}.${number}.${'x'.repeat(24)}`;
export const hmacKey = () => randomBytes(32).toString('hex');
/** A merchant account that is not of the deployment's company. */
export const freshMerchant = () => `S${fresh()}_ECOM`;

/** That none of these secrets, each under its kind, stands in a table, in the log, or in what was seen of a payment. */
export async function standNowhere(site, secrets, { id, seen }) {
  const tables = await site.rows(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
  );
  let everything = JSON.stringify(seen);
  for (const { name } of tables) everything += JSON.stringify(await site.rows(`SELECT * FROM "${name}"`));
  everything += site
    .logs()
    .map(({ message }) => message)
    .join('\n');
  assert.ok(everything.includes(id), 'control: what was looked through is about the payment');
  for (const [kind, value] of secrets) {
    assert.ok(!everything.includes(value), kind);
    assert.ok(!everything.includes(Buffer.from(value).toString('base64')), kind);
  }
}

/** The operator's API, and shops that it makes. */
export function registry(site) {
  const api = async (method, path, body) =>
    read(
      await site.fetch(`/admin/api/accounts${path}`, {
        method,
        headers: {
          authorization: `Bearer ${ADMIN_TOKEN}`,
          ...(body && { 'content-type': 'application/json' }),
        },
        body: body && JSON.stringify(body),
      }),
    );
  const settings = (own, more) => ({
    settings: { payment_method: 'pm_card_visa', ...(own && { own_stripe_keys: true }), ...more },
  });

  /** A shop with a token; `own` says whether it is charged with keys of its own. */
  async function shop({ own = true, key, more } = {}) {
    const [id, token, name] = [`shop-${randomUUID()}`, randomUUID(), `S${fresh()}`];
    const put = await api('PUT', `/${id}`, settings(own, more));
    assert.equal(put.status, 200, put.text);
    assert.equal((await api('PUT', `/${id}/tokens/${sha256(token)}`, { name: 'server' })).status, 200);
    const made = {
      id,
      /** Its account at Stripe. */
      stripe: `acct_${name}`,
      secret: key ?? secretKey(name),
      rolled: secretKey(name, 2),
      client: client(site, token),
      set: (kind, value) => api('PUT', `/${id}/credentials/${kind}`, { value }),
      remove: (kind) => api('DELETE', `/${id}/credentials/${kind}`),
      shown: async () => (await api('GET', `/${id}`)).json(),
      use: (own, more) => api('PUT', `/${id}`, settings(own, more)),
    };
    if (key !== null) {
      const set = await made.set('stripe_secret_key', made.secret);
      assert.equal(set.status, 200, set.text);
    }
    return made;
  }

  /** A shop with a merchant account of its own at Adyen, and with what is set of its keys there. */
  async function adyenShop({
    merchant = freshMerchant(),
    key = adyenKey(merchant),
    hmac = hmacKey(),
    auth = `hook:${fresh()}`,
    report = null,
    own = true,
    more,
  } = {}) {
    const settings = (name = merchant, uses = own) => ({
      adyen: { payment_method: 'adyen_card_visa', customer: 'ada' },
      ...(uses && { own_adyen_keys: true }),
      adyen_account: { merchant_account: name },
      ...more,
    });
    const made = await shop({ own: false, key: null, more: settings() });
    const values = {
      adyen_api_key: key,
      adyen_hmac_key: hmac,
      adyen_webhook_auth: auth,
      adyen_report_key: report,
    };
    for (const [kind, value] of Object.entries(values).filter(([, value]) => value)) {
      const set = await made.set(kind, value);
      assert.equal(set.status, 200, set.text);
    }
    return {
      ...made,
      merchant,
      adyenSecret: adyenKey(merchant),
      hmac,
      auth,
      /** Where Adyen tells what happens in it. */
      webhook: `/webhooks/adyen/${made.id}`,
      /** It is charged in this merchant account from now on; with its own key, or not. */
      move: (name, uses) => made.use(false, settings(name, uses)),
    };
  }
  return { api, shop, adyenShop };
}
