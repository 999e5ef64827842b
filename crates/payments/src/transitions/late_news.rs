//! What a provider tells by itself of tries that are over, and of what gives their money back.

use serde_json::json;

use crate::engine::{Context, KeyRecord, ObjectState, ProviderCall, RecoveryPoint};
use crate::payment::RefundElsewhere;
use crate::payment::provider_event::{EventKind, Ingested, OperationNotice, Undone};
use crate::payment::result::CallKind;
use crate::payment::tries::{LateMoney, Stage, Try};
use crate::transitions::audit::record_for_payment;
use crate::transitions::late_money::{
    captured_late, found, hold_gone, is_under_way, mark_given_back, not_done, taken_by_now, taken_minor,
};
use crate::transitions::{give_back, try_rows};
use once::context::Bug;

/// Takes in news of a try that is over, or of what gives its money back. `None` if it is about neither.
pub(crate) fn news(
    object_state: &mut ObjectState,
    news: &EventKind,
    ctx: &Context,
) -> Result<Option<Ingested>, Bug> {
    // Disputes have rules of their own.
    let Some(told) = news.told().filter(|_| !matches!(news, EventKind::Dispute { .. })) else {
        return Ok(None);
    };
    let call = object_state
        .calls
        .iter()
        .find(|call| told.provider_key.as_ref() == Some(&call.provider_key))
        .cloned();
    if call.as_ref().is_some_and(|call| !call.is_settled()) {
        return Ok(None);
    }
    let is_own_refund = call.as_ref().is_some_and(|call| call.kind == CallKind::Refund);
    if let Some(call) = call.filter(|call| call.name == give_back::CALL) {
        return given_back(object_state, &call, told, ctx).map(Some);
    }
    let Some(attempt) = over(object_state, told) else { return Ok(None) };
    match news {
        EventKind::CancelOrRefund(told) if told.was_taken => {
            return Ok(Some(refunded_elsewhere(object_state, attempt, told, ctx)));
        }
        EventKind::Cancellation(told) | EventKind::CancelOrRefund(told) | EventKind::Expired(told)
            if told.success =>
        {
            hold_gone(object_state, attempt, ctx);
        }
        // One of ours was begun when the money was known, and says nothing else of it.
        EventKind::Refund(_) if is_own_refund => return Ok(Some(Ingested::Applied)),
        EventKind::Refund(told) => return Ok(Some(refunded_elsewhere(object_state, attempt, told, ctx))),
        EventKind::Capture(told) if told.success => {
            if let Some(taken) = captured_again(object_state, attempt, told, ctx) {
                return Ok(Some(taken));
            }
        }
        _ => {}
    }
    let Some(row) = try_rows::of_mut(object_state, attempt) else {
        return Ok(None);
    };
    let is_old = told.at_ms.zip(row.ended_at_ms).is_some_and(|(at_ms, ended_ms)| at_ms < ended_ms);
    let captured = match news {
        EventKind::Authorisation(told) if told.success && !row.was_authorized => row.capture,
        EventKind::Capture(told) if told.success => true,
        _ => return Ok(Some(Ingested::Applied)),
    };
    // What has lapsed or was canceled afterwards is what the capture had left.
    let is_of_rest = matches!(row.status.as_str(), "canceled" | "expired");
    if is_old && !(is_of_rest && matches!(news, EventKind::Capture(_))) {
        return Ok(Some(Ingested::Applied));
    }
    row.provider_payment = Some(told.payment.clone());
    if let EventKind::Capture(told) = news {
        return captured_late(object_state, attempt, told, ctx).map(Some);
    }
    let amount_minor = taken_minor(row, told);
    found(object_state, attempt, amount_minor, captured, ctx).map(Some)
}

/// A capture on a try of which it is known that money was taken. `None` where that is not known.
fn captured_again(
    object_state: &mut ObjectState,
    attempt: u32,
    told: &OperationNotice,
    ctx: &Context,
) -> Option<Ingested> {
    let row = try_rows::of(object_state, attempt)?;
    let late = row.late.as_ref().filter(|late| late.captured)?;
    let taken_minor = match &late.capture {
        Some(known) if *known == told.id => return Some(Ingested::Applied),
        Some(_) => late.amount_minor.saturating_add(told.amount_minor),
        // So far it was known by what became of it afterwards alone.
        None => told.amount_minor.max(late.amount_minor),
    };
    // What is under way gives back what was known when it began.
    if is_under_way(object_state, row) {
        return Some(Ingested::RetryLater);
    }
    give_back::late_mut(object_state, attempt)?.capture = Some(told.id.clone());
    Some(taken_by_now(object_state, attempt, taken_minor, ctx))
}

/// A refund of a try's money that was not made here: a person has given it back.
fn refunded_elsewhere(
    object_state: &mut ObjectState,
    attempt: u32,
    told: &OperationNotice,
    ctx: &Context,
) -> Ingested {
    let Some(row) = try_rows::of_mut(object_state, attempt) else {
        return Ingested::Applied;
    };
    let currency = row.currency;
    let Some(late) = &mut row.late else { return taken_and_refunded(object_state, attempt, told, ctx) };
    let was_back = late.stage() == Stage::GivenBack;
    if told.currency == currency.as_str() && !RefundElsewhere::take(&mut late.elsewhere, told.into()) {
        return Ingested::Contradiction { detail: "a refund that was not made here".to_owned() };
    }
    let is_back_elsewhere = late.is_back_elsewhere();
    if !told.success && was_back && !is_back_elsewhere {
        let detail = format!("a refund of try {attempt} that was not made here failed ({})", told.reason);
        let own = late.own;
        late.is_told |= own == Stage::Refused;
        back_no_more(object_state, attempt, own, &told.reason, ctx);
        return Ingested::Alert { detail };
    }
    if is_back_elsewhere && !was_back {
        record_for_payment(object_state, "try.given_back", json!({ "attempt": attempt }), ctx);
    }
    Ingested::Applied
}

/// What had been given back of a try is so no more, and is now as our own operation has left it.
fn back_no_more(object_state: &mut ObjectState, attempt: u32, stage: Stage, reason: &str, ctx: &Context) {
    let action = match stage {
        Stage::GivenBack => return,
        Stage::Refused => "try.give_back_refused",
        Stage::Begun | Stage::Received => "try.give_back_undone",
    };
    record_for_payment(object_state, action, json!({ "attempt": attempt, "code": reason }), ctx);
}

/// A refund of a try's money of which nothing was known: it had been taken. How much else of it was is told by its capture.
fn taken_and_refunded(
    object_state: &mut ObjectState,
    attempt: u32,
    told: &OperationNotice,
    ctx: &Context,
) -> Ingested {
    let Some(row) = try_rows::of_mut(object_state, attempt) else {
        return Ingested::Applied;
    };
    if !told.success && told.undone.is_none() {
        return Ingested::Applied;
    }
    let status = row.status.clone();
    let about =
        format!("a refund of {} {} of try {attempt}, which is {status}", told.amount_minor, told.currency);
    if told.amount_minor == 0 || told.currency != row.currency.as_str() {
        return Ingested::Contradiction { detail: about };
    }
    let late = LateMoney::new(told.amount_minor, true, Stage::Refused);
    row.late = Some(LateMoney { is_told: true, elsewhere: vec![told.into()], ..late });
    let data = json!({ "attempt": attempt, "amount": told.amount_minor, "captured": true });
    record_for_payment(object_state, "try.late_money", data, ctx);
    if told.success {
        record_for_payment(object_state, "try.given_back", json!({ "attempt": attempt }), ctx);
        return Ingested::Alert { detail: format!("{about}: money had been taken") };
    }
    Ingested::Alert { detail: format!("{about}, came back ({}): money is taken", told.reason) }
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
    let is_its = |key: &KeyRecord| key.key_id == call.key_id;
    let is_open = |key: &KeyRecord| key.recovery_point() != RecoveryPoint::Finished;
    let is_under_way = object_state.keys.iter().any(|key| is_its(key) && is_open(key));
    let Some(late) = give_back::late_mut(object_state, attempt) else { return Ok(Ingested::Applied) };
    if is_under_way {
        return Ok(Ingested::RetryLater);
    }
    if told.success {
        mark_given_back(object_state, attempt, ctx);
        return Ok(Ingested::Applied);
    }
    if told.undone == Some(Undone::MayBeRepeated) && !late.is_back_elsewhere() {
        let was_back = std::mem::replace(&mut late.own, Stage::Received) == Stage::GivenBack;
        late.received_at_ms = Some(ctx.now_ms);
        if was_back {
            back_no_more(object_state, attempt, Stage::Received, &told.reason, ctx);
        }
        let detail = format!(
            "what was given back of try {attempt} came back ({}), and may be repeated: give back nothing yet",
            told.reason
        );
        return Ok(Ingested::Alert { detail });
    }
    if late.own == Stage::GivenBack {
        // What is held no more was canceled by others.
        if call.kind == CallKind::Void {
            return Ok(Ingested::Applied);
        }
        late.own = Stage::Refused;
        if late.is_back_elsewhere() {
            return Ok(Ingested::Applied);
        }
        late.is_told = true;
        let detail = format!("what was given back of try {attempt} came back ({})", told.reason);
        back_no_more(object_state, attempt, Stage::Refused, &told.reason, ctx);
        return Ok(Ingested::Alert { detail });
    }
    not_done(object_state, attempt, call.kind, &told.reason, ctx)?;
    Ok(Ingested::Applied)
}
