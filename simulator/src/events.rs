//! Events: what happened, in order. <https://docs.stripe.com/api/events>
//!
//! Each is recorded in the transaction of the change itself, so that none is missing and none is about something that did not happen.
//! Sending them is a reader of this list, `webhooks`: it starts after the last `seq` that it has read.

use serde::Serialize;
use serde_json::{Value, json};

use crate::auth::DEFAULT_ACCOUNT;
use crate::call::{Call, Links, shown};
use crate::errors::Outcome;
use crate::lists::{self, Page};
use crate::params::Params;
use crate::store::{Kind, Query};

/// Records that an object changed.
pub fn record<T: Serialize>(call: &mut Call, event_type: &str, object: &T) -> Outcome<()> {
    let id = call.new_id(Kind::Event);
    let mut event = json!({
        "id": id,
        "object": "event",
        "api_version": call.api_version,
        "created": call.now_s(),
        "data": { "object": shown(object)? },
        "livemode": false,
        "pending_webhooks": 0,
        "request": { "id": call.request_id, "idempotency_key": call.idempotency_key },
        "type": event_type,
    });
    // What happens in a connected account says so; here that is any other than the one of most keys.
    if call.account != DEFAULT_ACCOUNT
        && let Some(event) = event.as_object_mut()
    {
        event.insert("account".into(), json!(call.account));
    }
    let links = Links { label: Some(event_type.to_owned()), ..Links::default() };
    call.insert(Kind::Event, &id, &event, links)
}

/// `GET /v1/events/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    call.of_path(Kind::Event, id, "id")
}

/// `GET /v1/events`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["created", "ending_before", "limit", "starting_after", "type", "types"])?;
    let mut labels: Vec<String> = params.list("types")?.into_iter().map(str::to_owned).collect();
    labels.extend(params.text("type")?.map(str::to_owned));
    lists::page(call, params, Page { query: Query { labels, ..Query::all(Kind::Event) }, url: "/v1/events" })
}
