//! Outgoing webhooks, as the document tells of them.

use messages::event::EventType;
use serde_json::{Map, Value, json};

use super::answers::*;
use super::examples::{AT, payment_example, payment_id};
use super::operation::Operation;
use super::schema::{
    Schema, boolean, constant, integer, integer_of, list, object, one_of_words, reference, text, uri,
};
use crate::edge::shop_url::URL_MAX;
use crate::edge::webhook_endpoint::TEST;
use crate::readmodel::list::{LIMIT_DEFAULT, LIMIT_MAX};

const TAG: &str = "Webhooks";
const URL: &str = "https://shop.example/webhooks/paid-once";
const SECRET: &str = "whsec_WkQwb3RVd1ZtYkxyMHpQMk9hc2QxcVl4a0pvTnRIZ0M=";

/// What any of these may be refused for.
const ANY: [Refusal; 3] = [UNAUTHORIZED, HTTPS_REQUIRED, RATE_LIMITED];
/// What whoever sends a body may be refused for, beside that.
const BODY: [Refusal; 5] =
    [REQUEST_TIMEOUT, CONTENT_TOO_LARGE, BAD_BODY, UNSUPPORTED_MEDIA_TYPE, INVALID_PARAMETERS];

pub(in crate::edge) fn put_webhook_endpoint() -> Operation {
    Operation::new(
        TAG,
        "putWebhookEndpoint",
        "Make or change the endpoint",
        "The address at which this account is told of its payments, by [Standard Webhooks](https://www.standardwebhooks.com/). An account has \
         one; to send the same again changes nothing, so it needs no key. `secret_version` that is one more than the newest makes a new \
         secret, and the one before signs for another 24 hours.",
    )
    .parameters_in_body(true, reference("WebhookEndpointRequest"))
    .shows("The endpoint.", reference("WebhookEndpoint"))
    .answers(201, "The endpoint, made.", &[], [("application/json", reference("WebhookEndpoint"))])
    .refuses(&ANY)
    .refuses(&BODY)
    .refuses(&[ENDPOINT_UNKNOWN])
}

pub(in crate::edge) fn show_webhook_endpoint() -> Operation {
    Operation::new(TAG, "showWebhookEndpoint", "Show the endpoint", "With its secret. Without one it is 404.")
        .shows("The endpoint.", reference("WebhookEndpoint"))
        .refuses(&ANY)
        .refuses(&[NOT_FOUND, UNREADABLE])
}

pub(in crate::edge) fn remove_webhook_endpoint() -> Operation {
    Operation::new(
        TAG,
        "removeWebhookEndpoint",
        "Remove the endpoint",
        "Nothing is told any more, also not what is being tried. One that is made later has another secret.",
    )
    .answers(204, "Removed, now or before.", &[], [])
    .refuses(&ANY)
    .refuses(&[ENDPOINT_UNKNOWN])
}

pub(in crate::edge) fn test_webhook_endpoint() -> Operation {
    Operation::new(
        TAG,
        "testWebhookEndpoint",
        "Test the endpoint",
        "Sends it a message of the type `webhook_endpoint.test` at once, and says what it has answered. Each request sends another one, \
         which is about nothing.",
    )
    .parameters_in_body(false, reference("WebhookTestRequest"))
    .shows("What came of it.", reference("WebhookTest"))
    .refuses(&ANY)
    .refuses(&BODY)
    .refuses(&[NOT_FOUND, UNREADABLE])
}

pub(in crate::edge) fn list_deliveries() -> Operation {
    Operation::new(
        TAG,
        "listDeliveries",
        "List messages that were not taken",
        "The messages that the endpoint has not taken, the newest first: those that are not sent any more, and with `state=all` also those \
         that are still tried. They are kept until they are sent again or an operator purges them. The list follows within moments.",
    )
    .query("limit", "How many at most.", integer_of(1, LIMIT_MAX).with("default", LIMIT_DEFAULT))
    .query("starting_after", "The `webhook_id` of the last message of the page before.", text())
    .query("state", "`dead`: not sent any more. `all`: also those that are still tried.", one_of_words(["dead", "all"]).with("default", "dead"))
    .shows("The messages.", reference("WebhookDeliveryList"))
    .refuses(&ANY)
    .refuses(&[INVALID_PARAMETERS, NOT_FOUND, UNREADABLE])
}

pub(in crate::edge) fn requeue_delivery() -> Operation {
    Operation::new(
        TAG,
        "requeueDelivery",
        "Send a message again",
        "Sends a message that is not sent any more at once, with the same id and content, and for three days. It needs no key: to send this \
         again changes nothing. 404 where there is no such message of this endpoint, or it was taken.",
    )
    .parameters_in_body(false, reference("WebhookTestRequest"))
    .shows("The message.", reference("WebhookDelivery"))
    .refuses(&ANY)
    .refuses(&BODY)
    .refuses(&[NOT_FOUND, UNREADABLE])
}

/// A message that was not taken.
fn delivery_example(state: &str) -> Value {
    json!({
        "object": "webhook_delivery", "webhook_id": format!("{}_event_2", payment_id()), "type": "payment.succeeded",
        "payment": payment_id(), "state": state, "attempts": if state == "dead" { 12 } else { 0 },
        "error": "shop.example has answered 500", "last_attempt_at": AT, "created_at": AT,
    })
}

/// The messages that are sent: the document's `webhooks`.
pub(super) fn webhooks() -> Value {
    let body = |schema: &str| json!({ "required": true, "content": { "application/json": { "schema": reference(schema) } } });
    let parameters = || {
        ["WebhookId", "WebhookTimestamp", "WebhookSignature"]
            .map(|name| json!({ "$ref": format!("#/components/parameters/{name}") }))
    };
    let sent = |name: &str, about: &str, schema: &str| {
        let message = json!({
            "summary": name, "description": about, "parameters": parameters(), "requestBody": body(schema),
            "responses": {
                "2XX": { "description": "It is taken. The body does not count." },
                "410": { "description": "Nothing is wanted there any more: this message is not sent again." },
                "default": { "description": "It is sent again, for about three days." },
            },
        });
        (name.to_owned(), json!({ "post": message }))
    };
    let events = EventType::ALL.iter().map(|event| sent(event.as_str(), event.about(), "WebhookEvent"));
    let test = sent(TEST, "What `POST /webhook-endpoint/test` sends.", "WebhookTestEvent");
    events.chain([test]).collect::<Map<String, Value>>().into()
}

/// The headers of these messages.
pub(super) fn parameters() -> [(&'static str, Value); 3] {
    let header = |name: &str, about: &str, schema: Schema, example: Value| json!({ "name": name, "in": "header", "required": true, "description": about, "schema": schema, "example": example });
    let id = "pay_Qm9va2luZ3MtbmV2ZXItY2hhcmdlLXR3aWNlLW9rLTE_event_2";
    [
        (
            "WebhookId",
            header(
                "webhook-id",
                "The message's id: the same one for each attempt. What was taken with it is not taken again.",
                text(),
                json!(id),
            ),
        ),
        (
            "WebhookTimestamp",
            header(
                "webhook-timestamp",
                "When this attempt was made: seconds since 1970.",
                integer(),
                json!(1_795_253_400),
            ),
        ),
        (
            "WebhookSignature",
            header(
                "webhook-signature",
                "Signatures with a space between, such as `v1,…`: HMAC-SHA256 of `id.timestamp.body` with the secret, in base64. One of them must be right.",
                text(),
                json!("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ),
        ),
    ]
}

/// What stands in the answers, bodies and messages above.
pub(super) fn schemas() -> Vec<(&'static str, Schema)> {
    let url = || uri().at_most(URL_MAX);
    let version = || integer_of(1, u32::MAX);
    let types = EventType::ALL.iter().map(|event| event.as_str());
    vec![
        (
            "WebhookEndpointRequest",
            object()
                .has("url", url().about("Where: `https://` at a public host, in the demo also `http://` and this machine."))
                .may_have(
                    "secret_version",
                    version().about("The newest version, or one more for a new secret. Left out, the secret stays."),
                )
                .closed()
                .example(json!({ "url": URL })),
        ),
        (
            "WebhookEndpoint",
            object()
                .has("object", constant("webhook_endpoint"))
                .has("url", url())
                .has("secret", text().with("pattern", "^whsec_").about("With which its messages are signed: for a library of Standard Webhooks."))
                .has("secret_version", version())
                .has(
                    "previous_secret_expires_at",
                    reference("Time").or_null().about("When the first of what signs beside this secret ends, if that is known: a version before it, or an older key of the operator's."),
                )
                .has("created_at", reference("Time"))
                .has("updated_at", reference("Time"))
                .may_have("cached", reference("Cached"))
                .example(json!({
                    "object": "webhook_endpoint", "url": URL, "secret": SECRET, "secret_version": 1,
                    "previous_secret_expires_at": null, "created_at": AT, "updated_at": AT,
                })),
        ),
        ("WebhookTestRequest", object().closed().example(json!({}))),
        (
            "WebhookTest",
            object()
                .has("object", constant("webhook_test"))
                .has("webhook_id", text())
                .has("delivered", boolean().about("It was answered with 2xx."))
                .has("response_status", integer_of(100, 599).or_null().about("What was answered, if anything was."))
                .has("error", text().or_null().about("Why there was no answer."))
                .example(json!({
                    "object": "webhook_test", "webhook_id": "test_5a2f0c1d9be84f6e8f1a7c3b2d4e6f80", "delivered": true,
                    "response_status": 204, "error": null,
                })),
        ),
        (
            "WebhookDelivery",
            object()
                .has("object", constant("webhook_delivery"))
                .has("webhook_id", text())
                .has("type", text().or_null())
                .has("payment", reference("PaymentId").or_null())
                .has("state", one_of_words(["dead", "trying"]))
                .has("attempts", integer_of(0, u32::MAX).about("Since it was sent again, if it was."))
                .has("error", text().or_null().about("Why the newest attempt has failed: the host, and what it has answered."))
                .has("last_attempt_at", reference("Time").or_null())
                .has("created_at", reference("Time").about("When the event happened."))
                .example(delivery_example("trying")),
        ),
        (
            "WebhookDeliveryList",
            object()
                .has("object", constant("list"))
                .has("url", constant("/webhook-endpoint/deliveries"))
                .has("has_more", boolean())
                .has("data", list(reference("WebhookDelivery")))
                .example(json!({
                    "object": "list", "url": "/webhook-endpoint/deliveries", "has_more": false,
                    "data": [delivery_example("dead")],
                })),
        ),
        (
            "WebhookEvent",
            object()
                .has("type", one_of_words(types).about("What has happened. A later release may have more of them."))
                .has("timestamp", reference("Time").about("When it happened."))
                .has(
                    "sequence",
                    integer_of(1, u32::MAX).about("Grows with each event of the payment, with gaps: messages may come in any order."),
                )
                .may_have("refund", reference("WebhookRefund").about("The refund, where the event is about one."))
                .may_have("dispute", reference("Dispute").about("The dispute that moved, where the event is about one: of several that one."))
                .has(
                    "data",
                    reference("Payment").about("The payment as it was when this was made: it may be newer than the event, and is never older."),
                )
                .example(json!({
                    "type": "payment.succeeded", "timestamp": AT, "sequence": 2, "data": payment_example(),
                })),
        ),
        (
            "WebhookRefund",
            object()
                .has("id", text())
                .has("object", constant("refund"))
                .has("payment", reference("PaymentId"))
                .has("status", text())
                .has("amount", integer())
                .has("currency", text())
                .has("reason", text())
                .has("provider_refund", text().or_null())
                .has("created_at", reference("Time")),
        ),
        (
            "WebhookTestEvent",
            object().has("type", constant(TEST)).has("timestamp", reference("Time")).has(
                "data",
                object().has("object", constant("webhook_endpoint")).has("url", url()),
            ),
        ),
    ]
}
