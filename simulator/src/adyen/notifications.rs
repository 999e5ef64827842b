//! What Adyen tells by webhook: <https://docs.adyen.com/development-resources/webhooks/webhook-types>
//!
//! Each item is recorded in the transaction of the change itself, oldest first. `GET /_sim/adyen/notifications` shows them, and `webhooks`
//! sends them. The items have every field that Adyen's HMAC signature is made of.

use serde_json::{Value, json};

use crate::adyen::body::Amount;
use crate::adyen::companies;
use crate::adyen::errors::Fallible;
use crate::adyen::kinds::Kind;
use crate::adyen::payment::Payment;
use crate::adyen::signature;
use crate::clock;
use crate::failure::Outcome;
use crate::provider::{Call, Endpoint, EventSource, Links, Outgoing};
use crate::store;
use crate::store::{Query, Store};

/// What is told without `originalReference`, as in Adyen's examples.
const WITHOUT_ORIGINAL: &[&str] =
    &["CHARGEBACK_REVERSED", "SECOND_CHARGEBACK", "PREARBITRATION_WON", "PREARBITRATION_LOST"];

/// What happened to a payment.
pub struct Event<'a> {
    /// `eventCode`.
    pub code: &'static str,
    /// The modification's `pspReference`; none where it is about the payment itself.
    pub modification: Option<&'a str>,
    /// The modification's own reference; without one, the payment's.
    pub reference: Option<&'a str>,
    /// The amount that it is about; without one, the payment's.
    pub amount: Option<&'a Amount>,
    /// Why it failed; none where it succeeded.
    pub failure: Option<&'a str>,
    /// What is said besides, where it succeeded.
    pub reason: Option<&'a str>,
    /// What a reversal was: `additionalData.modification.action`.
    pub action: Option<&'a str>,
}

/// Records an event.
pub fn record(call: &mut Call, payment: &Payment, event: &Event) -> Fallible<()> {
    let psp_reference = event.modification.unwrap_or(&payment.psp_reference);
    let mut additional_data = serde_json::Map::new();
    for (key, value) in &payment.metadata {
        additional_data.insert(format!("metadata.{key}"), json!(value));
    }
    if let Some(digits) = payment.card_summary().filter(|_| event.code == "AUTHORISATION") {
        additional_data.insert("cardSummary".into(), json!(digits));
    }
    if let Some(action) = event.action {
        additional_data.insert("modification.action".into(), json!(action));
    }
    let mut item = json!({
        "additionalData": additional_data,
        "amount": event.amount.unwrap_or(&payment.amount),
        "eventCode": event.code,
        "eventDate": clock::date(call.now_s()),
        "merchantAccountCode": payment.merchant_account,
        "merchantReference": event.reference.unwrap_or(&payment.reference),
        "paymentMethod": payment.brand,
        "pspReference": psp_reference,
        "reason": event.failure.or(event.reason).unwrap_or_default(),
        "success": if event.failure.is_none() { "true" } else { "false" },
    });
    if event.modification.is_some()
        && !WITHOUT_ORIGINAL.contains(&event.code)
        && let Some(fields) = item.as_object_mut()
    {
        fields.insert("originalReference".into(), json!(payment.psp_reference));
    }
    let links = Links { parent: Some(payment.psp_reference.clone()), ..Links::default() };
    let id = new_id(call, &format!("{psp_reference}:{}", event.code))?;
    Ok(call.insert(Kind::Notification, &id, &item, links)?)
}

/// The id of an item here: what Adyen tells again, of the same event and reference, is another item.
fn new_id(call: &Call, name: &str) -> Fallible<String> {
    let mut id = name.to_owned();
    let mut times = 1;
    while call.store.find(Kind::Notification.into(), &id)?.is_some() {
        times += 1;
        id = format!("{name}:{times}");
    }
    Ok(id)
}

/// How notifications become webhooks, one item each.
pub struct Notifications;

impl EventSource for Notifications {
    fn kind(&self) -> store::Kind {
        Kind::Notification.into()
    }

    fn type_field(&self) -> &'static str {
        "eventCode"
    }

    fn secret_variable(&self) -> &'static str {
        "ADYEN_HMAC_KEY"
    }

    fn endpoint(&self, store: &dyn Store, item: &Value) -> Outcome<Option<Endpoint>> {
        companies::endpoint(store, item)
    }

    fn outgoing(&self, secret: &str, mut item: Value, _at_s: i64) -> Result<Outgoing, String> {
        let signature = signature::of(secret, &item)
            .ok_or_else(|| "ADYEN_HMAC_KEY is not set, or is no hex".to_owned())?;
        if let Some(additional) = item.get_mut("additionalData").and_then(Value::as_object_mut) {
            additional.insert("hmacSignature".into(), json!(signature));
        }
        let body = json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": item }] });
        Ok(Outgoing { path: "/webhooks/adyen".into(), signature: None, body: body.to_string() })
    }
}

/// `GET /_sim/adyen/notifications?payment=…`
pub fn show(store: &dyn Store, payment: Option<String>) -> Outcome<Value> {
    let query = Query { parent: payment, oldest_first: true, ..Query::all(Kind::Notification) };
    let items = store
        .list(&query)?
        .iter()
        .map(|row| Ok(json!({ "NotificationRequestItem": serde_json::from_str::<Value>(&row.body)? })))
        .collect::<Result<Vec<Value>, serde_json::Error>>()?;
    Ok(json!({ "live": "false", "notificationItems": items }))
}
