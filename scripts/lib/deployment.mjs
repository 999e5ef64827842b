// What is looked at before a Worker is deployed, and what is shown of what wrangler says then.
import { stripVTControlCharacters } from 'node:util';

/** What says where a Worker can be reached, among wrangler's options. */
const ADDRESS = /^--(?:routes?|domains?)(?:=|$)/;

/**
 * Why nobody could reach this Worker once it is deployed, and what to write; null if it has an address. `all` are the configurations of the
 * deployment: one that another is bound to has its address. wrangler deploys it all the same, and says nothing of keys in a wrong table.
 */
export function unreachable({ config, path, text }, all, options = []) {
  const hasAddress = config.route || config.routes?.length > 0 || config.workers_dev !== false;
  const isBound = all.some(({ services = [] }) =>
    services.some(({ service, entrypoint }) => service === config.name && !entrypoint),
  );
  if (hasAddress || isBound || options.some((option) => ADDRESS.test(option))) return null;
  const [firstTable] = text.match(/^\[.*\]/m) ?? [];
  return [
    `${config.name} would have no address: ${path} has neither \`routes\` nor \`workers_dev = true\`. Write into it, above ${firstTable},`,
    `  ${text.match(/^# (routes = .*)$/m)?.[1] ?? 'routes = ["<host>/*"]'}`,
    'with your host, also if it is set in the dashboard. Below the name of a table it would belong to that table.',
  ].join('\n');
}

/** The environment that wrangler is told, in its options or by its variable: empty for the top level, undefined if it is told none. */
export function environmentOf(options, { CLOUDFLARE_ENV } = process.env) {
  const named = options.flatMap((option, at) => {
    const [name, value = options[at + 1]] = option.split('=');
    return ['-e', '--env'].includes(name) ? [value] : [];
  });
  return named.at(-1) ?? CLOUDFLARE_ENV;
}

/** Of what `wrangler deploy` says: its banner, what the build said, and each file. All else is for whoever deploys. */
const NOISE = [
  /^ ⛅️ wrangler/,
  /^─+$/,
  /^\[custom build\]/,
  /^🌀/,
  /^\+ \//,
  /^Uploaded \d+ of \d+ assets?/,
  /^--dry-run: exiting now\.$/,
];

/** What a person is shown of it: warnings, bindings, what went where. */
export function told(lines) {
  const plain = lines.map((line) => stripVTControlCharacters(line).trimEnd());
  return plain
    .filter((line) => !NOISE.some((noise) => noise.test(line)))
    .filter((line, at, kept) => line || kept[at - 1])
    .join('\n')
    .trim()
    .split('\n');
}
