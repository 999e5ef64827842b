//! Pages of an account's payments.

use std::cmp::Reverse;

use serde::Deserialize;
use worker::{Env, Error, Result};

use super::list::ListQuery;
use once::id::Owner;
use runtime::db::Value;
use runtime::lists::{Listed, Part};
use runtime::places::{ReadModel, Wanted};

/// A page.
#[derive(Debug)]
pub enum Page {
    /// The payments as the API shows them, the newest first, and whether there are more.
    Of(Vec<serde_json::Value>, bool),
    /// It should begin after a payment that is not known here.
    AfterUnknown,
    /// There is none like that that was made then or later, in ms since the epoch; so many shards were asked for it that those of before are for another
    /// request.
    NoneSince(u64),
}

/// What a request asks for.
pub async fn page(env: &Env, owner: &Owner, query: &ListQuery) -> Result<Page> {
    #[derive(Deserialize)]
    struct Place {
        created_at_ms: u64,
    }
    let model = ReadModel::of(env);
    let owner = owner.to_text();
    let mut wanted = Wanted {
        owner: Some(&owner),
        from_ms: query.created_from_ms.unwrap_or(0),
        until_ms: query.created_before_ms.unwrap_or(u64::MAX),
    };
    let mut conditions = vec!["owner = ?1".to_owned()];
    let mut values: Vec<Value> = vec![owner.as_str().into()];
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
        let values = vec![id.as_str().into(), owner.as_str().into()];
        // The page before may have been of other times.
        let mut found = model.first_of::<Place>(&wanted, sql, values.clone()).await?;
        if found.is_none() {
            found = model.first_of(&Wanted { owner: Some(&owner), ..Wanted::ALL }, sql, values).await?;
        }
        let Some((_, place)) = found else { return Ok(Page::AfterUnknown) };
        wanted.until_ms = wanted.until_ms.min(place.created_at_ms.saturating_add(1));
        add("created_at_ms <= ?", place.created_at_ms.into());
        let at = format!("(created_at_ms < {} OR payment_id < ?)", place.created_at_ms);
        add(&at, id.into());
    }
    let limit = usize::try_from(query.limit).unwrap_or(1);
    // With what merges the rows of several places.
    let merging = if model.may_be_many().await? { ", created_at_ms, payment_id, version" } else { "" };
    let sql = |most| {
        let conditions = conditions.join(" AND ");
        format!(
            "SELECT shown{merging} FROM payments WHERE {conditions} ORDER BY created_at_ms DESC, payment_id DESC LIMIT {most}"
        )
    };
    let made_at_ms = |row: &Row| row.created_at_ms;
    let Part { mut rows, looked_to_ms } =
        model.newest(&wanted, sql, values, limit + 1, true, made_at_ms).await?;
    // A page that leaves payments out without a word would be wrong.
    if let Some(missing) = model.missing() {
        return Err(Error::RustError(missing));
    }
    if let Some(since_ms) = looked_to_ms.filter(|_| rows.is_empty()) {
        return Ok(Page::NoneSince(since_ms));
    }
    let has_more = rows.len() > limit || looked_to_ms.is_some();
    rows.truncate(limit);
    let shown = rows.iter().map(|row| json_text::from_str(&row.shown)).collect::<serde_json::Result<_>>();
    let shown = shown.map_err(|error| Error::RustError(json_text::unquoted(&error)))?;
    Ok(Page::Of(shown, has_more))
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
