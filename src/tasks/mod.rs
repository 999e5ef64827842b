//! What the clock starts, every few minutes: looks for what was left behind. Each task may run twice at once, or not at all
//! for a while; the next run finds the same.

pub mod adyen_compare;
#[cfg(target_arch = "wasm32")]
pub mod adyen_fetch;
#[cfg(target_arch = "wasm32")]
pub mod adyen_import;
pub mod adyen_report;
pub mod books;
pub mod changes;
pub mod compare;
pub mod cursor;
#[cfg(target_arch = "wasm32")]
mod forget;
pub mod late;
pub mod movements;
#[cfg(target_arch = "wasm32")]
mod reconcile;
#[cfg(target_arch = "wasm32")]
pub mod settle;
pub mod settlement;
#[cfg(target_arch = "wasm32")]
mod sweep;

#[cfg(target_arch = "wasm32")]
use serde_json::Value;
#[cfg(target_arch = "wasm32")]
use worker::{Date, Env};

#[cfg(target_arch = "wasm32")]
use crate::log::log;
#[cfg(target_arch = "wasm32")]
use crate::readmodel::db::Db;
#[cfg(target_arch = "wasm32")]
use crate::webhooks::work;

/// Runs all tasks, one after the other. A failure of one does not keep the others from running.
#[cfg(target_arch = "wasm32")]
pub async fn run(env: &Env) {
    told(env, "inbox", work::work_due(env)).await;
    told(env, "sweep", sweep::sweep(env)).await;
    told(env, "reconcile", reconcile::reconcile(env)).await;
    told(env, "fetch_reports", adyen_fetch::fetch(env)).await;
    told(env, "adyen_reports", adyen_import::go_on(env)).await;
    told(env, "settle", settle::settle(env)).await;
    told(env, "answers", settle::answers(env)).await;
    told(env, "forget", forget::forget(env)).await;
}

/// Runs a task and writes down what came of it.
#[cfg(target_arch = "wasm32")]
async fn told(env: &Env, task: &str, work: impl Future<Output = worker::Result<Value>>) {
    let began_at_ms = Date::now().as_millis();
    let outcome = work.await;
    let took_ms = Date::now().as_millis().saturating_sub(began_at_ms);
    let (level, result) = match outcome {
        Ok(result) => ("info", result.to_string()),
        Err(error) => ("error", serde_json::json!({ "error": error.to_string() }).to_string()),
    };
    let fields = [
        ("event", "task".into()),
        ("task", task.into()),
        ("result", result.as_str().into()),
        ("ms", took_ms.into()),
    ];
    log(level, &fields);
    let sql = "INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?1, ?2, ?3, ?4)";
    let values = vec![task.into(), began_at_ms.into(), took_ms.into(), result.into()];
    let written = match Db::of(env) {
        Ok(db) => db.run(sql, values).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        log("error", &[("event", "task_not_noted".into()), ("error", error.to_string().into())]);
    }
}
