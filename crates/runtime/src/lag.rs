//! How far behind the provider's lists are read.

use serde::Deserialize;
use worker::{Env, Result};

use crate::db::Db;
use messages::source::Source;

/// Of one list.
pub struct Lag {
    /// Which one.
    pub source: Source,
    /// All of it was read in every account but what is younger than that, in ms.
    pub lag_ms: u64,
}

/// Of all lists that were read at all.
pub async fn lag(env: &Env, now_ms: u64) -> Result<Vec<Lag>> {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        through_ms: u64,
    }
    let rows: Vec<Row> = Db::of(env)?.rows("SELECT name, through_ms FROM cursors", Vec::new()).await?;
    let lag = |source: Source| {
        let of_it = rows.iter().filter(|row| Source::of_cursor(&row.name) == Some(source));
        let through_ms = of_it.map(|row| row.through_ms).min()?;
        Some(Lag { source, lag_ms: now_ms.saturating_sub(through_ms) })
    };
    Ok(Source::ALL.into_iter().filter_map(lag).collect())
}
