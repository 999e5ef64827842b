//! Scheduled tasks: the Cron Trigger runs all of them every few minutes. A task may run twice at once, or not at all for a while:
//! the next run finds the same work. With the binding `TASKS` the reconciliation of each account has an object of its own (`task_object`), which
//! runs it by its own alarm; and where the read model is in shards so has each place of it (`place_runs`, and what the cron has to do with them:
//! `place_alarms`).

mod ack_lines;
#[cfg(test)]
mod ack_simulated;
mod adyen_breaks;
pub mod adyen_compare;
mod adyen_fetch;
pub(crate) mod adyen_import;
pub mod adyen_merchants;
mod adyen_places;
pub mod adyen_report;
mod adyen_run;
mod adyen_searches;
#[cfg(test)]
mod adyen_simulated;
#[cfg(test)]
mod adyen_simulated_shop;
mod adyen_stores;
mod alarms;
pub(crate) mod bank_acks;
mod breaks;
mod bucket;
pub mod changes;
pub mod compare;
pub(crate) mod counts;
pub mod csv;
pub mod cursor;
pub mod history;
pub mod late;
pub mod movements;
pub(crate) mod names;
pub mod pace;
pub mod page;
mod place_alarms;
mod place_runs;
mod place_stores;
mod placed;
mod plots;
#[cfg(test)]
mod plots_simulated;
pub mod provider_ledger;
mod purge;
mod reconcile;
mod runs;
pub mod schedule;
pub mod settlement_closing;
pub mod settlement_file;
mod settlement_job;
pub mod settlement_movements;
pub mod settlement_pace;
pub mod settlement_parts;
mod settlement_place;
mod settlement_run;
mod settlement_shards;
mod settlement_write;
pub(crate) mod shards;
#[cfg(test)]
mod simulation;
mod sweep;
mod task_object;

use std::collections::BTreeMap;

use serde_json::Value;
use worker::{Date, Env};

pub(crate) use self::place_alarms::HEARD_WITHIN_MS;
use self::runs::Kept;
use crate::config::Config;
use crate::{analytics, operations};
use messages::operations::{INBOX_PATH, RESEAL_PATH};
use runtime::log::log;

/// Runs all tasks, one after the other. A failure of one does not keep the others from running. `is_now`: an operator wants also those now that
/// have alarms of their own.
pub async fn run(env: &Env, is_now: bool) {
    record_run(env, "inbox", operations::ask(env, INBOX_PATH, &())).await;
    // If D1 does not say so, each task says why.
    let is_apart = place_alarms::have_objects(env).await.unwrap_or(false);
    if is_apart {
        record_run(env, "places", place_alarms::keep(env, is_now)).await;
        place_alarms::record_newest(env).await;
    } else {
        record_run(env, "sweep", sweep::sweep(env)).await;
    }
    record_run(env, "reconcile", reconcile::reconcile(env, is_now)).await;
    record_run(env, "fetch_reports", adyen_fetch::fetch(env)).await;
    record_run(env, "adyen_reports", adyen_import::go_on(env)).await;
    if !is_apart {
        record_run(env, "settle", settlement_job::write_due_files(env)).await;
    }
    record_run(env, "answers", bank_acks::import_waiting(env)).await;
    if !is_apart {
        record_run(env, "history", history::leave(env)).await;
        record_run(env, "plots", plots::sum(env)).await;
        record_run(env, "forget", purge::purge(env)).await;
    }
    // Where the settings are wrong every request says so.
    if let Some(config) = Config::of(env).ok().and_then(|config| config.analytics) {
        record_run(env, "counts", analytics::scheduled(env, &config)).await;
    }
    seal_anew(env).await;
}

/// Whether the reconciliation of each account has runs of its own.
pub fn have_objects(env: &Env) -> bool {
    alarms::is_bound(env)
}

/// While `CREDENTIALS_KEY` is replaced by another, the payments Worker seals the accounts' own keys anew. Then each run says how many are left under
/// the old one: who removes it must know that there are none. Most often there is nothing to do, and nothing to write down.
async fn seal_anew(env: &Env) {
    let (level, name, what) = match operations::ask::<BTreeMap<String, u64>>(env, RESEAL_PATH, &()).await {
        Ok(done) if !done.contains_key("left") && done.values().all(|number| *number == 0) => return,
        Ok(done) => {
            let is_whole = done.get("unopened").is_none_or(|number| *number == 0);
            (if is_whole { "info" } else { "error" }, "result", serde_json::json!(done).to_string())
        }
        Err(error) => ("error", "error", error.to_string()),
    };
    log(level, &[("event", "resealed".into()), (name, what.into())]);
}

/// Runs a task of the cron's, and records its result and how long it took.
async fn record_run(env: &Env, task: &str, work: impl Future<Output = worker::Result<Value>>) {
    let began_at_ms = Date::now().as_millis();
    let outcome = work.await;
    runs::record(env, task, Kept::All, began_at_ms, outcome).await;
}
