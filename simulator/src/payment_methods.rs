//! PaymentMethods: a test card becomes a PaymentMethod of its own whenever it is used, as at Stripe.
//! <https://docs.stripe.com/api/payment_methods>

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::{Call, Links, shown};
use crate::cards::{self, Card};
use crate::errors::{Outcome, no_such};
use crate::params::Params;
use crate::store::Kind;

/// A PaymentMethod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PaymentMethod {
    /// `pm_…`
    pub id: String,
    object: String,
    allow_redisplay: String,
    billing_details: Value,
    /// What is known of the card.
    pub card: Value,
    created: i64,
    customer: Option<String>,
    livemode: bool,
    metadata: Value,
    #[serde(rename = "type")]
    kind: String,
}

/// `GET /v1/payment_methods/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    let Some((payment_method, _)) = find(call, id)? else {
        return Err(no_such(Kind::PaymentMethod, id, 404, "payment_method").outcome());
    };
    shown(&payment_method)
}

/// The PaymentMethod that a parameter names, with the test card behind it.
pub fn of_param(call: &mut Call, id: &str) -> Outcome<(PaymentMethod, &'static Card)> {
    find(call, id)?.ok_or_else(|| no_such(Kind::PaymentMethod, id, 400, "payment_method").outcome())
}

fn find(call: &mut Call, id: &str) -> Outcome<Option<(PaymentMethod, &'static Card)>> {
    if let Some(card) = cards::find(id) {
        return create(call, card).map(Some);
    }
    let Some(row) = call.find(Kind::PaymentMethod, id)? else {
        return Ok(None);
    };
    let card = row.label.as_deref().and_then(cards::find);
    Ok(card.map(|card| Ok::<_, serde_json::Error>((serde_json::from_str(&row.body)?, card))).transpose()?)
}

fn create(call: &mut Call, card: &'static Card) -> Outcome<(PaymentMethod, &'static Card)> {
    let id = call.new_id(Kind::PaymentMethod);
    let payment_method = PaymentMethod {
        id: id.clone(),
        object: "payment_method".to_owned(),
        allow_redisplay: "unspecified".to_owned(),
        billing_details: no_billing_details(),
        card: json!({
            "brand": card.brand,
            "checks": { "address_line1_check": null, "address_postal_code_check": null, "cvc_check": null },
            "country": "US",
            "display_brand": card.brand,
            "exp_month": 12,
            "exp_year": 2034,
            "fingerprint": format!("sim{}", card.last4),
            "funding": "credit",
            "generated_from": null,
            "last4": card.last4,
            "networks": { "available": [card.brand], "preferred": null },
            "three_d_secure_usage": { "supported": true },
            "wallet": null,
        }),
        created: call.now_s(),
        customer: None,
        livemode: false,
        metadata: json!({}),
        kind: "card".to_owned(),
    };
    let links = Links { label: Some(card.name.to_owned()), ..Links::default() };
    call.insert(Kind::PaymentMethod, &id, &payment_method, links)?;
    Ok((payment_method, card))
}

/// Billing details of which nothing is known.
pub fn no_billing_details() -> Value {
    json!({
        "address": { "city": null, "country": null, "line1": null, "line2": null, "postal_code": null, "state": null },
        "email": null, "name": null, "phone": null, "tax_id": null,
    })
}
