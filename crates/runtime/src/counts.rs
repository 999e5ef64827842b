//! Counts what waits.

use serde::Deserialize;
use worker::{Env, Result};

use crate::metrics::text::gauge;
use crate::places::ReadModel;

/// What waits: webhooks that are not processed yet, and differences that nobody has explained.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Backlog {
    waiting: u64,
    oldest_at_ms: Option<u64>,
    dead: u64,
    breaks: u64,
}

impl Backlog {
    /// As `/metrics` shows it.
    pub fn exposition(&self, now_ms: u64) -> String {
        let oldest_s = self.oldest_at_ms.map_or(0, |at_ms| now_ms.saturating_sub(at_ms) / 1000);
        [
            gauge("paid_once_inbox_events", "Webhooks that wait to be worked on.", self.waiting),
            gauge("paid_once_inbox_oldest_seconds", "How long the oldest of them has waited.", oldest_s),
            gauge("paid_once_inbox_dead_events", "Webhooks that were given up: dead letters.", self.dead),
            gauge("paid_once_breaks_open", "Open differences from the provider's books.", self.breaks),
        ]
        .concat()
    }
}

/// Counts it.
pub async fn backlog(env: &Env) -> Result<Backlog> {
    let sql = "SELECT count(*) AS waiting, min(received_at_ms) AS oldest_at_ms,
            (SELECT count(*) FROM inbox WHERE state = 'dead') AS dead,
            (SELECT count(*) FROM breaks WHERE state = 'open') AS breaks
         FROM inbox WHERE state = 'waiting'";
    let all: Vec<Backlog> = ReadModel::of(env).rows(sql, Vec::new()).await?;
    Ok(all.into_iter().fold(Backlog::default(), |sum, here| Backlog {
        waiting: sum.waiting + here.waiting,
        oldest_at_ms: sum.oldest_at_ms.or(here.oldest_at_ms),
        dead: sum.dead + here.dead,
        breaks: sum.breaks + here.breaks,
    }))
}
