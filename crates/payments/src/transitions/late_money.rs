//! Money on tries that are over.
//!
//! Such a try holds no money. Where a provider tells that one does all the same, a person must see it ([`Ingested::Alert`]), and it is
//! given back at once: canceled, or refunded, as an operation of its own (`give_back`).

use serde_json::json;

use crate::engine::{Context, ObjectState, ProviderCall};
use crate::payment::RefundElsewhere;
use crate::payment::dispute::{Dispute, DisputeStatus};
use crate::payment::provider_event::{Ingested, OperationNotice};
use crate::payment::refund::RefundState;
use crate::payment::result::{CallKind, RemoteState};
use crate::payment::status_query::RemoteRefund;
use crate::payment::tries::{LateMoney, Stage, Try};
use crate::transitions::audit::{alert, record_for_payment};
use crate::transitions::{give_back, try_rows};
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
pub(super) fn is_under_way(object_state: &ObjectState, row: &Try) -> bool {
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

/// A capture on a try that is over.
pub(crate) fn captured_late(
    object_state: &mut ObjectState,
    attempt: u32,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let row = try_rows::of(object_state, attempt);
    let amount_minor = row.map_or(told.amount_minor, |row| taken_minor(row, told));
    let taken = found(object_state, attempt, amount_minor, true, ctx)?;
    if let Some(late) = give_back::late_mut(object_state, attempt) {
        late.capture = Some(told.id.clone());
    }
    Ok(taken)
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
    let Some(row) = try_rows::of_mut(object_state, attempt) else {
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
    let Some(row) = try_rows::of_mut(object_state, attempt) else {
        return Ingested::Applied;
    };
    let elsewhere = row.late.take().map(|late| late.elsewhere).unwrap_or_default();
    let late = LateMoney { is_told: true, elsewhere, ..LateMoney::new(amount_minor, true, Stage::Refused) };
    row.late = Some(late);
    more_than_is_back(object_state, attempt, amount_minor, ctx)
}

/// What was taken or is held of a try by now: others may have taken more since it was given back, and what they have left may have been released.
pub(super) fn taken_by_now(
    object_state: &mut ObjectState,
    attempt: u32,
    amount_minor: u64,
    ctx: &Context,
) -> Ingested {
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
pub(super) fn mark_given_back(object_state: &mut ObjectState, attempt: u32, ctx: &Context) {
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
pub(super) fn hold_gone(object_state: &mut ObjectState, attempt: u32, ctx: &Context) {
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
    let Some(row) = try_rows::of_mut(object_state, attempt) else { return };
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

/// A bank has taken back for good what was taken on the newest try: so much is gone.
pub(crate) fn lost(object_state: &mut ObjectState, lost_minor: u64, ctx: &Context) {
    let Some(attempt) = object_state.resource.payment.as_ref().map(|payment| payment.attempt) else { return };
    let is_gone = give_back::late_mut(object_state, attempt).is_some_and(|late| {
        let elsewhere_minor = RefundElsewhere::sum_minor(&late.elsewhere);
        late.captured && lost_minor.saturating_add(elsewhere_minor) >= late.amount_minor
    });
    let row = try_rows::of(object_state, attempt);
    if is_gone && !row.is_some_and(|row| is_under_way(object_state, row)) {
        mark_given_back(object_state, attempt, ctx);
    }
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

/// How much is told of, in minor units; all, where that is no amount of ours.
pub(super) const fn taken_minor(row: &Try, told: &OperationNotice) -> u64 {
    if told.amount_minor == 0 { row.amount.get() } else { told.amount_minor }
}
