-- What Adyen tells, from when it is acknowledged until it is worked on. One row for each eventCode, pspReference and success: the
-- latest of its duplicates counts, and is worked on again.
CREATE TABLE inbox (
    event_key TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- The object that our reference names, as hexadecimal digits; else the payment tells whose it is.
    object TEXT,
    provider_payment TEXT,
    -- As the object takes it in: references, the amount, and how it ended. Dropped once it is over.
    event TEXT,
    event_id TEXT NOT NULL,
    -- When it happened, by the provider's clock, and never later than it came.
    told_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'done', 'dead', 'purged')),
    attempts INTEGER NOT NULL,
    -- JSON: [{"at_ms", "error"}], the newest last.
    history TEXT NOT NULL,
    outcome TEXT,
    next_at_ms INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX inbox_waiting ON inbox (next_at_ms) WHERE state = 'waiting';
CREATE INDEX inbox_dead ON inbox (updated_at_ms) WHERE state = 'dead';
CREATE INDEX inbox_by_time ON inbox (updated_at_ms);
