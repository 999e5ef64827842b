//! Pages of an account's payments.

use std::cmp::Reverse;

use serde::Deserialize;
use worker::{Env, Error, Result};

use super::list::ListQuery;
use messages::placement::{ShardName, may_have, month};
use once::id::Owner;
use runtime::db::Value;
use runtime::lists::Listed;
use runtime::places::ReadModel;

/// A page: the payments as the API shows them, the newest first, and whether there are more. `None` if the page should begin
/// after a payment that is not known here.
pub async fn page(
    env: &Env,
    owner: &Owner,
    query: &ListQuery,
) -> Result<Option<(Vec<serde_json::Value>, bool)>> {
    #[derive(Deserialize)]
    struct Place {
        created_at_ms: u64,
    }
    let model = ReadModel::of(env);
    let (mut shards, others) = shards_of(&model, owner, query).await?;
    let mut conditions = vec!["owner = ?1".to_owned()];
    let mut values: Vec<Value> = vec![owner.to_text().into()];
    conditions.extend(query.status.as_deref().and_then(index_of).map(str::to_owned));
    let mut add = |condition: &str, value: Value| {
        values.push(value);
        conditions.push(condition.replace('?', &format!("?{}", values.len())));
    };
    if let Some(status) = &query.status {
        add("status = ?", status.as_str().into());
    }
    if let Some(from_ms) = query.created_from_ms {
        add("created_at_ms >= ?", from_ms.into());
    }
    if let Some(before_ms) = query.created_before_ms {
        add("created_at_ms < ?", before_ms.into());
    }
    if let Some(id) = query.starting_after {
        let id = id.to_string();
        let sql = "SELECT created_at_ms FROM payments WHERE payment_id = ?1 AND owner = ?2";
        let values = vec![id.as_str().into(), owner.to_text().into()];
        let found = model.first_of::<Place>(&shards, sql, values.clone()).await?;
        // The page before may have been of other times.
        let found = match found {
            None if !others.is_empty() => model.first_of(&others, sql, values).await?,
            found => found,
        };
        let Some(place) = found else { return Ok(None) };
        let last = month(place.created_at_ms);
        shards.retain(|name| name.month <= last);
        add("created_at_ms <= ?", place.created_at_ms.into());
        let at = format!("(created_at_ms < {} OR payment_id < ?)", place.created_at_ms);
        add(&at, id.into());
    }
    let limit = usize::try_from(query.limit).unwrap_or(1);
    // With what merges the rows of several places.
    let merging = if shards.is_empty() { "" } else { ", created_at_ms, payment_id, version" };
    let sql = |most| {
        let conditions = conditions.join(" AND ");
        format!(
            "SELECT shown{merging} FROM payments WHERE {conditions} ORDER BY created_at_ms DESC, payment_id DESC LIMIT {most}"
        )
    };
    let mut rows: Vec<Row> =
        model.newest(&shards, sql, values, limit + 1, |row: &Row| row.created_at_ms).await?;
    // A page that leaves payments out without a word would be wrong.
    if let Some(missing) = model.missing() {
        return Err(Error::RustError(missing));
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let shown = rows.iter().map(|row| serde_json::from_str(&row.shown)).collect::<serde_json::Result<_>>()?;
    Ok(Some((shown, has_more)))
}

/// The shards that may have payments of an account that are asked for, and those that may have others of it; those of the newest month first.
/// Without shards none.
async fn shards_of(
    model: &ReadModel,
    owner: &Owner,
    query: &ListQuery,
) -> Result<(Vec<ShardName>, Vec<ShardName>)> {
    let directory = model.directory().await?;
    let owner = owner.to_text();
    let (from, until) = (query.created_from_ms.map(month), query.created_before_ms.map(month));
    let is_asked = |name: &ShardName| {
        from.as_ref().is_none_or(|from| name.month >= *from)
            && until.as_ref().is_none_or(|until| name.month <= *until)
    };
    let of_owner = directory.shards.iter().filter(|name| may_have(&directory.layouts, &owner, name));
    Ok(of_owner.cloned().partition(is_asked))
}

/// A payment, as the API shows it.
#[derive(Deserialize)]
struct Row {
    shown: String,
    #[serde(default)]
    created_at_ms: u64,
    #[serde(default)]
    payment_id: String,
    #[serde(default)]
    version: u64,
}

impl Listed for Row {
    type Order = Reverse<(u64, String)>;

    fn order(&self) -> Self::Order {
        Reverse((self.created_at_ms, self.payment_id.clone()))
    }

    fn id(&self) -> String {
        self.payment_id.clone()
    }

    fn version(&self) -> u64 {
        self.version
    }
}

/// The condition of the index that has the payments of a status, word for word, so that SQLite sees it. Those whose money was taken are found
/// by their owner alone: nearly all are. Those that are open are few, whoever they belong to.
fn index_of(status: &str) -> Option<&'static str> {
    match status {
        "succeeded" => None,
        "disputed" | "canceled" | "expired" | "declined" | "failed" => {
            Some("status IN ('disputed', 'canceled', 'expired', 'declined', 'failed')")
        }
        _ => Some("status != 'succeeded'"),
    }
}
