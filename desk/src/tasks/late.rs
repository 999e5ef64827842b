//! Which objects are late, as the read model has them: what the sweep asks. Each question has an index.

/// How late an alarm may be before it counts as lost, in ms.
pub const GRACE_MS: u64 = 120_000;
/// The minimum time between wake-ups of a payment that waits for its provider, in ms.
pub const WAIT_MIN_MS: u64 = 900_000;
/// The maximum time, in ms: the object itself asks at least every 27 hours. In between it is a quarter of the payment's age; the
/// object asks after an eighth.
pub const WAIT_MAX_MS: u64 = 108_000_000;

/// For how long no payment was made where nothing is looked for so often, in ms.
pub const QUIET_AFTER_MS: u64 = 3_600_000;

/// Objects with an open key that was due before `?1`, at most `?2`. Left to itself SQLite reads all keys, because they lie in the order of
/// their objects.
pub const OPEN: &str =
    "SELECT object FROM keys INDEXED BY keys_open WHERE status = 'open' AND wake_at_ms < ?1
     GROUP BY object ORDER BY min(wake_at_ms) LIMIT ?2";

/// The open keys of the object `?1` that were due before `?2` are queued behind all others that were, so that the object that waits longest is woken
/// first. They stay late, and are counted so, until the object tells how it stands.
pub const KEYS_WOKEN: &str =
    "UPDATE keys SET wake_at_ms = ?2 - 1 WHERE object = ?1 AND status = 'open' AND wake_at_ms < ?2";

/// Objects that should have asked their provider for changes before `?1`, at most `?2`: an authorization may have expired, a refund
/// failed, or somebody moved money in the dashboard.
pub const WATCHED: &str = "SELECT object FROM payments WHERE wake_at_ms < ?1 ORDER BY wake_at_ms LIMIT ?2";

/// Objects that wait for their provider and have been quiet, at `?1`, for longer than their own interval: at most `?2`.
pub const WAITING: &str = "WITH waiting (object, heard_at_ms, created_at_ms) AS (
        SELECT object, max(updated_at_ms, coalesce(woken_at_ms, 0)), created_at_ms
        FROM payments WHERE status IN ('processing', 'requires_action') AND status != 'succeeded'
        UNION
        SELECT object, max(updated_at_ms, coalesce(woken_at_ms, 0)), created_at_ms
        FROM payments WHERE pending_operation IS NOT NULL
        UNION
        SELECT p.object, max(p.updated_at_ms, coalesce(p.woken_at_ms, 0)), r.created_at_ms
        FROM refunds r JOIN payments p ON p.payment_id = r.payment_id WHERE r.status = 'pending')
     SELECT object FROM waiting
     WHERE ?1 - heard_at_ms > max(?3, min(?4, (?1 - created_at_ms) / 4))
     GROUP BY object ORDER BY min(heard_at_ms) LIMIT ?2";

/// Whether a key is open, or a payment was made from `?1` on.
pub const IS_BUSY: &str = "SELECT EXISTS (SELECT 1 FROM keys INDEXED BY keys_open WHERE status = 'open')
        OR EXISTS (SELECT 1 FROM payments INDEXED BY payments_by_time WHERE created_at_ms >= ?1) AS is_busy";

/// Opens a break, at `?1`, for each payment whose capture failed before `?2` and did not succeed since: the provider no longer
/// retries. An accepted break stays accepted.
pub const NOT_CAPTURED: &str = "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, theirs, state,
        note, first_seen_at_ms, last_seen_at_ms)
     SELECT 'capture_failed:' || p.payment_id || ':' || max(a.audit_id), 'capture_failed', p.provider, p.provider_payment,
        p.payment_id, p.object, 'capture_failed', 'not captured', 'open',
        'not captured, and the provider has stopped trying: settle the call by hand', ?1, ?1
     FROM payments p JOIN audit_records a ON a.object = p.object AND a.subject = p.payment_id
        AND +a.action = 'payment.capture_failed'
     WHERE p.status = 'capture_failed' AND p.status != 'succeeded' GROUP BY p.payment_id HAVING max(a.at_ms) < ?2
     ON CONFLICT (break_id) DO NOTHING";

/// Closes those breaks, at `?1`, whose payment has another status by now.
pub const CAPTURE_ENDED: &str = "UPDATE breaks SET state = 'resolved', last_seen_at_ms = ?1
     WHERE kind = 'capture_failed' AND state = 'open'
        AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.payment_id = resource AND p.status = 'capture_failed')";

/// Closes the breaks of payments of which Adyen has told by now, also of their refunds of before `?1`. Accepted ones, too: what is silent later is
/// another silence. Those that last are seen by each sweep, so of the accepted ones nobody reads more than what was seen since `?1`.
pub const SPOKEN: &str =
    "UPDATE breaks SET state = 'resolved' WHERE kind = 'silent' AND (state = 'open' OR (state = 'accepted' AND last_seen_at_ms >= ?1))
     AND NOT EXISTS (SELECT 1 FROM payments WHERE payment_id = breaks.resource AND payments.provider = 'adyen'
            AND (status = 'processing' OR pending_operation IS NOT NULL))
     AND NOT EXISTS (SELECT 1 FROM refunds WHERE payment_id = breaks.resource AND refunds.provider = 'adyen'
            AND status = 'pending' AND created_at_ms < ?1 AND NOT EXISTS (SELECT 1 FROM audit_records WHERE audit_records.object = breaks.object
                AND audit_records.subject = refunds.refund_id AND +audit_records.action = 'refund.undone'))";

/// Opens a break, at `?1`, for each payment, capture or void with Adyen of which nothing was heard since `?2`, and for each payment with refunds of
/// before `?3`, which it names; but for those of which Adyen has told that they failed afterwards, which it may repeat by itself. One that was accepted
/// stays so as long as it says the same.
pub const SILENT: &str = "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
        last_seen_at_ms)
     SELECT 'silent:adyen:' || payment_id, 'silent', provider, provider_payment, payment_id, object,
        CASE WHEN pending_operation IS NOT NULL THEN 'pending ' || pending_operation WHEN status = 'processing' THEN status ELSE 'pending refunds: ' || (
            SELECT group_concat(refund_id, ', ') FROM (SELECT refund_id FROM refunds WHERE refunds.payment_id = payments.payment_id
                AND refunds.status = 'pending' AND refunds.provider = 'adyen' AND refunds.created_at_ms < ?3
                AND NOT EXISTS (SELECT 1 FROM audit_records WHERE audit_records.object = payments.object
                    AND audit_records.subject = refunds.refund_id AND +audit_records.action = 'refund.undone') ORDER BY refund_id)) END, 'open', ?1, ?1
     FROM payments WHERE payment_id IN (
        SELECT payment_id FROM payments WHERE status = 'processing' AND status != 'succeeded' AND provider = 'adyen'
            AND created_at_ms < ?2
        UNION ALL SELECT payment_id FROM payments WHERE pending_operation IS NOT NULL AND provider = 'adyen'
            AND updated_at_ms < ?2
        UNION ALL SELECT refunds.payment_id FROM refunds INDEXED BY refunds_waiting CROSS JOIN payments of ON of.payment_id = refunds.payment_id
            WHERE refunds.status = 'pending' AND refunds.provider = 'adyen' AND refunds.created_at_ms < ?3
            AND NOT EXISTS (SELECT 1 FROM audit_records WHERE audit_records.object = of.object
                AND audit_records.subject = refunds.refund_id AND +audit_records.action = 'refund.undone'))
     ON CONFLICT (break_id) DO UPDATE SET ours = excluded.ours, last_seen_at_ms = excluded.last_seen_at_ms,
        note = CASE WHEN breaks.state = 'accepted' AND breaks.ours IS excluded.ours THEN breaks.note END,
        state = CASE WHEN breaks.state = 'accepted' AND breaks.ours IS excluded.ours THEN 'accepted' ELSE 'open' END";

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;

    use rusqlite::Connection;
    use rusqlite::config::DbConfig;

    use super::*;
    use payments::transitions::by_hand::{REFUND_SILENT_MS, SILENT_MS};

    /// The read model, as its migrations make it: once, and then its bytes, because SQLite takes longer to read so much SQL than for most tests.
    pub(in crate::tasks) fn read_model() -> Connection {
        static MIGRATED: LazyLock<Vec<u8>> = LazyLock::new(|| migrated().serialize("main").unwrap().to_vec());
        let mut connection = Connection::open_in_memory().unwrap();
        connection.deserialize_read_exact("main", MIGRATED.as_slice(), MIGRATED.len(), false).unwrap();
        // To compile a statement takes longer than to run it: none is compiled twice, not even because other values are bound.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
        connection.set_prepared_statement_cache_capacity(256);
        connection
    }

    fn migrated() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files {
            connection.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
        }
        connection
    }

    pub(in crate::tasks) fn plan(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let parameters = statement.parameter_count();
        let steps =
            statement.query_map(rusqlite::params_from_iter(vec![1; parameters]), |row| row.get(3)).unwrap();
        steps.map(Result::unwrap).collect()
    }

    /// A sweep reads what is late, and not all that there ever was.
    #[test]
    fn no_question_of_the_sweep_reads_a_whole_table() {
        let connection = read_model();
        let whole = |step: &&String| {
            ["SCAN payments", "SCAN keys", "SCAN refunds", "SCAN r", "SCAN p"].contains(&step.as_str())
        };
        for sql in [OPEN, WATCHED, WAITING, IS_BUSY, NOT_CAPTURED, CAPTURE_ENDED, SPOKEN, SILENT] {
            let plan = plan(&connection, sql);
            assert!(plan.iter().any(|step| step.contains("INDEX")), "{plan:?}");
            assert_eq!(plan.iter().find(whole), None, "{plan:?}");
        }
        // The control: without its index a question does.
        connection.execute_batch("DROP INDEX payments_by_wake; DROP INDEX payments_pending").unwrap();
        for sql in [WATCHED, WAITING] {
            let plan = plan(&connection, sql);
            assert!(plan.iter().any(|step| whole(&step)), "{plan:?}");
        }
    }

    /// What Adyen says nothing of, as each sweep looks for it.
    struct Silence(Connection);

    impl Silence {
        /// A payment that was taken, at each provider.
        fn of_taken_payments() -> Self {
            let model = read_model();
            let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                    provider, attempt, shown, created_at_ms, updated_at_ms) VALUES (?1, 'o', 1, 'a', 'succeeded', 900, 900, 0, 'eur', ?2, 1, '{}', 0, 0)";
            for provider in ["adyen", "stripe"] {
                model.execute(sql, (format!("pay_{provider}"), provider)).unwrap();
            }
            Self(model)
        }

        fn refund(&self, id: &str, provider: &str, at_ms: u64) {
            let sql = "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, created_at_ms,
                    updated_at_ms) VALUES (?1, ?2, 1, 'pending', 300, 'eur', 'requested_by_customer', ?3, ?4, ?4)";
            let payment = format!("pay_{provider}");
            self.0.execute(sql, (id, payment, provider, at_ms.cast_signed())).unwrap();
        }

        fn run(&self, sql: &str) {
            self.0.execute(sql, ()).unwrap();
        }

        fn note(&self) -> Option<String> {
            self.0.query_row("SELECT note FROM breaks", (), |row| row.get(0)).unwrap()
        }

        /// A sweep. Returns what the break says, and its state.
        fn sweep(&self, day: u64) -> Option<(String, String)> {
            let now_ms = day * SILENT_MS;
            let before_ms = now_ms.saturating_sub(REFUND_SILENT_MS).cast_signed();
            self.0.execute(SPOKEN, [before_ms]).unwrap();
            let silent_since_ms = now_ms.saturating_sub(SILENT_MS).cast_signed();
            self.0.execute(SILENT, (now_ms.cast_signed(), silent_since_ms, before_ms)).unwrap();
            let mut found = self.0.prepare("SELECT ours, state FROM breaks").unwrap();
            let mut found = found.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            let first = found.next().map(Result::unwrap);
            assert!(found.next().is_none(), "one break a payment");
            first
        }
    }

    fn says(ours: &str, state: &str) -> Option<(String, String)> {
        Some((ours.to_owned(), state.to_owned()))
    }

    const ACCEPT: &str = "UPDATE breaks SET state = 'accepted'";

    #[test]
    fn a_refund_of_which_adyen_tells_nothing_is_a_break_until_it_does() {
        let silence = Silence::of_taken_payments();
        silence.refund("re_1", "adyen", 7);
        silence.refund("re_stripe", "stripe", 7);
        assert_eq!(silence.sweep(5), None);
        for day in 6..9 {
            assert_eq!(silence.sweep(day), says("pending refunds: re_1", "open"));
        }
        silence.run("UPDATE refunds SET status = 'succeeded' WHERE provider = 'adyen'");
        assert_eq!(silence.sweep(10), says("pending refunds: re_1", "resolved"));
    }

    #[test]
    fn a_refund_that_failed_afterwards_is_not_silent() {
        let silence = Silence::of_taken_payments();
        let undone = "INSERT INTO audit_records VALUES ('o', 9, 9, 'adyen', 'refund.undone', 're_1', '{}')";
        silence.refund("re_1", "adyen", 7);
        silence.run(undone);
        assert_eq!(silence.sweep(9), None, "Adyen has told of it, and may repeat it");
        silence.refund("re_2", "adyen", 8);
        assert_eq!(silence.sweep(10), says("pending refunds: re_2", "open"));
    }

    #[test]
    fn an_accepted_silence_stays_accepted_and_hides_no_other_one() {
        let silence = Silence::of_taken_payments();
        silence.refund("re_1", "adyen", 7);
        silence.sweep(6);
        silence.run("UPDATE breaks SET state = 'accepted', note = 'known'");
        assert_eq!(silence.sweep(7), says("pending refunds: re_1", "accepted"));
        assert_eq!(silence.note().as_deref(), Some("known"));
        silence.refund("re_2", "adyen", 3 * SILENT_MS);
        assert_eq!(silence.sweep(9), says("pending refunds: re_1, re_2", "open"), "there is another one");
        assert_eq!(silence.note(), None, "nobody has said anything of that one");
        silence.run(ACCEPT);
        silence.run("UPDATE refunds SET status = 'succeeded' WHERE provider = 'adyen'");
        assert_eq!(silence.sweep(10).map(|(_, state)| state).as_deref(), Some("resolved"), "Adyen has told");
        silence.refund("re_3", "adyen", 10 * SILENT_MS);
        assert_eq!(silence.sweep(16), says("pending refunds: re_3", "open"));
    }

    #[test]
    fn a_second_capture_that_hears_nothing_is_shown_though_the_first_one_was_accepted() {
        let silence = Silence::of_taken_payments();
        let pending = "UPDATE payments SET status = 'requires_capture', pending_operation = 'capture' WHERE provider = 'adyen'";
        silence.run(pending);
        assert_eq!(silence.sweep(2), says("pending capture", "open"));
        silence.run(ACCEPT);
        assert_eq!(silence.sweep(3), says("pending capture", "accepted"));
        silence.run("UPDATE payments SET pending_operation = NULL");
        assert_eq!(silence.sweep(4), says("pending capture", "resolved"));
        silence.run(pending);
        assert_eq!(silence.sweep(5), says("pending capture", "open"));
    }

    /// An earlier release ended no accepted break, and did not say what is silent.
    #[test]
    fn what_an_earlier_release_has_left_accepted_hides_nothing() {
        for ours in ["a refund is pending", "requires_capture"] {
            let silence = Silence::of_taken_payments();
            silence.run(&format!(
                "INSERT INTO breaks (break_id, kind, provider, resource, ours, state, first_seen_at_ms, last_seen_at_ms)
                 VALUES ('silent:adyen:pay_adyen', 'silent', 'adyen', 'pay_adyen', '{ours}', 'accepted', 0, 0)"
            ));
            assert_eq!(silence.sweep(30), says(ours, "accepted"));
            silence.refund("re_1", "adyen", 30 * SILENT_MS);
            assert_eq!(silence.sweep(36), says("pending refunds: re_1", "open"));
        }
    }
}
