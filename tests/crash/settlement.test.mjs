// Kill -9 of the whole site while the clock writes settlement files and imports the bank's answer.
//
// Here runs the site alone, `wrangler dev` on disk: the settlement asks no bank. Its movements of money are put into the read model's
// tables directly, by the thousand, while nothing runs. Six weeks of files are due, so that one run writes many, and a kill has many
// places to strike. Kills are aimed: the disk is read all the time, and what the process has just done there is the signal.
//
// Shown, after the last kill:
// - a file that was closed and not written, and one that was written and not noted, have both been there, and became right;
// - every movement stands in one file; what came late, after a kill, stands in the next one, and no file that was there has changed;
// - lines, totals, trailers and what is noted of them are what another program counts;
// - each line of an answer was imported once, whatever was half done, and what is not booked is reported once;
// - and the judge sees it when a protection is off: the fixed lines, the object that is never written over, the line that stands once.
//
// The same dice:  CRASH_SEED=12345

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { rng } from '../witness/rng.mjs';
import { SEED } from './chaos.mjs';
import { Site } from './site.mjs';
import {
  DAY_MS,
  Movements,
  Seen,
  answerComplaints,
  answerTo,
  complaints,
  dateOf,
  fileOf,
} from './settlement-books.mjs';
import { HANGS_AFTER_MS } from '../worker/support/until.mjs';

/** Days that are due at first. One run takes 31. */
const DAYS = 45;
/** Movements of a day, and of some days: more than are read at once. */
const FEW = 8;
const MANY = 5_500;
const LATE = 3;
/** Kills that aim at the files: at least one each, and not more than this until both half-way states were there. */
const KILLS_MAX = 16;
const RANDOM_MS = [0, 1_000];

// No test needs the network: this keeps the runtime from asking where on Earth it runs.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = 'false';
const { between } = rng(SEED);

/** A site whose clock strikes, or whose operator sends a file. */
class Settling {
  disk;
  #site;

  static async make(name) {
    return new Settling(await Site.make(`crash-settlement-${name}`, { hasBank: false }));
  }

  constructor(site) {
    this.#site = site;
    this.disk = site.disk;
  }

  close() {
    return this.#site.close();
  }

  /** The operator sends the bank's answer. */
  send(answer) {
    return this.#site.sendFile('/admin/settlement/answers', answer.text);
  }

  /**
   * One life: something is done, and the process is killed as soon as `isTime` says so, or when it is done. Gives whether it was.
   * What is done if nothing else is said: the clock strikes, twice at once.
   */
  async liveUntil(isTime, work = () => Promise.all([this.#site.strike(), this.#site.strike()])) {
    await this.#site.start();
    let isOver = false;
    const isNow = isTime();
    const ended = work().finally(() => (isOver = true));
    while (!isOver && !isNow()) await turn();
    const wasOver = isOver;
    await Promise.all([this.#site.kill(), ended]);
    return wasOver;
  }

  /** What the newest run of a task said. */
  result(task) {
    const [run] = this.disk.rows('SELECT result FROM runs WHERE task = ? ORDER BY run_id DESC LIMIT 1', task);
    return run && JSON.parse(run.result);
  }

  /** The clock strikes until it has written all, and then nothing is under way. */
  async finish() {
    await this.#site.start();
    for (let runs = 0; ; runs += 1) {
      await this.#site.strike();
      const { written, error } = this.result('settle');
      if (error || written.length === 0) break;
      assert.ok(runs < 10, 'it never ends');
    }
    await this.#site.kill();
  }
}

/** The days that are due, oldest first: their beginnings. A day ends, and two hours later it is due. */
function daysDue(count) {
  const last = Math.floor((Date.now() - 2 * 3_600_000) / DAY_MS) - 1;
  return Array.from({ length: count }, (_, n) => (last - count + 1 + n) * DAY_MS);
}

/** As if the file of the day before the first one had been written. */
function beginAt(disk, day) {
  const date = dateOf(day - DAY_MS);
  disk.write((database) =>
    database
      .prepare("INSERT INTO settlement_files VALUES (?, ?, 0, 0, '{}', 'none', 1)")
      .run(fileOf(date), date),
  );
}

const timesOf = (day, count) =>
  Array.from({ length: count }, (_, n) => day + Math.floor(((n + 0.5) * DAY_MS) / count));
const newestClosed = (disk) => Date.parse(disk.rows('SELECT max(day) AS day FROM settlement_files')[0].day);
const isNoted = 'SELECT name FROM settlement_files WHERE written_at_ms IS NOT NULL';

test('a run that is killed half-way is made good: each file once, each movement in one', async (t) => {
  const site = await Settling.make('files');
  t.after(() => site.close());
  const { disk } = site;
  const movements = new Movements(disk);
  const seen = new Seen();
  const days = daysDue(DAYS);
  beginAt(disk, days[0]);
  const isLarge = (n) => n % 32 === 4;
  days.forEach((day, n) => movements.learn(timesOf(day, isLarge(n) ? MANY : FEW)));

  const files = () => disk.objects('settlement/');
  const aims = {
    'a file is closed': () => {
      const closed = newestClosed(disk);
      return () => newestClosed(disk) > closed;
    },
    // From then on it takes long to be written, so that the kill comes in between also on a slow machine.
    'a large file is closed': () => {
      const closed = newestClosed(disk);
      const large = days.find((day, n) => isLarge(n) && day > closed);
      return () => newestClosed(disk) >= large;
    },
    'a file is written': () => {
      const count = files().length + between(0, 1);
      return () => files().length > count;
    },
    'any time': () => {
      const at = Date.now() + between(...RANDOM_MS);
      return () => Date.now() >= at;
    },
  };
  const plan = ['a large file is closed', 'a file is written', 'any time', 'a file is written'];
  const figures = { kills: 0, closedNotWritten: 0, writtenNotNoted: 0, late: 0 };
  while (figures.kills < plan.length || figures.closedNotWritten === 0 || figures.writtenNotNoted === 0) {
    assert.ok(figures.kills < KILLS_MAX, `a half-way state was never hit: ${JSON.stringify(figures)}`);
    const missing = figures.closedNotWritten === 0 ? 'a file is closed' : 'a file is written';
    const isOver = await site.liveUntil(aims[plan[figures.kills] ?? missing]);
    assert.ok(!isOver, `there was too little to do: ${JSON.stringify(figures)}`);
    figures.kills += 1;
    seen.look(disk);
    const written = new Set(files().map(({ key }) => key));
    const closed = disk.rows('SELECT name, written_at_ms FROM settlement_files');
    const open = closed.filter(({ written_at_ms }) => written_at_ms === null);
    figures.closedNotWritten += open.some(({ name }) => !written.has(name)) ? 1 : 0;
    figures.writtenNotNoted += open.some(({ name }) => written.has(name)) ? 1 : 0;
    const newest = newestClosed(disk);
    if (newest < days.at(-1)) {
      movements.learn([newest, newest - 20 * DAY_MS, newest + DAY_MS].slice(0, LATE), newest);
      figures.late += LATE;
    }
  }
  await site.finish();
  t.diagnostic(
    `seed ${SEED}: ${JSON.stringify({ ...figures, movements: movements.all.length, files: files().length })}`,
  );
  assert.ok(figures.late > 0, 'some movements came late');
  assert.deepEqual(site.result('settle'), { written: [] });
  // Two hours after midnight (UTC) another day is due, in the middle of the test.
  const next = days.at(-1) + DAY_MS;
  const dates = [...days, ...(newestClosed(disk) === next ? [next] : [])].map(dateOf);
  assert.deepEqual(complaints(disk, { movements, seen, dates }).slice(0, 20), []);
  assert.equal(disk.rows(isNoted).length, dates.length + 1);
});

test('an answer that is killed half-way is imported on: each line once, what is not booked is reported once', async (t) => {
  const site = await Settling.make('answers');
  t.after(() => site.close());
  const { disk } = site;
  const movements = new Movements(disk);
  const [day] = daysDue(1);
  beginAt(disk, day + DAY_MS);
  movements.learn(timesOf(day, 2 * MANY));
  movements.settle(fileOf(dateOf(day)));
  const answer = answerTo(movements.all, { strangers: 50, doubled: 40, wrong: 31 });

  const imported = () => disk.rows('SELECT count(*) AS lines FROM settlement_answers')[0].lines;
  const more = () => {
    const before = imported();
    return () => imported() > before;
  };
  const isPutAway = () => () => disk.objects(answer.done).length > 0;
  const send = () => site.send(answer);
  const importedAtKill = [];
  // The operator's request breaks off; from then on the clock does it.
  for (const [isTime, work] of [[more, send], [more], [isPutAway]]) {
    await site.liveUntil(isTime, work);
    importedAtKill.push(imported());
  }
  await site.finish();
  t.diagnostic(JSON.stringify({ importedAtKill, lines: answer.lines.length }));
  const halfWay = importedAtKill.filter((lines) => lines > 0 && lines < answer.lines.length);
  assert.ok(halfWay.length > 0, `no kill was half-way: ${importedAtKill}`);
  assert.deepEqual(answerComplaints(disk, answer).slice(0, 20), []);

  // Control: where imported lines are not known again by their ids, the same answer is noted anew.
  disk.write((database) => database.exec("UPDATE settlement_answers SET line_id = 'other:' || line_id"));
  await site.liveUntil(() => () => false, send);
  assert.ok(answerComplaints(disk, answer).includes('line 3 is duplicate, not booked'));
});

test('control: the judge sees it when a protection is undone', async (t) => {
  const site = await Settling.make('control');
  t.after(() => site.close());
  const { disk } = site;
  const movements = new Movements(disk);
  const seen = new Seen();
  const [first, second] = daysDue(2);
  const judged = () => complaints(disk, { movements, seen, dates: [first, second].map(dateOf) });
  const lastFile = fileOf(dateOf(second));
  const forgetLines = (day) => (database) =>
    database.prepare('DELETE FROM settlement_lines WHERE file = ?').run(fileOf(dateOf(day)));
  const reopen = (database) => {
    forgetLines(second)(database);
    database.prepare('DELETE FROM settlement_files WHERE name = ?').run(lastFile);
    // As if no day had been closed in slices: 35 days are looked through.
    database.exec('DELETE FROM settlement_closings');
  };
  beginAt(disk, first);
  for (const day of [first, second]) movements.learn(timesOf(day, FEW));
  await site.finish();
  seen.look(disk);
  assert.deepEqual(judged(), []);
  movements.learn([second], second);

  await t.test('the lines that are fixed before the file is written', async () => {
    disk.write(reopen);
    await site.finish();
    assert.match(site.result('settle').error, /is there already, and is another one/);
    assert.deepEqual(judged(), [`${lastFile} is not noted`]);
  });

  await t.test('and the object that is not written over', async () => {
    disk.drop(lastFile);
    await site.finish();
    assert.ok(judged().includes(`${lastFile} was changed`), judged().join('\n'));
  });

  await t.test('the line that stands in one file', async () => {
    disk.write((database) => {
      reopen(database);
      forgetLines(first)(database);
    });
    disk.drop(lastFile);
    await site.finish();
    const twice = judged().filter((complaint) => / stands in \S+ and in /.test(complaint));
    assert.equal(twice.length, movements.all.filter(({ date }) => date === dateOf(first)).length);
  });
});
