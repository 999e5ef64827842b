// README.md, docs/try-it.md, the quickstart of docs/protocol.md, the example of the home page and those of the API's page: each command is run by bash as it stands
// there, in its order, against the demo.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { root, startSite } from '../worker/support/harness.mjs';
import { HANGS_AFTER_MS, until } from '../worker/support/until.mjs';

const site = await startSite();
after(() => site.close());

const document = (name) => readFileSync(`${root}${name}`, 'utf8');
const blocksOf = (text, language) =>
  [...text.matchAll(/^```(\w+)\n([^]*?)^```$/gm)]
    .filter(([, of]) => of === language)
    .map(([, , code]) => code);
const blocks = blocksOf(document('docs/try-it.md'), 'sh');
const [, inAShop] = document('README.md').split(/^## Use it in a shop$/m);

/** What a block prints, line by line. */
async function run(commands) {
  assert.ok(commands.includes('http://localhost:8787/'), commands);
  const here = commands.replaceAll('http://localhost:8787/', site.url.href);
  const { stdout } = await promisify(execFile)('bash', ['-c', here], { timeout: HANGS_AFTER_MS });
  return stdout.split('\n').filter((line) => line !== '');
}
const json = (line) => JSON.parse(line);

/** So many answers of `curl -i` are one payment: the first, and replays of it. */
async function paysOnce(commands, times) {
  const { stdout } = await promisify(execFile)('bash', ['-c', commands], { timeout: HANGS_AFTER_MS });
  const answers = stdout.split(/(?=HTTP\/1\.1 )/);
  assert.equal(answers.length, times, stdout);
  const bodies = answers.map((answer) => answer.slice(answer.indexOf('{')).trim());
  assert.equal(new Set(bodies).size, 1, stdout);
  const replayed = answers.filter((answer) => /^idempotent-replayed: true/im.test(answer));
  assert.deepEqual(replayed, answers.slice(1));
  assert.equal((await site.simulator.moved(json(bodies[0]).id)).charges, 1);
}

test('the six lines of README.md are a link to an order, and its command is one payment', async () => {
  const [code] = blocksOf(inAShop, 'js');
  const here = code.replaceAll('http://localhost:8787/', site.url.href);
  const url = await new Function(`return (async () => { ${here}\nreturn url; })()`)();
  const page = await fetch(url);
  assert.equal(page.status, 200);
  assert.match(await page.text(), /\$29\.00/);

  const [pay] = blocksOf(inAShop, 'sh');
  await paysOnce([pay, pay].join('').replaceAll('http://localhost:8787/', site.url.href), 2);
});

test('the client of docs/protocol.md pays once, whatever happens on the way', async () => {
  const [, quickstart] = document('docs/protocol.md').split('## Quickstart');
  const [code] = blocksOf(quickstart, 'js');
  assert.ok(code.includes('http://localhost:8787/'), code);
  const here = code.replaceAll('http://localhost:8787/', site.url.href);
  const pay = new Function(`${here}\nreturn pay;`)();
  const order = { amount: 2500 };
  await site.simulator.fault('connection_reset_after');
  const paid = await pay(order);
  assert.deepEqual([paid.httpStatus, paid.status], [201, 'succeeded']);
  assert.deepEqual(await pay(order), paid);
  assert.equal((await site.simulator.moved(paid.id)).charges, 1);
  const [, sent] = await site.simulator.payments(paid.id);
  assert.ok(sent, 'it was sent again, and charged once');
  const mistake = await pay({ ...order, amount: 9900 });
  assert.deepEqual([mistake.httpStatus, mistake.type], [422, '/problems/idempotency-key-reused']);
});

test('it has five blocks of commands', () => assert.equal(blocks.length, 5));

test('a customer is made once for an address, and changed', async () => {
  const answers = (await run(blocks[4])).join('\n');
  assert.deepEqual(
    [...answers.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => status),
    ['201', '200', '200'],
  );
  const ids = new Set([...answers.matchAll(/"id": ?"(cus_\w+)"/g)].map(([, id]) => id));
  assert.equal(ids.size, 1, answers);
  assert.match(answers, /"name": ?"Ada King"/);
});

test('an amount is reserved, a part of it taken, and some given back, once', async () => {
  const [captured, refund, again, refused, ...more] = (await run(blocks[0])).map(json);
  assert.deepEqual(more, []);
  assert.deepEqual([captured.status, captured.amount_captured], ['succeeded', 2000]);
  assert.deepEqual([refund.status, refund.amount], ['succeeded', 500]);
  assert.deepEqual(again, refund);
  assert.deepEqual([refused.status, refused.state], [409, 'succeeded']);
  const moved = { charges: 1, captured: 2000, refunded: 500, voided: 0 };
  assert.deepEqual(await site.simulator.moved(captured.id), moved);
});

test('a shop gets a link to an order', async () => {
  const [link] = (await run(blocks[1])).map(json);
  const page = await fetch(link.url);
  assert.equal(page.status, 200);
  assert.match(await page.text(), /Enamel mug/);
});

test('a ride is booked', async () => {
  const lines = await run(blocks[2]);
  assert.match(lines[0], /^HTTP\/1\.1 201 Created/);
  assert.match(lines.at(-1), /Payment accepted\. Your pilot is on their way!/);
});

test('a payment that fails in the middle is resumed, and its key tells of both', async () => {
  const [failed, resumed, key] = await run(blocks[3]);
  assert.match(failed, /"status":500/);
  assert.match(resumed, /"status":"succeeded"/);
  assert.ok(json(key).timeline.length > 4, key);
});

test('the example of the home page, pasted twice, is one payment and four equal answers', async () => {
  const page = await (await site.fetch('/', { headers: { accept: 'text/html' } })).text();
  const [, example] = /<code>(KEY=[^]*?)<\/code>/.exec(page);
  const commands = example.replaceAll('&quot;', '"').replaceAll('&#34;', '"');
  await paysOnce(`${commands}\n${commands}`, 4);
});

describe('the examples of the API’s page', () => {
  const unescaped = (html) =>
    html
      .replaceAll('&#34;', '"')
      .replaceAll('&#39;', "'")
      .replaceAll('&#60;', '<')
      .replaceAll('&#62;', '>')
      .replaceAll('&#38;', '&');
  const variables = {};
  let page;
  before(async () => (page = await (await site.fetch('/docs', { headers: { accept: 'text/html' } })).text()));

  const article = (id) => page.slice(page.indexOf(`<article id="${id}"`)).split('</article>')[0];
  const commands = (id) => unescaped(/<pre[^>]*><code>([^]*?)<\/code>/.exec(article(id))[1]);

  /** The answer to an example as it stands there; what a shell keeps from one command to the next is kept. */
  async function paste(id) {
    const code = commands(id).replaceAll('https://pay.example.com/', site.url.href);
    const script = `${code}\necho\necho "$KEY"\necho "$PAYMENT"`;
    const env = { ...process.env, ...variables };
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { env, timeout: HANGS_AFTER_MS });
    const [KEY, PAYMENT] = stdout.trimEnd().split('\n').slice(-2);
    Object.assign(variables, { KEY, PAYMENT });
    const [head, body] = stdout.split('\r\n\r\n');
    return { status: Number(head.split(' ')[1]), body: body?.startsWith('{') && json(body.split('\n')[0]) };
  }

  /** What of an answer is another one each time. */
  const VARIES = [
    'id',
    'payment',
    'provider_payment',
    'provider_refund',
    'created_at',
    // The account's own.
    'customer',
    'receipt_email',
    'tries',
    'url',
    'expires_at',
  ];
  const same = (answer) =>
    Object.fromEntries(Object.entries(answer).filter(([name]) => !VARIES.includes(name)));

  /** Pastes an example, and holds the answer against the one that the page shows for this status. */
  async function answers(id, status) {
    const answer = await paste(id);
    assert.equal(answer.status, status, `${id}: ${JSON.stringify(answer.body)}`);
    const [, shown] = article(id).split(`<dt>${status}</dt>`);
    const [, example] = /<code>([^]*?)<\/code>/.exec(shown.slice(shown.indexOf('class="example"')));
    assert.deepEqual(same(answer.body), same(json(unescaped(example))), id);
    return answer.body;
  }

  test('reserve, capture and refund a payment, one after the other', async () => {
    await paste('variables');
    assert.match(variables.PAYMENT, /^pay_[\w-]{43}$/);
    assert.equal((await paste('showPayment')).body.status, 'requires_capture');
    // The list is a projection: on a slow machine it has the payment a moment later.
    await until(
      'the list begins with the payment',
      async () => (await paste('listPayments')).body.data[0]?.id === variables.PAYMENT,
    );
    assert.equal((await answers('capturePayment', 200)).id, variables.PAYMENT);
    variables.REFUND = (await answers('refundPayment', 201)).id;
    assert.equal((await answers('showRefund', 200)).id, variables.REFUND);
    assert.equal((await paste('listRefunds')).body.data[0].id, variables.REFUND);
    assert.equal((await paste('refundPaymentAlias')).status, 201);
    assert.equal((await paste('showKey')).body.status, 'complete');
    assert.equal((await paste('forgetKey')).status, 204);
  });

  test('void another one', async () => {
    await paste('variables');
    assert.equal((await answers('voidPayment', 200)).id, variables.PAYMENT);
  });

  test('pay, and show what was paid', async () => {
    variables.PAYMENT = (await answers('createPayment', 201)).id;
    await answers('showPayment', 200);
  });

  test('make a customer and show it', async () => {
    page = page.replaceAll('ada@shop.example', 'grace@shop.example');
    await answers('putCustomer', 201);
    await answers('showCustomer', 200);
  });

  test('make a link and end it; their keys are not found', async () => {
    await answers('createCheckoutSession', 201);
    assert.equal((await paste('showKey')).status, 404);
    await answers('expireCheckoutSessions', 200);
    assert.equal((await paste('showKey')).status, 404);
  });
});
