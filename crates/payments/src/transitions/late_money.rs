//! News of tries that are over.
//!
//! Such a try holds no money. Where a provider tells that one does all the same, a person must see it ([`Ingested::Alert`]), and it is
//! given back at once: canceled, or refunded, as an operation of its own (`give_back`).

use serde_json::json;

use crate::engine::{Context, ObjectState, ProviderCall, RecoveryPoint};
use crate::payment::RefundElsewhere;
use crate::payment::dispute::{Dispute, DisputeStatus};
use crate::payment::provider_event::{EventKind, Ingested, OperationNotice, Undone};
use crate::payment::refund::RefundState;
use crate::payment::result::{CallKind, RemoteState};
use crate::payment::status_query::RemoteRefund;
use crate::payment::tries::{LateMoney, Stage, Try};
use crate::transitions::audit::{alert, record_for_payment};
use crate::transitions::give_back;
use once::context::Bug;

/// How long a provider may take to tell how giving money back ended that it has taken over, in ms. What it has told may be lost.
const UNTOLD_MS: u64 = 14 * 86_400_000;

/// When a person is to look at the first of what is not given back, in ms since the epoch.
pub(crate) fn due_at_ms(object_state: &ObjectState) -> Option<u64> {
    object_state.resource.tries.iter().filter_map(|row| untold_at_ms(object_state, row)).min()
}

/// Objects of before have what was refused without a word to anybody, and what was taken over, or left begun, without a time: then it counts
/// since its operation ended.
fn untold_at_ms(object_state: &ObjectState, row: &Try) -> Option<u64> {
    let late = row.late.as_ref()?;
    match late.stage() {
        Stage::GivenBack => None,
        Stage::Refused => (!late.is_told).then_some(0),
        _ if is_under_way(object_state, row) => None,
        Stage::Begun | Stage::Received => {
            let ended_at_ms = || give_back::finished_at_ms(object_state, row.attempt);
            let since_ms = late.received_at_ms.or_else(ended_at_ms).unwrap_or(0);
            Some(since_ms.saturating_add(UNTOLD_MS))
        }
    }
}

/// Whether the operation that gives it back has not ended.
fn is_under_way(object_state: &ObjectState, row: &Try) -> bool {
    let is_begun = row.late.as_ref().is_some_and(|late| late.own == Stage::Begun);
    is_begun && give_back::is_open(object_state, row.attempt)
}

/// A person must look at what the provider has not told of for so long. What it tells later counts all the same.
pub(crate) fn give_up_untold(object_state: &mut ObjectState, ctx: &Context) {
    let is_due = |row: &&Try| untold_at_ms(object_state, row).is_some_and(|at_ms| at_ms <= ctx.now_ms);
    let due: Vec<u32> = object_state.resource.tries.iter().filter(is_due).map(|row| row.attempt).collect();
    for attempt in due {
        let late = give_back::late_mut(object_state, attempt);
        if late.is_some_and(|late| late.own == Stage::Refused) {
            tell(object_state, attempt, "refused", ctx);
        } else {
            refused(object_state, attempt, "not_told", ctx);
        }
    }
}

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
    if call.as_ref().is_some_and(|call| !call.is_settled()) {
        return Ok(None);
    }
    if let Some(call) = call.filter(|call| call.name == give_back::CALL) {
        return given_back(object_state, &call, told, ctx).map(Some);
    }
    let Some(attempt) = over(object_state, told) else { return Ok(None) };
    match news {
        EventKind::Cancellation(told) | EventKind::CancelOrRefund(told) | EventKind::Expired(told)
            if told.success =>
        {
            hold_gone(object_state, attempt, ctx);
        }
        EventKind::Refund(told) => return Ok(Some(refunded_elsewhere(object_state, attempt, told, ctx))),
        _ => {}
    }
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(None);
    };
    let is_old = told.at_ms.zip(row.ended_at_ms).is_some_and(|(at_ms, ended_ms)| at_ms < ended_ms);
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

/// A refund of a try's money that was not made here: a person has given it back.
fn refunded_elsewhere(
    object_state: &mut ObjectState,
    attempt: u32,
    told: &OperationNotice,
    ctx: &Context,
) -> Ingested {
    let row = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt);
    let Some((late, currency)) = row.and_then(|row| Some((row.late.as_mut()?, row.currency))) else {
        return Ingested::Applied;
    };
    let was_back = late.stage() == Stage::GivenBack;
    if told.currency == currency.as_str() && !RefundElsewhere::take(&mut late.elsewhere, told.into()) {
        return Ingested::Contradiction { detail: "a refund that was not made here".to_owned() };
    }
    let is_back_elsewhere = late.is_back_elsewhere();
    if !told.success && was_back && !is_back_elsewhere {
        let detail = format!("a refund of try {attempt} that was not made here failed ({})", told.reason);
        late.is_told |= late.own == Stage::Refused;
        return Ingested::Alert { detail };
    }
    if is_back_elsewhere && !was_back {
        record_for_payment(object_state, "try.given_back", json!({ "attempt": attempt }), ctx);
    }
    Ingested::Applied
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

/// Money of a payment under a reference of ours that none of our calls has made: a person has authorised it anew in the Customer Area, or Auto Rescue
/// has. Nothing here can say what it is for, so a person must.
/// <https://docs.adyen.com/online-payments/auto-rescue/cards>
pub(crate) fn foreign(object_state: &ObjectState, told: &OperationNotice, what: &str) -> Option<Ingested> {
    let resource = &object_state.resource;
    let is_its = |id: Option<&String>| id == Some(&told.payment);
    let is_known = is_its(resource.payment.as_ref()?.provider_payment.as_ref())
        || resource.tries.iter().any(|row| is_its(row.provider_payment.as_ref()))
        || object_state.calls.iter().any(|call| is_its(call.evidence.provider_id.as_ref()));
    let is_its_key = |key: &String| told.provider_key.as_ref() == Some(key);
    // One without a name yet may be that, and one whose name an operator has given.
    let has_name = |row: &Try| row.provider_payment.is_some();
    let is_named = match resource.tries.iter().find(|row| is_its_key(&row.provider_key)) {
        Some(row) => has_name(row),
        None => resource.tries.iter().all(has_name) && resource.payment.as_ref()?.provider_payment.is_some(),
    };
    let is_by_hand = |call: &ProviderCall| is_its_key(&call.provider_key) && call.evidence.by_hand.is_some();
    if object_state.calls.iter().any(is_by_hand) {
        return None;
    }
    let detail = || {
        format!(
            "another payment under our reference, {}, {what}: {} {} that nothing here has asked for",
            told.payment, told.amount_minor, told.currency
        )
    };
    (told.success && !is_known && is_named).then(|| Ingested::Alert { detail: detail() })
}

/// There is money on a try that is over: a person must see it, and it is given back.
pub(crate) fn found(
    object_state: &mut ObjectState,
    attempt: u32,
    amount_minor: u64,
    captured: bool,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(Ingested::Applied);
    };
    if row.late.as_ref().is_some_and(|late| late.captured >= captured) {
        return Ok(Ingested::Applied);
    }
    // It stays as it is where nothing else is begun.
    let known = row.late.take();
    let (own, elsewhere) = known.map_or((Stage::Begun, Vec::new()), |late| (late.own, late.elsewhere));
    row.late = Some(LateMoney { elsewhere, ..LateMoney::new(amount_minor, captured, own) });
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

/// Others have captured a part of what a try holds, and the rest is still held: a person must cancel that, and give back what was taken.
fn taken_in_parts(
    object_state: &mut ObjectState,
    attempt: u32,
    amount_minor: u64,
    ctx: &Context,
) -> Ingested {
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ingested::Applied;
    };
    let elsewhere = row.late.take().map(|late| late.elsewhere).unwrap_or_default();
    let late = LateMoney { is_told: true, elsewhere, ..LateMoney::new(amount_minor, true, Stage::Refused) };
    row.late = Some(late);
    more_than_is_back(object_state, attempt, amount_minor, ctx)
}

/// What was taken or is held of a try by now: others may have taken more since it was given back, and what they have left may have been released.
fn taken_by_now(object_state: &mut ObjectState, attempt: u32, amount_minor: u64, ctx: &Context) -> Ingested {
    let Some(late) = give_back::late_mut(object_state, attempt) else { return Ingested::Applied };
    let before_minor = std::mem::replace(&mut late.amount_minor, amount_minor);
    if amount_minor <= before_minor {
        return Ingested::Applied;
    }
    (late.own, late.is_told) = (Stage::Refused, true);
    more_than_is_back(object_state, attempt, amount_minor, ctx)
}

fn more_than_is_back(
    object_state: &mut ObjectState,
    attempt: u32,
    amount_minor: u64,
    ctx: &Context,
) -> Ingested {
    let data = json!({ "attempt": attempt, "amount": amount_minor, "captured": true });
    record_for_payment(object_state, "try.late_money", data, ctx);
    let detail = format!(
        "{amount_minor} was taken or is held on try {attempt}, by others: it is not given back by itself"
    );
    Ingested::Alert { detail }
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
        mark_given_back(object_state, attempt, ctx);
        return Ok(Ingested::Applied);
    }
    if told.undone == Some(Undone::MayBeRepeated) && !late.is_back_elsewhere() {
        (late.own, late.received_at_ms) = (Stage::Received, Some(ctx.now_ms));
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
        record_for_payment(
            object_state,
            "try.give_back_refused",
            json!({ "attempt": attempt, "code": told.reason }),
            ctx,
        );
        return Ok(Ingested::Alert { detail });
    }
    not_done(object_state, attempt, call.kind, &told.reason, ctx)?;
    Ok(Ingested::Applied)
}

/// A provider did not give money back: what could not be canceled is refunded, else a person must.
pub(crate) fn not_done(
    object_state: &mut ObjectState,
    attempt: u32,
    kind: CallKind,
    reason: &str,
    ctx: &Context,
) -> Result<(), Bug> {
    if kind == CallKind::Void {
        let is_gone =
            give_back::late_mut(object_state, attempt).is_some_and(|late| late.own == Stage::GivenBack);
        return if is_gone { Ok(()) } else { give_back::begin(object_state, attempt, true, ctx) };
    }
    refused(object_state, attempt, reason, ctx);
    Ok(())
}

/// The money of a try is given back.
fn mark_given_back(object_state: &mut ObjectState, attempt: u32, ctx: &Context) {
    let was_back = give_back::late_mut(object_state, attempt).is_some_and(|late| {
        let was_back = late.stage() == Stage::GivenBack;
        late.own = Stage::GivenBack;
        was_back
    });
    if !was_back {
        record_for_payment(object_state, "try.given_back", json!({ "attempt": attempt }), ctx);
    }
}

/// The money of a try is held no more: whoever has canceled it, or it has lapsed.
fn hold_gone(object_state: &mut ObjectState, attempt: u32, ctx: &Context) {
    let late = give_back::late_mut(object_state, attempt);
    if late.is_some_and(|late| !late.captured && late.stage() != Stage::GivenBack) {
        mark_given_back(object_state, attempt, ctx);
    }
}

/// A person must see that money is not given back, and give it back at the provider. Others may have done so already.
fn refused(object_state: &mut ObjectState, attempt: u32, reason: &str, ctx: &Context) {
    let Some(late) = give_back::late_mut(object_state, attempt) else { return };
    late.own = Stage::Refused;
    if late.is_back_elsewhere() {
        return;
    }
    let data = json!({ "attempt": attempt, "code": reason });
    record_for_payment(object_state, "try.give_back_refused", data, ctx);
    tell(object_state, attempt, reason, ctx);
}

fn tell(object_state: &mut ObjectState, attempt: u32, reason: &str, ctx: &Context) {
    let Some(row) = object_state.resource.tries.iter_mut().find(|row| row.attempt == attempt) else { return };
    let provider = row.provider;
    if let Some(late) = &mut row.late {
        late.is_told = true;
    }
    let detail = format!("the money of try {attempt} was not given back ({reason})");
    alert(object_state, provider, None, &detail, ctx);
}

/// Whether money was taken on this try, and giving it back has come to an end or is the provider's.
pub(crate) fn is_to_be_back(object_state: &ObjectState, provider_payment: &str) -> bool {
    let is_it = |row: &&Try| row.provider_payment.as_deref() == Some(provider_payment);
    object_state.resource.tries.iter().find(is_it).is_some_and(|row| {
        row.late.as_ref().is_some_and(|late| late.captured) && !is_under_way(object_state, row)
    })
}

/// Whether it is left to others what becomes of the money of a try: they may give back what was refused, and a refund may come back. What was only
/// held and is not any more is gone for good.
pub(crate) fn is_left_to_others(object_state: &ObjectState, row: &Try) -> bool {
    let can_change = |late: &LateMoney| late.captured || late.own != Stage::GivenBack;
    row.late.as_ref().is_some_and(can_change) && !is_under_way(object_state, row)
}

/// Takes in all that was given back of the money of a try, by whomever. A person can do what the provider has refused, and what was given
/// back can still come back. What a bank has taken back for good is gone as well.
pub(crate) fn take_refunds(
    object_state: &mut ObjectState,
    provider_payment: &str,
    listed: &[RemoteRefund],
    ctx: &Context,
) {
    let is_it = |row: &&Try| row.provider_payment.as_deref() == Some(provider_payment);
    let Some(row) = object_state.resource.tries.iter().find(is_it) else { return };
    let (attempt, of_minor, dispute) = (row.attempt, row.amount.get(), row.dispute.as_ref());
    let is_lost = |dispute: &&Dispute| dispute.status == DisputeStatus::Lost && dispute.withdrawn;
    let lost_minor = dispute.filter(is_lost).map_or(0, |dispute| dispute.amount_minor);
    let Some(late) = &row.late else { return };
    // A capture of a part may have given the rest free as a refund.
    let rest_minor = of_minor.saturating_sub(late.amount_minor);
    let of_money = || listed.iter().filter(|it| !(it.may_be_release && it.amount_minor == rest_minor));
    let sum = |is_counted: fn(&RefundState) -> bool| {
        let counted = of_money().filter(|refund| is_counted(&refund.state));
        counted.fold(lost_minor, |sum, refund| sum.saturating_add(refund.amount_minor))
    };
    let done_minor = sum(|state| *state == RefundState::Succeeded);
    let begun_minor = sum(|state| !matches!(state, RefundState::Failed { .. }));
    let failed = of_money().find_map(|refund| match &refund.state {
        RefundState::Failed { code, .. } => Some(code.as_str()),
        _ => None,
    });
    let (stage, amount_minor) = (late.stage(), late.amount_minor);
    // What is not in the list yet may still be there.
    let is_missing = begun_minor < amount_minor && stage != Stage::Refused;
    if done_minor >= amount_minor {
        if stage != Stage::GivenBack {
            mark_given_back(object_state, attempt, ctx);
        }
    } else if let Some(code) = failed.filter(|_| is_missing) {
        refused(object_state, attempt, code, ctx);
    }
}

/// Takes in what the provider says that a try is which is over.
pub(crate) fn take(
    object_state: &mut ObjectState,
    provider_payment: &str,
    event_id: Option<&str>,
    (remote, held_minor): (&RemoteState, u64),
    ctx: &Context,
) -> Result<(), Bug> {
    let is_it = |row: &&Try| row.provider_payment.as_deref() == Some(provider_payment);
    let Some(row) = object_state.resource.tries.iter().find(is_it) else { return Ok(()) };
    let (attempt, amount_minor, provider) = (row.attempt, row.amount.get(), row.provider);
    let taken = match remote {
        RemoteState::Captured { amount_minor } => {
            let now_minor = amount_minor.saturating_add(held_minor);
            match &row.late {
                // What is under way gives back what was known when it began. Afterwards this is asked again.
                Some(late) if (late.captured || held_minor > 0) && is_under_way(object_state, row) => {
                    Ingested::Applied
                }
                Some(late) if late.captured => taken_by_now(object_state, attempt, now_minor, ctx),
                // Others capture it in parts, and may capture the rest: nothing that we could give back by ourselves is all of it.
                _ if held_minor > 0 => taken_in_parts(object_state, attempt, now_minor, ctx),
                _ => found(object_state, attempt, *amount_minor, true, ctx)?,
            }
        }
        RemoteState::Authorized => found(object_state, attempt, amount_minor, false, ctx)?,
        // The answer to a call of ours that is under way says so itself.
        RemoteState::Voided | RemoteState::Expired if !is_under_way(object_state, row) => {
            hold_gone(object_state, attempt, ctx);
            return Ok(());
        }
        _ => return Ok(()),
    };
    if let Ingested::Alert { detail } = taken {
        alert(object_state, provider, event_id, &detail, ctx);
    }
    Ok(())
}
