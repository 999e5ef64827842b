//! History leaves: payments that are over and old go to R2 as [Parquet](parquet) files, with their refunds, keys and audit records, and their
//! rows go. How, so that nothing is lost or doubled: `steps`. What the files hold, and that no personal data is in them: `rows`.
//!
//! A payment that changes afterwards tells the read model so, as ever: its row is there again, and leaves again later as a newer version.

pub(crate) mod batch;
pub mod parquet;
mod rest;
mod rows;
#[cfg(test)]
mod simulated;
mod statements;
mod steps;
#[cfg(test)]
mod tests;
mod turns;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use worker::{Bucket, Env, Error, Object, Result};

use super::settlement_file;
use crate::config::Config;
use crate::tasks::bucket::only_new;
use messages::placement::ShardName;
use runtime::db::{Db, Statement, Value};
use runtime::log::log;
use runtime::places::ReadModel;
use steps::{Bounds, Done, Files, OfShard, Place, Tables};

/// The binding of the bucket.
pub(crate) const BUCKET: &str = "HISTORY";
/// A day, in ms.
const DAY_MS: u64 = 86_400_000;
/// How long nothing may have changed, in ms: longer than the queue keeps a snapshot …
const UNCHANGED_MS: u64 = 40 * DAY_MS;
/// … and, with settlement files, than the 70 days for which a payment that is written anew is noted as one that came late (`payments_late`): the
/// place to which it is moved meanwhile may have no line of it.
const SETTLED_UNCHANGED_MS: u64 = 71 * DAY_MS;
/// In how many shards one run looks for what is due: more than it has steps for.
const SHARDS_MAX: usize = 200;
/// How many shards at rest one run looks at.
const CHECKED: usize = 4;
/// How long a run begins further steps, in ms.
const RUN_MS: u64 = 60_000;

/// Lets leave what is due, in D1 and in the shards. The result says how many payments have left, and which places failed.
pub(super) async fn leave(env: &Env) -> Result<Json> {
    let Ok(bucket) = env.bucket(BUCKET) else {
        return Ok(json!({ "off": "there is no binding HISTORY" }));
    };
    let model = ReadModel::of(env);
    let d1 = model.d1()?;
    let bounds = bounds(env, &d1).await?;
    let shards = model.made_before(bounds.made_before_ms, bounds.now_ms, SHARDS_MAX).await?;
    let at_rest = model.at_rest(bounds.now_ms, CHECKED).await?;
    let of_shards = shards.iter().map(|(layout, db)| Place {
        tables: db,
        shard: db.name().map(|name| OfShard { name, d1: &d1, from_ms: layout.from_ms }),
    });
    let places: Vec<Place<'_, Db>> =
        std::iter::once(Place { tables: &d1, shard: None }).chain(of_shards).collect();
    leave_from(&places, &d1, &bucket, bounds, &at_rest).await
}

/// The same from one place, which has the run for itself: D1, which looks at those at rest, too, or a shard, with the moment from which its layout
/// counts. `None` without a bucket.
pub(super) async fn leave_one(env: &Env, shard: Option<(&ShardName, u64)>, db: &Db) -> Result<Option<Json>> {
    let Ok(bucket) = env.bucket(BUCKET) else { return Ok(None) };
    let model = ReadModel::of(env);
    let d1 = model.d1()?;
    let Some((name, from_ms)) = shard else {
        let bounds = bounds(env, &d1).await?;
        let at_rest = model.at_rest(bounds.now_ms, CHECKED).await?;
        let places = [Place { tables: &d1, shard: None }];
        return leave_from(&places, &d1, &bucket, bounds, &at_rest).await.map(Some);
    };
    if name.begins_ms() > made_before_ms(env, runtime::now_ms())? {
        return Ok(None);
    }
    let bounds = bounds(env, &d1).await?;
    let name = name.to_string();
    let shard = Some(OfShard { name: &name, d1: &d1, from_ms });
    leave_from(&[Place { tables: db, shard }], &d1, &bucket, bounds, &[]).await.map(Some)
}

/// Payments that were made before it are old enough.
fn made_before_ms(env: &Env, now_ms: u64) -> Result<u64> {
    let config = Config::of(env).map_err(Error::RustError)?;
    Ok(now_ms.saturating_sub(u64::from(config.history_after_days).saturating_mul(DAY_MS)))
}

/// Of a run that begins now.
async fn bounds(env: &Env, d1: &Db) -> Result<Bounds> {
    let now_ms = runtime::now_ms();
    // Without this bucket no file is written any more: those that were keep nothing back.
    let settled_until_ms = match env.bucket("SETTLEMENT") {
        Ok(_) => Some(settled_until_ms(d1).await?),
        Err(_) => None,
    };
    let unchanged_since_ms = unchanged_since_ms(now_ms, settled_until_ms);
    Ok(Bounds { made_before_ms: made_before_ms(env, now_ms)?, unchanged_since_ms, now_ms })
}

/// Lets leave what is due in these places, and looks at these shards at rest.
async fn leave_from(
    places: &[Place<'_, Db>],
    d1: &Db,
    bucket: &Bucket,
    bounds: Bounds,
    at_rest: &[Db],
) -> Result<Json> {
    let began_at_ms = bounds.now_ms;
    let is_over = || runtime::now_ms().saturating_sub(began_at_ms) > RUN_MS;
    let mut run = turns::run(places, began_at_ms, bucket, bounds, is_over).await.or_error(places.len())?;
    let mut resting = 0;
    for place in run.empty.iter().filter_map(|position| places.get(*position)) {
        let Some(shard) = &place.shard else { continue };
        // Some of its payments are not old enough.
        if ShardName::parse(shard.name).is_none_or(|name| name.ends_ms() > bounds.made_before_ms) {
            continue;
        }
        match rest::lay(place.tables, shard, began_at_ms).await {
            Ok(rests) => resting += usize::from(rests),
            Err(error) => drop(run.failed.insert(shard.name, error)),
        }
    }
    let mut woken = 0;
    for (db, name) in at_rest.iter().filter_map(|db| Some((db, db.name()?))) {
        let told = |level: &str, event: &str, error: Option<String>| {
            log(level, &[("event", event.into()), ("shard", name.into()), ("error", error.into())]);
        };
        match rest::check(db, name, d1).await {
            Ok(false) => {}
            Ok(true) => {
                woken += 1;
                told("error", "shard_did_not_rest", None);
            }
            // Nothing waits for it: a later run looks again.
            Err(error) => told("warn", "shard_rest_unchecked", Some(error.to_string())),
        }
    }
    let Done { left, files, void, incomplete, .. } = run.done;
    let mut result = json!({ "left": left, "files": files, "void": void, "incomplete": incomplete });
    for (what, number) in [("resting", resting), ("woken", woken)] {
        if let (true, Some(result)) = (number > 0, result.as_object_mut()) {
            result.insert(what.to_owned(), number.into());
        }
    }
    if let (false, Some(result)) = (run.failed.is_empty(), result.as_object_mut()) {
        let failed = run.failed.iter().map(|(place, error)| ((*place).to_owned(), error.to_string().into()));
        result.insert("failed".to_owned(), Json::Object(failed.collect()));
    }
    Ok(result)
}

/// Since when nothing may have changed, with settlement files or without, in ms since the epoch.
fn unchanged_since_ms(now_ms: u64, settled_until_ms: Option<u64>) -> u64 {
    match settled_until_ms {
        Some(until_ms) => now_ms.saturating_sub(SETTLED_UNCHANGED_MS).min(until_ms),
        None => now_ms.saturating_sub(UNCHANGED_MS),
    }
}

/// Until when what moved stands in a settlement file that is written, in ms since the epoch; no bound before the first.
async fn settled_until_ms(db: &Db) -> Result<u64> {
    #[derive(Deserialize)]
    struct Settled {
        unwritten: Option<String>,
        newest: Option<String>,
    }
    let settled: Option<Settled> = db.first(statements::SETTLED, vec![]).await?;
    Ok(settled.map_or(u64::MAX, |settled| {
        let start = |day: Option<String>| day.map(|day| settlement_file::day_starts_at_ms(&day).unwrap_or(0));
        let newest_ends = start(settled.newest).map(|at_ms| at_ms.saturating_add(DAY_MS));
        start(settled.unwritten).or(newest_ends).unwrap_or(u64::MAX)
    }))
}

impl Tables for Db {
    async fn rows<T: serde::de::DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        Self::rows(self, sql, values).await
    }

    async fn batch(&self, statements: Vec<(&str, Vec<Value>)>) -> Result<Vec<usize>> {
        let statements = statements.into_iter().map(|(sql, values)| Statement::new(sql, values));
        self.batch_changes(statements.collect()).await
    }
}

impl Files for Bucket {
    async fn put_new(&self, name: &str, body: Vec<u8>) -> Result<()> {
        self.put(name, body).only_if(only_new()).execute().await.map(drop)
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match Self::get(self, name).execute().await?.as_ref().and_then(Object::body) {
            Some(body) => body.bytes().await.map(Some),
            None => Ok(None),
        }
    }

    async fn delete_since(&self, name: &str, since_ms: u64) -> Result<()> {
        match self.head(name).await? {
            Some(object) if object.uploaded().as_millis() >= since_ms => self.delete(name).await,
            _ => Ok(()),
        }
    }
}
