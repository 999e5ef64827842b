//! What the simulation of the settlement over places needs: databases with its clock, payments that are written into them, and who judges the files.

#[cfg(test)]
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use data_encoding::HEXLOWER;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

use crate::tasks::late::tests::read_model;
use crate::tasks::simulation::{bound, execute};
use runtime::db::Statement;

pub(in crate::tasks) struct Payment {
    pub(super) object: String,
    pub(super) owner: String,
    pub(super) made_at_ms: u64,
    /// When each version of it came to be.
    pub(super) versions: Vec<u64>,
    /// How many of them the read model has been told.
    pub(super) told: usize,
}

pub(in crate::tasks) fn json_rows(
    connection: &Connection,
    Statement { sql, values }: &Statement,
) -> Vec<Json> {
    let mut statement = connection.prepare_cached(sql).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map(bound(values), |row| {
        let mut object = Map::new();
        for (place, name) in names.iter().enumerate() {
            let value = match row.get_ref(place)? {
                ValueRef::Integer(number) => json!(number),
                ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
                _ => Json::Null,
            };
            object.insert(name.clone(), value);
        }
        Ok(Json::Object(object))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

pub(in crate::tasks) fn database(clock: &Arc<AtomicI64>) -> Connection {
    let connection = read_model();
    let clock = clock.clone();
    // The triggers' clock.
    let now = move |_: &rusqlite::functions::Context<'_>| Ok(clock.load(Ordering::Relaxed));
    connection.create_scalar_function("unixepoch", 0, FunctionFlags::SQLITE_UTF8, now).unwrap();
    connection
}

pub(in crate::tasks) fn block<T>(work: impl Future<Output = T>) -> T {
    let mut work = Box::pin(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

pub(in crate::tasks) fn transaction(connection: &Connection, statements: &[Statement]) -> Vec<usize> {
    connection.execute_batch("BEGIN").unwrap();
    let run = |Statement { sql, values }: &Statement| execute(connection, sql, bound(values)).unwrap();
    let changed = statements.iter().map(run).collect();
    connection.execute_batch("COMMIT").unwrap();
    changed
}

/// Its versions that were not told, as the consumer writes them.
pub(in crate::tasks) fn write(place: &Connection, number: usize, payment: &Payment, version: usize) {
    let id = format!("pay_{number:03}");
    let refund = format!("re_{number:03}");
    for version in payment.told + 1..=version {
        let at_ms = payment.versions[version - 1].cast_signed();
        execute(
                place,
                "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                    provider, attempt, shown, created_at_ms, updated_at_ms, captured_data, captured_at_ms)
                 VALUES (?1, ?2, ?3, ?4, 'succeeded', 9, 9, 0, 'usd', 'stripe', 1, '{}', ?5, ?6,
                    CASE WHEN ?3 = 1 THEN '{\"provider\":\"stripe\",\"provider_payment\":\"pi\",\"amount_captured\":9,\"currency\":\"usd\"}' END,
                    CASE WHEN ?3 = 1 THEN ?6 END)
                 ON CONFLICT (payment_id) DO UPDATE SET version = excluded.version, updated_at_ms = excluded.updated_at_ms",
                (&id, &payment.object, version as i64, &payment.owner, payment.made_at_ms.cast_signed(), at_ms),
            )
            .unwrap();
        let (subject, action, data) = match version {
            2 => (&refund, "refund.succeeded", "{}"),
            3 => (&refund, "refund.failed", "{}"),
            4 => (
                &id,
                "payment.disputed",
                r#"{"dispute":"d","amount":9,"currency":"usd","funds_withdrawn":1}"#,
            ),
            5 => (
                &id,
                "payment.disputed",
                r#"{"dispute":"d","amount":9,"currency":"usd","funds_withdrawn":0}"#,
            ),
            _ => continue,
        };
        if subject == &refund {
            let sql = "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider, provider_refund,
                    created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, 'v', 9, 'usd', '', 'stripe', 'r', ?4, ?4)
                 ON CONFLICT (refund_id) DO UPDATE SET version = excluded.version";
            execute(place, sql, (&refund, &id, version as i64, at_ms)).unwrap();
        }
        let sql = "INSERT INTO audit_records VALUES (?1, ?2, ?3, 'a', ?4, ?5, ?6) ON CONFLICT DO NOTHING";
        execute(place, sql, (&payment.object, version as i64 + 1, at_ms, action, subject, data)).unwrap();
    }
}

/// A part as the release before has it: no line names its place.
pub(super) fn unnamed(part: &str, place: &str) -> String {
    let text = part.replace(&format!(".{place},"), ",");
    let (head, rest) = text.split_once('\n').unwrap();
    let is_line = |row: &&str| !row.starts_with("total,") && !row.starts_with("trailer,");
    let body: String = rest.split_inclusive('\n').filter(is_line).collect();
    let totals: String = rest.split_inclusive('\n').filter(|row| row.starts_with("total,")).collect();
    let sha256 = HEXLOWER.encode(&Sha256::digest(body.as_bytes()));
    format!("{head}\n{body}{totals}trailer,{},{sha256}\n", body.lines().count())
}

/// What is wrong with the files of a bucket, of which these objects say that a day is complete: each of these movements must stand in one, not before
/// its day. The lines of shards name them, but in parts that the release before has written.
pub(super) fn complaints(
    bucket: &BTreeMap<String, String>,
    completed: &[String],
    by_the_release_before: &BTreeSet<String>,
    movements: BTreeMap<String, u64>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut stands: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut named = BTreeSet::new();
    for complete in completed {
        named.insert(complete.clone());
        let mut parts = vec![complete.clone()];
        if let Some(day) = complete.strip_suffix(".json") {
            if bucket.contains_key(&format!("{day}.csv")) {
                wrong.push(format!("{day} is there twice"));
            }
            let manifest: Json = serde_json::from_str(&bucket[complete]).unwrap();
            parts.clear();
            let mut lines = 0;
            for part in manifest["parts"].as_array().unwrap() {
                let name = part["name"].as_str().unwrap();
                let sha256 = HEXLOWER.encode(&Sha256::digest(bucket[name].as_bytes()));
                if part["sha256"] != sha256 {
                    wrong.push(format!("{name} has another SHA-256"));
                }
                lines += part["lines"].as_u64().unwrap();
                parts.push(name.to_owned());
            }
            if manifest["lines"] != lines {
                wrong.push(format!("{complete} has a wrong sum"));
            }
        }
        for part in parts {
            let place = part.split('/').nth(2).filter(|place| !place.ends_with(".csv"));
            let names_it = place.is_some() && !by_the_release_before.contains(&part);
            for line in bucket[&part].lines().skip(1) {
                let id = line.split(',').next().unwrap_or_default();
                if id == "total" || id == "trailer" {
                    continue;
                }
                let (id, of) = id.split_once('.').map_or((id, None), |(id, of)| (id, Some(of)));
                if of != place.filter(|_| names_it) {
                    wrong.push(format!("{id} in {part} names {of:?}"));
                }
                stands.entry(id.to_owned()).or_default().push(complete.clone());
            }
            named.insert(part);
        }
    }
    if !completed.is_sorted() {
        wrong.push(format!("not in order: {completed:?}"));
    }
    wrong.extend(
        bucket.keys().filter(|name| !named.contains(*name)).map(|name| format!("{name} is in no manifest")),
    );
    for (id, at_ms) in movements {
        let date = payments::utc(at_ms).unwrap().format("%Y-%m-%d");
        match stands.remove(&id).as_deref() {
            Some([file]) if *file >= format!("settlement/{date}.csv") => {}
            other => wrong.push(format!("{id} of {date} stands in {other:?}")),
        }
    }
    wrong.extend(stands.into_keys().map(|id| format!("{id} never moved")));
    wrong
}
