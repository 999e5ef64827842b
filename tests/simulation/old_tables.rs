//! The tables in which releases before the state was one row kept an object, by version.

/// One list of statements for each version.
pub(crate) const MIGRATIONS: [&[&str]; 8] =
    [RIDES, PAYMENTS, OUTBOX, RETENTION, REPLAYS, EVIDENCE, ORDER_LINKS, TRIES];

const RIDES: &[&str] = &[
    // One row a key. The key itself is not kept, only its hash.
    "CREATE TABLE idempotency_keys (
        key_id INTEGER PRIMARY KEY,
        key_hash TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        channel TEXT NOT NULL CHECK (channel IN ('api', 'form')),
        fingerprint TEXT NOT NULL,
        parameters TEXT,
        original_request TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL,
        attempt INTEGER NOT NULL CHECK (attempt >= 1),
        status TEXT NOT NULL CHECK (status IN ('open', 'finished', 'expired')),
        recovery_point TEXT NOT NULL,
        operation TEXT CHECK ((operation IS NOT NULL) = (status = 'open')),
        lease_holder TEXT,
        lease_until_ms INTEGER,
        resume_at_ms INTEGER,
        last_run_at_ms INTEGER,
        failures INTEGER,
        response_status INTEGER CHECK ((response_status IS NULL) = (status = 'open')),
        response_headers TEXT,
        response_body BLOB CHECK (length(response_body) <= 1048576),
        finished_at_ms INTEGER,
        expires_at_ms INTEGER
    ) STRICT",
    // At most one row: the ride that the object's key books.
    "CREATE TABLE rides (
        ride_id TEXT PRIMARY KEY,
        origin_lat_e7 INTEGER NOT NULL,
        origin_lon_e7 INTEGER NOT NULL,
        target_lat_e7 INTEGER NOT NULL,
        target_lon_e7 INTEGER NOT NULL,
        amount_minor INTEGER NOT NULL CHECK (amount_minor > 0),
        state TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL
    ) STRICT",
    // Foreign calls, written before they are sent.
    "CREATE TABLE foreign_calls (
        call_id INTEGER PRIMARY KEY,
        key_id INTEGER NOT NULL REFERENCES idempotency_keys (key_id),
        name TEXT NOT NULL,
        provider TEXT NOT NULL,
        semantics TEXT NOT NULL,
        derived_key TEXT NOT NULL UNIQUE,
        request TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('frozen', 'in_flight', 'unknown', 'settled')),
        settlement TEXT CHECK ((settlement IS NOT NULL) = (status = 'settled')),
        sends INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        first_sent_at_ms INTEGER,
        last_sent_at_ms INTEGER,
        next_try_at_ms INTEGER NOT NULL,
        maybe_executed INTEGER NOT NULL CHECK (maybe_executed IN (0, 1)),
        answer_is_stored INTEGER NOT NULL CHECK (answer_is_stored IN (0, 1)),
        look_up TEXT,
        UNIQUE (key_id, name)
    ) STRICT",
    "CREATE TABLE audit_records (
        audit_id INTEGER PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        data TEXT NOT NULL
    ) STRICT",
    "CREATE TABLE staged_jobs (
        job_id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        payload TEXT NOT NULL,
        staged_at_ms INTEGER NOT NULL
    ) STRICT",
    "CREATE TABLE timeline (
        entry_id INTEGER PRIMARY KEY,
        key_id INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        event TEXT NOT NULL,
        detail TEXT NOT NULL
    ) STRICT",
];

const PAYMENTS: &[&str] = &[
    // Keys whose operation runs in another object. They stay for good.
    "CREATE TABLE key_bindings (
        key_hash TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        parameters TEXT,
        object TEXT NOT NULL,
        bound_at_ms INTEGER NOT NULL
    ) STRICT",
    // At most one row: the payment that lives in the object. What is not a column of its own is in `details`.
    "CREATE TABLE payments (
        payment_id TEXT PRIMARY KEY,
        amount_minor INTEGER NOT NULL CHECK (amount_minor > 0),
        captured_minor INTEGER NOT NULL CHECK (captured_minor BETWEEN 0 AND amount_minor),
        refunded_minor INTEGER NOT NULL CHECK (refunded_minor BETWEEN 0 AND captured_minor),
        currency TEXT NOT NULL,
        status TEXT NOT NULL,
        provider TEXT NOT NULL,
        provider_payment TEXT,
        order_id TEXT,
        details TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL
    ) STRICT",
    "CREATE TABLE refunds (
        refund_id TEXT PRIMARY KEY,
        key_id INTEGER NOT NULL UNIQUE REFERENCES idempotency_keys (key_id),
        amount_minor INTEGER NOT NULL CHECK (amount_minor > 0),
        status TEXT NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
        details TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL
    ) STRICT",
    "ALTER TABLE foreign_calls ADD COLUMN kind TEXT NOT NULL DEFAULT 'charge'",
];

const OUTBOX: &[&str] = &[
    "ALTER TABLE staged_jobs ADD COLUMN sends INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE staged_jobs ADD COLUMN next_at_ms INTEGER NOT NULL DEFAULT 0",
    // One row: which change the read model must have, and how much of the audit it has.
    "CREATE TABLE projection (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        version INTEGER NOT NULL,
        audit_through INTEGER NOT NULL
    ) STRICT",
    // What the providers have told us: each event is taken in once. Its key is the provider and its id there (`event_key` in store.rs).
    "CREATE TABLE webhook_events (
        event_id TEXT PRIMARY KEY,
        provider TEXT NOT NULL,
        kind TEXT NOT NULL,
        received_at_ms INTEGER NOT NULL
    ) STRICT",
];

const RETENTION: &[&str] = &["ALTER TABLE rides ADD COLUMN erased_at_ms INTEGER"];

// Those of before were not counted.
const REPLAYS: &[&str] = &["ALTER TABLE idempotency_keys ADD COLUMN replays INTEGER NOT NULL DEFAULT 0"];

// What is known of an unsettled call beyond its state: the provider's id of what it made, why a person must look.
const EVIDENCE: &[&str] = &["ALTER TABLE foreign_calls ADD COLUMN evidence TEXT"];
// At most one row: the newest link to the order that is paid here.
const ORDER_LINKS: &[&str] = &["CREATE TABLE order_links (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        revision INTEGER NOT NULL CHECK (revision >= 0),
        content TEXT NOT NULL,
        ended_through INTEGER CHECK (ended_through <= revision)
    ) STRICT"];
// One row a try of the payment. What is not a column of its own is in `details`.
const TRIES: &[&str] = &["CREATE TABLE tries (
        attempt INTEGER PRIMARY KEY,
        provider TEXT NOT NULL,
        provider_payment TEXT,
        derived_key TEXT NOT NULL,
        status TEXT NOT NULL,
        details TEXT NOT NULL
    ) STRICT"];

/// Where the version stands.
pub(crate) const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_version (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL) STRICT";
