//! Pages of an account's payments.

use serde::Deserialize;
use worker::{Env, Result};

use super::list::ListQuery;
use once::id::Owner;
use runtime::db::{Db, Value};

/// A page: the payments as the API shows them, the newest first, and whether there are more. `None` if the page should begin
/// after a payment that is not known here.
pub async fn page(
    env: &Env,
    owner: &Owner,
    query: &ListQuery,
) -> Result<Option<(Vec<serde_json::Value>, bool)>> {
    #[derive(Deserialize)]
    struct Row {
        shown: String,
    }
    #[derive(Deserialize)]
    struct Place {
        created_at_ms: u64,
    }
    let db = Db::of(env)?;
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
        let Some(place) = db.first::<Place>(sql, vec![id.as_str().into(), owner.to_text().into()]).await?
        else {
            return Ok(None);
        };
        add("created_at_ms <= ?", place.created_at_ms.into());
        let at = format!("(created_at_ms < {} OR payment_id < ?)", place.created_at_ms);
        add(&at, id.into());
    }
    let limit = usize::try_from(query.limit).unwrap_or(1);
    let sql = format!(
        "SELECT shown FROM payments WHERE {} ORDER BY created_at_ms DESC, payment_id DESC LIMIT {}",
        conditions.join(" AND "),
        limit + 1
    );
    let mut rows: Vec<Row> = db.rows(&sql, values).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let shown = rows.iter().map(|row| serde_json::from_str(&row.shown)).collect::<serde_json::Result<_>>()?;
    Ok(Some((shown, has_more)))
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
