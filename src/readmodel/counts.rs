//! How many keys, payments and rides there are in each status.

use serde::Deserialize;
use worker::{Env, Result};

use super::db::Db;
use crate::metrics::Thing;
use crate::metrics::stats::Counts;

/// Counts them all.
pub async fn counts(env: &Env) -> Result<Counts> {
    #[derive(Deserialize)]
    struct Row {
        thing: String,
        status: String,
        number: i64,
    }
    let sql = "SELECT 'key' AS thing, status, count(*) AS number FROM keys GROUP BY status
         UNION ALL SELECT 'payment', status, count(*) FROM payments GROUP BY status
         UNION ALL SELECT 'ride', status, count(*) FROM rides GROUP BY status";
    let rows: Vec<Row> = Db::of(env)?.rows(sql, Vec::new()).await?;
    let known = |row: Row| {
        let thing = match row.thing.as_str() {
            "key" => Thing::Key,
            "payment" => Thing::Payment,
            _ => Thing::Ride,
        };
        let status = thing.statuses().iter().find(|status| **status == row.status)?;
        Some((thing, *status, row.number))
    };
    Ok(rows.into_iter().filter_map(known).collect())
}
