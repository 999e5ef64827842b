// What an operator does to what is kept: `npm run erase -- pay_…` drops the personal data of a payment or a ride,
// `npm run rebuild -- pay_…` or `npm run rebuild -- all` writes the read model anew.
//
// PAID_ONCE_URL says where (by default the demo of this machine), ADMIN_TOKEN is the operator's secret there.
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

async function post(path) {
  const token = process.env.ADMIN_TOKEN;
  const answer = await fetch(new URL(path, base), {
    method: 'POST',
    redirect: 'error',
    headers: token ? { authorization: `Bearer ${token}` } : {},
    signal: AbortSignal.timeout(60_000),
  }).catch((error) => {
    throw new Stop(`${base} does not answer (${error.cause?.code ?? error.message}). Set PAID_ONCE_URL.`);
  });
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw new Stop(`${path}: ${answer.status} ${body.detail ?? body.title ?? ''}`);
}
