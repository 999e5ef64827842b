//! Events: what happened, in order. <https://docs.stripe.com/api/events>
//!
//! Each is recorded in the transaction of the change itself, so that none is missing and none is about something that did not happen.
//! `webhooks` reads this list on from where it was, and sends each event signed:
//! <https://docs.stripe.com/webhooks?verify=verify-manually>.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::digest::{hex, hmac_sha256};
use crate::http::render;
use crate::provider::{Call, EventSource, Links, Outgoing};
use crate::store;
use crate::store::Query;
use crate::stripe::auth::DEFAULT_ACCOUNT;
use crate::stripe::errors::Outcome;
use crate::stripe::kinds::Kind;
use crate::stripe::lists::{self, Page};
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::stripe::version;

/// Records what happened to an object.
pub fn record<T: Serialize>(call: &mut Call, event_type: &str, object: &T) -> Outcome<()> {
    insert(call, event_type, &json!({ "object": shown(object)? }))
}

/// Records that an object changed, and what of it was otherwise `before`.
pub fn record_change<T: Serialize>(call: &mut Call, event_type: &str, before: &T, object: &T) -> Outcome<()> {
    let object = shown(object)?;
    let previous = previous_attributes(&shown(before)?, &object);
    insert(call, event_type, &json!({ "object": object, "previous_attributes": previous }))
}

/// The old values of what changed: of an object within, of its fields that changed; a list is told as a whole; what is new was `null`.
/// <https://docs.stripe.com/api/events/object#event_object-data-previous_attributes>
fn previous_attributes(before: &Value, after: &Value) -> Map<String, Value> {
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else { return Map::new() };
    let added = new.keys().filter(|name| !old.contains_key(*name));
    old.keys()
        .chain(added)
        .filter_map(|name| {
            let (was, is) = (old.get(name).unwrap_or(&Value::Null), new.get(name).unwrap_or(&Value::Null));
            let previous = match (was, is) {
                (was, is) if was == is => return None,
                (Value::Object(_), Value::Object(_)) => Value::Object(previous_attributes(was, is)),
                (was, _) => was.clone(),
            };
            Some((name.clone(), previous))
        })
        .collect()
}

fn insert(call: &mut Call, event_type: &str, data: &Value) -> Outcome<()> {
    let id = call.new_id(Kind::Event);
    let (request_id, key) =
        if call.unasked { (None, None) } else { (Some(call.request_id), call.idempotency_key) };
    let mut event = json!({
        "id": id,
        "object": "event",
        // The endpoint's, whatever the request spoke.
        "api_version": version::DEFAULT_API_VERSION,
        "created": call.now_s(),
        "data": data,
        "livemode": false,
        "pending_webhooks": 0,
        "request": { "id": request_id, "idempotency_key": key },
        "type": event_type,
    });
    // What happens in a connected account says so; here that is any other than the one of most keys.
    if call.account != DEFAULT_ACCOUNT
        && let Some(event) = event.as_object_mut()
    {
        event.insert("account".into(), json!(call.account));
    }
    let links = Links { label: Some(event_type.to_owned()), ..Links::default() };
    Ok(call.insert(Kind::Event, &id, &event, links)?)
}

/// How events become webhooks.
pub struct Events;

impl EventSource for Events {
    fn kind(&self) -> store::Kind {
        Kind::Event.into()
    }

    fn type_field(&self) -> &'static str {
        "type"
    }

    fn secret_variable(&self) -> &'static str {
        "STRIPE_WEBHOOK_SECRET"
    }

    fn outgoing(&self, secret: &str, mut event: Value, at_s: i64) -> Result<Outgoing, String> {
        if secret.is_empty() {
            return Err("STRIPE_WEBHOOK_SECRET is not set".to_owned());
        }
        if let Some(pending) = event.get_mut("pending_webhooks") {
            *pending = json!(1);
        }
        let body = render(&event);
        let signature =
            signature(secret, at_s, &body).ok_or_else(|| "the event could not be signed".to_owned())?;
        Ok(Outgoing {
            path: "/webhooks/stripe".into(),
            signature: Some(("Stripe-Signature", signature)),
            body,
        })
    }
}

/// `Stripe-Signature` over a raw body, as sent in this second.
fn signature(secret: &str, at_s: i64, body: &str) -> Option<String> {
    let signature = hmac_sha256(secret.as_bytes(), format!("{at_s}.{body}").as_bytes())?;
    Some(format!("t={at_s},v1={}", hex(&signature)))
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
    lists::page(
        call,
        params,
        Page { kind: Kind::Event, query: Query { labels, ..Query::all(Kind::Event) }, url: "/v1/events" },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::previous_attributes;

    #[test]
    fn only_what_changed_is_told_with_its_old_value() {
        let before =
            json!({ "a": 1, "b": null, "same": 2, "in": { "x": 1, "y": 2 }, "list": [1], "gone": "g" });
        let after = json!({ "a": 2, "b": { "c": 1 }, "same": 2, "in": { "x": 1, "y": 3, "z": 4 }, "list": [1, 2], "new": 5 });
        assert_eq!(
            json!(previous_attributes(&before, &after)),
            json!({ "a": 1, "b": null, "in": { "y": 2, "z": null }, "list": [1], "gone": "g", "new": null })
        );
        assert!(previous_attributes(&before, &before).is_empty());
    }
}
