// POST /rides by an API client: what is booked, what is replayed, and every refusal.

import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';

import { DECLINED_USER, TRIP, account, freshKey, read } from './support/account.mjs';
import { shareSite } from './support/harness.mjs';
import { ridesOf } from './support/rides.mjs';

const site = ridesOf(await shareSite());
const user = account(site);
after(() => site.close());
afterEach(() => site.simulator.calm());

/** What a refusal must be: problem details that speak of this very request. */
function assertProblem(answer, status, slug) {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.header('content-type'), 'application/problem+json');
  const problem = answer.json();
  assert.equal(problem.type, `/problems/${slug}`);
  assert.equal(problem.status, status);
  assert.equal(problem.instance, answer.header('request-id'));
  assert.ok(problem.title && problem.detail);
  return problem;
}

describe('a new key', () => {
  test('books the ride, charges it once and says where it stands', async () => {
    const answer = await user.book(freshKey());
    assert.equal(answer.status, 201);
    assert.equal(answer.header('content-type'), 'application/json');
    assert.equal(answer.header('location'), `/rides/${answer.ride}`);
    assert.equal(answer.header('cache-control'), 'private, no-store');
    const { message, ride } = answer.json();
    assert.equal(message, 'Payment accepted. Your pilot is on their way!');
    const [charge, ...more] = await site.rides.charges(answer.ride);
    assert.deepEqual(more, []);
    assert.deepEqual([charge.status, charge.amount, charge.currency], ['succeeded', 2000, 'usd']);
    const { created_at: createdAt, ...rest } = ride;
    assert.ok(Math.abs(Date.parse(createdAt) - Date.now()) < 60_000);
    assert.deepEqual(rest, {
      id: answer.ride,
      object: 'ride',
      status: 'paid',
      amount: 2000,
      currency: 'usd',
      origin: { lat: 37.7749, lon: -122.4194 },
      target: { lat: 28.5721, lon: -80.648 },
      charge: charge.payment_intent,
    });
  });

  test('is not marked as replayed, and names itself as the original request', async () => {
    const answer = await user.book(freshKey());
    assert.equal(answer.header('idempotent-replayed'), null);
    assert.match(
      answer.header('request-id'),
      /^req_[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/,
    );
    assert.equal(answer.header('original-request'), answer.header('request-id'));
  });

  test('works with a form body too', async () => {
    const answer = await user.bookByForm(freshKey());
    assert.equal(answer.status, 201);
    assert.deepEqual(answer.json().ride.origin, { lat: 37.7749, lon: -122.4194 });
  });

  test('takes coordinates as JSON strings, and the outermost ones', async () => {
    const trip = { origin_lat: '-90', origin_lon: '180', target_lat: '90.0', target_lon: -180 };
    const answer = await user.book(freshKey(), trip);
    assert.equal(answer.status, 201);
    assert.deepEqual(answer.json().ride.origin, { lat: -90, lon: 180 });
    assert.deepEqual(answer.json().ride.target, { lat: 90, lon: -180 });
  });
});

describe('a used key', () => {
  test('replays status, kept headers and body byte for byte, and charges nothing', async () => {
    const key = freshKey();
    const first = await user.book(key);
    for (const again of [await user.book(key), await user.book(key)]) {
      assert.equal(again.status, first.status);
      assert.deepEqual(again.bytes, first.bytes);
      for (const name of ['content-type', 'location', 'cache-control'])
        assert.equal(again.header(name), first.header(name), name);
      assert.equal(again.header('idempotent-replayed'), 'true');
      assert.equal(again.header('original-request'), first.header('request-id'));
      assert.notEqual(again.header('request-id'), first.header('request-id'));
    }
    assert.equal((await site.rides.sends(first.ride)).length, 1);
    assert.equal(await site.rides.paid(first.ride), 1);
  });

  test('replays after its object was thrown out of memory', async () => {
    const key = freshKey();
    const first = await user.book(key);
    await site.rides.evict(first.ride);
    const again = await user.book(key);
    assert.deepEqual([again.status, again.text], [first.status, first.text]);
    assert.equal(again.header('idempotent-replayed'), 'true');
    assert.equal((await site.rides.sends(first.ride)).length, 1);
  });

  test('another key is another ride', async () => {
    const [one, other] = [await user.book(freshKey()), await user.book(freshKey())];
    assert.notEqual(one.ride, other.ride);
    assert.equal(other.header('idempotent-replayed'), null);
    assert.equal(await site.rides.paid(other.ride), 1);
  });
});

describe('a declined card', () => {
  const declined = account(site, DECLINED_USER);

  test('is a 402 that says why, and charges nothing', async () => {
    const answer = await declined.book(freshKey());
    assert.equal(answer.status, 402);
    assert.equal(answer.header('content-type'), 'application/problem+json');
    assert.equal(answer.header('location'), `/rides/${answer.ride}`);
    const problem = answer.json();
    assert.equal(problem.type, '/problems/payment-failed');
    assert.equal(problem.status, 402);
    assert.equal(problem.code, 'card_declined');
    assert.equal(problem.decline_code, 'generic_decline');
    assert.equal(problem.instance, `/rides/${answer.ride}`);
    assert.equal(problem.ride.status, 'unpaid');
    assert.equal(await site.rides.paid(answer.ride), 0);
  });

  test('is stored and replayed like any result: the card is asked once', async () => {
    const key = freshKey();
    const first = await declined.book(key);
    const again = await declined.book(key);
    assert.equal(again.status, 402);
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(again.header('content-type'), 'application/problem+json');
    assert.equal(again.header('idempotent-replayed'), 'true');
    assert.equal((await site.rides.sends(first.ride)).length, 1);
  });

  test('cannot be replaced by a card of the request', async () => {
    const key = freshKey();
    const first = await declined.book(key);
    const other = await declined.book(key, { ...TRIP, payment_method: 'pm_card_visa' });
    const problem = assertProblem(other, 422, 'invalid-parameters');
    assert.deepEqual(
      problem.errors.map((error) => error.field),
      ['payment_method'],
    );
    assert.equal(await site.rides.paid(first.ride), 0);
  });
});

describe('the key', () => {
  test('is the same in quotes and bare', async () => {
    const key = freshKey();
    const first = await user.book(`"${key}"`);
    const again = await user.book(key);
    assert.equal(first.status, 201);
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(again.header('idempotent-replayed'), 'true');
  });

  test('may have escaped quotes and backslashes inside its quotes', async () => {
    const tail = freshKey();
    const first = await user.book(`"a\\"b\\\\${tail}"`);
    const again = await user.book(`a"b\\${tail}`);
    assert.equal(first.status, 201);
    assert.equal(again.header('original-request'), first.header('request-id'));
  });

  test('may stand in the body instead, or in both places if they agree', async () => {
    const key = freshKey();
    const first = await user.book(undefined, { ...TRIP, idempotency_key: key });
    assert.equal(first.status, 201);
    const again = await user.book(key, { ...TRIP, idempotency_key: key });
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(again.header('idempotent-replayed'), 'true');
  });

  test('in the header must not differ from the one in the body', () =>
    site.withoutEffect(async () => {
      const answer = await user.book(freshKey(), { ...TRIP, idempotency_key: freshKey() });
      assert.match(assertProblem(answer, 400, 'idempotency-key-invalid').detail, /two different/i);
      const form = await user.bookByForm(freshKey(), { ...TRIP, idempotency_key: freshKey() });
      assertProblem(form, 400, 'idempotency-key-invalid');
    }));

  test('must not come in two different header lines; the same line twice is one key', async () => {
    const key = freshKey();
    const twice = async (one, other) => {
      const headers = [
        ['authorization', 'Bearer user@example.com'],
        ['content-type', 'application/json'],
        ['idempotency-key', one],
        ['idempotency-key', other],
      ];
      return read(await site.fetch('/rides', { method: 'POST', headers, body: JSON.stringify(TRIP) }));
    };
    await site.withoutEffect(async () =>
      assertProblem(await twice(key, freshKey()), 400, 'idempotency-key-invalid'),
    );
    assert.equal((await twice(key, key)).status, 201);
    assert.equal((await user.book(key)).header('idempotent-replayed'), 'true');
  });

  const invalid = {
    'longer than 255 characters': 'k'.repeat(256),
    'longer than 255 characters in quotes': `"${'k'.repeat(256)}"`,
    'with a space': 'two words',
    'with a tab in quotes': '"a\tb"',
    'with a letter that is not ASCII': 'clé',
    'empty in quotes': '""',
    'with a quote that is not closed': '"abc',
    'with something after its quotes': '"abc"def',
  };
  for (const [what, key] of Object.entries(invalid)) {
    test(`${what} is refused`, () =>
      site.withoutEffect(async () => assertProblem(await user.book(key), 400, 'idempotency-key-invalid')));
  }

  test('of 255 characters is accepted', async () => {
    const key = freshKey().padEnd(255, '~');
    assert.equal((await user.book(key)).status, 201);
    assert.equal((await user.book(key)).header('idempotent-replayed'), 'true');
  });

  test('must be there', () =>
    site.withoutEffect(async () => {
      assertProblem(await user.book(undefined), 400, 'idempotency-key-missing');
      assertProblem(await user.bookByForm(undefined), 400, 'idempotency-key-missing');
    }));
});

describe('authentication', () => {
  const post = async (headers) => {
    const all = { 'content-type': 'application/json', 'idempotency-key': freshKey(), ...headers };
    return read(await site.fetch('/rides', { method: 'POST', headers: all, body: JSON.stringify(TRIP) }));
  };
  const refused = {
    'without credentials': {},
    'with a token that no account has': { authorization: 'Bearer nobody@example.com' },
    'with another scheme': { authorization: 'Basic dXNlckBleGFtcGxlLmNvbTo=' },
    'with an empty token': { authorization: 'Bearer ' },
  };
  for (const [what, headers] of Object.entries(refused)) {
    test(`${what} is a 401`, () =>
      site.withoutEffect(async () => {
        const answer = await post(headers);
        assertProblem(answer, 401, 'unauthorized');
        assert.match(answer.header('www-authenticate'), /^Bearer realm="paid-once"/);
      }));
  }

  test("takes the article's bare address in the demo", async () => {
    assert.equal((await post({ authorization: 'user@example.com' })).status, 201);
    assert.equal((await post({ authorization: 'user-bad-source@example.com' })).status, 402);
  });

  test('comes before the key, the key before the parameters', () =>
    site.withoutEffect(async () => {
      const headers = { 'content-type': 'application/json' };
      const anonymous = await site.fetch('/rides', { method: 'POST', headers, body: '{' });
      assertProblem(await read(anonymous), 401, 'unauthorized');
      assertProblem(await user.book(undefined, {}), 400, 'idempotency-key-missing');
      const text = await user.book(undefined, 'hello', { 'content-type': 'text/plain' });
      assertProblem(text, 400, 'idempotency-key-missing');
    }));
});

describe('the body', () => {
  test('of more than 65,536 bytes is a 413; of just as many it is read', async () => {
    const json = JSON.stringify(TRIP);
    await site.withoutEffect(async () => {
      assertProblem(await user.book(freshKey(), json.padEnd(65_537)), 413, 'content-too-large');
      assertProblem(await user.book(freshKey(), json.padEnd(1_000_000)), 413, 'content-too-large');
    });
    assert.equal((await user.book(freshKey(), json.padEnd(65_536))).status, 201);
  });

  test('has nothing in its address', () =>
    site.withoutEffect(async () => {
      const answer = await user.post('/rides?raise_error=x', TRIP, freshKey());
      const { errors } = assertProblem(answer, 422, 'invalid-parameters');
      assert.deepEqual(
        errors.map(({ field }) => field),
        ['raise_error'],
      );
    }));

  test('of another media type is a 415', () =>
    site.withoutEffect(async () => {
      for (const type of ['text/plain', 'application/xml', 'multipart/form-data; boundary=x'])
        assertProblem(
          await user.book(freshKey(), JSON.stringify(TRIP), { 'content-type': type }),
          415,
          'unsupported-media-type',
        );
    }));

  test('that is not the JSON of an object is a 400', () =>
    site.withoutEffect(async () => {
      for (const body of ['{', ' ', '[1]', '"text"', '{"origin_lat":1,}'])
        assertProblem(await user.book(freshKey(), body), 400, 'bad-request');
    }));

  test('may name a charset', async () => {
    const headers = { 'content-type': 'Application/JSON; charset=utf-8' };
    assert.equal((await user.book(freshKey(), TRIP, headers)).status, 201);
  });
});

describe('the parameters', () => {
  const all = Object.keys(TRIP);
  const namedBy = (problem) => problem.errors.map((error) => error.field).sort();
  const cases = [
    ['are all missing', {}, all],
    ['miss one', { ...TRIP, target_lat: undefined }, ['target_lat']],
    ['are null', { ...TRIP, origin_lat: null }, ['origin_lat']],
    [
      'lie outside their range',
      { ...TRIP, origin_lat: 90.1, target_lon: -180.1 },
      ['origin_lat', 'target_lon'],
    ],
    ['are no numbers', { ...TRIP, origin_lat: 'north', target_lat: 'NaN' }, ['origin_lat', 'target_lat']],
    ['are lists and objects', { ...TRIP, origin_lat: [1], target_lon: {} }, ['origin_lat', 'target_lon']],
    ['are unknown', { ...TRIP, orgin_lat: 1, tip: 5 }, ['orgin_lat', 'tip']],
    ['are unknown and missing at once', { ...TRIP, origin_lat: undefined, lat: 1 }, ['lat', 'origin_lat']],
  ];
  for (const [what, trip, fields] of cases) {
    test(`${what}: a 422 names them`, () =>
      site.withoutEffect(async () => {
        const problem = assertProblem(await user.book(freshKey(), trip), 422, 'invalid-parameters');
        assert.deepEqual(namedBy(problem), [...fields].sort());
        for (const error of problem.errors) assert.ok(error.message);
      }));
  }

  test('of a form that are left empty are named', () =>
    site.withoutEffect(async () => {
      const form = { ...TRIP, origin_lat: '', target_lon: '' };
      const problem = assertProblem(await user.bookByForm(freshKey(), form), 422, 'invalid-parameters');
      assert.deepEqual(namedBy(problem), ['origin_lat', 'target_lon']);
    }));

  test('that were refused leave the key free', async () => {
    const key = freshKey();
    assert.equal((await user.book(key, { ...TRIP, origin_lat: 'x' })).status, 422);
    const answer = await user.book(key);
    assert.equal(answer.status, 201);
    assert.equal(answer.header('idempotent-replayed'), null);
  });

  test('a POST without any body misses all of them', async () => {
    const headers = { 'idempotency-key': freshKey() };
    const answer = await user.ask('/rides', { method: 'POST', headers });
    assert.deepEqual(namedBy(assertProblem(answer, 422, 'invalid-parameters')), [...all].sort());
  });
});
