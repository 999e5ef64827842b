// `npm run dev`: `npm start` for whoever changes something. What is saved is built, and wrangler takes the new Workers; what does
// not compile is told, and the old ones go on.
import { statSync, watch } from 'node:fs';
import { join } from 'node:path';

import { build, inputsOf } from './build.mjs';
import { serveDemo } from './lib/demo.mjs';
import { workers } from './lib/paths.mjs';
import { endOnSignals } from './lib/run.mjs';
import { Stop, say, script } from './lib/say.mjs';

/** An editor that saves several files, or one in several steps, has ended by then. */
const settledMs = 150;

endOnSignals({ exitCode: 0, patienceMs: 3_000 });
await script(() => serveDemo({ onReady: rebuildOnChange }));

function rebuildOnChange() {
  let timer;
  let building = false;
  let isStale = false;

  const rebuild = async () => {
    if (building) {
      isStale = true;
      return;
    }
    building = true;
    do {
      isStale = false;
      await build({ profile: 'dev' }).catch((error) => {
        if (!(error instanceof Stop)) throw error;
        say(`${error.message} The Workers of before go on.\n`);
      });
    } while (isStale);
    building = false;
  };

  const changed = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void rebuild(), settledMs);
  };
  for (const worker of workers) {
    const { dir } = worker;
    const inputs = inputsOf(worker);
    // A file that is saved by another one in its place is still seen in its folder.
    watch(dir, (_, name) => inputs.includes(name) && changed());
    for (const folder of inputs.map((input) => join(dir, input)).filter(isFolder))
      watch(folder, { recursive: true }, changed);
  }
  say('What you save is built by itself.\n');
}

function isFolder(path) {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
