//! Refunds: <https://docs.stripe.com/api/refunds>. The sum of a charge's refunds never exceeds what was captured.

use serde_json::Value;

use crate::metadata::Metadata;
use crate::provider::Call;
use crate::store::Query;
use crate::stripe::balance::{self, Movement};
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
use crate::stripe::refund::{How, Refund};
use crate::stripe::refunds_later as later;

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
    let begins = later::begins(card.behaviour);
    let refund = Refund {
        metadata,
        reason: reason.map(str::to_owned),
        status: if begins.pending.is_some() { "pending" } else { "succeeded" }.to_owned(),
        pending_reason: begins.pending.map(str::to_owned),
        ..Refund::new(
            call,
            &charge,
            amount,
            if begins.pending.is_some() { How::Pending } else { How::Credit },
        )
    };
    // What the balance does not cover yet has left nothing of it.
    let moved = match begins.pending {
        Some(later::UNFUNDED) => None,
        _ => Some(balance::record(call, Movement::Refund, &refund.id, amount, &refund.currency)?),
    };
    let refund = Refund { balance_transaction: moved, ..refund };
    let due_ms = begins.changes_after_ms.map(|after_ms| call.now_ms + after_ms);
    refund.insert(call, due_ms)?;
    let before = charge.clone();
    charge.amount_refunded += amount;
    // Until the last capture there may be more to give back.
    charge.refunded = charge.captured && charge.amount_refunded == charge.amount_captured + released;
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

/// `POST /v1/refunds/{id}`: of its metadata.
pub fn update(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&["metadata"])?;
    let row = call.find(Kind::Refund, id)?;
    let before: Refund = call.of_path(Kind::Refund, id, "id")?;
    let mut refund = before.clone();
    refund.metadata = metadata::merge(&refund.metadata, params)?;
    call.save(Kind::Refund, id, &refund, row.and_then(|row| row.due_ms))?;
    later::is_updated(call, &before, &refund)?;
    shown(&refund)
}

/// `POST /v1/refunds/{id}/cancel`: only in `requires_action`. <https://docs.stripe.com/api/refunds/cancel>
pub fn cancel(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    let refund: Refund = call.of_path(Kind::Refund, id, "id")?;
    if refund.status != "requires_action" {
        let message = format!(
            "You can only cancel refunds with a status of requires_action: this one has a status of {}.",
            refund.status
        );
        return Err(ApiError::invalid(message).outcome());
    }
    later::cancel(call, refund)
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
    // What is only reserved is voided by cancelling its PaymentIntent, not refunded.
    if !charge.paid || charge.amount_captured == 0 {
        return Err(nothing_to_refund(charge.payment_intent.as_deref().unwrap_or(&charge.id)));
    }
    Ok(charge)
}

fn nothing_to_refund(id: &str) -> Failure {
    ApiError::invalid(format!("This PaymentIntent ({id}) does not have a successful charge to refund."))
        .outcome()
}
