//! Imports the bank's acknowledgements of settlement files: uploaded by an operator, or put into the bucket under `answers/`. Our lines are
//! looked up in all places of the read model; what the bank says of them stands in D1.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use worker::{Bucket, Date, Env, Error, Result};

use super::settlement_file::{self, Acknowledgement};
use messages::settlement::{ACK_MAX_BYTES, Imported};
use runtime::db::Db;
use runtime::log::log;
use runtime::places::ReadModel;

/// How many lines are booked at once.
const LINES_MAX: usize = 5_000;
/// How many acknowledgements one run imports.
const ACKS_MAX: usize = 10;

/// Imports the acknowledgements that wait in the bucket and archives them. The result says what came of each. A file that is too large
/// stays where it is.
pub(super) async fn import_waiting(env: &Env) -> Result<Value> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT" }));
    };
    let model = ReadModel::of(env);
    let list = bucket.list().prefix("answers/").delimiter("/").execute().await?;
    let (small, large): (Vec<_>, Vec<_>) =
        list.objects().into_iter().partition(|object| object.size() <= ACK_MAX_BYTES as u64);
    let mut results = BTreeMap::new();
    for object in large {
        let error = format!("it has more than {ACK_MAX_BYTES} bytes");
        results.insert(object.key(), json!({ "refused": [error] }));
    }
    for object in small.into_iter().take(ACKS_MAX) {
        let key = object.key();
        let Some(Read { bytes, etag }) = read(&bucket, &key).await? else { continue };
        let imported = import_and_archive(&model, &bucket, &key, bytes, &etag).await?;
        let result = imported.map_or_else(|errors| json!({ "refused": errors }), |counts| json!(counts));
        results.insert(key, result);
    }
    Ok(json!(results))
}

/// Imports an acknowledgement that an operator uploads. It is stored in the bucket first: if this breaks off, the scheduled task finishes it.
/// `None` if there is no bucket.
pub(crate) async fn upload(env: &Env, bytes: Vec<u8>) -> Result<Option<Imported>> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else { return Ok(None) };
    let key = format!("answers/{}.csv", content_id(&bytes));
    let put = bucket.put(&key, bytes.clone()).execute().await?;
    let etag = put.map(|object| object.etag()).unwrap_or_default();
    import_and_archive(&ReadModel::of(env), &bucket, &key, bytes, &etag).await.map(Some)
}

/// A file with the ETag that it had when it was read.
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

/// Imports an acknowledgement and archives it. If another file has its name by now, the next run imports that one.
async fn import_and_archive(
    model: &ReadModel,
    bucket: &Bucket,
    key: &str,
    bytes: Vec<u8>,
    etag: &str,
) -> Result<Imported> {
    let name = key.strip_prefix("answers/").unwrap_or_default();
    let imported = import(model, name, &bytes).await?;
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

/// The same bytes are the same acknowledgement, whatever the file is called.
fn content_id(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)).chars().take(16).collect()
}

/// Books each line once. A repeated import continues where the first one broke off.
async fn import(model: &ReadModel, name: &str, bytes: &[u8]) -> Result<Imported> {
    #[derive(Deserialize)]
    struct Count {
        booked: String,
        lines: u64,
    }
    let read = match std::str::from_utf8(bytes) {
        Ok(text) => settlement_file::read_acknowledgement(text),
        Err(_) => Err(vec!["it is not UTF-8".to_owned()]),
    };
    let lines = match read {
        Ok(lines) => lines,
        Err(errors) => return Ok(Err(errors)),
    };
    let db = model.d1()?;
    let content = content_id(bytes);
    let now_ms = Date::now().as_millis();
    for chunk in lines.chunks(LINES_MAX) {
        let lines = serde_json::to_string(&with_those_of_shards(model, chunk).await?)?;
        let values = vec![content.as_str().into(), name.into(), lines.into(), now_ms.into()];
        db.run(BOOK, values).await?;
    }
    let own = "line_id >= ?1 || '#' AND line_id < ?1 || '$'";
    // Shown to operators.
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

/// A line of the bank's, with ours as a shard has it.
#[derive(Serialize)]
struct Acknowledged<'a> {
    #[serde(flatten)]
    line: &'a Acknowledgement,
    ours: Option<&'a InShard>,
}

#[derive(Deserialize, Serialize)]
struct InShard {
    line_id: String,
    amount_minor: u64,
    currency: String,
}

/// All shards are asked: a line that is in one that does not answer would seem to be unknown. The file is then imported by a later run.
async fn with_those_of_shards(
    model: &ReadModel,
    lines: &[Acknowledgement],
) -> Result<Vec<serde_json::Value>> {
    let references: Vec<&str> = lines.iter().map(|line| line.reference.as_str()).collect();
    let sql = "SELECT line_id, amount_minor, currency FROM settlement_lines WHERE line_id IN (SELECT value FROM json_each(?1))";
    let shards = model.places().await?.into_iter().filter(|db| db.name().is_some()).collect();
    let values = serde_json::to_string(&references)?;
    let ask = async |db: Db| db.rows::<InShard>(sql, vec![values.as_str().into()]).await;
    let found = model.each(shards, ask).await?.into_iter().flat_map(|(_, rows)| rows);
    let found: BTreeMap<String, InShard> = found.map(|line| (line.line_id.clone(), line)).collect();
    if let Some(missing) = model.missing() {
        return Err(Error::RustError(format!("no line was booked, and it is tried again: {missing}")));
    }
    let each = lines.iter().map(|line| Acknowledged { line, ours: found.get(&line.reference) });
    Ok(each.map(serde_json::to_value).collect::<serde_json::Result<_>>()?)
}

/// Books many lines: of those that match a line of ours, only the first one ever.
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
            coalesce(ours.amount_minor, value->>'$.ours.amount_minor') = value->>'amount_minor'
                AND coalesce(ours.currency, value->>'$.ours.currency') = value->>'currency' AS fits
        FROM json_each(?3) LEFT JOIN settlement_lines ours ON ours.line_id = value->>'reference') line
     WHERE true ORDER BY number ON CONFLICT (line_id) DO NOTHING";
