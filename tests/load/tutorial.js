// The load script as tutorials on idempotency keys have it, for k6, against `npm run lab`: k6 run tests/load/tutorial.js. It knows nothing of
// this product but the convention that the lab is set to (docs/lab.md). `npm test -- lab` plays it without k6.

import { check, sleep } from 'k6';
import http from 'k6/http';

const URL = __ENV.URL || 'http://localhost:8000';

export const options = {
  vus: 10,
  duration: __ENV.DURATION || '10s',
  thresholds: { checks: ['rate==1'] },
};

export default function () {
  const key = `tutorial-${__VU}-${__ITER}-${Math.random().toString(36).slice(2)}`;
  const params = { headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key } };
  const pay = (amount) => http.post(`${URL}/payments`, JSON.stringify({ amount }), params);

  const first = pay(100);
  check(first, {
    'the payment is made': (answer) => answer.status === 200,
    'it is not from the cache': (answer) => answer.json('cached') === false,
    'the key comes back in the body': (answer) => answer.json('idempotency_key') === key,
    'the key comes back in the header': (answer) => answer.headers['Idempotency-Key'] === key,
  });

  const retry = pay(100);
  check(retry, {
    'a retry has the same status': (answer) => answer.status === first.status,
    'a retry has the same id': (answer) => answer.json('id') === first.json('id'),
    'a retry is from the cache': (answer) => answer.json('cached') === true,
  });

  check(pay(200), {
    'another amount is a conflict': (answer) => answer.status === 409,
    'which says what is wrong': (answer) => typeof answer.json('error') === 'string',
  });
  sleep(0.1);
}
