//! Drops what has been kept long enough: payloads of jobs that nobody took up, and old runs of these tasks. Objects drop the
//! personal data that they hold themselves, by their alarms.

use serde_json::{Value, json};
use worker::{Date, Env, Error, Result};

use crate::config::Config;
use crate::readmodel::db::Db;

/// How long the runs of tasks are kept, in ms.
const RUNS_KEPT_MS: u64 = 30 * 86_400_000;

pub(super) async fn forget(env: &Env) -> Result<Value> {
    let config = Config::of(env).map_err(Error::RustError)?;
    let db = Db::of(env)?;
    let now_ms = Date::now().as_millis();
    let sql = "UPDATE jobs SET state = 'purged', payload = NULL, frozen = NULL
         WHERE state IN ('tried', 'attempted', 'dead') AND updated_at_ms < ?1";
    let kept_since_ms = now_ms.saturating_sub(config.times.personal_retention_ms);
    let jobs = db.run(sql, vec![kept_since_ms.into()]).await?;
    let runs_since_ms = now_ms.saturating_sub(RUNS_KEPT_MS);
    let runs = db.run("DELETE FROM runs WHERE at_ms < ?1", vec![runs_since_ms.into()]).await?;
    Ok(json!({ "jobs": jobs, "runs": runs }))
}
