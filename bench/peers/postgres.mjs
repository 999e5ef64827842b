// A peer on one box: the design of rocket-rides-atomic (https://github.com/brandur/rocket-rides-atomic, described in
// https://brandur.org/idempotency-keys), on fastify and Postgres. Atomic phases in serializable transactions, recovery points between
// them, the provider is asked under the key's own id, and the receipt is staged with the answer. Each commit is synced to the disk.
//
// What it does not promise: nobody comes back by itself (the article leaves that to a completer beside it), and an outcome that is
// not known is an error until the client asks again. The box is the only one.
import { createHash } from 'node:crypto';

import Fastify from 'fastify';
import pg from 'pg';

import { take } from './payment.mjs';

const { PROVIDER, POSTGRES_SOCKET, STRIPE_SECRET_KEY: secret } = process.env;
const LOCK_MS = 90_000;
const pool = new pg.Pool({ host: POSTGRES_SOCKET, user: 'postgres', database: 'postgres', max: 32 });

await pool.query(`
  CREATE TABLE IF NOT EXISTS idempotency_keys (
    id BIGSERIAL PRIMARY KEY, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), idempotency_key TEXT NOT NULL,
    last_run_at TIMESTAMPTZ NOT NULL DEFAULT now(), locked_at TIMESTAMPTZ DEFAULT now(), request_hash TEXT NOT NULL,
    recovery_point TEXT NOT NULL, response_code INT, response_body TEXT, user_id BIGINT NOT NULL,
    UNIQUE (user_id, idempotency_key));
  CREATE TABLE IF NOT EXISTS payments (
    id TEXT PRIMARY KEY, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), idempotency_key_id BIGINT UNIQUE REFERENCES idempotency_keys,
    amount INT NOT NULL, currency TEXT NOT NULL, provider_payment TEXT);
  CREATE TABLE IF NOT EXISTS audit_records (
    id BIGSERIAL PRIMARY KEY, action TEXT NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), data JSONB NOT NULL,
    resource_id TEXT NOT NULL, user_id BIGINT NOT NULL);
  CREATE TABLE IF NOT EXISTS staged_jobs (
    id BIGSERIAL PRIMARY KEY, job_name TEXT NOT NULL, job_args JSONB NOT NULL);
`);

const USER = 1;
/** Two transactions that did not see each other, or that made the same key: the later one begins anew. */
const AGAIN = new Set(['40001', '23505']);

/** A phase: one serializable transaction. */
async function atomic(work) {
  for (;;) {
    const client = await pool.connect();
    try {
      await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE');
      const result = await work((text, ...values) => client.query({ name: nameOf(text), text, values }));
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await client.query('ROLLBACK');
      if (!AGAIN.has(error.code)) throw error;
    } finally {
      client.release();
    }
  }
}

/** Statements are prepared once a connection. */
const nameOf = (text) => (names[text] ??= `s${Object.keys(names).length}`);
const names = {};

/** The key's row, locked for this run; or its answer, or why not. */
const begin = (key, hash) =>
  atomic(async (sql) => {
    const { rows } = await sql(
      'SELECT * FROM idempotency_keys WHERE user_id = $1 AND idempotency_key = $2',
      USER,
      key,
    );
    const [found] = rows;
    if (!found) {
      const made = await sql(
        `INSERT INTO idempotency_keys (idempotency_key, request_hash, recovery_point, user_id)
         VALUES ($1, $2, 'started', $3) RETURNING *`,
        ...[key, hash, USER],
      );
      return made.rows[0];
    }
    if (found.request_hash !== hash) return { refused: 409 };
    if (found.recovery_point === 'finished') return found;
    if (found.locked_at && Date.now() - found.locked_at < LOCK_MS) return { refused: 409 };
    await sql('UPDATE idempotency_keys SET last_run_at = now(), locked_at = now() WHERE id = $1', found.id);
    return found;
  });

const paymentOf = ({ id }) => `pay_${id}`;

const create = ({ id }, { amount, currency }) =>
  atomic(async (sql) => {
    const payment = paymentOf({ id });
    const values = [payment, id, amount, currency];
    await sql(
      'INSERT INTO payments (id, idempotency_key_id, amount, currency) VALUES ($1, $2, $3, $4)',
      ...values,
    );
    await sql(
      `INSERT INTO audit_records (action, data, resource_id, user_id) VALUES ('payment.created', $1, $2, $3)`,
      ...[JSON.stringify({ amount, currency }), payment, USER],
    );
    await sql("UPDATE idempotency_keys SET recovery_point = 'payment_created' WHERE id = $1", id);
  });

const charge = async ({ id }, asked) => {
  const way = { base: PROVIDER, secret, id: paymentOf({ id }) };
  const taken = await take(asked, `rocket-rides-atomic-${id}`, way);
  return atomic(async (sql) => {
    await sql(
      'UPDATE payments SET provider_payment = $1 WHERE idempotency_key_id = $2',
      taken.provider_payment,
      id,
    );
    await sql("UPDATE idempotency_keys SET recovery_point = 'charge_created' WHERE id = $1", id);
    return taken;
  });
};

const finish = ({ id }, payment) =>
  atomic(async (sql) => {
    const body = JSON.stringify(payment);
    await sql("INSERT INTO staged_jobs (job_name, job_args) VALUES ('send_receipt', $1)", body);
    await sql(
      `UPDATE idempotency_keys SET recovery_point = 'finished', locked_at = NULL, response_code = 201, response_body = $1
       WHERE id = $2`,
      ...[body, id],
    );
    return body;
  });

const app = Fastify();
app.post('/payments', async (request, reply) => {
  const hash = createHash('sha256').update(JSON.stringify(request.body)).digest('hex');
  const key = await begin(request.headers['idempotency-key'], hash);
  reply.type('application/json');
  if (key.refused) return reply.code(key.refused).send('{}');
  if (key.recovery_point === 'finished')
    return reply.code(key.response_code).header('idempotent-replayed', 'true').send(key.response_body);
  if (key.recovery_point === 'started') await create(key, request.body);
  return reply.code(201).send(await finish(key, await charge(key, request.body)));
});

await app.listen({ host: '127.0.0.1', port: 0 });
process.send({ port: app.server.address().port });
