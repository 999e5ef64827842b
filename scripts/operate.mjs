// What an operator does to what is kept: `npm run erase -- pay_…` drops the personal data of a payment or a ride,
// `npm run rebuild -- pay_…` or `npm run rebuild -- all` writes the read model anew.
//
// PAID_ONCE_URL says where (by default the demo of this machine). ADMIN_TOKEN is the operator's secret there; behind Cloudflare
// Access, CF_ACCESS_CLIENT_ID and CF_ACCESS_CLIENT_SECRET are a service token's.
import { Stop, say, script } from './lib/say.mjs';

const base = process.env.PAID_ONCE_URL ?? 'http://localhost:8787';

const commands = {
  erase: async (id) => {
    await post(`/admin/payments/${id}/erase`);
    say(`The personal data of ${id} is gone.`);
  },
  rebuild: async (id) => {
    let projected = 0;
    for (let next = ''; next !== null;) {
      const page = await post(`/admin/payments/${id}/project?after=${next}`);
      projected += page.projected;
      next = page.next;
    }
    say(`${projected} on the way into the read model.`);
  },
};

await script(async () => {
  const [command, ...ids] = process.argv.slice(2);
  const isId = (id) => /^(pay|ride)_[\w-]{43}$/.test(id) || (command === 'rebuild' && id === 'all');
  if (!Object.hasOwn(commands, command) || ids.length === 0 || !ids.every(isId))
    throw new Stop(
      'Say of which payments or rides: npm run erase -- pay_…, npm run rebuild -- pay_… (or all)',
    );
  for (const id of ids) await commands[command](id);
});

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

async function post(path) {
  const answer = await fetch(new URL(path, base), {
    method: 'POST',
    redirect: 'manual',
    headers: credentials(),
    signal: AbortSignal.timeout(60_000),
  }).catch((error) => {
    throw new Stop(`${base} does not answer (${error.cause?.code ?? error.message}). Set PAID_ONCE_URL.`);
  });
  if (answer.status >= 300 && answer.status < 400)
    throw new Stop(
      `${base} leads elsewhere, as Cloudflare Access does with whom it does not know. ` +
        'Set CF_ACCESS_CLIENT_ID and CF_ACCESS_CLIENT_SECRET to a service token.',
    );
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw new Stop(`${path}: ${answer.status} ${body.detail ?? body.title ?? ''}`);
}
