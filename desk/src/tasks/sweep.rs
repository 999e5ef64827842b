//! Wakes objects whose alarm is late or lost: those that the read model knows to be open, past the time at which they
//! should have been taken up; those that should have asked their provider by themselves whether anything has changed there; and those
//! that wait for their provider and have not been heard of for long. An object that is woken does what its alarm would
//! have done, and sets it anew.
//!
//! It also shows a person which captures have failed for good, and of which payments Adyen has told nothing.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Map, Value};
use worker::{Env, Result};

use crate::tasks::late::{
    CAPTURE_ENDED, GRACE_MS, IS_BUSY, KEYS_WOKEN, NOT_CAPTURED, OPEN, QUIET_AFTER_MS, SILENT, SPOKEN,
    WAIT_MAX_MS, WAIT_MIN_MS, WAITING, WATCHED,
};
use messages::message::ObjectRequest;
use once::id::ObjectId;
use payments::payment::id::PaymentId;
use payments::transitions::by_hand::{RECAPTURES_END_MS, REFUND_SILENT_MS, SILENT_MS};
use runtime::client;
use runtime::db::{Db, Statement};
use runtime::log::log;
use runtime::places::ReadModel;

/// How many objects of each kind one sweep wakes, of all places together: an invocation may make 1000 calls.
const OBJECTS_MAX: u32 = 100;

/// How many steps of a move one sweep makes.
const MOVES_MAX: usize = 5;

#[derive(Deserialize)]
struct Late {
    object: String,
}

pub(super) async fn sweep(env: &Env) -> Result<Value> {
    let model = ReadModel::of(env);
    let now_ms = runtime::now_ms();
    let places = model.places().await?;
    let most = (OBJECTS_MAX / u32::try_from(places.len()).unwrap_or(u32::MAX).max(1)).max(1);
    let swept = model.each(places, async |db: Db| sweep_place(env, &db, most, now_ms).await).await?;
    let sum = |of: fn(&Swept) -> usize| swept.iter().map(|(_, swept)| of(swept)).sum::<usize>();
    let swept = Swept {
        late: sum(|swept| swept.late),
        failed: sum(|swept| swept.failed),
        silent: sum(|swept| swept.silent),
        error: swept.iter().find_map(|(_, swept)| swept.error.clone()),
    };
    let mut result = swept.told();
    if let Some(missing) = model.missing() {
        result.insert("missing".to_owned(), missing.into());
    }
    go_on_moving(env, &model, now_ms, &mut result).await?;
    Ok(Value::Object(result))
}

/// Sweeps one place, which has the run for itself. In D1 a move goes on, too.
pub(super) async fn sweep_one(env: &Env, db: &Db) -> Result<Value> {
    let now_ms = runtime::now_ms();
    let mut result = sweep_place(env, db, OBJECTS_MAX, now_ms).await?.told();
    if db.name().is_none() {
        go_on_moving(env, &ReadModel::of(env), now_ms, &mut result).await?;
    }
    Ok(Value::Object(result))
}

/// Whether nothing is open in a place, and no payment was made there within the last hour: no alarm of its objects can be lost soon.
pub(super) async fn is_quiet(db: &Db) -> Result<bool> {
    #[derive(Deserialize)]
    struct Found {
        is_busy: u8,
    }
    let since_ms = runtime::now_ms().saturating_sub(QUIET_AFTER_MS);
    let found: Option<Found> = db.first(IS_BUSY, vec![since_ms.into()]).await?;
    Ok(found.is_some_and(|found| found.is_busy == 0))
}

/// A move that was begun goes on, and what was written to D1 late is taken along.
async fn go_on_moving(
    env: &Env,
    model: &ReadModel,
    now_ms: u64,
    result: &mut Map<String, Value>,
) -> Result<()> {
    if model.directory().await?.layouts.iter().any(|layout| layout.moved_at_ms.is_some()) {
        result.insert("moved".to_owned(), super::shards::part(env, now_ms, MOVES_MAX).await?);
    }
    Ok(())
}

/// What came of one place.
struct Swept {
    late: usize,
    failed: usize,
    silent: usize,
    /// Of the first object that could not be woken, and why.
    error: Option<String>,
}

impl Swept {
    fn told(&self) -> Map<String, Value> {
        let numbers = [("late", self.late), ("woken", self.late - self.failed), ("failed", self.failed)];
        let silent = (self.silent > 0).then_some(("silent", self.silent));
        let numbers =
            numbers.into_iter().chain(silent).map(|(name, number)| (name.to_owned(), number.into()));
        // A run in which an object could not be woken has failed: nobody else tells of a key whose object does not answer.
        let error =
            self.error.as_ref().map(|error| ("error".to_owned(), told_failed(self.failed, error).into()));
        numbers.chain(error).collect()
    }
}

fn told_failed(failed: usize, error: &str) -> String {
    match failed {
        1 => format!("an object could not be woken: {error}"),
        more => format!("{more} objects could not be woken, such as {error}"),
    }
}

/// Wakes what one place of the read model knows to be late: at most so many objects of each kind.
async fn sweep_place(env: &Env, db: &Db, most: u32, now_ms: u64) -> Result<Swept> {
    let most = || most.into();
    let due = now_ms.saturating_sub(GRACE_MS);
    let open: Vec<Late> = db.rows(OPEN, vec![due.into(), most()]).await?;
    let watched: Vec<Late> = db.rows(WATCHED, vec![due.into(), most()]).await?;
    let bounds = vec![now_ms.into(), most(), WAIT_MIN_MS.into(), WAIT_MAX_MS.into()];
    let waiting: Vec<Late> = db.rows(WAITING, bounds).await?;
    let late: BTreeSet<String> =
        open.into_iter().chain(watched).chain(waiting).map(|late| late.object).collect();
    let woken = join_all(late.iter().map(|object| async move {
        wake(env, db, object, now_ms).await.map_err(|error| format!("{object}: {error}"))
    }))
    .await;
    let errors: Vec<String> = woken.into_iter().filter_map(Result::err).collect();
    if let Some(error) = errors.first() {
        log("error", &[("event", "sweep_failed".into()), ("error", error.as_str().into())]);
    }
    let tried_until_ms = now_ms.saturating_sub(RECAPTURES_END_MS);
    let silent_since_ms = now_ms.saturating_sub(SILENT_MS);
    let refunds_before_ms = now_ms.saturating_sub(REFUND_SILENT_MS);
    let flags = vec![
        Statement::new(NOT_CAPTURED, vec![now_ms.into(), tried_until_ms.into()]),
        Statement::new(CAPTURE_ENDED, vec![now_ms.into()]),
        Statement::new(SPOKEN, vec![refunds_before_ms.into()]),
        Statement::new(SILENT, vec![now_ms.into(), silent_since_ms.into(), refunds_before_ms.into()]),
    ];
    let silent = db.batch_changes(flags).await?.last().copied().unwrap_or(0);
    Ok(Swept { late: late.len(), failed: errors.len(), silent, error: errors.into_iter().next() })
}

async fn wake(env: &Env, db: &Db, object: &str, now_ms: u64) -> Result<()> {
    let Some(id) = ObjectId::from_hex(object) else {
        return Err(worker::Error::RustError("not an object's id".to_owned()));
    };
    // Requeue last if waking had no effect: the longest waiting object is woken first.
    let payment = PaymentId::in_object(id).to_string();
    let payments = "UPDATE payments SET woken_at_ms = ?2,
        wake_at_ms = CASE WHEN wake_at_ms < ?2 THEN ?2 + ?3 ELSE wake_at_ms END WHERE payment_id = ?1";
    db.batch(vec![
        Statement::new(KEYS_WOKEN, vec![object.into(), now_ms.saturating_sub(GRACE_MS).into()]),
        Statement::new(payments, vec![payment.into(), now_ms.into(), WAIT_MIN_MS.into()]),
    ])
    .await?;
    client::ask::<()>(env, id, &ObjectRequest::Wake).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_that_could_not_wake_an_object_has_failed() {
        let told = |failed, error: Option<&str>| {
            Value::Object(Swept { late: 3, failed, silent: 0, error: error.map(str::to_owned) }.told())
        };
        let all = serde_json::json!({ "late": 3, "woken": 3, "failed": 0 });
        assert_eq!(told(0, None), all);
        assert_eq!(told(1, Some("a: gone"))["error"], "an object could not be woken: a: gone");
        assert_eq!(told(2, Some("a: gone"))["error"], "2 objects could not be woken, such as a: gone");
    }
}
