// Outgoing webhooks: what a shop's server is told of its payments, and by which endpoint. What happens where it does not take that is in
// webhook-deliveries.test.mjs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Webhook } from 'standardwebhooks';

import { ownFolder } from '../../scripts/lib/leftovers.mjs';
import { USER, freshKey, read } from './support/account.mjs';
import { browser } from './support/browser.mjs';
import { startChanged } from './support/changed.mjs';
import { SIGNING_KEY, demoWorkers, productionWorkers, root, startSite } from './support/harness.mjs';
import { objectId } from './support/objects.mjs';
import { ADMIN_TOKEN, registry, standNowhere } from './support/own-keys.mjs';
import {
  AUTHORISATION,
  DECLINED_CARD,
  PAYMENT,
  assertProblem,
  client,
  moved,
  paid,
} from './support/payments.mjs';
import { ENDPOINT, isSignedBy, put, startReceiver, verified } from './support/receiver.mjs';
import { order } from './support/shopper.mjs';
import { until } from './support/until.mjs';

const site = await startSite({
  workers: demoWorkers({ vars: { ACCOUNTS_CACHE_MS: '0' }, secrets: { ADMIN_TOKEN } }),
});
const receiver = await startReceiver();
after(async () => {
  receiver.close();
  await site.close();
});

const remove = (user) => user.ask(ENDPOINT, { method: 'DELETE' });

/** A shop with a server. `told` waits until it was told of these types of a payment, and gives what. */
async function shop(...answers) {
  const made = await registry(site).shop({ own: false, key: null });
  const server = receiver.shop(...answers);
  const answer = await put(made.client, { url: server.url });
  assert.equal(answer.status, 201, answer.text);
  const endpoint = answer.json();
  const messages = () => server.requests.map((request) => verified(request, endpoint.secret));
  const told = (payment, ...types) =>
    until(`${payment} is told as ${types}`, () => {
      const found = messages().filter(({ data }) => data.id === payment);
      return types.every((type) => found.some((message) => message.type === type)) && found;
    });
  return { ...made, user: made.client, server, endpoint, messages, told };
}

/** As the events came about, each once. */
const inOrder = (messages) =>
  [...new Map(messages.map((message) => [message.sequence, message.type]))]
    .sort(([a], [b]) => a - b)
    .map(([, type]) => type);

describe('a shop is told', () => {
  let ada;
  before(async () => {
    ada = await shop();
  });

  test('that a payment has succeeded, and what it is', async () => {
    const payment = await paid(ada.user, { ...PAYMENT, metadata: { cart: '77' }, order_id: freshKey() });
    const [message, ...others] = await ada.told(payment.id, 'payment.succeeded');
    assert.deepEqual(others, []);
    const shown = (await ada.user.payment(payment.id)).json();
    assert.deepEqual(message.data, shown);
    assert.deepEqual(Object.keys(message), ['type', 'timestamp', 'sequence', 'data']);
    assert.ok(Math.abs(Date.parse(message.timestamp) - Date.now()) < 600_000, message.timestamp);
    const request = ada.server.requests.find(({ body }) => body.includes(payment.id));
    assert.match(request.headers['webhook-id'], /^pay_[\w-]{43}_event_\d+$/);
    assert.equal(request.headers['user-agent'], 'paid-once');
  });

  test('of an order that was paid at the checkout', async () => {
    const asked = order();
    const link = await ada.user.post('/checkout/sessions', asked);
    assert.equal(link.status, 201, link.text);
    const { pathname } = new URL(link.json().url);
    const visitor = browser(site);
    const page = await visitor.visit(pathname);
    const sent = await visitor.send(pathname, { ...page.entries, payment_method: 'pm_card_visa' });
    assert.equal(sent.status, 303, sent.text);
    const message = await until('the order is told', () =>
      ada.messages().find(({ data }) => data.order_id === asked.order_id && data.status === 'succeeded'),
    );
    assert.deepEqual([message.type, message.data.amount], ['payment.succeeded', 2900]);
  });

  test('that money is reserved, and then that it is taken', async () => {
    const { id } = await paid(ada.user, AUTHORISATION);
    await ada.told(id, 'payment.requires_capture');
    await moved(ada.user, id, 'capture', { amount: 1500 });
    const messages = await ada.told(id, 'payment.succeeded');
    assert.deepEqual(inOrder(messages), ['payment.requires_capture', 'payment.succeeded']);
    const { data } = messages.find(({ type }) => type === 'payment.succeeded');
    assert.equal(data.amount_captured, 1500);
  });

  test('that a reservation is given up', async () => {
    const { id } = await paid(ada.user, AUTHORISATION);
    await moved(ada.user, id, 'void');
    const messages = await ada.told(id, 'payment.canceled');
    assert.deepEqual(inOrder(messages), ['payment.requires_capture', 'payment.canceled']);
  });

  test('that a card was declined', async () => {
    const declined = await ada.user.pay({ ...PAYMENT, payment_method: DECLINED_CARD }, freshKey());
    assert.equal(declined.status, 402, declined.text);
    const [message] = await ada.told(declined.payment, 'payment.declined');
    assert.equal(message.data.failure.code, 'card_declined');
  });

  test('nothing of an end where the payment goes on with its other provider', async () => {
    const fallback = { provider: 'adyen', payment_method: 'adyen_card_visa', customer: 'ada' };
    const { id } = await paid(ada.user, { ...PAYMENT, payment_method: DECLINED_CARD, fallback });
    const messages = await ada.told(id, 'payment.succeeded');
    assert.deepEqual(inOrder(messages), ['payment.updated', 'payment.succeeded']);
    const { data } = messages.find(({ type }) => type === 'payment.updated');
    assert.equal(data.tries[0].status, 'declined');
    // Its record says so itself: the next one may be in another snapshot.
    const [row] = await site.rows(
      "SELECT data FROM audit_records WHERE subject = ? AND action = 'payment.failed'",
      id,
    );
    assert.equal(JSON.parse(row.data).rerouted, true);
  });

  test('of a refund, and which one it is', async () => {
    const { id } = await paid(ada.user);
    const refund = await moved(ada.user, id, 'refunds', { amount: 700, reason: 'duplicate' });
    const messages = await ada.told(id, 'payment.succeeded', 'refund.succeeded');
    const message = messages.find(({ type }) => type === 'refund.succeeded');
    const { failure, ...shown } = refund;
    assert.equal(failure, null);
    assert.deepEqual([message.refund, message.data.amount_refunded], [shown, 700]);
  });

  test('of its own payments and of no others', async () => {
    const bob = await shop();
    const [hers, his] = [await paid(ada.user), await paid(bob.user)];
    await ada.told(hers.id, 'payment.succeeded');
    await bob.told(his.id, 'payment.succeeded');
    assert.ok(bob.messages().every(({ data }) => data.id === his.id));
    assert.ok(ada.messages().every(({ data }) => data.id !== his.id));
    assert.ok(ada.server.requests.every((request) => !isSignedBy(request, bob.endpoint.secret)));
  });

  test('once, also where its projection comes again: by a rebuild of the read model', async () => {
    const { id } = await paid(ada.user);
    await ada.told(id, 'payment.succeeded');
    const event = ada.server.requests.find(({ body }) => body.includes(id)).headers['webhook-id'];
    const isOver = (outcome) =>
      until(`${event} is over: ${outcome}`, () =>
        site
          .logs()
          .some(({ message }) => message.includes(`"job_id":"${event}"`) && message.includes(outcome)),
      );
    await isOver('204 from 127.0.0.1');
    const rebuilt = await site.fetch(`/admin/payments/${id}/project`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    assert.equal(rebuilt.status, 200);
    await isOver('was over before');
    assert.equal(ada.messages().filter(({ data }) => data.id === id).length, 1);
  });
});

describe('a read model that has lost all and is rebuilt', () => {
  const DAYS_MS = 4 * 86_400_000;

  /** What was told of a payment before and after its object sent all of its audit anew, to a read model that knows of no delivery. */
  async function toldAnew(change) {
    const ada = await shop();
    const { id } = await paid(ada.user);
    const [told] = await ada.told(id, 'payment.succeeded');
    const object = objectId(id);
    await until('it is noted as done', async () => {
      const jobs = await site.rows(
        "SELECT 1 FROM job_list WHERE object = ? AND kind = 'deliver_webhook'",
        object,
      );
      return jobs.length;
    });
    await change(id, ada);
    await site.rows('UPDATE payments SET done_jobs = NULL WHERE payment_id = ?', id);
    const [{ version }] = await site.rows('SELECT version FROM payments WHERE payment_id = ?', id);
    const rebuilt = await site.fetch(`/admin/payments/${id}/project`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    assert.equal(rebuilt.status, 200);
    const isOver = `"job_id":"${object}_project_${version + 1}"`;
    await until('its projection is over', () =>
      site.logs().some(({ message }) => message.includes(isOver) && message.includes('"outcome":"done"')),
    );
    return { ada, told, id };
  }

  test('tells nobody of what is older than three days', async () => {
    const { ada } = await toldAnew(async (id, { endpoint }) => {
      await site.objects.sql(id, 'UPDATE audit_records SET at_ms = at_ms - ?', DAYS_MS);
      await site.rows(
        'UPDATE webhook_endpoints SET created_at_ms = created_at_ms - ? WHERE url = ?',
        2 * DAYS_MS,
        endpoint.url,
      );
    });
    const later = await paid(ada.user);
    const ids = (await ada.server.has(2)).map(({ body }) => JSON.parse(body).data.id);
    assert.deepEqual(ids.slice(1), [later.id], 'the first one, and the later one');
  });

  test('control: it tells what is younger once more, under the same id', async () => {
    const { ada, told } = await toldAnew(async () => {});
    const [first, second] = await ada.server.has(2);
    assert.equal(second.headers['webhook-id'], first.headers['webhook-id']);
    assert.equal(verified(second, ada.endpoint.secret).sequence, told.sequence);
  });
});

describe('the endpoint of an account', () => {
  const shopWithout = async () => (await registry(site).shop({ own: false, key: null })).client;

  test('is made, shown, moved and removed, and each request may be sent again', async () => {
    const user = await shopWithout();
    assertProblem(await user.ask(ENDPOINT), 404, 'not-found');
    const [first, second] = [receiver.shop(), receiver.shop()];
    const made = await put(user, { url: first.url });
    assert.equal(made.status, 201, made.text);
    const endpoint = made.json();
    assert.deepEqual(
      [endpoint.object, endpoint.url, endpoint.secret_version, endpoint.previous_secret_expires_at],
      ['webhook_endpoint', first.url, 1, null],
    );
    assert.match(endpoint.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    const again = await put(user, { url: first.url });
    assert.deepEqual([again.status, again.json()], [200, endpoint]);
    const shown = await user.ask(ENDPOINT);
    assert.deepEqual([shown.status, shown.json()], [200, endpoint]);
    assert.equal(shown.header('cache-control'), 'private, no-store');

    const { url, secret } = (await put(user, { url: second.url })).json();
    assert.deepEqual([url, secret], [second.url, endpoint.secret]);
    const { id } = await paid(user);
    const [request] = await second.has(1);
    assert.equal(verified(request, secret).data.id, id);

    assert.deepEqual([(await remove(user)).status, (await remove(user)).status], [204, 204]);
    assert.equal((await user.ask(ENDPOINT)).status, 404);
    const anew = await put(user, { url: first.url });
    assert.deepEqual([anew.status, anew.json().secret_version], [201, 2]);
    assert.notEqual(anew.json().secret, secret);
    assert.deepEqual(first.requests, [], 'nobody was told there');
  });

  test('gets a new secret, once, and the one before signs beside it', async () => {
    const ada = await shop();
    const [{ url, secret }, version] = [ada.endpoint, { secret_version: 2 }];
    const rotated = await put(ada.user, { url, ...version });
    assert.equal(rotated.status, 200, rotated.text);
    const { secret: next, previous_secret_expires_at: until_ } = rotated.json();
    assert.notEqual(next, secret);
    assert.ok(Date.parse(until_) - Date.now() > 23 * 3_600_000, until_);
    const again = await put(ada.user, { url, ...version });
    assert.deepEqual(again.json(), rotated.json());
    await paid(ada.user);
    const [request] = await ada.server.has(1);
    assert.deepEqual(
      [secret, next].map((one) => isSignedBy(request, one)),
      [true, true],
    );
    assert.equal(request.headers['webhook-signature'].split(' ').length, 2);
    assertProblem(await put(ada.user, { url, secret_version: 4 }), 422, 'invalid-parameters', {
      errors: [{ field: 'secret_version', message: 'is 2 now: send 2, or 3 for a new secret' }],
    });
    // Another one at once: the first one, which may be known to somebody, is worth nothing any more.
    await put(ada.user, { url, secret_version: 3 });
    await paid(ada.user);
    const [, later] = await ada.server.has(2);
    assert.deepEqual(
      [secret, next].map((one) => isSignedBy(later, one)),
      [false, true],
    );
  });

  test('is tested at once, whatever it answers', async () => {
    const [ada, nobody] = [await shop(204, 500), await shopWithout()];
    const outcome = async () => {
      const tested = await ada.user.post(`${ENDPOINT}/test`);
      assert.equal(tested.status, 200, tested.text);
      return tested.json();
    };
    const first = await outcome();
    const [request] = ada.server.requests;
    const message = verified(request, ada.endpoint.secret);
    assert.deepEqual(
      [message.type, message.data, request.headers['webhook-id']],
      ['webhook_endpoint.test', { object: 'webhook_endpoint', url: ada.endpoint.url }, first.webhook_id],
    );
    const seen = [first, await outcome()].map((one) => [one.delivered, one.response_status, one.error]);
    assert.deepEqual(seen, [
      [true, 204, null],
      [false, 500, null],
    ]);
    assertProblem(await nobody.post(`${ENDPOINT}/test`), 404, 'not-found');
  });

  test('is nobody else’s, and at an address that can be one', async () => {
    for (const method of ['GET', 'PUT', 'DELETE', 'POST']) {
      const answer = await read(
        await site.fetch(method === 'POST' ? `${ENDPOINT}/test` : ENDPOINT, { method }),
      );
      assertProblem(answer, 401, 'unauthorized');
    }
    const user = await shopWithout();
    for (const [body, field] of [
      [{}, 'url'],
      [{ url: 'ftp://shop.example' }, 'url'],
      [{ url: 'https://ada:secret@shop.example' }, 'url'],
      [{ url: 'https://shop.example', secret_version: 'x' }, 'secret_version'],
      [{ url: 'https://shop.example', secret_version: 2 }, 'secret_version'],
      [{ url: 'https://shop.example', events: ['*'] }, 'events'],
    ]) {
      const refused = await put(user, body);
      const problem = assertProblem(refused, 422, 'invalid-parameters');
      assert.deepEqual(
        problem.errors.map((error) => error.field),
        [field],
      );
    }
    assert.equal((await user.ask(ENDPOINT)).status, 404, 'nothing was made');
  });

  test('is told nothing of what was before it', async () => {
    const user = await shopWithout();
    const { id } = await paid(user);
    const isOver = ({ message }) =>
      message.includes('"job_over"') && message.includes(`${objectId(id)}_project_`);
    const projections = () => site.logs().filter(isOver).length;
    const shown = await until('it is shown', projections);
    const server = receiver.shop();
    await put(user, { url: server.url });
    await site.rows(
      'UPDATE webhook_endpoints SET created_at_ms = created_at_ms + 120000 WHERE url = ?',
      server.url,
    );
    await site.fetch(`/admin/payments/${id}/project`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    await until('it was projected anew', () => projections() > shown);
    await site.rows(
      'UPDATE webhook_endpoints SET created_at_ms = created_at_ms - 120000 WHERE url = ?',
      server.url,
    );
    const later = await paid(user);
    const [request] = await server.has(1);
    assert.equal(JSON.parse(request.body).data.id, later.id);
  });

  test('is shown to the operator, without its secret', async () => {
    const ada = await shop();
    const page = await site.fetch(`/admin/accounts/${ada.id}`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    const text = await page.text();
    assert.ok(text.includes(ada.endpoint.url), text);
    assert.ok(!text.includes(ada.endpoint.secret), 'its secret');
  });

  test('keeps its secret to itself: it stands in no row and in no line of the log', async () => {
    const ada = await shop();
    const { id } = await paid(ada.user);
    await ada.told(id, 'payment.succeeded');
    await standNowhere(site, [['the secret', ada.endpoint.secret.slice('whsec_'.length)]], { id, seen: [] });
  });
});

test('what it asks in its own zone comes in from outside', () => {
  const settings = readFileSync(join(root, 'wrangler.toml'), 'utf8');
  const [above] = settings.split(/^\[/m);
  assert.match(above, /^compatibility_flags = \["global_fetch_strictly_public"\]$/m);
});

test('in production it is at a public host, by https, and not at our own', async (t) => {
  const token = 'the-token-of-an-account-of-the-tests';
  const secrets = {
    SIGNING_KEY,
    STRIPE_SECRET_KEY: 'sk_test_of_the_tests',
    API_ACCOUNTS: JSON.stringify({
      acme: { token_sha256: createHash('sha256').update(token).digest('hex'), payment_method: 'pm_acme' },
    }),
  };
  const production = await startSite({ workers: productionWorkers({ secrets }) });
  t.after(() => production.close());
  const user = client(
    { ...production, fetch: (path, init) => production.fetch(`https://pay.example${path}`, init) },
    token,
  );
  for (const [url, status] of [
    ['http://shop.example/hook', 422],
    ['https://127.0.0.1/hook', 422],
    ['https://[::1]/hook', 422],
    ['https://2130706433/hook', 422],
    ['https://metadata.internal/hook', 422],
    ['https://localhost/hook', 422],
    ['https://pay.example/webhooks/stripe', 422],
    ['https://shop.example/hook', 201],
  ]) {
    const answer = await put(user, { url });
    assert.equal(answer.status, status, `${url}: ${answer.text}`);
  }
});

/** A port at which nobody listens. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

describe('the receiver of docs/integrate.md', () => {
  const docs = readFileSync(join(root, 'docs/integrate.md'), 'utf8');
  const [, code] = /```js\n(import \{ createServer \}[^]*?)```/.exec(docs);
  const user = client(site);

  /** Runs it for a new endpoint. `paidOnce` is where it asks. */
  async function started(t, paidOnce) {
    const file = join(ownFolder('receiver'), 'receiver.mjs');
    writeFileSync(file, code);
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/webhooks/paid-once`;
    const { secret } = (await put(user, { url })).json();
    const env = {
      ...process.env,
      ...{ PAID_ONCE: paidOnce, TOKEN: USER, WEBHOOK_SECRET: secret, PORT: `${port}` },
    };
    const shop = spawn(process.execPath, [file], { env });
    t.after(() => shop.kill());
    let said = '';
    for (const output of [shop.stdout, shop.stderr]) output.on('data', (data) => (said += data));
    const send = (id, body) => {
      const at = new Date();
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': `${Math.floor(at / 1000)}`,
        'webhook-signature': new Webhook(secret).sign(id, at, body),
      };
      return fetch(url, { method: 'POST', headers, body });
    };
    await until('it listens', () =>
      fetch(url).then(
        () => true,
        () => false,
      ),
    );
    return { port, url, send, said: () => said, isAlive: () => shop.exitCode === null && !shop.signalCode };
  }

  test('takes each order once, and nothing that is not signed', async (t) => {
    const { url, send, said } = await started(t, site.url.origin);
    const tested = (await user.post(`${ENDPOINT}/test`)).json();
    assert.deepEqual([tested.delivered, tested.response_status], [true, 204]);
    const { id, order_id } = await paid(user, { ...PAYMENT, order_id: freshKey() });
    await until('it takes the order', () => said().includes(`fulfil order ${order_id}`));
    const body = JSON.stringify({ type: 'payment.succeeded', data: { id } });
    const strange = await fetch(url, { method: 'POST', body });
    assert.equal(strange.status, 400);
    // The same message once more, as a queue may bring it.
    const twice = [await send('pay_event', body), await send('pay_event', body)];
    assert.deepEqual(
      twice.map(({ status }) => status),
      [204, 204],
    );
    assert.equal(said().split(order_id).length - 1, 2, 'that of the queue, and the one that came twice');
  });

  test('lives on, whatever a stranger sends and where Paid Once is away', async (t) => {
    const { port, url, send, said, isAlive } = await started(t, `http://127.0.0.1:${await freePort()}`);
    const stranger = connect(port, '127.0.0.1');
    stranger.write(
      'POST / HTTP/1.1\r\nhost: shop.example\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n{',
    );
    await once(stranger, 'data');
    stranger.destroy();
    await until('it has noticed', () => said().includes('aborted') || !isAlive());
    assert.ok(isAlive(), said());
    // It may have closed the connection before its answer is read.
    const large = await fetch(url, { method: 'POST', body: Buffer.alloc(1_000_000) }).then(
      ({ status }) => status,
      () => 413,
    );
    assert.equal(large, 413);
    const body = JSON.stringify({ type: 'payment.succeeded', data: { id: 'pay_1' } });
    assert.equal((await send('pay_event', body)).status, 500, 'it comes again');
    const other = JSON.stringify({ type: 'payment.updated', data: { id: 'pay_1' } });
    assert.equal((await send('pay_event', other)).status, 204);
    assert.ok(isAlive(), said());
  });
});

test('an endpoint that is made elsewhere is told a second later, however long an isolate knows of accounts', async (t) => {
  const cached = await startSite({ workers: demoWorkers({ vars: { ACCOUNTS_CACHE_MS: '60000' } }) });
  t.after(() => cached.close());
  const [user, server] = [client(cached), receiver.shop()];
  const { id } = await paid(user);
  const [{ owner }] = await until('its projection was looked through', async () => {
    const rows = await cached.rows('SELECT owner FROM payments WHERE payment_id = ?', id);
    return rows.length > 0 && rows;
  });
  // By another isolate: this one is not told.
  await cached.rows(
    'INSERT INTO webhook_endpoints VALUES (?, ?, 1, NULL, ?, ?)',
    ...[owner.replace('account:', ''), server.url, Date.now(), Date.now()],
  );
  await pause(1_000);
  const later = await paid(user);
  const [request] = await server.has(1);
  assert.equal(JSON.parse(request.body).data.id, later.id);
});

test('without its queue there are none, and nothing is looked up', async (t) => {
  const change = (settings) =>
    settings.replace(
      /\[\[env\.demo\.queues\.\w+\]\]\n(binding = .*\n)?queue = ".*-deliveries"\n(\w+ = .*\n)*/g,
      '',
    );
  const off = await startChanged(change, { looksAtStatements: true, secrets: { ADMIN_TOKEN } });
  t.after(() => off.close());
  const user = client(off);
  for (const answer of [await user.ask(ENDPOINT), await put(user, { url: receiver.shop().url })]) {
    const { detail } = assertProblem(answer, 503, 'misconfigured');
    assert.match(detail, /DELIVERIES/);
  }
  const { id } = await paid(user);
  await until(
    'it is shown',
    async () => (await off.rows('SELECT 1 FROM payments WHERE payment_id = ?', id)).length,
  );
  const asked = off.logs().filter(({ message }) => message.includes('webhook_endpoints'));
  assert.deepEqual(asked, []);
});
