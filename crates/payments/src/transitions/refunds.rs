//! What Adyen tells by itself of refunds, ours and others', in any order: the newest of one counts, by its own clock.
//!
//! One that had been made can fail afterwards, and Adyen may repeat it by itself for some days. Until then it is pending, so that its amount is not given
//! back a second time, and a person is told of it.

use serde_json::json;

use crate::engine::{CallState, Context, ObjectState, Settlement};
use crate::payment::provider_event::{Ingested, OperationNotice, Undone};
use crate::payment::refund::{Refund, RefundState, UndoneRefund, refunded_minor};
use crate::payment::result::ProviderResult;
use crate::payment::{Payment, RefundElsewhere};
use crate::transitions::answers;
use crate::transitions::audit::record_for_owner;
use crate::transitions::effects::refund_moved;
use crate::transitions::ended::is_only_believed_captured;
use once::context::Bug;

/// How long after a capture or a refund has failed, in ms, nobody waits any more for Adyen to make it again: it retries for about 10 days,
/// and two are for what it tells to come. <https://docs.adyen.com/online-payments/capture/failure-reasons>
pub(crate) const REPEATS_END_MS: u64 = 12 * 86_400_000;
/// What is said of one that has failed.
const NOT_TAKEN: &str = "The bank did not take the money back.";

/// Takes in how a refund ended.
pub(crate) fn told(
    object_state: &mut ObjectState,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    if is_not_named_yet(object_state, told) {
        return Ok(Ingested::RetryLater);
    }
    let Some(payment) = &object_state.resource.payment else { return Ok(Ingested::UnknownResource) };
    let is_believed = is_only_believed_captured(payment);
    let is_in_its_currency = told.currency == payment.currency.as_str();
    let left_minor = left_beside(payment, &object_state.resource.refunds, &told.id);
    let is_counted_elsewhere = payment.refunds_elsewhere.iter().any(|known| known.id == told.id);
    // One that came back for good may be told of under another name.
    let key_id = told.provider_key.as_ref().and_then(|key| object_state.call_of_provider_key(key));
    let key_id = key_id.filter(|_| told.undone == Some(Undone::ForGood)).map(|call| call.key_id);
    let is_it = |refund: &&mut Refund| {
        refund.provider_refund.as_ref() == Some(&told.id) || Some(refund.key_id) == key_id
    };
    let own = object_state.resource.refunds.iter_mut().find(is_it).filter(|_| !is_counted_elsewhere);
    let Some(refund) = own else { return Ok(elsewhere(object_state, told, ctx)) };
    let times = told.at_ms.zip(refund.told_at_ms);
    if times.is_some_and(|(at_ms, newest_ms)| at_ms < newest_ms) {
        return Ok(Ingested::Applied);
    }
    let is_newer = times.is_some_and(|(at_ms, newest_ms)| at_ms > newest_ms);
    // Of before their times were kept.
    let is_undated = refund.told_at_ms.is_none();
    refund.told_at_ms = refund.told_at_ms.max(told.at_ms);
    let has_failed = matches!(refund.state, RefundState::Failed { .. });
    let is_repeated = has_failed || refund.undone.is_some();
    let was_done = refund.state == RefundState::Succeeded
        || refund.undone.as_ref().is_some_and(|undone| undone.was_done);
    let amount_minor = refund.amount.get();
    let is_too_much = is_repeated && amount_minor > left_minor;
    let mut alert = None;
    match (told.success, told.undone) {
        (true, _) if has_failed && is_undated => {
            let detail = format!(
                "a refund of {amount_minor} that had failed is told to be made: which came first is not known"
            );
            return Ok(Ingested::Alert { detail });
        }
        // Without their times nobody knows what came first.
        (true, _) if is_repeated && !is_newer => return Ok(Ingested::Applied),
        (false, _) if has_failed => return Ok(Ingested::Applied),
        (true, _) if has_failed && is_too_much => {
            elsewhere(object_state, told, ctx);
            return Ok(Ingested::Alert { detail: made_after_all(amount_minor, is_too_much) });
        }
        (true, _) => {
            alert = (has_failed || is_too_much).then(|| made_after_all(amount_minor, is_too_much));
            if alert.is_none() && !(told.amount_minor == amount_minor && is_in_its_currency) {
                let (told_minor, currency) = (told.amount_minor, &told.currency);
                alert =
                    Some(format!("a refund of {amount_minor} was made as one of {told_minor} {currency}"));
            }
            (refund.state, refund.undone) = (RefundState::Succeeded, None);
        }
        (false, Some(Undone::MayBeRepeated)) => {
            let (code, until_ms) = (code_of(told), ctx.now_ms.saturating_add(REPEATS_END_MS));
            alert =
                Some(format!("a refund of {amount_minor} failed afterwards ({code}), and may be repeated"));
            refund.state = RefundState::Pending;
            refund.undone = Some(UndoneRefund { code, until_ms, was_done });
        }
        (false, None) if is_believed && !was_done && told.reason.contains("captur") => {
            alert = Some(format!(
                "a refund of {amount_minor} was refused ({}), and nobody has told of a capture: it may only be held",
                told.reason
            ));
            refund.fail(code_of(told), "The provider refused it: nothing may have been taken yet.");
        }
        (false, _) => refund.fail(code_of(told), NOT_TAKEN),
    }
    let refund = refund.clone();
    match refund.state {
        RefundState::Pending => note(object_state, "refund.undone", &refund, ctx),
        // Of its first success there is a record, which stands.
        RefundState::Succeeded if was_done && is_repeated => {
            note(object_state, "refund.repeated", &refund, ctx);
        }
        RefundState::Succeeded if was_done => {}
        _ => refund_moved(object_state, &refund, ctx),
    }
    Ok(alert.map_or(Ingested::Applied, |detail| Ingested::Alert { detail }))
}

/// Why it failed, in the provider's word.
fn code_of(told: &OperationNotice) -> String {
    if told.reason.is_empty() { "provider_rejected".to_owned() } else { told.reason.clone() }
}

fn note(object_state: &mut ObjectState, action: &'static str, refund: &Refund, ctx: &Context) {
    let data = json!({ "amount": refund.amount.get(), "provider_refund": refund.provider_refund });
    record_for_owner(object_state, action, refund.id.to_string(), data, ctx);
}

fn made_after_all(amount_minor: u64, is_too_much: bool) -> String {
    let twice = if is_too_much { ", and its amount was given back meanwhile" } else { "" };
    format!("a refund of {amount_minor} that had failed was made after all{twice}")
}

/// What is left of the payment's money beside a refund of this name at the provider, in minor units.
fn left_beside(payment: &Payment, refunds: &[Refund], id: &str) -> u64 {
    let is_other = |refund: &&Refund| refund.provider_refund.as_deref() != Some(id);
    let others: Vec<Refund> = refunds.iter().filter(is_other).cloned().collect();
    let given_minor = refunded_minor(&others).saturating_add(payment.refunded_elsewhere_minor);
    payment.may_be_taken_minor().saturating_sub(given_minor)
}

/// When the first one is to be given up that was undone, in ms since the epoch.
pub(crate) fn due_at_ms(object_state: &ObjectState) -> Option<u64> {
    let elsewhere = object_state.resource.payment.iter().flat_map(|payment| &payment.refunds_elsewhere);
    let elsewhere = elsewhere.filter_map(|refund| refund.undone_until_ms);
    object_state.resource.refunds.iter().filter_map(repeated_until_ms).chain(elsewhere).min()
}

fn repeated_until_ms(refund: &Refund) -> Option<u64> {
    refund.undone.as_ref().filter(|_| refund.state == RefundState::Pending).map(|undone| undone.until_ms)
}

/// What was undone and has not been repeated for so long has failed: its amount can be refunded again.
pub(crate) fn give_up_undone(object_state: &mut ObjectState, ctx: &Context) {
    let is_due =
        |refund: &&mut Refund| repeated_until_ms(refund).is_some_and(|until_ms| until_ms <= ctx.now_ms);
    let mut failed = Vec::new();
    for refund in object_state.resource.refunds.iter_mut().filter(is_due) {
        let code = refund.undone.take().map(|undone| undone.code).unwrap_or_default();
        refund.fail(code, NOT_TAKEN);
        failed.push(refund.clone());
    }
    for refund in &failed {
        refund_moved(object_state, refund, ctx);
    }
    let Some(payment) = &mut object_state.resource.payment else { return };
    let is_due =
        |refund: &&mut RefundElsewhere| refund.undone_until_ms.is_some_and(|until_ms| until_ms <= ctx.now_ms);
    let mut is_any = false;
    for refund in payment.refunds_elsewhere.iter_mut().filter(is_due) {
        (refund.has_failed, refund.undone_until_ms, is_any) = (true, None, true);
    }
    if is_any {
        let now_minor = RefundElsewhere::sum_minor(&payment.refunds_elsewhere);
        answers::refunded_elsewhere(object_state, now_minor, ctx);
    }
}

/// A refund that was not made here, such as a person's in the Customer Area: it counts until it comes back.
fn elsewhere(object_state: &mut ObjectState, told: &OperationNotice, ctx: &Context) -> Ingested {
    let own_minor = refunded_minor(&object_state.resource.refunds);
    let Some(payment) = &mut object_state.resource.payment else { return Ingested::UnknownResource };
    let mut news = RefundElsewhere::from(told);
    // As with ours: what may be made again counts until it is not.
    if told.undone == Some(Undone::MayBeRepeated) {
        (news.has_failed, news.undone_until_ms) = (false, Some(ctx.now_ms.saturating_add(REPEATS_END_MS)));
    }
    let is_counted = !told.is_of_another_try(payment)
        && told.amount_minor > 0
        && told.currency == payment.currency.as_str()
        && RefundElsewhere::take(&mut payment.refunds_elsewhere, news);
    let (amount_minor, currency) = (told.amount_minor, &told.currency);
    if !is_counted {
        let detail = format!("a refund that was not made here, of {amount_minor} {currency}");
        return if told.success { Ingested::Contradiction { detail } } else { Ingested::Applied };
    }
    let before_minor = payment.refunded_elsewhere_minor;
    let now_minor = RefundElsewhere::sum_minor(&payment.refunds_elsewhere);
    let taken_minor = payment.may_be_taken_minor();
    answers::refunded_elsewhere(object_state, now_minor, ctx);
    let all_minor = own_minor.saturating_add(now_minor);
    if told.undone.is_some() {
        let detail = format!("a refund of {amount_minor} that was not made here came back ({})", told.reason);
        return Ingested::Alert { detail };
    }
    // Before its capture is known that is not known.
    if taken_minor > 0 && all_minor > taken_minor && now_minor > before_minor {
        return Ingested::Alert {
            detail: format!("{all_minor} was refunded, of {taken_minor} that was taken"),
        };
    }
    Ingested::Applied
}

/// Its call has its answer, and the run that takes it in, with the refund's name at the provider, has yet to come.
fn is_not_named_yet(object_state: &ObjectState, told: &OperationNotice) -> bool {
    object_state.calls.iter().any(|call| {
        let CallState::Settled(Settlement::Answered(reply)) = &call.state else { return false };
        let is_named = matches!(&reply.result, ProviderResult::Refunded { refund, .. } if *refund == told.id);
        let is_it = is_named || told.provider_key.as_ref() == Some(&call.provider_key);
        let is_requested =
            |refund: &Refund| refund.key_id == call.key_id && refund.state == RefundState::Requested;
        is_it && object_state.resource.refunds.iter().any(is_requested)
    })
}

/// A refund of ours has its name now: what was told of it before, under the payment's reference, is no other one's.
pub(crate) fn is_named(object_state: &mut ObjectState, key_id: u32, ctx: &Context) {
    let Some(payment) = &mut object_state.resource.payment else { return };
    let Some(refund) = object_state.resource.refunds.iter_mut().find(|refund| refund.key_id == key_id) else {
        return;
    };
    let known = &mut payment.refunds_elsewhere;
    let Some(at) = known.iter().position(|known| Some(&known.id) == refund.provider_refund.as_ref()) else {
        return;
    };
    let told = known.remove(at);
    if refund.told_at_ms <= told.at_ms {
        refund.told_at_ms = told.at_ms;
        // Whether one that has failed was refused, or may be made again, is not kept of another's: it stays reserved for as long as it may be.
        let until_ms = ctx.now_ms.saturating_add(REPEATS_END_MS);
        let undone = UndoneRefund { code: "provider_rejected".to_owned(), until_ms, was_done: false };
        (refund.state, refund.undone) = match told.has_failed {
            true => (RefundState::Pending, Some(undone)),
            false => (RefundState::Succeeded, None),
        };
    }
    let now_minor = RefundElsewhere::sum_minor(known);
    answers::refunded_elsewhere(object_state, now_minor, ctx);
}
