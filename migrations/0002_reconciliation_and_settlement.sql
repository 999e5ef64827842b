-- When a break's object was last asked to find out what is true.
ALTER TABLE breaks ADD COLUMN asked_at_ms INTEGER;

-- A settlement file. Its lines are fixed for good when the row is made (closed), before it is written to R2: whoever writes it
-- writes the same bytes.
DROP TABLE settlement_files;
CREATE TABLE settlement_files (
    name TEXT PRIMARY KEY,
    day TEXT NOT NULL UNIQUE,
    closed_at_ms INTEGER NOT NULL,
    lines INTEGER,
    -- JSON: {"capture": {"usd": 2500}, …}
    totals TEXT,
    sha256 TEXT,
    written_at_ms INTEGER
) STRICT;

-- Each capture, each refund and each refund that came back stands in exactly one file.
CREATE TABLE settlement_lines (
    line_id TEXT PRIMARY KEY,
    file TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('capture', 'refund', 'refund_failed')),
    provider TEXT NOT NULL,
    provider_reference TEXT,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX settlement_lines_by_file ON settlement_lines (file, line_id);
CREATE INDEX audit_by_action ON audit_records (action, at_ms);

-- A line of ours is booked by one line of the bank's, whatever comes later.
CREATE UNIQUE INDEX settlement_answers_booked ON settlement_answers (reference) WHERE booked = 'booked';
CREATE INDEX settlement_answers_by_file ON settlement_answers (file, line_number);
