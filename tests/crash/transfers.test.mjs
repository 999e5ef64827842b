// The second example of the engine on workerd: bank transfers (crates/once-object/examples/transfers), under kill -9, too. The bank is a
// server of the test's own, which executes each key once, is slow, loses answers, and keeps the books that everything is judged by.
//
// Other numbers:  CRASH_TRANSFERS=400 CRASH_KILLS=60 node --test tests/crash/transfers.test.mjs

import assert from 'node:assert/strict';
import { before, test } from 'node:test';

import {
  Callers,
  Runtime,
  between,
  killAgain,
  send,
  temporaryDirectory,
} from '../../crates/once-testing/kill/kill.mjs';
import { build } from '../../scripts/build.mjs';
import { root } from '../../scripts/lib/paths.mjs';
import { until } from '../worker/support/until.mjs';
import { Bank, IBAN, SHOP, transfer } from './transfer-bank.mjs';

const SEED = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 2 ** 32));
const TRANSFERS = Number(process.env.CRASH_TRANSFERS ?? 60);
const KILLS = Number(process.env.CRASH_KILLS ?? 12);
/** The control ends at the first transfer that was made twice. */
const CONTROL_KILLS = 60;
const BALANCE = 10_000;
const CENTS = 700;
const EXAMPLE = 'crates/once-object/examples/transfers';

before(() => build({ names: ['transfers'], profile: 'dev' }));

test('a transfer is made once, and a retry gets the same answer', async (t) => {
  const { bank, worker } = await start(t, 'once');
  await worker.start();
  const asked = transfer('shop', 'k1');
  const answers = await Promise.all([1, 2, 3].map(() => send(worker.origin, asked.path, asked)));
  answers.push(await send(worker.origin, asked.path, asked));
  assert.deepEqual(
    answers.map(({ status, text }) => [status, text]),
    answers.map(() => [200, 'sent']),
  );
  const replayed = answers.map(({ headers }) => headers['idempotent-replayed']).sort();
  assert.deepEqual(replayed, ['false', 'true', 'true', 'true']);
  assert.equal(bank.executed.length, 1);
  assert.deepEqual(await account(worker, 'shop'), { balance_cents: BALANCE - CENTS, sent: ['tr_1'] });
  const other = transfer('shop', 'k1', { cents: 1 });
  assert.equal((await send(worker.origin, other.path, other)).status, 422);
  const sameInOtherWords = { ...asked, body: `{ "cents": ${CENTS}, "to": "${IBAN}" }` };
  assert.equal((await send(worker.origin, asked.path, sameInOtherWords)).status, 200);
  const unknown = { ...asked, body: JSON.stringify({ to: IBAN, cents: CENTS, when: 'tomorrow' }) };
  assert.equal((await send(worker.origin, asked.path, unknown)).status, 400);
  const tooMuch = transfer('shop', 'k2', { cents: BALANCE });
  assert.equal((await send(worker.origin, tooMuch.path, tooMuch)).status, 409);
  await bank.told(1);
});

test('an account is of whose token first sends money from it, whatever its name is', async (t) => {
  const { bank, worker } = await start(t, 'owners');
  await worker.start();
  const asked = transfer('baker', 'k1');
  assert.equal((await send(worker.origin, asked.path, asked)).status, 200);
  const asks = async (authorization) => {
    const headers = { ...asked.headers, authorization };
    const other = { ...asked, headers: { ...headers, 'idempotency-key': 'k2' } };
    const all = [send(worker.origin, asked.path, { headers })];
    for (const post of [{ ...asked, headers }, other]) all.push(send(worker.origin, asked.path, post));
    return (await Promise.all(all)).map(({ status }) => status);
  };
  assert.deepEqual(await asks('Bearer token-of-the-baker'), [403, 403, 403]);
  for (const none of ['Bearer token', 'Bearer ', '']) assert.deepEqual(await asks(none), [401, 401, 401]);
  assert.deepEqual(await asks(SHOP.authorization), [200, 200, 200]);
  assert.equal(bank.executed.length, 2);
});

test('what is not made is answered by a problem, which is stored, too', async (t) => {
  const { bank, worker } = await start(t, 'problems');
  await worker.start();
  const rejected = transfer('shop', 'k1', { to: 'nobody' });
  const problems = [];
  for (let time = 0; time < 2; time += 1) problems.push(await send(worker.origin, rejected.path, rejected));
  for (const { status, headers, text } of problems) {
    assert.deepEqual([status, headers['content-type']], [402, 'application/problem+json']);
    const problem = { title: 'The bank has rejected the transfer', status, detail: 'no such account' };
    assert.deepEqual(JSON.parse(text), problem);
  }
  assert.deepEqual(await account(worker, 'shop'), { balance_cents: BALANCE, sent: [] });
  const without = await send(worker.origin, rejected.path, { ...rejected, headers: SHOP });
  assert.deepEqual([without.status, without.headers['content-type']], [400, 'application/problem+json']);
  bank.holds = true;
  const pending = transfer('shop', 'k2');
  const { status, headers } = await send(worker.origin, pending.path, pending);
  assert.equal(status, 503);
  assert.match(headers['retry-after'], /^[1-9]\d*$/);
});

test('what could not be read again begins nothing, and its key is free', async (t) => {
  const { bank, worker } = await start(t, 'unreadable');
  await worker.start();
  const nested = (depth) => ({
    ...transfer('shop', 'k1'),
    body: `{"to": "${IBAN}", "cents": ${CENTS}, "remittance": ${'['.repeat(depth)}${']'.repeat(depth)}}`,
  });
  const asks = async (depth) => {
    const { status, text } = await send(worker.origin, nested(depth).path, nested(depth));
    return [status, text];
  };
  for (let time = 0; time < 2; time += 1) {
    const [status, text] = await asks(125);
    assert.deepEqual([status, JSON.parse(text).title], [409, 'the remittance is nested too deep']);
  }
  assert.equal(bank.requests, 0);
  assert.deepEqual(await asks(110), [200, 'sent']);
  // Another incarnation reads what this one has written.
  await worker.kill();
  await worker.start();
  assert.deepEqual(await asks(110), [200, 'sent']);
  assert.equal(bank.executed.length, 1);
});

test('a call that was given up does not stay open at the bank', { timeout: 60_000 }, async (t) => {
  const { bank, worker } = await start(t, 'given-up');
  await worker.start();
  bank.holds = true;
  const held = transfer('shop', 'k1');
  assert.equal((await send(worker.origin, held.path, held)).status, 503);
  await bank.leftAlone(1);
  bank.holds = false;
  bank.pours = 8 << 10;
  const before = bank.givenUp;
  const poured = transfer('other', 'k2');
  const began = Date.now();
  const answered = send(worker.origin, poured.path, poured);
  // Long before the time is over that the bank has for an answer.
  await bank.leftAlone(before + 1);
  assert.ok(Date.now() - began < 1_500, `${Date.now() - began} ms`);
  bank.pours = 0;
  assert.equal((await answered).status, 200);
  assert.equal(bank.executed.length, 2);
});

test('the alarm ends what nobody asks for any more', async (t) => {
  const { bank, worker } = await start(t, 'alarm');
  await worker.start();
  bank.holds = true;
  const asked = transfer('shop', 'k1');
  const first = send(worker.origin, asked.path, asked).catch(() => 'killed');
  await bank.reached(1);
  await worker.kill();
  assert.equal(await first, 'killed');
  bank.holds = false;
  await worker.start();
  // Nobody asks: looking at the account is not asking.
  await bank.told(1);
  assert.deepEqual(await account(worker, 'shop'), { balance_cents: BALANCE - CENTS, sent: ['tr_1'] });
  assert.equal(bank.executed.length, 1);
});

test('an alarm that cannot be set is told in the log, at each commit that is to set it', async (t) => {
  const { bank, worker } = await start(t, 'no-alarm', { entry: 'tests/crash/no-alarm.mjs' });
  const told = [];
  worker.onLog = (line) => line.event === 'alarm_not_set' && told.push(line);
  await worker.start();
  for (const key of ['k1', 'k2']) {
    const before = told.length;
    const asked = transfer('shop', key);
    assert.equal((await send(worker.origin, asked.path, asked)).status, 200);
    await until('alarm_not_set in the log', () => told.length > before);
  }
  await bank.told(2);
  for (const { level, object, error } of told) {
    assert.equal(level, 'error');
    assert.match(object, /^[0-9a-f]{64}$/);
    assert.match(error, /alarm\(\) handler/);
  }
});

test('a host that waits for ever is waited for no longer: neither its client nor its jobs', async (t) => {
  const { bank, worker } = await start(t, 'hangs', { entry: 'tests/crash/no-end.mjs' });
  const told = [];
  worker.onLog = (line) => line.event === 'host_hangs' && told.push(line.method);
  await worker.start();
  bank.holds = true;
  const asked = transfer('shop', 'k1');
  assert.equal((await send(worker.origin, asked.path, asked)).status, 503);
  bank.holds = false;
  bank.holdsNotices = true;
  await until('the transfer', async () => (await account(worker, 'shop')).sent.length === 1);
  await until('a notice that was given up', () => told.includes('deliver'));
  bank.holdsNotices = false;
  await bank.told(1);
  assert.deepEqual([told[0], bank.executed.length], ['send', 1]);
});

test('by worker-build a trap fails what is under way, too, and a new instance goes on', async (t) => {
  const { bank, worker } = await start(t, 'worker-build', { entry: 'tests/crash/as-worker-build.mjs' });
  await worker.start();
  const instance = async () => Number((await send(worker.origin, '/instance')).text);
  const before = await instance();
  bank.holds = true;
  const asked = transfer('shop', 'k1');
  const first = send(worker.origin, asked.path, asked);
  await bank.reached(1);
  assert.equal((await send(worker.origin, '/trap')).status, 500);
  assert.equal((await first).status, 500);
  bank.holds = false;
  const { status, text } = await send(worker.origin, asked.path, asked);
  assert.deepEqual([status, text], [200, 'sent']);
  assert.ok((await instance()) > before, 'a new instance');
  assert.equal(bank.executed.length, 1);
});

test('an object has the handlers that its class has in Rust, what else is named, and no other', async (t) => {
  const { worker } = await start(t, 'handlers', { entry: 'tests/crash/as-worker-build.mjs' });
  await worker.start();
  const handlers = JSON.parse((await send(worker.origin, '/handlers')).text);
  const sockets = ['webSocketMessage', 'webSocketClose', 'webSocketError'];
  assert.deepEqual(handlers.sort(), ['constructor', 'fetch', 'transfer', ...sockets].sort());
  const [noClass, noMethod, noState] = JSON.parse((await send(worker.origin, '/refusals')).text);
  assert.match(noClass, /^no class Nobody is written in Rust/);
  assert.match(noMethod, /^Sockets has no method refund/);
  assert.match(noState, /^there is no __worker_init_state/);
});

test('an object whose times do not fit together begins nothing, and says why', async (t) => {
  const { bank, worker } = await start(t, 'times', { vars: { LEASE_MS: '2000' } });
  const told = [];
  worker.onLog = (line) => told.push(line);
  await worker.start();
  const asked = transfer('shop', 'k1');
  assert.equal((await send(worker.origin, asked.path, asked)).status, 500);
  const why = /the times do not fit together: PROVIDER_TIMEOUT_MS must be below LEASE_MS/;
  await until('the reason in the log', () => told.some((line) => why.test(line)));
  assert.equal(bank.requests, 0);
});

test('every transfer is made once, whenever the process is killed', async (t) => {
  const load = await start(t, 'kills');
  const struck = await load.kill({ kills: KILLS, transfers: TRANSFERS });
  t.diagnostic(`seed ${SEED}: ${struck.length} kills, ${load.bank.requests} requests to the bank`);
  assert.deepEqual(await load.judge(), []);
  assert.ok(struck.filter((underWay) => underWay > 0).length >= KILLS / 2, 'kills struck requests');
  assert.ok(load.bank.requests > load.bank.executed.length, 'some transfers were sent again');
});

test('control: with a bank that looks at no key somebody pays twice', async (t) => {
  const load = await start(t, 'control', { looksAtKeys: false });
  const isWrong = () => new Set(load.bank.executed.map(({ key }) => key)).size < load.bank.executed.length;
  await load.kill({ kills: CONTROL_KILLS, transfers: TRANSFERS, until: isWrong });
  const wrong = await load.judge();
  assert.ok(
    wrong.some((what) => what.endsWith('executed twice')),
    wrong.join('\n'),
  );
});

const account = async (worker, name) =>
  JSON.parse((await send(worker.origin, `/accounts/${name}`, { headers: SHOP })).text);

/** The bank, and the Worker in a process that is not started yet. */
async function start(t, name, { looksAtKeys = true, entry = `${EXAMPLE}/entry.mjs`, vars = {} } = {}) {
  const roll = between(SEED);
  const bank = new Bank({ between: roll, looksAtKeys });
  await bank.start();
  const worker = new Runtime({
    root,
    directory: temporaryDirectory(`transfers-${name}`),
    config: `${EXAMPLE}/wrangler.toml`,
    entry,
    vars: { BANK: bank.origin, ...vars },
  });
  const callers = new Callers(worker, { isEnd: ({ status }) => status < 500 });
  t.after(async () => {
    callers.stop();
    await worker.close();
    bank.close();
  });

  /** Each account makes a few transfers, some of them sent twice at once, and one in four is rejected. */
  async function kill({ kills, transfers, until = () => false }) {
    bank.isSlow = true;
    const begin = () => {
      const number = callers.callers.length;
      const to = number % 4 === 3 ? 'nobody' : IBAN;
      callers.begin(transfer(`account-${number % 10}`, `key-${number}`, { to, cents: 100 }), {
        copies: 1 + (number % 2),
      });
    };
    const struck = await killAgain(worker, {
      kills,
      between: roll,
      isDone: () => callers.callers.length >= transfers,
      live() {
        const left = Math.min(Math.ceil(transfers / kills), transfers - callers.callers.length);
        for (let count = 0; count < left; count += 1) begin();
        return callers.moreEnded(roll(0, 3));
      },
      underWay: callers.underWay,
      begin: () => callers.ended === callers.callers.length && begin(),
      killed: async () => until(),
    });
    bank.isSlow = false;
    await worker.start();
    await callers.all();
    return struck;
  }

  /** What the callers and the accounts say, against the bank's books. */
  async function judge() {
    const wrong = [];
    for (const [key, made] of Map.groupBy(bank.executed, (it) => it.key))
      if (made.length > 1) wrong.push(`${key}: executed twice`);
    for (const caller of callers.callers) {
      if (caller.answers.length === 0) wrong.push('a caller was never answered');
      const again = await callers.repeat(caller);
      const texts = new Set([...caller.answers, again].map(({ status, text }) => `${status} ${text}`));
      if (texts.size !== 1) wrong.push(`answered differently: ${[...texts].join(', ')}`);
      if (again.headers['idempotent-replayed'] !== 'true') wrong.push('the last answer is no replay');
    }
    const booked = bank.executed.filter(({ to }) => to === IBAN);
    const accounts = await Promise.all(Array.from({ length: 10 }, (_, n) => account(worker, `account-${n}`)));
    const missing = accounts.reduce((sum, { balance_cents: left }) => sum + BALANCE - left, 0);
    if (missing !== booked.length * 100)
      wrong.push(`${missing} cents are gone, ${booked.length} transfers booked`);
    const known = accounts.flatMap(({ sent }) => sent).length;
    if (known !== booked.length) wrong.push(`${known} transfers are known, the bank booked ${booked.length}`);
    await bank.told(known);
    return wrong;
  }

  return { bank, worker, kill, judge };
}
