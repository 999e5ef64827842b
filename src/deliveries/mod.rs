//! Outgoing webhooks: which endpoint an account has, and how it is told.
//!
//! An event follows from a projection ([`messages::event`]). The consumer of the jobs hands it on to a queue of its own, and does it there
//! (`jobs/deliver_webhook.rs`). All of it is off without the binding of that queue: then nothing is looked up.

pub mod endpoint;
pub(crate) mod known;
pub(crate) mod send;
pub mod untaken;

use std::time::Duration;

use messages::event::events;
use messages::job::batches;
use messages::queue::DELIVERIES;
use messages::snapshot::Snapshot;
use once::id::Owner;
use runtime::{metrics, queue};
use worker::{Env, Error, Result};

use crate::config::Config;

/// How long the queue may take to accept events.
const QUEUE_TAKES: Duration = Duration::from_secs(5);

/// Whether there are outgoing webhooks here.
pub(crate) fn are_on(env: &Env) -> bool {
    queue::bound(env).has_deliveries
}

/// Hands on the events of a snapshot, if its account has an endpoint, and had one when they happened. An error means that the queue may not have them.
pub(crate) async fn tell(
    env: &Env,
    config: &Config,
    snapshot: &Snapshot,
    staged_at_ms: u64,
    now_ms: u64,
) -> Result<()> {
    if !are_on(env) {
        return Ok(());
    }
    let mut events = events(snapshot, staged_at_ms);
    let Some(Owner::Account(account)) = Owner::from_text(&snapshot.owner).filter(|_| !events.is_empty())
    else {
        return Ok(());
    };
    let Some(endpoint) = known::of(env, config, &account, now_ms).await? else { return Ok(()) };
    events.retain(|event| endpoint.is_told_of(event.at_ms()));
    let texts =
        events.iter().map(|event| event.delivery(&account)).collect::<serde_json::Result<Vec<_>>>()?;
    for batch in batches(texts, String::as_str) {
        let texts = batch.iter().map(|text| (text.as_str(), 0));
        let sent = queue::send(env, DELIVERIES, texts, QUEUE_TAKES).await;
        sent.map_err(|error| Error::RustError(format!("its events were not handed on: {error}")))?;
        metrics::queued(batch.len());
    }
    Ok(())
}
