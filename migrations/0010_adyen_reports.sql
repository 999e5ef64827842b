-- Adyen's settlement details reports. The same bytes are the same report, whatever it is called; they lie in R2 under
-- reports/{report_id}.csv. A report is worked on in slices: bytes_done is where the next one begins, and line where that is in the file.
CREATE TABLE reports (
    report_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    bytes_done INTEGER NOT NULL,
    line INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'done', 'refused')),
    -- JSON: how many lines there are of each type, and how many of another merchant account or that could not be read.
    counts TEXT NOT NULL,
    error TEXT,
    received_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX reports_waiting ON reports (received_at_ms) WHERE state = 'waiting';
CREATE INDEX reports_by_time ON reports (received_at_ms);

-- Each line about the money of a payment, once, in however many reports it stands. Amounts are in our minor units.
CREATE TABLE report_lines (
    line_id TEXT PRIMARY KEY,
    report_id TEXT NOT NULL,
    line INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- Adyen's ids of the payment, and of what was done to it.
    payment TEXT NOT NULL,
    modification TEXT NOT NULL,
    -- The payment of ours that the line names.
    resource TEXT,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    made_at_ms INTEGER,
    batch TEXT NOT NULL
) STRICT;
CREATE INDEX report_lines_by_payment ON report_lines (payment);
CREATE INDEX report_lines_by_modification ON report_lines (modification);
CREATE INDEX report_lines_settled ON report_lines (made_at_ms) WHERE kind = 'Settled';

-- Reports of which Adyen has told, to be fetched from the address that it gave.
CREATE TABLE report_announcements (
    name TEXT PRIMARY KEY,
    address TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'fetched', 'refused')),
    attempts INTEGER NOT NULL,
    error TEXT,
    told_at_ms INTEGER NOT NULL,
    next_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX report_announcements_waiting ON report_announcements (next_at_ms) WHERE state = 'waiting';
