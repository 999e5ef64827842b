-- The read model: what lists, the operator's desk and the sweeps read. It follows the objects, which are the truth: each row
-- carries its object's version, and no message moves it backward. Nothing here decides about money.
-- Times are in ms since the epoch, amounts in minor units of the currency.

CREATE TABLE payments (
    payment_id TEXT PRIMARY KEY,
    object TEXT NOT NULL,
    version INTEGER NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    amount_minor INTEGER NOT NULL,
    captured_minor INTEGER NOT NULL,
    refunded_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    provider TEXT NOT NULL,
    provider_payment TEXT,
    order_id TEXT,
    failure_code TEXT,
    attempt INTEGER NOT NULL,
    -- As the API shows it, for GET /payments.
    shown TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX payments_by_owner ON payments (owner, created_at_ms DESC, payment_id DESC);
CREATE INDEX payments_by_time ON payments (created_at_ms);
CREATE INDEX payments_by_provider_payment ON payments (provider_payment);

CREATE TABLE refunds (
    refund_id TEXT PRIMARY KEY,
    payment_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    reason TEXT NOT NULL,
    provider TEXT NOT NULL,
    provider_refund TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX refunds_by_payment ON refunds (payment_id);
CREATE INDEX refunds_by_time ON refunds (created_at_ms);

CREATE TABLE rides (
    ride_id TEXT PRIMARY KEY,
    object TEXT NOT NULL,
    version INTEGER NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    provider_payment TEXT,
    failure_code TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX rides_by_time ON rides (created_at_ms);
CREATE INDEX rides_by_provider_payment ON rides (provider_payment);

-- One row a key; the key itself is nowhere, only its hash.
CREATE TABLE keys (
    object TEXT NOT NULL,
    key_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    key_hash TEXT NOT NULL,
    owner TEXT NOT NULL,
    operation TEXT,
    status TEXT NOT NULL,
    recovery_point TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    -- Money may have moved, and nobody knows yet.
    in_doubt INTEGER NOT NULL,
    -- A person must look.
    flagged INTEGER NOT NULL,
    response_status INTEGER,
    -- When the object's alarm takes it up: long past means that the alarm was lost.
    wake_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    finished_at_ms INTEGER,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (object, key_id)
) STRICT;
CREATE INDEX keys_by_hash ON keys (key_hash);
CREATE INDEX keys_by_time ON keys (created_at_ms);
CREATE INDEX keys_open ON keys (wake_at_ms) WHERE status = 'open';

CREATE TABLE audit_records (
    object TEXT NOT NULL,
    audit_id INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (object, audit_id)
) STRICT;
CREATE INDEX audit_by_subject ON audit_records (subject);
CREATE INDEX audit_by_time ON audit_records (at_ms);

-- What became of each job; a dead one keeps its payload, so that a person can requeue it.
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    object TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('tried', 'attempted', 'done', 'dead', 'purged')),
    attempts INTEGER NOT NULL,
    -- What was staged, until it is done.
    payload TEXT,
    -- What is sent: frozen with the first try, until it is done.
    frozen TEXT,
    first_at_ms INTEGER NOT NULL,
    -- JSON: [{"at_ms", "error"}], the newest last.
    history TEXT NOT NULL,
    result TEXT,
    staged_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_dead ON jobs (updated_at_ms) WHERE state = 'dead';
CREATE INDEX jobs_by_time ON jobs (updated_at_ms);
CREATE INDEX jobs_by_object ON jobs (object);

-- Where the provider's books and ours differ.
CREATE TABLE breaks (
    break_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    provider TEXT NOT NULL,
    provider_payment TEXT,
    resource TEXT,
    object TEXT,
    ours TEXT,
    theirs TEXT,
    state TEXT NOT NULL CHECK (state IN ('open', 'repaired', 'resolved', 'accepted')),
    note TEXT,
    first_seen_at_ms INTEGER NOT NULL,
    last_seen_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX breaks_open ON breaks (last_seen_at_ms) WHERE state = 'open';

-- Each run of a scheduled task: sweep, reconcile, settle.
CREATE TABLE runs (
    run_id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    took_ms INTEGER NOT NULL,
    result TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_task ON runs (task, at_ms DESC);

-- What an operator did.
CREATE TABLE operator_actions (
    action_id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    operator TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL
) STRICT;
CREATE INDEX operator_actions_by_time ON operator_actions (at_ms);
CREATE INDEX operator_actions_by_subject ON operator_actions (subject);

-- Settlement files that were written to R2, and the bank's answers line by line.
CREATE TABLE settlement_files (
    name TEXT PRIMARY KEY,
    day TEXT NOT NULL,
    lines INTEGER NOT NULL,
    captured_minor TEXT NOT NULL,
    refunded_minor TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    written_at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE settlement_answers (
    line_id TEXT PRIMARY KEY,
    file TEXT NOT NULL,
    line_number INTEGER NOT NULL,
    reference TEXT NOT NULL,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    outcome TEXT NOT NULL,
    booked TEXT NOT NULL CHECK (booked IN ('booked', 'duplicate', 'unknown', 'differs')),
    imported_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX settlement_answers_by_reference ON settlement_answers (reference);
