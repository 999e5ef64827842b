//! Takes payments of D1 into their shards, some at a time, while payments go on. It may be broken off anywhere, begun again, and done by two at
//! once:
//!
//! 1. All rows of some payments are read, in one statement.
//! 2. They are written into the shard, in one transaction. What the shard has that is newer stays.
//! 3. They are deleted in D1 where they still are what was read. A payment's own row goes last, when nothing of it is left: so whatever was
//!    changed meanwhile is found by it and taken the next time.
//!
//! In between a payment stands in both places: readers ask both, and the newer one counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rows::{DELETED, TABLES, by_table, key_is_in_payment, read_all};
use messages::placement::{self, Layout, ShardName};
use runtime::db::{Statement, Value};

/// How many payments are taken at once.
pub(in crate::tasks) const AT_ONCE: usize = 20;

/// The places, as the mover needs them: `None` is D1.
pub(in crate::tasks) trait Stores {
    /// The only column of each row.
    async fn texts(
        &self,
        place: Option<&ShardName>,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Vec<String>, String>;
    /// Runs all of these, or none.
    async fn batch(&self, place: Option<&ShardName>, statements: Vec<Statement>) -> Result<(), String>;
    /// Writes down that there is this shard, before anything is written into it.
    async fn write_down(&self, shard: &ShardName) -> Result<(), String>;
}

/// How far a pass over D1 has come: after this payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::tasks) struct Cursor {
    made_at_ms: u64,
    payment_id: String,
}

/// What came of a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::tasks) struct Step {
    /// How many payments are in their shards, and their rows here deleted but for what was changed meanwhile.
    pub(in crate::tasks) moved: usize,
    /// Where the next step goes on; `None` at the end of a pass.
    pub(in crate::tasks) next: Option<Cursor>,
    /// Which shards did not take theirs, and why: they are tried again in the next pass.
    pub(in crate::tasks) failed: Vec<(String, String)>,
}

/// A payment in D1.
#[derive(Deserialize)]
struct Payment(String, String, String, u64);

/// The payments that were made from `?1` on and before `?2`, after `?3` of that moment: at most `?4`.
const NEXT: &str = "SELECT json_array(payment_id, object, owner, created_at_ms) AS row FROM payments INDEXED BY payments_by_time
    WHERE created_at_ms >= ?1 AND created_at_ms < ?2 AND (created_at_ms > ?1 OR payment_id > ?3)
    ORDER BY created_at_ms, payment_id LIMIT ?4";

/// Whether a payment is left to be moved.
pub(in crate::tasks) async fn is_done(stores: &impl Stores, layout: &Layout) -> Result<bool, String> {
    let since_ms = layout.moved_since_ms.unwrap_or(layout.from_ms);
    let values = vec![since_ms.into(), layout.from_ms.into(), "".into(), 1_u32.into()];
    Ok(stores.texts(None, NEXT, values).await?.is_empty())
}

/// Moves the next payments of a layout whose move has begun.
pub(in crate::tasks) async fn step(
    stores: &impl Stores,
    layouts: &[Layout],
    layout: &Layout,
    cursor: Option<Cursor>,
    now_ms: u64,
) -> Result<Step, String> {
    let since_ms = layout.moved_since_ms.unwrap_or(layout.from_ms);
    let after = cursor.unwrap_or(Cursor { made_at_ms: since_ms, payment_id: String::new() });
    let values = vec![
        after.made_at_ms.max(since_ms).into(),
        layout.from_ms.into(),
        after.payment_id.into(),
        u64::try_from(AT_ONCE).unwrap_or(u64::MAX).into(),
    ];
    let rows = stores.texts(None, NEXT, values).await?;
    let payments: Vec<Payment> =
        rows.iter().map(|row| serde_json::from_str(row)).collect::<Result<_, _>>().map_err(text)?;
    let mut step = Step::default();
    if payments.len() == AT_ONCE {
        let last = payments.last();
        step.next = last.map(|last| Cursor { made_at_ms: last.3, payment_id: last.0.clone() });
    }
    let mut shards: BTreeMap<ShardName, Vec<Payment>> = BTreeMap::new();
    for payment in payments {
        let Payment(_, object, owner, made_at_ms) = &payment;
        if let Some(shard) = placement::home(layouts, owner, *made_at_ms, object, now_ms).shard {
            shards.entry(shard).or_default().push(payment);
        }
    }
    for (shard, payments) in shards {
        match take(stores, &shard, &payments).await {
            Ok(()) => step.moved += payments.len(),
            Err(error) => step.failed.push((shard.to_string(), error)),
        }
    }
    Ok(step)
}

/// Takes payments of one shard there.
async fn take(stores: &impl Stores, shard: &ShardName, payments: &[Payment]) -> Result<(), String> {
    let ids: Vec<&str> = payments.iter().map(|Payment(id, ..)| id.as_str()).collect();
    let objects: Vec<&str> = payments.iter().map(|Payment(_, object, ..)| object.as_str()).collect();
    let of_object: BTreeMap<&str, &str> = objects.iter().copied().zip(ids.iter().copied()).collect();
    let (ids, objects) = (json(&ids)?, json(&objects)?);
    let of_object = serde_json::to_string(&of_object).map_err(text)?;
    let rows = stores.texts(None, &read_all(), vec![ids.into(), objects.into()]).await?;
    let read = by_table(&rows).map_err(text)?;
    stores.write_down(shard).await?;
    let mut written: Vec<Statement> =
        TABLES.iter().zip(&read).map(|(table, rows)| table.write(rows, &of_object)).collect();
    if let [keys, payments, ..] = read.as_slice() {
        written.insert(1, key_is_in_payment(payments, keys));
    }
    stores.batch(Some(shard), written).await?;
    let deleted = DELETED.iter().filter_map(|place| Some(TABLES.get(*place)?.delete(read.get(*place)?)));
    stores.batch(None, deleted.collect()).await
}

fn json<T: Serialize>(all: &[T]) -> Result<String, String> {
    serde_json::to_string(all).map_err(text)
}

fn text(error: serde_json::Error) -> String {
    error.to_string()
}
