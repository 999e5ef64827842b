//! The SQL that finds movements of money in the read model and makes lines of a settlement file of them. Pure.
//!
//! A movement is an audit record; of most payments the first capture stands in the payment's own row, as audit record 2. Its line depends on
//! what was recorded before it of the same object, and on no other line: so a day's lines can be made piece by piece.
//!
//! A record of a payment's disputes says what each of them has withdrawn: what that is more or less than before is a line. Records of earlier releases
//! say it of all disputes together, and have their lines as those releases made them: where that turns from nothing to something, and back.
//!
//! Once a move into shards has begun, D1 makes no line any more of a payment that is to be moved: its lines here are final before the mover reads
//! them, and the shard makes the others.

/// Where lines are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movements {
    /// What moved from `?2` until before `?3`.
    InTime,
    /// The first `?2` of those that came late and moved before `?3`, without what moved before the first file.
    Late,
}

/// From when on this place knows of each movement in which file it stands: from then on what came late has its line, however late.
pub(super) const KNOWN_SINCE: &str = "(SELECT min(begins_ms) FROM settlement_closings)";

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
    // What can move both ways has a line each time; the audit record's number tells them apart.
    let each = "':' || a.audit_id";
    // The first capture of most payments stands in the payment's own row, as audit record 2.
    let captured_before = format!(
        "coalesce({}, (SELECT first.captured_data->>'amount_captured' FROM payments first
            WHERE first.payment_id = a.subject AND a.audit_id > 2))",
        before("a", "b", "payment.captured", "", "b.data->>'amount_captured'")
    );
    let not_first = format!("CASE WHEN {captured_before} IS NULL THEN '' ELSE {each} END");
    let of_payment =
        "a.data->>'provider', a.data->>'provider_payment', a.data->>'amount_captured', a.data->>'currency'";
    let of_refund = "r.provider, r.provider_refund, r.amount_minor, r.currency";
    let refunds = "JOIN refunds r ON r.refund_id = a.subject";
    // Most succeed once, and fail once if at all.
    let again = |action: &str| {
        format!("CASE WHEN {} IS NULL THEN '' ELSE {each} END", before("a", "b", action, "", "b.audit_id"))
    };
    // A refund that has not succeeded since it failed last has moved no money.
    let came_back = format!(
        "{refunds} JOIN (SELECT 1) ON (SELECT b.action FROM audit_records b WHERE b.object = a.object AND b.subject = a.subject
            AND +b.action IN ('refund.succeeded', 'refund.failed') AND b.audit_id < a.audit_id ORDER BY b.audit_id DESC LIMIT 1) = 'refund.succeeded'"
    );
    // A capture of which we only saw the failure has no line to reverse.
    let of_failed =
        format!("a.data->>'provider', a.data->>'provider_payment', {captured_before}, a.data->>'currency'");
    let was_captured = format!("JOIN (SELECT 1) ON {captured_before} IS NOT NULL");
    let numbers = "':' || a.audit_id || CASE now.key WHEN 0 THEN '' ELSE ':' || now.key END";
    let of_dispute = |amount: &str| format!("p.provider, now.value->>'id', {amount}, a.data->>'currency'");
    // How a dispute stands `now`, and what it has withdrawn that has its line, as the record `b` before says.
    let dispute = |moved: &str| {
        format!(
            "JOIN payments p ON p.payment_id = a.subject JOIN {} now
             LEFT JOIN audit_records b ON b.object = a.object AND b.audit_id = {}
             LEFT JOIN {} was ON was.value->>'withdrawn' AND (was.value->>'id' = now.value->>'id' OR {})
             JOIN (SELECT 1) ON {} AND {moved}",
            disputes("a"),
            before("a", "d", "payment.disputed", &format!("AND {}", has_lines("d")), "d.audit_id"),
            disputes("b"),
            is_of_all("a"),
            has_lines("a"),
        )
    };
    let withdrawn = "now.value->>'amount' - coalesce(was.value->>'amount', 0)";
    let is_withdrawn = format!("now.value->>'withdrawn' AND {withdrawn} > 0");
    // No more comes back than is withdrawn. Where an earlier release has one line for all of them, what it says comes back with the dispute that it
    // names.
    let reinstated = format!(
        "CASE WHEN now.value->>'withdrawn' THEN was.value->>'amount' - now.value->>'amount'
            WHEN NOT {} THEN min(was.value->>'amount', now.value->>'amount')
            WHEN NOT {} THEN was.value->>'amount' ELSE now.value->>'amount' END",
        is_of_all("b"),
        is_of_all("a")
    );
    let is_reinstated = format!("was.key IS NOT NULL AND {reinstated} > 0");
    [
        first_captures(movements),
        numbered(&not_first, "capture", "payment.captured", of_payment, ""),
        numbered(each, "capture_failed", "payment.capture_failed", &of_failed, &was_captured),
        numbered(
            numbers,
            "dispute_withdrawn",
            "payment.disputed",
            &of_dispute(withdrawn),
            &dispute(&is_withdrawn),
        ),
        numbered(
            numbers,
            "dispute_reinstated",
            "payment.disputed",
            &of_dispute(&reinstated),
            &dispute(&is_reinstated),
        ),
        numbered(&again("refund.succeeded"), "refund", "refund.succeeded", of_refund, refunds),
        numbered(&again("refund.failed"), "refund_failed", "refund.failed", of_refund, &came_back),
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

/// The disputes of a record, one by one: of a record of an earlier release the one as which all were shown.
fn disputes(record: &str) -> String {
    format!(
        "json_each(coalesce({record}.data->'disputes', json_array(json_object('id', {record}.data->>'dispute',
            'amount', {record}.data->>'amount', 'withdrawn', {record}.data->>'funds_withdrawn'))))"
    )
}

/// Whether a record says of all disputes together what they have withdrawn.
fn is_of_all(record: &str) -> String {
    format!("{record}.data->'disputes' IS NULL")
}

/// Whether what a record of disputes says has its lines. What an earlier release recorded has none where money was withdrawn already.
fn has_lines(record: &str) -> String {
    let was_withdrawn = before(record, "c", "payment.disputed", "", "c.data->>'funds_withdrawn'");
    format!(
        "(NOT {} OR NOT {record}.data->>'funds_withdrawn' OR NOT coalesce({was_withdrawn}, 0))",
        is_of_all(record)
    )
}

/// What the newest record `it` of an action says that came before the record `of`. All records of a subject are of its object, and few: the plus
/// keeps SQLite from the index of the action, which has very many.
fn before(of: &str, it: &str, action: &str, condition: &str, value: &str) -> String {
    format!(
        "(SELECT {value} FROM audit_records {it} WHERE {it}.object = {of}.object AND {it}.subject = {of}.subject
            AND +{it}.action = '{action}' AND {it}.audit_id < {of}.audit_id {condition} ORDER BY {it}.audit_id DESC LIMIT 1)"
    )
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use rusqlite::{Connection, Row};
    use serde_json::{Value as Json, json};

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
            for whole in
                ["SCAN a", "SCAN b", "SCAN c", "SCAN d", "SCAN p", "SCAN first", "SCAN done", "SCAN r"]
            {
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

    /// The lines of what was recorded one a millisecond: the same, made one by one and all at once.
    fn lines_of<T: PartialEq + Debug>(
        model: &Connection,
        records: usize,
        select: &str,
        line: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Vec<T> {
        let end = records as i64;
        let slices = [(0..end).map(|at| (at, at + 1)).collect::<Vec<_>>(), vec![(0, end)]];
        let [one_by_one, at_once] = slices.map(|slices| {
            let closing = "INSERT OR REPLACE INTO settlement_closings VALUES ('f', 'd', 0, 9, 0, 1, 9)";
            model.execute_batch(&format!("DELETE FROM settlement_lines; {closing}")).unwrap();
            for (from, until) in slices {
                for sql in insert(Movements::InTime) {
                    model.execute(&sql, ("f", from, until, 1)).unwrap();
                }
            }
            let mut statement = model.prepare(select).unwrap();
            statement.query_map((), &line).unwrap().map(Result::unwrap).collect::<Vec<_>>()
        });
        assert_eq!(one_by_one, at_once);
        at_once
    }

    /// Whether a line says that money was withdrawn, of which dispute, and how much.
    type Moved = (bool, &'static str, i64);

    /// What these records of a payment's disputes, one a millisecond, have as lines, made from two of them on, and from all at once.
    fn moved(records: &[Json]) -> Vec<Moved> {
        let model = read_model();
        let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms) VALUES ('pay_1', 'o', 1, 'a', 'disputed', 900, 900, 0, 'usd', 'stripe', 1, '{}', 0, 0)";
        model.execute(sql, ()).unwrap();
        for (number, data) in (0_i64..).zip(records) {
            let sql = "INSERT INTO audit_records VALUES ('o', ?1, ?1, 'a', 'payment.disputed', 'pay_1', ?2)";
            model.execute(sql, (number, data.to_string())).unwrap();
        }
        let sql = "SELECT kind = 'dispute_withdrawn', provider_reference, amount_minor, line_id FROM settlement_lines ORDER BY at_ms, line_id";
        let line = |row: &Row<'_>| {
            let id = if row.get::<_, String>(1)? == "A" { "A" } else { "B" };
            Ok(((row.get(0)?, id, row.get(2)?), row.get::<_, String>(3)?))
        };
        let at_once = lines_of(&model, records.len(), sql, line);
        at_once.into_iter().map(|(moved, _)| moved).collect()
    }

    /// As an earlier release recorded it.
    fn of_all(id: &str, amount: u32, is_withdrawn: bool) -> Json {
        json!({ "dispute": id, "amount": amount, "currency": "usd", "funds_withdrawn": is_withdrawn })
    }

    fn of_each(disputes: &[(&str, u32, bool)]) -> Json {
        let each = |&(id, amount, withdrawn): &(&str, u32, bool)| json!({ "id": id, "amount": amount, "withdrawn": withdrawn });
        let mut data =
            of_all(disputes[0].0, disputes.iter().map(|one| one.1).sum(), disputes.iter().any(|one| one.2));
        data["disputes"] = disputes.iter().map(each).collect();
        data
    }

    #[test]
    fn each_dispute_has_lines_of_its_own() {
        let (a, b) = (("A", 300, true), ("B", 500, true));
        let (a_back, b_back) = (("A", 300, false), ("B", 500, false));
        // Both are withdrawn, and won at once.
        let both = [
            of_each(&[a]),
            of_each(&[b_back, a]),
            of_each(&[b, a]),
            of_each(&[b, a]),
            of_each(&[b_back, a_back]),
        ];
        assert_eq!(moved(&both), [(true, "A", 300), (true, "B", 500), (false, "B", 500), (false, "A", 300)]);
        // Of one the bank only asks.
        assert_eq!(moved(&[of_each(&[b_back]), of_each(&[b_back, a])]), [(true, "A", 300)]);
        // One takes while the other one comes back.
        assert_eq!(
            moved(&[of_each(&[a]), of_each(&[b, a_back])]),
            [(true, "A", 300), (false, "A", 300), (true, "B", 500)]
        );
        // More of the same, and less of it back.
        let more = [of_each(&[a]), of_each(&[("A", 400, true)]), of_each(&[("A", 350, false)])];
        assert_eq!(moved(&more), [(true, "A", 300), (true, "A", 100), (false, "A", 350)]);
        // A part comes back, and then the rest.
        let parts = [of_each(&[a]), of_each(&[("A", 180, true)]), of_each(&[a_back])];
        assert_eq!(moved(&parts), [(true, "A", 300), (false, "A", 120), (false, "A", 180)]);
    }

    #[test]
    fn records_of_earlier_releases_keep_their_lines_and_what_had_none_follows() {
        let (a, b) = (("A", 300, true), ("B", 500, true));
        let (a_back, b_back) = (("A", 300, false), ("B", 500, false));
        let one = [
            of_all("A", 300, false),
            of_all("A", 300, true),
            of_all("A", 300, true),
            of_all("A", 300, false),
        ];
        assert_eq!(moved(&one), [(true, "A", 300), (false, "A", 300)]);
        let then = [of_all("A", 300, true), of_each(&[a]), of_each(&[a_back])];
        assert_eq!(moved(&then), [(true, "A", 300), (false, "A", 300)]);
        // The second withdrawal had none.
        let second =
            [of_all("A", 300, true), of_all("B", 800, true), of_each(&[b, a]), of_each(&[b_back, a_back])];
        assert_eq!(
            moved(&second),
            [(true, "A", 300), (true, "B", 500), (false, "B", 500), (false, "A", 300)]
        );
        let won = [of_all("A", 300, true), of_all("B", 800, true), of_each(&[b_back, a_back])];
        assert_eq!(moved(&won), [(true, "A", 300), (false, "A", 300)]);
        // What was asked for was in the sum.
        let asked = [of_all("B", 500, false), of_all("B", 800, true), of_each(&[b_back, a])];
        assert_eq!(moved(&asked), [(true, "B", 800), (false, "B", 800), (true, "A", 300)]);
    }

    /// The lines of a refund of which this was recorded, one a moment, made one by one and at once.
    fn lines_of_refund(records: &[&str]) -> Vec<String> {
        let model = read_model();
        let payment = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms) VALUES ('pay_1', 'o', 1, 'a', 'succeeded', 900, 900, 0, 'usd', 'adyen', 1, '{}', 0, 0)";
        let refund = "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
                created_at_ms, updated_at_ms) VALUES ('re_1', 'pay_1', 1, 'succeeded', 900, 'usd', 'r', 'adyen', 'psp', 0, 0)";
        for sql in [payment, refund] {
            model.execute(sql, ()).unwrap();
        }
        for (number, action) in (0_i64..).zip(records) {
            let sql = "INSERT INTO audit_records VALUES ('o', ?1, ?1, 'a', 'refund.' || ?2, 're_1', '{}')";
            model.execute(sql, (number, action)).unwrap();
        }
        let sql = "SELECT line_id FROM settlement_lines ORDER BY at_ms";
        lines_of(&model, records.len(), sql, |row| row.get(0))
    }

    #[test]
    fn a_refund_has_a_line_each_time_that_it_is_made_and_each_time_that_it_comes_back() {
        assert_eq!(lines_of_refund(&["succeeded", "failed"]), ["re_1:refund", "re_1:refund_failed"]);
        // What was called refused, and is made after all.
        assert_eq!(lines_of_refund(&["failed", "succeeded"]), ["re_1:refund"]);
        assert_eq!(
            lines_of_refund(&["succeeded", "undone", "repeated", "failed", "succeeded", "failed"]),
            ["re_1:refund", "re_1:refund_failed", "re_1:refund:4", "re_1:refund_failed:5"]
        );
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
