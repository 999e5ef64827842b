// Nothing is deployed on a database without its migrations: what comes of what wrangler says.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, test } from 'node:test';

import { needMigrations } from './migrations.mjs';
import { inRoot } from './paths.mjs';

const folder = mkdtempSync(join(tmpdir(), 'migrations-'));
after(() => rmSync(folder, { recursive: true }));
process.env.PATH = `${folder}${delimiter}${process.env.PATH}`;

/** A wrangler that says this, and notes what it was asked. */
const wrangler = (said, code = 0) =>
  writeFileSync(
    join(folder, 'wrangler'),
    `#!/bin/sh\nprintf '%s ' "$@" > '${join(folder, 'asked')}'\ncat <<'END'\n${said}\nEND\nexit ${code}\n`,
    { mode: 0o755 },
  );
const asked = () => readFileSync(join(folder, 'asked'), 'utf8').trim();

test('one that is not applied stops a deploy, which says it and what to run', async () => {
  wrangler(
    'Migrations to be applied:\n┌──────────────────────────┐\n│ Name                     │\n├──────────────────────────┤\n│ 0042_what_is_missing.sql │\n└──────────────────────────┘',
  );
  await assert.rejects(needMigrations(['--env', 'staging']), (error) => {
    assert.match(error.message, /Not applied to the database: 0042_what_is_missing\.sql/);
    assert.match(
      error.message,
      /npx wrangler d1 migrations apply DB --remote --config wrangler\.toml --env staging$/,
    );
    return true;
  });
  assert.equal(asked(), 'd1 migrations list DB --remote --config wrangler.toml --env staging');
});

test('where all are applied it goes on', async () => {
  wrangler('✅ No migrations to apply!');
  await needMigrations();
});

test('a question that fails, or has another answer, stops it, too', async () => {
  wrangler('In a non-interactive environment, it is necessary to set a CLOUDFLARE_API_TOKEN', 1);
  await assert.rejects(needMigrations(), /CLOUDFLARE_API_TOKEN[^]*Nothing was deployed/);
  wrangler('✅ No migrations to apply!', 1);
  await assert.rejects(needMigrations(), /Nothing was deployed/);
  wrangler('');
  await assert.rejects(needMigrations(), /Nothing was deployed/);
});

test('while D1 may be away it goes on without an answer, and not where one is missing', async () => {
  wrangler('D1 is overloaded', 1);
  await needMigrations([], { mayBeAway: true });
  wrangler('Migrations to be applied:\n│ 0042_what_is_missing.sql │');
  await assert.rejects(needMigrations([], { mayBeAway: true }), /0042_what_is_missing/);
});

// What D1 is known to take apart at the wrong semicolon: https://github.com/cloudflare/workers-sdk/issues/15314 and 4326.
test('triggers have the form that D1 finds the end of, where migrations are sent to it whole', () => {
  const texts = readdirSync(inRoot('migrations')).map((name) =>
    readFileSync(inRoot('migrations', name), 'utf8'),
  );
  assert.ok(texts.every((text) => !text.includes('\r')));
  const triggers = texts.flatMap((text) => text.match(/\bCREATE TRIGGER\b[^]*?\bEND;/gi) ?? []);
  assert.equal(triggers.length, texts.join('\n').match(/\bCREATE TRIGGER\b/gi).length);
  for (const trigger of triggers) {
    assert.match(trigger, /^CREATE TRIGGER [^;]*\nBEGIN\n(?: {4}.*\n)+END;$/);
    assert.doesNotMatch(trigger, /\bCASE\b/i);
  }
});
