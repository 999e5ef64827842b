//! Lists: newest first, paged by ids. <https://docs.stripe.com/api/pagination>

use serde_json::{Value, json};

use crate::provider::Call;
use crate::store::Query;
use crate::stripe::errors::{ApiError, Failure, Outcome, no_such};
use crate::stripe::kinds::Kind;
use crate::stripe::objects::Objects;
use crate::stripe::params::Params;

/// What is listed where.
pub struct Page {
    /// Of which kind.
    pub kind: Kind,
    /// Which of them.
    pub query: Query,
    /// `list.url`.
    pub url: &'static str,
}

/// One page, by `limit`, `starting_after`, `ending_before` and `created`.
pub fn page(call: &mut Call, params: &Params, page: Page) -> Outcome<Value> {
    page_of(call, params, page, |_| true)
}

/// One page of those that are to be shown.
pub fn page_of(
    call: &mut Call,
    params: &Params,
    page: Page,
    shows: impl Fn(&Value) -> bool,
) -> Outcome<Value> {
    let mut query = page.query;
    let limit = limit(params)?;
    (query.created_from_s, query.created_until_s) = created(params)?;
    let older_than = cursor(call, params, "starting_after", page.kind)?;
    let newer_than = cursor(call, params, "ending_before", page.kind)?;
    if older_than.is_some() && newer_than.is_some() {
        return Err(ApiError::invalid(
            "You may only specify one of these parameters: starting_after, ending_before.",
        )
        .refused());
    }
    query.before_seq = older_than;
    query.after_seq = newer_than;
    // A page before a cursor lies right before it, so it is read from the cursor on and turned round.
    query.oldest_first = newer_than.is_some();
    query.limit = limit + 1;
    let kept = usize::try_from(limit).unwrap_or(0);
    let mut data: Vec<Value> = Vec::new();
    while data.len() <= kept {
        let rows = call.list(query.clone())?;
        let Some(last) = rows.last() else { break };
        let next = if query.oldest_first { &mut query.after_seq } else { &mut query.before_seq };
        *next = Some(last.seq);
        for row in &rows {
            let object: Value = serde_json::from_str(&row.body)?;
            if shows(&object) {
                data.push(object);
            }
        }
    }
    let has_more = data.len() > kept;
    data.truncate(kept);
    if query.oldest_first {
        data.reverse();
    }
    Ok(json!({ "object": "list", "data": data, "has_more": has_more, "url": page.url }))
}

/// Whether an object is only the trace of one that was deleted.
pub fn is_deleted(object: &Value) -> bool {
    object.get("deleted").is_some()
}

/// `limit`: 1 to 100, by default 10.
pub fn limit(params: &Params) -> Outcome<i64> {
    let invalid = |message: &str| -> Failure {
        ApiError::invalid(message).code("parameter_invalid_integer").param("limit").refused()
    };
    match params.integer("limit")? {
        None => Ok(10),
        Some(limit) if limit < 1 => Err(invalid("This value must be greater than or equal to 1.")),
        Some(limit) if limit > 100 => Err(invalid("This value must be less than or equal to 100.")),
        Some(limit) => Ok(limit),
    }
}

fn cursor(call: &Call, params: &Params, name: &str, kind: Kind) -> Outcome<Option<i64>> {
    let Some(id) = params.text(name)? else {
        return Ok(None);
    };
    match call.find(kind, id)? {
        Some(row) => Ok(Some(row.seq)),
        None => Err(no_such(kind, id, 400, name).refused()),
    }
}

/// `created=…` or `created[gte|gt|lte|lt]=…`, as two inclusive bounds in seconds.
fn created(params: &Params) -> Outcome<(Option<i64>, Option<i64>)> {
    if !params.has("created") {
        return Ok((None, None));
    }
    let Ok(Some(bounds)) = params.map("created") else {
        let exactly = params.integer("created")?.map(bounded);
        return Ok((exactly, exactly));
    };
    bounds.allow(&["gt", "gte", "lt", "lte"])?;
    let from = bounds.integer("gte")?.max(bounds.integer("gt")?.map(|after| after.saturating_add(1)));
    let until = match (bounds.integer("lte")?, bounds.integer("lt")?.map(|before| before.saturating_sub(1))) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Ok((from.map(bounded), until.map(bounded)))
}

/// Far enough for any calendar, and safe to turn into milliseconds.
fn bounded(seconds: i64) -> i64 {
    seconds.clamp(0, 100_000_000_000)
}
