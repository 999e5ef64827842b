// What the gate says itself, to whom, and in which language.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { customers, startGate } from './support/gate.mjs';

const forms = ['POST /checkout'];
const api = ['POST /v1/*'];
const APP = 'https://app.shop.test';
const HOSTS = {
  'shop.test': { forms, api, cors: [APP] },
  'asks.test': { forms, api, missing: 'ask' },
  'public.test': { api, cors: ['*'] },
  'down.test': { forms, api, origin: 'http://127.0.0.1:9' },
};
/** What the client in Java's library says by itself that it accepts. */
const JAVA = 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2';
/** Firefox makes such a number where a script sends no key. */
const BROWSERS_OWN = '"1735912983204511234"';
/** Another word in each language, for a form that came without a key and one that says something else. */
const LANGUAGES = {
  en: [/One more click is needed/, /This form was sent already/, /See the answer/, /Send it as new/],
  de: [/Ein weiterer Klick/, /Dieses Formular wurde schon gesendet/, /Antwort ansehen/, /Als neues Formular/],
  fr: [/Un clic de plus/, /Ce formulaire a déjà été envoyé/, /Voir la réponse/, /Envoyer comme nouveau/],
  es: [/Hace falta un clic más/, /Este formulario ya se envió/, /Ver la respuesta/, /Enviar como nuevo/],
  ja: [/もう一度クリック/, /すでに送信されています/, /結果を見る/, /新しく送信する/],
};

let gate;
let shop;
let atCheckout;
let someone;
let ordersOf;

before(async () => {
  gate = await startGate(HOSTS);
  ({ shop } = gate);
  ({ atCheckout, someone, ordersOf } = customers(gate));
});

after(() => gate.close());

/** A request of an API's client. */
const send = (host, body, headers = {}) =>
  gate.send(host, '/v1/charges', {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', authorization: 'Bearer one', ...headers },
  });
const slug = ({ text }) => JSON.parse(text).type.split('/').at(-1);
const isProblem = ({ headers, text }) => {
  assert.equal(headers['content-type'], 'application/problem+json');
  assert.doesNotMatch(text, /form|click|page/);
};

describe('a client of an API', () => {
  test('gets problem details, whatever its library says that it accepts', async () => {
    const name = someone();
    const headers = { accept: JAVA, 'idempotency-key': 'java' };
    assert.equal((await send('shop.test', { name }, headers)).status, 201);
    const differs = await send('shop.test', { name, amount: 2 }, headers);
    isProblem(differs);
    assert.deepEqual([differs.status, slug(differs)], [422, 'idempotency-key-reused']);
    assert.equal(JSON.parse(differs.text).title, 'This key was used for another request');
    for (const accept of [JAVA, 'text/html', '*/*']) {
      const missing = await send('asks.test', { name }, { accept });
      isProblem(missing);
      assert.equal(JSON.parse(missing.text).title, 'The Idempotency-Key header is missing');
      const down = await send('down.test', { name }, { accept });
      isProblem(down);
      assert.deepEqual([down.status, slug(down)], [503, 'no-answer']);
    }
    // Control: whoever sends a form gets a page.
    const form = await gate.visitor('asks.test').post('/checkout', { name }, { headers: { accept: JAVA } });
    assert.match(form.headers['content-type'], /^text\/html/);
  });

  test('on a page of another site is told that its key is missing, not whence it comes', async () => {
    const elsewhere = { origin: 'https://app.test', 'sec-fetch-site': 'cross-site' };
    const missing = await send('asks.test', { name: someone() }, elsewhere);
    assert.deepEqual([missing.status, slug(missing)], [400, 'idempotency-key-missing']);
  });

  test('has no key where it is one that the browser has made', async () => {
    const own = { 'idempotency-key': BROWSERS_OWN, 'sec-fetch-site': 'same-origin', authorization: '' };
    const name = someone();
    for (let sent = 0; sent < 2; sent += 1)
      assert.equal((await send('shop.test', { name }, own)).status, 201);
    assert.equal(ordersOf(name).length, 2, 'each passes as it is');
    const asked = await send('asks.test', { name }, own);
    assert.deepEqual([asked.status, slug(asked)], [400, 'idempotency-key-missing']);
    // Control: what is no browser has made the number itself.
    const theirs = { 'idempotency-key': BROWSERS_OWN };
    const other = someone();
    for (let sent = 0; sent < 2; sent += 1) await send('shop.test', { name: other }, theirs);
    assert.equal(ordersOf(other).length, 1);
  });

  test('of another origin can read what the gate says, where the settings name it', async () => {
    const key = { 'idempotency-key': 'cors' };
    const readable = ({ headers }) => [
      headers['access-control-allow-origin'],
      headers['access-control-allow-credentials'],
      headers.vary,
    ];
    for (const host of ['shop.test', 'public.test']) await send(host, { name: someone() }, key);
    const differs = (host, origin) => send(host, { name: someone() }, { ...key, ...(origin && { origin }) });
    const allowed = await differs('shop.test', APP);
    assert.equal(allowed.status, 422);
    assert.deepEqual(readable(allowed), [APP, 'true', 'Origin']);
    assert.match(allowed.headers['access-control-expose-headers'], /Retry-After/);
    for (const origin of ['https://evil.test', undefined])
      assert.deepEqual(readable(await differs('shop.test', origin)), [undefined, undefined, undefined]);
    assert.deepEqual(readable(await differs('public.test', 'https://any.test')), ['*', undefined, undefined]);
  });
});

test('what a problem is called leads to a page, for whoever writes a client', async () => {
  for (const accept of ['*/*', 'application/json', 'text/html']) {
    const { status, headers, text } = await gate.send(
      'shop.test',
      '/.paid-once/problems/idempotency-key-missing',
      { headers: { accept, 'accept-language': 'de' } },
    );
    assert.deepEqual([status, headers['content-type']], [200, 'text/html; charset=utf-8']);
    assert.match(text, /<html lang="en">/);
    assert.match(text, /The Idempotency-Key header is missing/);
  }
  const unknown = await gate.send('shop.test', '/.paid-once/problems/nothing-of-the-kind');
  assert.equal(unknown.status, 404);
});

test('a person is told when a shop that is down may be asked again', async () => {
  const down = await gate.visitor('down.test').request('/checkout');
  assert.deepEqual([down.status, down.headers['retry-after']], [503, '1']);
});

describe('a person reads it in the language of their browser', () => {
  for (const [language, [missing, differs, see, again]] of Object.entries(LANGUAGES))
    test(language, async () => {
      const headers = { 'accept-language': `${language}-XX,${language};q=0.9,en;q=0.5` };
      const inLanguage = (answer, ...said) => {
        assert.equal(answer.headers['content-language'], language);
        assert.equal(answer.headers.vary, 'Accept-Language');
        for (const wanted of [new RegExp(`<html lang="${language}">`), ...said])
          assert.match(answer.text, wanted);
      };
      inLanguage(
        await gate.visitor('asks.test').post('/checkout', { name: someone() }, { headers }),
        missing,
      );
      const { visitor, key } = await atCheckout();
      await visitor.post('/checkout', { paid_once_key: key, name: someone() });
      const edited = { paid_once_key: key, name: someone() };
      inLanguage(await visitor.post('/checkout', edited, { headers }), differs, see, again);
    });

  test('English, where theirs is not spoken; a script reads English always', async () => {
    const visitor = gate.visitor('asks.test');
    const ask = (headers) => visitor.post('/checkout', { name: someone() }, { headers });
    assert.equal((await ask({ 'accept-language': 'nl' })).headers['content-language'], 'en');
    const script = await ask({ accept: '*/*', 'accept-language': 'de' });
    assert.equal(JSON.parse(script.text).title, 'One more click is needed');
  });
});

test('routes that one variable does not take stand in the next', async () => {
  const more = { origin: shop.origin, host: 'more.test', forms };
  await gate.deploy(HOSTS, { vars: { GATE_2: JSON.stringify({ routes: [more] }) } });
  assert.ok(await gate.visitor('more.test').key('/checkout'));
  assert.ok(await gate.visitor('shop.test').key('/checkout'));
});
