-- What is so with nearly every payment stands in its own row, where it costs no row and no entry of an index more: its first key, once that
-- has ended as it should, and the audit records that it was made and that its money was taken. `keys` and `audit_records` hold all others:
-- a row there is preferred to the same one here.

ALTER TABLE payments ADD COLUMN key_hash TEXT;
ALTER TABLE payments ADD COLUMN key_attempts INTEGER;
ALTER TABLE payments ADD COLUMN key_response_status INTEGER;
ALTER TABLE payments ADD COLUMN key_finished_at_ms INTEGER;
ALTER TABLE payments ADD COLUMN key_expires_at_ms INTEGER;
-- The facts of audit record 1, "payment.created", and of audit record 2, "payment.captured". The first is as old as the payment.
ALTER TABLE payments ADD COLUMN created_data TEXT;
ALTER TABLE payments ADD COLUMN captured_data TEXT;
ALTER TABLE payments ADD COLUMN captured_at_ms INTEGER;
CREATE INDEX payments_captured ON payments (captured_at_ms) WHERE captured_at_ms IS NOT NULL;

-- All keys. The casts give both halves the same types: so SQLite takes each in the order of its index and merges them.
CREATE VIEW key_list AS
    SELECT object, key_id, version, key_hash, owner, operation, status, recovery_point, attempts, failures, in_doubt, flagged,
        response_status, wake_at_ms, created_at_ms, finished_at_ms, updated_at_ms, expires_at_ms FROM keys
    UNION ALL
    SELECT object, CAST(1 AS INTEGER), version, key_hash, owner, CAST('payment' AS TEXT), CAST('finished' AS TEXT),
        CAST('finished' AS TEXT), key_attempts, CAST(0 AS INTEGER), CAST(0 AS INTEGER), CAST(0 AS INTEGER), key_response_status,
        CAST(NULL AS INTEGER), created_at_ms, key_finished_at_ms, updated_at_ms, key_expires_at_ms FROM payments
    WHERE key_hash IS NOT NULL AND NOT EXISTS (SELECT 1 FROM keys k WHERE k.object = payments.object AND k.key_id = 1);

-- All audit records of objects.
CREATE VIEW audit_trail AS
    SELECT object, audit_id, at_ms, actor, action, subject, data FROM audit_records
    UNION ALL
    SELECT object, CAST(1 AS INTEGER), created_at_ms, owner, CAST('payment.created' AS TEXT), payment_id, created_data FROM payments
    WHERE created_data IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM audit_records r WHERE r.object = payments.object AND r.audit_id = 1)
    UNION ALL
    SELECT object, CAST(2 AS INTEGER), captured_at_ms, owner, CAST('payment.captured' AS TEXT), payment_id, captured_data FROM payments
    WHERE captured_at_ms IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM audit_records r WHERE r.object = payments.object AND r.audit_id = 2);
