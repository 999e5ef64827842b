//! What a bank wants back, as a provider tells of it by itself or answers when it is asked. Each dispute of a payment stands by itself; a person is told
//! of each news.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::engine::{Context, ObjectState};
use crate::payment::PaymentState;
use crate::payment::dispute::{Dispute, DisputeStatus};
use crate::payment::provider::Provider;
use crate::payment::provider_event::{Ingested, OperationNotice};
use crate::transitions::audit::{alert, record_for_payment};
use crate::transitions::{late_money, try_rows};
use once::context::Bug;
use once::sorted;

/// How many disputes of a payment are known one by one; each further one is for a person.
const DISPUTES_MAX: usize = 100;

/// What is told of a dispute, with the names of its payment and of the dispute. At Adyen what decides one can come without its payment's
/// (`originalReference`), under the dispute's own or the payment's: then it is about the dispute that is known, the newest open one if there are several.
/// Where none is known it has the payment's name, until what has begun it comes.
fn named(state: &ObjectState, told: &OperationNotice, begins: bool) -> OperationNotice {
    let mut named = told.clone();
    let Some(payment) = state.resource.payment.as_ref().filter(|_| told.id == told.payment) else {
        return named;
    };
    let disputes = payment.each_dispute();
    let is_known = disputes.iter().any(|known| known.id == told.id);
    let is_of_another_try = state.resource.tries.iter().any(|row| {
        let is_it = row.provider_payment.as_ref() == Some(&told.id)
            || told.provider_key.as_ref() == Some(&row.provider_key);
        row.attempt != payment.attempt && is_it
    });
    let Some(own) = payment.provider_payment.as_ref().filter(|_| is_known || !is_of_another_try) else {
        return named;
    };
    named.payment.clone_from(own);
    if !is_known && !begins {
        let open = disputes.iter().find(|known| known.status == DisputeStatus::Open);
        named.id.clone_from(open.or(disputes.first()).map_or(own, |known| &known.id));
    }
    named
}

/// A bank wants money back, or has given it back. All that is told of one dispute has its id: what has another one is another dispute. One of an
/// earlier try is for a person.
pub(crate) fn told(
    state: &mut ObjectState,
    told: &OperationNotice,
    status: DisputeStatus,
    withdrawn: Option<bool>,
    is_inquiry: bool,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let begins = status == DisputeStatus::Open && withdrawn.is_some();
    let told = &named(state, told, begins);
    let Some(payment) = &mut state.resource.payment else { return Ok(Ingested::UnknownResource) };
    if payment.provider_payment.as_ref() != Some(&told.payment) {
        let detail = format!(
            "a dispute of {} of another try, {}, is {}",
            told.amount_minor,
            told.payment,
            status.as_str()
        );
        return Ok(Ingested::Alert { detail });
    }
    let mut disputes = payment.each_dispute().to_vec();
    // Its end came first, without its name.
    if disputes.iter().all(|known| known.id != told.id)
        && let Some(nameless) = disputes
            .iter_mut()
            .find(|known| payment.provider_payment.as_ref() == Some(&known.id) && is_before(told, known))
    {
        nameless.id.clone_from(&told.id);
        payment.dispute = Dispute::of_all(&disputes);
        payment.disputes.clone_from(&disputes);
    }
    let known = disputes.iter().find(|known| known.id == told.id);
    let is_in_its_currency = told.currency == payment.currency.as_str();
    let amount_minor = match told.amount_minor {
        amount_minor if amount_minor > 0 && is_in_its_currency => amount_minor.min(payment.amount.get()),
        // What is no amount of the payment's currency may be all of it.
        _ => payment.amount.get(),
    };
    // A bank that has given back a part keeps the rest, for now.
    let kept_minor = known
        .filter(|known| known.withdrawn && status == DisputeStatus::Won && is_in_its_currency)
        .map(|known| known.amount_minor.saturating_sub(told.amount_minor))
        .filter(|kept_minor| told.amount_minor > 0 && *kept_minor > 0);
    let dispute = match (status, withdrawn) {
        (DisputeStatus::Lost, None) => undefended(known, told, amount_minor),
        (DisputeStatus::Won, _) if let Some(kept_minor) = kept_minor => {
            news(known, told, (kept_minor, DisputeStatus::Lost, Some(true), is_inquiry))
        }
        _ => news(known, told, (amount_minor, status, withdrawn, is_inquiry)),
    };
    let Some(dispute) = dispute.filter(|dispute| Some(dispute) != known) else {
        return Ok(Ingested::Applied);
    };
    if known.is_none() && disputes.len() >= DISPUTES_MAX {
        let detail = format!("{} of {} is one dispute too many, and not counted", dispute.id, amount_minor);
        return Ok(Ingested::Contradiction { detail });
    }
    let told_as = format!(", told as {} {}: all of it counts", told.amount_minor, told.currency);
    let told_as = if is_in_its_currency { String::new() } else { told_as };
    let (detail, moved) = (format!("{}{told_as}", detail(&dispute, None)), dispute.to_json());
    let says_nothing = known.is_some_and(|known| {
        let began_as_inquiry = dispute.began_as_inquiry;
        Dispute { began_as_inquiry, ..known.clone() } == dispute
    });
    disputes.retain(|other| other.id != dispute.id);
    disputes.push(dispute);
    sorted::by_key(&mut disputes, |dispute| (Reverse(dispute.at_ms), dispute.id.clone()));
    payment.dispute = Dispute::of_all(&disputes);
    payment.disputes.clone_from(&disputes);
    if says_nothing {
        return Ok(Ingested::Applied);
    }
    record(state, None, &disputes, moved, ctx);
    let is_lost = |dispute: &&Dispute| dispute.status == DisputeStatus::Lost && dispute.withdrawn;
    let lost_minor = disputes.iter().filter(is_lost).map(|dispute| dispute.amount_minor).sum();
    late_money::lost(state, lost_minor, ctx);
    Ok(Ingested::Alert { detail })
}

/// Whether it is older than what is known of the dispute: of one of which only the end of its time to defend is known, all else is.
fn is_before(told: &OperationNotice, known: &Dispute) -> bool {
    known.at_ms.map_or(known.undefended_at_ms.is_some(), |known_ms| told.at_ms < Some(known_ms))
}

/// The dispute after this news, if that is newer than what is known of it, or says that it began as an inquiry.
fn news(
    known: Option<&Dispute>,
    told: &OperationNotice,
    (amount_minor, status, withdrawn, is_inquiry): (u64, DisputeStatus, Option<bool>, bool),
) -> Option<Dispute> {
    let (id, at_ms) = (told.id.clone(), told.at_ms);
    let was_withdrawn = known.is_some_and(|known| known.withdrawn);
    let refundable = is_inquiry && withdrawn == Some(false);
    let began_as_inquiry = is_inquiry || known.is_some_and(|known| known.began_as_inquiry);
    // A further stage has a time to defend of its own, and what is decided has none.
    let undefended_at_ms = known
        .filter(|_| withdrawn.is_some() && status == DisputeStatus::Open)
        .and_then(|known| known.undefended_at_ms);
    let withdrawn = withdrawn.unwrap_or(was_withdrawn);
    // A warning says less than what has happened since.
    let warns = status == DisputeStatus::Open && !withdrawn;
    let is_old = |known: &&Dispute| {
        // Of the same second, too.
        let is_old = |(at_ms, known_ms)| at_ms < known_ms || at_ms == known_ms && warns && known.withdrawn;
        at_ms.zip(known.at_ms).map_or(warns && known.undefended_at_ms.is_none(), is_old)
    };
    if let Some(known) = known.filter(is_old) {
        let is_news = is_inquiry && !known.began_as_inquiry;
        return is_news.then(|| decided(Dispute { began_as_inquiry, ..known.clone() }));
    }
    let dispute = Dispute {
        id,
        amount_minor,
        status,
        withdrawn,
        refundable,
        at_ms,
        began_as_inquiry,
        undefended_at_ms,
    };
    Some(decided(dispute))
}

/// The dispute once the time to defend it is over: that can be told before what has begun it.
fn undefended(known: Option<&Dispute>, told: &OperationNotice, amount_minor: u64) -> Option<Dispute> {
    let begun = || Dispute {
        id: told.id.clone(),
        amount_minor,
        status: DisputeStatus::Open,
        withdrawn: false,
        refundable: false,
        at_ms: None,
        began_as_inquiry: false,
        undefended_at_ms: None,
    };
    let known = known.cloned().unwrap_or_else(begun);
    let is_open = known.status == DisputeStatus::Open || known.undefended_at_ms.is_some();
    let undefended_at_ms = known.undefended_at_ms.max(told.at_ms.or(Some(0)));
    is_open.then(|| decided(Dispute { undefended_at_ms, ..known }))
}

/// What nobody has defended in time is lost once it is taken, and not before. An inquiry is over with it, and what the bank takes after that can be
/// defended again.
fn decided(dispute: Dispute) -> Dispute {
    let Some(ended_ms) = dispute.undefended_at_ms else { return dispute };
    if dispute.refundable {
        return Dispute { status: DisputeStatus::Won, ..dispute };
    }
    // It has ended an inquiry from which this has come.
    if dispute.began_as_inquiry && dispute.at_ms.is_some_and(|at_ms| ended_ms < at_ms) {
        return Dispute { status: DisputeStatus::Open, undefended_at_ms: None, ..dispute };
    }
    let status = if dispute.withdrawn { DisputeStatus::Lost } else { DisputeStatus::Open };
    Dispute { status, ..dispute }
}

/// Takes in how the disputes of a payment stand that the provider was asked for, or of an earlier try.
pub(crate) fn take(
    state: &mut ObjectState,
    provider: Provider,
    provider_payment: &str,
    disputes: &[Dispute],
    event_id: Option<&str>,
    ctx: &Context,
) -> Result<(), Bug> {
    let Some(shown) = Dispute::of_all(disputes) else { return Ok(()) };
    let is_its = |id: &Option<String>| id.as_deref() == Some(provider_payment);
    let payment = state.resource.payment.as_mut().filter(|payment| {
        is_its(&payment.provider_payment) && matches!(payment.state, PaymentState::Captured { .. })
    });
    let mut moved = Vec::new();
    let attempt = match payment {
        Some(payment) if payment.each_dispute() == disputes => return Ok(()),
        Some(payment) => {
            let known = payment.each_dispute();
            let news = disputes.iter().filter(|dispute| !known.contains(dispute));
            moved.extend(news.map(Dispute::to_json));
            payment.dispute = Some(shown.clone());
            payment.disputes = disputes.to_vec();
            None
        }
        None => match state.resource.tries.iter_mut().find(|row| is_its(&row.provider_payment)) {
            Some(row) if row.dispute.as_ref() != Some(&shown) => {
                row.dispute = Some(shown.clone());
                Some(row.attempt)
            }
            _ => return Ok(()),
        },
    };
    if moved.is_empty() {
        moved.push(Value::Null);
    }
    for moved in moved {
        record(state, attempt, disputes, moved, ctx);
    }
    alert(state, provider, event_id, &detail(&shown, attempt), ctx);
    Ok(())
}

/// Writes down how the disputes stand: as one, and what each of them has withdrawn, of which a settlement file makes its lines; and the one that has
/// `moved`, of which the shop is told. `attempt` is the try that they are about, if that is not what the payment is now.
fn record(state: &mut ObjectState, attempt: Option<u32>, disputes: &[Dispute], moved: Value, ctx: &Context) {
    let Some(shown) = Dispute::of_all(disputes) else { return };
    let currency = state.resource.payment.as_ref().map(|payment| payment.currency);
    let each =
        |one: &Dispute| json!({ "id": one.id, "amount": one.amount_minor, "withdrawn": one.withdrawn });
    let data = json!({
        "dispute": shown.id, "status": shown.status.as_str(), "amount": shown.amount_minor, "currency": currency,
        "funds_withdrawn": shown.withdrawn, "attempt": attempt,
        "disputes": disputes.iter().map(each).collect::<Vec<_>>(), "moved": moved,
    });
    let action = if attempt.is_some() { "try.disputed" } else { "payment.disputed" };
    record_for_payment(state, action, data, ctx);
    try_rows::follow(state);
}

/// What an operator is told of a dispute.
fn detail(dispute: &Dispute, attempt: Option<u32>) -> String {
    let of_try = attempt.map(|attempt| format!(" of try {attempt}")).unwrap_or_default();
    format!("a dispute of {}{of_try} is {}", dispute.amount_minor, dispute.status.as_str())
}
