// What each peer does once for a key: it asks the provider, and says what came of it.

/** A payment by the provider at `base`, under the client's key. */
export async function take({ amount, currency }, key, { base, secret, id = `pay_${crypto.randomUUID()}` }) {
  const answer = await fetch(`${base}/v1/payment_intents`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${secret}`,
      'content-type': 'application/x-www-form-urlencoded',
      'idempotency-key': key,
    },
    body: `amount=${amount}&currency=${currency}&capture_method=automatic&payment_method=pm_card_visa&confirm=true&metadata%5Bresource%5D=${id}`,
  });
  const { id: intent, status } = await answer.json();
  if (status !== 'succeeded') throw new Error(`the provider says ${status}`);
  return { id, object: 'payment', amount, currency, status, provider_payment: intent };
}

export const refused = ({ message }) => JSON.stringify({ error: message });
