//! Captures: what is reserved is taken, at once or in several parts, and the rest is given free.
//! <https://docs.stripe.com/payments/place-a-hold-on-a-payment-method> and <https://docs.stripe.com/payments/multicapture>
//!
//! ```text
//! requires_capture ─a part, not the last→ requires_capture     the charge is not `captured` yet, what was taken can be refunded
//! requires_capture ─the last part, or none→ succeeded          the charge is `captured`, and the rest is given free
//! ```

use serde_json::{Value, json};

use crate::provider::Call;
use crate::store::Query;
use crate::stripe::attempt;
use crate::stripe::cards::Behaviour;
use crate::stripe::charge::{self, Answer, Charge};
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
use crate::stripe::unshown;

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
    if let (Some(amount), true) = (part, is_final)
        && matches!(attempt::card_of(call, &intent)?.1.behaviour, Behaviour::CaptureLater(_))
    {
        return begin(call, intent, amount);
    }
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

/// `processing`: the bank decides later ([`decided`]), and nothing is reserved any more.
fn begin(call: &mut Call, mut intent: PaymentIntent, amount: i64) -> Outcome<PaymentIntent> {
    let before = intent.clone();
    if let Some(id) = &intent.latest_charge {
        let held: Charge = call.of_param(Kind::Charge, id, "charge")?;
        let charge = Charge { status: "pending".to_owned(), ..held.clone() };
        charge::save(call, &charge)?;
        events::record_change(call, "charge.updated", &held, &charge)?;
    }
    unshown::change(call, &intent.id, |unshown| unshown.capturing = Some(amount))?;
    intent.status = Status::Processing;
    intent.processing = Some(json!({ "card": {}, "type": "card" }));
    intent.amount_capturable = 0;
    payment_intent::save(call, &intent)?;
    events::record_change(call, "payment_intent.amount_capturable_updated", &before, &intent)?;
    events::record(call, "payment_intent.processing", &intent)?;
    Ok(intent)
}

/// The bank's decision about a capture: it is made, or the hold is gone without it.
pub fn decided(call: &mut Call, mut intent: PaymentIntent, amount: i64) -> Outcome<()> {
    let (payment_method, card) = attempt::card_of(call, &intent)?;
    let id = intent.latest_charge.clone().unwrap_or_default();
    let mut charge: Charge = call.of_param(Kind::Charge, &id, "charge")?;
    unshown::change(call, &intent.id, |unshown| unshown.capturing = None)?;
    intent.processing = None;
    if let Behaviour::CaptureLater(Some(decline)) = &card.behaviour {
        let no = Answer::No(decline);
        charge.apply_answer(no, call.now_s());
        charge::save(call, &charge)?;
        events::record(call, no.event(), &charge)?;
        return attempt::fail(call, intent, &payment_method, decline, Some(id)).map(drop);
    }
    charge.status = "succeeded".to_owned();
    charge::save(call, &charge)?;
    capture_charge(call, &id, Some(amount), true)?;
    intent.amount_received += amount;
    intent.status = Status::Succeeded;
    payment_intent::save(call, &intent)?;
    events::record(call, "payment_intent.succeeded", &intent)
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
