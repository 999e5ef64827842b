// Workers Analytics Engine on this machine. wrangler binds a dataset that forgets what is written to it; here each point becomes a line of the
// log, as long as it keeps to Cloudflare's limits. The SQL API evaluates the query that it is sent on SQLite over these points. It takes
// only what the reference has (developers.cloudflare.com/analytics/analytics-engine/sql-reference/) and refuses all else, as the real
// one does; and it gives numbers of 64 bits as texts.

import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, relative, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { ownFolder } from '../../../scripts/lib/leftovers.mjs';
import { demoWorkers, root } from './harness.mjs';
import { readConfig } from './wrangler.mjs';

export const ACCOUNT = '0123456789abcdef0123456789abcdef';
export const TOKEN = 'the-token-for-analytics-of-the-tests';
export const DATASET = 'paid_once_tests';
const MARK = 'data point: ';

/** The demo, whose Workers have a dataset. `keeps`: what they write to it is kept. */
export function analyticsWorkers({ keeps = true, ...options } = {}) {
  return demoWorkers(options).map(({ configPath, env, ...worker }) => {
    const config = { ...readConfig({ config: resolve(root, configPath), env }), build: {} };
    config.triggers = { crons: config.triggers?.crons ?? [] };
    if (config.name === 'paid-once-simulator') return { configPath, env, ...worker };
    config.analytics_engine_datasets = [{ binding: 'ANALYTICS', dataset: DATASET }];
    if (keeps) config.main = entry(resolve(root, config.main), config.name);
    return { ...worker, config };
  });
}

/** The settings of the desk that reads it. */
export const reading = (api, vars = {}) => ({
  vars: {
    ANALYTICS_ACCOUNT_ID: ACCOUNT,
    ANALYTICS_DATASET: DATASET,
    ANALYTICS_API_BASE: `${api.url}/client/v4`,
    ANALYTICS_SETTLE_MS: '1000',
    ANALYTICS_TIMEOUT_MS: '4000',
    ...vars,
  },
  secrets: { ANALYTICS_API_TOKEN: TOKEN },
});

/** An entry whose dataset writes to the log. What is against a limit is dropped by Cloudflare without a word: here the line says so. */
function entry(main, name) {
  const dir = ownFolder('analytics');
  const file = join(dir, `${name}.mjs`);
  const path = JSON.stringify(relative(dir, main));
  writeFileSync(
    file,
    `import { env } from 'cloudflare:workers';
const bytes = (text) => new TextEncoder().encode(text).length;
let written = 0;
function refused({ indexes, blobs, doubles }) {
  if (indexes.length !== 1 || bytes(indexes[0]) > 96) return 'index';
  if (blobs.length > 20 || blobs.reduce((sum, blob) => sum + bytes(blob), 0) > 16_000) return 'blobs';
  if (blobs.some((blob) => typeof blob !== 'string')) return 'a blob of another type';
  if (doubles.length > 20 || doubles.some((double) => typeof double !== 'number')) return 'doubles';
  if (written > 25) return 'more than 25';
}
env.ANALYTICS.writeDataPoint = function (point) {
  // An invocation writes all of its points at once.
  if (written++ === 0) queueMicrotask(() => (written = 0));
  const at_ms = Date.now();
  console.log(${JSON.stringify(MARK)} + JSON.stringify({ worker: ${JSON.stringify(name)}, at_ms, refused: refused(point), ...point }));
};
export * from ${path};
export { default } from ${path};
`,
  );
  return file;
}

/** The points that were written, by the logs of a site. */
export const pointsOf = (site) =>
  site
    .logs()
    .filter(({ message }) => message.startsWith(MARK))
    .map(({ message }) => JSON.parse(message.slice(MARK.length)));

const COLUMN = /^(dataset|timestamp|_sample_interval|index1|(blob|double)([1-9]|1\d|20))$/;
const KEYWORD =
  /^(SELECT|FROM|WHERE|GROUP|BY|HAVING|ORDER|LIMIT|OFFSET|FORMAT|AS|AND|OR|NOT|IN|BETWEEN|ASC|DESC)$/i;
const AGGREGATE = /^(count|sum|avg|min|max)$/i;
const FUNCTION = /^(count|sum|avg|min|max|toDateTime|toUnixTimestamp|now)$/;
const TOKEN_OF_SQL = /\s*(?:([A-Za-z_]\w*)|(\d+(?:\.\d+)?)|('[^']*')|(<>|!=|<=|>=|[-+*/%=<>(),]))\s*/y;
const CLAUSES =
  /^SELECT (.+?) FROM (\w+)(?: WHERE (.+?))?(?: GROUP BY (.+?))?(?: HAVING (.+?))?(?: ORDER BY (.+?))?(?: LIMIT (\d+))?(?: OFFSET (\d+))?(?: FORMAT (\w+))?$/i;

class Invalid extends Error {}

/** A query that the API would take, without its format; else an error that says what it does not take. */
function checked(sql) {
  const [, select, table, where = '', group = '', , , , , format = 'JSON'] =
    CLAUSES.exec(sql.trim().replace(/\s+/g, ' ')) ?? invalid('the order of the clauses');
  if (table !== DATASET) invalid(`unknown table: ${table}`);
  if (format !== 'JSON') invalid(`format ${format} is not played here`);
  const aliases = [...select.matchAll(/ AS (\w+)/gi)].map(([, alias]) => alias);
  TOKEN_OF_SQL.lastIndex = 0;
  while (TOKEN_OF_SQL.lastIndex < sql.length) {
    const at = TOKEN_OF_SQL.lastIndex;
    const [, word] = TOKEN_OF_SQL.exec(sql) ?? invalid(`unexpected: ${sql.slice(at, at + 20)}`);
    if (!word || COLUMN.test(word) || KEYWORD.test(word) || word === table || aliases.includes(word))
      continue;
    if (word === format || (FUNCTION.test(word) && sql[TOKEN_OF_SQL.lastIndex - 1] === '(')) continue;
    if (FUNCTION.test(word) && sql[TOKEN_OF_SQL.lastIndex] === '(') continue;
    invalid(`unknown identifier or function: ${word}`);
  }
  const times = where.match(/timestamp\s*(?:<>|!=|<=|>=|[=<>])(?![=<>])(?!\s*(?:toDateTime|now)\()/);
  if (times) invalid('a time is compared with what is none');
  const groups = group.split(',').map((one) => one.trim());
  for (const one of select.split(/,(?![^()]*\))/).map((one) => one.trim())) {
    const [expression, alias] = one.split(/ AS /i);
    const isAggregate = AGGREGATE.test(/^(\w+)\(/.exec(expression)?.[1] ?? '');
    if (!isAggregate && !groups.includes(alias ?? expression) && !groups.includes(expression))
      invalid(`not under aggregate function and not in GROUP BY: ${expression}`);
  }
  return sql.replace(/ FORMAT \w+\s*$/i, '');
}

function invalid(what) {
  throw new Invalid(`Input was invalid: ${what}`);
}

/** Rows as the table has them, of points that each stand for `_sample_interval`. */
function evaluated(sql, points) {
  const query = checked(sql);
  const db = new DatabaseSync(':memory:');
  try {
    const numbered = (name) => Array.from({ length: 20 }, (_, index) => `${name}${index + 1}`);
    const columns = ['timestamp', '_sample_interval', 'index1', ...numbered('blob'), ...numbered('double')];
    db.exec(`CREATE TABLE ${DATASET} (${columns.join(', ')})`);
    db.function('toDateTime', (seconds) => Number(seconds));
    db.function('toUnixTimestamp', (seconds) => Number(seconds));
    db.function('now', () => Math.floor(Date.now() / 1000));
    const insert = db.prepare(`INSERT INTO ${DATASET} VALUES (${columns.map(() => '?').join(', ')})`);
    const filled = (values, rest) => Array.from({ length: 20 }, (_, index) => values[index] ?? rest);
    for (const { at_ms, indexes, blobs, doubles, sample_interval = 1 } of points)
      insert.run(
        Math.floor(at_ms / 1000),
        sample_interval,
        indexes[0],
        ...filled(blobs, ''),
        ...filled(doubles, 0),
      );
    return db.prepare(query).all();
  } finally {
    db.close();
  }
}

/** The SQL API. `points` gives what was written. */
export async function startAnalytics(points) {
  const queries = [];
  let how = 'well';
  let kept = (all) => all;
  // On a busy machine a line of the log comes seconds after it was written: a point was logged when it is seen first.
  const seen = new Map();
  const stored = () => {
    const alike = new Map();
    const all = points().filter(({ refused }) => !refused);
    const stamped = all.map((point) => {
      const text = JSON.stringify(point);
      alike.set(text, (alike.get(text) ?? 0) + 1);
      const key = `${alike.get(text)} ${text}`;
      if (!seen.has(key)) seen.set(key, Date.now());
      return { ...point, at_ms: seen.get(key) };
    });
    return kept(stamped);
  };
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const sql = Buffer.concat(chunks).toString();
    queries.push(sql);
    const end = (status, body) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    if (how === 'never') return;
    // Of one that says how long it is no more than the beginning comes: to make all of it would take this process longer than it may.
    if (how.bytes)
      return response
        .writeHead(200, { 'content-type': 'application/json', 'content-length': how.bytes })
        .write('{');
    if (typeof how === 'number')
      return end(how, JSON.stringify({ success: false, errors: [{ code: 10000 }] }));
    const { method, url, headers } = request;
    if (method !== 'POST' || url !== `/client/v4/accounts/${ACCOUNT}/analytics_engine/sql`)
      return end(404, '{}');
    if (headers.authorization !== `Bearer ${TOKEN}`)
      return end(
        403,
        JSON.stringify({ success: false, errors: [{ code: 10000, message: 'Authentication error' }] }),
      );
    try {
      const data = evaluated(sql, stored()).map((row) =>
        // Integers of 64 bits are texts in the JSON of ClickHouse, doubles are numbers.
        Object.fromEntries(
          Object.entries(row).map(([name, value]) => [
            name,
            name.startsWith('sum') || typeof value === 'string' ? value : `${value}`,
          ]),
        ),
      );
      const body = JSON.stringify({
        meta: Object.keys(data[0] ?? {}).map((name) => ({ name })),
        data,
        rows: data.length,
      });
      end(200, typeof how === 'function' ? how(body) : body);
    } catch (error) {
      end(error instanceof Invalid ? 422 : 500, error.message);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    queries,
    /** How it answers from now on: `well`, `never`, with a status, with so many `bytes`, or with what a function makes of the right answer. */
    answer: (next) => void (how = next),
    /** What it keeps of what was written: by default all. */
    keep: (next) => void (kept = next),
    /** What a query gives, without asking over HTTP. */
    evaluate: (sql) => evaluated(sql, stored()),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** As equitable sampling does it: of each index one point in so many stands for all of them. */
export const sampled = (every) => (points) => {
  const seen = new Map();
  return points.flatMap((point) => {
    const [index] = point.indexes;
    const number = seen.get(index) ?? 0;
    seen.set(index, number + 1);
    return number % every === 0 ? [{ ...point, sample_interval: every }] : [];
  });
};
