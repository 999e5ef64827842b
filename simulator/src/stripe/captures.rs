//! Captures: what is reserved is taken, at once or in several parts, and the rest is given free.
//! <https://docs.stripe.com/payments/place-a-hold-on-a-payment-method> and <https://docs.stripe.com/payments/multicapture>
//!
//! ```text
//! requires_capture ─a part, not the last→ requires_capture     the charge is not `captured` yet, what was taken can be refunded
//! requires_capture ─the last part, or none→ succeeded          the charge is `captured`, and the rest is given free
//! ```

use serde_json::Value;

use crate::provider::Call;
use crate::store::Query;
use crate::stripe::charge::{self, Charge};
use crate::stripe::charges;
use crate::stripe::currencies;
use crate::stripe::descriptors;
use crate::stripe::errors::{ApiError, Failure, Outcome, at_least_one};
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::metadata;
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::stripe::payment_intent::{self, PaymentIntent, Status};

/// How many parts a payment is captured in, at most.
const MAX_CAPTURES: usize = 50;

/// `POST /v1/payment_intents/{id}/capture`
pub fn capture(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[
        "amount_to_capture",
        "final_capture",
        "metadata",
        "statement_descriptor",
        "statement_descriptor_suffix",
    ])?;
    descriptors::check(params, true)?;
    let asked = params.integer("amount_to_capture")?;
    let is_final = params.boolean("final_capture")?.unwrap_or(true);
    let mut intent = payment_intent::load(call, id)?;
    let amount = asked.unwrap_or(intent.amount_capturable);
    if intent.status != Status::RequiresCapture {
        return Err(payment_intent::unexpected(
            &intent,
            format!(
                "This PaymentIntent could not be captured because it has a status of {}. Only a PaymentIntent with one of the following \
                 statuses may be captured: requires_capture.",
                intent.status
            ),
        )?);
    }
    // What is left of several captures can be given free without another one.
    let gives_up_the_rest = is_final && amount == 0 && intent.amount_received > 0;
    if amount < 1 && !gives_up_the_rest {
        return Err(at_least_one("amount_to_capture").payment_intent(shown(&intent)?).refused());
    }
    if amount > intent.amount_capturable {
        return Err(ApiError::invalid(format!(
            "The requested capture amount is greater than the amount you can capture for this charge: at most {}.",
            currencies::format_amount(intent.amount_capturable, &intent.currency)
        ))
        .code("amount_too_large")
        .param("amount_to_capture")
        .payment_intent(shown(&intent)?)
        .outcome());
    }
    if !is_final {
        check_another_follows(call, &intent)?;
    }
    currencies::check_rounding("amount_to_capture", amount, &intent.currency)?;
    intent.metadata = metadata::merge(&intent.metadata, params)?;
    let part = if gives_up_the_rest { None } else { Some(amount) };
    shown(&take(call, intent, part, is_final)?)
}

/// Whether a capture that is not the last one may be: the charge must allow several, and the last one must still be possible.
fn check_another_follows(call: &Call, intent: &PaymentIntent) -> Outcome<()> {
    let refuse = |message: &str| -> Outcome<Failure> {
        Ok(ApiError::invalid(message).param("final_capture").payment_intent(shown(intent)?).outcome())
    };
    let Some(id) = &intent.latest_charge else { return Ok(()) };
    let charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    if !charge.takes_several_captures() {
        return Err(refuse(
            "This PaymentIntent cannot be captured several times: `final_capture` may be `false` only where its charge has \
             `payment_method_details[card][multicapture][status]` `available`, which `payment_method_options[card][request_multicapture]` \
             `if_available` asks for.",
        )?);
    }
    let movements = Query {
        parent: Some(charge.id),
        labels: vec!["charge".to_owned()],
        ..Query::all(Kind::BalanceTransaction)
    };
    if call.list(movements)?.len() >= MAX_CAPTURES - 1 {
        return Err(refuse("A PaymentIntent can be captured at most 50 times: this must be the last one.")?);
    }
    Ok(())
}

/// Takes an amount of what is reserved, or none. What is left after the last capture is given free; before that it stays reserved.
pub fn take(
    call: &mut Call,
    mut intent: PaymentIntent,
    part: Option<i64>,
    is_final: bool,
) -> Outcome<PaymentIntent> {
    let before = intent.clone();
    if let Some(charge) = &intent.latest_charge {
        capture_charge(call, charge, part, is_final)?;
    }
    let amount = part.unwrap_or(0);
    intent.amount_received += amount;
    intent.amount_capturable = if is_final { 0 } else { (intent.amount_capturable - amount).max(0) };
    if is_final {
        intent.status = Status::Succeeded;
    }
    payment_intent::save(call, &intent)?;
    events::record_change(call, "payment_intent.amount_capturable_updated", &before, &intent)?;
    if is_final {
        events::record(call, "payment_intent.succeeded", &intent)?;
    }
    Ok(intent)
}

/// The charge's side of it. Each capture is a movement of the balance, of which the charge names the newest.
fn capture_charge(call: &mut Call, id: &str, part: Option<i64>, is_final: bool) -> Outcome<()> {
    let mut charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    if let Some(amount_minor) = part {
        let before = charge.clone();
        charge.amount_captured += amount_minor;
        charge.record_movement(call, amount_minor)?;
        charge::save(call, &charge)?;
        events::record_change(call, "charge.updated", &before, &charge)?;
    }
    if !is_final {
        return Ok(());
    }
    let before = charge.clone();
    charge.captured = true;
    // All that was taken may have been given back before it was known to be all.
    charge.refunded = charge.amount_refunded == charge.amount_captured;
    let is_refunded = charges::release(call, &mut charge)?;
    charge::save(call, &charge)?;
    events::record_change(call, "charge.captured", &before, &charge)?;
    if is_refunded { events::record_change(call, "charge.refunded", &before, &charge) } else { Ok(()) }
}
