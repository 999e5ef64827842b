//! Wakes objects whose alarm is late or lost: those that the read model knows to be open, past the time at which they
//! should have been taken up; those that should have asked their provider by themselves whether anything has changed there; and those
//! that wait for their provider and have not been heard of for long. An object that is woken does what its alarm would
//! have done, and sets it anew.
//!
//! It also shows a person which captures have failed for good.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Date, Env, Result};

use crate::tasks::late::{
    CAPTURE_ENDED, GRACE_MS, NOT_CAPTURED, OPEN, WAIT_MAX_MS, WAIT_MIN_MS, WAITING, WATCHED,
};
use messages::message::ObjectRequest;
use once::id::ObjectId;
use payments::payment::id::PaymentId;
use payments::transitions::by_hand::RECAPTURES_END_MS;
use runtime::client;
use runtime::db::Db;
use runtime::log::log;

/// How many objects of each kind one sweep wakes: an invocation may make 1000 calls.
const OBJECTS_MAX: u32 = 100;

#[derive(Deserialize)]
struct Late {
    object: String,
}

pub(super) async fn sweep(env: &Env) -> Result<Value> {
    let db = Db::of(env)?;
    let now_ms = Date::now().as_millis();
    let most = || OBJECTS_MAX.into();
    let due = now_ms.saturating_sub(GRACE_MS);
    let open: Vec<Late> = db.rows(OPEN, vec![due.into(), most()]).await?;
    let watched: Vec<Late> = db.rows(WATCHED, vec![due.into(), most()]).await?;
    let bounds = vec![now_ms.into(), most(), WAIT_MIN_MS.into(), WAIT_MAX_MS.into()];
    let waiting: Vec<Late> = db.rows(WAITING, bounds).await?;
    let late: BTreeSet<String> =
        open.into_iter().chain(watched).chain(waiting).map(|late| late.object).collect();
    let woken = join_all(late.iter().map(|object| wake(env, &db, object, now_ms))).await;
    let failed = woken.iter().filter(|woken| woken.is_err()).count();
    if let Some(Err(error)) = woken.iter().find(|woken| woken.is_err()) {
        log("error", &[("event", "sweep_failed".into()), ("error", error.to_string().into())]);
    }
    let tried_until_ms = now_ms.saturating_sub(RECAPTURES_END_MS);
    db.batch(vec![
        db.statement(NOT_CAPTURED, vec![now_ms.into(), tried_until_ms.into()])?,
        db.statement(CAPTURE_ENDED, vec![now_ms.into()])?,
    ])
    .await?;
    Ok(json!({ "late": late.len(), "woken": late.len() - failed, "failed": failed }))
}

async fn wake(env: &Env, db: &Db, object: &str, now_ms: u64) -> Result<()> {
    let Some(id) = ObjectId::from_hex(object) else {
        return Err(worker::Error::RustError("not an object's id".to_owned()));
    };
    // Requeue last if waking had no effect: the longest waiting object is woken first.
    let payment = PaymentId::in_object(id).to_string();
    let keys = "UPDATE keys SET wake_at_ms = ?2 WHERE object = ?1 AND status = 'open'";
    let payments = "UPDATE payments SET woken_at_ms = ?2,
        wake_at_ms = CASE WHEN wake_at_ms < ?2 THEN ?2 + ?3 ELSE wake_at_ms END WHERE payment_id = ?1";
    db.batch(vec![
        db.statement(keys, vec![object.into(), now_ms.into()])?,
        db.statement(payments, vec![payment.into(), now_ms.into(), WAIT_MIN_MS.into()])?,
    ])
    .await?;
    client::ask::<()>(env, id, &ObjectRequest::Wake).await
}
