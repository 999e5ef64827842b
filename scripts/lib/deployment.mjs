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

/** The longest value of a variable that Cloudflare takes, in bytes. */
const VARIABLE_MAX = 5 * 1024;

/** Which variables of this Worker are longer than Cloudflare takes, and what to do; null if none is. */
export function tooLong({ config, path }) {
  const long = Object.entries(config.vars ?? {}).flatMap(([name, value]) => {
    const bytes = Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value));
    return bytes > VARIABLE_MAX ? [[name, bytes]] : [];
  });
  if (long.length === 0) return null;
  const [, next = 1] = long[0][0].match(/^GATE(?:_(\d+))?$/) ?? [];
  return [
    ...long.map(
      ([name, bytes]) =>
        `The variable ${name} in ${path} has ${bytes} bytes: Cloudflare takes ${VARIABLE_MAX}.`,
    ),
    ...(long[0][0].startsWith('GATE')
      ? [
          `Write some of its routes under [[vars.GATE_${Number(next) + 1}.routes]]: they come after those before them.`,
        ]
      : []),
  ].join('\n');
}

/**
 * What to write where Cloudflare would keep the address of each request of this Worker, as it does of a new one that says nothing of it; null where it
 * does not. The address of an order, or of a page that sets a password, is as good as a password itself.
 */
export function keepsAddresses({ config, path }) {
  const { logs, traces } = config.observability ?? {};
  if (logs?.invocation_logs === false && traces?.enabled === false) return null;
  return [
    `Of ${config.name} Cloudflare would keep the address of each request. Write into ${path}:`,
    '  [observability]',
    '  enabled = true',
    '  [observability.logs]',
    '  invocation_logs = false',
    '  [observability.traces]',
    '  enabled = false',
  ].join('\n');
}

/**
 * Where a Worker that was deployed says how it is, if its address is known: by the options, by its configuration, or, of workers.dev, by what
 * wrangler has said. Null where no address leads to /healthz, such as that of a route of every host.
 */
export function healthAddress({ config, lines = [], options = [] }) {
  const named = options.flatMap((option, at) => {
    if (!ADDRESS.test(option)) return [];
    const [, value = options[at + 1] ?? ''] = option.split('=');
    return /^--route/.test(option) ? [value] : [`${value}/*`];
  });
  const routes = [config.route, ...(config.routes ?? [])].filter(Boolean);
  const patterns = routes.map((route) =>
    typeof route === 'string' ? route : route.custom_domain ? `${route.pattern}/*` : route.pattern,
  );
  const said = lines.flatMap((line) => line.match(/https:\/\/[\w.-]+\.workers\.dev\b/g) ?? []);
  const hosts = [...named, ...patterns].map((pattern) => hostOf(pattern)).filter(Boolean);
  const base = hosts.length > 0 ? `https://${hosts[0]}` : said[0];
  return base ? `${base}/healthz` : null;
}

/** The host of a route, if it is one host whose /healthz the route has. */
function hostOf(pattern) {
  const [, host, path = ''] = /^(?:https?:\/\/)?([^/]*)(\/.*)?$/.exec(pattern) ?? [];
  const isOne = /^[\w-]+(\.[\w-]+)+$/.test(host ?? '');
  return isOne && ['/*', '/healthz', '/healthz*', '/health*', '/h*'].includes(path) ? host : null;
}

/**
 * Asks a Worker that was just deployed how it is: some times, because a new address takes a moment. Resolves with what to say, and whether it
 * has answered that it is not well.
 */
export async function askHealth(address, { tries = 6, pauseMs = 3_000, ask = fetch } = {}) {
  let said = '';
  let isIll = false;
  for (let at = 0; at < tries; at += 1) {
    if (at > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    try {
      const answer = await ask(address, { redirect: 'manual', signal: AbortSignal.timeout(10_000) });
      const body = (await answer.text()).trim().replaceAll(/\s+/g, ' ').slice(0, 300);
      if (answer.status === 200) return { said: `${address} answers 200: ${body}`, isIll: false };
      said = `${address} answers ${answer.status}, not 200: ${body}`;
      isIll = true;
    } catch (error) {
      said = `${address} could not be asked: ${error.cause?.message ?? error.message}`;
      isIll = false;
    }
  }
  const then = isIll
    ? 'The Worker is deployed, and may refuse each payment. Its log names what is missing: docs/operations.md.'
    : 'A new address may take some minutes: look whether it answers 200.';
  return { said: `${said}\n${then}`, isIll };
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
