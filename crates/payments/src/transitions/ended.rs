//! How captures, voids and reservations ended that the provider had taken over, and what it did by itself afterwards: Adyen
//! only *receives* a modification, and tells later, in any order, what came of it.
//!
//! Outcomes: the payment moves on, and whatever was under way is over ([`Ingested::Applied`]); the same, and a person must see it
//! ([`Ingested::Alert`]); or it says what cannot be ([`Ingested::Contradiction`]). What is dated before the newest that is known is
//! old news, and moves nothing.

use serde_json::json;

use crate::engine::{Context, ObjectState, ProviderCall};
use crate::payment::provider::Provider;
use crate::payment::provider_event::{Ingested, OperationNotice};
use crate::payment::refund::refunded_minor;
use crate::payment::result::CallKind;
use crate::payment::{FailedOperation, Failure, InFlight, Payment, PaymentState, Refund, RefundState};
use crate::transitions::audit::{record_for_owner, record_for_payment};
use crate::transitions::effects::{on_transition, refund_moved};
use crate::transitions::own_moves::adyens_id;
use crate::transitions::{give_back, late_money, left_open, polling};
use once::context::Bug;

/// A capture was made, or refused before anything moved.
pub(crate) fn capture(
    state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    if !told.success {
        return refused(state, told, CallKind::Capture, ctx);
    }
    let own = own_call(state, told, CallKind::Capture);
    let Some(payment) = &mut state.resource.payment else { return Ok(Ingested::UnknownResource) };
    let (status, was_over) = (payment.status(), payment.is_over());
    if told.amount_minor == 0 || told.currency != payment.currency.as_str() {
        let detail = format!("a capture of {} {}, the payment is {status}", told.amount_minor, told.currency);
        return Ok(Ingested::Contradiction { detail });
    }
    // More than was asked for cannot be counted: a person is told of it.
    let taken_minor = told.amount_minor.min(payment.amount.get());
    let asked_minor = match over(payment, own) {
        Some(InFlight::Capture { amount_minor, .. }) => Some(amount_minor),
        _ => None,
    };
    if was_over && asked_minor.is_none() {
        // A void of ours that is under way cannot end it any more.
        let attempt = payment.attempt;
        if payment.pending.is_some() {
            return late_money::captured_late(state, attempt, told, ctx);
        }
        settled(state, false, ctx)?;
        let detail = format!("the capture succeeded, the payment is {status}");
        return Ok(Ingested::Contradiction { detail });
    }
    // What has ended the payment while a capture of ours was under way has ended what that has left.
    let is_old = is_old(payment, told) && !was_over;
    let is_new = !is_old && !matches!(payment.state, PaymentState::Captured { .. });
    let is_another = !is_old && payment.captured_by.as_ref().is_some_and(|known| *known != told.id);
    let is_unnamed = !is_old && !is_new && payment.captured_by.is_none();
    // One that had failed is made again, of less than is being given back.
    let refunded_minor = refunded_minor(&state.resource.refunds);
    if is_new && refunded_minor > taken_minor {
        let detail = format!(
            "a capture of {}, of a payment of which {refunded_minor} is given back; it is {status}",
            told.amount_minor
        );
        settled(state, false, ctx)?;
        return Ok(Ingested::Contradiction { detail });
    }
    if is_new {
        payment.state = PaymentState::Captured { amount_minor: taken_minor };
    }
    if is_new || is_unnamed {
        payment.captured_by = Some(told.id.clone());
    }
    let counted_minor = payment.captured_minor();
    date(payment, told);
    settled(state, is_new, ctx)?;
    // One that has failed may be made again, too.
    if is_another {
        let amount_minor = told.amount_minor;
        let detail =
            format!("another capture, of {amount_minor}, has succeeded; {counted_minor} counts as taken");
        return Ok(Ingested::Alert { detail });
    }
    let captured_minor = told.amount_minor;
    let detail = match asked_minor.filter(|asked_minor| *asked_minor != captured_minor) {
        Some(asked_minor) => format!("{captured_minor} was captured, {asked_minor} was asked for"),
        None if was_over => format!("{captured_minor} was captured, the payment was {status}"),
        None if captured_minor != taken_minor || is_unnamed && captured_minor != counted_minor => {
            format!("{captured_minor} was captured, {counted_minor} counts as taken")
        }
        None => return Ok(Ingested::Applied),
    };
    Ok(Ingested::Alert { detail })
}

/// What was reserved had been captured by others, as what they did with it afterwards shows.
pub(crate) fn was_taken(state: &mut ObjectState, amount_minor: u64, ctx: &Context) -> Result<(), Bug> {
    let payment = state.resource.payment.as_mut().ok_or_else(|| Bug("no payment".into()))?;
    payment.state = PaymentState::Captured { amount_minor };
    settled(state, true, ctx)
}

/// A capture that had been made has failed, days later. The provider may make it again by itself.
pub(crate) fn capture_failed(
    state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let own = own_call(state, told, CallKind::Capture);
    let Some(payment) = &mut state.resource.payment else { return Ok(Ingested::UnknownResource) };
    // Of another one than that which counts: what counts is taken still.
    let is_of_another = own.is_none()
        && payment.captured_by.as_ref().is_some_and(|known| *known != told.id)
        && told.amount_minor != payment.captured_minor();
    if is_of_another {
        let detail = format!(
            "another capture, of {}, has failed ({}); {} counts as taken",
            told.amount_minor,
            told.reason,
            payment.captured_minor()
        );
        return Ok(Ingested::Alert { detail });
    }
    let pending = over(payment, own);
    if is_old(payment, told) {
        settled(state, false, ctx)?;
        return Ok(Ingested::Applied);
    }
    let status = payment.status();
    let amount_minor = match (&payment.state, pending) {
        (&(PaymentState::Captured { amount_minor } | PaymentState::CaptureFailed { amount_minor }), _)
        | (_, Some(InFlight::Capture { amount_minor, .. })) => amount_minor,
        _ if payment.is_over() => {
            let detail = format!("a capture failed ({}), the payment is {status}", told.reason);
            return Ok(Ingested::Contradiction { detail });
        }
        _ => told.amount_minor.min(payment.amount.get()),
    };
    let is_new = !matches!(payment.state, PaymentState::CaptureFailed { .. });
    payment.state = PaymentState::CaptureFailed { amount_minor };
    date(payment, told);
    settled(state, is_new, ctx)?;
    Ok(Ingested::Alert { detail: format!("the capture failed afterwards ({})", told.reason) })
}

/// How a capture that had failed has ended, by an operator's word: the money was taken after all, or the order can be paid anew.
pub(crate) fn given_up(
    state: &mut ObjectState,
    amount_minor: u64,
    is_taken: bool,
    ctx: &Context,
) -> Result<(), Bug> {
    let payment = state.resource.payment.as_mut().ok_or_else(|| Bug("no payment".into()))?;
    if is_taken {
        payment.state = PaymentState::Captured { amount_minor };
        return on_transition(state, ctx);
    }
    let failed = Failure {
        declined: false,
        code: "capture_failed".to_owned(),
        decline_code: None,
        message: "The reserved money could not be taken. Nothing was charged.".to_owned(),
    };
    nothing_taken(state, PaymentState::Failed(failed), ctx)
}

/// What may have been taken was not, and the payment ends so: a refund of it that the provider has yet to decide has failed.
fn nothing_taken(state: &mut ObjectState, next: PaymentState, ctx: &Context) -> Result<(), Bug> {
    let open = state.resource.refunds.iter_mut().filter(|refund| refund.state == RefundState::Pending);
    let ended: Vec<Refund> = open
        .map(|refund| {
            refund.fail("capture_failed".to_owned(), "Nothing was taken that could be given back.");
            refund.clone()
        })
        .collect();
    ended.iter().for_each(|refund| refund_moved(state, refund, ctx));
    state.resource.payment.as_mut().ok_or_else(|| Bug("no payment".into()))?.state = next;
    on_transition(state, ctx)
}

/// What is said where a provider tells that nothing was taken, and money was given back or may be.
fn given_back(state: &ObjectState, detail: &str) -> Option<Ingested> {
    let is_any = |wanted| state.resource.refunds.iter().any(|refund| refund.state == wanted);
    if is_any(RefundState::Succeeded) {
        let detail = format!("{detail}, and a refund of it has succeeded");
        return Some(Ingested::Contradiction { detail });
    }
    // How its call ends comes first.
    is_any(RefundState::Requested).then_some(Ingested::RetryLater)
}

/// A void was made, or refused before anything moved.
pub(crate) fn cancellation(
    state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    if !told.success {
        return refused(state, told, CallKind::Void, ctx);
    }
    let own = own_call(state, told, CallKind::Void);
    let Some(payment) = &state.resource.payment else { return Ok(Ingested::UnknownResource) };
    let detail = format!("the void succeeded, the payment is {}", payment.status());
    let is_believed = is_only_believed_captured(payment);
    let has_failed = matches!(payment.state, PaymentState::CaptureFailed { .. });
    let against = if is_believed || has_failed { given_back(state, &detail) } else { None };
    if against == Some(Ingested::RetryLater) {
        return Ok(Ingested::RetryLater);
    }
    let Some(payment) = &mut state.resource.payment else { return Ok(Ingested::UnknownResource) };
    over(payment, own);
    let is_taken = matches!(payment.state, PaymentState::Captured { .. }) && !is_believed;
    if is_taken || against.is_some() {
        let is_old = is_old(payment, told);
        settled(state, false, ctx)?;
        return Ok(if is_old {
            Ingested::Applied
        } else {
            against.unwrap_or(Ingested::Contradiction { detail })
        });
    }
    let is_new = !payment.is_over();
    date(payment, told);
    if is_believed {
        ended_before_capture(state, PaymentState::Canceled, ctx)?;
        return Ok(Ingested::Alert { detail });
    }
    if is_new {
        nothing_taken(state, PaymentState::Canceled, ctx)?;
    } else {
        settled(state, false, ctx)?;
    }
    Ok(Ingested::Applied)
}

/// What was reserved has lapsed. Of a payment that was captured only the rest has.
pub(crate) fn expired(
    state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let Some(payment) = &state.resource.payment else { return Ok(Ingested::UnknownResource) };
    let detail = format!("what was reserved has lapsed, the payment is {}", payment.status());
    let is_believed = is_only_believed_captured(payment);
    if is_believed && let Some(against) = given_back(state, &detail) {
        return Ok(against);
    }
    let Some(payment) = &mut state.resource.payment else { return Ok(Ingested::UnknownResource) };
    match &payment.state {
        PaymentState::Captured { .. } if is_believed => {}
        // Nothing was left of it that could lapse.
        PaymentState::Captured { amount_minor }
            if *amount_minor == payment.amount.get() && !is_old(payment, told) =>
        {
            return Ok(Ingested::Contradiction { detail });
        }
        PaymentState::Captured { .. } | PaymentState::CaptureFailed { .. } => return Ok(Ingested::Applied),
        _ if payment.is_over() => return Ok(Ingested::Applied),
        _ => {}
    }
    // There is nothing left to give up. How a capture ended is still to be told, and a void whose answer is awaited ends with it.
    if matches!(payment.pending, Some(InFlight::Void { received: true, .. })) {
        payment.pending = None;
    }
    date(payment, told);
    if is_believed {
        ended_before_capture(state, PaymentState::Expired, ctx)?;
        return Ok(Ingested::Alert { detail });
    }
    payment.state = PaymentState::Expired;
    settled(state, true, ctx)?;
    Ok(Ingested::Applied)
}

/// A capture or a void that the provider had taken over has moved nothing: the payment is what it was before, and another
/// one may begin.
fn refused(
    state: &mut ObjectState,
    told: &OperationNotice,
    kind: CallKind,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let own = own_call(state, told, kind);
    let Some(payment) = &mut state.resource.payment else { return Ok(Ingested::UnknownResource) };
    let status = payment.status();
    let was_believed = match (kind, &payment.state) {
        (CallKind::Capture, PaymentState::Captured { .. }) => payment.failed_operation.is_none(),
        (CallKind::Void, PaymentState::Canceled) => payment.failed_operation.is_none(),
        _ => false,
    };
    let Some(pending) = over(payment, own) else {
        // Payments of before took it for done as soon as it was received.
        return Ok(match own.filter(|_| was_believed && payment.ended_at_ms.is_none()) {
            Some(_) => {
                let detail =
                    format!("the {} failed ({}), the payment is {status}", kind.as_str(), told.reason);
                payment.state = match &payment.state {
                    PaymentState::Captured { amount_minor } => {
                        PaymentState::CaptureFailed { amount_minor: *amount_minor }
                    }
                    _ => PaymentState::Authorized,
                };
                settled(state, true, ctx)?;
                Ingested::Alert { detail }
            }
            // Nobody here has asked for it: the provider's own, of which the payment is only believed to be captured, or one more by hand at the provider. A
            // person has to look which.
            None if kind == CallKind::Capture && is_only_believed_captured(payment) => Ingested::Alert {
                detail: format!("the capture failed ({}), the payment is {status}", told.reason),
            },
            None => Ingested::Applied,
        });
    };
    let operation = pending.operation().to_owned();
    let code = if told.reason.is_empty() { "provider_rejected".to_owned() } else { told.reason.clone() };
    let (id, data) = (payment.id.to_string(), json!({ "code": code, "modification": told.id }));
    payment.failed_operation = Some(FailedOperation { operation, code });
    let action = if kind == CallKind::Void { "void.failed" } else { "capture.failed" };
    record_for_owner(state, action, id, data, ctx);
    settled(state, false, ctx)?;
    Ok(Ingested::Applied)
}

/// Whether its call has its answer, and the run that takes it in has yet to come: then the news must come again.
pub(crate) fn is_not_taken_in(state: &ObjectState, told: &OperationNotice) -> bool {
    let is_its = |call: &ProviderCall| told.provider_key.as_ref() == Some(&call.provider_key);
    let pending = state.resource.payment.as_ref().and_then(|payment| payment.pending);
    state.calls.iter().any(|call| {
        let is_it = is_its(call) && adyens_id(call).is_some();
        is_it && pending.is_some_and(|pending| pending.key_id() == call.key_id && !pending.is_received())
    })
}

/// The key under which we have asked for what this tells of: `None` if somebody else has, or an earlier move of ours that
/// another one has followed.
fn own_call(state: &ObjectState, told: &OperationNotice, kind: CallKind) -> Option<u32> {
    let is_of_kind = |call: &&ProviderCall| {
        call.kind == kind && call.name != give_back::CALL && !left_open::is_closing(call)
    };
    let newest = state.calls.iter().filter(is_of_kind).max_by_key(|call| call.call_id)?;
    (told.provider_key.as_ref() == Some(&newest.provider_key)).then_some(newest.key_id)
}

/// Ends the move that runs under this key, and gives it.
fn over(payment: &mut Payment, key_id: Option<u32>) -> Option<InFlight> {
    let pending = payment.pending.filter(|pending| Some(pending.key_id()) == key_id)?;
    payment.pending = None;
    Some(pending)
}

/// Whether its provider has told that it was authorised, and of no capture: where that follows by itself it is taken for captured. A void that has
/// succeeded, or a lapse, then came before the capture.
pub(crate) const fn is_only_believed_captured(payment: &Payment) -> bool {
    matches!((payment.provider, &payment.state), (Provider::Adyen, PaymentState::Captured { .. }))
        && payment.capture
        && payment.captured_by.is_none()
        && payment.ended_at_ms.is_none()
}

/// What was only believed to be captured has ended otherwise: the capture has failed first, as a settlement file that has it must have that, too.
pub(crate) fn ended_before_capture(
    state: &mut ObjectState,
    next: PaymentState,
    ctx: &Context,
) -> Result<(), Bug> {
    let payment = state.resource.payment.as_mut().ok_or_else(|| Bug("no payment".into()))?;
    payment.state = PaymentState::CaptureFailed { amount_minor: payment.captured_minor() };
    on_transition(state, ctx)?;
    nothing_taken(state, next, ctx)
}

/// Whether something newer is known.
pub(crate) fn is_old(payment: &Payment, told: &OperationNotice) -> bool {
    told.at_ms.zip(payment.ended_at_ms).is_some_and(|(at_ms, newest_ms)| at_ms < newest_ms)
}

fn date(payment: &mut Payment, told: &OperationNotice) {
    payment.ended_at_ms = payment.ended_at_ms.max(told.at_ms);
}

/// Writes down that a move is under way no more that was so `before`, and of which nothing else tells since there were so many records: what it was to do
/// others have done, or it came too late.
pub(crate) fn note_end(state: &mut ObjectState, before: Option<InFlight>, records: usize, ctx: &Context) {
    let Some(payment) = &state.resource.payment else { return };
    if let Some(ended) = before
        && payment.pending.is_none()
        && state.appended.facts.audit.len() == records
    {
        let data = json!({ "operation": ended.operation(), "status": payment.status() });
        record_for_payment(state, "operation.ended", data, ctx);
    }
}

/// What follows from the end of a move, and from a new state.
fn settled(state: &mut ObjectState, is_new: bool, ctx: &Context) -> Result<(), Bug> {
    if is_new {
        return on_transition(state, ctx);
    }
    polling::schedule(state, ctx);
    Ok(())
}
