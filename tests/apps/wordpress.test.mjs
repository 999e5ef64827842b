// WordPress, in PHP, as Debian packages it, behind the gate and without it: what stands in its own database. It looks for equal comments itself, and
// tells whoever sends one again that it has it; several at once get past that.
//
//     npm run gate:apps

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { startGate, visitorOf } from '../worker/support/gate.mjs';
import { cannot, debian, serve, within } from './support/debian.mjs';
import { formOf, open } from './support/page.mjs';
import { freePort } from './support/port.mjs';
import { startWire } from './support/wire.mjs';

const skip = cannot();
const PACKAGES = [
  'wordpress',
  'wordpress-theme-twentytwentythree',
  'php8.2-cli',
  'php8.2-mysql',
  'mariadb-server',
];
const SOCKET = '/run/shop.sock';
const SQL = `mariadb --socket=${SOCKET} --skip-column-names --batch`;

let folder;
let database;
let server;
let wire;
let gate;
let count = 0;

before(async () => {
  if (skip) return;
  folder = await debian('wordpress', PACKAGES, (folder) => {
    within(folder, 'cp -rL /usr/share/wordpress /srv/shop && rm -f /srv/shop/wp-config.php');
  });
  database = serve(
    folder,
    `mariadbd --no-defaults --user=root --datadir=/var/lib/mysql --socket=${SOCKET} --skip-networking --pid-file=/run/shop.pid`,
  );
  await until(() => sql('SELECT 1'));
  sql('DROP DATABASE IF EXISTS shop; CREATE DATABASE shop');
  const origin = new URL(`http://127.0.0.1:${await freePort()}`);
  wire = await startWire(origin);
  mkdirSync(join(folder, 'srv/shop'), { recursive: true });
  writeFileSync(
    join(folder, 'srv/shop/wp-config.php'),
    `<?php
define('DB_NAME', 'shop'); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:${SOCKET}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
// The address that visitors have: it is the same with the gate in front and without.
define('WP_HOME', 'http://' . ($_SERVER['HTTP_X_FORWARDED_HOST'] ?? $_SERVER['HTTP_HOST'])); define('WP_SITEURL', WP_HOME);
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
`,
  );
  server = serve(folder, `env PHP_CLI_SERVER_WORKERS=6 php -S ${origin.host} -t /srv/shop`);
  await until(async () => (await fetch(new URL('/wp-admin/install.php', origin))).ok);
  const installed = await fetch(new URL('/wp-admin/install.php?step=2', origin), {
    method: 'POST',
    body: new URLSearchParams({
      weblog_title: 'Shop',
      user_name: 'operator',
      admin_password: 'a password of a test',
      admin_password2: 'a password of a test',
      pw_weak: '1',
      admin_email: 'operator@shop.test',
      blog_public: '0',
    }),
  });
  assert.match(await installed.text(), /Success!/);
  // A comment is shown at once.
  sql(
    "UPDATE wp_options SET option_value = '0' WHERE option_name IN ('comment_moderation', 'comment_previously_approved')",
    'shop',
  );
  const route = { origin: wire.origin.origin, forms: ['POST /wp-comments-post.php'], preset: 'wordpress' };
  gate = await startGate({ '': route });
});
after(async () => {
  await gate?.close();
  wire?.close();
  server?.stop();
  database?.stop();
});

async function until(condition) {
  for (;;) {
    try {
      const found = await condition();
      if (found) return found;
    } catch {
      // not yet
    }
    await pause(200);
  }
}

const sql = (statement, name = '') => within(folder, `${SQL} ${name} -e "${statement}"`).trim();
const comments = (author) =>
  Number(sql(`SELECT COUNT(*) FROM wp_comments WHERE comment_author = '${author}'`, 'shop'));

/** The form of a comment, filled in. */
async function comment(visitor, author) {
  const page = await open(visitor, '/?p=1');
  const form = formOf(page.text, (text) => text.includes('wp-comments-post.php'), '/?p=1');
  Object.assign(form.fields, { author, email: `${author}@shop.test`, comment: `I like it, says ${author}.` });
  return form;
}

// It lets an address comment every fifteen seconds only: so there is one burst of each.
const forget = () =>
  sql("UPDATE wp_comments SET comment_date_gmt = '2020-01-01 00:00:00', comment_author_IP = ''", 'shop');

test(
  'comments that are sent five times at once and once more are not all one, without the gate',
  { skip },
  async () => {
    const ann = visitorOf(wire.origin);
    const author = `ann${(count += 1)}`;
    const { path, fields } = await comment(ann, author);
    const send = () => ann.another().post(path, fields);
    const answers = await Promise.all([1, 2, 3, 4, 5].map(send));
    answers.push(await send());
    // Those that are not there twice are told off: an error for somebody who has pressed once too often.
    assert.ok(answers.some(({ status }) => status === 409 || status === 429) || comments(author) > 1);
  },
);

test('behind the gate there is one, and all six see it', { skip }, async () => {
  forget();
  const ann = gate.visitor('shop.test');
  const author = `ann${(count += 1)}`;
  const { path, fields } = await comment(ann, author);
  const send = () => ann.another().post(path, fields);
  const answers = await Promise.all([1, 2, 3, 4, 5].map(send));
  answers.push(await send());
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [302]);
  assert.equal(new Set(answers.map(({ headers }) => headers.location)).size, 1);
  assert.equal(comments(author), 1);
});

test('a comment whose answer is lost stands there once, and is said to be unknown', { skip }, async () => {
  forget();
  const ann = gate.visitor('shop.test');
  const author = `ann${(count += 1)}`;
  const { path, fields } = await comment(ann, author);
  wire.fault = 'lost';
  for (let tried = 0; tried < 4; tried += 1) {
    assert.match((await ann.post(path, fields)).text, /It is not known whether this arrived/);
  }
  assert.equal(comments(author), 1);
});
