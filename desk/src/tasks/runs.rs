//! The table `runs`: what came of the runs of tasks.

use serde::Deserialize;
use serde_json::Value;
use worker::Env;

use runtime::db::{Db, Statement};
use runtime::log::log;

/// Which runs of a task are kept.
#[derive(PartialEq, Eq)]
pub(super) enum Kept {
    /// Those of 30 days.
    All,
    /// One, where there may be any number of tasks.
    Newest,
}

/// Records how a run ended, and how long it took.
pub(super) async fn record(
    env: &Env,
    task: &str,
    kept: Kept,
    began_at_ms: u64,
    outcome: worker::Result<Value>,
) {
    let took_ms = runtime::now_ms().saturating_sub(began_at_ms);
    let result = outcome.unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }));
    let level = if result.get("error").is_some() { "error" } else { "info" };
    let result = result.to_string();
    let fields = [
        ("event", "task".into()),
        ("task", task.into()),
        ("result", result.as_str().into()),
        ("ms", took_ms.into()),
    ];
    log(level, &fields);
    let sql = "INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?1, ?2, ?3, ?4)";
    let values = vec![task.into(), began_at_ms.into(), took_ms.into(), result.into()];
    let before = (kept == Kept::Newest).then(|| Statement::new(FORGET, vec![task.into()]));
    let written = match Db::of(env) {
        Ok(db) => db.batch(before.into_iter().chain([Statement::new(sql, values)]).collect()).await,
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        log("error", &[("event", "task_not_noted".into()), ("error", error.to_string().into())]);
    }
}

/// What the newest run of a task has written down.
pub(super) async fn newest(env: &Env, task: &str) -> worker::Result<Option<String>> {
    #[derive(Deserialize)]
    struct Run {
        result: String,
    }
    let sql = "SELECT result FROM runs WHERE task = ?1 ORDER BY at_ms DESC LIMIT 1";
    let run: Option<Run> = Db::of(env)?.first(sql, vec![task.into()]).await?;
    Ok(run.map(|run| run.result))
}

/// Nothing is shown any more of a task of which the newest run is kept.
pub(super) async fn forget(env: &Env, task: &str) -> worker::Result<()> {
    Db::of(env)?.run(FORGET, vec![task.into()]).await.map(drop)
}

const FORGET: &str = "DELETE FROM runs WHERE task = ?1";
