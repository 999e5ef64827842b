//! Takes in what a provider tells by itself: once, and only forward.
//!
//! Outcomes: the work that follows is due now (an open key is taken up, a question is asked), or the news itself is taken in.
//! News about a call that is on its way right now, or whose answer nobody has taken in yet, must come again: that is nearer.

use serde_json::json;

use crate::engine::{CallState, Context, ObjectState, Settlement};
use crate::payment::provider_event::{Event, EventKind, Ingested, OperationNotice};
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::{Failure, Payment, PaymentState};
use crate::transitions::answering::{
    Known, by_call, called_off, expedite, is_of_unheard, is_of_unknown, resume,
};
use crate::transitions::audit::record_for_owner;
use crate::transitions::effects::on_transition;
use crate::transitions::event_account::is_of_account;
use crate::transitions::{
    contradictions, disputes, ended, late_money, late_news, own_moves, polling, refunds, try_queries,
};
use once::context::Bug;

/// How far a provider's clock may be ahead of ours, in ms.
const AHEAD_MAX_MS: u64 = 600_000;

/// Takes in an event that was not known before.
pub fn take(object_state: &mut ObjectState, event: &Event, ctx: &Context) -> Result<Ingested, Bug> {
    if object_state.keys.is_empty() {
        return Ok(Ingested::UnknownResource);
    }
    let mut event = dated(event, ctx);
    if !is_of_account(object_state, &event) {
        return Ok(Ingested::OtherAccount);
    }
    if !own_moves::name(object_state, &mut event.news) {
        return Ok(Ingested::RetryLater);
    }
    let event = &event;
    let key_id = object_state.keys.first().map_or(0, |key| key.key_id);
    let contradiction = contradictions::of_news(object_state, &event.news);
    let pending = object_state.resource.payment.as_ref().and_then(|payment| payment.pending);
    let records = object_state.appended.facts.audit.len();
    let of_try = late_news::news(object_state, &event.news, ctx)?;
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
        news if let Some(told) = taken_by(news)
            && is_of_unheard(object_state, told) =>
        {
            taken_unheard(object_state, told, ctx)?
        }
        EventKind::Capture(told) => by_call(object_state, told, &[CallKind::Capture], capture, ctx)?,
        EventKind::CaptureFailed(told) => capture_failed(object_state, told, ctx)?,
        EventKind::Cancellation(told) | EventKind::CancelOrRefund(told) | EventKind::Expired(told)
            if is_of_unheard(object_state, told) =>
        {
            called_off(object_state, told, matches!(event.news, EventKind::Expired(_)), ctx)
        }
        EventKind::Cancellation(told) => by_call(object_state, told, &[CallKind::Void], cancellation, ctx)?,
        EventKind::CancelOrRefund(told) if told.was_taken => {
            by_call(object_state, told, &[], all_refunded, ctx)?
        }
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
    ended::note_end(object_state, pending, records, ctx);
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

/// A time is not signed: one that is further ahead keeps nothing out for longer than this. What comes later has no earlier time by it.
fn dated(event: &Event, ctx: &Context) -> Event {
    let mut event = event.clone();
    let latest_ms = ctx.now_ms.saturating_add(AHEAD_MAX_MS);
    if let Some(told) = event.news.told_mut() {
        told.at_ms = told.at_ms.map(|at_ms| at_ms.min(latest_ms));
    }
    event
}

/// Asks about all that the provider alone knows, because a person wants to know.
pub fn ask_all(object_state: &mut ObjectState, ctx: &Context) {
    let event_id = format!("a person, {}", ctx.now_ms);
    try_queries::doubt_watched(object_state, &event_id);
    polling::doubt_all(object_state, &event_id, ctx);
    polling::told(object_state, ctx);
}

/// It is about the newest try, whose call has no answer that settles it, or whose run has yet to take that in, with the payment's name at the
/// provider.
fn has_no_name_yet(object_state: &ObjectState, told: &OperationNotice) -> bool {
    let newest = object_state.calls.iter().rfind(|call| call.kind == CallKind::Authorize);
    let is_it = newest.is_some_and(|call| {
        let is_open = !call.is_settled() || matches!(call.state, CallState::Settled(Settlement::Answered(_)));
        told.provider_key.as_ref() == Some(&call.provider_key) && is_open
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

/// What tells that money was taken, by a capture, or by what can only follow one: a refund that was made, also if it has come back, and a dispute.
fn taken_by(news: &EventKind) -> Option<&OperationNotice> {
    match news {
        EventKind::Capture(told) | EventKind::Dispute { told, .. } if told.success => Some(told),
        EventKind::CancelOrRefund(told) if told.success && told.was_taken => Some(told),
        EventKind::Refund(told) if told.success || told.undone.is_some() => Some(told),
        _ => None,
    }
}

/// What others do with a payment has the payment's own reference. If that is unheard of, and its money was taken, it was authorised: that is its
/// answer, and what was told must come again.
fn taken_unheard(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let Some(payment) = &object_state.resource.payment else { return Ok(Ingested::UnknownResource) };
    let authorised = OperationNotice {
        id: told.payment.clone(),
        amount_minor: payment.amount.get(),
        currency: payment.currency.as_str().to_owned(),
        success: true,
        reason: String::new(),
        undone: None,
        was_taken: false,
        ..told.clone()
    };
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

/// A refund of all by somebody else, where no capture need be known: then there was one.
fn all_refunded(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    if has_no_name_yet(object_state, told) {
        return Ok(Ingested::RetryLater);
    }
    let Some(payment) = &object_state.resource.payment else { return Ok(Ingested::UnknownResource) };
    if told.is_of_another_try(payment) {
        return Ok(Ingested::Applied);
    }
    let is_known =
        matches!(payment.state, PaymentState::Captured { .. } | PaymentState::CaptureFailed { .. });
    let is_in_its_currency = told.currency == payment.currency.as_str();
    let amount_minor = match told.amount_minor {
        amount_minor if amount_minor > 0 && is_in_its_currency => amount_minor.min(payment.amount.get()),
        _ if is_known => payment.captured_minor(),
        _ => payment.amount.get(),
    };
    let currency = payment.currency.as_str().to_owned();
    let all = OperationNotice { amount_minor, currency, ..told.clone() };
    match &payment.state {
        _ if is_known => refunds::told(object_state, &all, ctx),
        // What was refunded may be what is captured right now.
        _ if payment.pending.is_some() => Ok(Ingested::RetryLater),
        _ if !told.success => Ok(Ingested::Applied),
        PaymentState::Authorized => {
            ended::was_taken(object_state, amount_minor, ctx)?;
            let taken = refunds::told(object_state, &all, ctx)?;
            let detail = format!("{amount_minor} was refunded by others, and no capture was known");
            Ok(if taken == Ingested::Applied { Ingested::Alert { detail } } else { taken })
        }
        _ => taken_unheard(object_state, told, ctx),
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
