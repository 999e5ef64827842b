// The lab: a visitor breaks a payment, and the bank's ledger says what became of it. The unprotected side is the control: if
// it were charged once as well, the experiment would show nothing.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { browser } from './support/browser.mjs';
import { shareSite } from './support/harness.mjs';

const site = await shareSite();
after(() => site.close());

const visitor = browser(site);
const sides = ['unprotected', 'protected'];

/** The form of a new experiment: where it goes, and what it sends. */
async function open() {
  const page = await visitor.visit('/lab');
  assert.equal(page.status, 200, page.text);
  return { action: /action="(\/lab\/[0-9a-f-]{36}\/pay)"/.exec(page.text)[1], entries: page.entries, page };
}

/** Presses Pay. */
async function press({ action, entries }, fault, times) {
  const sent = { ...entries, fault, times: String(times) };
  const answer = await visitor.send(action, sent);
  assert.equal(answer.status, 303, answer.text);
  return visitor.visit(answer.header('location'));
}

/** What the bank has of an experiment, by side. */
async function bank({ action }) {
  const experiment = action.split('/')[2];
  const { charges } = await site.simulator.ledger();
  const mine = charges.filter(({ metadata }) => metadata.lab === experiment);
  const of = (side, paid) => mine.filter((line) => line.metadata.side === side && line.paid === paid).length;
  return Object.fromEntries(
    sides.map((side) => [side, { charged: of(side, true), declined: of(side, false) }]),
  );
}

const verdict = ({ text }) => /id="verdict"[^>]*>(.*)<\/p>/.exec(text)?.[1].replaceAll(/<[^>]*>/g, '');
const pages = ({ text }) => [...text.matchAll(/href="([^"]*\/_sim\/3ds\/[^"]*)"/g)].map(([, url]) => url);

/** What a side comes to, as the page says it. */
const charged = (count) => `charged ${count === 1 ? 'once' : `${count} times`}, $${count * 20}.00`;

describe('five presses at once', () => {
  // At least so often: on a busy machine a client without patience asks, and is charged, once more.
  const withoutProtection = {
    answer_lost: 10,
    request_lost: 5,
    slow: 10,
    server_error: 10,
    crash: 10,
    none: 5,
  };
  for (const [fault, least] of Object.entries(withoutProtection)) {
    test(`${fault}: one charge, and ${least} without protection`, async () => {
      const form = await open();
      const page = await press(form, fault, 5);
      const { unprotected, ...rest } = await bank(form);
      assert.deepEqual(rest, { protected: { charged: 1, declined: 0 } });
      assert.ok(unprotected.charged >= least, JSON.stringify(unprotected));
      assert.equal(
        verdict(page),
        `You pressed 5 times. Unprotected: ${charged(unprotected.charged)}. Paid Once: ${charged(1)}.`,
      );
      assert.ok(!page.text.includes('http-equiv="refresh"'), 'nothing is open any more');
    });
  }

  test('declined: the bank is asked once, and five times without protection', async () => {
    const form = await open();
    const page = await press(form, 'declined', 5);
    assert.deepEqual(await bank(form), {
      unprotected: { charged: 0, declined: 5 },
      protected: { charged: 0, declined: 1 },
    });
    assert.equal(
      verdict(page),
      'You pressed 5 times. Unprotected: declined 5 times. Paid Once: declined once.',
    );
  });

  test('3-D Secure: one page of the bank, and five without protection; each that is confirmed is charged', async () => {
    const form = await open();
    const page = await press(form, 'bank_page', 5);
    assert.equal((await bank(form)).unprotected.charged, 0);
    const waiting = pages(page);
    assert.equal(waiting.length, 6, page.text);
    let last;
    for (const url of waiting) {
      let answer = await visitor.send(`${new URL(url).pathname}/accept`, {});
      for (; answer.status === 303; answer = await visitor.visit(answer.header('location'))) last = answer;
      last = answer;
    }
    assert.deepEqual(await bank(form), {
      unprotected: { charged: 5, declined: 0 },
      protected: { charged: 1, declined: 0 },
    });
    assert.equal(
      verdict(last),
      'You pressed 5 times. Unprotected: charged 5 times, $100.00. Paid Once: charged once, $20.00.',
    );
  });
});

test('one press is enough for two charges where the answer gets lost', async () => {
  const form = await open();
  const page = await press(form, 'answer_lost', 1);
  assert.equal(
    verdict(page),
    'You pressed once. Unprotected: charged twice, $40.00. Paid Once: charged once, $20.00.',
  );
  assert.match(page.text, /no answer.*→.*paid/);
});

test('another press for the same order is another charge without protection, and none with it', async () => {
  const form = await open();
  await press(form, 'answer_lost', 5);
  const page = await press(form, 'none', 1);
  assert.deepEqual(await bank(form), {
    unprotected: { charged: 11, declined: 0 },
    protected: { charged: 1, declined: 0 },
  });
  assert.match(verdict(page), /^You pressed 6 times\./);
});

test('what Paid Once did is told step by step, under its own key', async () => {
  const page = await press(await open(), 'crash', 1);
  assert.match(page.text, /the server died.*→.*paid/);
  for (const step of [
    'The key is taken',
    'is written down, under the key pay_',
    'Taken up again: its holder was gone',
    'The same bytes are sent again, under the same key (send 2)',
    'The answer is stored',
  ])
    assert.ok(page.text.includes(step), `${step} in ${page.text}`);
});

test('two visitors do not disturb each other', async () => {
  const [broken, whole] = [await open(), await open()];
  const lost = press(broken, 'answer_lost', 5);
  await press(whole, 'none', 1);
  assert.deepEqual((await bank(whole)).unprotected, { charged: 1, declined: 0 });
  await lost;
  assert.deepEqual(await site.simulator.faults(), [], 'each fault met its own requests');
  assert.equal((await bank(broken)).protected.charged, 1);
});

test('an address can be loaded again, and says the same; it begins nothing', async () => {
  const form = await open();
  const untouched = await visitor.visit(form.action.replace('/pay', ''));
  assert.match(verdict(untouched), /^You have not pressed yet\. .* not charged/);
  assert.deepEqual((await bank(form)).protected, { charged: 0, declined: 0 });
  const page = await press(form, 'answer_lost', 1);
  const { text } = await visitor.visit(
    `${form.action.replace('/pay', '')}?fault=answer_lost&protected=zz-p&times=9`,
  );
  assert.equal(verdict({ text }), verdict(page));
});

describe('refused', () => {
  test('entries that are not the form’s, with their names', async () => {
    const { action, entries } = await open();
    for (const [name, value] of [
      ['fault', 'fire'],
      ['times', '1000'],
    ]) {
      const sent = new URLSearchParams({ ...entries, fault: 'none', times: '1', [name]: value });
      const answer = await site.fetch(action, { method: 'POST', body: sent });
      assert.equal(answer.status, 422);
      assert.deepEqual(
        (await answer.json()).errors.map(({ field }) => field),
        [name],
      );
    }
  });

  test('a form of another site, and an address that is none', async () => {
    const { action, entries } = await open();
    const foreign = await visitor.send(
      action,
      { ...entries, fault: 'none' },
      { origin: 'https://evil.example' },
    );
    assert.equal(foreign.status, 403);
    for (const path of ['/lab/x', '/lab/x/pay', `/lab/${'g'.repeat(24)}`])
      assert.ok([404, 405].includes((await site.fetch(path)).status), path);
  });
});
