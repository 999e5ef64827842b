//! History leaves: payments that are over and old go to R2 as [Parquet](parquet) files, with their refunds, keys and audit records, and their
//! rows go. How, so that nothing is lost or doubled: `steps`. What the files hold, and that no personal data is in them: `rows`.
//!
//! A payment that changes afterwards tells the read model so, as ever: its row is there again, and leaves again later as a newer version.

pub(crate) mod batch;
pub mod parquet;
mod rows;
mod statements;
mod steps;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use worker::{Bucket, Date, Env, Error, Object, Result};

use super::settlement_file;
use crate::config::Config;
use crate::tasks::bucket::only_new;
use runtime::db::{Db, Statement, Value};
use steps::{Bounds, Done, Files, Tables};

/// The binding of the bucket.
pub(crate) const BUCKET: &str = "HISTORY";
/// A day, in ms.
const DAY_MS: u64 = 86_400_000;
/// How long nothing may have changed, in ms: longer than a movement may be late for its settlement file, and than the queue keeps a snapshot.
const UNCHANGED_MS: u64 = 40 * DAY_MS;
/// How many steps a run has: a batch takes two, with some twenty queries.
const STEPS_MAX: u32 = 24;
/// How long a run begins further steps, in ms.
const RUN_MS: u64 = 60_000;

/// Lets leave what is due. The result says how many payments have left.
pub(super) async fn leave(env: &Env) -> Result<Json> {
    let Ok(bucket) = env.bucket(BUCKET) else {
        return Ok(json!({ "off": "there is no binding HISTORY" }));
    };
    let config = Config::of(env).map_err(Error::RustError)?;
    let db = Db::of(env)?;
    let began_at_ms = Date::now().as_millis();
    let after_ms = u64::from(config.history_after_days).saturating_mul(DAY_MS);
    let unchanged_since_ms = began_at_ms.saturating_sub(UNCHANGED_MS).min(settled_until_ms(&db).await?);
    let bounds = Bounds {
        made_before_ms: began_at_ms.saturating_sub(after_ms),
        unchanged_since_ms,
        now_ms: began_at_ms,
    };
    let mut all = Done::default();
    for _ in 0..STEPS_MAX {
        let done = steps::step(&db, &bucket, bounds).await?;
        all.left += done.left;
        all.files += done.files;
        all.void += done.void;
        all.incomplete += done.incomplete;
        if done.is_through || Date::now().as_millis().saturating_sub(began_at_ms) > RUN_MS {
            break;
        }
    }
    Ok(json!({ "left": all.left, "files": all.files, "void": all.void, "incomplete": all.incomplete }))
}

/// Until when what moved stands in a settlement file that is written, in ms since the epoch; no bound without such files.
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

    async fn delete(&self, name: &str) -> Result<()> {
        Self::delete(self, name).await
    }
}
