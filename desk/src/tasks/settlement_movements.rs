//! The SQL that finds movements of money in the read model and makes lines of a settlement file of them. Pure.
//!
//! A movement is an audit record; of most payments the first capture stands in the payment's own row, as audit record 2. Its line depends on
//! what was recorded before it of the same object, and on no other line: so a day's lines can be made piece by piece.
//!
//! Once a move into shards has begun, D1 makes no line any more of a payment that is to be moved: its lines here are final before the mover reads
//! them, and the shard makes the others.

/// Where lines are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movements {
    /// What moved from `?2` until before `?3`.
    InTime,
    /// The first `?2` of those that came late and moved before `?3`, without what moved before `?5` and before the first file.
    Late,
}

/// From when on this place knows of each movement in which file it stands, if that is before `?5`: from then on what came late has its line,
/// however late.
pub(super) const KNOWN_SINCE: &str =
    "min(?5, coalesce((SELECT min(begins_ms) FROM settlement_closings), ?5))";

/// The first `?2` movements that came late and moved before `?3`.
pub(super) const LATE: &str = "SELECT at_ms, object, audit_id, subject FROM settlement_late WHERE at_ms < ?3 ORDER BY at_ms, object, audit_id LIMIT ?2";

/// Nothing is done to a file but by the run that has seen the newest slice of it, `?4`, and to none that is closed.
pub(super) const IS_OWN: &str = "EXISTS (SELECT 1 FROM settlement_closings WHERE name = ?1 AND version = ?4)
        AND NOT EXISTS (SELECT 1 FROM settlement_files WHERE name = ?1)";

/// The statements that make the lines of these movements in the file `?1`. A line that is there, in whatever file, stays where it is. Two,
/// because D1 takes at most five SELECTs in one.
pub(super) fn insert(movements: Movements) -> [String; 2] {
    let all = lines(movements);
    let (captures, others) = all.split_at(3);
    [captures, others].map(|lines| {
        format!(
            "INSERT INTO settlement_lines (line_id, file, kind, provider, provider_reference, amount_minor, currency, at_ms)
             {} ON CONFLICT (line_id) DO NOTHING",
            lines.join(" UNION ALL ")
        )
    })
}

/// When the movement comes that is number `?3` from `?1` on, of the kind of which it comes first; `?2` if none comes until then.
pub(super) fn probe() -> String {
    let nth = |at: &str, table: &str, action: &str| {
        format!(
            "coalesce((SELECT {at} FROM {table} WHERE {action}{at} >= ?1 AND {at} < ?2 ORDER BY {at} LIMIT 1 OFFSET ?3), ?2)"
        )
    };
    let mut each = vec![nth("captured_at_ms", "payments", "")];
    each.extend(ACTIONS.map(|action| nth("at_ms", "audit_records", &format!("action = '{action}' AND "))));
    format!("SELECT min({}) AS until_ms", each.join(", "))
}

/// The audit records that move money.
const ACTIONS: [&str; 5] =
    ["payment.captured", "payment.capture_failed", "payment.disputed", "refund.succeeded", "refund.failed"];

/// One for each kind of line.
fn lines(movements: Movements) -> [String; 7] {
    let numbered = |number: &str, kind: &str, action: &str, values: &str, tables: &str| {
        let (records, are_meant) = records(movements, action);
        format!(
            "SELECT a.subject || ':{kind}' || {number}, ?1, '{kind}', {values}, a.at_ms FROM {records} {tables}
             WHERE {are_meant} AND {} AND {IS_OWN}",
            stays(if kind.starts_with("refund") { "r.payment_id" } else { "a.subject" })
        )
    };
    let plain =
        |kind: &str, action: &str, values: &str, tables: &str| numbered("''", kind, action, values, tables);
    // What can move both ways has a line each time; the audit record's number tells them apart.
    let each = "':' || a.audit_id";
    // The first capture of most payments stands in the payment's own row, as audit record 2.
    let captured_before = format!(
        "coalesce({}, (SELECT first.captured_data->>'amount_captured' FROM payments first
            WHERE first.payment_id = a.subject AND a.audit_id > 2))",
        before("payment.captured", "b.data->>'amount_captured'")
    );
    let not_first = format!("CASE WHEN {captured_before} IS NULL THEN '' ELSE {each} END");
    let was_withdrawn = before("payment.disputed", "b.data->>'funds_withdrawn'");
    let of_payment =
        "a.data->>'provider', a.data->>'provider_payment', a.data->>'amount_captured', a.data->>'currency'";
    let of_refund = "r.provider, r.provider_refund, r.amount_minor, r.currency";
    let refunds = "JOIN refunds r ON r.refund_id = a.subject";
    // A refund that never succeeded has moved no money.
    let came_back = format!(
        "{refunds} JOIN audit_records done ON done.object = a.object AND done.subject = a.subject
            AND +done.action = 'refund.succeeded'"
    );
    // A capture of which we only saw the failure has no line to reverse.
    let of_failed =
        format!("a.data->>'provider', a.data->>'provider_payment', {captured_before}, a.data->>'currency'");
    let was_captured = format!("JOIN (SELECT 1) ON {captured_before} IS NOT NULL");
    let of_dispute = "p.provider, a.data->>'dispute', a.data->>'amount', a.data->>'currency'";
    let turns = |to: u32| {
        format!(
            "JOIN payments p ON p.payment_id = a.subject AND a.data->>'funds_withdrawn' = {to}
                AND coalesce({was_withdrawn}, 0) = 1 - {to}"
        )
    };
    [
        first_captures(movements),
        numbered(&not_first, "capture", "payment.captured", of_payment, ""),
        numbered(each, "capture_failed", "payment.capture_failed", &of_failed, &was_captured),
        numbered(each, "dispute_withdrawn", "payment.disputed", of_dispute, &turns(1)),
        numbered(each, "dispute_reinstated", "payment.disputed", of_dispute, &turns(0)),
        plain("refund", "refund.succeeded", of_refund, refunds),
        plain("refund_failed", "refund.failed", of_refund, &came_back),
    ]
}

/// The records `a` of an action, and the condition that they are meant.
fn records(movements: Movements, action: &str) -> (String, String) {
    match movements {
        Movements::InTime => (
            "audit_records a".to_owned(),
            format!("a.action = '{action}' AND a.at_ms >= ?2 AND a.at_ms < ?3"),
        ),
        // They are few and known by their keys. The plus keeps SQLite from the index of the action.
        Movements::Late => (
            format!(
                "({LATE}) late CROSS JOIN audit_records a ON a.object = late.object AND a.audit_id = late.audit_id"
            ),
            format!("+a.action = '{action}' AND a.at_ms >= {KNOWN_SINCE}"),
        ),
    }
}

/// Those that stand in the payment's own row.
fn first_captures(movements: Movements) -> String {
    let (payments, are_meant) = match movements {
        Movements::InTime => {
            ("payments p".to_owned(), "p.captured_at_ms >= ?2 AND p.captured_at_ms < ?3".to_owned())
        }
        Movements::Late => (
            format!("({LATE}) late CROSS JOIN payments p ON p.payment_id = late.subject"),
            format!("late.audit_id = 2 AND +p.captured_at_ms >= {KNOWN_SINCE}"),
        ),
    };
    format!(
        "SELECT p.payment_id || ':capture', ?1, 'capture', p.captured_data->>'provider', p.captured_data->>'provider_payment',
            p.captured_data->>'amount_captured', p.captured_data->>'currency', p.captured_at_ms
         FROM {payments} WHERE {are_meant} AND {} AND {IS_OWN}",
        stays("p.payment_id")
    )
}

/// Whether a payment is not one that is to be moved into a shard.
fn stays(payment_id: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM shard_layouts CROSS JOIN payments moving WHERE moving.payment_id = {payment_id}
            AND shard_layouts.slots > 0 AND shard_layouts.moved_at_ms IS NOT NULL
            AND moving.created_at_ms >= shard_layouts.moved_since_ms AND moving.created_at_ms < shard_layouts.from_ms)"
    )
}

/// What the newest record of an action said that came before `a`. All records of a subject are of its object, and few: the plus keeps SQLite
/// from the index of the action, which has very many.
fn before(action: &str, value: &str) -> String {
    format!(
        "(SELECT {value} FROM audit_records b WHERE b.object = a.object AND b.subject = a.subject
            AND +b.action = '{action}' AND b.audit_id < a.audit_id ORDER BY b.audit_id DESC LIMIT 1)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::{plan, read_model};

    /// What moved is found by its action and time, and what happened to the same before among its object's records.
    #[test]
    fn lines_are_made_without_reading_all_that_there_ever_was() {
        let model = read_model();
        let by_time = "SEARCH p USING INDEX payments_captured (captured_at_ms>? AND captured_at_ms<?)";
        let by_action = "SEARCH a USING INDEX audit_by_action (action=? AND at_ms>? AND at_ms<?)";
        let count = |plan: &[String], step: &str| plan.iter().filter(|it| it.starts_with(step)).count();
        let of = |movements: Movements| insert(movements).map(|sql| plan(&model, &sql)).concat();
        let in_time = of(Movements::InTime);
        assert_eq!((count(&in_time, by_time), count(&in_time, by_action)), (1, 6), "{in_time:?}");
        let late = of(Movements::Late);
        assert_eq!(count(&late, "SEARCH settlement_late USING PRIMARY KEY (at_ms<?)"), 7, "{late:?}");
        assert_eq!(count(&late, "SEARCH a USING PRIMARY KEY (object=? AND audit_id=?)"), 6, "{late:?}");
        for plan in [&in_time, &late] {
            for whole in ["SCAN a", "SCAN b", "SCAN p", "SCAN first", "SCAN done", "SCAN r"] {
                assert!(!plan.iter().any(|step| step == whole), "{whole}: {plan:?}");
            }
            assert_eq!(count(plan, "SEARCH b USING INDEX") + count(plan, "SEARCH done USING INDEX"), 0);
            assert_ne!(count(plan, "SEARCH b USING PRIMARY KEY"), 0, "{plan:?}");
        }
        let probed = plan(&model, &probe());
        assert_eq!(
            count(&probed, "SEARCH audit_records USING COVERING INDEX audit_by_action"),
            5,
            "{probed:?}"
        );
        assert_eq!(count(&probed, "SEARCH payments USING COVERING INDEX payments_captured"), 1, "{probed:?}");
        // The control: without the indexes all records are read.
        model
            .execute_batch(
                "DROP INDEX audit_by_action; DROP INDEX audit_by_time; DROP INDEX payments_captured",
            )
            .unwrap();
        let without = of(Movements::InTime);
        assert_eq!((count(&without, "SCAN p"), count(&without, "SCAN a")), (1, 6), "{without:?}");
    }

    /// While a migration is there and the release before still runs, its statements do, too.
    #[test]
    fn the_release_before_finds_the_index_that_it_names() {
        let model = read_model();
        for action in ["payment.captured", "payment.disputed", "refund.succeeded"] {
            let sql = format!(
                "SELECT 1 FROM audit_records b INDEXED BY audit_by_subject WHERE b.subject = ?1 AND b.action = '{action}'"
            );
            assert!(
                plan(&model, &sql).iter().any(|step| step.contains("audit_by_subject (subject=?)")),
                "{action}"
            );
        }
    }
}
