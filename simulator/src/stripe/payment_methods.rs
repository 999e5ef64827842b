//! PaymentMethods: a test card becomes a PaymentMethod of its own whenever it is used, as at Stripe.
//! <https://docs.stripe.com/api/payment_methods>

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::provider::{Call, Links};
use crate::stripe::cards::{self, Behaviour, Card};
use crate::stripe::errors::{ApiError, ErrorType, Failure, Outcome, missing, no_such};
use crate::stripe::kinds::Kind;
use crate::stripe::metadata;
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::text::excerpt;

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
    customer_account: Option<String>,
    livemode: bool,
    metadata: Value,
    #[serde(rename = "type")]
    kind: String,
}

/// `GET /v1/payment_methods/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    let Some((payment_method, _)) = find(call, id)? else {
        return Err(unknown(id, 404));
    };
    shown(&payment_method)
}

/// The PaymentMethod that a parameter names, with the test card behind it.
pub fn of_param(call: &mut Call, id: &str) -> Outcome<(PaymentMethod, &'static Card)> {
    find(call, id)?.ok_or_else(|| unknown(id, 400))
}

/// No such payment method; one of the documented test methods that is not played here is named as such, and never approves.
fn unknown(id: &str, status: u16) -> Failure {
    let mut error = no_such(Kind::PaymentMethod, id, status, "payment_method");
    if let Some(message) = unplayed(id) {
        error.message = message;
    }
    error.outcome()
}

fn unplayed(name: &str) -> Option<String> {
    let reason = cards::unplayed(name)?;
    Some(format!("The simulator does not play {}: {reason}. Test it in a sandbox at Stripe.", excerpt(name)))
}

/// `POST /v1/payment_methods`, of a test token. No card number is ever read.
pub fn make(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["card", "metadata", "type"])?;
    let kind = params.required("type")?;
    if kind != "card" {
        return Err(ApiError::invalid("The simulator knows payment methods of the type card only.")
            .param("type")
            .refused());
    }
    let Some(card) = params.map("card")? else {
        return Err(missing("card"));
    };
    let Some(token) = card.text("token")? else {
        return Err(ApiError::invalid(
            "The simulator reads no card numbers: send card[token], such as tok_visa.",
        )
        .param("card")
        .refused());
    };
    let Some(card) = cards::of_token(token) else {
        let mut error = ApiError::invalid(format!("No such token: '{}'", excerpt(token)))
            .code("resource_missing")
            .param("card[token]");
        if let Some(message) = unplayed(&token.replacen("tok_", "pm_card_", 1)) {
            error.message = message;
        }
        return Err(error.outcome());
    };
    let metadata = metadata::merge(&Metadata::new(), params)?;
    let (mut payment_method, _) = create(call, card)?;
    payment_method.metadata = serde_json::to_value(metadata)?;
    call.save(Kind::PaymentMethod, &payment_method.id, &payment_method, None)?;
    shown(&payment_method)
}

/// Attaches a payment method to a customer, for good. Stripe tries the card for that, and one that is declined is not attached; one
/// test card is declined only afterwards.
pub fn attach(call: &mut Call, id: &str, customer: &str) -> Outcome<()> {
    let (mut payment_method, card) = of_param(call, id)?;
    if payment_method.customer.is_some() {
        return Err(ApiError::invalid(
            "The payment method you provided has already been attached to a customer.",
        )
        .param("payment_method")
        .outcome());
    }
    if let Behaviour::Decline(decline) = card.behaviour
        && card.name != "pm_card_chargeCustomerFail"
    {
        let mut error = ApiError::new(402, ErrorType::Card, decline.message).code(decline.code);
        error.decline_code = decline.decline_code.map(str::to_owned);
        error.param = decline.param.map(str::to_owned);
        return Err(error.outcome());
    }
    payment_method.customer = Some(customer.to_owned());
    call.save(Kind::PaymentMethod, &payment_method.id, &payment_method, None)?;
    Ok(())
}

impl PaymentMethod {
    /// One that is attached pays for its customer alone.
    pub fn pays_for(&self, customer: Option<&str>) -> Outcome<()> {
        if self.customer.is_none() || self.customer.as_deref() == customer {
            return Ok(());
        }
        Err(ApiError::invalid(
            "The provided PaymentMethod belongs to a Customer. Please include that Customer in the `customer` parameter.",
        )
        .param("payment_method")
        .refused())
    }
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
            "country": card.country,
            "display_brand": card.display_brand(),
            "exp_month": 12,
            "exp_year": 2034,
            "fingerprint": fingerprint(card),
            "funding": card.funding,
            "generated_from": null,
            "last4": card.last4,
            "networks": {
                "available": card.local_network.into_iter().chain([card.brand]).collect::<Vec<_>>(), "preferred": null,
            },
            "regulated_status": "unregulated",
            "three_d_secure_usage": { "supported": true },
            "wallet": null,
        }),
        created: call.now_s(),
        customer: None,
        customer_account: None,
        livemode: false,
        metadata: json!({}),
        kind: "card".to_owned(),
    };
    let links = Links { label: Some(card.name.to_owned()), ..Links::default() };
    call.insert(Kind::PaymentMethod, &id, &payment_method, links)?;
    Ok((payment_method, card))
}

/// The same for the same card.
fn fingerprint(card: &Card) -> String {
    format!("sim{}{}{}", card.brand, card.country, card.last4)
}

/// Billing details of which nothing is known.
pub fn no_billing_details() -> Value {
    json!({
        "address": { "city": null, "country": null, "line1": null, "line2": null, "postal_code": null, "state": null },
        "email": null, "name": null, "phone": null, "tax_id": null,
    })
}
