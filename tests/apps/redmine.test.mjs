// Redmine, a Rails application, as Debian packages it, behind the gate and without it: what stands in its own database.
//
//     npm run gate:apps

import assert from 'node:assert/strict';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { startGate, visitorOf } from '../worker/support/gate.mjs';
import { cannot, debian, serve, within } from './support/debian.mjs';
import { formOf, open } from './support/page.mjs';
import { freePort } from './support/port.mjs';
import { startWire } from './support/wire.mjs';

const skip = cannot();
const RAILS = 'cd /usr/share/redmine && X_DEBIAN_SITEID=default RAILS_ENV=production';
const DATABASE = 'var/lib/dbconfig-common/sqlite3/redmine/instances/default/redmine_default';
const NEW = '/projects/shop/issues/new';
const PREPARE = `
admin = User.find_by_login('admin')
admin.password = admin.password_confirmation = 'a password of a test'
admin.must_change_passwd = false
admin.save!(validate: false)
project = Project.new(name: 'Shop', identifier: 'shop', is_public: true)
project.enabled_module_names = ['issue_tracking']
project.trackers = Tracker.all
project.save!
`;

let server;
let books;
let wire;
let gate;
let count = 0;

before(async () => {
  if (skip) return;
  const folder = await debian('redmine', ['redmine', 'redmine-sqlite', 'puma'], (folder) => {
    writeFileSync(join(folder, 'tmp/prepare.rb'), PREPARE);
    within(folder, `${RAILS} bundle exec rails runner /tmp/prepare.rb`);
    copyFileSync(join(folder, DATABASE), join(folder, 'redmine.sqlite3'));
  });
  copyFileSync(join(folder, 'redmine.sqlite3'), join(folder, DATABASE));
  const origin = new URL(`http://127.0.0.1:${await freePort()}`);
  server = serve(
    folder,
    `env -C /usr/share/redmine X_DEBIAN_SITEID=default RAILS_ENV=production puma -b tcp://${origin.host} -t 6:6 config.ru`,
  );
  while (!(await fetch(new URL('/login', origin)).catch(() => undefined))?.ok) await pause(100);
  books = new DatabaseSync(join(folder, DATABASE), { readOnly: true });
  wire = await startWire(origin);
  const route = { origin: wire.origin.origin, forms: ['POST /projects/*/issues'], preset: 'rails' };
  gate = await startGate({ 'shop.test': route, 'tabs.test': { ...route, one_at_a_time: true } });
});
after(async () => {
  await gate?.close();
  wire?.close();
  books?.close();
  server?.stop();
});

const issues = (subject) =>
  Object.values(books.prepare('SELECT COUNT(*) FROM issues WHERE subject = ?').get(subject))[0];

/** Somebody who is logged in, at the form of an issue. */
async function atForm(visitor) {
  const login = await open(visitor, '/login');
  const enter = formOf(login.text, (text) => text.includes('type="password"'), '/login');
  const credentials = { username: 'admin', password: 'a password of a test' };
  assert.equal((await visitor.post(enter.path, { ...enter.fields, ...credentials })).status, 302);
  const page = await open(visitor, NEW);
  return formOf(page.text, (text) => text.includes('id="issue-form"'), NEW);
}

const people = [
  ['without the gate', () => visitorOf(wire.origin), 6],
  ['behind the gate', () => gate.visitor('shop.test'), 1],
];

for (const [where, visitor, expected] of people) {
  test(`an issue that is sent six times stands there ${expected} times, ${where}`, { skip }, async () => {
    const ann = visitor();
    const { path, fields } = await atForm(ann);
    const subject = `Mug ${(count += 1)}`;
    const send = () => ann.another().postParts(path, { ...fields, 'issue[subject]': subject });
    const answers = await Promise.all([1, 2, 3, 4, 5].map(send));
    answers.push(await send());
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [302]);
    assert.equal(issues(subject), expected);
    assert.equal(new Set(answers.map(({ headers }) => headers.location)).size, expected);
  });

  for (const fault of ['lost', 'half', 'gateway']) {
    const times = expected === 1 ? 1 : 4;
    test(
      `an issue whose answer is ${fault}, tried four times, stands there ${times} times, ${where}`,
      { skip },
      async () => {
        const ann = visitor();
        const { path, fields } = await atForm(ann);
        const subject = `Mug ${(count += 1)}`;
        for (let tried = 0; tried < 4; tried += 1) {
          wire.fault = fault;
          const told = await ann
            .postParts(path, { ...fields, 'issue[subject]': subject })
            .catch(() => undefined);
          if (times === 1) assert.match(told.text, /It is not known whether this arrived/);
        }
        wire.fault = undefined;
        assert.equal(issues(subject), times);
      },
    );
  }
}

for (const [host, expected] of [
  ['shop.test', 5],
  ['tabs.test', 1],
]) {
  test(`five tabs are ${expected} at ${host}`, { skip }, async () => {
    const ann = gate.visitor(host);
    const tabs = [await atForm(ann)];
    while (tabs.length < 5) {
      const page = await open(ann, NEW);
      tabs.push(formOf(page.text, (text) => text.includes('id="issue-form"'), NEW));
    }
    const subject = `Mug ${(count += 1)}`;
    const send = ({ path, fields }) =>
      ann.another().postParts(path, { ...fields, 'issue[subject]': subject });
    const answers = await Promise.all(tabs.map(send));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [302]);
    assert.equal(issues(subject), expected);
  });
}

test('what is refused with 200 is corrected after Back, once', { skip }, async () => {
  const ann = gate.visitor('shop.test');
  const { path, fields } = await atForm(ann);
  const shown = await ann.postParts(path, { ...fields, 'issue[subject]': '' });
  assert.equal(shown.status, 200);
  const subject = `Mug ${(count += 1)}`;
  for (let sent = 0; sent < 2; sent += 1) {
    assert.equal((await ann.postParts(path, { ...fields, 'issue[subject]': subject })).status, 302);
  }
  assert.equal(issues(subject), 1);
});

test('who has logged out gets no answer of before', { skip }, async () => {
  const ann = gate.visitor('shop.test');
  const { path, fields } = await atForm(ann);
  const subject = `Mug ${(count += 1)}`;
  assert.equal((await ann.postParts(path, { ...fields, 'issue[subject]': subject })).status, 302);
  const home = await open(ann, '/');
  const token = home.text.match(/name="csrf-token" content="([^"]+)"/)[1];
  await ann.post('/logout', { authenticity_token: token });
  const again = await ann.postParts(path, { ...fields, 'issue[subject]': subject });
  assert.equal(again.status, 409);
  assert.deepEqual(again.set, []);
  assert.equal(issues(subject), 1);
});
