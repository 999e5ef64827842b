//! Charges: each attempt of a PaymentIntent makes one, declined ones too. <https://docs.stripe.com/api/charges>
//!
//! They cannot be made directly; they follow from PaymentIntents. Rows of this kind are the ledger: no code ever deletes one.

use serde_json::{Value, json};

use crate::provider::{Call, Links};
use crate::store::Query;
use crate::stripe::balance::ASYNC_CAPTURE_MS;
use crate::stripe::cards::Card;
use crate::stripe::charge::{self, Answer, Charge};
use crate::stripe::errors::Outcome;
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::lists::{self, Page};
use crate::stripe::metadata;
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::stripe::payment_intent::PaymentIntent;
use crate::stripe::payment_methods::{PaymentMethod, no_billing_details};
use crate::stripe::refund;
use crate::stripe::unshown;
use crate::stripe::version;

/// Charges the card for a PaymentIntent.
pub fn create(
    call: &mut Call,
    intent: &PaymentIntent,
    (payment_method, card): (&PaymentMethod, &Card),
    answer: Answer,
) -> Outcome<Charge> {
    let authenticated = unshown::of(call, &intent.id)?.authenticated.as_ref() == Some(&payment_method.id);
    let mut charge = Charge {
        id: call.new_id(Kind::Charge),
        object: "charge".to_owned(),
        amount: intent.amount,
        amount_captured: 0,
        amount_refunded: 0,
        application: None,
        application_fee: None,
        application_fee_amount: None,
        balance_transaction: None,
        billing_details: no_billing_details(),
        calculated_statement_descriptor: None,
        captured: false,
        created: call.now_s(),
        currency: intent.currency.clone(),
        customer: intent.customer.clone(),
        description: intent.description.clone(),
        disputed: false,
        failure_balance_transaction: None,
        failure_code: None,
        failure_message: None,
        fraud_details: json!({}),
        livemode: false,
        metadata: intent.metadata.clone(),
        on_behalf_of: None,
        outcome: Value::Null,
        paid: false,
        payment_intent: Some(intent.id.clone()),
        payment_method: payment_method.id.clone(),
        payment_method_details: details_of(
            intent,
            (&payment_method.card, card.is_enterprise()),
            answer,
            authenticated,
        ),
        receipt_email: intent.receipt_email.clone(),
        receipt_number: None,
        receipt_url: None,
        refunded: false,
        review: None,
        shipping: None,
        source: None,
        source_transfer: None,
        statement_descriptor: intent.statement_descriptor.clone(),
        statement_descriptor_suffix: intent.statement_descriptor_suffix.clone(),
        status: String::new(),
        transfer_data: None,
        transfer_group: intent.transfer_group.clone(),
    };
    charge.apply_answer(answer, call.now_s());
    // An asynchronous capture moves the balance a moment later.
    let is_async = charge.captured && intent.capture_method == "automatic_async";
    if charge.captured && !is_async {
        charge.record_movement(call, charge.amount)?;
    }
    let links = Links {
        customer: intent.customer.clone(),
        parent: Some(intent.id.clone()),
        due_ms: is_async.then(|| call.now_ms + ASYNC_CAPTURE_MS),
        ..Links::default()
    };
    call.insert(Kind::Charge, &charge.id, &charge, links)?;
    events::record(call, answer.event(), &charge)?;
    Ok(charge)
}

/// What a charge says of its card. It is less than the PaymentMethod says, and what the networks add.
fn details_of(
    intent: &PaymentIntent,
    (card, is_enterprise): (&Value, bool),
    answer: Answer,
    authenticated: bool,
) -> Value {
    let of = |name: &str| card.get(name).cloned().unwrap_or_default();
    let network = card.pointer("/networks/available/0").cloned().unwrap_or_default();
    let approved = matches!(answer, Answer::Yes { .. });
    let several = is_enterprise
        && intent.reserves()
        && intent.card_option("request_multicapture") == Some("if_available");
    let details = json!({
        "amount_authorized": approved.then_some(intent.amount),
        "authorization_code": approved.then_some("123456"),
        "brand": of("brand"),
        "checks": of("checks"),
        "country": of("country"),
        "electronic_commerce_indicator": null,
        "exp_month": of("exp_month"),
        "exp_year": of("exp_year"),
        "fingerprint": of("fingerprint"),
        "funding": of("funding"),
        "installments": null,
        "last4": of("last4"),
        "mandate": null,
        "multicapture": { "status": if several { "available" } else { "unavailable" } },
        "network": network,
        "network_transaction_id": null,
        "regulated_status": of("regulated_status"),
        "three_d_secure": authentication_of(intent, card).filter(|_| authenticated),
        "transaction_link_id": null,
        "wallet": null,
    });
    json!({ "card": details, "type": "card" })
}

/// How a card holder is authenticated at the 3-D Secure page.
fn authentication_of(intent: &PaymentIntent, card: &Value) -> Option<Value> {
    let indicator = if card.get("brand")? == "mastercard" { "02" } else { "05" };
    Some(json!({
            "authentication_flow": "challenge",
            "electronic_commerce_indicator": indicator,
            "exemption_indicator": null,
            "result": "authenticated",
            "result_reason": null,
            "transaction_id": format!("3ds_{}", intent.id),
            "version": "2.2.0",
    }))
}

/// The bank's decision about a pending charge.
pub fn decide(call: &mut Call, id: &str, answer: Answer) -> Outcome<()> {
    let mut charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    charge.apply_answer(answer, call.now_s());
    if charge.captured {
        charge.record_movement(call, charge.amount)?;
    }
    charge::save(call, &charge)?;
    events::record(call, answer.event(), &charge)
}

/// Ends a pending charge whose PaymentIntent was cancelled.
pub fn abandon(call: &mut Call, id: &str) -> Outcome<()> {
    let mut charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    charge.status = "failed".to_owned();
    charge.failure_message = Some("The payment was canceled while it was being processed.".to_owned());
    charge::save(call, &charge)?;
    events::record(call, "charge.failed", &charge)
}

/// Gives reserved money free because it was voided.
pub fn void(call: &mut Call, id: &str) -> Outcome<()> {
    let before: Charge = call.of_param(Kind::Charge, id, "charge")?;
    let mut charge = before.clone();
    if !release(call, &mut charge)? {
        return Ok(());
    }
    charge::save(call, &charge)?;
    events::record_change(call, "charge.refunded", &before, &charge)
}

/// Gives reserved money free because its time is over.
pub fn expire(call: &mut Call, id: &str) -> Outcome<()> {
    let charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    events::record(call, "charge.expired", &charge)
}

/// What is not captured is given free. Gives whether that is a refund: it depends on the version of the request.
pub fn release(call: &mut Call, charge: &mut Charge) -> Outcome<bool> {
    let rest_minor = charge.amount - charge.amount_captured;
    if rest_minor <= 0 || !version::refunds_releases(version::of_call(call)) {
        return Ok(false);
    }
    refund::of_release(call, charge, rest_minor)?;
    charge.amount_refunded += rest_minor;
    charge.refunded = charge.amount_refunded == charge.amount;
    Ok(true)
}

/// What time does to a charge: an asynchronous capture has moved the balance.
pub fn settle(call: &mut Call, mut charge: Charge) -> Outcome<()> {
    let before = charge.clone();
    charge.record_movement(call, charge.amount_captured)?;
    call.save(Kind::Charge, &charge.id, &charge, None)?;
    events::record_change(call, "charge.updated", &before, &charge)
}

/// `POST /v1/charges/{id}`: what a merchant writes on it. No sum ever changes so.
pub fn update(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&["description", "metadata", "receipt_email", "transfer_group"])?;
    let before: Charge = call.of_path(Kind::Charge, id, "charge")?;
    let mut charge = before.clone();
    charge.metadata = metadata::merge(&charge.metadata, params)?;
    params.update("description", &mut charge.description)?;
    params.update("receipt_email", &mut charge.receipt_email)?;
    params.update("transfer_group", &mut charge.transfer_group)?;
    charge::save(call, &charge)?;
    events::record_change(call, "charge.updated", &before, &charge)?;
    shown(&charge)
}

/// `GET /v1/charges/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    shown(&call.of_path::<Charge>(Kind::Charge, id, "charge")?)
}

/// `GET /v1/charges`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["created", "customer", "ending_before", "limit", "payment_intent", "starting_after"])?;
    let query = Query {
        customer: params.text("customer")?.map(str::to_owned),
        parent: params.text("payment_intent")?.map(str::to_owned),
        ..Query::all(Kind::Charge)
    };
    lists::page(call, params, Page { kind: Kind::Charge, query, url: "/v1/charges" })
}
