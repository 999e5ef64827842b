// What an operator does to what is kept: `npm run erase -- pay_…` or `-- cust_…` drops the personal data of a payment or a customer,
// `npm run rebuild -- pay_…` or `npm run rebuild -- all` writes the read model anew (`-- all --after X` from the page on that begins after X),
// `npm run report -- FILE.csv` imports a settlement details report of Adyen's,
// `npm run requeue -- send_receipt` (or project, webhook, deliver_webhook) gives all dead letters of a kind back to their queue.
// scripts/lib/operator.mjs says where, and with which secret.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';

import { post } from './lib/operator.mjs';
import { rebuild } from './lib/rebuild.mjs';
import { Stop, say, script } from './lib/say.mjs';

const commands = {
  erase: async (id) => {
    await post(`/admin/${id.startsWith('cust_') ? 'customers' : 'payments'}/${id}/erase`);
    say(`The personal data of ${id} is gone.`);
  },
  rebuild: (id, after) => rebuild(id, { after, post, say }),
  requeue: async (kind) => {
    let requeued = 0;
    for (let next = ''; next !== null;) {
      const path = `/admin/api/dead-letters/${kind}/requeue?after=${encodeURIComponent(next)}`;
      const page = await post(path);
      requeued += page.requeued;
      if (page.not_taken > 0)
        throw new Stop(
          `${requeued} are tried again. The queue did not take ${page.not_taken}, which stay dead letters: ask again later.`,
        );
      next = page.next;
      if (next === null && page.missing) say(page.missing);
    }
    say(`${requeued} are tried again.`);
  },
  report: async (file) => {
    const body = await readFile(file).catch(() => {
      throw new Stop(`${file} cannot be read.`);
    });
    const path = `/admin/settlement/reports?name=${encodeURIComponent(basename(file))}`;
    const report = await post(path, { body, headers: { 'content-type': 'text/csv' } });
    for (const counts of [report.lines, report.unknown])
      for (const [type, number] of Object.entries(counts))
        say(`${number} ${type}${counts === report.unknown ? ', a type that is not known' : ''}`);
    if (report.unreadable > 0) say(`${report.unreadable} that cannot be read: see the breaks.`);
    for (const [merchant, number] of Object.entries(report.own ?? {}))
      say(`${number} of these are of ${merchant}.`);
    if (report.of_others > 0) say(`${report.of_others} of merchant accounts that are not known here.`);
    if (report.state === 'refused') throw new Stop(`${file} is read no further: ${report.error}`);
    const rest = `${report.bytes_read} of ${report.bytes} bytes are read, it goes on by itself.`;
    say(report.state === 'done' ? 'It is read whole.' : rest);
  },
};

await script(async () => {
  const [command, ...args] = process.argv.slice(2);
  const { ids, after } = begin(command, args);
  const isId = (id) =>
    command === 'report' ||
    (command === 'requeue' && ['send_receipt', 'project', 'webhook', 'deliver_webhook'].includes(id)) ||
    /^pay_[\w-]{43}$/.test(id) ||
    (command === 'erase' && /^cust_[\w-]{43}$/.test(id)) ||
    (command === 'rebuild' && id === 'all');
  if (!Object.hasOwn(commands, command) || ids.length === 0 || !ids.every(isId))
    throw new Stop(
      'Say of which payments: npm run erase -- pay_…, npm run rebuild -- pay_… (or all); which file: npm run report -- FILE; or which dead letters: npm run requeue -- send_receipt (or project, webhook, deliver_webhook)',
    );
  for (const id of ids) await commands[command](id, after);
});

/** Where a rebuild of all goes on, if it says so, and what it is about. */
function begin(command, args) {
  const at = args.indexOf('--after');
  if (command !== 'rebuild' || args[0] !== 'all' || at < 0) return { ids: args, after: '' };
  const [, after, ...rest] = args.slice(at);
  if (!after || rest.length > 0 || at !== 1)
    throw new Stop('Say after what it goes on: npm run rebuild -- all --after …');
  return { ids: ['all'], after };
}
