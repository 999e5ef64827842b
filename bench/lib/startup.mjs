// How long a new process takes until it answers, and then until it has taken a payment.
import { randomUUID } from 'node:crypto';

import { clients } from './load.mjs';
import { median } from './stats.mjs';

/** Each starts on the folder that it has, in turns. */
export async function startUps(all, { rounds }) {
  const found = Object.fromEntries(all.map(({ name }) => [name, []]));
  const paid = Object.fromEntries(all.map(({ name }) => [name, new Map()]));
  for (let round = 0; round < rounds; round += 1)
    for (const { name, start, dir } of all) found[name].push(await startUp(await start(dir), paid[name]));
  const of = (name, what) => median(found[name].map((one) => one[what]));
  const summary = ({ name }) => [
    name,
    {
      first_answer_ms: of(name, 'answerMs'),
      first_payment_ms: of(name, 'firstMs'),
      second_payment_ms: of(name, 'secondMs'),
    },
  ];
  return { startups: Object.fromEntries(all.map(summary)), paid };
}

async function startUp(site, paid) {
  const load = clients(site.url, paid);
  // An address that nobody has.
  const { status } = await load.get('/nothing');
  const answerMs = performance.now() - site.startedAt;
  if (status !== 404) throw new Error(`${status} where nothing is`);
  const firstMs = await timed(load, paid);
  const secondMs = await timed(load, paid);
  await load.close();
  await site.settled();
  await site.stop();
  return { answerMs, firstMs, secondMs };
}

async function timed(load, paid) {
  const key = randomUUID();
  const before = performance.now();
  const { status, isReplay, bytes } = await load.pay(key);
  const ms = performance.now() - before;
  if (status !== 201 || isReplay) throw new Error(`not a new payment: ${status} ${bytes}`);
  paid.set(key, bytes);
  return ms;
}
