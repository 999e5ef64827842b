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

/// Of all lists that were read at all, in the accounts that are compared still.
pub async fn lag(env: &Env, now_ms: u64) -> Result<Vec<Lag>> {
    #[derive(Deserialize)]
    struct Row {
        list: String,
        through_ms: Option<u64>,
    }
    let sql = "SELECT value AS list, (SELECT min(through_ms) FROM cursors WHERE list = value AND ended_at_ms IS NULL) AS through_ms
        FROM json_each(?1)";
    let lists = serde_json::to_string(&Source::ALL.map(Source::cursor))?;
    let rows: Vec<Row> = Db::of(env)?.rows(sql, vec![lists.into()]).await?;
    let lag = |row: Row| {
        let lag_ms = now_ms.saturating_sub(row.through_ms?);
        Some(Lag { source: Source::of_cursor(&row.list)?, lag_ms })
    };
    Ok(rows.into_iter().filter_map(lag).collect())
}
