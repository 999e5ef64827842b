//! Imports the bank's acknowledgements of settlement files: uploaded by an operator, or put into the bucket under `answers/`. What the bank says of our
//! lines stands in D1; [where ours are](super::ack_lines) is found out first.

use std::collections::BTreeMap;
use std::rc::Rc;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use worker::{Bucket, Date, Env, Object, Result};

use super::ack_lines::{self, File, Outcome, Pace, Places};
use super::settlement_file;
use messages::placement::ShardName;
use messages::settlement::{ACK_MAX_BYTES, Imported};
use runtime::db::{Db, Statement};
use runtime::log::log;
use runtime::places::{self, ReadModel};

/// How many acknowledgements one run imports.
const ACKS_MAX: usize = 10;
/// For how long it is known of a file how far it has come that no run has looked at, in ms: nobody has it any more.
const UNFINISHED_KEPT_MS: u64 = 30 * 86_400_000;

/// Imports the acknowledgements that wait in the bucket, and archives those of which all lines are decided. The result says what came of each. A file
/// that is too large stays where it is.
pub(super) async fn import_waiting(env: &Env) -> Result<Value> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT" }));
    };
    let places = Bound::of(env)?;
    let mut pace = Pace::begin(places.now_ms());
    let list = bucket.list().prefix("answers/").delimiter("/").execute().await?;
    let (small, large): (Vec<_>, Vec<_>) =
        list.objects().into_iter().partition(|object| object.size() <= ACK_MAX_BYTES as u64);
    let mut results = BTreeMap::new();
    for object in large {
        let error = format!("it has more than {ACK_MAX_BYTES} bytes");
        results.insert(object.key(), json!({ "refused": [error] }));
    }
    for object in places.in_turn(small).await?.into_iter().take(ACKS_MAX) {
        if !pace.may_go_on(places.now_ms()) {
            break;
        }
        let key = object.key();
        let Some(Read { bytes, etag }) = read(&bucket, &key).await? else { continue };
        let imported = import_and_archive(&places, &mut pace, &bucket, &key, bytes, &etag).await?;
        let result = imported.map_or_else(|errors| json!({ "refused": errors }), |outcome| outcome.told());
        results.insert(key, result);
    }
    Ok(json!(results))
}

/// Imports an acknowledgement that an operator uploads. It is stored in the bucket first: what this does not finish the scheduled task does.
/// `None` if there is no bucket.
pub(crate) async fn upload(env: &Env, bytes: Vec<u8>) -> Result<Option<Imported>> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else { return Ok(None) };
    let key = format!("answers/{}.csv", content_id(&bytes));
    let put = bucket.put(&key, bytes.clone()).execute().await?;
    let etag = put.map(|object| object.etag()).unwrap_or_default();
    let places = Bound::of(env)?;
    let mut pace = Pace::begin(places.now_ms());
    let imported = import_and_archive(&places, &mut pace, &bucket, &key, bytes, &etag).await?;
    Ok(Some(imported.map(|Outcome { mut counts, left, .. }| {
        if left > 0 {
            counts.insert("left".to_owned(), left);
        }
        counts
    })))
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

/// Imports an acknowledgement, and archives it once all its lines are decided. If another file has its name by now, the next run imports that one.
async fn import_and_archive(
    places: &Bound,
    pace: &mut Pace,
    bucket: &Bucket,
    key: &str,
    bytes: Vec<u8>,
    etag: &str,
) -> Result<std::result::Result<Outcome, Vec<String>>> {
    let name = key.strip_prefix("answers/").unwrap_or_default();
    let content = content_id(&bytes);
    let read = match std::str::from_utf8(&bytes) {
        Ok(text) => settlement_file::read_acknowledgement(text),
        Err(_) => Err(vec!["it is not UTF-8".to_owned()]),
    };
    let imported = match read {
        Ok(lines) => {
            Ok(ack_lines::book(places, pace, File { name, content: &content, lines: &lines }).await?)
        }
        Err(errors) => Err(errors),
    };
    let place = match &imported {
        Ok(Outcome { left: 0, .. }) => "done",
        Ok(_) => return Ok(imported),
        Err(errors) => {
            log("error", &[("event", "answer_refused".into()), ("errors", errors.clone().into())]);
            "rejected"
        }
    };
    bucket.put(format!("answers/{place}/{content}-{name}"), bytes).execute().await?;
    if bucket.head(key).await?.is_some_and(|object| object.etag() == etag) {
        bucket.delete(key).await?;
    }
    Ok(imported)
}

/// The same bytes are the same acknowledgement, whatever the file is called.
fn content_id(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)).chars().take(16).collect()
}

/// The places of the read model, as they are bound.
struct Bound {
    model: ReadModel,
    env: Env,
    d1: Db,
}

impl Bound {
    fn of(env: &Env) -> Result<Self> {
        Ok(Self { model: ReadModel::of(env), env: env.clone(), d1: Db::of(env)? })
    }

    /// Those first that have waited longest, since they came or since a run has looked at them.
    async fn in_turn(&self, mut objects: Vec<Object>) -> Result<Vec<Object>> {
        #[derive(Deserialize)]
        struct Looked {
            name: String,
            at_ms: u64,
        }
        let since_ms = self.now_ms().saturating_sub(UNFINISHED_KEPT_MS);
        let sql = "DELETE FROM answers_unfinished WHERE looked_at_ms < ?1";
        self.d1.run(sql, vec![since_ms.into()]).await?;
        let sql = "SELECT name, max(looked_at_ms) AS at_ms FROM answers_unfinished GROUP BY name";
        let looked: Vec<Looked> = self.d1.rows(sql, Vec::new()).await?;
        let looked: BTreeMap<String, u64> =
            looked.into_iter().map(|one| (format!("answers/{}", one.name), one.at_ms)).collect();
        objects.sort_by_cached_key(|object| {
            let key = object.key();
            looked.get(&key).copied().unwrap_or(0).max(object.uploaded().as_millis())
        });
        Ok(objects)
    }
}

impl Places for Bound {
    fn now_ms(&self) -> u64 {
        Date::now().as_millis()
    }

    fn are_many(&self) -> bool {
        places::is_bound(&self.env)
    }

    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>> {
        self.d1.rows(&statement.sql, statement.values).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<usize>> {
        self.d1.batch_changes(statements).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        questions: BTreeMap<String, Rc<Statement>>,
    ) -> Result<BTreeMap<String, Vec<T>>> {
        let named = questions.keys().filter_map(|name| ShardName::parse(name));
        let shards = named.map(|name| places::shard(&self.env, &name)).collect();
        let ask = async |db: Db| match db.name().and_then(|name| questions.get(name)).map(Rc::as_ref) {
            Some(Statement { sql, values }) => db.rows(sql, values.clone()).await,
            None => Ok(Vec::new()),
        };
        let answers = self.model.each(shards, ask).await?;
        Ok(answers.into_iter().filter_map(|(db, rows)| Some((db.name()?.to_owned(), rows))).collect())
    }
}
