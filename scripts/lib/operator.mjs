// The operator's API, as a program of the operator asks it.
//
// PAID_ONCE_URL says where (by default the demo of this machine). ADMIN_TOKEN is the operator's secret there; behind Cloudflare
// Access, CF_ACCESS_CLIENT_ID and CF_ACCESS_CLIENT_SECRET are a service token's.
import { Stop } from './say.mjs';

const base = process.env.PAID_ONCE_URL ?? 'http://localhost:8787';

/** Access takes its headers off and adds a token that the Worker checks. */
function credentials() {
  const { ADMIN_TOKEN, CF_ACCESS_CLIENT_ID, CF_ACCESS_CLIENT_SECRET } = process.env;
  if (CF_ACCESS_CLIENT_ID && CF_ACCESS_CLIENT_SECRET)
    return {
      'cf-access-client-id': CF_ACCESS_CLIENT_ID,
      'cf-access-client-secret': CF_ACCESS_CLIENT_SECRET,
    };
  return ADMIN_TOKEN ? { authorization: `Bearer ${ADMIN_TOKEN}` } : {};
}

export const post = (path, more) => ask('POST', path, more);

export async function ask(method, path, { body, headers } = {}) {
  const answer = await fetch(new URL(path, base), {
    method,
    redirect: 'manual',
    headers: { ...credentials(), ...headers },
    body,
    signal: AbortSignal.timeout(60_000),
  }).catch((error) => {
    throw new Stop(`${base} does not answer (${error.cause?.code ?? error.message}). Set PAID_ONCE_URL.`);
  });
  if (answer.status >= 300 && answer.status < 400)
    throw new Stop(
      `${base} leads elsewhere, as Cloudflare Access does with whom it does not know. ` +
        'Set CF_ACCESS_CLIENT_ID and CF_ACCESS_CLIENT_SECRET to a service token.',
    );
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) return told;
  throw new Stop(`${path}: ${answer.status} ${told.errors?.[0]?.message ?? told.detail ?? told.title ?? ''}`);
}
