// An object's state as tables: what one would ask of it is asked in SQL. The state is one row of JSON, with the newest lines of the
// timeline beside it (crates/once-object/src/store.rs); here each key, call, job, payment and so on is a row of its own, in a database in memory.

import { DatabaseSync } from 'node:sqlite';

/** The rows of an object as they are stored: the state, and what was written down before that which stands beside it. */
export const SELECT_ROWS = 'SELECT id, state, lines, facts FROM timeline ORDER BY id';

/** The columns of each table. */
export const COLUMNS = {
  idempotency_keys: `key_id key_hash owner channel fingerprint parameters original_request created_at_ms attempt status recovery_point
    operation lease_holder lease_until_ms resume_at_ms last_run_at_ms failures response_status response_headers response_body
    finished_at_ms expires_at_ms replays`,
  foreign_calls: `call_id key_id name kind provider semantics derived_key request status settlement sends failures first_sent_at_ms
    last_sent_at_ms next_try_at_ms maybe_executed answer_is_stored look_up evidence`,
  audit_records: 'audit_id at_ms actor action subject data',
  staged_jobs: 'job_id kind payload staged_at_ms sends next_at_ms',
  timeline: 'key_id at_ms attempt event detail',
  key_bindings: 'key_hash owner fingerprint parameters object bound_at_ms',
  payments: `payment_id amount_minor captured_minor refunded_minor currency status provider provider_payment order_id details
    created_at_ms`,
  refunds: 'refund_id key_id amount_minor status details created_at_ms',
  projection: 'version audit_through audit_newest',
  webhook_events: 'event_id provider kind received_at_ms',
  order_links: 'revision content ended_through',
  tries: 'attempt provider provider_payment derived_key status details',
};

const json = (value) => (value === undefined || value === null ? null : JSON.stringify(value));
const parsed = (text) => (text === null ? undefined : JSON.parse(text));
const kept = (value) => (value === null ? undefined : value);

const ownerText = (owner) => Object.entries(owner)[0].join(':');
const ownerOf = (text) => {
  const [, kind, id] = /^(\w+):(.*)$/s.exec(text);
  return { [kind]: id };
};

/** The one variant of an enum, and what it holds. */
const variant = (value) => (typeof value === 'string' ? [value] : Object.entries(value)[0]);

const PAYMENT_STATUS = { authorizing: 'processing', authorized: 'requires_capture', captured: 'succeeded' };

function paymentStatus({ state: { state, declined }, dispute }) {
  if (state === 'captured' && ['open', 'lost'].includes(dispute?.status)) return 'disputed';
  if (state === 'failed' && declined) return 'declined';
  return PAYMENT_STATUS[state] ?? state;
}

const bodyOf = (body) => {
  const [kind, text] = variant(body);
  return Buffer.from(text, kind === 'text' ? 'utf8' : 'base64');
};

function keyRow(key) {
  const [status, life] = variant(key.lifecycle);
  const response = life.response;
  return {
    ...key,
    owner: ownerText(key.owner),
    status,
    recovery_point: life.recovery_point ?? 'finished',
    operation: json(life.operation),
    lease_holder: life.lease?.holder,
    lease_until_ms: life.lease?.until_ms,
    resume_at_ms: life.resume_at_ms,
    last_run_at_ms: life.last_run_at_ms,
    failures: life.failures,
    response_status: response?.status ?? life.status,
    response_headers: json(response?.headers),
    response_body: response && bodyOf(response.body),
    finished_at_ms: life.finished_at_ms,
    expires_at_ms: life.expires_at_ms,
  };
}

function lifecycleOf(row) {
  const { finished_at_ms, expires_at_ms } = row;
  if (row.status === 'expired') return { status: row.response_status, finished_at_ms, expires_at_ms };
  if (row.status === 'finished') {
    const body = { text: Buffer.from(row.response_body).toString() };
    const response = { status: row.response_status, headers: parsed(row.response_headers), body };
    return { response, finished_at_ms, expires_at_ms };
  }
  const { recovery_point, resume_at_ms, last_run_at_ms, failures } = row;
  const lease = row.lease_holder && { holder: row.lease_holder, until_ms: row.lease_until_ms };
  return {
    operation: parsed(row.operation),
    recovery_point,
    lease: kept(lease),
    resume_at_ms,
    last_run_at_ms,
    failures,
  };
}

const keyOf = (row) => ({
  key_id: row.key_id,
  key_hash: row.key_hash,
  owner: ownerOf(row.owner),
  channel: row.channel,
  fingerprint: row.fingerprint,
  parameters: kept(row.parameters),
  original_request: row.original_request,
  created_at_ms: row.created_at_ms,
  attempt: row.attempt,
  replays: row.replays,
  lifecycle: { [row.status]: lifecycleOf(row) },
});

function callRow(call) {
  const [status, settlement] = variant(call.state);
  const hasEvidence = call.evidence && Object.keys(call.evidence).length > 0;
  return {
    ...call,
    semantics: call.retry_policy,
    request: json(call.request),
    status,
    settlement: json(settlement),
    maybe_executed: Number(call.maybe_executed),
    answer_is_stored: Number(call.answer_is_stored),
    look_up: json(call.look_up),
    evidence: hasEvidence ? json(call.evidence) : null,
  };
}

const callOf = ({ semantics, status, settlement, ...row }) => ({
  ...row,
  retry_policy: semantics,
  request: parsed(row.request),
  state: status === 'settled' ? { settled: parsed(settlement) } : status,
  maybe_executed: row.maybe_executed === 1,
  answer_is_stored: row.answer_is_stored === 1,
  look_up: parsed(row.look_up) ?? null,
  evidence: parsed(row.evidence) ?? {},
});

const refundStatus = ({ state: { state } }) => (state === 'requested' ? 'pending' : state);

function paymentRow(payment, refunds) {
  const { state } = payment.state;
  const counted = refunds.filter((refund) => refundStatus(refund) !== 'failed');
  return {
    payment_id: payment.id,
    amount_minor: payment.amount,
    captured_minor: state === 'captured' ? payment.state.amount_minor : 0,
    refunded_minor: counted.reduce((sum, refund) => sum + refund.amount, 0),
    currency: payment.currency,
    status: paymentStatus(payment),
    provider: payment.provider,
    provider_payment: payment.provider_payment,
    order_id: payment.order_id,
    details: json(payment),
    created_at_ms: payment.created_at_ms,
  };
}

const refundRow = (refund) => ({
  refund_id: refund.id,
  key_id: refund.key_id,
  amount_minor: refund.amount,
  status: refundStatus(refund),
  details: json(refund),
  created_at_ms: refund.created_at_ms,
});

/** The rows as tables: for each its rows, oldest first. */
export function tablesOf(rows) {
  const { state } = JSON.parse(rows[0].state);
  const written = [...rows.slice(1), rows[0]];
  const facts = (name) => written.flatMap((row) => JSON.parse(row.facts ?? '{}')[name] ?? []);
  const { payment, refunds = [], tries = [], links, version, audit_through, audit_newest } = state.resource;
  const tables = {
    idempotency_keys: state.keys.map(keyRow),
    foreign_calls: (state.calls ?? []).map(callRow),
    audit_records: facts('audit').map((record) => ({ ...record, data: json(record.data) })),
    staged_jobs: (state.jobs ?? []).map((job) => ({ ...job, payload: json(job.payload) ?? 'null' })),
    timeline: written.flatMap((row) => JSON.parse(row.lines ?? '[]')),
    key_bindings: (state.bindings ?? []).map((bound) => ({ ...bound, owner: ownerText(bound.owner) })),
    payments: payment ? [paymentRow(payment, refunds)] : [],
    refunds: refunds.map(refundRow),
    projection: [{ version, audit_through, audit_newest }],
    webhook_events: facts('events'),
    order_links: links ? [links] : [],
    tries: tries.map((row) => ({ ...row, details: json(row) })),
  };
  const columns = (name) => COLUMNS[name].split(/\s+/);
  const cut = (name, row) => Object.fromEntries(columns(name).map((column) => [column, row[column] ?? null]));
  return Object.fromEntries(
    Object.entries(tables).map(([name, all]) => [name, all.map((row) => cut(name, row))]),
  );
}

/** The rows that those tables stand for; `before` are the ones that they were made of. */
export function rowsOf(tables, before) {
  const { version, state } = JSON.parse(before[0].state);
  const details = (name) => tables[name].map((row) => JSON.parse(row.details));
  const [projection] = tables.projection;
  const audit = tables.audit_records.map((record, at) => ({
    ...record,
    audit_id: record.audit_id ?? at + 1,
    data: JSON.parse(record.data),
  }));
  const resource = {
    ...state.resource,
    payment: details('payments')[0],
    refunds: details('refunds'),
    tries: details('tries'),
    links: tables.order_links[0],
    ...projection,
    audit_newest: Math.max(projection.audit_newest, ...audit.map(({ audit_id }) => audit_id)),
  };
  const now = {
    ...state,
    keys: tables.idempotency_keys.map(keyOf),
    bindings: tables.key_bindings.map((bound) => ({
      ...bound,
      owner: ownerOf(bound.owner),
      parameters: kept(bound.parameters),
    })),
    resource,
    calls: tables.foreign_calls.map(callOf),
    jobs: tables.staged_jobs.map((job) => ({ ...job, payload: JSON.parse(job.payload) })),
  };
  const lines = tables.timeline;
  const rows = [
    { id: 0, state: JSON.stringify({ version, lines: lines.length, state: now }), lines: null, facts: null },
  ];
  const add = (lines, facts) =>
    rows.push({ id: rows.length, state: null, lines: json(lines), facts: json(facts) });
  if (lines.length + audit.length > 0) add(lines, audit.length > 0 ? { audit } : null);
  for (const event of tables.webhook_events) add(null, { events: [event] });
  return rows;
}

function databaseOf(tables) {
  const database = new DatabaseSync(':memory:');
  for (const [name, rows] of Object.entries(tables)) {
    const columns = COLUMNS[name].split(/\s+/);
    database.exec(`CREATE TABLE ${name} (${columns.join(', ')})`);
    const insert = database.prepare(`INSERT INTO ${name} VALUES (${columns.map(() => '?').join(',')})`);
    for (const row of rows) insert.run(...columns.map((column) => row[column]));
  }
  return database;
}

/**
 * Runs a statement on the rows of an object as tables. Gives the rows that it returns, and what is to be stored instead of `rows` if
 * it has changed something.
 */
export function query(rows, statement, ...bindings) {
  const tables = tablesOf(rows);
  const database = databaseOf(tables);
  try {
    const found = database.prepare(statement).all(...bindings);
    const { changed } = database.prepare('SELECT total_changes() AS changed').get();
    const inserted = Object.values(tables).reduce((sum, all) => sum + all.length, 0);
    if (changed === inserted) return { found };
    const all = (name) => database.prepare(`SELECT * FROM ${name} ORDER BY rowid`).all();
    const now = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, all(name)]));
    return { found, instead: rowsOf(now, rows) };
  } finally {
    database.close();
  }
}
