-- What was taken back is a movement too: a capture or a refund that failed afterwards, and what a bank has withdrawn and given back.
CREATE TABLE settlement_lines_of_all (
    line_id TEXT PRIMARY KEY,
    file TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('capture', 'capture_failed', 'refund', 'refund_failed', 'dispute_withdrawn',
        'dispute_reinstated')),
    provider TEXT NOT NULL,
    provider_reference TEXT,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO settlement_lines_of_all SELECT * FROM settlement_lines;
DROP TABLE settlement_lines;
ALTER TABLE settlement_lines_of_all RENAME TO settlement_lines;
CREATE INDEX settlement_lines_by_file ON settlement_lines (file, line_id);

-- Those whose capture has failed: after some days a person is shown them.
CREATE INDEX payments_capture_failed ON payments (payment_id) WHERE status = 'capture_failed';
