//! Writes a snapshot into the read model, where no newer one is.

use serde::Serialize;
use worker::{D1PreparedStatement, Env, Result};

use messages::snapshot::Snapshot;
use runtime::db::{Db, Value};

/// All of a snapshot, or nothing. The rows go as one JSON text a table: a batch has few statements, however many rows.
pub async fn project(env: &Env, snapshot: &Snapshot) -> Result<()> {
    let db = Db::of(env)?;
    let mut statements = Vec::new();
    if let Some(payment) = &snapshot.payment {
        statements.push(upsert(&db, &PAYMENTS, snapshot, std::slice::from_ref(payment))?);
    }
    if !snapshot.refunds.is_empty() {
        statements.push(upsert(&db, &REFUNDS, snapshot, &snapshot.refunds)?);
    }
    if !snapshot.keys.is_empty() {
        statements.push(upsert(&db, &KEYS, snapshot, &snapshot.keys)?);
    }
    if !snapshot.audit.is_empty() {
        let sql = "INSERT INTO audit_records (object, audit_id, at_ms, actor, action, subject, data)
             SELECT ?1, value->>'audit_id', value->>'at_ms', value->>'actor', value->>'action', value->>'subject', value->>'data'
             FROM json_each(?2) WHERE true ON CONFLICT (object, audit_id) DO NOTHING";
        let rows = serde_json::to_string(&snapshot.audit)?;
        statements.push(db.statement(sql, vec![snapshot.object.as_str().into(), rows.as_str().into()])?);
        // What the provider tells by itself is a break before this: here is only what was found by asking.
        if snapshot.audit.iter().any(|record| record.action == ALERT) {
            statements
                .push(db.statement(FOUND_BY_ASKING, vec![snapshot.object.as_str().into(), rows.into()])?);
        }
    }
    if statements.is_empty() {
        return Ok(());
    }
    db.batch(statements).await
}

/// The audit records that a person must see.
const ALERT: &str = "webhook.alert";
/// Makes breaks of them.
const FOUND_BY_ASKING: &str =
    "INSERT INTO breaks (break_id, kind, provider, resource, object, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
     SELECT 'asked:' || ?1 || ':' || (value->>'audit_id'), 'webhook',
        coalesce(json_extract(value->>'data', '$.provider'), 'stripe'), value->>'subject', ?1, 'asked', 'open',
        json_extract(value->>'data', '$.detail'), value->>'at_ms', value->>'at_ms'
     FROM json_each(?2)
     WHERE value->>'action' = 'webhook.alert' AND json_extract(value->>'data', '$.kind') = 'asked'
     ON CONFLICT (break_id) DO NOTHING";

/// A table whose rows carry their object's version.
struct Table {
    name: &'static str,
    /// What of the object itself is written, besides the version.
    object: &'static [&'static str],
    key: &'static str,
    columns: &'static [&'static str],
}

const PAYMENTS: Table = Table {
    name: "payments",
    object: &["object", "owner"],
    key: "payment_id",
    columns: &[
        "payment_id",
        "status",
        "amount_minor",
        "captured_minor",
        "refunded_minor",
        "refunded_elsewhere_minor",
        "currency",
        "provider",
        "provider_payment",
        "stripe_account",
        "order_id",
        "failure_code",
        "attempt",
        "pending_operation",
        "wake_at_ms",
        "shown",
        "created_at_ms",
    ],
};
const REFUNDS: Table = Table {
    name: "refunds",
    object: &[],
    key: "refund_id",
    columns: &[
        "refund_id",
        "payment_id",
        "status",
        "amount_minor",
        "currency",
        "reason",
        "provider",
        "provider_refund",
        "created_at_ms",
    ],
};
const KEYS: Table = Table {
    name: "keys",
    object: &["object"],
    key: "object, key_id",
    columns: &[
        "key_id",
        "key_hash",
        "owner",
        "operation",
        "status",
        "recovery_point",
        "attempts",
        "failures",
        "in_doubt",
        "flagged",
        "response_status",
        "wake_at_ms",
        "created_at_ms",
        "finished_at_ms",
        "expires_at_ms",
    ],
};

fn upsert<T: Serialize>(
    db: &Db,
    table: &Table,
    snapshot: &Snapshot,
    rows: &[T],
) -> Result<D1PreparedStatement> {
    let Table { name, object, key, columns } = table;
    let all = [object, &["version", "updated_at_ms"][..], columns].concat();
    let of_object = object.iter().map(|column| if *column == "owner" { "?4" } else { "?1" });
    let of_row = columns.iter().map(|column| format!("value->>'{column}'"));
    let values: Vec<String> = of_object.chain(["?2", "?3"]).map(str::to_owned).chain(of_row).collect();
    let sets: Vec<String> = all.iter().map(|column| format!("{column} = excluded.{column}")).collect();
    let sql = format!(
        "INSERT INTO {name} ({}) SELECT {} FROM json_each(?5) WHERE true
         ON CONFLICT ({key}) DO UPDATE SET {} WHERE excluded.version > {name}.version",
        all.join(", "),
        values.join(", "),
        sets.join(", "),
    );
    let rows = serde_json::to_string(rows)?;
    let values: Vec<Value> = vec![
        snapshot.object.as_str().into(),
        snapshot.version.into(),
        snapshot.at_ms.into(),
        snapshot.owner.as_str().into(),
        rows.into(),
    ];
    db.statement(&sql, values)
}
