//! Writes a snapshot into the read model, where no newer one is.

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::{Map, Value};
use worker::{Env, Error, Result};

use super::together::Together;
use messages::job::JobPayment;
use messages::snapshot::{AuditRow, KeyRow, PaymentRow, Snapshot};
use runtime::db::{self, Db, Statement};
use runtime::places;

/// What is written into the read model together: one transaction of a place, for all that one batch of the queue brings at once.
pub(crate) type Writes = Together<Vec<Statement>, std::result::Result<Vec<usize>, String>>;

/// All of a snapshot, or nothing. The rows go as one JSON text a table: a batch has few statements, however many rows. Gives whether the
/// payment's row is this one: then it says that these jobs are done, too.
pub(crate) async fn project(
    env: &Env,
    snapshot: &Snapshot,
    done_jobs: &Map<String, Value>,
    together: &Writes,
) -> Result<bool> {
    let statements = statements(snapshot, done_jobs)?;
    if statements.is_empty() {
        return Ok(false);
    }
    let payments = statements.iter().position(|one| one.sql.starts_with("INSERT INTO payments"));
    let about = JobPayment::of_snapshot(snapshot);
    let db = places::home(env, about.as_ref(), &snapshot.object).await?.db;
    let name = db.name().map(str::to_owned);
    let written = together.ask(name.as_deref(), statements, async move |all| write(&db, all).await).await;
    let changed = written.unwrap_or_else(|| Err("not written".to_owned())).map_err(Error::RustError)?;
    Ok(payments.and_then(|position| changed.get(position).copied()).is_some_and(|rows| rows > 0))
}

/// Writes snapshots at once; where that cannot be each by itself, so that none keeps another one out. Gives how many rows the statements of each
/// have changed.
async fn write(db: &Db, snapshots: Vec<Vec<Statement>>) -> Vec<std::result::Result<Vec<usize>, String>> {
    if snapshots.len() > 1
        && let Ok(changed) = db.batch_changes(snapshots.concat()).await
    {
        let mut changed = changed.into_iter();
        let own = |one: &Vec<Statement>| Ok(changed.by_ref().take(one.len()).collect());
        return snapshots.iter().map(own).collect();
    }
    let apart = snapshots
        .into_iter()
        .map(|one| async move { db.batch_changes(one).await.map_err(|error| error.to_string()) });
    join_all(apart).await
}

fn statements(snapshot: &Snapshot, done_jobs: &Map<String, Value>) -> serde_json::Result<Vec<Statement>> {
    let (payment, apart) = split(snapshot, done_jobs);
    let mut statements = Vec::new();
    if !snapshot.refunds.is_empty() {
        statements.push(upsert(&REFUNDS, snapshot, &snapshot.refunds)?);
    }
    if !apart.keys.is_empty() {
        statements.push(upsert(&KEYS, snapshot, &apart.keys)?);
    }
    if let Some(payment) = payment {
        if payment.has_key {
            let sql = "DELETE FROM keys WHERE object = ?1 AND key_id = 1 AND version <= ?2";
            let values = vec![snapshot.object.as_str().into(), snapshot.version.into()];
            statements.push(Statement::new(sql, values));
        }
        statements.push(upsert(&PAYMENTS, snapshot, &[payment])?);
    }
    if !apart.audit.is_empty() {
        let sql = "INSERT INTO audit_records (object, audit_id, at_ms, actor, action, subject, data)
             SELECT ?1, value->>'audit_id', value->>'at_ms', value->>'actor', value->>'action', value->>'subject', value->>'data'
             FROM json_each(?2) WHERE NOT EXISTS (SELECT 1 FROM payments WHERE payment_id = ?3
                AND (value->>'audit_id' = 1 AND created_data IS NOT NULL OR value->>'audit_id' = 2 AND captured_data IS NOT NULL))
             ON CONFLICT (object, audit_id) DO NOTHING";
        let rows = serde_json::to_string(&apart.audit)?;
        let payment = snapshot.payment.as_ref().map(|payment| payment.payment_id.as_str());
        let values = vec![snapshot.object.as_str().into(), rows.as_str().into(), payment.into()];
        statements.push(Statement::new(sql, values));
        if apart.audit.iter().any(|record| record.action.starts_with(FOR_A_PERSON)) {
            let values = vec![snapshot.object.as_str().into(), rows.into()];
            statements.push(Statement::new(BREAKS, values));
        }
    }
    Ok(statements)
}

/// What stands in the payment's own row beside what the object says of it. `None` where it is not so, or not told.
#[derive(Serialize)]
struct Payment<'a> {
    #[serde(flatten)]
    payment: &'a PaymentRow,
    /// Whether the snapshot tells of the first key.
    tells_key: bool,
    #[serde(skip)]
    has_key: bool,
    key_hash: Option<&'a str>,
    key_attempts: Option<u32>,
    key_response_status: Option<u16>,
    key_finished_at_ms: Option<u64>,
    key_expires_at_ms: Option<u64>,
    created_data: Option<&'a str>,
    captured_data: Option<&'a str>,
    captured_at_ms: Option<u64>,
    done_jobs: Option<&'a Map<String, Value>>,
}

/// What has rows of its own.
struct Apart<'a> {
    keys: Vec<&'a KeyRow>,
    audit: Vec<&'a AuditRow>,
}

/// Which of it the payment's row holds, and which not.
fn split<'a>(snapshot: &'a Snapshot, done_jobs: &'a Map<String, Value>) -> (Option<Payment<'a>>, Apart<'a>) {
    let all = Apart { keys: snapshot.keys.iter().collect(), audit: snapshot.audit.iter().collect() };
    let Some(payment) = &snapshot.payment else { return (None, all) };
    let (of_payment, keys): (Vec<_>, Vec<_>) =
        all.keys.into_iter().partition(|key| is_of_payment(key, snapshot, payment));
    let is_record = |record: &AuditRow, audit_id: u64, action: &str| {
        (record.audit_id, record.action.as_str()) == (audit_id, action)
            && record.actor == snapshot.owner
            && record.subject == payment.payment_id
    };
    let is_created =
        |record: &AuditRow| is_record(record, 1, CREATED) && record.at_ms == payment.created_at_ms;
    let is_captured = |record: &AuditRow| is_record(record, 2, CAPTURED);
    let created = snapshot.audit.iter().find(|record| is_created(record));
    let captured = snapshot.audit.iter().find(|record| is_captured(record));
    let audit = all.audit.into_iter().filter(|record| !is_created(record) && !is_captured(record)).collect();
    let key = of_payment.first();
    let row = Payment {
        payment,
        tells_key: snapshot.keys.iter().any(|key| key.key_id == FIRST_KEY),
        has_key: key.is_some(),
        key_hash: key.map(|key| key.key_hash.as_str()),
        key_attempts: key.map(|key| key.attempts),
        key_response_status: key.and_then(|key| key.response_status),
        key_finished_at_ms: key.and_then(|key| key.finished_at_ms),
        key_expires_at_ms: key.and_then(|key| key.expires_at_ms),
        created_data: created.map(|record| record.data.as_str()),
        captured_data: captured.map(|record| record.data.as_str()),
        captured_at_ms: captured.map(|record| record.at_ms),
        done_jobs: (!done_jobs.is_empty()).then_some(done_jobs),
    };
    (Some(row), Apart { keys, audit })
}

/// Whether the payment's row says all of a key, as the view `key_list` reads it there.
fn is_of_payment(key: &KeyRow, snapshot: &Snapshot, payment: &PaymentRow) -> bool {
    let KeyRow { key_id, owner, operation, status, recovery_point, failures, in_doubt, flagged, .. } = key;
    *key_id == FIRST_KEY
        && *owner == snapshot.owner
        && operation.as_deref() == Some("payment")
        && status == "finished"
        && recovery_point == "finished"
        && (*failures, *in_doubt, *flagged) == (0, 0, 0)
        && key.wake_at_ms.is_none()
        && key.created_at_ms == payment.created_at_ms
}

/// The key under which a payment was made, but for one whose order was tried before.
const FIRST_KEY: u32 = 1;
/// The audit records that stand in the payment's row.
const CREATED: &str = "payment.created";
const CAPTURED: &str = "payment.captured";
/// With what the actions of audit records begin that a person must see.
const FOR_A_PERSON: &str = "webhook.";
/// Makes breaks of what was found by asking, and of what was told while nothing could be written here. Else what the provider tells by itself is a break
/// before this.
const BREAKS: &str =
    "INSERT INTO breaks (break_id, kind, provider, resource, object, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
     SELECT 'asked:' || ?1 || ':' || (value->>'audit_id'), 'webhook',
        coalesce(json_extract(value->>'data', '$.provider'), 'stripe'), value->>'subject', ?1,
        json_extract(value->>'data', '$.kind'), 'open',
        json_extract(value->>'data', '$.detail'), value->>'at_ms', value->>'at_ms'
     FROM json_each(?2)
     WHERE value->>'action' IN ('webhook.alert', 'webhook.contradicts')
        AND (json_extract(value->>'data', '$.kind') = 'asked' OR json_extract(value->>'data', '$.unwritten'))
     ON CONFLICT (break_id) DO NOTHING";

/// A table whose rows carry their object's version.
struct Table {
    name: &'static str,
    /// What of the object itself is written, besides the version.
    object: &'static [&'static str],
    key: &'static str,
    columns: &'static [&'static str],
    /// Columns that not every snapshot tells of.
    now_and_then: &'static [&'static str],
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
        "merchant_account",
        "order_id",
        "failure_code",
        "attempt",
        "pending_operation",
        "wake_at_ms",
        "shown",
        "created_at_ms",
    ],
    now_and_then: &[
        "key_hash",
        "key_attempts",
        "key_response_status",
        "key_finished_at_ms",
        "key_expires_at_ms",
        "created_data",
        "captured_data",
        "captured_at_ms",
        "done_jobs",
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
    now_and_then: &[],
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
    now_and_then: &[],
};

/// What a column becomes that this snapshot may not tell of. A record stays as it is; a key may have moved to a row of its own.
fn unless_told(column: &str) -> String {
    match column {
        "done_jobs" => "CASE WHEN excluded.done_jobs IS NULL THEN done_jobs
            ELSE json_patch(coalesce(done_jobs, '{}'), excluded.done_jobs) END"
            .to_owned(),
        key if key.starts_with("key_") => {
            format!("CASE WHEN ?5 ->> '$[0].tells_key' THEN excluded.{column} ELSE {column} END")
        }
        _ => format!("coalesce({column}, excluded.{column})"),
    }
}

fn upsert<T: Serialize>(table: &Table, snapshot: &Snapshot, rows: &[T]) -> serde_json::Result<Statement> {
    let Table { name, object, key, columns, now_and_then } = table;
    let always = [object, &["version", "updated_at_ms"][..], columns].concat();
    let of_object = object.iter().map(|column| if *column == "owner" { "?4" } else { "?1" });
    let of_row = columns.iter().chain(*now_and_then).map(|column| format!("value->>'{column}'"));
    let values: Vec<String> = of_object.chain(["?2", "?3"]).map(str::to_owned).chain(of_row).collect();
    let sets = always.iter().map(|column| format!("{column} = excluded.{column}"));
    let sets: Vec<String> =
        sets.chain(now_and_then.iter().map(|column| format!("{column} = {}", unless_told(column)))).collect();
    // An older snapshot brings nothing back that has moved into the payment's row.
    let sql = format!(
        "INSERT INTO {name} ({}) SELECT {} FROM json_each(?5)
         WHERE NOT EXISTS (SELECT 1 FROM payments WHERE payment_id = ?6 AND version >= ?2)
         ON CONFLICT ({key}) DO UPDATE SET {} WHERE excluded.version > {name}.version",
        [&always, *now_and_then].concat().join(", "),
        values.join(", "),
        sets.join(", "),
    );
    let rows = serde_json::to_string(rows)?;
    let values: Vec<db::Value> = vec![
        snapshot.object.as_str().into(),
        snapshot.version.into(),
        snapshot.at_ms.into(),
        snapshot.owner.as_str().into(),
        rows.into(),
        snapshot.payment.as_ref().map(|payment| payment.payment_id.as_str()).into(),
    ];
    Ok(Statement::new(sql, values))
}

#[cfg(test)]
mod tests {
    use crate::readmodel::for_tests::read_model;
    use rusqlite::Connection;
    use rusqlite::types::Value as Sql;
    use serde_json::json;

    use super::*;

    fn told(model: &Connection, snapshot: &Snapshot) {
        told_with(model, snapshot, &Map::new());
    }

    fn told_with(model: &Connection, snapshot: &Snapshot, done_jobs: &Map<String, Value>) {
        for Statement { sql, values } in statements(snapshot, done_jobs).unwrap() {
            let values = values.into_iter().map(|value| match value {
                db::Value::Null => Sql::Null,
                db::Value::Number(number) => Sql::Integer(number.cast_signed()),
                db::Value::Text(text) => Sql::Text(text),
            });
            model.execute(&sql, rusqlite::params_from_iter(values)).unwrap();
        }
    }

    fn text(model: &Connection, sql: &str) -> String {
        model.query_row(sql, (), |row| row.get::<_, Option<String>>(0)).unwrap().unwrap_or_default()
    }

    /// How many rows each of the three tables has.
    fn rows(model: &Connection) -> [u32; 3] {
        ["payments", "keys", "audit_records"].map(|table| {
            model.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0)).unwrap()
        })
    }

    const KEYS_SHOWN: &str =
        "SELECT group_concat(key_id || ' ' || status || ' ' || response_status || ' ' || expires_at_ms, ', ')
         FROM (SELECT * FROM key_list ORDER BY key_id)";
    const AUDIT_SHOWN: &str = "SELECT group_concat(audit_id || ' ' || at_ms || ' ' || actor || ' ' || action || ' ' || subject || ' ' || data, ', ')
         FROM (SELECT * FROM audit_trail ORDER BY audit_id)";

    fn snapshot(version: u64) -> Snapshot {
        let payment = json!({
            "payment_id": "pay_1", "status": "succeeded", "amount_minor": 5, "captured_minor": 5, "refunded_minor": 0,
            "currency": "usd", "provider": "stripe", "provider_payment": null, "order_id": null, "failure_code": null,
            "attempt": 1, "shown": "{}", "created_at_ms": 10,
        });
        let record = |audit_id: u64, at_ms: u64, action: &str, data: &str| json!({ "audit_id": audit_id, "at_ms": at_ms, "actor": "account:a", "action": action, "subject": "pay_1", "data": data });
        let audit = [record(1, 10, CREATED, r#"{"a":1}"#), record(2, 12, CAPTURED, r#"{"b":2}"#)];
        serde_json::from_value(json!({
            "object": "o", "version": version, "at_ms": 20, "owner": "account:a", "payment": payment, "refunds": [],
            "keys": [key(1)], "audit": audit,
        }))
        .unwrap()
    }

    fn key(key_id: u32) -> serde_json::Value {
        json!({
            "key_id": key_id, "key_hash": "h", "owner": "account:a", "operation": "payment", "status": "finished",
            "recovery_point": "finished", "attempts": 1, "failures": 0, "in_doubt": 0, "flagged": 0, "response_status": 201,
            "wake_at_ms": null, "created_at_ms": 10, "finished_at_ms": 12, "expires_at_ms": 99,
        })
    }

    fn open(version: u64) -> Snapshot {
        let mut open = snapshot(version);
        open.keys[0].status = "open".to_owned();
        open.keys[0].wake_at_ms = Some(15);
        open.audit.truncate(1);
        open
    }

    const BOTH_RECORDS: &str =
        r#"1 10 account:a payment.created pay_1 {"a":1}, 2 12 account:a payment.captured pay_1 {"b":2}"#;

    #[test]
    fn an_ordinary_payment_is_one_row_and_is_listed_as_a_key_and_two_records() {
        let model = read_model();
        told(&model, &snapshot(2));
        assert_eq!(rows(&model), [1, 0, 0]);
        assert_eq!(text(&model, KEYS_SHOWN), "1 finished 201 99");
        assert_eq!(text(&model, AUDIT_SHOWN), BOTH_RECORDS);
        // The next one tells of the key and of later records alone.
        let mut later = snapshot(3);
        later.audit.clear();
        told(&model, &later);
        assert_eq!(text(&model, AUDIT_SHOWN), BOTH_RECORDS);
        // One that does not tell of the first key leaves it as it is.
        let mut without = snapshot(4);
        without.keys.clear();
        told(&model, &without);
        assert_eq!((rows(&model), text(&model, KEYS_SHOWN).as_str()), ([1, 0, 0], "1 finished 201 99"));
    }

    #[test]
    fn a_key_that_was_open_moves_into_the_payment_and_no_older_snapshot_brings_it_back() {
        let model = read_model();
        told(&model, &open(1));
        assert_eq!(rows(&model), [1, 1, 0]);
        told(&model, &snapshot(2));
        told(&model, &open(1));
        told(&model, &snapshot(2));
        assert_eq!(rows(&model), [1, 0, 0]);
        assert_eq!(text(&model, KEYS_SHOWN), "1 finished 201 99");
        assert_eq!(text(&model, AUDIT_SHOWN), BOTH_RECORDS);
    }

    #[test]
    fn jobs_that_are_done_stand_in_the_payment_and_stay_there() {
        let model = read_model();
        let done = |job_id: &str, at_ms: u64| {
            Map::from_iter([(job_id.to_owned(), json!(["send_receipt", "an id", 10, at_ms]))])
        };
        let shown = || {
            text(
                &model,
                "SELECT group_concat(job_id || ' ' || kind || ' ' || state || ' ' || result || ' ' || staged_at_ms || ' ' || updated_at_ms, ', ')
                 FROM (SELECT * FROM job_list ORDER BY job_id)",
            )
        };
        told_with(&model, &snapshot(1), &done("a", 11));
        told(&model, &snapshot(2));
        told_with(&model, &snapshot(3), &done("b", 12));
        let both = "a send_receipt done an id 10 11, b send_receipt done an id 10 12";
        assert_eq!(shown(), both);
        // Who brings an older snapshot has to say it by itself.
        told_with(&model, &snapshot(3), &done("c", 13));
        assert_eq!(shown(), both);
        // A row of its own is preferred.
        model
            .execute(
                "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, result, staged_at_ms, updated_at_ms)
                 VALUES ('a', 'send_receipt', 'o', 'dead', 5, 1, '[]', 'none', 2, 3)",
                (),
            )
            .unwrap();
        assert!(shown().starts_with("a send_receipt dead none 2 3, b "));
    }

    #[test]
    fn what_is_not_ordinary_has_a_row_of_its_own() {
        let differs: [fn(&mut Snapshot); 7] = [
            |it| it.keys[0].flagged = 1,
            |it| it.keys[0].failures = 2,
            |it| it.keys[0].in_doubt = 1,
            |it| it.keys[0].key_id = 2,
            |it| it.keys[0].status = "expired".to_owned(),
            |it| it.keys[0].created_at_ms = 11,
            |it| it.keys[0].owner = "account:b".to_owned(),
        ];
        for differs in differs {
            let mut told_of = snapshot(1);
            differs(&mut told_of);
            let model = read_model();
            told(&model, &told_of);
            assert_eq!(rows(&model), [1, 1, 0]);
            // It may have been ordinary before, unless it is another one.
            if told_of.keys[0].key_id == 1 {
                let model = read_model();
                told(&model, &snapshot(1));
                told_of.version = 2;
                told(&model, &told_of);
                assert_eq!(rows(&model), [1, 1, 0]);
                assert_eq!(text(&model, "SELECT count(*) || key_hash FROM key_list"), "1h");
                assert_eq!(text(&model, "SELECT key_hash FROM payments"), "");
            }
        }
        let differs: [fn(&mut Snapshot); 5] = [
            |it| it.audit[0].actor = "account:b".to_owned(),
            |it| it.audit[0].at_ms = 11,
            |it| it.audit[1].action = "payment.failed".to_owned(),
            |it| it.audit[1].audit_id = 3,
            |it| it.audit[1].subject = "pay_2".to_owned(),
        ];
        for differs in differs {
            let mut told_of = snapshot(1);
            differs(&mut told_of);
            let model = read_model();
            told(&model, &told_of);
            assert_eq!(rows(&model), [1, 0, 1]);
            assert_eq!(text(&model, "SELECT CAST(count(*) AS TEXT) FROM audit_trail"), "2");
        }
    }

    #[test]
    fn what_the_release_before_has_written_stays_and_is_listed_once() {
        let model = read_model();
        // As it writes while the new release does, too: the key and the records have rows.
        told(&model, &snapshot(1));
        model
            .execute_batch(
                "INSERT INTO keys (object, key_id, version, key_hash, owner, operation, status, recovery_point, attempts, failures,
                    in_doubt, flagged, response_status, created_at_ms, finished_at_ms, updated_at_ms, expires_at_ms)
                 VALUES ('o', 1, 2, 'h', 'account:a', 'payment', 'finished', 'finished', 1, 0, 0, 0, 201, 10, 12, 20, 98);
                 INSERT INTO audit_records VALUES ('o', 1, 10, 'account:a', 'payment.created', 'pay_1', '{\"a\":1}');
                 INSERT INTO audit_records VALUES ('o', 2, 12, 'account:a', 'payment.captured', 'pay_1', '{\"b\":2}');",
            )
            .unwrap();
        assert_eq!(text(&model, KEYS_SHOWN), "1 finished 201 98");
        assert_eq!(text(&model, AUDIT_SHOWN), BOTH_RECORDS);
        // The key's row goes with the next snapshot.
        told(&model, &snapshot(3));
        assert_eq!((rows(&model), text(&model, KEYS_SHOWN).as_str()), ([1, 0, 2], "1 finished 201 99"));
    }
}
