-- Each row that is written is paid for, and each entry of an index is one more. What no statement needs goes, and these tables are kept by
-- their key (WITHOUT ROWID) instead of by a number and an index. `payments` is not: its key would stand in each of its many indexes.

CREATE TABLE keys_anew (
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
    -- When the response of a finished key expires. Nobody tells of that when it happens.
    expires_at_ms INTEGER,
    PRIMARY KEY (object, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO keys_anew SELECT * FROM keys;
DROP TABLE keys;
ALTER TABLE keys_anew RENAME TO keys;
CREATE INDEX keys_by_time ON keys (created_at_ms);
CREATE INDEX keys_open ON keys (wake_at_ms) WHERE status = 'open';

CREATE TABLE audit_records_anew (
    object TEXT NOT NULL,
    audit_id INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (object, audit_id)
) STRICT, WITHOUT ROWID;
INSERT INTO audit_records_anew SELECT * FROM audit_records;
DROP TABLE audit_records;
ALTER TABLE audit_records_anew RENAME TO audit_records;
CREATE INDEX audit_by_time ON audit_records (at_ms);
-- Those of which the settlement file has lines. A term of its own for each: so SQLite sees that `action = '…'` is one of them.
CREATE INDEX audit_by_action ON audit_records (action, at_ms) WHERE action = 'payment.captured' OR action = 'payment.capture_failed'
    OR action = 'payment.disputed' OR action = 'refund.succeeded' OR action = 'refund.failed';
-- The release before names this index, for these actions. Once it is gone nothing needs it.
CREATE INDEX audit_by_subject ON audit_records (subject) WHERE action = 'payment.captured' OR action = 'payment.disputed'
    OR action = 'refund.succeeded';

CREATE TABLE jobs_anew (
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
) STRICT, WITHOUT ROWID;
INSERT INTO jobs_anew SELECT * FROM jobs;
DROP TABLE jobs;
ALTER TABLE jobs_anew RENAME TO jobs;
CREATE INDEX jobs_dead ON jobs (updated_at_ms) WHERE state = 'dead';
CREATE INDEX jobs_by_time ON jobs (updated_at_ms);
-- The others are found by their ids, which the object knows.
CREATE INDEX jobs_left ON jobs (object) WHERE state IN ('dead', 'attempted');
