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
pub mod break_texts;
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
pub mod page;
mod place_alarms;
pub(crate) mod place_runs;
mod place_silence;
mod place_stores;
mod placed;
mod plots;
#[cfg(test)]
mod plots_simulated;
pub mod provider_ledger;
mod purge;
mod reconcile;
pub mod run_limits;
mod runs;
pub mod schedule;
pub mod settlement_closing;
pub mod settlement_file;
mod settlement_job;
pub mod settlement_limits;
#[cfg(test)]
mod settlement_made_anew;
pub mod settlement_movements;
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

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use serde::Deserialize;
use serde_json::Value;
use worker::Env;

use self::names::COUNTS;
pub(crate) use self::place_silence::HEARD_WITHIN_MS;
use self::runs::Kept;
use crate::config::Config;
use crate::{analytics, operations};
use messages::operations::{INBOX_PATH, RESEAL_PATH};
use runtime::log::log;
use runtime::meter::metered;

/// How many statements an invocation has sent to D1 at most when one more task begins. It may send
/// [1,000](https://developers.cloudflare.com/d1/platform/limits/), and then no task can do or write down anything; one task sends up to some 620.
const STATEMENTS_MAX: u32 = 350;

/// Runs all tasks, one after the other. A failure of one does not keep the others from running. `is_now`: an operator wants also those now that
/// have alarms of their own. What one invocation has no room for is left, and the next one begins with it.
pub async fn run(env: &Env, is_now: bool) {
    let sent: Rc<Cell<u32>> = Rc::default();
    metered(&sent, run_in_turn(env, is_now, &sent)).await;
}

type Task<'a> = (&'static str, LocalBoxFuture<'a, worker::Result<Value>>);

async fn run_in_turn(env: &Env, is_now: bool, sent: &Cell<u32>) {
    // If D1 does not say so, each task says why.
    let is_apart = place_alarms::have_objects(env).await.unwrap_or(false);
    let mut begun = 0;
    let mut left = Vec::new();
    for (task, work) in in_turn(tasks(env, is_now, is_apart), &take_left(env).await) {
        // The first one has its turn whatever was sent before.
        if begun > 0 && sent.get() >= STATEMENTS_MAX {
            left.push(task);
            continue;
        }
        begun += 1;
        record_run(env, task, work).await;
        if task == "places" {
            place_alarms::record_newest(env).await;
        }
    }
    if !left.is_empty() {
        runs::record(env, LEFT, Kept::Newest, runtime::now_ms(), Ok(serde_json::json!({ "tasks": left })))
            .await;
    }
    seal_anew(env).await;
}

/// All tasks, in the order in which they follow upon each other.
fn tasks(env: &Env, is_now: bool, is_apart: bool) -> Vec<Task<'_>> {
    let mut tasks: Vec<Task<'_>> =
        vec![("inbox", Box::pin(async move { operations::ask(env, INBOX_PATH, &()).await }))];
    match is_apart {
        true => tasks.push(("places", Box::pin(place_alarms::keep(env, is_now)))),
        false => tasks.push(("sweep", Box::pin(sweep::sweep(env)))),
    }
    tasks.push(("reconcile", Box::pin(reconcile::reconcile(env, is_now))));
    tasks.push(("fetch_reports", Box::pin(adyen_fetch::fetch(env))));
    tasks.push(("adyen_reports", Box::pin(adyen_import::go_on(env))));
    if !is_apart {
        tasks.push(("settle", Box::pin(settlement_job::write_due_files(env))));
    }
    tasks.push(("answers", Box::pin(bank_acks::import_waiting(env))));
    if !is_apart {
        tasks.push(("history", Box::pin(history::leave(env))));
        tasks.push(("plots", Box::pin(plots::sum(env))));
        tasks.push(("forget", Box::pin(purge::purge(env))));
    }
    // Where the settings are wrong every request says so.
    if let Some(config) = Config::of(env).ok().and_then(|config| config.analytics) {
        tasks.push((COUNTS, Box::pin(async move { analytics::scheduled(env, &config).await })));
    }
    tasks
}

/// Those first that were left, and then the others, in the order of all.
fn in_turn<T>(mut tasks: Vec<(&'static str, T)>, left: &[String]) -> Vec<(&'static str, T)> {
    tasks.sort_by_key(|(task, _)| !left.iter().any(|name| name == task));
    tasks
}

/// The row of `runs` that names what a run has left.
const LEFT: &str = "left";

/// What the run before has left. It is forgotten before anything begins: if one of these breaks this run off, the next one has the order of all, and so
/// whatever comes before it runs.
async fn take_left(env: &Env) -> Vec<String> {
    #[derive(Deserialize)]
    struct Left {
        tasks: Vec<String>,
    }
    let taken: worker::Result<Vec<String>> = async {
        let Some(result) = runs::newest(env, LEFT).await? else { return Ok(Vec::new()) };
        runs::forget(env, LEFT).await?;
        Ok(serde_json::from_str::<Left>(&result)?.tasks)
    }
    .await;
    // If D1 does not say so, each task says why.
    taken.unwrap_or_default()
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
    let began_at_ms = runtime::now_ms();
    let outcome = work.await;
    runs::record(env, task, Kept::All, began_at_ms, outcome).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_run_has_left_the_next_one_begins_with() {
        let all = ["inbox", "sweep", "reconcile", "settle", "forget"];
        let order = |left: &[&str]| {
            let left: Vec<String> = left.iter().map(|task| (*task).to_owned()).collect();
            let tasks = in_turn(all.map(|task| (task, ())).to_vec(), &left);
            tasks.into_iter().map(|(task, ())| task).collect::<Vec<_>>()
        };
        assert_eq!(order(&[]), all);
        assert_eq!(order(&["forget", "settle"]), ["settle", "forget", "inbox", "sweep", "reconcile"]);
        assert_eq!(order(&["inbox", "sweep"]), all);
        assert_eq!(order(&["of another release"]), all);
    }
}
