//! Wakes objects whose alarm is late or lost: those that the read model knows to be open, past the time at which they
//! should have been taken up, and those that wait for their provider and have not been heard of for long. An
//! object that is woken does what its alarm would have done, and sets it anew.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Date, Env, Result};

use crate::log::log;
use crate::machine::id::{ObjectId, PaymentId};
use crate::object::client;
use crate::object::message::Ask;
use crate::readmodel::db::Db;

/// How late an alarm may be before it is taken for lost, in ms.
const GRACE_MS: u64 = 120_000;
/// How many objects one sweep wakes, of those with an open key and of those that wait for their provider: an invocation has
/// 1000 calls, and the next sweep is near.
const OBJECTS_MAX: u32 = 100;
/// How long a payment that waits for its provider is left alone, in ms: at least so long …
const WAIT_MIN_MS: u64 = 900_000;
/// … and at most so long: its object asks at least once in 27 hours. In between it is a quarter of the payment's age; the
/// object asks after an eighth.
const WAIT_MAX_MS: u64 = 108_000_000;

/// Those with an open key that should have been taken up before `?1`, at most `?2`.
const OPEN: &str = "SELECT object FROM keys WHERE status = 'open' AND wake_at_ms < ?1
     GROUP BY object ORDER BY min(wake_at_ms) LIMIT ?2";

/// Those that wait for their provider, and of which nothing was heard for longer than they themselves wait, at `?1`: at most
/// `?2`.
const WAITING: &str = "WITH waiting (object, heard_at_ms, created_at_ms) AS (
        SELECT object, max(updated_at_ms, coalesce(woken_at_ms, 0)), created_at_ms
        FROM payments WHERE status IN ('processing', 'requires_action')
        UNION
        SELECT p.object, max(p.updated_at_ms, coalesce(p.woken_at_ms, 0)), r.created_at_ms
        FROM refunds r JOIN payments p ON p.payment_id = r.payment_id WHERE r.status = 'pending')
     SELECT object FROM waiting
     WHERE ?1 - heard_at_ms > max(?3, min(?4, (?1 - created_at_ms) / 4))
     GROUP BY object ORDER BY min(heard_at_ms) LIMIT ?2";

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
    let bounds = vec![now_ms.into(), most(), WAIT_MIN_MS.into(), WAIT_MAX_MS.into()];
    let waiting: Vec<Late> = db.rows(WAITING, bounds).await?;
    let late: BTreeSet<String> = open.into_iter().chain(waiting).map(|late| late.object).collect();
    let woken = join_all(late.iter().map(|object| wake(env, &db, object, now_ms))).await;
    let failed = woken.iter().filter(|woken| woken.is_err()).count();
    if let Some(Err(error)) = woken.iter().find(|woken| woken.is_err()) {
        log("error", &[("event", "sweep_failed".into()), ("error", error.to_string().into())]);
    }
    Ok(json!({ "late": late.len(), "woken": late.len() - failed, "failed": failed }))
}

async fn wake(env: &Env, db: &Db, object: &str, now_ms: u64) -> Result<()> {
    let Some(id) = ObjectId::from_hex(object) else {
        return Err(worker::Error::RustError("not an object's id".to_owned()));
    };
    // Behind all others, should it change nothing: whoever waits longest is woken first.
    let payment = PaymentId::in_object(id).to_string();
    let keys = "UPDATE keys SET wake_at_ms = ?2 WHERE object = ?1 AND status = 'open'";
    let payments = "UPDATE payments SET woken_at_ms = ?2 WHERE payment_id = ?1";
    db.batch(vec![
        db.statement(keys, vec![object.into(), now_ms.into()])?,
        db.statement(payments, vec![payment.into(), now_ms.into()])?,
    ])
    .await?;
    client::ask::<()>(env, id, &Ask::Wake).await
}
