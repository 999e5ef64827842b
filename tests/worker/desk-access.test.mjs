// Who gets to the desk: Cloudflare Access by its token, or the secret where Access is not set up; nobody else.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createSign, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { account, freshKey, read } from './support/account.mjs';
import { root, startSite } from './support/harness.mjs';
import { until } from './support/until.mjs';

const ADMIN_TOKEN = 'the-operators-own-secret-of-the-tests';
const METRICS_TOKEN = 'a-secret-of-the-tests-for-counts-alone';
const AUD = 'a'.repeat(64);

/** A team of Cloudflare Access: publishes its keys, and signs tokens. */
async function startTeam() {
  const keys = new Map();
  const team = { fetches: 0, publishes: true };
  let released;
  const server = createServer(async (request, response) => {
    team.fetches += 1;
    await released;
    if (request.url !== '/cdn-cgi/access/certs' || !team.publishes) return response.writeHead(503).end();
    const published = [...keys].map(([kid, { publicKey }]) => ({
      kid,
      alg: 'RS256',
      use: 'sig',
      ...publicKey.export({ format: 'jwk' }),
    }));
    response.end(JSON.stringify({ keys: published, public_cert: {} }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return Object.assign(team, {
    domain: `http://127.0.0.1:${server.address().port}`,
    /** Makes a key and publishes it. */
    addKey: (kid) => keys.set(kid, generateKeyPairSync('rsa', { modulusLength: 2048 })),
    removeKey: (kid) => keys.delete(kid),
    /** Its answers wait until what this gives is called. */
    hold() {
      const { promise, resolve } = Promise.withResolvers();
      released = promise;
      return resolve;
    },
    sign(claims = {}, { kid = 'one', alg = 'RS256', by = kid } = {}) {
      const now = Math.floor(Date.now() / 1000);
      const all = {
        iss: team.domain,
        aud: [AUD],
        iat: now,
        nbf: now,
        exp: now + 300,
        email: 'ada@example.com',
        ...claims,
      };
      const signed = `${encode({ alg, kid, typ: 'JWT' })}.${encode(all)}`;
      const signature = createSign('RSA-SHA256').update(signed).sign(keys.get(by).privateKey);
      return `${signed}.${signature.toString('base64url')}`;
    },
    close: () => server.close(),
  });
}

/** A service token of Access. */
const SERVICE = {
  headers: { 'cf-access-client-id': 'abc.access', 'cf-access-client-secret': 'the-secret' },
  env: { CF_ACCESS_CLIENT_ID: 'abc.access', CF_ACCESS_CLIENT_SECRET: 'the-secret' },
};

/** Access itself, before the site: lets the service token through under its name, and leads everybody else to the login. */
async function startAccess() {
  const server = createServer(async (request, response) => {
    const { headers, method, url } = request;
    if (Object.entries(SERVICE.headers).some(([name, value]) => headers[name] !== value))
      return response.writeHead(302, { location: `${team.domain}/cdn-cgi/access/login` }).end();
    const answer = await site.fetch(url, {
      method,
      headers: {
        'content-type': headers['content-type'] ?? '',
        'cf-access-jwt-assertion': team.sign({
          email: undefined,
          sub: '',
          common_name: 'the-operators-machine',
        }),
      },
      body: await buffer(request),
    });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

const team = await startTeam();
team.addKey('one');
const site = await startSite({
  vars: { ACCESS_TEAM_DOMAIN: `${team.domain}/`, ACCESS_AUD: AUD },
  secrets: { ADMIN_TOKEN, METRICS_TOKEN },
});
after(async () => {
  await site.close();
  team.close();
});

const open = async (token, headers = {}, path = '/admin', at = site) =>
  read(
    await at.fetch(path, {
      headers: {
        accept: 'text/html',
        ...(token === undefined ? {} : { 'cf-access-jwt-assertion': token }),
        ...headers,
      },
    }),
  );

describe('behind Cloudflare Access', () => {
  test('the secret for the counts opens them without its token, and nothing else', async () => {
    const status = async (token, path) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await site.fetch(path, { headers })).status;
    };
    for (const path of ['/metrics', '/admin/stats']) {
      assert.equal(await status(METRICS_TOKEN, path), 200, path);
      assert.equal(await status(ADMIN_TOKEN, path), 401, path);
    }
    for (const path of ['/admin', '/admin/payments.csv', '/admin/api/accounts'])
      assert.equal(await status(METRICS_TOKEN, path), 401, path);
  });

  test('a good token opens the desk and the counts, and names who it is', async () => {
    const page = await open(team.sign());
    assert.equal(page.status, 200);
    assert.match(page.text, /ada@example\.com/);
    for (const path of ['/metrics', '/admin/stats', '/admin/audit'])
      assert.equal((await open(team.sign(), {}, path)).status, 200, path);
    const service = team.sign({ email: undefined, common_name: 'prometheus' });
    assert.equal((await open(service, {}, '/metrics')).status, 200);
  });

  test('without a token it is closed, and there is no other way in', async () => {
    for (const headers of [
      {},
      { authorization: `Bearer ${ADMIN_TOKEN}` },
      { cookie: `CF_Authorization=${team.sign()}` },
    ]) {
      const page = await open(undefined, headers);
      assert.equal(page.status, 401);
      assert.match(page.text, /Cf-Access-Jwt-Assertion/);
      assert.doesNotMatch(page.text, /type="password"/);
    }
    const login = await site.fetch('/admin/login', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ token: ADMIN_TOKEN }).toString(),
    });
    assert.equal(login.status, 404);
    assert.equal(login.headers.get('set-cookie'), null);
  });

  test('a token that is not signed, or not with the team’s key, is refused', async () => {
    const [header, claims, signature] = team.sign().split('.');
    const none = Buffer.from(JSON.stringify({ alg: 'none', kid: 'one' })).toString('base64url');
    const other = Buffer.from(JSON.stringify({ email: 'eve@example.com' })).toString('base64url');
    team.addKey('stolen');
    const forged = team.sign({}, { kid: 'one', by: 'stolen' });
    team.removeKey('stolen');
    for (const [what, token] of Object.entries({
      'alg none': `${none}.${claims}.`,
      'alg none, with a signature': `${none}.${claims}.${signature}`,
      'other claims': `${header}.${other}.${signature}`,
      'no signature': `${header}.${claims}.`,
      'another key': forged,
      'an HMAC under the public key': team.sign({}, { alg: 'HS256' }),
      'no token at all': 'token',
      empty: '',
    }))
      assert.equal((await open(token)).status, 401, what);
    assert.equal((await open(`${header}.${claims}.${signature}`)).status, 200, 'the control');
  });

  test('a token for another application, of another team, or of another time is refused', async () => {
    const now = Math.floor(Date.now() / 1000);
    for (const [why, claims] of [
      ['ACCESS_AUD', { aud: ['b'.repeat(64)] }],
      ['ACCESS_AUD', { aud: [] }],
      ['ACCESS_TEAM_DOMAIN', { iss: 'https://other.cloudflareaccess.com' }],
      ['expired', { exp: now - 120 }],
      ['not valid yet', { nbf: now + 600 }],
      ['names nobody', { email: '' }],
    ]) {
      const page = await open(team.sign(claims));
      assert.equal(page.status, 401, why);
      assert.ok(page.text.includes(why), why);
    }
    assert.equal((await open(team.sign({ exp: now - 30 }))).status, 200, 'the clocks may differ by a minute');
  });

  test('erases and rebuilds by the commands, and imports an answer, with a service token', async () => {
    const answer = await account(site).pay({ amount: 2500, currency: 'usd' }, freshKey());
    const { id } = answer.json();
    const access = await startAccess();
    try {
      const run = async (command, more) =>
        promisify(execFile)(process.execPath, ['scripts/operate.mjs', command, id], {
          cwd: root,
          env: { PATH: process.env.PATH, PAID_ONCE_URL: access.url, ADMIN_TOKEN, ...more },
        }).then(
          ({ stdout }) => stdout,
          ({ stderr }) => stderr,
        );
      assert.match(
        await run('erase', {}),
        /leads elsewhere.*CF_ACCESS_CLIENT_ID/,
        'the control: the secret alone',
      );
      assert.match(await run('rebuild', SERVICE.env), /^1 on the way/m);
      assert.match(await run('erase', SERVICE.env), /is gone/);
      const imported = await fetch(new URL('/admin/settlement/answers', access.url), {
        method: 'POST',
        headers: { 'content-type': 'text/csv', ...SERVICE.headers },
        body: 'line_id,outcome,amount_minor,currency\ntrailer,0\n',
      });
      assert.equal(imported.status, 200);
    } finally {
      access.close();
    }
    const log = await site.rows('SELECT operator, action FROM operator_actions ORDER BY at_ms, action_id');
    assert.deepEqual(
      log.map(({ operator, action }) => `${operator}: ${action.split(' ')[0]}`),
      ['the-operators-machine: project', 'the-operators-machine: erase', 'the-operators-machine: import'],
    );
  });

  test('a rotated key is fetched, and a made-up one is not fetched again and again', async () => {
    assert.equal((await open(team.sign())).status, 200);
    const known = team.fetches;
    team.addKey('two');
    team.removeKey('one');
    assert.equal((await open(team.sign({}, { kid: 'two' }))).status, 200);
    assert.equal(team.fetches, known + 1);
    team.addKey('three');
    for (let tries = 0; tries < 5; tries++)
      assert.equal((await open(team.sign({}, { kid: 'three' }))).status, 401, 'not before a minute is over');
    assert.equal(team.fetches, known + 1);
    assert.equal((await open(team.sign({}, { kid: 'two' }))).status, 200);
  });
});

describe('when the keys of Cloudflare Access cannot be had', () => {
  const kid = 'new';
  const ask = () => open(team.sign({}, { kid }), {}, '/admin/audit', fresh);
  let fresh;
  before(async () => {
    team.addKey('old');
    fresh = await startSite({
      vars: { ACCESS_TEAM_DOMAIN: team.domain, ACCESS_AUD: AUD },
      secrets: { ADMIN_TOKEN },
    });
    assert.equal((await open(team.sign({}, { kid: 'old' }), {}, '/admin/audit', fresh)).status, 200);
    team.addKey(kid);
  });
  after(() => fresh.close());

  test('a token of a new key is answered 503, as often as it comes, and let in as soon as they can', async () => {
    team.publishes = false;
    for (let tries = 0; tries < 3; tries++) {
      const page = await ask();
      assert.equal(page.status, 503);
      assert.equal(page.header('retry-after'), '1');
    }
    assert.equal((await open(team.sign({}, { kid: 'old' }), {}, '/admin/audit', fresh)).status, 200);
    team.publishes = true;
    const known = team.fetches;
    const release = team.hold();
    const both = [ask(), ask()];
    await until('each of two at once has asked for the keys', () => team.fetches === known + 2);
    release();
    assert.deepEqual(
      (await Promise.all(both)).map(({ status }) => status),
      [200, 200],
    );
  });

  test('the control: a made-up key is refused, and not looked for again within the minute', async () => {
    const known = team.fetches;
    team.addKey('made up');
    const token = team.sign({}, { kid: 'made up' });
    team.removeKey('made up');
    for (let tries = 0; tries < 3; tries++)
      assert.equal((await open(token, {}, '/admin/audit', fresh)).status, 401);
    assert.equal(team.fetches, known);
  });
});

describe('with the secret', () => {
  test('without any setting the desk is closed, and says what to set', async () => {
    const closed = await startSite();
    try {
      for (const path of ['/admin', '/admin/keys', '/admin/login']) {
        const page = await read(await closed.fetch(path, { headers: { accept: 'text/html' } }));
        assert.equal(page.status, 401);
        assert.match(page.text, /ACCESS_TEAM_DOMAIN/);
        assert.match(page.text, /wrangler secret put ADMIN_TOKEN/);
      }
    } finally {
      await closed.close();
    }
  });

  test('in the lab the counts are open, and the desk is not', async () => {
    const lab = await startSite({ vars: { LAB: 'true' }, secrets: { ADMIN_TOKEN } });
    try {
      assert.equal((await lab.fetch('/metrics')).status, 200);
      assert.equal((await lab.fetch('/admin')).status, 401);
      assert.equal((await lab.fetch('/admin/payments')).status, 401);
    } finally {
      await lab.close();
    }
  });

  test('one half of Access alone is a wrong setting', async () => {
    const half = await startSite({ vars: { ACCESS_AUD: AUD }, secrets: { ADMIN_TOKEN } });
    try {
      const page = await read(await half.fetch('/admin'));
      assert.equal(page.status, 503);
      assert.match(page.json().detail, /go together/);
    } finally {
      await half.close();
    }
  });
});
