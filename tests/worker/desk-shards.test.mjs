// The buttons of what is in a shard, where there are more shards than one reader asks: what a list shows each of its buttons reaches.

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { startSite } from './support/harness.mjs';
import { LOOKS_SOON, jobsForgotten } from './support/jobs.mjs';
import { objectId } from './support/objects.mjs';
import { formOf, operator } from './support/operator.mjs';
import { client, paid } from './support/payments.mjs';
import { readModel } from './support/readmodel.mjs';
import { apiAccounts, shards, workersWithShards } from './support/shards.mjs';
import { until } from './support/until.mjs';

const secrets = { ADMIN_TOKEN, API_ACCOUNTS: apiAccounts(['one']) };
const site = await startSite({
  workers: workersWithShards({ vars: { ...LOOKS_SOON, SHARDS_CACHE_MS: '0' }, secrets }),
});
const all = shards(site);
const model = readModel(site);
const desk = operator(site, ADMIN_TOKEN);
after(() => site.close());
/** As **Older** leads there: without what is newer. */
const older = (list, more = '') => desk.look(`/admin/${list}?made_before=${Date.now() + 60_000}${more}`);
let shard;
let object;
let number = 0;

before(async () => {
  await all.lay(2);
  const { id } = await paid(client(site, 'token-of-one'));
  await jobsForgotten(site, id);
  object = objectId(id);
  [{ shard }] = await all.rows('SELECT 1 FROM payments WHERE payment_id = ?', id);
  // More than are asked at once, all of them newer; nothing is in them.
  await all.note(Array.from({ length: 250 }, (_, slot) => `g1-2999-01-01-${String(slot).padStart(3, '0')}`));
});

const here = async (sql, ...values) => (await all.rowsIn(shard, sql, ...values))[0];
const job = (id) => here('SELECT * FROM jobs WHERE job_id = ?', id);
const found = (id) => here('SELECT * FROM breaks WHERE break_id = ?', id);

/** A dead letter, as the ledger writes it after the last try. Its id does not say of which payment it is, as that of a refund's receipt does not. */
async function dead(kind = 'send_receipt') {
  const id = `re_${(number += 1)}_receipt`;
  await here(
    `INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
     VALUES (?1, ?4, ?2, 'dead', 5, '{"object":"no receipt"}', ?3, '[]', ?3, ?3)`,
    id,
    object,
    Date.now(),
    kind,
  );
  return id;
}

/** An open break. */
async function broken(of) {
  const id = `unmoved:stripe:pi_${(number += 1)}`;
  await here(
    `INSERT INTO breaks (break_id, kind, provider, provider_payment, object, ours, state, first_seen_at_ms, last_seen_at_ms)
     VALUES (?1, 'unmoved', 'stripe', 'pi', ?2, 'succeeded', 'open', ?3, ?3)`,
    id,
    of,
    Date.now(),
  );
  return id;
}

/** What a button sends; where it leads to a page that asks once more, what that page's button does. */
async function form(list, ending, which) {
  const page = await older(list, which);
  return ending.endsWith('/purge') ? desk.asked(page, ending) : formOf(page, ending);
}
async function press(list, ending, more = {}, which = '') {
  const { path, entries } = await form(list, ending, which);
  assert.equal((await desk.press(path, { ...entries, ...more })).status, 303);
}
const pressed = async (list, id, action, more) => {
  await press(list, `${encodeURIComponent(id)}/${action}`, more);
  return (await desk.logOf(id)).at(-1).outcome;
};

beforeEach(async () => assert.ok((await all.names()).length > 200));

test('requeue sends it again, with the payment by which its row is found', async () => {
  const id = await dead();
  assert.equal(await pressed('dead-letters', id, 'requeue'), 'one job is in the queue again');
  // What it carries is no receipt: so it is dead again, in the same row.
  await until('it was tried', async () => {
    const { state, history } = await job(id);
    return state === 'dead' && history !== '[]';
  });
  assert.deepEqual(await model.all('SELECT * FROM jobs'), [], 'and D1 knows nothing of it');
  assert.equal(await pressed('dead-letters', id, 'purge'), 'dropped, with what it carried');
});

/** They were tried, and are dead again; then they are dropped. */
async function triedAndGone(ids) {
  for (const id of ids) {
    await until('it was tried', async () => (await job(id)).history !== '[]');
    await until('it is dead again', async () => (await job(id)).state === 'dead');
    await pressed('dead-letters', id, 'purge');
  }
}

test('requeue all sends those again that its page shows', async () => {
  const ids = [await dead(), await dead()];
  assert.match((await older('dead-letters')).text, />Requeue these 2 dead letters</);
  await press('dead-letters', '/requeue-all');
  assert.equal((await desk.logOf('all dead letters')).at(-1).outcome, '2 jobs are in the queue again');
  await triedAndGone(ids);
});

test('requeue all of a kind sends no others again', async () => {
  const [other, id] = [await dead('project'), await dead()];
  await press('dead-letters', '/requeue-all/send_receipt', {}, '&kind=send_receipt');
  const [{ outcome }] = await desk.logOf('all dead letters: send_receipt');
  assert.equal(outcome, 'one job is in the queue again');
  await triedAndGone([id]);
  assert.deepEqual([(await job(other)).state, (await job(other)).history], ['dead', '[]']);
  await pressed('dead-letters', other, 'purge');
});

test('what has changed since its page was loaded is not purged', async () => {
  const id = await dead();
  const { path, entries } = await form('dead-letters', `${id}/purge`);
  await here('UPDATE jobs SET updated_at_ms = updated_at_ms + 1 WHERE job_id = ?1', id);
  await desk.press(path, entries);
  assert.match((await desk.logOf(id)).at(-1).outcome, /^refused: it has changed/);
  assert.equal((await job(id)).state, 'dead');
  await pressed('dead-letters', id, 'purge');
});

test('purge drops what it carries, and again changes nothing', async () => {
  const id = await dead();
  const { path, entries } = await form('dead-letters', `${id}/purge`);
  assert.equal(await pressed('dead-letters', id, 'purge'), 'dropped, with what it carried');
  const { state, payload } = await job(id);
  assert.deepEqual([state, payload], ['purged', null]);
  await desk.press(path, entries);
  assert.equal((await desk.logOf(id)).at(-1).outcome, 'dropped, with what it carried');
});

test('its own page is found from the list, and its buttons reach it, too', async () => {
  const id = await dead();
  const [, path] = (await older('dead-letters')).text.match(
    new RegExp(`href="(/admin/dead-letters/${id}[^"]*)"`),
  );
  const page = await desk.look(path);
  assert.equal(page.status, 200);
  const { path: purge, entries } = await desk.asked(page, '/purge');
  await desk.press(purge, entries);
  assert.equal((await job(id)).state, 'purged');
});

test('a break is accepted with a note, and one is repaired', async () => {
  const accepted = await broken(null);
  assert.equal(await pressed('breaks', accepted, 'accept', { note: 'known' }), 'accepted');
  const { state, note } = await found(accepted);
  assert.deepEqual([state, note], ['accepted', 'known']);

  const asked = await broken(object);
  assert.match(await pressed('breaks', asked, 'repair'), /^the provider is being asked/);
  const repaired = await found(asked);
  assert.deepEqual([repaired.note, repaired.asked_at_ms > 0], [null, true], 'the log says by whom');
});

test('a shard that does not answer is told of, and nothing is said of what it may have', async () => {
  const id = await dead();
  const { path, entries } = formOf(await older('dead-letters'), `${id}/requeue`);
  await all.takeDown(shard);
  try {
    await desk.press(path, entries);
  } finally {
    await all.putUp(shard);
  }
  assert.match((await desk.logOf(id)).at(-1).outcome, /^failed: .*did not answer/);
  assert.equal((await job(id)).state, 'dead');
  await pressed('dead-letters', id, 'purge');
});
