//! Takes in what a provider tells by itself: once, and only forward.
//!
//! Outcomes: the work that follows is due now (an open key is taken up, a question is asked), or the news itself is taken in.
//! News about a call that is on its way right now, or whose answer nobody has taken in yet, must come again: that is nearer.

use serde_json::json;

use crate::engine::{CallState, Context, Lifecycle, ObjectState, ProviderCall, ProviderReply, Settlement};
use crate::payment::provider_event::{Event, EventKind, Ingested, OperationNotice};
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::{Failure, Payment, PaymentState};
use crate::providers::adyen;
use crate::transitions::audit::record_for_owner;
use crate::transitions::effects::on_transition;
use crate::transitions::event_account::is_of_account;
use crate::transitions::{
    contradictions, disputes, ended, late_money, polling, refunds, try_queries, try_rows,
};
use once::context::Bug;

/// Takes in an event that was not known before.
pub fn take(object_state: &mut ObjectState, event: &Event, ctx: &Context) -> Result<Ingested, Bug> {
    if object_state.keys.is_empty() {
        return Ok(Ingested::UnknownResource);
    }
    if !is_of_account(object_state, event) {
        return Ok(Ingested::OtherAccount);
    }
    let key_id = object_state.keys.first().map_or(0, |key| key.key_id);
    let contradiction = contradictions::of_news(object_state, &event.news);
    let of_try = late_money::news(object_state, &event.news, ctx)?;
    if of_try.is_some() {
        resume(object_state, ctx);
    }
    let taken = match &event.news {
        _ if of_try.is_some() => of_try.unwrap_or(Ingested::Applied),
        EventKind::Ask { refund, payment, provider_key } => {
            let key = provider_key.as_deref();
            polling::record_made(object_state, payment.as_deref(), refund.as_deref(), key);
            let is_over = match (payment, refund) {
                (Some(id), _) => polling::doubt_try(object_state, id, key, &event.event_id, ctx),
                (None, Some(id)) => polling::doubt_refund_of_try(object_state, id, &event.event_id, ctx),
                (None, None) => false,
            };
            if !is_over {
                let of_money_back = event.kind.contains("refund") || event.kind.contains("dispute");
                polling::doubt(object_state, refund.as_deref(), of_money_back, &event.event_id, ctx);
            }
            expedite(object_state, ctx);
            Ingested::Applied
        }
        EventKind::Authorisation(told) => {
            by_call(object_state, told, &[CallKind::Authorize], authorisation, ctx)?
        }
        EventKind::Capture(told) if told.success && is_of_unheard(object_state, told) => {
            captured_unheard(object_state, told, ctx)?
        }
        EventKind::Capture(told) => by_call(object_state, told, &[CallKind::Capture], capture, ctx)?,
        EventKind::CaptureFailed(told) => capture_failed(object_state, told, ctx)?,
        EventKind::Cancellation(told) | EventKind::CancelOrRefund(told) | EventKind::Expired(told)
            if is_of_unheard(object_state, told) =>
        {
            called_off(object_state, told, matches!(event.news, EventKind::Expired(_)), ctx)
        }
        EventKind::Cancellation(told) => by_call(object_state, told, &[CallKind::Void], cancellation, ctx)?,
        EventKind::CancelOrRefund(told) => {
            by_call(object_state, told, &[CallKind::Void], cancel_or_refund, ctx)?
        }
        EventKind::Expired(told) => by_call(object_state, told, &[], expired, ctx)?,
        EventKind::Dispute { told, .. } | EventKind::Refund(told) if has_no_name_yet(object_state, told) => {
            Ingested::RetryLater
        }
        EventKind::Dispute { told, status, withdrawn, is_inquiry } => {
            disputes::told(object_state, told, *status, *withdrawn, *is_inquiry, ctx)?
        }
        EventKind::Refund(told) => refund(object_state, told, ctx)?,
        EventKind::Other => Ingested::Applied,
    };
    let taken = match (taken, contradiction) {
        (Ingested::RetryLater, _) => Ingested::RetryLater,
        (taken, Some(contradiction)) => {
            contradictions::note(object_state, &contradiction);
            if taken == Ingested::Applied { Ingested::Alert { detail: contradiction.detail } } else { taken }
        }
        (taken, None) => taken,
    };
    if taken != Ingested::RetryLater {
        object_state.append_timeline(
            key_id,
            ctx.now_ms,
            "webhook",
            format!("{} {}", event.provider.as_str(), event.kind),
        );
    }
    let (detail, action, event_name) = match &taken {
        Ingested::Contradiction { detail } => (Some(detail), "webhook.contradicts", "contradiction"),
        Ingested::Alert { detail } => (Some(detail), "webhook.alert", "alert"),
        _ => (None, "", ""),
    };
    if let Some(detail) = detail {
        object_state.append_timeline(key_id, ctx.now_ms, event_name, detail.clone());
        let subject =
            object_state.resource.payment.as_ref().map(|payment| payment.id.to_string()).unwrap_or_default();
        let mut data = json!({
            "event": event.event_id, "provider": event.provider.as_str(), "kind": event.kind, "detail": detail,
        });
        if event.is_unwritten
            && let Some(data) = data.as_object_mut()
        {
            data.insert("unwritten".to_owned(), true.into());
        }
        record_for_owner(object_state, action, subject, data, ctx);
    }
    Ok(taken)
}

/// Asks about all that the provider alone knows, because a person wants to know.
pub fn ask_all(object_state: &mut ObjectState, ctx: &Context) {
    let event_id = format!("a person, {}", ctx.now_ms);
    try_queries::doubt_watched(object_state, &event_id);
    polling::doubt_all(object_state, &event_id, ctx);
    polling::told(object_state, ctx);
}

/// Whatever nobody works on is due now.
pub fn resume(object_state: &mut ObjectState, ctx: &Context) {
    for key in &mut object_state.keys {
        if let Lifecycle::Open(open) = &mut key.lifecycle
            && open.lease.is_none()
        {
            open.resume_at_ms = open.resume_at_ms.min(ctx.now_ms);
        }
    }
}

/// Whatever waits for the provider need not wait any longer.
pub fn expedite(object_state: &mut ObjectState, ctx: &Context) {
    resume(object_state, ctx);
    if let Some(check) = object_state.resource.payment.as_mut().and_then(|payment| payment.check.as_mut()) {
        check.next_at_ms = check.next_at_ms.min(ctx.now_ms);
    }
    for call in &mut object_state.calls {
        // Also one whose run is gone, and that an operator has held.
        if call.in_doubt() {
            call.next_try_at_ms = call.next_try_at_ms.min(ctx.now_ms);
        }
    }
}

/// Takes in news of what is known to have been done.
type Known = fn(&mut ObjectState, &OperationNotice, &Context) -> Result<Ingested, Bug>;

/// News that may answer a call of ours: if that has no answer yet the news is its answer, else `known` takes it in.
/// `answers` are the calls that such news answers: a modification that has no reference of its own, since it was not made
/// here, comes with the payment's, and says nothing of how the payment's own call ended.
fn by_call(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    answers: &[CallKind],
    known: Known,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let call = told
        .provider_key
        .as_ref()
        .and_then(|key| object_state.calls.iter().position(|call| call.provider_key == *key));
    let key_id = call.and_then(|at| object_state.calls.get(at)).map(|call| call.key_id);
    let key = key_id.and_then(|key_id| object_state.key(key_id));
    let is_open = key.is_some_and(|key| matches!(key.lifecycle, Lifecycle::Open(_)));
    let Some(call) = call.and_then(|at| object_state.calls.get_mut(at)) else {
        return known(object_state, told, ctx);
    };
    // Adyen has named what the call has made: another one under its reference is no answer to it.
    let is_made = |id: &String| *id != told.payment && call.evidence.by_hand.is_none();
    if call.kind == CallKind::Authorize
        && answers.contains(&CallKind::Authorize)
        && call.in_doubt()
        && call.evidence.provider_id.as_ref().is_some_and(is_made)
    {
        let detail = format!("another payment under our reference, {}, was authorised", told.payment);
        return Ok(if told.success { Ingested::Alert { detail } } else { Ingested::Applied });
    }
    match &call.state {
        // The refusal has been heard; what is there now may be another call's.
        CallState::Settled(Settlement::Answered(reply)) if !told.success && !reply.result.is_done() => {
            Ok(Ingested::Applied)
        }
        // The run that takes its answer in, and with it what the payment has reserved for it, has yet to come.
        CallState::Settled(Settlement::Answered(_)) if is_open && call.kind != CallKind::Authorize => {
            expedite(object_state, ctx);
            Ok(Ingested::RetryLater)
        }
        CallState::Settled(_) => known(object_state, told, ctx),
        CallState::InFlight => Ok(Ingested::RetryLater),
        CallState::Frozen if call.sends == 0 => Ok(Ingested::RetryLater),
        CallState::Frozen | CallState::Unknown if !answers.contains(&call.kind) => Ok(Ingested::RetryLater),
        // It is being called off: only that counts.
        CallState::Unknown if call.evidence.closing.is_some() && !call.provider.answers_questions() => {
            Ok(Ingested::Applied)
        }
        // Also of one whose sends were all refused: another copy of one of them came through.
        CallState::Frozen | CallState::Unknown => {
            if let Some(part) = adyen::told_of_a_part(call, told) {
                (call.state, call.maybe_executed) = (CallState::Unknown, true);
                call.close(part, ctx);
                expedite(object_state, ctx);
                return Ok(Ingested::Applied);
            }
            let result = match adyen::told(call, told) {
                Ok(result) => result,
                Err(detail) => return Ok(Ingested::Contradiction { detail }),
            };
            let reply = ProviderReply { status: 200, result, request_id: Some(told.id.clone()) };
            call.state = CallState::Settled(Settlement::Answered(reply));
            let (key_id, name, kind) = (call.key_id, call.name.clone(), call.kind);
            let refund = object_state.resource.refunds.iter_mut().find(|refund| refund.key_id == key_id);
            if let Some(refund) = refund {
                refund.told_at_ms = told.at_ms;
            }
            if let Some(payment) = &mut object_state.resource.payment
                && told.success
                && kind == CallKind::Capture
            {
                payment.captured_by = Some(told.id.clone());
                payment.ended_at_ms = payment.ended_at_ms.max(told.at_ms);
            }
            // A refusal that comes afterwards and is dated before it is old news.
            if told.success
                && answers.contains(&CallKind::Authorize)
                && let Some(payment) = &mut object_state.resource.payment
            {
                payment.ended_at_ms = payment.ended_at_ms.max(told.at_ms);
                try_rows::follow(object_state);
            }
            object_state.append_timeline(
                key_id,
                ctx.now_ms,
                "call_settled",
                format!("{name}: told by the provider"),
            );
            expedite(object_state, ctx);
            Ok(Ingested::Applied)
        }
    }
}

/// Whether this is about a payment whose call was sent and has no answer that settles it.
fn is_of_unheard(object_state: &ObjectState, told: &OperationNotice) -> bool {
    let is_it = |call: &&ProviderCall| told.provider_key.as_ref() == Some(&call.provider_key);
    object_state.calls.iter().find(is_it).is_some_and(|call| {
        let is_id = call.evidence.provider_id.as_ref().is_none_or(|id| *id == told.payment);
        call.kind == CallKind::Authorize && call.state == CallState::Unknown && is_id
    })
}

/// A payment was called off of which a part only was held, or that nobody had heard of. Only that this was done is proof: a "no"
/// says neither that it is held nor that it is not.
fn called_off(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    is_lapsed: bool,
    ctx: &Context,
) -> Ingested {
    let is_it = |call: &&mut ProviderCall| told.provider_key.as_ref() == Some(&call.provider_key);
    let Some(call) = object_state.calls.iter_mut().find(is_it) else { return Ingested::UnknownResource };
    let closing = call.evidence.closing.clone();
    if !told.success {
        let detail = format!("a part is held, and its cancel failed ({})", told.reason);
        return if closing.is_some() { Ingested::Alert { detail } } else { Ingested::Applied };
    }
    // What had been captured before the rest lapsed is told of by itself.
    if is_lapsed && closing.is_none() {
        return Ingested::RetryLater;
    }
    let reply = closing.unwrap_or_else(|| ProviderReply {
        status: 200,
        result: ProviderResult::Declined {
            payment: Some(told.payment.clone()),
            code: "payment_canceled".to_owned(),
            decline_code: None,
            message: "The payment was canceled. Nothing was charged.".to_owned(),
        },
        request_id: Some(told.id.clone()),
    });
    call.evidence.closing = Some(reply.clone());
    call.state = CallState::Settled(Settlement::Answered(reply));
    let (key_id, name) = (call.key_id, call.name.clone());
    if let Some(payment) = &mut object_state.resource.payment {
        payment.ended_at_ms = payment.ended_at_ms.max(told.at_ms);
        try_rows::follow(object_state);
    }
    object_state.append_timeline(
        key_id,
        ctx.now_ms,
        "call_settled",
        format!("{name}: called off, told by the provider"),
    );
    expedite(object_state, ctx);
    Ingested::Applied
}

/// It is about the newest try, whose call has its answer; the run that takes it in, with the payment's name at the provider, has
/// yet to come.
fn has_no_name_yet(object_state: &ObjectState, told: &OperationNotice) -> bool {
    let newest = object_state.calls.iter().rfind(|call| call.kind == CallKind::Authorize);
    let is_it = newest.is_some_and(|call| {
        told.provider_key.as_ref() == Some(&call.provider_key)
            && matches!(call.state, CallState::Settled(Settlement::Answered(_)))
    });
    is_it && object_state.resource.payment.as_ref().is_some_and(|payment| payment.provider_payment.is_none())
}

/// How the newest try's authorisation ended.
pub(crate) fn authorisation(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    if has_no_name_yet(object_state, told) {
        return Ok(Ingested::RetryLater);
    }
    let newest = object_state.calls.iter().rfind(|call| call.kind == CallKind::Authorize);
    let was_authorized = newest.is_some_and(|call| match &call.state {
        CallState::Settled(Settlement::Answered(reply)) => {
            matches!(
                reply.result,
                ProviderResult::Authorized { .. }
                    | ProviderResult::Charged { .. }
                    | ProviderResult::Moved { .. }
            )
        }
        _ => false,
    });
    if let Some(foreign) = late_money::foreign(object_state, told, "was authorised") {
        return Ok(foreign);
    }
    let Some(payment) = &mut object_state.resource.payment else { return Ok(Ingested::UnknownResource) };
    if told.is_of_another_try(payment) {
        return Ok(Ingested::Applied);
    }
    // A void of what has failed meanwhile is nearer: once it has ended, this is money on a try that is over.
    if told.success && payment.is_over() && payment.pending.is_some() && !ended::is_old(payment, told) {
        return Ok(Ingested::RetryLater);
    }
    // A part, or in another currency: neither is what was asked for, and no program says what it is worth.
    let is_as_asked = told.amount_minor == payment.amount.get() && told.currency == payment.currency.as_str();
    if told.success && !is_as_asked {
        return Ok(Ingested::Contradiction {
            detail: format!(
                "authorised {} {} instead of what was asked for",
                told.amount_minor, told.currency
            ),
        });
    }
    let found = match told.success {
        true if payment.capture => RemoteState::Captured { amount_minor: payment.amount.get() },
        true => RemoteState::Authorized,
        false => RemoteState::Failed(Failure {
            declined: true,
            code: "card_declined".to_owned(),
            decline_code: Some(told.reason.clone()).filter(|reason| !reason.is_empty()),
            message: "The card was declined.".to_owned(),
        }),
    };
    let contradicts = match &payment.state {
        PaymentState::Captured { .. } | PaymentState::CaptureFailed { .. } | PaymentState::Authorized => {
            !told.success && !ended::is_old(payment, told)
        }
        PaymentState::Failed(_) => told.success,
        // It was held before it was given up, or it came to be held afterwards.
        PaymentState::Canceled | PaymentState::Expired => {
            told.success && !was_authorized && !ended::is_old(payment, told)
        }
        _ => false,
    };
    if contradicts {
        let (status, success) = (payment.status(), told.success);
        return Ok(Ingested::Contradiction {
            detail: format!("authorisation success={success}, the payment is {status}"),
        });
    }
    if payment.apply(found) {
        payment.paid_with(told.card);
        on_transition(object_state, ctx)?;
    }
    Ok(Ingested::Applied)
}

/// News of a capture, a void or the reservation of the newest try.
fn of_this_try(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ended: impl FnOnce(&mut ObjectState) -> Result<Ingested, Bug>,
) -> Result<Ingested, Bug> {
    if has_no_name_yet(object_state, told) || ended::is_not_taken_in(object_state, told) {
        return Ok(Ingested::RetryLater);
    }
    let Some(payment) = &object_state.resource.payment else { return Ok(Ingested::UnknownResource) };
    if told.is_of_another_try(payment) {
        return Ok(Ingested::Applied);
    }
    ended(object_state)
}

/// A capture by somebody else has the payment's own reference. If the payment is unheard of, it was authorised: that is its
/// answer, and the capture must come again.
fn captured_unheard(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let amount_minor = object_state.resource.payment.as_ref().map_or(0, |payment| payment.amount.get());
    let authorised = OperationNotice { id: told.payment.clone(), amount_minor, ..told.clone() };
    by_call(object_state, &authorised, &[CallKind::Authorize], authorisation, ctx)?;
    Ok(Ingested::RetryLater)
}

fn capture(object_state: &mut ObjectState, told: &OperationNotice, ctx: &Context) -> Result<Ingested, Bug> {
    if let Some(foreign) = late_money::foreign(object_state, told, "was captured") {
        return Ok(foreign);
    }
    of_this_try(object_state, told, |object_state| ended::capture(object_state, told, ctx))
}

/// A capture whose answer nobody has heard was made before it could fail afterwards: that is its answer, and what it has come
/// to must come again.
fn capture_failed(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let made = OperationNotice { success: true, ..told.clone() };
    if is_of_unknown(object_state, told) {
        by_call(object_state, &made, &[CallKind::Capture], capture, ctx)?;
        return Ok(Ingested::RetryLater);
    }
    let failed: Known = |object_state, told, ctx| {
        of_this_try(object_state, told, |object_state| ended::capture_failed(object_state, told, ctx))
    };
    by_call(object_state, told, &[], failed, ctx)
}

fn cancellation(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    of_this_try(object_state, told, |object_state| ended::cancellation(object_state, told, ctx))
}

/// A void, or a refund of all where the money was taken already.
fn cancel_or_refund(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let is_taken = |payment: &Payment| matches!(payment.state, PaymentState::Captured { .. });
    match object_state.resource.payment.as_ref().is_some_and(is_taken) {
        true => refunds::told(object_state, told, ctx),
        false => cancellation(object_state, told, ctx),
    }
}

fn expired(object_state: &mut ObjectState, told: &OperationNotice, ctx: &Context) -> Result<Ingested, Bug> {
    of_this_try(object_state, told, |object_state| ended::expired(object_state, told, ctx))
}

/// A refund whose answer nobody has heard was made before it could be undone: that is its answer, and what it has come to must come again.
fn refund(object_state: &mut ObjectState, told: &OperationNotice, ctx: &Context) -> Result<Ingested, Bug> {
    if told.undone.is_none() || !is_of_unknown(object_state, told) {
        return by_call(object_state, told, &[CallKind::Refund], refunds::told, ctx);
    }
    let made = OperationNotice { success: true, undone: None, ..told.clone() };
    Ok(match by_call(object_state, &made, &[CallKind::Refund], refunds::told, ctx)? {
        Ingested::Applied => Ingested::RetryLater,
        other => other,
    })
}

/// Whether it is about a call of which nobody knows how it ended.
fn is_of_unknown(object_state: &ObjectState, told: &OperationNotice) -> bool {
    let is_it = |call: &ProviderCall| {
        told.provider_key.as_ref() == Some(&call.provider_key) && call.state == CallState::Unknown
    };
    object_state.calls.iter().any(is_it)
}
