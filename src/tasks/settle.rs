//! The daily settlement file in R2, and the bank's answers to it.
//!
//! What a file holds is fixed in one transaction of D1 before it is written: whoever writes it, however often, writes the
//! same bytes, and an object that is there is never written over. A movement that the read model learns of later stands
//! in the next file. Lines come from the audit records: one for each movement of money, with its time.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use worker::{Bucket, Conditional, Date, Env, Error, Result};

use super::settlement::{self, ANSWER_MAX_BYTES, Day, File, Line, Writer};
use crate::log::log;
use crate::readmodel::db::Db;

/// How far back a movement may be of which the read model has only just learnt, in ms.
const LATE_MS: u64 = 35 * 86_400_000;
/// How many lines are read or booked at once.
const LINES_MAX: usize = 5_000;
/// How many answers one run imports.
const ANSWERS_MAX: usize = 10;

/// Writes the files of the days that are over. The result names them.
pub(super) async fn settle(env: &Env) -> Result<Value> {
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
    for day in settlement::days_due(newest.and_then(|newest| newest.day).as_deref(), now_ms) {
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

/// Fixes what the file of a day holds: all movements until its end that stand in no file. If it is closed, nothing changes.
async fn close(db: &Db, day: &Day, now_ms: u64) -> Result<()> {
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
    // What can move to and fro has a line each time, known by the number of its record.
    let each = "':' || a.audit_id";
    // Of one subject there are few records, and of one action all there ever were: SQLite would guess the other way round.
    let before = |action: &str, value: &str| {
        format!(
            "(SELECT {value} FROM audit_records b INDEXED BY audit_by_subject WHERE b.subject = a.subject AND b.action = '{action}'
                AND b.audit_id < a.audit_id ORDER BY b.audit_id DESC LIMIT 1)"
        )
    };
    let captured_before = before("payment.captured", "b.data->>'amount_captured'");
    let not_first = format!("CASE WHEN {captured_before} IS NULL THEN '' ELSE {each} END");
    let was_withdrawn = before("payment.disputed", "b.data->>'funds_withdrawn'");
    let of_payment =
        "a.data->>'provider', a.data->>'provider_payment', a.data->>'amount_captured', a.data->>'currency'";
    let of_ride = "'stripe', a.data->>'charge', a.data->>'amount', a.data->>'currency'";
    let of_refund = "r.provider, r.provider_refund, r.amount_minor, r.currency";
    let refunds = "JOIN refunds r ON r.refund_id = a.subject";
    // A refund that failed at once has moved nothing.
    let came_back = format!(
        "{refunds} JOIN audit_records done INDEXED BY audit_by_subject ON done.subject = a.subject AND done.action = 'refund.succeeded'"
    );
    // A capture that was told of by its failure alone has no line to be taken back.
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
    let lines = [
        numbered(&not_first, "capture", "payment.captured", of_payment, ""),
        numbered(each, "capture_failed", "payment.capture_failed", &of_failed, &was_captured),
        numbered(each, "dispute_withdrawn", "payment.disputed", of_dispute, &turns(1)),
        numbered(each, "dispute_reinstated", "payment.disputed", of_dispute, &turns(0)),
        insert("capture", "ride.charged", of_ride, ""),
        insert("refund", "refund.succeeded", of_refund, refunds),
        insert("refund_failed", "refund.failed", of_refund, &came_back),
    ];
    let name = day.file_name();
    let late_ms = day.ends_at_ms.saturating_sub(LATE_MS);
    let mut statements = Vec::new();
    for sql in &lines {
        statements
            .push(db.statement(sql, vec![name.as_str().into(), late_ms.into(), day.ends_at_ms.into()])?);
    }
    let sql =
        "INSERT INTO settlement_files (name, day, closed_at_ms) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    statements.push(db.statement(sql, vec![name.as_str().into(), day.date.as_str().into(), now_ms.into()])?);
    db.batch(statements).await
}

/// Writes a closed file, or finds it written.
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
    if made.is_none() && read(bucket, name).await?.map(|read| Sha256::digest(read.bytes)) != Some(own_sha256)
    {
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

/// A file as it was when it was read.
struct Read {
    bytes: Vec<u8>,
    etag: String,
}

async fn read(bucket: &Bucket, name: &str) -> Result<Option<Read>> {
    let Some(object) = bucket.get(name).execute().await? else { return Ok(None) };
    let etag = object.etag();
    match object.body() {
        Some(body) => Ok(Some(Read { bytes: body.bytes().await?, etag })),
        None => Ok(None),
    }
}

/// What came of an answer: how many lines were booked and how many were not, by the reason; or what is wrong with the file,
/// of which nothing was booked then.
pub type Imported = std::result::Result<BTreeMap<String, u64>, Vec<String>>;

/// Imports the answers that lie in the bucket, and puts each away. The result says what came of each. One that is too large
/// stays where it is.
pub(super) async fn answers(env: &Env) -> Result<Value> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT" }));
    };
    let db = Db::of(env)?;
    let list = bucket.list().prefix("answers/").delimiter("/").execute().await?;
    let (small, large): (Vec<_>, Vec<_>) =
        list.objects().into_iter().partition(|object| object.size() <= ANSWER_MAX_BYTES as u64);
    let mut results = BTreeMap::new();
    for object in large {
        let error = format!("it has more than {ANSWER_MAX_BYTES} bytes");
        results.insert(object.key(), json!({ "refused": [error] }));
    }
    for object in small.into_iter().take(ANSWERS_MAX) {
        let key = object.key();
        let Some(Read { bytes, etag }) = read(&bucket, &key).await? else { continue };
        let imported = take(&db, &bucket, &key, bytes, &etag).await?;
        let result = imported.map_or_else(|errors| json!({ "refused": errors }), |counts| json!(counts));
        results.insert(key, result);
    }
    Ok(json!(results))
}

/// Takes in an answer that an operator sends. It lies in the bucket first: what breaks off here is done by the clock.
/// `None` if there is no bucket.
pub async fn upload(env: &Env, bytes: Vec<u8>) -> Result<Option<Imported>> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else { return Ok(None) };
    let key = format!("answers/{}.csv", content_id(&bytes));
    let put = bucket.put(&key, bytes.clone()).execute().await?;
    let etag = put.map(|object| object.etag()).unwrap_or_default();
    take(&Db::of(env)?, &bucket, &key, bytes, &etag).await.map(Some)
}

/// Imports an answer and puts it away. Another one that lies under its name by now is the next run's.
async fn take(db: &Db, bucket: &Bucket, key: &str, bytes: Vec<u8>, etag: &str) -> Result<Imported> {
    let name = key.strip_prefix("answers/").unwrap_or_default();
    let imported = import(db, name, &bytes).await?;
    if let Err(errors) = &imported {
        log("error", &[("event", "answer_refused".into()), ("errors", errors.clone().into())]);
    }
    let place = if imported.is_ok() { "done" } else { "rejected" };
    bucket.put(format!("answers/{place}/{}-{name}", content_id(&bytes)), bytes).execute().await?;
    if bucket.head(key).await?.is_some_and(|object| object.etag() == etag) {
        bucket.delete(key).await?;
    }
    Ok(imported)
}

/// What an answer is known by: the same bytes are the same answer, whatever the file is called.
fn content_id(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)).chars().take(16).collect()
}

/// Books each line once; what broke off goes on where it was.
async fn import(db: &Db, name: &str, bytes: &[u8]) -> Result<Imported> {
    #[derive(Deserialize)]
    struct Count {
        booked: String,
        lines: u64,
    }
    let read = match std::str::from_utf8(bytes) {
        Ok(text) => settlement::read_answer(text),
        Err(_) => Err(vec!["it is not UTF-8".to_owned()]),
    };
    let lines = match read {
        Ok(lines) => lines,
        Err(errors) => return Ok(Err(errors)),
    };
    let content = content_id(bytes);
    let now_ms = Date::now().as_millis();
    for chunk in lines.chunks(LINES_MAX) {
        let values =
            vec![content.as_str().into(), name.into(), serde_json::to_string(chunk)?.into(), now_ms.into()];
        db.run(BOOK, values).await?;
    }
    let own = "line_id >= ?1 || '#' AND line_id < ?1 || '$'";
    // For a person, on the desk.
    let sql = format!(
        "INSERT INTO breaks (break_id, kind, provider, resource, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
         SELECT 'settlement:bank:' || line_id, 'settlement', 'bank', reference,
            outcome || ': ' || amount_minor || ' ' || currency, 'open',
            CASE booked WHEN 'booked' THEN 'rejected by the bank' ELSE booked END || ', line ' || line_number || ' of ' || file,
            ?2, ?2
         FROM settlement_answers WHERE {own} AND (booked <> 'booked' OR outcome = 'rejected') ON CONFLICT (break_id) DO NOTHING"
    );
    db.run(&sql, vec![content.as_str().into(), now_ms.into()]).await?;
    let sql = format!("SELECT booked, count(*) AS lines FROM settlement_answers WHERE {own} GROUP BY booked");
    let counts: Vec<Count> = db.rows(&sql, vec![content.into()]).await?;
    Ok(Ok(counts.into_iter().map(|count| (count.booked, count.lines)).collect()))
}

/// Many lines: booked is the first one that fits our line, if none was before.
const BOOK: &str = "INSERT INTO settlement_answers (line_id, file, line_number, reference, amount_minor, currency, outcome, booked,
        imported_at_ms)
     SELECT ?1 || '#' || number, ?2, number, reference, amount_minor, currency, outcome,
        CASE WHEN fits IS NULL THEN 'unknown'
             WHEN EXISTS (SELECT 1 FROM settlement_answers known
                WHERE known.reference = line.reference AND known.booked = 'booked') THEN 'duplicate'
             WHEN NOT fits THEN 'differs'
             WHEN row_number() OVER (PARTITION BY reference, fits ORDER BY number) > 1 THEN 'duplicate'
             ELSE 'booked' END, ?4
     FROM (SELECT value->>'line_number' AS number, value->>'reference' AS reference,
            value->>'amount_minor' AS amount_minor, value->>'currency' AS currency, value->>'outcome' AS outcome,
            ours.amount_minor = value->>'amount_minor' AND ours.currency = value->>'currency' AS fits
        FROM json_each(?3) LEFT JOIN settlement_lines ours ON ours.line_id = value->>'reference') line
     WHERE true ORDER BY number ON CONFLICT (line_id) DO NOTHING";
