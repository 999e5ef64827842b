// A rebuild of the read model goes on past what fails, and says where another run goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { rebuild } from './rebuild.mjs';
import { Stop } from './say.mjs';

/** A desk with these pages, by what they begin after. An error is thrown; of several answers each is given once, the last one always. */
function desk(pages) {
  const asked = [];
  const said = [];
  const post = async (path) => {
    const after = new URL(path, 'http://desk.example').searchParams.get('after');
    asked.push(after);
    const answers = pages[after];
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const run = (id = 'all', after) => rebuild(id, { after, post, say: (line) => said.push(line), pauseMs: 0 });
  return { asked, said, run };
}

const page = (projected, next, failed = []) => ({ projected, failed, next });
const down = () => new Stop('/admin/payments/all/project: 503 Not now.');

test('each page says where the next one begins', async () => {
  const { said, run } = desk({
    '': [page(50, 'pay_1')],
    pay_1: [page(7, 'shard:a:')],
    'shard:a:': [page(1, null)],
  });
  await run();
  assert.deepEqual(said, [
    '50 on the way into the read model, next: pay_1',
    '57 on the way into the read model, next: shard:a:',
    '58 on the way into the read model.',
  ]);
});

test('a page that fails is asked for three times, and then it is said where to go on', async () => {
  const well = desk({ '': [down(), down(), page(3, null)] });
  await well.run();
  assert.deepEqual([well.asked.length, well.said], [3, ['3 on the way into the read model.']]);
  const ill = desk({ '': [page(50, 'pay_1')], pay_1: [down()] });
  await assert.rejects(ill.run(), /503 Not now\.\nGo on with: npm run rebuild -- all --after pay_1$/);
  assert.deepEqual(ill.asked, ['', 'pay_1', 'pay_1', 'pay_1']);
  const on = desk({ pay_1: [page(2, null)] });
  await on.run('all', 'pay_1');
  assert.deepEqual(on.asked, ['pay_1']);
});

test('an object that fails is asked three times, keeps no other waiting, and is named at the end', async () => {
  const { asked, said, run } = desk({ '': [page(49, 'pay_1', ['pay_x'])], pay_1: [page(2, null)] });
  await assert.rejects(run(), (error) => {
    assert.ok(error instanceof Stop);
    assert.equal(error.message, '1 failed. Once they answer: npm run rebuild -- pay_x');
    return true;
  });
  assert.deepEqual(asked, ['', '', '', 'pay_1']);
  assert.equal(said.at(-1), '51 on the way into the read model.');
  const once = desk({ '': [page(49, null, ['pay_x']), page(50, null)] });
  await once.run();
  assert.deepEqual(once.said, ['50 on the way into the read model.']);
});

test('where no object of a page answers it does not go through all others', async () => {
  const all = Array.from({ length: 50 }, (_, at) => `pay_${at}`);
  const { asked, run } = desk({ '': [page(50, 'k')], k: [page(0, 'l', all)], l: [page(9, null)] });
  await assert.rejects(
    run(),
    /No object answers: 50 of 50 failed\.\nGo on with: npm run rebuild -- all --after k$/,
  );
  assert.ok(!asked.includes('l'));
});

test('one payment that is not there is told at once', async () => {
  const { asked, run } = desk({ '': [new Stop('404')] });
  await assert.rejects(run('pay_1'), /404/);
  assert.equal(asked.length, 1);
});
