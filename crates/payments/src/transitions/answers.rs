//! What a provider answers when it is asked how things stand there, taken in only forward.

use serde_json::json;

use crate::engine::{CallState, Context, ObjectState, ProviderCall, Settlement};
use crate::payment::id::RefundId;
use crate::payment::provider::Provider;
use crate::payment::refund::{Refund, RefundState};
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::status_query::{Beside, RemoteRefund, StatusQuery, StatusReply};
use crate::payment::{Payment, PaymentState};
use crate::transitions::audit::{alert, record_for_owner, record_for_payment};
use crate::transitions::effects::{on_transition, refund_moved};
use crate::transitions::{contradictions, disputes, late_money, polling, try_queries};
use once::context::Bug;

/// How many refunds of a payment are read at most, whoever made them.
const REMOTE_REFUNDS_MAX: usize = 1_000;

/// How many calls of an object had come to an end when the provider was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended(usize);

impl Ended {
    /// By now.
    pub fn of(object_state: &ObjectState) -> Self {
        Self(object_state.calls.iter().filter(|call| call.is_settled()).count())
    }
}

/// Takes in an answer, unless a call of ours has come to its end since the question was asked: the provider may have answered before it
/// executed that. What is still to be known then is asked for again.
pub fn take_unless_moved(
    object_state: &mut ObjectState,
    question: &StatusQuery,
    before: Ended,
    status_reply: StatusReply,
    ctx: &Context,
) -> Result<Option<StatusQuery>, Bug> {
    if before == Ended::of(object_state) {
        return take(object_state, question, status_reply, ctx);
    }
    polling::ask_again(object_state, ctx);
    Ok(None)
}

/// Takes in an answer. Gives the question after the next page, if there is one.
pub fn take(
    object_state: &mut ObjectState,
    question: &StatusQuery,
    status_reply: StatusReply,
    ctx: &Context,
) -> Result<Option<StatusQuery>, Bug> {
    match (question, status_reply) {
        (StatusQuery::Home { payment, question }, StatusReply::Home(identity)) => {
            let provider = question.provider();
            let now = ctx.credential(provider, question.account());
            let is_home = now.zip(object_state.account_of_mut(provider, payment));
            if is_home.and_then(|(now, sent_to)| sent_to.take(identity, now)) == Some(true) {
                return Ok(Some(question.as_ref().clone()));
            }
        }
        (StatusQuery::Payment { provider, account, id, doubt }, StatusReply::Payment(found, beside)) => {
            let was_captured = object_state.resource.payment.as_ref().is_some_and(polling::is_captured);
            take_payment(object_state, (*provider, id, doubt.as_deref()), found, beside, ctx)?;
            let (provider, account, id, doubt) = (*provider, account.clone(), id.clone(), doubt.clone());
            if beside.is_disputed {
                return Ok(Some(StatusQuery::Disputes { provider, account, id, doubt }));
            }
            return Ok(after_payment(object_state, was_captured, provider, account, id, doubt, ctx));
        }
        (StatusQuery::Disputes { provider, account, id, doubt }, StatusReply::Disputes(disputes)) => {
            disputes::take(object_state, *provider, id, &disputes, doubt.as_deref(), ctx)?;
            let (provider, account, id, doubt) = (*provider, account.clone(), id.clone(), doubt.clone());
            return Ok(after_payment(object_state, true, provider, account, id, doubt, ctx));
        }
        (StatusQuery::Refund { refund, doubt, .. }, StatusReply::Refund(state)) => {
            if let Some(payment) = &mut object_state.resource.payment {
                answered(payment, Some(refund), doubt.as_deref());
            }
            let known = object_state.resource.refunds.iter_mut().find(|known| known.id == *refund);
            if let Some(refund) = known
                && refund.apply(state)
            {
                let refund = refund.clone();
                refund_moved(object_state, &refund, ctx);
            }
        }
        (
            StatusQuery::Refunds { provider, account, id, doubt, read },
            StatusReply::Refunds { refunds, has_more },
        ) => {
            let goes_on = has_more && !refunds.is_empty() && read.len() < REMOTE_REFUNDS_MAX;
            let read = [read.as_slice(), &refunds].concat();
            if goes_on {
                let (provider, account, id, doubt) = (*provider, account.clone(), id.clone(), doubt.clone());
                return Ok(Some(StatusQuery::Refunds { provider, account, id, doubt, read }));
            }
            if late_money::is_to_be_back(object_state, id) {
                try_queries::answered(object_state, id, doubt.as_deref());
                late_money::take_refunds(object_state, id, &read, ctx);
            } else {
                take_refunds(object_state, id, doubt.as_deref(), &read, !has_more, ctx);
            }
            let is_there = |remote: &&RemoteRefund| !matches!(remote.state, RefundState::Failed { .. });
            for remote in read.iter().filter(is_there) {
                let key = remote.provider_key.as_deref();
                let told = key.and_then(|key| contradictions::of_books(object_state, key, &remote.id));
                contradicted(object_state, told, doubt.as_deref(), ctx);
            }
        }
        (_, _) => {}
    }
    polling::schedule(object_state, ctx);
    Ok(None)
}

/// Takes in how a payment stands: the newest try, or one that is over and that another one may have followed.
fn take_payment(
    object_state: &mut ObjectState,
    (provider, id, doubt): (Provider, &str, Option<&str>),
    found: RemoteState,
    beside: Beside,
    ctx: &Context,
) -> Result<(), Bug> {
    let Some(payment) = &mut object_state.resource.payment else { return Ok(()) };
    if payment.provider_payment.as_deref() != Some(id) || payment.is_over() {
        return late_money::take(object_state, id, doubt, (&found, beside.held_minor), ctx);
    }
    if let Some(detail) = otherwise(payment, &found, beside) {
        let is_told = payment.disbelieved.as_ref() == Some(&detail);
        payment.disbelieved = Some(detail.clone());
        if !is_told {
            alert(object_state, provider, doubt, &detail, ctx);
        }
        return Ok(());
    }
    payment.disbelieved = None;
    payment.capture_before_ms = beside.capture_before_ms.or(payment.capture_before_ms);
    let taken_minor = match &found {
        RemoteState::Captured { amount_minor } => Some(*amount_minor),
        _ => None,
    };
    let done = match &found {
        RemoteState::Captured { .. } => Some(CallKind::Capture),
        RemoteState::Voided => Some(CallKind::Void),
        _ => None,
    };
    // Asked for: nothing that we have done since has overtaken it.
    let is_new = payment.apply_answer(found);
    // What told that it is paid may not have told with which card.
    payment.paid_with(beside.card);
    if is_new {
        on_transition(object_state, ctx)?;
        let told = done.and_then(|done| contradictions::of_state(object_state, done));
        contradicted(object_state, told, doubt, ctx);
    }
    if let Some(taken_minor) = taken_minor {
        captured_elsewhere(object_state, (provider, doubt), (taken_minor, beside.held_minor), is_new, ctx);
    }
    Ok(())
}

/// What is wrong with money that was not taken or reserved as it was asked for. As long as it is not confirmed, whoever has a key of the account can
/// change what a payment is for.
fn otherwise(payment: &Payment, found: &RemoteState, beside: Beside) -> Option<String> {
    let taken_minor = match found {
        RemoteState::Captured { amount_minor } => Some(*amount_minor),
        RemoteState::Authorized => None,
        _ => return None,
    };
    let asked = (payment.amount.get(), payment.currency);
    let shown = (beside.amount_minor.unwrap_or(asked.0), beside.currency.unwrap_or(asked.1));
    if shown != asked {
        let (amount, currency) = shown;
        return Some(format!("the provider shows a payment of {amount} {currency} in its place"));
    }
    // Of what was only to be reserved others may take a part. What was to be taken at once is taken as a whole.
    let is_part = |taken: &u64| payment.capture && !polling::is_captured(payment) && *taken < asked.0;
    taken_minor.filter(is_part).map(|taken| format!("the provider has taken {taken} of {}", asked.0))
}

/// Others capture in parts, and more than was reserved. What they have taken counts, up to the amount; what they left reserved,
/// or took beyond it, is for a person.
fn captured_elsewhere(
    object_state: &mut ObjectState,
    (provider, doubt): (Provider, Option<&str>),
    (taken_minor, held_minor): (u64, u64),
    is_new: bool,
    ctx: &Context,
) {
    let Some(payment) =
        object_state.resource.payment.as_mut().filter(|payment| polling::is_captured(payment))
    else {
        return;
    };
    let (before_minor, amount_minor) = (payment.captured_minor(), payment.amount.get());
    if taken_minor < before_minor {
        return;
    }
    let counted_minor = taken_minor.min(amount_minor);
    let is_more = counted_minor > before_minor;
    if is_more {
        payment.state = PaymentState::Captured { amount_minor: counted_minor };
    }
    let is_moved = is_more || held_minor != payment.held_elsewhere_minor;
    payment.held_elsewhere_minor = held_minor;
    if is_more {
        let data = json!({ "amount": taken_minor, "before": before_minor });
        record_for_payment(object_state, "capture.elsewhere", data, ctx);
    }
    if (is_new || is_moved) && (held_minor > 0 || taken_minor > amount_minor) {
        let detail =
            format!("others have captured {taken_minor} of {amount_minor}, {held_minor} is still held");
        alert(object_state, provider, doubt, &detail, ctx);
    }
}

/// What is asked once it is known how a payment stands: what was given back, of money that had been taken before.
fn after_payment(
    object_state: &mut ObjectState,
    was_captured: bool,
    provider: Provider,
    account: Option<String>,
    id: String,
    doubt: Option<String>,
    ctx: &Context,
) -> Option<StatusQuery> {
    let payment = object_state
        .resource
        .payment
        .as_mut()
        .filter(|payment| payment.provider_payment.as_ref() == Some(&id));
    match payment {
        // What told of it may have told of a refund, too, before it was known that there is anything to give back.
        Some(payment) if (was_captured || doubt.is_some()) && polling::is_captured(payment) => {
            return Some(StatusQuery::Refunds { provider, account, id, doubt, read: Vec::new() });
        }
        Some(payment) => answered(payment, None, doubt.as_deref()),
        None => {}
    }
    if late_money::is_to_be_back(object_state, &id) {
        return Some(StatusQuery::Refunds { provider, account, id, doubt, read: Vec::new() });
    }
    try_queries::answered(object_state, &id, doubt.as_deref());
    polling::schedule(object_state, ctx);
    None
}

/// The provider shows otherwise than an operator has said: a person must see it.
fn contradicted(
    object_state: &mut ObjectState,
    told: Option<contradictions::Contradiction>,
    doubt: Option<&str>,
    ctx: &Context,
) {
    let Some(contradiction) = told else { return };
    contradictions::note(object_state, &contradiction);
    alert(object_state, contradiction.provider, doubt, &contradiction.detail, ctx);
}

/// Takes in the provider's list of a payment's refunds: how ours stand, and how much others have given back.
fn take_refunds(
    object_state: &mut ObjectState,
    id: &str,
    doubt: Option<&str>,
    listed: &[RemoteRefund],
    is_whole: bool,
    ctx: &Context,
) {
    let is_of_ours = |call: &ProviderCall| {
        call.kind == CallKind::Capture
            && matches!(&call.state, CallState::Settled(Settlement::Answered(reply))
                if matches!(reply.result, ProviderResult::Captured { .. }))
    };
    let was_captured_here = object_state.calls.iter().any(is_of_ours);
    let Some(payment) = object_state
        .resource
        .payment
        .as_mut()
        .filter(|payment| payment.provider_payment.as_deref() == Some(id))
    else {
        return;
    };
    answered(payment, None, doubt);
    let own_key = format!("{}_refund_", payment.id);
    let (captured_minor, before_minor) = (payment.captured_minor(), payment.refunded_elsewhere_minor);
    // A capture of a part that was not made here may have given the rest free as a refund.
    let mut release_minor = (!was_captured_here).then(|| payment.amount.get().saturating_sub(captured_minor));
    let mut elsewhere_minor = 0_u64;
    for remote in listed {
        let own_id = remote.provider_key.as_deref().and_then(|key| key.strip_prefix(&own_key));
        let is_it = |known: &&mut Refund| {
            known.provider_refund.as_deref() == Some(&remote.id) || Some(known.id.0.as_str()) == own_id
        };
        let counts_already = match object_state.resource.refunds.iter_mut().find(is_it) {
            Some(known) => {
                let counted = !matches!(known.state, RefundState::Failed { .. });
                if known.apply(remote.state.clone()) {
                    let moved = known.clone();
                    refund_moved(object_state, &moved, ctx);
                }
                counted
            }
            None => false,
        };
        if counts_already || matches!(remote.state, RefundState::Failed { .. }) {
            continue;
        }
        if remote.may_be_release && release_minor == Some(remote.amount_minor) {
            release_minor = None;
            continue;
        }
        elsewhere_minor = elsewhere_minor.saturating_add(remote.amount_minor);
    }
    // What does not stand on the pages that were read is still there.
    let now_minor = if is_whole { elsewhere_minor } else { elsewhere_minor.max(before_minor) };
    refunded_elsewhere(object_state, now_minor, ctx);
}

/// Takes in how much others have given back by now, in minor units.
pub(crate) fn refunded_elsewhere(object_state: &mut ObjectState, now_minor: u64, ctx: &Context) {
    let Some(payment) = object_state.resource.payment.as_mut() else { return };
    let before_minor = std::mem::replace(&mut payment.refunded_elsewhere_minor, now_minor);
    if now_minor == before_minor {
        return;
    }
    let subject = payment.id.to_string();
    let data = json!({ "amount": now_minor, "before": before_minor });
    record_for_owner(object_state, "refund.elsewhere", subject, data, ctx);
}

/// Ends the doubt that the question was about. An event that came after it has a question of its own.
fn answered(payment: &mut Payment, refund: Option<&RefundId>, event_id: Option<&str>) {
    payment
        .doubts
        .retain(|doubt| doubt.refund.as_ref() != refund || Some(doubt.event_id.as_str()) != event_id);
}
