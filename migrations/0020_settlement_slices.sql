-- A settlement file of a large day is closed in slices, each one transaction, and written in parts.

-- How far the closing of a day has come. The row of `settlement_files` is made when all its lines are fixed, as ever: so no release writes a
-- file whose closing is under way.
--
-- begins_ms   from when on movements are looked through: the day's beginning, or 35 days before its end where the day before was closed
--             in another way, which has left no list of what came late
-- through_ms  all movements before it have their lines; once it is `ends_ms`, what came late follows
-- version     counts the slices: one is only made by the run that has seen the one before it
-- part_lines  how many lines a part of the file has at most, as it was set when the closing began
CREATE TABLE settlement_closings (
    name TEXT PRIMARY KEY,
    day TEXT NOT NULL,
    begins_ms INTEGER NOT NULL,
    ends_ms INTEGER NOT NULL,
    through_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    part_lines INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The parts of a large day's file that are written, in the order of their lines.
--
-- name          of the object
-- last_line_id  where the next part begins, after it
-- totals        as in settlement_files
-- sha256        of the whole object
CREATE TABLE settlement_parts (
    file TEXT NOT NULL,
    part INTEGER NOT NULL,
    name TEXT NOT NULL,
    last_line_id TEXT NOT NULL,
    lines INTEGER NOT NULL,
    totals TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    written_at_ms INTEGER NOT NULL,
    PRIMARY KEY (file, part)
) STRICT, WITHOUT ROWID;

-- Movements of money that came here more than an hour after they were made, until they stand in a file: one that its day's slices have passed
-- by is among them, since a day is closed two hours after its end. The others, nearly all, cost no row. The database itself notes them, by
-- its own clock, whoever writes. What is older than 70 days stands in no file: a read model that is made anew has all that there ever was.
CREATE TABLE settlement_late (
    at_ms INTEGER NOT NULL,
    object TEXT NOT NULL,
    audit_id INTEGER NOT NULL,
    subject TEXT NOT NULL,
    PRIMARY KEY (at_ms, object, audit_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_records_late AFTER INSERT ON audit_records
WHEN new.at_ms < (unixepoch() - 3600) * 1000 AND new.at_ms > (unixepoch() - 6048000) * 1000
    AND new.action IN ('payment.captured', 'payment.capture_failed', 'payment.disputed', 'refund.succeeded', 'refund.failed')
BEGIN
    INSERT INTO settlement_late (at_ms, object, audit_id, subject) VALUES (new.at_ms, new.object, new.audit_id, new.subject)
    ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER payments_late AFTER INSERT ON payments
WHEN new.captured_at_ms < (unixepoch() - 3600) * 1000 AND new.captured_at_ms > (unixepoch() - 6048000) * 1000
BEGIN
    INSERT INTO settlement_late (at_ms, object, audit_id, subject) VALUES (new.captured_at_ms, new.object, 2, new.payment_id)
    ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER payments_captured_late AFTER UPDATE OF captured_at_ms ON payments
WHEN new.captured_at_ms IS NOT old.captured_at_ms
    AND new.captured_at_ms < (unixepoch() - 3600) * 1000 AND new.captured_at_ms > (unixepoch() - 6048000) * 1000
BEGIN
    INSERT INTO settlement_late (at_ms, object, audit_id, subject) VALUES (new.captured_at_ms, new.object, 2, new.payment_id)
    ON CONFLICT DO NOTHING;
END;
