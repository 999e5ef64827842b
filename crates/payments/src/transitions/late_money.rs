//! News of tries that are over.
//!
//! Such a try holds no money. Where a provider tells that one does all the same, a person must see it ([`Ingested::Alert`]), and it is
//! given back at once: canceled, or refunded, as an operation of its own (`give_back`).

use serde_json::json;

use crate::engine::{CallState, Context, ObjectState, ProviderCall, RecoveryPoint};
use crate::payment::id::RefundId;
use crate::payment::provider_event::{EventKind, Ingested, OperationNotice};
use crate::payment::refund::RefundState;
use crate::payment::result::{CallKind, RemoteState};
use crate::payment::tries::{LateMoney, Stage, Try};
use crate::transitions::audit::{alert, record_for_payment};
use crate::transitions::give_back;
use once::context::Bug;

/// Takes in news of a try that is over, or of what gives its money back. `None` if it is about neither.
pub(crate) fn news(
    object_state: &mut ObjectState,
    news: &EventKind,
    ctx: &Context,
) -> Result<Option<Ingested>, Bug> {
    let told = match news {
        EventKind::Authorisation(told)
        | EventKind::Capture(told)
        | EventKind::CaptureFailed(told)
        | EventKind::Cancellation(told)
        | EventKind::CancelOrRefund(told)
        | EventKind::Expired(told)
        | EventKind::Refund(told) => told,
        EventKind::Ask { .. } | EventKind::Dispute { .. } | EventKind::Other => return Ok(None),
    };
    let call = object_state
        .calls
        .iter()
        .find(|call| told.provider_key.as_ref() == Some(&call.provider_key))
        .cloned();
    if call.as_ref().is_some_and(|call| !matches!(call.state, CallState::Settled(_))) {
        return Ok(None);
    }
    if let Some(call) = call.filter(|call| call.name == give_back::CALL) {
        return given_back(object_state, &call, told, ctx).map(Some);
    }
    let Some(attempt) = over(object_state, told) else { return Ok(None) };
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(None);
    };
    let is_old = told.at_ms.zip(row.ended_at_ms).is_some_and(|(at_ms, ended_ms)| at_ms < ended_ms);
    let is_gone = told.success
        && matches!(news, EventKind::Cancellation(_) | EventKind::CancelOrRefund(_) | EventKind::Expired(_));
    if let Some(late) = row.late.as_mut().filter(|late| is_gone && !late.captured) {
        late.stage = Stage::GivenBack;
    }
    let captured = match news {
        EventKind::Authorisation(told) if told.success && !row.was_authorized => row.capture,
        EventKind::Capture(told) if told.success => true,
        _ => return Ok(Some(Ingested::Applied)),
    };
    if is_old {
        return Ok(Some(Ingested::Applied));
    }
    row.provider_payment = Some(told.payment.clone());
    let amount_minor = if told.amount_minor == 0 { row.amount.get() } else { told.amount_minor };
    found(object_state, attempt, amount_minor, captured, ctx).map(Some)
}

/// The try that this tells of, if it is over: an earlier one, or the newest.
fn over(object_state: &ObjectState, told: &OperationNotice) -> Option<u32> {
    let payment = object_state.resource.payment.as_ref()?;
    // The id that an operator has given may be another payment's.
    let is_by_hand = |row: &Try| {
        let is_its = |call: &&ProviderCall| call.provider_key == row.provider_key;
        object_state.calls.iter().find(is_its).is_some_and(|call| call.evidence.by_hand.is_some())
    };
    let is_it = |row: &&Try| {
        row.provider_payment.as_ref() == Some(&told.payment)
            || (told.provider_key.as_ref() == Some(&row.provider_key)
                && (row.provider_payment.is_none() || is_by_hand(row)))
    };
    let attempt = object_state.resource.tries.iter().find(is_it)?.attempt;
    let is_newest = attempt == payment.attempt;
    // While something of it is under way, that is nearer.
    (!is_newest || (payment.is_over() && payment.pending.is_none())).then_some(attempt)
}

/// There is money on a try that is over: a person must see it, and it is given back.
pub(crate) fn found(
    object_state: &mut ObjectState,
    attempt: u32,
    amount_minor: u32,
    captured: bool,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(Ingested::Applied);
    };
    if row.late.as_ref().is_some_and(|late| late.captured >= captured) {
        return Ok(Ingested::Applied);
    }
    row.late = Some(LateMoney { amount_minor, captured, stage: Stage::Begun });
    let what = if captured { "was taken" } else { "is held" };
    let detail = format!("{amount_minor} {what} on try {attempt}, which is {}", row.status);
    record_for_payment(
        object_state,
        "try.late_money",
        json!({ "attempt": attempt, "amount": amount_minor, "captured": captured }),
        ctx,
    );
    give_back::begin(object_state, attempt, captured, ctx)?;
    Ok(Ingested::Alert { detail })
}

/// How giving money back ended that the provider had taken over.
fn given_back(
    object_state: &mut ObjectState,
    call: &ProviderCall,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let Some(attempt) = give_back::attempt_of(&call.provider_key, object_state) else {
        return Ok(Ingested::Applied);
    };
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(Ingested::Applied);
    };
    let Some(late) = &mut row.late else { return Ok(Ingested::Applied) };
    if object_state
        .keys
        .iter()
        .any(|key| key.key_id == call.key_id && key.recovery_point() != RecoveryPoint::Finished)
    {
        return Ok(Ingested::RetryLater);
    }
    if told.success {
        late.stage = Stage::GivenBack;
        record_for_payment(object_state, "try.given_back", json!({ "attempt": attempt }), ctx);
        return Ok(Ingested::Applied);
    }
    if late.stage == Stage::GivenBack {
        let detail = format!("what was given back of try {attempt} came back ({})", told.reason);
        late.stage = Stage::Refused;
        record_for_payment(
            object_state,
            "try.give_back_refused",
            json!({ "attempt": attempt, "code": told.reason }),
            ctx,
        );
        return Ok(Ingested::Alert { detail });
    }
    refused(object_state, attempt, call.kind, &told.reason, ctx)?;
    Ok(Ingested::Applied)
}

/// A provider did not give money back: what could not be canceled is refunded, else a person must.
pub(crate) fn refused(
    object_state: &mut ObjectState,
    attempt: u32,
    kind: CallKind,
    reason: &str,
    ctx: &Context,
) -> Result<(), Bug> {
    if kind == CallKind::Void {
        return give_back::begin(object_state, attempt, true, ctx);
    }
    if let Some(late) = give_back::late_mut(object_state, attempt) {
        late.stage = Stage::Refused;
    }
    record_for_payment(
        object_state,
        "try.give_back_refused",
        json!({ "attempt": attempt, "code": reason }),
        ctx,
    );
    Ok(())
}

/// Takes in how the refund stands that gives back the money of a try: what was given back can still come back.
pub(crate) fn take_refund(
    object_state: &mut ObjectState,
    refund: &RefundId,
    event_id: Option<&str>,
    state: &RefundState,
    ctx: &Context,
) -> Result<(), Bug> {
    let is_its =
        |row: &&Try| give_back::refund_of(object_state, row).is_some_and(|(known, _)| known == *refund);
    let Some(attempt) = object_state.resource.tries.iter().find(is_its).map(|row| row.attempt) else {
        return Ok(());
    };
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(());
    };
    if row.asked_for.as_deref() == event_id {
        row.asked_for = None;
    }
    let Some(late) = &mut row.late else { return Ok(()) };
    let before = late.stage;
    let (stage, action) = match state {
        RefundState::Succeeded => (Stage::GivenBack, "try.given_back"),
        RefundState::Failed { .. } => (Stage::Refused, "try.give_back_refused"),
        RefundState::Requested | RefundState::Pending => return Ok(()),
    };
    if before == stage || before == Stage::Refused {
        return Ok(());
    }
    late.stage = stage;
    let code = match state {
        RefundState::Failed { code, .. } => Some(code),
        _ => None,
    };
    record_for_payment(object_state, action, json!({ "attempt": attempt, "code": code }), ctx);
    Ok(())
}

/// Takes in what the provider says that a try is which is over.
pub(crate) fn take(
    object_state: &mut ObjectState,
    provider_payment: &str,
    event_id: Option<&str>,
    truth: &RemoteState,
    ctx: &Context,
) -> Result<(), Bug> {
    let is_it = |row: &&mut Try| row.provider_payment.as_deref() == Some(provider_payment);
    let Some(row) = object_state.resource.tries.iter_mut().find(is_it) else { return Ok(()) };
    let (attempt, amount_minor, provider) = (row.attempt, row.amount.get(), row.provider);
    let taken = match truth {
        RemoteState::Captured { amount_minor } => found(object_state, attempt, *amount_minor, true, ctx)?,
        RemoteState::Authorized => found(object_state, attempt, amount_minor, false, ctx)?,
        _ => return Ok(()),
    };
    if let Ingested::Alert { detail } = taken {
        alert(object_state, provider, event_id, &detail, ctx)?;
    }
    Ok(())
}
