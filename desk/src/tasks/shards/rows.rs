//! The statements with which the rows of payments are taken from D1 into a shard. A row travels as the text of a JSON array of its columns: so
//! it is deleted only if it still is what was read.

use runtime::db::Statement;

/// A table, as it is moved.
pub(super) struct Table {
    name: &'static str,
    key: &'static str,
    /// All of its columns.
    columns: &'static [&'static str],
    /// Which rows belong to the payments `?1` and their objects `?2`, two JSON arrays.
    of_payments: &'static str,
    /// What else must hold for a row to be taken in. `?2` is a JSON object that gives the payment of each object.
    guard: &'static str,
    merge: Merge,
    /// What else must hold for a row to be deleted.
    last: &'static str,
}

/// What becomes of a row that the shard has already.
enum Merge {
    /// The shard's stays: it never changes.
    Keep,
    /// The newer one by this column replaces the other.
    Newer(&'static str),
    /// Each column by itself.
    Columns(fn(&str) -> String),
    /// What an operator has accepted stays accepted.
    Accepted,
}

/// How many columns of a row stand together: a function of D1's SQL takes at most 32 values.
const PART: usize = 16;

/// A column of a row, by its place.
fn value(place: usize) -> String {
    format!("value ->> '$[{}][{}]'", place / PART, place % PART)
}

/// All of them, in the order in which they are taken in: a key before the payment in whose row it may stand.
pub(super) const TABLES: [Table; 7] = [KEYS, PAYMENTS, REFUNDS, AUDIT, JOBS, BREAKS, LINES];
/// The order in which they are deleted, as positions in [`TABLES`]: refunds after their jobs, and the payments last. The lines of settlement files
/// stay, for the bank's answers.
pub(super) const DELETED: [usize; 6] = [0, 3, 4, 5, 2, 1];

const KEYS: Table = Table {
    name: "keys",
    key: "object",
    columns: &[
        "object", "key_id", "version", "key_hash", "owner", "operation", "status", "recovery_point", "attempts",
        "failures", "in_doubt", "flagged", "response_status", "wake_at_ms", "created_at_ms", "finished_at_ms",
        "updated_at_ms", "expires_at_ms",
    ],
    of_payments: "object IN (SELECT value FROM json_each(?2)) AND ?1 IS NOT NULL",
    // It has moved into the payment's row meanwhile.
    guard: "NOT EXISTS (SELECT 1 FROM payments WHERE payment_id = ?2 ->> (value ->> '$[0][0]') AND value ->> '$[0][1]' = 1
        AND key_hash IS NOT NULL AND version >= value ->> '$[0][2]')",
    merge: Merge::Newer("version"),
    last: "true",
};

const PAYMENTS: Table = Table {
    name: "payments",
    key: "payment_id",
    columns: &[
        "payment_id", "object", "version", "owner", "status", "amount_minor", "captured_minor", "refunded_minor",
        "currency", "provider", "provider_payment", "order_id", "failure_code", "attempt", "shown", "created_at_ms",
        "updated_at_ms", "woken_at_ms", "refunded_elsewhere_minor", "listed_payment", "moved_payment",
        "pending_operation", "wake_at_ms", "stripe_account", "key_hash", "key_attempts", "key_response_status",
        "key_finished_at_ms", "key_expires_at_ms", "created_data", "captured_data", "captured_at_ms", "done_jobs",
        "merchant_account",
    ],
    of_payments: "payment_id IN (SELECT value FROM json_each(?1)) AND ?2 IS NOT NULL",
    guard: "?2 IS NOT NULL",
    merge: Merge::Columns(of_payment),
    // It goes last: by it the others are found.
    last: "NOT EXISTS (SELECT 1 FROM keys WHERE object = payments.object)
        AND NOT EXISTS (SELECT 1 FROM audit_records WHERE object = payments.object)
        AND NOT EXISTS (SELECT 1 FROM refunds WHERE payment_id = payments.payment_id)
        AND NOT EXISTS (SELECT 1 FROM jobs WHERE job_id > payments.object || '_' AND job_id < payments.object || '`')
        AND NOT EXISTS (SELECT 1 FROM jobs WHERE job_id > payments.payment_id || '_' AND job_id < payments.payment_id || '`')
        AND NOT EXISTS (SELECT 1 FROM breaks WHERE break_id >= 'capture_failed:' || payments.payment_id || ':'
            AND break_id < 'capture_failed:' || payments.payment_id || ';')
        AND NOT EXISTS (SELECT 1 FROM breaks WHERE break_id >= 'asked:' || payments.object || ':'
            AND break_id < 'asked:' || payments.object || ';')
        AND NOT EXISTS (SELECT 1 FROM breaks WHERE break_id IN ('silent:adyen:' || payments.payment_id,
            'unmoved:stripe:' || payments.provider_payment, 'unsettled:adyen:' || payments.provider_payment))",
};

const REFUNDS: Table = Table {
    name: "refunds",
    key: "refund_id",
    columns: &[
        "refund_id",
        "payment_id",
        "version",
        "status",
        "amount_minor",
        "currency",
        "reason",
        "provider",
        "provider_refund",
        "created_at_ms",
        "updated_at_ms",
        "moved_refund",
    ],
    of_payments: "payment_id IN (SELECT value FROM json_each(?1)) AND ?2 IS NOT NULL",
    guard: "?2 IS NOT NULL",
    merge: Merge::Columns(of_refund),
    // Their job and their break are found by them.
    last: "NOT EXISTS (SELECT 1 FROM jobs WHERE job_id = refund_id || '_receipt')
        AND NOT EXISTS (SELECT 1 FROM breaks WHERE break_id = 'unmoved:stripe:' || provider_refund)",
};

const AUDIT: Table = Table {
    name: "audit_records",
    key: "object",
    columns: &["object", "audit_id", "at_ms", "actor", "action", "subject", "data"],
    of_payments: "object IN (SELECT value FROM json_each(?2)) AND ?1 IS NOT NULL",
    guard: "?2 IS NOT NULL",
    merge: Merge::Keep,
    last: "true",
};

const JOBS: Table = Table {
    name: "jobs",
    key: "job_id",
    columns: &[
        "job_id", "kind", "object", "state", "attempts", "payload", "frozen", "first_at_ms", "history", "result",
        "staged_at_ms", "updated_at_ms",
    ],
    of_payments: "job_id IN (
            SELECT of.job_id FROM json_each(?2) AS it CROSS JOIN jobs AS of ON of.job_id > it.value || '_' AND of.job_id < it.value || '`'
            UNION SELECT of.job_id FROM json_each(?1) AS it CROSS JOIN jobs AS of ON of.job_id > it.value || '_' AND of.job_id < it.value || '`'
            UNION SELECT refund_id || '_receipt' FROM refunds WHERE payment_id IN (SELECT value FROM json_each(?1))
            UNION SELECT of.job_id FROM jobs AS of WHERE of.object IN (SELECT value FROM json_each(?2)) AND of.state IN ('dead', 'attempted'))",
    guard: "?2 IS NOT NULL",
    merge: Merge::Newer("updated_at_ms"),
    last: "true",
};

const BREAKS: Table = Table {
    name: "breaks",
    key: "break_id",
    columns: &[
        "break_id", "kind", "provider", "provider_payment", "resource", "object", "ours", "theirs", "state", "note",
        "first_seen_at_ms", "last_seen_at_ms", "asked_at_ms", "stripe_account",
    ],
    // Those that are made and closed where the payment is.
    of_payments: "break_id IN (
            SELECT of.break_id FROM json_each(?1) AS it CROSS JOIN breaks AS of
                ON of.break_id >= 'capture_failed:' || it.value || ':' AND of.break_id < 'capture_failed:' || it.value || ';'
            UNION SELECT of.break_id FROM json_each(?2) AS it CROSS JOIN breaks AS of
                ON of.break_id >= 'asked:' || it.value || ':' AND of.break_id < 'asked:' || it.value || ';'
            UNION SELECT 'silent:adyen:' || value FROM json_each(?1)
            UNION SELECT kind.value || provider_payment FROM json_each('[\"unmoved:stripe:\",\"unsettled:adyen:\"]') AS kind
                CROSS JOIN payments WHERE payment_id IN (SELECT value FROM json_each(?1))
            UNION SELECT 'unmoved:stripe:' || provider_refund FROM refunds WHERE payment_id IN (SELECT value FROM json_each(?1)))",
    guard: "?2 IS NOT NULL",
    merge: Merge::Accepted,
    last: "true",
};

/// Those that D1's settlement files have: so the shard makes none of them once more. D1 makes no other of a payment that is to be moved.
const LINES: Table = Table {
    name: "settlement_lines",
    key: "line_id",
    columns: &[
        "line_id",
        "file",
        "kind",
        "provider",
        "provider_reference",
        "amount_minor",
        "currency",
        "at_ms",
    ],
    of_payments: "line_id IN (
            SELECT of.line_id FROM json_each(?1) AS it CROSS JOIN settlement_lines AS of
                ON of.line_id > it.value || ':' AND of.line_id < it.value || ';' WHERE ?2 IS NOT NULL
            UNION SELECT of.line_id FROM refunds AS it CROSS JOIN settlement_lines AS of
                ON of.line_id > it.refund_id || ':' AND of.line_id < it.refund_id || ';'
                WHERE it.payment_id IN (SELECT value FROM json_each(?1)))",
    guard: "?2 IS NOT NULL",
    merge: Merge::Keep,
    last: "true",
};

/// What a column of a payment becomes that both have.
fn of_payment(column: &str) -> String {
    match column {
        // Each is told once, or was found once.
        "created_data" | "captured_data" | "captured_at_ms" | "woken_at_ms" | "listed_payment" | "moved_payment" => {
            format!("coalesce(payments.{column}, excluded.{column})")
        }
        "done_jobs" => "CASE WHEN payments.done_jobs IS NULL THEN excluded.done_jobs
            ELSE json_patch(coalesce(excluded.done_jobs, '{}'), payments.done_jobs) END"
            .to_owned(),
        // A snapshot may not tell of the first key.
        key if key.starts_with("key_") => format!(
            "CASE WHEN payments.key_hash IS NULL OR excluded.version > payments.version AND excluded.key_hash IS NOT NULL
                THEN excluded.{column} ELSE payments.{column} END"
        ),
        _ => format!("CASE WHEN excluded.version > payments.version THEN excluded.{column} ELSE payments.{column} END"),
    }
}

fn of_refund(column: &str) -> String {
    match column {
        "moved_refund" => "coalesce(refunds.moved_refund, excluded.moved_refund)".to_owned(),
        _ => format!(
            "CASE WHEN excluded.version > refunds.version THEN excluded.{column} ELSE refunds.{column} END"
        ),
    }
}

/// The breaks of a shard that are over: the first ones after `?1`, with their ids.
pub(in crate::tasks) fn closed_breaks() -> String {
    let row = BREAKS.row();
    format!(
        "SELECT break_id, {row} AS row FROM breaks WHERE state != 'open' AND break_id > ?1 ORDER BY break_id LIMIT 100"
    )
}

/// Writes them down elsewhere, too: the newer one stays.
pub(in crate::tasks) fn copy_breaks(rows: &str) -> Statement {
    Table { merge: Merge::Newer("last_seen_at_ms"), ..BREAKS }.write(rows, "{}")
}

impl Table {
    fn row(&self) -> String {
        let parts: Vec<String> =
            self.columns.chunks(PART).map(|part| format!("json_array({})", part.join(", "))).collect();
        format!("json_array({})", parts.join(", "))
    }

    /// The rows of the payments `?1` in the objects `?2`, as texts that begin with a digit.
    fn read(&self, digit: usize) -> String {
        format!("SELECT '{digit}' || {} AS row FROM {} WHERE {}", self.row(), self.name, self.of_payments)
    }

    /// Takes rows in. `payments` gives the payment of each object, as JSON.
    pub(super) fn write(&self, rows: &str, payments: &str) -> Statement {
        let Self { name, columns, guard, merge, .. } = self;
        let values: Vec<String> = (0..columns.len()).map(value).collect();
        let set = |of: &dyn Fn(&str) -> String| {
            let sets: Vec<String> =
                columns.iter().map(|column| format!("{column} = {}", of(column))).collect();
            format!("DO UPDATE SET {}", sets.join(", "))
        };
        let merge = match merge {
            Merge::Keep => "DO NOTHING".to_owned(),
            Merge::Newer(by) => {
                format!("{} WHERE excluded.{by} > {name}.{by}", set(&|column| format!("excluded.{column}")))
            }
            Merge::Columns(of) => set(of),
            Merge::Accepted => "DO UPDATE SET state = excluded.state, note = excluded.note
                WHERE excluded.state = 'accepted' AND breaks.ours IS excluded.ours AND breaks.theirs IS excluded.theirs"
                .to_owned(),
        };
        let sql = format!(
            "INSERT INTO {name} ({}) SELECT {} FROM json_each(?1) WHERE {guard} ON CONFLICT {merge}",
            columns.join(", "),
            values.join(", "),
        );
        Statement::new(sql, vec![rows.into(), payments.into()])
    }

    /// Deletes rows that still are what was read.
    pub(super) fn delete(&self, rows: &str) -> Statement {
        let Self { name, key, columns, last, .. } = self;
        let place = value(columns.iter().position(|column| column == key).unwrap_or_default());
        let sql = format!(
            "DELETE FROM {name} WHERE {key} IN (SELECT {place} FROM json_each(?1))
                AND {} IN (SELECT value FROM json_each(?1)) AND {last}",
            self.row()
        );
        Statement::new(sql, vec![rows.into()])
    }
}

/// All rows of the payments `?1` in the objects `?2`, at one moment: a key moves from its own row into that of its payment, and must be seen in
/// one of them. SQLite on Workers takes five selects in one `UNION ALL`: so they are in two.
pub(super) fn read_all() -> String {
    let each: Vec<String> = TABLES.iter().enumerate().map(|(digit, table)| table.read(digit)).collect();
    let parts: Vec<String> =
        each.chunks(3).map(|part| format!("SELECT row FROM ({})", part.join(" UNION ALL "))).collect();
    parts.join(" UNION ALL ")
}

/// The rows of each table, as JSON arrays, of what [`read_all`] has given.
pub(super) fn by_table(rows: &[String]) -> serde_json::Result<Vec<String>> {
    let of = |digit: usize| {
        let digit = digit.to_string();
        let rows: Vec<&str> = rows.iter().filter_map(|row| row.strip_prefix(digit.as_str())).collect();
        serde_json::to_string(&rows)
    };
    (0..TABLES.len()).map(of).collect()
}

/// A key that stands in the row of a payment that is taken in (`payments`) has no row of its own beside it, unless D1 has one (`keys`).
pub(super) fn key_is_in_payment(payments: &str, keys: &str) -> Statement {
    let sql = "DELETE FROM keys WHERE key_id = 1 AND object IN (SELECT value ->> '$[0][1]' FROM json_each(?1))
        AND EXISTS (SELECT 1 FROM json_each(?1) AS it WHERE it.value ->> '$[0][1]' = keys.object
            AND it.value ->> '$[1][8]' IS NOT NULL AND it.value ->> '$[0][2]' >= keys.version)
        AND NOT EXISTS (SELECT 1 FROM json_each(?2) AS it WHERE it.value ->> '$[0][0]' = keys.object AND it.value ->> '$[0][1]' = 1)";
    Statement::new(sql, vec![payments.into(), keys.into()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tasks::late::tests::read_model;

    #[test]
    fn every_column_of_every_table_is_moved() {
        let connection = read_model();
        for table in &TABLES {
            let sql = format!("SELECT name FROM pragma_table_info('{}')", table.name);
            let mut columns = connection.prepare(&sql).unwrap();
            let columns = columns.query_map((), |row| row.get::<_, String>(0)).unwrap();
            let columns: BTreeSet<String> = columns.map(Result::unwrap).collect();
            assert_eq!(
                columns,
                table.columns.iter().map(|column| (*column).to_owned()).collect(),
                "{}",
                table.name
            );
        }
        assert_eq!(DELETED.map(|place| TABLES[place].name).last(), Some(&"payments"));
        assert_eq!(
            (PAYMENTS.columns[1], PAYMENTS.columns[2], PAYMENTS.columns[24]),
            ("object", "version", "key_hash")
        );
        assert_eq!((KEYS.columns[0], KEYS.columns[1], KEYS.columns[2]), ("object", "key_id", "version"));
    }
}
