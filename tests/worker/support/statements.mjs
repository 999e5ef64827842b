// Looks at the SQL that the Workers send to the read model, for those who ask for it: a Worker that has the database is started with an entry
// that sees each statement, and how many rows it read. What the tests themselves ask the database goes another way.
//
//     npm run statements          collects all that the suites make the Workers send, into tests/worker/support/statements.json

import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { ownEntry } from './own-entry.mjs';

/** Where the statements of this run are kept; else nobody asks for them but single suites. */
export const folder = process.env.STATEMENTS_TO;
const MARK = 'read model: ';

/**
 * A Worker as the harness takes it, with the entry that looks. `read` reads its configuration. `tellsEach` says whether it tells of a statement
 * each time, later without its text, or once.
 */
export function seen(worker, root, read, tellsEach) {
  // A configuration of a test's own stays as it is.
  if (worker.configPath?.startsWith('/')) return worker;
  const config = worker.config ?? read(worker);
  if (!config.main || !config.d1_databases?.length) return worker;
  const { configPath: _path, env: _env, ...settings } = worker;
  return {
    ...settings,
    config: { ...config, main: entry(resolve(root, config.main), config.name, tellsEach) },
  };
}

/** Changes the runtime's own classes: workers-rs takes no other object for a database. */
function entry(main, name, tellsEach) {
  return ownEntry(
    'statements',
    main,
    (path) => `import { env } from 'cloudflare:workers';
const told = new Set();
const tell = (sql, rows) => {
  const about = String(sql).replace(/\\d{6,}/g, '0');
  const isKnown = told.has(about);
  if (!${tellsEach} && isKnown) return;
  told.add(about);
  console.log(${JSON.stringify(MARK)} + JSON.stringify([isKnown ? '' : sql, rows]));
};
const texts = new WeakMap();
const database = Object.getPrototypeOf(env.DB);
const statement = Object.getPrototypeOf(env.DB.prepare('SELECT 1'));
const { prepare, batch } = database;
const { bind, all, run } = statement;
database.prepare = function (sql) {
  const made = prepare.call(this, sql);
  texts.set(made, sql);
  return made;
};
database.batch = async function (statements) {
  const results = await batch.call(this, statements);
  results.forEach((result, index) => tell(texts.get(statements[index]), result.meta.rows_read));
  return results;
};
statement.bind = function (...values) {
  const made = bind.apply(this, values);
  texts.set(made, texts.get(this));
  return made;
};
for (const [name, method] of Object.entries({ all, run }))
  statement[name] = async function (...options) {
    const result = await method.apply(this, options);
    tell(texts.get(this), result.meta.rows_read);
    return result;
  };
export * from ${path};
export { default } from ${path};
`,
    name,
  );
}

/** What the Workers have sent, by their logs: each statement, which is empty if it was told of before, and how many rows it read. */
export const sent = (logs) =>
  logs
    .filter(({ message }) => message.startsWith(MARK))
    .map(({ message }) => JSON.parse(message.slice(MARK.length)))
    .map(([sql, rows]) => ({ sql, rows }));

/** A statement without what differs each time: moments, and the number of a page. */
export const shape = (sql) =>
  sql
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/\b\d{6,}\b/g, '0')
    .replace(/\b(LIMIT|OFFSET) \d+/g, '$1 1');

/** The statements that these logs tell of, each once. */
export const shapesOf = (logs) =>
  new Set(
    sent(logs)
      .filter(({ sql }) => sql)
      .map(({ sql }) => shape(sql)),
  );

/** Keeps what these logs say, for the run that asks for it. */
export function keep(logs) {
  mkdirSync(folder, { recursive: true });
  const shapes = shapesOf(logs);
  writeFileSync(join(folder, `${process.pid}-${process.hrtime.bigint()}.json`), JSON.stringify([...shapes]));
}
