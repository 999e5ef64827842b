//! Writes the daily settlement file to R2.
//!
//! What a file holds is fixed in one transaction of D1 before it is written: whoever writes it, however often, writes the
//! same bytes, and an object that is there is never written over. A movement that the read model learns of later stands
//! in the next file. Lines come from the audit records: one for each movement of money, with its time.

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use worker::{Bucket, Conditional, Date, Env, Error, Object, Result};

use super::settlement_file::{self, Day, File, Line, Writer};
use runtime::db::Db;

/// How late a movement may reach the read model, in ms.
const LATE_MS: u64 = 35 * 86_400_000;
/// How many lines are read at once.
const LINES_MAX: usize = 5_000;

/// Writes the files of all finished days. The result names them.
pub(super) async fn write_due_files(env: &Env) -> Result<Value> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT" }));
    };
    #[derive(Deserialize)]
    struct Newest {
        day: Option<String>,
    }
    #[derive(Deserialize)]
    struct Closed {
        name: String,
    }
    let db = Db::of(env)?;
    let now_ms = Date::now().as_millis();
    let newest: Option<Newest> = db.first("SELECT max(day) AS day FROM settlement_files", vec![]).await?;
    for day in settlement_file::days_due(newest.and_then(|newest| newest.day).as_deref(), now_ms) {
        close(&db, &day, now_ms).await?;
    }
    let sql = "SELECT name FROM settlement_files WHERE written_at_ms IS NULL ORDER BY day";
    let mut written = Vec::new();
    for closed in db.rows::<Closed>(sql, vec![]).await? {
        write(&db, &bucket, &closed.name).await?;
        written.push(closed.name);
    }
    Ok(json!({ "written": written }))
}

/// Closes a day: fixes which lines its file has, namely all movements until its end that are in no file yet. A closed day stays as it is.
async fn close(db: &Db, day: &Day, now_ms: u64) -> Result<()> {
    let name = day.file_name();
    let late_ms = day.ends_at_ms.saturating_sub(LATE_MS);
    let mut statements = Vec::new();
    for sql in &movements() {
        statements
            .push(db.statement(sql, vec![name.as_str().into(), late_ms.into(), day.ends_at_ms.into()])?);
    }
    let sql =
        "INSERT INTO settlement_files (name, day, closed_at_ms) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    statements.push(db.statement(sql, vec![name.as_str().into(), day.date.as_str().into(), now_ms.into()])?);
    db.batch(statements).await
}

/// The statements that make the lines of the file `?1`: what has moved from `?2` until before `?3`.
fn movements() -> [String; 7] {
    let not_yet =
        "a.at_ms >= ?2 AND a.at_ms < ?3 AND NOT EXISTS (SELECT 1 FROM settlement_files WHERE name = ?1)";
    let numbered = |number: &str, kind: &str, action: &str, values: &str, tables: &str| {
        format!(
            "INSERT INTO settlement_lines (line_id, file, kind, provider, provider_reference, amount_minor, currency, at_ms)
             SELECT a.subject || ':{kind}' || {number}, ?1, '{kind}', {values}, a.at_ms FROM audit_records a {tables}
             WHERE a.action = '{action}' AND {not_yet} ON CONFLICT (line_id) DO NOTHING"
        )
    };
    let insert =
        |kind: &str, action: &str, values: &str, tables: &str| numbered("''", kind, action, values, tables);
    // What can move both ways has a line each time; the audit record's number tells them apart.
    let each = "':' || a.audit_id";
    // All records of a subject are of its object, and few: the plus keeps SQLite from the index of the action, which has very many.
    let before = |action: &str, value: &str| {
        format!(
            "(SELECT {value} FROM audit_records b WHERE b.object = a.object AND b.subject = a.subject
                AND +b.action = '{action}' AND b.audit_id < a.audit_id ORDER BY b.audit_id DESC LIMIT 1)"
        )
    };
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
    let first_capture =
        "INSERT INTO settlement_lines (line_id, file, kind, provider, provider_reference, amount_minor, currency, at_ms)
         SELECT payment_id || ':capture', ?1, 'capture', captured_data->>'provider', captured_data->>'provider_payment',
            captured_data->>'amount_captured', captured_data->>'currency', captured_at_ms FROM payments
         WHERE captured_at_ms >= ?2 AND captured_at_ms < ?3 AND NOT EXISTS (SELECT 1 FROM settlement_files WHERE name = ?1)
         ON CONFLICT (line_id) DO NOTHING";
    [
        first_capture.to_owned(),
        numbered(&not_first, "capture", "payment.captured", of_payment, ""),
        numbered(each, "capture_failed", "payment.capture_failed", &of_failed, &was_captured),
        numbered(each, "dispute_withdrawn", "payment.disputed", of_dispute, &turns(1)),
        numbered(each, "dispute_reinstated", "payment.disputed", of_dispute, &turns(0)),
        insert("refund", "refund.succeeded", of_refund, refunds),
        insert("refund_failed", "refund.failed", of_refund, &came_back),
    ]
}

/// Writes a closed day's file. If the file exists already, it must be the same.
async fn write(db: &Db, bucket: &Bucket, name: &str) -> Result<()> {
    let mut writer = Writer::default();
    let mut after = String::new();
    loop {
        let sql = "SELECT line_id, kind, provider, provider_reference, amount_minor, currency, at_ms FROM settlement_lines
             WHERE file = ?1 AND line_id > ?2 ORDER BY line_id LIMIT ?3";
        let limit = u32::try_from(LINES_MAX).unwrap_or(u32::MAX);
        let page: Vec<Line> = db.rows(sql, vec![name.into(), after.as_str().into(), limit.into()]).await?;
        page.iter().for_each(|line| writer.push(line));
        let is_last = page.len() < LINES_MAX;
        match page.into_iter().next_back() {
            Some(last) if !is_last => after = last.line_id,
            _ => break,
        }
    }
    let File { text: own, lines, totals, sha256 } = writer.finish();
    let own_sha256 = Sha256::digest(own.as_bytes());
    let only_new = Conditional { etag_does_not_match: Some("*".to_owned()), ..Conditional::default() };
    let made = bucket.put(name, own).only_if(only_new).execute().await?;
    if made.is_none() && stored_sha256(bucket, name).await? != Some(own_sha256) {
        return Err(Error::RustError(format!("{name} is there already, and is another one")));
    }
    let sql = "UPDATE settlement_files SET lines = ?2, totals = ?3, sha256 = ?4, written_at_ms = ?5
         WHERE name = ?1 AND written_at_ms IS NULL";
    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
    let totals = serde_json::to_string(&totals)?;
    let values =
        vec![name.into(), lines.into(), totals.into(), sha256.into(), Date::now().as_millis().into()];
    db.run(sql, values).await.map(drop)
}

async fn stored_sha256(bucket: &Bucket, name: &str) -> Result<Option<sha2::digest::Output<Sha256>>> {
    match bucket.get(name).execute().await?.as_ref().and_then(Object::body) {
        Some(body) => Ok(Some(Sha256::digest(body.bytes().await?))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::{plan, read_model};

    /// What moved is found by its action and time, and what happened to the same before among its object's records.
    #[test]
    fn a_file_is_made_without_reading_all_that_there_ever_was() {
        let model = read_model();
        let [first_capture, recorded @ ..] = movements();
        for sql in &recorded {
            let plan = plan(&model, sql);
            let reads = |what: &str| plan.iter().any(|step| step.starts_with(what));
            assert!(
                reads("SEARCH a USING INDEX audit_by_action (action=? AND at_ms>? AND at_ms<?)"),
                "{plan:?}"
            );
            assert!(!reads("SCAN first"), "{plan:?}");
            assert!(!reads("SCAN a") && !reads("SCAN b") && !reads("SCAN done"), "{plan:?}");
            assert!(!reads("SEARCH b USING INDEX") && !reads("SEARCH done USING INDEX"), "{plan:?}");
        }
        assert!(
            movements()
                .iter()
                .any(|sql| plan(&model, sql).iter().any(|step| step.contains("SEARCH b USING PRIMARY KEY")))
        );
        let by_time = "SEARCH payments USING INDEX payments_captured (captured_at_ms>? AND captured_at_ms<?)";
        let is_searched = || plan(&model, &first_capture).iter().any(|step| step == by_time);
        assert!(is_searched());
        // The control: without the indexes all records are read.
        model
            .execute_batch(
                "DROP INDEX audit_by_action; DROP INDEX audit_by_time; DROP INDEX payments_captured",
            )
            .unwrap();
        for sql in &recorded {
            assert!(plan(&model, sql).iter().any(|step| step.starts_with("SCAN a")), "{sql}");
        }
        assert!(!is_searched());
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
