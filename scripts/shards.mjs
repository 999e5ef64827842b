// `npm run shards`: the shards of the read model (docs/operations.md). Without anything more it shows them; `-- set SLOTS` makes a layout for
// payments that are made from then on, `-- move` takes what is in D1 there, until nothing is left. It may be broken off at any time and begun
// again, also by two at once.
// scripts/lib/operator.mjs says where, and with which secret.
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { ask } from './lib/operator.mjs';
import { Stop, say, script } from './lib/say.mjs';

const USAGE =
  'npm run shards, npm run shards -- set SLOTS [--by month|day|hour] [--from TIME] [--spread account:ID=NUMBER …] [--spread all=NUMBER], npm run shards -- move [--since TIME]';
/** Between two looks at a move that has not begun, or whose shards do not answer, in ms. */
const WAIT_MS = 10_000;

const json = (method, path, body) =>
  ask(method, path, { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } });

const commands = {
  show: async () => show(await ask('GET', '/admin/api/shards')),
  set: async ([slots], { from, by, spread = [] }) => {
    const pairs = spread.map((pair) => pair.split('='));
    if (!/^\d+$/.test(slots ?? '') || pairs.some(([, number]) => !/^\d+$/.test(number ?? '')))
      throw new Stop(USAGE);
    if (!['month', 'day', 'hour'].includes(by)) throw new Stop('--by must be month, day or hour.');
    const wanted = {
      slots: Number(slots),
      period: by,
      from,
      spread: Object.fromEntries(pairs.map(([owner, n]) => [owner, Number(n)])),
    };
    show(await json('POST', '/admin/api/shards', wanted));
  },
  move: async (_, { since }) => {
    let moved = 0;
    for (;;) {
      const part = await json('POST', '/admin/api/shards/move', { since });
      moved += part.moved;
      for (const [shard, error] of Object.entries(part.failed)) say(`${shard} took nothing: ${error}`);
      if (part.done) return say(`${moved} payments are moved, and none is left in D1.`);
      say(part.begins ? `The move begins ${part.begins}.` : `${moved} payments are moved.`);
      if (part.moved === 0) await pause(WAIT_MS);
    }
  },
};

function show({ bound, layouts, awake, at_rest: atRest }) {
  if (!bound) say('SHARDS is not bound: all is in D1.');
  for (const { from, slots, period, spread, moved_since: since, moves_from: at } of layouts) {
    const where = slots === 0 ? 'in D1' : `in ${slots} shards a ${period}`;
    const owners = Object.entries(spread).map(([owner, number]) => `${owner} in ${number}`);
    say(`Payments from ${from} on are ${where}${owners.length > 0 ? ` (${owners.join(', ')})` : ''}.`);
    if (at) say(`  Those that were made in D1 since ${since} are moved there from ${at} on.`);
  }
  if (layouts.length === 0) say('There is no layout: all is in D1.');
  say(`${awake} shards have rows.`);
  if (atRest > 0) say(`From ${atRest} more all payments have left for history: no list asks them.`);
}

await script(async () => {
  const options = {
    from: { type: 'string' },
    by: { type: 'string', default: 'month' },
    since: { type: 'string' },
    spread: { type: 'string', multiple: true },
  };
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  const [command = 'show', ...more] = positionals;
  if (!Object.hasOwn(commands, command)) throw new Stop(USAGE);
  await commands[command](more, values);
});
