//! The tries of a payment, one row each: where it was made, under which key, and how it ended. News of a try goes to that try.
//!
//! A try that is over holds no money. Where a provider tells that one does all the same, a person must see it
//! ([`Ingested::Alert`]), and it is given back at once: canceled, or refunded, as an operation of its own (`flows::give_back`).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::check::{self, StatusQuery};
use super::money::{AmountMinor, Currency};
use super::{Dispute, Payment, PaymentState, RefundState, Watched};
use crate::flows::engine::{CallState, Context, ProviderCall, RecoveryPoint, Rows, Settlement};
use crate::flows::{close, give_back};
use crate::payment::id::RefundId;
use crate::payment::provider_event::{EventKind, Ingested, OperationNotice};
use crate::payment::records::record_for_owner;
use crate::providers::Provider;
use crate::providers::result::{CallKind, Found, ProviderResult};
use once::context::Bug;

/// A try to pay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Try {
    /// Its number, from 1.
    pub attempt: u32,
    /// Where it was made.
    pub provider: Provider,
    /// The merchant's account there: Adyen's merchant account, or a connected account at Stripe.
    pub merchant_account: Option<String>,
    /// The provider's id of it, once it has said one.
    pub provider_payment: Option<String>,
    /// The idempotency key of the call that made it.
    pub derived_key: String,
    /// What was to be paid.
    pub amount: AmountMinor,
    /// In which currency.
    pub currency: Currency,
    /// Whether the money was to be taken at once.
    pub capture: bool,
    /// The status that it had last.
    pub status: String,
    /// Whether the provider has said how it ended; else that is inferred. `None` while it has not.
    pub definitive: Option<bool>,
    /// It was once reserved or taken, as we know.
    pub was_authorized: bool,
    /// When it ended, by the provider's clock, in ms since the epoch.
    pub ended_at_ms: Option<u64>,
    /// The event that has told of it since it was over: the provider is asked until it answers.
    pub asked_for: Option<String>,
    /// The money that was found on it after it was over.
    pub late: Option<LateMoney>,
    /// What a bank wants back of it.
    #[serde(default)]
    pub dispute: Option<Dispute>,
}

/// Money on a try that was over.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LateMoney {
    /// How much, in minor units.
    pub amount_minor: u32,
    /// It was taken; else it was only held.
    pub captured: bool,
    /// How giving it back stands.
    pub stage: Stage,
}

/// How giving money back stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It was begun.
    Begun,
    /// The provider has taken it over, and tells later how it ended.
    Received,
    /// Nothing is held or taken any more.
    GivenBack,
    /// The provider has refused it: a person must.
    Refused,
}

impl Stage {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun | Self::Received => "pending",
            Self::GivenBack => "given_back",
            Self::Refused => "refused",
        }
    }
}

impl Try {
    /// As the API shows it.
    pub fn to_json(&self) -> Value {
        let outcome = self.definitive.map(|definitive| if definitive { "definitive" } else { "inferred" });
        let late = self.late.as_ref().map(|late| {
            json!({ "amount": late.amount_minor, "captured": late.captured, "status": late.stage.as_str() })
        });
        json!({
            "attempt": self.attempt,
            "provider": self.provider.as_str(),
            "provider_payment": self.provider_payment,
            "status": self.status,
            "outcome": outcome,
            "late_money": late,
            "dispute": self.dispute.as_ref().map(Dispute::to_json),
        })
    }

    /// What gives its money back is sent as for this payment.
    pub fn stand_in(&self, payment: &Payment) -> Payment {
        Payment {
            provider: self.provider,
            merchant_account: self.merchant_account.clone(),
            provider_payment: self.provider_payment.clone(),
            amount: self.amount,
            currency: self.currency,
            ..payment.clone()
        }
    }
}

/// A try begins: its call is frozen under this key.
pub fn begin(rows: &mut Rows, derived_key: &str) {
    let Some(payment) = &rows.resource.payment else { return };
    let row = Try {
        attempt: payment.attempt,
        provider: payment.provider,
        merchant_account: payment.merchant_account.clone(),
        provider_payment: None,
        derived_key: derived_key.to_owned(),
        amount: payment.amount,
        currency: payment.currency,
        capture: payment.capture,
        status: payment.status().to_owned(),
        definitive: None,
        was_authorized: false,
        ended_at_ms: None,
        asked_for: None,
        late: None,
        dispute: None,
    };
    rows.resource.tries.retain(|known| known.attempt != row.attempt);
    rows.resource.tries.push(row);
}

/// The newest try is as the payment is now.
pub fn follow(rows: &mut Rows) {
    let Some(payment) = &rows.resource.payment else { return };
    let Some(row) = rows.resource.tries.iter_mut().find(|row| row.attempt == payment.attempt) else { return };
    row.provider_payment.clone_from(&payment.provider_payment);
    payment.status().clone_into(&mut row.status);
    row.ended_at_ms = payment.ended_at_ms;
    row.was_authorized |= matches!(
        payment.state,
        PaymentState::Authorized | PaymentState::Captured { .. } | PaymentState::CaptureFailed { .. }
    );
    row.definitive = match &payment.state {
        PaymentState::Authorizing | PaymentState::Processing | PaymentState::RequiresAction { .. } => None,
        _ => Some(!is_inferred(&rows.calls, &row.derived_key)),
    };
}

/// It did not answer, and its list does not have it; or an operator has settled it.
fn is_inferred(calls: &[ProviderCall], derived_key: &str) -> bool {
    let call = calls.iter().find(|call| call.derived_key == derived_key);
    call.is_some_and(|call| {
        call.evidence.by_hand.is_some() || matches!(call.state, CallState::Settled(Settlement::NotExecuted))
    })
}

/// Adds the tries of a payment that was made before they had rows: from its calls, and as what they ended.
pub fn complete(rows: &mut Rows) {
    let Some(payment) = rows.resource.payment.clone() else { return };
    let made: Vec<(u32, ProviderCall)> = rows
        .calls
        .iter()
        .filter(|call| call.kind == CallKind::Authorize)
        .filter_map(|call| Some((call.name.strip_prefix("authorize_")?.parse().ok()?, call.clone())))
        .collect();
    for (attempt, call) in made {
        if rows.resource.tries.iter().any(|row| row.attempt == attempt) {
            continue;
        }
        let (provider_payment, status, was_authorized) = match &call.state {
            CallState::Settled(Settlement::Answered(reply)) => match &reply.result {
                ProviderResult::Charged { payment } => (Some(payment.clone()), "canceled", true),
                ProviderResult::Authorized { payment, .. } | ProviderResult::Moved { payment, .. } => {
                    (Some(payment.clone()), "canceled", true)
                }
                ProviderResult::RequiresAction { payment, .. } | ProviderResult::Processing { payment } => {
                    (Some(payment.clone()), "canceled", false)
                }
                ProviderResult::Declined { payment, .. } => (payment.clone(), "declined", false),
                ProviderResult::Rejected { payment, .. } => (payment.clone(), "failed", false),
                _ => (None, "failed", false),
            },
            _ => (None, "failed", false),
        };
        let is_settled = matches!(call.state, CallState::Settled(_));
        rows.resource.tries.push(Try {
            attempt,
            provider: call.provider,
            merchant_account: payment.merchant_account.clone().filter(|_| call.provider == payment.provider),
            provider_payment,
            derived_key: call.derived_key.clone(),
            amount: payment.amount,
            currency: payment.currency,
            capture: payment.capture,
            status: status.to_owned(),
            definitive: is_settled.then(|| !is_inferred(&rows.calls, &call.derived_key)),
            was_authorized,
            ended_at_ms: None,
            asked_for: None,
            late: None,
            dispute: None,
        });
    }
    rows.resource.tries.sort_by_key(|row| row.attempt);
    follow(rows);
}

/// Takes in news of a try that is over, or of what gives its money back. `None` if it is about neither.
pub(super) fn news(rows: &mut Rows, news: &EventKind, ctx: &Context) -> Result<Option<Ingested>, Bug> {
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
    let call = rows.calls.iter().find(|call| told.derived_key.as_ref() == Some(&call.derived_key)).cloned();
    if call.as_ref().is_some_and(|call| !matches!(call.state, CallState::Settled(_))) {
        return Ok(None);
    }
    if let Some(call) = call.filter(|call| call.name == give_back::CALL) {
        return given_back(rows, &call, told, ctx).map(Some);
    }
    let Some(attempt) = over(rows, told) else { return Ok(None) };
    let Some(row) = rows.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
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
    found(rows, attempt, amount_minor, captured, ctx).map(Some)
}

/// The try that this tells of, if it is over: an earlier one, or the newest.
fn over(rows: &Rows, told: &OperationNotice) -> Option<u32> {
    let payment = rows.resource.payment.as_ref()?;
    // The id that an operator has given may be another payment's.
    let is_by_hand = |row: &Try| {
        let is_its = |call: &&ProviderCall| call.derived_key == row.derived_key;
        rows.calls.iter().find(is_its).is_some_and(|call| call.evidence.by_hand.is_some())
    };
    let is_it = |row: &&Try| {
        row.provider_payment.as_ref() == Some(&told.payment)
            || (told.derived_key.as_ref() == Some(&row.derived_key)
                && (row.provider_payment.is_none() || is_by_hand(row)))
    };
    let attempt = rows.resource.tries.iter().find(is_it)?.attempt;
    let is_newest = attempt == payment.attempt;
    // While something of it is under way, that is nearer.
    (!is_newest || (payment.is_over() && payment.pending.is_none())).then_some(attempt)
}

/// There is money on a try that is over: a person must see it, and it is given back.
pub(crate) fn found(
    rows: &mut Rows,
    attempt: u32,
    amount_minor: u32,
    captured: bool,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let Some(row) = rows.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(Ingested::Applied);
    };
    if row.late.as_ref().is_some_and(|late| late.captured >= captured) {
        return Ok(Ingested::Applied);
    }
    row.late = Some(LateMoney { amount_minor, captured, stage: Stage::Begun });
    let what = if captured { "was taken" } else { "is held" };
    let detail = format!("{amount_minor} {what} on try {attempt}, which is {}", row.status);
    audit(
        rows,
        "try.late_money",
        json!({ "attempt": attempt, "amount": amount_minor, "captured": captured }),
        ctx,
    );
    give_back::begin(rows, attempt, captured, ctx)?;
    Ok(Ingested::Alert { detail })
}

/// How giving money back ended that the provider had taken over.
fn given_back(
    rows: &mut Rows,
    call: &ProviderCall,
    told: &OperationNotice,
    ctx: &Context,
) -> Result<Ingested, Bug> {
    let Some(attempt) = give_back::attempt_of(&call.derived_key, rows) else { return Ok(Ingested::Applied) };
    let Some(row) = rows.resource.tries.iter_mut().find(|row| row.attempt == attempt) else {
        return Ok(Ingested::Applied);
    };
    let Some(late) = &mut row.late else { return Ok(Ingested::Applied) };
    if rows
        .keys
        .iter()
        .any(|key| key.key_id == call.key_id && key.recovery_point() != RecoveryPoint::Finished)
    {
        return Ok(Ingested::RetryLater);
    }
    if told.success {
        late.stage = Stage::GivenBack;
        audit(rows, "try.given_back", json!({ "attempt": attempt }), ctx);
        return Ok(Ingested::Applied);
    }
    if late.stage == Stage::GivenBack {
        let detail = format!("what was given back of try {attempt} came back ({})", told.reason);
        late.stage = Stage::Refused;
        audit(rows, "try.give_back_refused", json!({ "attempt": attempt, "code": told.reason }), ctx);
        return Ok(Ingested::Alert { detail });
    }
    refused(rows, attempt, call.kind, &told.reason, ctx)?;
    Ok(Ingested::Applied)
}

/// A provider did not give money back: what could not be canceled is refunded, else a person must.
pub(crate) fn refused(
    rows: &mut Rows,
    attempt: u32,
    kind: CallKind,
    reason: &str,
    ctx: &Context,
) -> Result<(), Bug> {
    if kind == CallKind::Void {
        return give_back::begin(rows, attempt, true, ctx);
    }
    if let Some(late) = late_mut(rows, attempt) {
        late.stage = Stage::Refused;
    }
    audit(rows, "try.give_back_refused", json!({ "attempt": attempt, "code": reason }), ctx);
    Ok(())
}

/// The money on a try.
pub(crate) fn late_mut(rows: &mut Rows, attempt: u32) -> Option<&mut LateMoney> {
    rows.resource.tries.iter_mut().find(|row| row.attempt == attempt)?.late.as_mut()
}

pub(crate) fn audit(rows: &mut Rows, action: &'static str, data: Value, ctx: &Context) {
    let subject = rows.resource.payment.as_ref().map(|payment| payment.id.to_string()).unwrap_or_default();
    record_for_owner(rows, action, subject, data, ctx);
}

/// Stripe has told of this payment of its: if that is a try that is over, it is asked until it answers. Gives whether it is.
///
/// A try that was not executed, as it seemed, has no id there: the derived key in the event gives it one.
pub(super) fn doubt(
    rows: &mut Rows,
    provider_payment: &str,
    derived_key: Option<&str>,
    event_id: &str,
    ctx: &Context,
) -> bool {
    let Some(payment) = &rows.resource.payment else { return false };
    let (newest, is_over) = (payment.attempt, payment.is_over() && payment.pending.is_none());
    let is_it = |row: &&mut Try| match &row.provider_payment {
        Some(known) => known == provider_payment,
        None => derived_key == Some(&row.derived_key),
    };
    let Some(row) = rows.resource.tries.iter_mut().find(is_it).filter(|row| row.attempt != newest || is_over)
    else {
        return false;
    };
    row.provider_payment = Some(provider_payment.to_owned());
    row.asked_for = Some(event_id.to_owned());
    check::told(rows, ctx);
    true
}

/// What of the tries can still change at a provider that can be asked: one can be confirmed again, and what gave its money back can
/// fail.
pub(super) fn watched(rows: &Rows) -> Option<Watched> {
    let attempt = rows.resource.payment.as_ref()?.attempt;
    let given_back = u32::try_from(refunded(rows).count()).unwrap_or(u32::MAX);
    let is_any = given_back > 0 || close::left_open(rows).next().is_some();
    is_any.then_some(Watched::Tries { attempt, given_back })
}

fn refunded(rows: &Rows) -> impl Iterator<Item = &Try> {
    let is_back = |late: &LateMoney| matches!(late.stage, Stage::Received | Stage::GivenBack);
    rows.resource.tries.iter().filter(move |row| {
        row.provider.answers_questions()
            && row.late.as_ref().is_some_and(is_back)
            && give_back::refund_of(rows, row).is_some()
    })
}

/// Nobody has told of anything, and that is asked for all the same.
pub(super) fn doubt_watched(rows: &mut Rows, event_id: &str) {
    let asked: Vec<u32> = close::left_open(rows).chain(refunded(rows)).map(|row| row.attempt).collect();
    for row in rows.resource.tries.iter_mut().filter(|row| asked.contains(&row.attempt)) {
        row.asked_for.get_or_insert_with(|| event_id.to_owned());
    }
}

/// What is doubted about a payment is asked of its newest try, once that has failed.
pub(super) fn doubt_failed(payment: &Payment, tries: &mut [Try]) {
    let is_it = |row: &&mut Try| row.attempt == payment.attempt && row.provider_payment.is_some();
    let Some((event, row)) = payment.doubt(None).zip(tries.iter_mut().find(is_it)) else { return };
    row.asked_for = Some(event.to_owned());
}

/// The same of a refund. Gives whether it is one that gives back the money of a try.
pub(super) fn doubt_refund(rows: &mut Rows, refund: &str, event_id: &str, ctx: &Context) -> bool {
    let is_its = |row: &&Try| give_back::refund_of(rows, row).is_some_and(|(_, id)| id == refund);
    let Some(attempt) = rows.resource.tries.iter().find(is_its).map(|row| row.attempt) else { return false };
    if let Some(row) = rows.resource.tries.iter_mut().find(|row| row.attempt == attempt) {
        row.asked_for = Some(event_id.to_owned());
        check::told(rows, ctx);
    }
    true
}

/// What to ask about tries that are over: how the refund stands that gives their money back, else how they stand.
pub(super) fn asked_for(rows: &Rows) -> impl Iterator<Item = StatusQuery> {
    rows.resource.tries.iter().filter_map(|row| {
        let (provider, doubt) = (row.provider, Some(row.asked_for.clone()?));
        let id = row.provider_payment.clone()?;
        let account = row.merchant_account.clone();
        Some(match give_back::refund_of(rows, row) {
            Some((refund, id)) => StatusQuery::Refund { provider, account, refund, id, doubt },
            None => StatusQuery::Payment { provider, account, id, doubt },
        })
    })
}

/// Takes in how the refund stands that gives back the money of a try: what was given back can still come back.
pub(super) fn take_refund(
    rows: &mut Rows,
    refund: &RefundId,
    event_id: Option<&str>,
    state: &RefundState,
    ctx: &Context,
) -> Result<(), Bug> {
    let is_its = |row: &&Try| give_back::refund_of(rows, row).is_some_and(|(known, _)| known == *refund);
    let Some(attempt) = rows.resource.tries.iter().find(is_its).map(|row| row.attempt) else { return Ok(()) };
    let Some(row) = rows.resource.tries.iter_mut().find(|row| row.attempt == attempt) else { return Ok(()) };
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
    audit(rows, action, json!({ "attempt": attempt, "code": code }), ctx);
    Ok(())
}

/// Takes in what the provider says that a try is which is over.
pub(super) fn take(
    rows: &mut Rows,
    provider_payment: &str,
    event_id: Option<&str>,
    truth: &Found,
    ctx: &Context,
) -> Result<(), Bug> {
    let is_it = |row: &&mut Try| row.provider_payment.as_deref() == Some(provider_payment);
    let Some(row) = rows.resource.tries.iter_mut().find(is_it) else { return Ok(()) };
    let (attempt, amount_minor, provider) = (row.attempt, row.amount.get(), row.provider);
    let taken = match truth {
        Found::Captured { amount_minor } => found(rows, attempt, *amount_minor, true, ctx)?,
        Found::Authorized => found(rows, attempt, amount_minor, false, ctx)?,
        _ => return Ok(()),
    };
    if let Ingested::Alert { detail } = taken {
        alert(rows, provider, event_id, &detail, ctx)?;
    }
    Ok(())
}

/// The event about a try is answered.
pub(super) fn answered(rows: &mut Rows, provider_payment: &str, event_id: Option<&str>) {
    let is_it = |row: &&mut Try| {
        row.provider_payment.as_deref() == Some(provider_payment) && row.asked_for.as_deref() == event_id
    };
    if let Some(row) = rows.resource.tries.iter_mut().find(is_it) {
        row.asked_for = None;
    }
}

/// What was found by asking, and a person must see.
pub(super) fn alert(
    rows: &mut Rows,
    provider: Provider,
    event_id: Option<&str>,
    detail: &str,
    ctx: &Context,
) -> Result<(), Bug> {
    let data = json!({ "event": event_id, "provider": provider.as_str(), "kind": "asked", "detail": detail });
    audit(rows, "webhook.alert", data, ctx);
    Ok(())
}
