// `npm run soak`: mixed load and every trouble there is, against the demo on real workerd; then all is calm, and at rest the provider's
// ledger, the objects, the read model, the receipts and what each client was told are held against each other.
//
//   DURATION=10m npm run soak          for longer than two and a half minutes
//   CLIENTS=20 SEED=7 npm run soak     more clients; other ones
//   npm run soak -- --unprotected      the control: no derived key reaches the provider. It must fail
import { build } from './build.mjs';
import { endOnSignals } from './lib/run.mjs';
import { Stop, say, script, step } from './lib/say.mjs';
import { table } from './lib/table.mjs';
import { rng } from '../tests/witness/rng.mjs';
import { setUp } from './setup.mjs';
import { Clients } from './soak/clients.mjs';
import { judge } from './soak/judge.mjs';
import { rest, witnesses } from './soak/rest.mjs';
import { ADMIN_TOKEN, startSoak } from './soak/site.mjs';
import { Trouble } from './soak/trouble.mjs';

// The queue tells of each batch.
process.env.WRANGLER_LOG ??= 'error';

const flags = ['--unprotected'];
const shownWrongs = 20;
/** How long clients have to end what they have begun, once all is calm. */
const lastAnswersMs = 60_000;
const restMs = 120_000;
/** Where nothing protects, some of it never comes to rest. */
const unprotectedRestMs = 15_000;

endOnSignals({ exitCode: 130, patienceMs: 3_000 });
await script(async () => {
  const unknown = process.argv.slice(2).find((argument) => !flags.includes(argument));
  if (unknown) throw new Stop(`There is no option ${unknown}, only ${flags.join(', ')}.`);
  const isProtected = !process.argv.includes('--unprotected');
  const durationMs = duration(process.env.DURATION || '150s');
  const count = whole('CLIENTS', 10);
  const seed = whole('SEED', Math.floor(Math.random() * 1e6));

  say('Setting up');
  await setUp();
  say('Building the Workers');
  await build({ profile: 'dev' });
  if (!isProtected) say('The control: no derived key reaches the provider');
  say(`${count} clients and every trouble there is for ${durationMs / 1000} s, SEED=${seed}`);
  const site = await startSoak({ isProtected });
  try {
    await soak(site, { durationMs, count, seed, isProtected });
  } finally {
    await site.close();
  }
});

async function soak(site, { durationMs, count, seed, isProtected }) {
  const chance = rng(seed);
  const clients = new Clients(site, chance.fork());
  const trouble = new Trouble(site, chance.fork(), clients, ADMIN_TOKEN);

  const load = step('load and trouble');
  const progress = setInterval(() => load.detail(`${clients.counts.operations} operations`), 1000);
  const working = clients.run(count);
  const troubled = trouble.run();
  await new Promise((over) => setTimeout(over, durationMs));
  trouble.stop();
  await troubled;
  await site.simulator.calm();
  clients.stop(lastAnswersMs);
  await working;
  clearInterval(progress);
  load.done();

  const resting = step('until all is at rest');
  const left = await rest(site, isProtected ? restMs : unprotectedRestMs, resting);
  if (left) resting.fail();
  else resting.done();

  const seen = await witnesses(site);
  const { rows, wrong, dead } = judge({ acts: clients.acts, ...seen });
  report({ clients, trouble, seen, rows, dead, log: site.logs() });
  const all = [...clients.wrong, ...(left ? [`not at rest: ${left}`] : []), ...wrong];
  if (clients.acts.length === 0) all.push('nobody did anything');
  if (all.length === 0) return say('Ledger, objects, read model and receipts say the same.');
  const more = all.length > shownWrongs ? [`and ${all.length - shownWrongs} more`] : [];
  throw new Stop([`This must not be (SEED=${seed}):`, ...all.slice(0, shownWrongs), ...more].join('\n  '));
}

function report({ clients, trouble, seen, rows, dead, log }) {
  const list = (counts) =>
    Object.entries(counts)
      .map(([what, count]) => `${count} ${what}`)
      .join(', ') || 'none';
  const byTarget = (targets) => Object.entries(targets).map(([target, times]) => `${times} of ${target}`);
  const doubled = [...Map.groupBy(seen.deliveries, ({ event_id }) => event_id).values()];
  const attempts = seen.deliveries.reduce((sum, delivery) => sum + delivery.attempts.length, 0);
  say();
  say(`  clients      ${list(clients.counts)}`);
  say(`  stories      ${list(clients.stories)}`);
  say(`  answers      ${list(clients.statuses)}`);
  for (const [fault, targets] of Object.entries(trouble.played).sort())
    say(`  fault        ${fault}: ${byTarget(targets).join(', ')}`);
  say(`  trouble      ${list(trouble.counts)}; webhook modes: ${list(trouble.modes)}`);
  const twice = doubled.filter((own) => own.length > 1).length;
  say(`  webhooks     ${attempts} sent for ${doubled.length} events, ${twice} of them doubled`);
  const kinds = Map.groupBy(seen.rows.breaks, ({ kind, state }) => `${kind} ${state}`);
  say(`  breaks       ${list(Object.fromEntries([...kinds].map(([kind, own]) => [kind, own.length])))}`);
  say(`  errors       ${list(errors(log))}`);
  say(`\n${table(rows)}\n`);
  for (const { job_id, history } of dead)
    say(`  dead letter  ${job_id}: ${JSON.parse(history).at(-1)?.error ?? 'no history'}`);
}

/** How often each event was written as an error by the site. */
function errors(log) {
  const counts = {};
  for (const { message } of log) {
    const event = /"event":"(\w+)"/.exec(message)?.[1] ?? message.slice(0, 60);
    counts[event] = (counts[event] ?? 0) + 1;
  }
  return counts;
}

/** `90`, `90s` or `10m`, in ms. */
function duration(text) {
  const [, number, unit] = /^(\d+)(s|m)?$/.exec(text) ?? [];
  if (!number) throw new Stop('DURATION must be such as 90s or 10m.');
  return Number(number) * (unit === 'm' ? 60_000 : 1000);
}

function whole(name, otherwise) {
  const text = process.env[name];
  if (!text) return otherwise;
  if (!/^\d+$/.test(text)) throw new Stop(`${name} must be a whole number.`);
  return Number(text);
}
