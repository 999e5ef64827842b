//! Capturing what was reserved, whole or in part: `reserved → finished`, with one call in between.
//!
//! Outcomes: 200 and the payment; 202 if the provider has only received it, and tells later how it ended: until then it is under
//! way, and nothing else moves the payment; 402 if the provider refuses, with the payment as it then is.

use serde_json::json;

use super::phase::PhaseExt;
use crate::engine::{CallSpec, End, Payments, Phase, Settlement};
use crate::flows::phase::{not_executed_reason, respond};
use crate::payment::money::AmountMinor;
use crate::payment::operation::{CaptureRequest, Point, Refusal};
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::{InFlight, Payment, PaymentState};
use crate::providers::Provider;
use crate::transitions::effects::on_transition;
use crate::transitions::ended::{ended_before_capture, is_only_believed_captured, note_end};
use crate::transitions::polling;
use once::call::RetryPolicy;
use once::context::Bug;
use once::flow::Admission;

pub(crate) const CAPTURE: &str = "capture";

/// Whether a payment in this state may be captured, while nothing else moves it.
pub(crate) const fn is_capturable(state: &PaymentState) -> bool {
    matches!(state, PaymentState::Authorized)
}

/// The reservation: while the capture is under way nothing else moves the payment.
pub(crate) fn admit(request: &CaptureRequest, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    let key_id = phase.key_id;
    let Some(payment) = &mut phase.object_state.resource.payment else {
        return Ok(Err(Refusal::NoPayment));
    };
    if let Some(refusal) =
        must_be_attempt(payment, request.attempt).or_else(|| must_be_free(payment, "captured", is_capturable))
    {
        return Ok(Err(refusal));
    }
    let amount = request.amount.unwrap_or(payment.amount);
    if amount > payment.amount {
        return Ok(Err(Refusal::TooMuch {
            available_minor: payment.amount.get(),
            detail: "More than was authorised cannot be captured.".to_owned(),
        }));
    }
    if let Err(refusal) = must_be_payable(amount, payment) {
        return Ok(Err(refusal));
    }
    payment.moves = payment.moves.saturating_add(1);
    payment.failed_operation = None;
    payment.pending = Some(InFlight::Capture { key_id, amount_minor: amount.get(), received: false });
    let (id, data) =
        (payment.id.to_string(), json!({ "amount": amount.get(), "currency": payment.currency }));
    phase.audit("capture.requested", id, data)?;
    Ok(Ok(Some(Point::Reserved)))
}

/// Refuses a move of an attempt that is not the payment's any more: another one was begun, which whoever asks did not mean.
pub(crate) fn must_be_attempt(payment: &Payment, asked: Option<u32>) -> Option<Refusal> {
    let (current, asked) = (payment.attempt, asked?);
    (asked != current).then(|| Refusal::State {
        state: payment.status().to_owned(),
        detail: format!(
            "This is attempt {current} of the payment, and attempt {asked} was meant. Nothing was executed."
        ),
    })
}

/// Refuses a move while another one is under way, or in any state but the right ones.
pub(crate) fn must_be_free(
    payment: &Payment,
    done: &str,
    is_right: impl FnOnce(&PaymentState) -> bool,
) -> Option<Refusal> {
    let state = match under_way(payment) {
        Some(pending) => pending,
        None if is_right(&payment.state) => return None,
        None => payment.status(),
    };
    Some(Refusal::State {
        state: state.to_owned(),
        detail: format!("A payment that is `{state}` cannot be {done}. Nothing was executed."),
    })
}

/// The currency allows a part of a payment to be so much, and the payment's provider can be told so.
pub(crate) fn must_be_payable(amount: AmountMinor, payment: &Payment) -> Result<(), Refusal> {
    let refused = |message: String| Refusal::Amount { message };
    if !payment.in_provider_units && !payment.provider.has_our_minor_unit(payment.currency) {
        let (provider, currency) = (payment.provider.as_str(), payment.currency);
        return Err(Refusal::State {
            state: payment.status().to_owned(),
            detail: format!(
                "This payment was made when {provider} was told amounts in {currency} in another unit, so that a part of it would be \
                 told wrongly. Nothing was executed. Capture or refund it in Adyen's Customer Area."
            ),
        });
    }
    // A part that Adyen has moved by itself may have left one that Stripe would not take.
    if payment.provider == Provider::Stripe {
        amount.check_rounding(payment.currency).map_err(refused)?;
    }
    let checked = payment.provider.check_amount(amount, payment.currency);
    checked.map_err(|reason| refused(reason.message().to_owned()))
}

/// The word for a move that is under way.
pub(crate) const fn under_way(payment: &Payment) -> Option<&'static str> {
    match &payment.pending {
        Some(pending) => Some(pending.state()),
        None => None,
    }
}

/// The flow.
pub(crate) fn run(_: &CaptureRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let payment = phase.payment()?.clone();
    let Some(InFlight::Capture { amount_minor, .. }) = payment.pending else {
        return Err(Bug("a capture without its reservation".into()));
    };
    let Some(settlement) = phase.settlement(CAPTURE)? else {
        return call(&payment, amount_minor);
    };
    settle_move(phase, settlement, CAPTURE, None)
}

fn call(payment: &Payment, amount_minor: u64) -> Result<End, Bug> {
    let provider_key = payment.provider.provider_key(&move_key(payment, CAPTURE));
    Ok(End::Call(CallSpec {
        name: CAPTURE.to_owned(),
        kind: CallKind::Capture,
        provider: payment.provider,
        retry_policy: RetryPolicy::IdempotentByKey,
        request: payment.provider.capture(payment, amount_minor, &provider_key)?,
        provider_key,
    }))
}

/// `{payment}_capture`, and with its number after one that failed definitively.
pub(crate) fn move_key(payment: &Payment, name: &str) -> String {
    match payment.moves {
        1 => format!("{}_{name}", payment.id),
        moves => format!("{}_{name}_{moves}", payment.id),
    }
}

fn is_void_of_nothing(payment: &Payment) -> bool {
    payment.is_over() && matches!(payment.pending, Some(InFlight::Void { .. }))
}

/// The provider has taken a capture or a void over. How it ended is told later; until then it stays reserved.
fn received(phase: &mut Phase<'_>, modification: &str, page: Option<&str>) -> Result<End, Bug> {
    let payment = phase.payment()?;
    let action = match &mut payment.pending {
        Some(InFlight::Capture { received, .. }) => {
            *received = true;
            "capture.pending"
        }
        Some(InFlight::Void { received, .. }) => {
            *received = true;
            "void.pending"
        }
        None => return Err(Bug("received, and nothing is reserved".into())),
    };
    let payment = payment.clone();
    phase.audit(action, payment.id.to_string(), json!({ "modification": modification }))?;
    let shown = payment.to_json(&phase.object_state.resource.refunds, &phase.object_state.resource.tries);
    respond(phase, 202, &payment.id.path(), page, &shown)
}

/// The end of a capture or a void, by the name of its call: the payment takes in what the provider says that it is.
pub(crate) fn settle_move(
    phase: &mut Phase<'_>,
    settlement: Settlement,
    call: &str,
    page: Option<&str>,
) -> Result<End, Bug> {
    let (found, refused) = match settlement {
        Settlement::Answered(reply) => match reply.result {
            ProviderResult::Captured { amount_minor } => (Some(RemoteState::Captured { amount_minor }), None),
            ProviderResult::Voided => (Some(RemoteState::Voided), None),
            // What was to be given up has lapsed meanwhile: nothing is left to be told.
            ProviderResult::Received { .. } if is_void_of_nothing(phase.payment()?) => (None, None),
            ProviderResult::Received { modification } => return received(phase, &modification, page),
            ProviderResult::Rejected { code, message, found, .. } => (found, Some((code, message))),
            ProviderResult::Declined { code, message, .. } => (None, Some((code, message))),
            other => return Err(Bug(format!("{call} was answered by {}", other.name()))),
        },
        Settlement::NotExecuted => (None, Some(not_executed_reason(phase, call))),
        Settlement::NeedsReview => return Err(Bug(format!("{call} is idempotent by key"))),
    };
    let records = phase.object_state.appended.facts.audit.len();
    let payment = phase.payment()?;
    let under_way = payment.pending.take();
    let id = payment.id;
    if found == Some(RemoteState::Voided) && is_only_believed_captured(payment) {
        ended_before_capture(phase.object_state, PaymentState::Canceled, phase.ctx)?;
    } else if found.is_some_and(|found| payment.apply_answer(found)) {
        on_transition(phase.object_state, phase.ctx)?;
    }
    // Others have ended it, which was told while this was under way.
    let state = &phase.payment()?.state;
    if matches!(state, PaymentState::Captured { .. } | PaymentState::Canceled | PaymentState::Expired) {
        note_end(phase.object_state, under_way, records, phase.ctx);
    }
    // A refusal tells that it was paid meanwhile, and not with which card.
    if refused.is_some() && phase.payment()?.has_unknown_card() {
        polling::doubt_all(phase.object_state, "card", phase.ctx);
    }
    // What was told of meanwhile was not asked for.
    polling::schedule(phase.object_state, phase.ctx);
    let shown = phase
        .payment()?
        .clone()
        .to_json(&phase.object_state.resource.refunds, &phase.object_state.resource.tries);
    let Some((code, message)) = refused else {
        return respond(phase, 200, &id.path(), page, &shown);
    };
    phase.audit("operation.refused", id.to_string(), json!({ "code": code }))?;
    let body = json!({
        "type": "/problems/operation-refused",
        "title": "The provider refused the operation",
        "status": 402,
        "detail": format!("The {call} was refused and moved nothing. {message}").trim_end(),
        "instance": id.path(),
        "code": code,
        "payment": shown,
    });
    respond(phase, 402, &id.path(), page, &body)
}
