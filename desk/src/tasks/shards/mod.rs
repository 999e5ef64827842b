//! Takes what is in D1 to its shards, where an operator has begun that: a part with each sweep, and with each request of the command.

pub(super) mod mover;
pub(super) mod rows;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use worker::Env;

use self::mover::{Cursor, Stores};
use messages::placement::{STRAGGLE_MS, ShardName};
use payments::timestamp;
use runtime::db::{self, Db, Statement};
use runtime::places;

/// Takes a part of what is in D1 to where it counts. Gives how far it has come.
pub(crate) async fn part(env: &Env, now_ms: u64, steps: usize) -> worker::Result<Value> {
    let layouts = places::layouts(env).await?;
    let d1 = Db::of(env)?;
    let mut moved = 0;
    let mut failed = BTreeMap::new();
    let mut is_done = true;
    let mut begins_at_ms = None;
    for layout in layouts.iter().filter(|layout| layout.slots > 0) {
        let Some(at_ms) = layout.moved_at_ms else { continue };
        // Until then a message may still be on its way to D1.
        let at_ms = at_ms.saturating_add(STRAGGLE_MS);
        if now_ms < at_ms {
            is_done = false;
            begins_at_ms = begins_at_ms.max(Some(at_ms));
            continue;
        }
        let places = Places { env, d1: &d1 };
        for _ in 0..steps {
            let cursor = cursor(&d1, layout.layout_id).await?;
            let step = mover::step(&places, &layouts, layout, cursor, now_ms).await;
            let step = step.map_err(worker::Error::RustError)?;
            moved += step.moved;
            failed.extend(step.failed);
            let next = step.next.as_ref().map(serde_json::to_string).transpose()?;
            let sql = "UPDATE shard_layouts SET cursor = ?2, moved = moved + ?3 WHERE layout_id = ?1";
            let number = u64::try_from(step.moved).unwrap_or(u64::MAX);
            d1.run(sql, vec![layout.layout_id.into(), next.into(), number.into()]).await?;
            if step.next.is_none() {
                break;
            }
        }
        let is_over = mover::is_done(&places, layout).await.map_err(worker::Error::RustError)?;
        if is_over {
            let sql = "UPDATE shard_layouts SET done_at_ms = ?2 WHERE layout_id = ?1 AND done_at_ms IS NULL";
            d1.run(sql, vec![layout.layout_id.into(), now_ms.into()]).await?;
        }
        is_done &= is_over;
    }
    Ok(json!({
        "moved": moved, "done": is_done, "begins": begins_at_ms.map(timestamp), "failed": failed,
    }))
}

async fn cursor(d1: &Db, layout_id: u64) -> worker::Result<Option<Cursor>> {
    #[derive(Deserialize)]
    struct Row {
        cursor: Option<String>,
    }
    let sql = "SELECT cursor FROM shard_layouts WHERE layout_id = ?1";
    let row: Option<Row> = d1.first(sql, vec![layout_id.into()]).await?;
    let text = row.and_then(|row| row.cursor);
    Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
}

/// The places as they are.
struct Places<'a> {
    env: &'a Env,
    d1: &'a Db,
}

impl Places<'_> {
    async fn at(&self, place: Option<&ShardName>) -> Result<Db, String> {
        match place {
            None => Ok(self.d1.clone()),
            Some(shard) => {
                places::shard_to_write(self.env, self.d1, shard).await.map_err(|error| error.to_string())
            }
        }
    }
}

impl Stores for Places<'_> {
    async fn texts(
        &self,
        place: Option<&ShardName>,
        sql: &str,
        values: Vec<db::Value>,
    ) -> Result<Vec<String>, String> {
        #[derive(Deserialize)]
        struct Text {
            row: String,
        }
        let rows: worker::Result<Vec<Text>> = self.at(place).await?.rows(sql, values).await;
        Ok(rows.map_err(|error| error.to_string())?.into_iter().map(|text| text.row).collect())
    }

    async fn batch(&self, place: Option<&ShardName>, statements: Vec<Statement>) -> Result<(), String> {
        self.at(place).await?.batch(statements).await.map_err(|error| error.to_string())
    }

    async fn write_down(&self, shard: &ShardName) -> Result<(), String> {
        self.at(Some(shard)).await.map(drop)
    }
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod settled;
#[cfg(test)]
pub(super) mod settled_payments;
