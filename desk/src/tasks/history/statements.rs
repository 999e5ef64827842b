//! All SQL of the task: what leaves, and how it goes from the tables into the files' list. Each statement is bounded by the batch, or by how
//! many payments one look goes through.

/// The newest `?3` payments after a place that were made before `?4`, in the order in which they were made: whether each may leave at `?6`, if
/// nothing has changed since `?5`, and which audit records there are of it.
/// What is disputed stays, also what is lost: a settlement file has to know what was withdrawn before. What is moved to a shard leaves from there.
pub(super) const LOOK_THROUGH: &str = "SELECT p.rowid AS place, p.payment_id, p.object, p.version, p.created_at_ms, p.provider_payment,
        h.object IS NOT NULL AS is_known,
        p.updated_at_ms < ?5
            AND NOT EXISTS (SELECT 1 FROM shard_layouts WHERE slots > 0 AND moved_since_ms <= p.created_at_ms
                AND p.created_at_ms < from_ms)
            AND p.status IN ('succeeded', 'canceled', 'expired', 'declined', 'failed')
            AND p.pending_operation IS NULL AND p.wake_at_ms IS NULL AND coalesce(p.key_expires_at_ms, 0) < ?6
            AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.payment_id = p.payment_id AND (r.status = 'pending' OR r.updated_at_ms >= ?5))
            AND NOT EXISTS (SELECT 1 FROM keys k WHERE k.object = p.object AND (k.status = 'open' OR k.updated_at_ms >= ?5
                OR coalesce(k.expires_at_ms, k.finished_at_ms + 86400000, 0) >= ?6))
            AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.object = p.object AND j.state IN ('dead', 'attempted'))
            AND p.payment_id NOT IN (SELECT resource FROM breaks WHERE state = 'open' AND resource IS NOT NULL)
            AND p.object NOT IN (SELECT object FROM breaks WHERE state = 'open' AND object IS NOT NULL)
            AND coalesce(p.provider_payment, '') NOT IN
                (SELECT provider_payment FROM breaks WHERE state = 'open' AND provider_payment IS NOT NULL) AS may_leave,
        coalesce(h.audit_through, 0) AS audit_through,
        max(coalesce((SELECT max(audit_id) FROM audit_records a WHERE a.object = p.object), 0),
            CASE WHEN p.captured_data IS NOT NULL THEN 2 WHEN p.created_data IS NOT NULL THEN 1 ELSE 0 END) AS audit_newest,
        (SELECT count(*) FROM audit_records a WHERE a.object = p.object AND a.audit_id > coalesce(h.audit_through, 0))
            + (p.created_data IS NOT NULL AND coalesce(h.audit_through, 0) < 1
                AND NOT EXISTS (SELECT 1 FROM audit_records a WHERE a.object = p.object AND a.audit_id = 1))
            + (p.captured_data IS NOT NULL AND coalesce(h.audit_through, 0) < 2
                AND NOT EXISTS (SELECT 1 FROM audit_records a WHERE a.object = p.object AND a.audit_id = 2)) AS audit_number
     FROM payments p INDEXED BY payments_by_time LEFT JOIN history_payments h ON h.object = unhex(p.object)
     WHERE p.created_at_ms >= ?1 AND p.created_at_ms < ?4 AND (p.created_at_ms > ?1 OR p.rowid > ?2)
     ORDER BY p.created_at_ms, p.rowid LIMIT ?3";

/// How far the settlement files are written, as days: the first that is closed and not written, and the newest.
pub(super) const SETTLED: &str =
    "SELECT (SELECT min(day) FROM settlement_files WHERE written_at_ms IS NULL) AS unwritten,
        (SELECT max(day) FROM settlement_files) AS newest";

/// For the look through a shard: which of these ids (`?1`) have an open break in D1, where the reconciliation writes them.
pub(super) const OPEN_BREAKS: &str = "SELECT value AS id FROM json_each(?1)
     WHERE value IN (SELECT resource FROM breaks WHERE state = 'open' AND resource IS NOT NULL)
        OR value IN (SELECT object FROM breaks WHERE state = 'open' AND object IS NOT NULL)
        OR value IN (SELECT provider_payment FROM breaks WHERE state = 'open' AND provider_payment IS NOT NULL)";

/// What D1 knows of these objects (`?1`), from which payments have left before they were moved: as a text for [`REMEMBER`].
pub(super) const KNOWN: &str = "SELECT json_array(hex(h.object), h.batch, h.version, h.audit_through, h.is_booked, b.month, b.began_at_ms) AS known
     FROM json_each(?1) CROSS JOIN history_payments h ON h.object = unhex(value) CROSS JOIN history_batches b ON b.batch = h.batch";
/// Puts it down in the shard. The batches of D1 have numbers below zero there.
pub(super) const REMEMBER_BATCHES: &str = "INSERT INTO history_batches (batch, state, month, began_at_ms, changed_at_ms)
     SELECT -(value ->> 1), 'written', value ->> 5, value ->> 6, value ->> 6 FROM json_each(?1) WHERE true ON CONFLICT (batch) DO NOTHING";
pub(super) const REMEMBER: &str = "INSERT INTO history_payments (object, batch, version, audit_through, is_booked)
     SELECT unhex(value ->> 0), -(value ->> 1), value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1) WHERE true
     ON CONFLICT (object) DO NOTHING";

pub(super) const PASS: &str = "SELECT after_ms, after_row FROM history_pass WHERE id = 1";
pub(super) const GO_ON: &str = "INSERT INTO history_pass (id, after_ms, after_row) VALUES (1, ?1, ?2)
     ON CONFLICT (id) DO UPDATE SET after_ms = excluded.after_ms, after_row = excluded.after_row";

pub(super) const UNWRITTEN: &str =
    "SELECT batch, state, month, began_at_ms, changed_at_ms FROM history_batches
     WHERE state != 'written' ORDER BY batch DESC LIMIT 100";
/// A number that is free, from `?1` on: the time in seconds. So none comes again where this database knows less than the bucket has files of: it was
/// made anew, or taken back to an earlier moment.
pub(super) const NEXT_BATCH: &str =
    "SELECT max(coalesce(max(batch), 0) + 1, ?1) AS batch FROM history_batches";

/// Begins the batch `?1`, unless it was begun by another run, or another one is being written.
pub(super) const BEGIN: &str = "INSERT INTO history_batches (batch, state, month, began_at_ms, changed_at_ms)
     SELECT ?1, 'writing', ?2, ?3, ?3 WHERE NOT EXISTS (SELECT 1 FROM history_batches WHERE state != 'written' AND state = 'writing')
     ON CONFLICT (batch) DO NOTHING";
/// Puts its payments down, unless another run has: its transaction has put down its own.
pub(super) const CLAIM: &str = "INSERT INTO history_leaving (batch, payment_id, object, version)
     SELECT ?1, value ->> 'payment_id', value ->> 'object', value ->> 'version' FROM json_each(?2)
     WHERE EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'writing')
        AND NOT EXISTS (SELECT 1 FROM history_leaving WHERE batch = ?1)";

pub(super) const PAYMENTS: &str = "SELECT l.object, l.version AS claimed_version, l.payment_id, p.version, p.owner, p.status,
        p.amount_minor, p.captured_minor, p.refunded_minor, p.refunded_elsewhere_minor, p.currency, p.provider, p.provider_payment,
        p.stripe_account, p.merchant_account, p.order_id, p.failure_code, p.attempt, p.created_at_ms, p.updated_at_ms, p.key_hash, p.key_attempts,
        p.key_response_status, p.key_finished_at_ms, p.key_expires_at_ms, p.created_data, p.captured_data, p.captured_at_ms,
        p.done_jobs, CASE WHEN p.done_jobs IS NOT NULL THEN (SELECT json_group_object(key, json_set(value, '$[1]', ''))
            FROM json_each(p.done_jobs)) END AS told_jobs, h.version AS left_version, coalesce(h.audit_through, 0) AS audit_through
     FROM history_leaving l LEFT JOIN payments p ON p.payment_id = l.payment_id
        LEFT JOIN history_payments h ON h.object = unhex(l.object)
     WHERE l.batch = ?1 ORDER BY l.payment_id";
pub(super) const REFUNDS: &str = "SELECT r.refund_id, r.payment_id, r.version, r.status, r.amount_minor, r.currency, r.reason, r.provider,
        r.provider_refund, r.created_at_ms, r.updated_at_ms
     FROM history_leaving l CROSS JOIN refunds r ON r.payment_id = l.payment_id WHERE l.batch = ?1 ORDER BY r.payment_id, r.refund_id";
pub(super) const KEYS: &str =
    "SELECT k.object, k.key_id, k.version, k.key_hash, k.owner, k.operation, k.status, k.attempts, k.failures,
        k.response_status, k.created_at_ms, k.finished_at_ms, k.expires_at_ms, k.updated_at_ms
     FROM history_leaving l CROSS JOIN keys k ON k.object = l.object WHERE l.batch = ?1 ORDER BY k.object, k.key_id";
pub(super) const AUDIT: &str =
    "SELECT a.object, a.audit_id, a.at_ms, a.actor, a.action, a.subject, a.data
     FROM history_leaving l CROSS JOIN audit_records a ON a.object = l.object WHERE l.batch = ?1 ORDER BY a.object, a.audit_id";

/// The batch `?1` is written, at `?7`, if all that was read of it is still so: the payments are as they were claimed, and there are `?2`
/// refunds, `?3` keys, `?4` audit records and `?5` characters about jobs; and no move to a shard was begun that takes one of them: the mover
/// begins later than that stands here. `?6` is what the list of batches shows. The statements below do something only where it is.
pub(super) const WRITTEN: &str = "UPDATE history_batches SET state = 'written', changed_at_ms = ?7, payments = ?6 ->> 'payments',
        first_payment = ?6 ->> 'first_payment', last_payment = ?6 ->> 'last_payment', first_at_ms = ?6 ->> 'first_at_ms',
        last_at_ms = ?6 ->> 'last_at_ms'
     WHERE batch = ?1 AND state = 'writing'
        AND NOT EXISTS (SELECT 1 FROM history_leaving l LEFT JOIN payments p ON p.payment_id = l.payment_id
            WHERE l.batch = ?1 AND p.version IS NOT l.version)
        AND NOT EXISTS (SELECT 1 FROM shard_layouts CROSS JOIN history_leaving l CROSS JOIN payments p ON p.payment_id = l.payment_id
            WHERE l.batch = ?1 AND slots > 0 AND moved_since_ms <= p.created_at_ms AND p.created_at_ms < from_ms)
        AND (SELECT count(*) FROM history_leaving l CROSS JOIN refunds r ON r.payment_id = l.payment_id WHERE l.batch = ?1) = ?2
        AND (SELECT count(*) FROM history_leaving l CROSS JOIN keys k ON k.object = l.object WHERE l.batch = ?1) = ?3
        AND (SELECT count(*) FROM history_leaving l CROSS JOIN audit_records a ON a.object = l.object WHERE l.batch = ?1) = ?4
        AND (SELECT coalesce(sum(length(p.done_jobs)), 0) FROM history_leaving l CROSS JOIN payments p ON p.payment_id = l.payment_id
            WHERE l.batch = ?1) = ?5";
pub(super) const LIST_FILES: &str = "INSERT INTO history_files (batch, kind, name, rows, bytes, sha256)
     SELECT ?1, value ->> 'kind', value ->> 'name', value ->> 'rows', value ->> 'bytes', value ->> 'sha256' FROM json_each(?2)
     WHERE EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'written')
     ON CONFLICT (batch, kind) DO NOTHING";
pub(super) const KEEP_NAMES: &str =
    "INSERT INTO history_names (name, place) SELECT value ->> 0, unhex(substr(value ->> 1, 1, 16)) FROM json_each(?2)
     WHERE EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'written')
     ON CONFLICT (name, place) DO NOTHING";
/// What is kept of each, before the rows go from which it is taken.
pub(super) const KEEP_PAYMENTS: &str = "INSERT INTO history_payments (object, batch, version, audit_through, is_booked)
     SELECT unhex(l.object), ?1, l.version,
        max(coalesce((SELECT max(audit_id) FROM audit_records a WHERE a.object = l.object), 0),
            CASE WHEN p.captured_data IS NOT NULL THEN 2 WHEN p.created_data IS NOT NULL THEN 1 ELSE 0 END),
        p.moved_payment IS NOT NULL AND p.moved_payment IS p.provider_payment AND NOT EXISTS (SELECT 1 FROM refunds r
            WHERE r.payment_id = l.payment_id AND r.status = 'succeeded' AND r.moved_refund IS NOT r.provider_refund)
     FROM history_leaving l CROSS JOIN payments p ON p.payment_id = l.payment_id
     WHERE l.batch = ?1 AND EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'written')
     ON CONFLICT (object) DO UPDATE SET batch = CASE WHEN excluded.version > version THEN excluded.batch ELSE batch END,
        version = max(version, excluded.version), audit_through = max(audit_through, excluded.audit_through),
        is_booked = max(is_booked, excluded.is_booked)";
pub(super) const DROP_AUDIT: &str =
    "DELETE FROM audit_records WHERE object IN (SELECT object FROM history_leaving WHERE batch = ?1)
     AND EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'written')";
pub(super) const DROP_KEYS: &str =
    "DELETE FROM keys WHERE object IN (SELECT object FROM history_leaving WHERE batch = ?1)
     AND EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'written')";
pub(super) const DROP_REFUNDS: &str =
    "DELETE FROM refunds WHERE payment_id IN (SELECT payment_id FROM history_leaving WHERE batch = ?1)
     AND EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'written')";
pub(super) const DROP_PAYMENTS: &str =
    "DELETE FROM payments WHERE payment_id IN (SELECT payment_id FROM history_leaving WHERE batch = ?1)
     AND EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state = 'written')";
/// Last of all, and of a void batch, too.
pub(super) const DROP_CLAIMS: &str = "DELETE FROM history_leaving WHERE batch = ?1
     AND EXISTS (SELECT 1 FROM history_batches WHERE batch = ?1 AND state IN ('written', 'void'))";

pub(super) const STATE: &str = "SELECT state FROM history_batches WHERE batch = ?1";
pub(super) const VOID: &str =
    "UPDATE history_batches SET state = 'void', changed_at_ms = ?2 WHERE batch = ?1 AND state = 'writing'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::{plan, read_model};

    /// What leaves is found by its place in time and by the batch, however many payments there are.
    #[test]
    fn nothing_reads_all_payments_that_there_are() {
        let model = read_model();
        for sql in [
            LOOK_THROUGH,
            KNOWN,
            REMEMBER_BATCHES,
            REMEMBER,
            BEGIN,
            CLAIM,
            PAYMENTS,
            REFUNDS,
            KEYS,
            AUDIT,
            WRITTEN,
            LIST_FILES,
            KEEP_NAMES,
            KEEP_PAYMENTS,
            DROP_AUDIT,
            DROP_KEYS,
            DROP_REFUNDS,
            DROP_PAYMENTS,
            DROP_CLAIMS,
            STATE,
            VOID,
            UNWRITTEN,
        ] {
            let plan = plan(&model, sql);
            let is_whole = |step: &String| {
                let mut words = step.split(' ');
                words.next() == Some("SCAN")
                    && [
                        "payments",
                        "p",
                        "refunds",
                        "r",
                        "keys",
                        "k",
                        "audit_records",
                        "a",
                        "h",
                        "history_payments",
                    ]
                    .contains(&words.next().unwrap_or_default())
            };
            assert!(!plan.iter().any(is_whole), "{sql}: {plan:#?}");
        }
        let by_time = "SEARCH p USING INDEX payments_by_time (created_at_ms>? AND created_at_ms<?)";
        assert!(plan(&model, LOOK_THROUGH).iter().any(|step| step == by_time));
    }
}
