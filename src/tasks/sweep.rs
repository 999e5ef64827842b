//! Wakes objects whose alarm is late or lost: those that the read model knows to be open, past the time at which they
//! should have been taken up. An object that is woken does what its alarm would have done, and sets it anew.

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Date, Env, Result};

use crate::log::log;
use crate::machine::id::ObjectId;
use crate::object::client;
use crate::object::message::Ask;
use crate::readmodel::db::Db;

/// How late an alarm may be before it is taken for lost, in ms.
const GRACE_MS: u64 = 120_000;
/// How many objects one sweep wakes: an invocation has 1000 calls, and the next sweep is near.
const OBJECTS_MAX: u32 = 100;

#[derive(Deserialize)]
struct Late {
    object: String,
}

pub(super) async fn sweep(env: &Env) -> Result<Value> {
    let db = Db::of(env)?;
    let now_ms = Date::now().as_millis();
    let late: Vec<Late> = db
        .rows(
            "SELECT object FROM keys WHERE status = 'open' AND wake_at_ms < ?1
             GROUP BY object ORDER BY min(wake_at_ms) LIMIT ?2",
            vec![now_ms.saturating_sub(GRACE_MS).into(), OBJECTS_MAX.into()],
        )
        .await?;
    let woken = join_all(late.iter().map(|late| wake(env, &db, &late.object, now_ms))).await;
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
    db.run(
        "UPDATE keys SET wake_at_ms = ?2 WHERE object = ?1 AND status = 'open'",
        vec![object.into(), now_ms.into()],
    )
    .await?;
    client::ask::<()>(env, id, &Ask::Wake).await
}
