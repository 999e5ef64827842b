//! Refunds: <https://docs.stripe.com/api/refunds>. The sum of a charge's refunds never exceeds what was captured.

use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::provider::Call;
use crate::store::Query;
use crate::stripe::balance::{self, Movement};
use crate::stripe::cards::Behaviour;
use crate::stripe::charge::{self, Charge};
use crate::stripe::currencies::{check_rounding, format_amount};
use crate::stripe::disputes;
use crate::stripe::errors::{ApiError, Failure, Outcome, at_least_one, no_such};
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::lists::{self, Page};
use crate::stripe::metadata;
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::stripe::payment_intent::PaymentIntent;
use crate::stripe::payment_methods;
use crate::stripe::refund::Refund;

/// How long a refund of `pm_card_pendingRefund` is pending, and after how long one of `pm_card_refundFail` fails.
const SETTLES_AFTER_MS: i64 = 60_000;

/// How long the customer has time to answer.
const ASKED_FOR_S: i64 = 45 * 86_400;

/// `POST /v1/refunds`
pub fn create(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&[
        "amount",
        "charge",
        "instructions_email",
        "metadata",
        "payment_intent",
        "reason",
        "refund_application_fee",
        "reverse_transfer",
    ])?;
    let reason = params.choice("reason", &["duplicate", "fraudulent", "requested_by_customer"])?;
    let metadata = metadata::merge(&Metadata::new(), params)?;
    let asked = params.integer("amount")?;
    if asked.is_some_and(|amount| amount < 1) {
        return Err(at_least_one("amount").refused());
    }
    let mut charge = charge_to_refund(call, params)?;
    if disputes::forbids_refund(call, &charge.id)? {
        return Err(ApiError::invalid(format!(
            "Charge {} has been charged back; cannot issue a refund.",
            charge.id
        ))
        .code("charge_disputed")
        .outcome());
    }
    let released = released_minor(call, &charge)?;
    let left = charge.amount_captured + released - charge.amount_refunded;
    if charge.refunded || left <= 0 {
        return Err(ApiError::invalid(format!("Charge {} has already been refunded.", charge.id))
            .code("charge_already_refunded")
            .outcome());
    }
    let amount = asked.unwrap_or(left);
    check_rounding("amount", amount, &charge.currency)?;
    if amount > left {
        let of =
            if charge.amount_refunded == released { "charge amount" } else { "unrefunded amount on charge" };
        return Err(ApiError::invalid(format!(
            "Refund amount ({}) is greater than {of} ({})",
            format_amount(amount, &charge.currency),
            format_amount(left, &charge.currency)
        ))
        .param("amount")
        .outcome());
    }
    let (_, card) = payment_methods::of_param(call, &charge.payment_method)?;
    let (status, due_ms) = match card.behaviour {
        Behaviour::PendingRefund => ("pending", Some(call.now_ms + SETTLES_AFTER_MS)),
        Behaviour::FailingRefund => ("succeeded", Some(call.now_ms + SETTLES_AFTER_MS)),
        Behaviour::Approve
        | Behaviour::ApproveAtRisk
        | Behaviour::Decline(_)
        | Behaviour::Authenticate(_)
        | Behaviour::AuthenticateOnSession
        | Behaviour::Process(_) => ("succeeded", None),
    };
    let refund = Refund {
        metadata,
        reason: reason.map(str::to_owned),
        status: status.to_owned(),
        ..Refund::new(call, &charge, amount, "refund")
    };
    let moved = balance::record(call, Movement::Refund, &refund.id, amount, &refund.currency)?;
    let refund = Refund { balance_transaction: Some(moved), ..refund };
    refund.insert(call, due_ms)?;
    let before = charge.clone();
    charge.amount_refunded += amount;
    charge.refunded = charge.amount_refunded == charge.amount_captured + released;
    charge::save(call, &charge)?;
    events::record_change(call, "charge.refunded", &before, &charge)?;
    if charge.refunded {
        disputes::refunded(call, &charge.id)?;
    }
    shown(&refund)
}

/// What was reserved of a charge and was given free as a refund.
fn released_minor(call: &Call, charge: &Charge) -> Outcome<i64> {
    let query = Query { labels: vec![charge.id.clone()], ..Query::all(Kind::Refund) };
    let mut released = 0;
    for row in call.list(query)? {
        let refund: Refund = serde_json::from_str(&row.body)?;
        released += if refund.is_release() { refund.amount } else { 0 };
    }
    Ok(released)
}

/// What time does to a refund: a pending one succeeds; one that is bound to fail gives the money back to the charge.
pub fn settle(call: &mut Call, mut refund: Refund) -> Outcome<()> {
    let before = refund.clone();
    if refund.status == "pending" {
        refund.status = "succeeded".to_owned();
    } else {
        comes_back(call, &mut refund, "failed", "unknown")?;
    }
    call.save(Kind::Refund, &refund.id, &refund, None)?;
    if refund.status == "failed" {
        events::record(call, "refund.failed", &refund)?;
    }
    is_updated(call, &before, &refund)
}

/// The money is in the merchant's balance again, and can be refunded again.
fn comes_back(call: &mut Call, refund: &mut Refund, status: &str, reason: &str) -> Outcome<()> {
    refund.status = status.to_owned();
    refund.failure_reason = Some(reason.to_owned());
    let back = balance::record(call, Movement::RefundFailure, &refund.id, refund.amount, &refund.currency)?;
    refund.failure_balance_transaction = Some(back);
    let mut charge: Charge = call.of_param(Kind::Charge, &refund.charge, "charge")?;
    charge.amount_refunded -= refund.amount;
    charge.refunded = false;
    charge::save(call, &charge)
}

fn is_updated(call: &mut Call, before: &Refund, refund: &Refund) -> Outcome<()> {
    events::record_change(call, "refund.updated", before, refund)?;
    events::record_change(call, "charge.refund.updated", before, refund)
}

/// `POST /v1/refunds/{id}`: of its metadata.
pub fn update(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&["metadata"])?;
    let row = call.find(Kind::Refund, id)?;
    let before: Refund = call.of_path(Kind::Refund, id, "id")?;
    let mut refund = before.clone();
    refund.metadata = metadata::merge(&refund.metadata, params)?;
    call.save(Kind::Refund, id, &refund, row.and_then(|row| row.due_ms))?;
    is_updated(call, &before, &refund)?;
    shown(&refund)
}

/// `POST /_sim/refunds/{id}/ask`: it waits for the customer, who has not said to which account the money goes. At Stripe only other
/// methods than cards have it.
pub fn ask_customer(call: &mut Call, id: &str) -> Outcome<Value> {
    let before: Refund = call.of_path(Kind::Refund, id, "id")?;
    let mut refund = before.clone();
    if refund.status != "pending" {
        let message = format!("A refund with a status of {} asks nobody.", refund.status);
        return Err(ApiError::invalid(message).refused());
    }
    refund.status = "requires_action".to_owned();
    refund.next_action = Some(json!({
        "display_details": {
            "email_sent": { "email_sent_at": call.now_s(), "email_sent_to": "customer@example.com" },
            "expires_at": call.now_s() + ASKED_FOR_S,
        },
        "type": "display_details",
    }));
    call.save(Kind::Refund, id, &refund, None)?;
    is_updated(call, &before, &refund)?;
    shown(&refund)
}

/// `POST /v1/refunds/{id}/cancel`: only in `requires_action`. <https://docs.stripe.com/api/refunds/cancel>
pub fn cancel(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    let before: Refund = call.of_path(Kind::Refund, id, "id")?;
    let mut refund = before.clone();
    if refund.status != "requires_action" {
        let message = format!(
            "You can only cancel refunds with a status of requires_action: this one has a status of {}.",
            refund.status
        );
        return Err(ApiError::invalid(message).outcome());
    }
    refund.next_action = None;
    comes_back(call, &mut refund, "canceled", "merchant_request")?;
    call.save(Kind::Refund, id, &refund, None)?;
    is_updated(call, &before, &refund)?;
    shown(&refund)
}

/// `GET /v1/refunds/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    shown(&call.of_path::<Refund>(Kind::Refund, id, "id")?)
}

/// `GET /v1/refunds`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["charge", "created", "ending_before", "limit", "payment_intent", "starting_after"])?;
    let query = Query {
        parent: params.text("payment_intent")?.map(str::to_owned),
        labels: params.text("charge")?.map(str::to_owned).into_iter().collect(),
        ..Query::all(Kind::Refund)
    };
    lists::page(call, params, Page { kind: Kind::Refund, query, url: "/v1/refunds" })
}

/// The successful, captured charge that the parameters name.
fn charge_to_refund(call: &Call, params: &Params) -> Outcome<Charge> {
    let charge_id = params.text("charge")?;
    let intent_id = params.text("payment_intent")?;
    // Both objects are parameters, and yet Stripe answers 404 here.
    let charge: Charge = match (charge_id, intent_id) {
        (None, None) => {
            let message =
                "One of the following params should be provided for this request: payment_intent or charge.";
            return Err(ApiError::invalid(message).code("parameter_missing").refused());
        }
        (Some(id), _) => call.of_path(Kind::Charge, id, "charge")?,
        (None, Some(id)) => {
            let intent: PaymentIntent = call.of_path(Kind::PaymentIntent, id, "payment_intent")?;
            let Some(charge) = &intent.latest_charge else {
                return Err(nothing_to_refund(id));
            };
            call.of_path(Kind::Charge, charge, "charge")?
        }
    };
    if let Some(id) = intent_id
        && charge.payment_intent.as_deref() != Some(id)
    {
        return Err(no_such(Kind::PaymentIntent, id, 404, "payment_intent").outcome());
    }
    // A reserved amount is voided by cancelling its PaymentIntent, not refunded.
    if !charge.paid || !charge.captured {
        return Err(nothing_to_refund(charge.payment_intent.as_deref().unwrap_or(&charge.id)));
    }
    Ok(charge)
}

fn nothing_to_refund(id: &str) -> Failure {
    ApiError::invalid(format!("This PaymentIntent ({id}) does not have a successful charge to refund."))
        .outcome()
}
