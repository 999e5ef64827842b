//! Counts keys and payments by status.

use serde::Deserialize;
use worker::{Env, Result};

use crate::db::Db;
use crate::metrics::Entity;
use crate::metrics::stats::Counts;
use crate::metrics::text::gauge;
use messages::snapshot::key_status_sql;

/// Counts them all, as they are at `now_ms`.
pub async fn counts(env: &Env, now_ms: u64) -> Result<Counts> {
    #[derive(Deserialize)]
    struct Row {
        entity: String,
        status: String,
        number: i64,
    }
    let key_status = key_status_sql(now_ms);
    let sql = format!(
        "SELECT 'key' AS entity, {key_status} AS status, count(*) AS number FROM key_list GROUP BY 2
         UNION ALL SELECT 'payment', status, count(*) FROM payments GROUP BY status"
    );
    let rows: Vec<Row> = Db::of(env)?.rows(&sql, Vec::new()).await?;
    let known = |row: Row| {
        let entity = match row.entity.as_str() {
            "key" => Entity::Key,
            _ => Entity::Payment,
        };
        let status = entity.statuses().iter().find(|status| **status == row.status)?;
        Some((entity, *status, row.number))
    };
    Ok(rows.into_iter().filter_map(known).collect())
}

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
    Ok(Db::of(env)?.first(sql, Vec::new()).await?.unwrap_or_default())
}
