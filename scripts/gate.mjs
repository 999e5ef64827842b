// `npm run gate -- http://localhost:3000 "POST /checkout"`: the gate on this machine, in front of an application of yours, to try it. Behind the
// forms come settings of docs/gate.md: --preset=django --edited=new --api="POST /v1/*". Nothing is kept when it ends.
import { randomUUID } from 'node:crypto';

import { build } from './build.mjs';
import { endOnSignals } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';
import { setUp } from './setup.mjs';

const PORT = 8788;

endOnSignals({ exitCode: 0 });
await script(async () => {
  const args = process.argv.slice(2);
  const port = Number(process.env.PORT ?? PORT);
  const has = (word) => args.some((arg) => word.test(arg));
  if (!has(/^https?:/) || !has(/^(?:[A-Z]+ \/|--api=)/))
    throw new Stop(
      'Say what it stands before, and which forms: npm run gate -- http://localhost:3000 "POST /checkout"',
    );
  await setUp();
  await build({ names: ['gate'], profile: 'dev' });

  // Set-up installs what this needs.
  const { gateRuntime, routeOf } = await import('./lib/gate.mjs');
  const route = routeOf(args);
  const gate = gateRuntime({ routes: [route], vars: { SIGNING_KEY: randomUUID() }, port });
  gate.onLog = (line) => isTold(line) && say(`  ${told(line)}`);
  try {
    await gate.start().catch((error) => {
      throw new Stop(`${error.message}\nIs port ${port} free? PORT=8789 takes another one.`);
    });
    const { status } = await fetch(new URL('/.paid-once/key?to=/', gate.origin));
    if (status >= 500) throw new Stop('The settings are wrong, see above; docs/gate.md lists them.');
    say(`\nThe gate is ready: http://localhost:${port}   (Ctrl-C ends it)   before ${route.origin}\n`);
    await new Promise(() => {});
  } finally {
    await gate.close();
  }
});

/** What the gate answers itself has two lines: of them the one that says more. */
function isTold({ event, outcome, why }) {
  return !(event === 'gated' && outcome === 'refused') && !(event === 'refused' && why === 'outcome-unknown');
}

/** A line of its log, for whoever tries it. */
function told(line) {
  if (typeof line !== 'object') return line;
  const { event, route, outcome, reference, why, error, duration_ms: ms } = line;
  if (event === 'gated') return `${route}: ${outcome.replace('_', ' ')}, ${ms} ms, reference ${reference}`;
  if (event === 'refused') return `${route}: refused, ${why}`;
  if (event === 'without_key') return `${route}: passed on without a key, so without protection`;
  return error ?? JSON.stringify(line);
}
