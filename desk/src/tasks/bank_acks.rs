//! Imports the bank's acknowledgements of settlement files: uploaded by an operator, or put into the bucket under `answers/`. What the bank says of our
//! lines stands in D1; [where ours are](super::ack_lines) is found out first.

use std::collections::BTreeMap;
use std::rc::Rc;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use worker::{Bucket, Env, Object, Result};

use super::ack_lines::{self, File, Outcome, Places, RunLimits};
use super::bucket::listed;
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

/// How many errors of a file that is refused its break names, and in how many characters at most.
const ERRORS_TOLD: usize = 3;
const TOLD_MAX: usize = 400;

/// Imports the acknowledgements that wait in the bucket, and archives those of which all lines are decided. The result says what came of each. A file
/// that is too large stays where it is. Of each that is refused operators are told by a break, before it is put away: the next run knows nothing of it.
pub(super) async fn import_waiting(env: &Env) -> Result<Value> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT" }));
    };
    let places = Bound::of(env)?;
    let mut limits = RunLimits::begin(places.now_ms());
    let waiting = listed(&bucket, "answers/").await?;
    let (small, large): (Vec<_>, Vec<_>) =
        waiting.into_iter().partition(|object| object.size() <= ACK_MAX_BYTES as u64);
    let mut results = BTreeMap::new();
    let mut told = Vec::new();
    for object in large {
        let error = format!("it has {} bytes, more than {ACK_MAX_BYTES}", object.size());
        if told.len() < ACKS_MAX {
            let what_to_do = "it is not read, and stays where it is: put it there in several files, each with its own trailer, take it away, then accept this";
            let errors = std::slice::from_ref(&error);
            told.push(refused(name_of(&object.key()), errors, what_to_do, places.now_ms()));
        }
        results.insert(object.key(), json!({ "refused": [error] }));
    }
    if !told.is_empty() {
        places.batch(told).await?;
    }
    for object in places.in_turn(small).await?.into_iter().take(ACKS_MAX) {
        if !limits.may_go_on(places.now_ms()) {
            break;
        }
        let Some(arrived) = Arrived::read(&bucket, object.key()).await? else { continue };
        let imported = arrived.import(&places, &mut limits).await?;
        if let Err(errors) = &imported {
            let what_to_do = format!(
                "no line of it was imported; it lies in {}: mend it and put it into answers/ under the same name, which closes this",
                arrived.archived_as("rejected")
            );
            places.batch(vec![refused(arrived.name(), errors, &what_to_do, places.now_ms())]).await?;
        }
        let key = arrived.key.clone();
        arrived.archive(&bucket, &imported).await?;
        let result = imported.map_or_else(|errors| json!({ "refused": errors }), |outcome| outcome.told());
        results.insert(key, result);
    }
    Ok(json!(results))
}

/// Imports an acknowledgement that an operator uploads. It is stored in the bucket first: what this does not finish the scheduled task does. Who sends
/// one that is refused is told by the answer alone. `None` if there is no bucket.
pub(crate) async fn upload(env: &Env, bytes: Vec<u8>) -> Result<Option<Imported>> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else { return Ok(None) };
    let content = content_id(&bytes);
    let key = format!("answers/{content}.csv");
    let put = bucket.put(&key, bytes.clone()).execute().await?;
    let arrived = Arrived { key, content, bytes, etag: put.map(|object| object.etag()).unwrap_or_default() };
    let places = Bound::of(env)?;
    let mut limits = RunLimits::begin(places.now_ms());
    let imported = arrived.import(&places, &mut limits).await?;
    arrived.archive(&bucket, &imported).await?;
    Ok(Some(imported.map(|Outcome { mut counts, left, .. }| {
        if left > 0 {
            counts.insert("left".to_owned(), left);
        }
        counts
    })))
}

/// What a file is called, without where it waits.
fn name_of(key: &str) -> &str {
    key.strip_prefix("answers/").unwrap_or_default()
}

/// A file that waits in the bucket.
struct Arrived {
    /// Where it waits.
    key: String,
    content: String,
    bytes: Vec<u8>,
    /// Its ETag when it was read.
    etag: String,
}

impl Arrived {
    async fn read(bucket: &Bucket, key: String) -> Result<Option<Self>> {
        let Some(object) = bucket.get(&key).execute().await? else { return Ok(None) };
        let etag = object.etag();
        let Some(body) = object.body() else { return Ok(None) };
        let bytes = body.bytes().await?;
        Ok(Some(Self { key, content: content_id(&bytes), bytes, etag }))
    }

    fn name(&self) -> &str {
        name_of(&self.key)
    }

    fn archived_as(&self, place: &str) -> String {
        format!("answers/{place}/{}-{}", self.content, self.name())
    }

    /// Imports it, or says why it is refused. Once all its lines are decided, what an earlier one of this name was refused for is over.
    async fn import(
        &self,
        places: &Bound,
        limits: &mut RunLimits,
    ) -> Result<std::result::Result<Outcome, Vec<String>>> {
        let read = match std::str::from_utf8(&self.bytes) {
            Ok(text) => settlement_file::read_acknowledgement(text),
            Err(_) => Err(vec!["it is not UTF-8".to_owned()]),
        };
        let lines = match read {
            Ok(lines) => lines,
            Err(errors) => {
                log("error", &[("event", "answer_refused".into()), ("errors", errors.clone().into())]);
                return Ok(Err(errors));
            }
        };
        let file = File { name: self.name(), content: &self.content, lines: &lines };
        let outcome = ack_lines::book(places, limits, file).await?;
        if outcome.left == 0 {
            let values = vec![refused_id(self.name()).into(), places.now_ms().into()];
            places.batch(vec![Statement::new(IMPORTED, values)]).await?;
        }
        Ok(Ok(outcome))
    }

    /// Archives it once all its lines are decided. If another file has its name by now, the next run imports that one.
    async fn archive(
        self,
        bucket: &Bucket,
        imported: &std::result::Result<Outcome, Vec<String>>,
    ) -> Result<()> {
        let place = match imported {
            Ok(Outcome { left: 0, .. }) => "done",
            Ok(_) => return Ok(()),
            Err(_) => "rejected",
        };
        bucket.put(self.archived_as(place), self.bytes).execute().await?;
        if bucket.head(&self.key).await?.is_some_and(|object| object.etag() == self.etag) {
            bucket.delete(&self.key).await?;
        }
        Ok(())
    }
}

/// Tells operators that a file was refused. One break for each name: it stays accepted as long as the file says the same.
fn refused(name: &str, errors: &[String], what_to_do: &str, now_ms: u64) -> Statement {
    let mut told = errors.iter().take(ERRORS_TOLD).cloned().collect::<Vec<_>>();
    if errors.len() > ERRORS_TOLD {
        told.push("and more".to_owned());
    }
    let theirs: String = format!("{name}: {}", told.join("; ")).chars().take(TOLD_MAX).collect();
    let values = vec![refused_id(name).into(), theirs.into(), what_to_do.into(), now_ms.into()];
    Statement::new(REFUSED, values)
}

/// The id of that break: a name may have characters of any kind.
fn refused_id(name: &str) -> String {
    format!("settlement:answer:{}", content_id(name.as_bytes()))
}

const REFUSED: &str = "INSERT INTO breaks (break_id, kind, provider, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
     VALUES (?1, 'settlement', 'bank', ?2, 'open', ?3, ?4, ?4)
     ON CONFLICT (break_id) DO UPDATE SET theirs = excluded.theirs, last_seen_at_ms = excluded.last_seen_at_ms,
        note = CASE WHEN breaks.state = 'accepted' AND breaks.theirs IS excluded.theirs THEN breaks.note ELSE excluded.note END,
        state = CASE WHEN breaks.state = 'accepted' AND breaks.theirs IS excluded.theirs THEN 'accepted' ELSE 'open' END";
/// Closes it, at `?2`: a file of that name was imported.
const IMPORTED: &str = "UPDATE breaks SET state = 'resolved', last_seen_at_ms = ?2 WHERE break_id = ?1 AND state IN ('open', 'accepted')";

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
        runtime::now_ms()
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
