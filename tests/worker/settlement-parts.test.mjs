// The settlement file of a large day: closed in slices, written in parts with a manifest, broken off in between.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { ADMIN_TOKEN } from './support/abandoned.mjs';
import { startSite } from './support/harness.mjs';
import { readModel } from './support/readmodel.mjs';

const DAY_MS = 86_400_000;
const PART_LINES = 3;
/** Of these days the last is due: it ended two hours ago or earlier. */
const last = Math.floor((Date.now() - 26 * 3_600_000) / DAY_MS) * DAY_MS;
const dateOf = (ms) => new Date(ms).toISOString().slice(0, 10);
const [dayBefore, day] = [dateOf(last - DAY_MS), dateOf(last)];
const FILE = `settlement/${day}.csv`;
const MANIFEST = `settlement/${day}.json`;
const part = (number) => `settlement/${day}/${String(number).padStart(4, '0')}.csv`;
const sha256 = (text) => createHash('sha256').update(text).digest('hex');

describe('the settlement of a large day', async () => {
  const site = await startSite({
    vars: { SETTLEMENT_PART_LINES: String(PART_LINES) },
    secrets: { ADMIN_TOKEN },
  });
  const model = readModel(site);
  const { SETTLEMENT: bucket } = await site.desk().getEnv();
  const text = async (name) => (await bucket.get(name))?.text();
  const objects = async () =>
    (await bucket.list({ prefix: 'settlement/' })).objects.map(({ key }) => key).sort();
  after(() => site.close());

  let made = 0;
  /** A capture that the read model learns of now. */
  const captured = async (at, amount = 100) => {
    made += 1;
    const id = `pay_${String((made * 7) % 97).padStart(3, '0')}`;
    await model.run(
      "INSERT INTO audit_records VALUES (?, 3, ?, 'account:a', 'payment.captured', ?, ?)",
      `object-${made}`,
      at,
      id,
      JSON.stringify({
        provider: 'stripe',
        provider_payment: `pi_${made}`,
        amount_captured: amount,
        currency: 'usd',
      }),
    );
    return `${id}:capture`;
  };
  const linesOf = (file) =>
    file
      .split('\n')
      .slice(1)
      .filter((line) => line && !/^(total|trailer),/.test(line));
  const idsOf = (file) => linesOf(file).map((line) => line.split(',')[0]);

  const moved = [];
  before(async () => {
    // As if the release before had closed the day before, and had broken off.
    for (const name of ['a', 'b'])
      await model.run(
        "INSERT INTO settlement_lines VALUES (?, ?, 'capture', 'stripe', 'pi', 5, 'usd', ?)",
        `pay_old_${name}:capture`,
        `settlement/${dayBefore}.csv`,
        last - DAY_MS / 2,
      );
    await model.run(
      'INSERT INTO settlement_files (name, day, closed_at_ms) VALUES (?, ?, ?)',
      `settlement/${dayBefore}.csv`,
      dayBefore,
      last + 7_200_000,
    );
    for (let number = 0; number < 8; number += 1)
      moved.push(await captured(last + number * 3_600_000, 100 + number));
  });

  test('a day that the release before has closed is written; the next one in parts, with a manifest', async () => {
    const runs = await Promise.all([model.tick(), model.tick(), model.tick()]);
    for (const { settle } of runs) assert.equal(settle?.error, undefined);
    assert.deepEqual(
      await objects(),
      [`settlement/${dayBefore}.csv`, MANIFEST, part(1), part(2), part(3)].sort(),
    );
    assert.match(await text(`settlement/${dayBefore}.csv`), /\ntotal,capture,usd,2,10\ntrailer,2,/);

    const parts = await Promise.all([1, 2, 3].map((number) => text(part(number))));
    assert.deepEqual(
      parts.map((file) => linesOf(file).length),
      [3, 3, 2],
    );
    assert.deepEqual(parts.flatMap(idsOf), [...moved].sort(), 'each once, sorted over all parts');
    const manifest = JSON.parse(await text(MANIFEST));
    assert.deepEqual([manifest.day, manifest.lines], [day, 8]);
    assert.deepEqual(manifest.totals, { capture: { usd: 800 + 28 } });
    for (const [index, file] of parts.entries()) {
      const sum = linesOf(file).reduce((sum, line) => sum + Number(line.split(',')[4]), 0);
      const lines = linesOf(file);
      assert.ok(
        file.endsWith(
          `total,capture,usd,${lines.length},${sum}\ntrailer,${lines.length},${sha256(`${lines.join('\n')}\n`)}\n`,
        ),
        'a part is a whole file',
      );
      assert.deepEqual(manifest.parts[index], {
        name: part(index + 1),
        lines: lines.length,
        sha256: sha256(file),
        totals: { capture: { usd: sum } },
      });
    }
    const row = await model.first('SELECT * FROM settlement_files WHERE name = ?', FILE);
    assert.deepEqual([row.lines, row.sha256], [8, sha256(await text(MANIFEST))]);
    assert.deepEqual((await model.tick()).settle, { written: [] });
  });

  test('broken off anywhere it goes on with the same bytes, and writes nothing over', async () => {
    const before = Object.fromEntries(
      await Promise.all((await objects()).map(async (name) => [name, await text(name)])),
    );
    const uploaded = (await bucket.head(part(1))).uploaded;
    // What is there, and what is noted, when a run breaks off: after a part was put, after it was noted, and before the manifest.
    for (const [there, noted] of [
      [1, 0],
      [1, 1],
      [2, 1],
      [3, 3],
      [3, 2],
    ]) {
      await bucket.delete(MANIFEST);
      for (let number = there + 1; number <= 3; number += 1) await bucket.delete(part(number));
      await model.run('DELETE FROM settlement_parts WHERE file = ? AND part > ?', FILE, noted);
      await model.run('UPDATE settlement_files SET written_at_ms = NULL, sha256 = NULL WHERE name = ?', FILE);
      await captured(last + 5, 7); // it comes too late for this file
      const { settle } = await model.tick();
      assert.deepEqual(
        settle.written,
        [MANIFEST],
        `${there} there, ${noted} noted: ${JSON.stringify(settle)}`,
      );
      for (const [name, must] of Object.entries(before)) assert.equal(await text(name), must, name);
    }
    assert.deepEqual((await bucket.head(part(1))).uploaded, uploaded);
  });

  test('control: another part under its name is not taken for it, and the manifest is not written', async () => {
    const must = await text(part(2));
    await bucket.put(part(2), `${must}x`);
    await bucket.delete(MANIFEST);
    await model.run('DELETE FROM settlement_parts WHERE file = ? AND part > 1', FILE);
    await model.run('UPDATE settlement_files SET written_at_ms = NULL WHERE name = ?', FILE);
    assert.match((await model.tick()).settle.error, /0002\.csv is there already, and is another one/);
    assert.equal(await text(part(2)), `${must}x`);
    assert.equal(await bucket.head(MANIFEST), null);
    const lag = async () =>
      Number(
        /^paid_once_settlement_lag_seconds (\d+)$/m.exec(
          await (
            await site.fetch('/metrics', { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } })
          ).text(),
        )[1],
      );
    // It has been due since two hours after the end of the day.
    const due = Math.floor((Date.now() - (last + DAY_MS + 7_200_000)) / 1000);
    assert.ok(Math.abs((await lag()) - due) < 60, `${await lag()} of ${due}`);
    await bucket.put(part(2), must);
    assert.deepEqual((await model.tick()).settle.written, [MANIFEST]);
    assert.equal(await lag(), 0);
  });

  test('a closing that was broken off between its slices goes on, and what came late stands in the next file', async () => {
    // As if it were the file of the day before: the day is due once more, and a run has made its first slices.
    const old = `settlement/${dayBefore}.csv`;
    await model.run('DELETE FROM settlement_parts');
    await model.run('DELETE FROM settlement_files WHERE name = ?', FILE);
    await model.run('UPDATE settlement_lines SET file = ? WHERE file = ?', old, FILE);
    await bucket.delete((await objects()).filter((name) => name !== old));
    await model.run(
      'UPDATE settlement_closings SET through_ms = ?, version = 1 WHERE name = ?',
      last + DAY_MS / 2,
      FILE,
    );
    const ahead = await captured(last + DAY_MS - 1);
    const behind = await captured(last + 1);
    const { settle } = await model.tick();
    // Those that came too late for the file before are five.
    const late = await model.all(
      'SELECT line_id FROM settlement_lines WHERE file = ? ORDER BY line_id',
      FILE,
    );
    const ids = late.map(({ line_id }) => line_id);
    assert.deepEqual(settle.written, [MANIFEST]);
    assert.equal(ids.length, 7);
    assert.ok(ids.includes(ahead) && ids.includes(behind));
    assert.deepEqual((await Promise.all([1, 2, 3].map((number) => text(part(number))))).flatMap(idsOf), ids);
    assert.deepEqual(await model.all('SELECT * FROM settlement_late WHERE at_ms < ?', last + DAY_MS), []);
  });

  test("the bank's answer to lines in parts is booked", async () => {
    const [first, second] = (await Promise.all([1, 2].map((number) => text(part(number))))).map(linesOf);
    const rows = [first[0], second[0]].map((line) => {
      const [id, , , , amount, currency] = line.split(',');
      return `${id},settled,${amount},${currency}`;
    });
    await bucket.put(
      'answers/parts.csv',
      `line_id,outcome,amount_minor,currency\n${rows.join('\n')}\ntrailer,2\n`,
    );
    assert.deepEqual((await model.tick()).answers, { 'answers/parts.csv': { booked: 2 } });
  });

  test('the desk shows the day and its parts', async () => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const page = async (path, status = 200) => {
      const answer = await site.fetch(path, { headers });
      assert.equal(answer.status, status, path);
      return answer.text();
    };
    const list = await page('/admin/settlement');
    assert.ok(
      list.includes(MANIFEST) && list.includes('3 parts') && list.includes(`/admin/settlement/${day}`),
    );
    const parts = await page(`/admin/settlement/${day}`);
    for (const number of [1, 2, 3]) assert.ok(parts.includes(part(number)));
    await page(`/admin/settlement/${dayBefore}`, 404);
    await page('/admin/settlement/nothing', 404);
  });
});
