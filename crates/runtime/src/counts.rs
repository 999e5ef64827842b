//! Counts what waits.

use serde::Deserialize;
use worker::{Env, Result};

use crate::db::Db;
use crate::metrics::text::gauge;

/// What waits: webhooks that are not processed yet.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Backlog {
    waiting: u64,
    oldest_at_ms: Option<u64>,
    dead: u64,
}

impl Backlog {
    /// As `/metrics` shows it.
    pub fn exposition(&self, now_ms: u64) -> String {
        let oldest_s = self.oldest_at_ms.map_or(0, |at_ms| now_ms.saturating_sub(at_ms) / 1000);
        [
            gauge("paid_once_inbox_events", "Webhooks that wait to be worked on.", self.waiting),
            gauge(
                "paid_once_inbox_oldest_seconds",
                "How long the oldest of them that names an object, or is a day old, has waited.",
                oldest_s,
            ),
            gauge("paid_once_inbox_dead_events", "Webhooks that were given up: dead letters.", self.dead),
        ]
        .concat()
    }
}

/// Counts it. What has no payment stands in D1.
pub async fn backlog(env: &Env) -> Result<Backlog> {
    // Until a day is over what names no object of ours is most often somebody else's.
    let sql = "SELECT count(*) AS waiting, min(CASE WHEN object IS NOT NULL OR received_at_ms < ?1 THEN received_at_ms END) AS oldest_at_ms,
            (SELECT count(*) FROM inbox WHERE state = 'dead') AS dead
         FROM inbox WHERE state = 'waiting'";
    let day_ago_ms = crate::now_ms().saturating_sub(86_400_000);
    Ok(Db::of(env)?.first(sql, vec![day_ago_ms.into()]).await?.unwrap_or_default())
}
