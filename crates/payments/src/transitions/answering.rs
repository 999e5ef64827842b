//! What a provider tells by itself and may answer a call of ours: one of which nobody knows how it ended is answered by it.

use crate::engine::{CallState, Context, Lifecycle, ObjectState, ProviderCall, ProviderReply, Settlement};
use crate::payment::provider_event::{Ingested, OperationNotice};
use crate::payment::result::{CallKind, ProviderResult};
use crate::providers::adyen;
use crate::transitions::try_rows;
use once::context::Bug;

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
pub(super) type Known = fn(&mut ObjectState, &OperationNotice, &Context) -> Result<Ingested, Bug>;

/// News that may answer a call of ours: if that has no answer yet the news is its answer, else `known` takes it in.
/// `answers` are the calls that such news answers: a modification that has no reference of its own, since it was not made
/// here, comes with the payment's, and says nothing of how the payment's own call ended.
pub(super) fn by_call(
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
            Ok(settled(object_state, key_id, format!("{name}: told by the provider"), ctx))
        }
    }
}

/// Whether this is about a payment whose call was sent and has no answer that settles it.
pub(super) fn is_of_unheard(object_state: &ObjectState, told: &OperationNotice) -> bool {
    let is_it = |call: &&ProviderCall| told.provider_key.as_ref() == Some(&call.provider_key);
    object_state.calls.iter().find(is_it).is_some_and(|call| {
        let is_id = call.evidence.provider_id.as_ref().is_none_or(|id| *id == told.payment);
        call.kind == CallKind::Authorize && call.state == CallState::Unknown && is_id
    })
}

/// A payment was called off of which a part only was held, or that nobody had heard of. Only that this was done is proof: a "no"
/// says neither that it is held nor that it is not.
pub(super) fn called_off(
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
    settled(object_state, key_id, format!("{name}: called off, told by the provider"), ctx)
}

/// A call of this key is settled by what was told: its run is due.
fn settled(object_state: &mut ObjectState, key_id: u32, detail: String, ctx: &Context) -> Ingested {
    object_state.append_timeline(key_id, ctx.now_ms, "call_settled", detail);
    expedite(object_state, ctx);
    Ingested::Applied
}

/// Whether it is about a call of which nobody knows how it ended.
pub(super) fn is_of_unknown(object_state: &ObjectState, told: &OperationNotice) -> bool {
    let is_it = |call: &ProviderCall| {
        told.provider_key.as_ref() == Some(&call.provider_key) && call.state == CallState::Unknown
    };
    object_state.calls.iter().any(is_it)
}
