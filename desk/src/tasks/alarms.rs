//! Sees to it that tasks which have [objects](super::task_object) of their own have their alarms.

use futures_util::stream::{self, StreamExt};
use worker::{Env, Result};

use super::schedule::{INTERVAL_MS, ScheduledTask, Wake};
use runtime::client;

/// The binding of the objects.
const BINDING: &str = "TASKS";
/// How many are told at once.
const AT_ONCE: usize = 20;
/// Few begin within seconds, many spread over the whole interval.
const STEPS_MIN: u64 = 1_000;

/// Whether tasks have objects.
pub(super) fn is_bound(env: &Env) -> bool {
    env.durable_object(BINDING).is_ok()
}

/// What came of telling objects.
#[derive(Default)]
pub(super) struct Woken {
    /// How many had no alarm, or one too late.
    pub(super) set: usize,
    /// Why the first one that did not answer did not.
    pub(super) failed: Option<worker::Error>,
}

/// Sees to it that each of these has its alarm. Those that have none begin one after the other, within [`INTERVAL_MS`].
pub(super) async fn wake_all(env: &Env, tasks: Vec<ScheduledTask>, is_now: bool) -> Woken {
    let step_ms = INTERVAL_MS / u64::try_from(tasks.len()).unwrap_or(u64::MAX).max(STEPS_MIN);
    let asked = tasks.into_iter().zip(0_u64..).map(|(task, at)| async move {
        let wake = Wake { task: task.to_string(), after_ms: step_ms * at, is_now };
        wake_one(env, &wake).await
    });
    let answers: Vec<Result<bool>> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    let mut woken = Woken::default();
    for answer in answers {
        match answer {
            Ok(is_set) => woken.set += usize::from(is_set),
            Err(error) => drop(woken.failed.get_or_insert(error)),
        }
    }
    woken
}

async fn wake_one(env: &Env, wake: &Wake) -> Result<bool> {
    let stub = env.durable_object(BINDING)?.id_from_name(&wake.task)?.get_stub()?;
    Ok(serde_json::from_str(&client::ask_text(stub, &serde_json::to_string(wake)?).await?)?)
}
