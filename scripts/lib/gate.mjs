// The gate on a workerd of its own, without any server in between.
import { Runtime, temporaryDirectory } from '../../crates/once-testing/kill/kill.mjs';
import { inRoot } from './paths.mjs';

/** One that is not started yet. What it keeps is gone with the process that has made it. `entry` is another module that runs it, of a test's own. */
export const gateRuntime = ({ routes, vars, port, entry = 'gate/src/entry.mjs' }) =>
  new Runtime({
    root: inRoot(),
    directory: temporaryDirectory('gate'),
    config: 'gate/wrangler.toml',
    entry,
    vars: { GATE: JSON.stringify({ routes }), ...vars },
    port,
  });

/**
 * What `npm run gate` is told: `{ origin, forms, api, … }`. An address of the application, forms as `POST /path`, and settings as --name=value;
 * `--api` may come several times.
 */
export function routeOf(args) {
  const route = { origin: undefined, forms: [], api: [] };
  for (const arg of args) {
    const [, name, value] = arg.match(/^--([\w-]+)(?:=(.*))?$/s) ?? [];
    if (name === 'api' && value) route.api.push(value);
    else if (name) route[name.replaceAll('-', '_')] = valueOf(value);
    else if (/^https?:/.test(arg)) route.origin = arg;
    else route.forms.push(arg);
  }
  return route;
}

/** Numbers, true and false, and objects in JSON; anything else is a word. */
function valueOf(text = 'true') {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
