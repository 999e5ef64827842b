-- Each list and each search of the desk has an index, so that none reads all payments that there ever were. Those whose money was taken,
-- nearly all, have no entry in the first four.
CREATE INDEX payments_not_paid ON payments (status, created_at_ms DESC, payment_id DESC) WHERE status != 'succeeded';
CREATE INDEX payments_ended_unpaid ON payments (owner, status, created_at_ms DESC, payment_id DESC)
    WHERE status IN ('disputed', 'canceled', 'expired', 'declined', 'failed');
CREATE INDEX payments_by_failure ON payments (failure_code, created_at_ms DESC, payment_id DESC) WHERE failure_code IS NOT NULL;
CREATE INDEX payments_by_failure_and_status ON payments (failure_code, status, created_at_ms DESC, payment_id DESC)
    WHERE failure_code IS NOT NULL;
CREATE INDEX payments_by_order ON payments (order_id, created_at_ms DESC, payment_id DESC) WHERE order_id IS NOT NULL;
-- What they were for is found by the first of these now.
DROP INDEX payments_waiting;
DROP INDEX payments_capture_failed;
-- A key that is still open, or is one of a capture or a refund. The others are found by the objects that they name.
CREATE INDEX keys_by_hash ON keys (key_hash);
CREATE INDEX jobs_unfinished ON jobs (updated_at_ms) WHERE state IN ('tried', 'attempted', 'dead');
CREATE INDEX breaks_by_time ON breaks (last_seen_at_ms DESC, break_id);
CREATE INDEX breaks_by_state ON breaks (state, last_seen_at_ms DESC, break_id);
CREATE INDEX looks_by_time ON looks (since_ms);
DROP INDEX operator_actions_by_subject;
CREATE INDEX operator_actions_by_subject ON operator_actions (subject, at_ms DESC);
CREATE INDEX operator_actions_by_operator ON operator_actions (operator, at_ms DESC);
CREATE INDEX operator_actions_by_action ON operator_actions (action, at_ms DESC);
-- With where each key is found: a payment's in the payment's row, by the payment's id; another by its object.
DROP VIEW key_list;
CREATE VIEW key_list AS
    SELECT object, key_id, version, key_hash, owner, operation, status, recovery_point, attempts, failures, in_doubt, flagged,
        response_status, wake_at_ms, created_at_ms, finished_at_ms, updated_at_ms, expires_at_ms, object AS place FROM keys
    UNION ALL
    SELECT object, CAST(1 AS INTEGER), version, key_hash, owner, CAST('payment' AS TEXT), CAST('finished' AS TEXT),
        CAST('finished' AS TEXT), key_attempts, CAST(0 AS INTEGER), CAST(0 AS INTEGER), CAST(0 AS INTEGER), key_response_status,
        CAST(NULL AS INTEGER), created_at_ms, key_finished_at_ms, updated_at_ms, key_expires_at_ms, payment_id FROM payments
    WHERE key_hash IS NOT NULL AND NOT EXISTS (SELECT 1 FROM keys k WHERE k.object = payments.object AND k.key_id = 1);
