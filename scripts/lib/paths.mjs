// Every place that the scripts write to. All of them are inside the project and ignored by git.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
export const inRoot = (...parts) => join(root, ...parts);

/** What set-up fetched or built for this project alone. Deleting it costs a few minutes at the next start. */
export const tools = inRoot('.tools');
export const inTools = (...parts) => join(tools, ...parts);

/** The Workers, in the order in which they are built. Each is a crate with a wrangler.toml. */
export const workers = [
  { name: 'paid-once', dir: root, workspace: root },
  { name: 'desk', dir: inRoot('desk'), workspace: root },
  { name: 'demo', dir: inRoot('demo'), workspace: root },
  { name: 'gate', dir: inRoot('gate'), workspace: root },
  { name: 'simulator', dir: inRoot('simulator'), workspace: inRoot('simulator') },
];

/** Those of the demo: all that `npm start` needs. */
export const demo = workers.filter(({ name }) => name !== 'gate');

/** Workers that show how the engine is used: built for the tests, and never deployed. */
export const examples = [
  { name: 'transfers', dir: inRoot('crates', 'once-object', 'examples', 'transfers'), workspace: root },
];

/** The Workers' workspaces: each has a lock file, and cargo looks after all that is in it at once. */
export const workspaces = workers.filter(({ dir, workspace }) => dir === workspace);

/** The crates beside the Workers: what they are made of, and what writes their documents as pages. */
export const libraries = [
  'guide',
  'json',
  'messages',
  'once',
  'once-object',
  'once-testing',
  'payments',
  'runtime',
  'web',
].map((name) => ({
  name,
  dir: inRoot('crates', name),
  workspace: root,
}));

export const wasmTarget = 'wasm32-unknown-unknown';
