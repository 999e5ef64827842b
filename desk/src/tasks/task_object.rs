//! An object that runs one task at its own alarm, of an account or of a place of the read model: in an invocation of its own, which no other task can hold up, and with limits of its own.
//!
//! - An object has one alarm, and its handler runs once at a time: so does the task. What it is told only moves the alarm.
//! - The alarm is set again before a run begins: a run that is broken off at any point is followed by the next one. How far the task has come
//!   stands in D1, as without objects.
//! - Runs that fail come more rarely. A task that there is nothing to do for any more ends: its object is empty again, and has no alarm.
//!
//! Without the binding `TASKS` the cron runs everything. An object that is left of a time with it ends at its alarm.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use js_sys::Promise;
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::future_to_promise;
use worker::{DurableObject, Env, Request, Response, Result, State, durable_object};

use super::runs::{self, Kept};
use super::schedule::{Ended, INTERVAL_MS, ScheduledTask, Wake, next_run_ms};
use super::{alarms, place_runs, reconcile};
use runtime::http_client::within;
use runtime::log::log;
use runtime::{metrics, now_ms, random};

/// Where an object keeps what it runs.
const STORED: &str = "task";
/// How long a run may take: what is slower is broken off, and the next run goes on.
pub(super) const RUN_MAX_MS: u64 = 600_000;
/// When an alarm that could not even begin is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// An object for each task that has runs of its own.
#[durable_object(alarm)]
pub struct TaskObject(Rc<Parts>);

struct Parts {
    state: State,
    env: Env,
    /// An operator wants another run, after the one that is under way.
    is_wanted: Cell<bool>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    /// The name of the [`ScheduledTask`]: a newer release may know one that this one does not.
    task: String,
    /// How many runs in a row have failed.
    failures: u32,
}

#[wasm_bindgen]
impl TaskObject {
    /// By RPC: a [`Wake`] in JSON is answered with whether the alarm had to be set.
    pub fn ask(&self, question: String) -> Promise {
        let parts = Rc::clone(&self.0);
        future_to_promise(async move {
            let is_set = parts.wake(&question).await.map_err(JsValue::from)?;
            Ok(JsValue::from_str(if is_set { "true" } else { "false" }))
        })
    }
}

impl DurableObject for TaskObject {
    fn new(state: State, env: Env) -> Self {
        Self(Rc::new(Parts { state, env, is_wanted: Cell::new(false) }))
    }

    async fn fetch(&self, _request: Request) -> Result<Response> {
        Response::error("", 404)
    }

    async fn alarm(&self) -> Result<Response> {
        let parts = &self.0;
        if let Err(error) = parts.run().await {
            // An alarm that fails is dropped after some tries.
            log("error", &[("event", "task_alarm_failed".into()), ("error", error.to_string().into())]);
            parts.state.storage().set_alarm(AFTER_FAILURE).await?;
        }
        if let Some(flush) = metrics::flush(&parts.env) {
            parts.state.wait_until(flush);
        }
        Response::empty()
    }
}

impl Parts {
    /// Returns whether the alarm had to be set.
    async fn wake(&self, question: &str) -> Result<bool> {
        let wake: Wake = serde_json::from_str(question)?;
        let storage = self.state.storage();
        if storage.get::<Stored>(STORED).await?.is_none() {
            storage.put(STORED, Stored { task: wake.task.clone(), failures: 0 }).await?;
        }
        if wake.is_now {
            self.is_wanted.set(true);
        }
        let set_to_ms = storage.get_alarm().await?.and_then(|at_ms| u64::try_from(at_ms).ok());
        let Some(at_ms) = wake.alarm_to_set(now_ms(), set_to_ms) else { return Ok(false) };
        self.set_alarm(at_ms).await?;
        Ok(true)
    }

    async fn run(&self) -> Result<()> {
        let began_ms = now_ms();
        // Before all else: whatever breaks this run off, the next one comes.
        self.set_alarm(began_ms.saturating_add(INTERVAL_MS)).await?;
        self.is_wanted.set(false);
        let Some(stored) = self.state.storage().get::<Stored>(STORED).await? else { return self.end().await };
        if !alarms::is_bound(&self.env) {
            runs::forget(&self.env, &stored.task).await?;
            return self.end().await;
        }
        let Some(task) = ScheduledTask::parse(&stored.task) else { return self.end().await };
        let Some(ended) = run(&self.env, &task).await else { return self.end().await };
        let failures = if ended == Ended::Failed { stored.failures.saturating_add(1) } else { 0 };
        if failures != stored.failures {
            self.state.storage().put(STORED, Stored { failures, ..stored }).await?;
        }
        let at_ms = match self.is_wanted.get() {
            true => now_ms(),
            false => next_run_ms(began_ms, now_ms(), ended, failures, random::permille()),
        };
        self.set_alarm(at_ms).await
    }

    /// At once is in a millisecond: an alarm that is set to now in an alarm may not ring. <https://github.com/cloudflare/workerd/issues/6866>
    async fn set_alarm(&self, at_ms: u64) -> Result<()> {
        let after_ms = at_ms.saturating_sub(now_ms()).max(1);
        self.state.storage().set_alarm(Duration::from_millis(after_ms)).await
    }

    /// The object is as if it had never been.
    async fn end(&self) -> Result<()> {
        self.state.storage().delete_alarm().await?;
        self.state.storage().delete_all().await
    }
}

/// Runs a task, and records its result. `None`: there is nothing to do for it any more.
async fn run(env: &Env, task: &ScheduledTask) -> Option<Ended> {
    let name = task.to_string();
    let began_ms = now_ms();
    let work = async {
        match task {
            ScheduledTask::Reconcile(account) => {
                let done = reconcile::reconcile_one(env, account.as_deref()).await?;
                Ok(done.map(|result| (result, Ended::Done)))
            }
            ScheduledTask::Place(shard) => place_runs::run(env, shard.as_ref()).await,
        }
    };
    let outcome = match within(Duration::from_millis(RUN_MAX_MS), "the run", work).await {
        Ok(Some(done)) => Ok(done),
        Ok(None) => match runs::forget(env, &name).await {
            Ok(()) => return None,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let ended = outcome.as_ref().map_or(Ended::Failed, |(_, ended)| *ended);
    runs::record(env, &name, Kept::Newest, began_ms, outcome.map(|(result, _)| result)).await;
    Some(ended)
}
