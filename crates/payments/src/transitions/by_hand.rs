//! An operator settles a call whose outcome nobody knows: "executed as …", or "not executed"; the call whose capture has
//! failed, once its provider tries no more to make it again; or one that Adyen has taken over and told nothing of since.
//!
//! Outcomes: the call is settled as said, and its operation goes on from there, or it is [refused](Refusal) and nothing
//! changes. What is settled so is inferred, by a person who can err. Whatever the provider tells against it later is a break
//! that a person must see ([`contradictions`](super::contradictions)), and its money counts.
//!
//! Why, in the operator's words, stands with the call alone, where it goes with what is [personal](super::pii): records and timelines are kept for good.

use serde_json::json;

use crate::engine::{CallState, Context, ObjectState, Payments, ProviderCall, Settlement};
use crate::payment::id::CustomerId;
use crate::payment::money::Currency;
use crate::payment::provider_event::{Ingested, OperationNotice};
use crate::payment::records::OPERATOR;
use crate::payment::refund::{Refund, RefundState};
use crate::payment::result::{CallKind, ProviderResult};
use crate::payment::{InFlight, PaymentState};
use crate::transitions::audit::{alert, record};
use crate::transitions::contradictions::provider_id;
pub use crate::transitions::contradictions::{ended, id_in};
use crate::transitions::{give_back, ingest, refunds, try_rows};
use once::by_hand;
use once::context::Bug;
use once::id::InstanceId;

/// The longest reason, in characters.
pub const REASON_MAX: usize = 300;
/// For how long an operator can have nothing be sent, in ms.
pub const HOLD_MS: u64 = 1_800_000;
/// How long after a capture has failed, in ms, nobody waits any more for Adyen to make it again.
pub const RECAPTURES_END_MS: u64 = refunds::REPEATS_END_MS;

/// How long Adyen, which cannot be asked, may tell nothing of what it has taken over, in ms, before a person is to look.
pub const SILENT_MS: u64 = 86_400_000;
/// The same of a refund, in ms: Adyen tells how it ended once it was sent to the bank, which takes days.
pub const REFUND_SILENT_MS: u64 = 5 * SILENT_MS;

/// What an operator says of a call.
pub type Word = by_hand::Word<Payments>;

/// Why an operator's word is not taken. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The engine does not take it.
    Call(by_hand::Refusal),
    /// It was settled meanwhile, or before.
    Settled {
        /// How: `charged`, `not executed` …
        how: String,
    },
    /// Money was given back, so it was taken.
    GivenBack,
    /// Nobody knows yet whether a refund of it was made.
    RefundInDoubt,
    /// The provider has taken it over, and named it: it was executed, as that.
    Received {
        /// Its id of what it has taken over.
        id: String,
    },
}

impl Refusal {
    /// For the operator.
    pub fn message(&self) -> String {
        match self {
            Self::Settled { how } => format!("the call was settled meanwhile: {how}"),
            Self::Call(refusal) => match refusal {
                by_hand::Refusal::NoCall => "there is no such call".to_owned(),
                by_hand::Refusal::Settled => "the call was settled meanwhile".to_owned(),
                by_hand::Refusal::NeverSent => "the call was never sent: it goes on by itself".to_owned(),
                by_hand::Refusal::Open => "the call is not settled yet: load the page again".to_owned(),
                by_hand::Refusal::UnderWay => {
                    "the call is being sent or looked up right now: wait a minute and load the page again"
                        .to_owned()
                }
                by_hand::Refusal::SentAgain => {
                    "the call was sent again since you looked: load the page, and look again".to_owned()
                }
                by_hand::Refusal::TooEarly { until_ms } => format!(
                    "the last send may still arrive until {} UTC. Stop sending, and come back then",
                    crate::timestamp(*until_ms).get(11..19).unwrap_or_default()
                ),
            },
            Self::GivenBack => {
                "a refund of it has succeeded, which is possible only where the money was taken: look at the \
                                provider how both stand"
                    .to_owned()
            }
            Self::RefundInDoubt => {
                "nobody knows yet whether a refund of it was made: settle the refund first".to_owned()
            }
            Self::Received { id } => format!(
                "Adyen has received it as {id}: look for this PSP reference, and say whether it was done or refused"
            ),
        }
    }
}

/// The call, if it can be settled by hand now. `me` is this incarnation: a lease of another one is dead.
pub fn check(
    state: &ObjectState,
    call_id: u32,
    me: &InstanceId,
    ctx: &Context,
) -> Result<ProviderCall, Refusal> {
    let call = state.call(call_id);
    let is_given_up = given_up(state, ctx.now_ms).is_some_and(|(given_up, _)| given_up == call_id);
    match (call, call.and_then(ended)) {
        (Some(call), Some(_)) if is_given_up || untold(state, call, ctx.now_ms).is_some() => Ok(call.clone()),
        (_, Some(how)) => Err(Refusal::Settled { how }),
        _ => state.open_to_hand(call_id, me, ctx).cloned().map_err(Refusal::Call),
    }
}

/// The call that had taken the money of a payment whose capture has failed, and how much, in minor units, once its provider
/// tries no more.
pub fn given_up(state: &ObjectState, now_ms: u64) -> Option<(u32, u64)> {
    let failed_at_ms = state.resource.payment.as_ref()?.ended_at_ms.unwrap_or(0);
    failed_capture(state).filter(|_| now_ms >= failed_at_ms.saturating_add(RECAPTURES_END_MS))
}

/// The call that had taken the money of a payment whose capture has failed, which its provider may make again, and how much, in minor units.
fn failed_capture(state: &ObjectState) -> Option<(u32, u64)> {
    let payment = state.resource.payment.as_ref()?;
    let PaymentState::CaptureFailed { amount_minor } = payment.state else { return None };
    let tried = state.resource.tries.iter().find(|row| row.attempt == payment.attempt)?;
    let tried = state.call_of_provider_key(&tried.provider_key)?;
    let is_capture = |call: &&ProviderCall| call.kind == CallKind::Capture && call.call_id > tried.call_id;
    let newest = state.calls.iter().filter(is_capture).max_by_key(|call| call.call_id).unwrap_or(tried);
    Some((newest.call_id, amount_minor))
}

/// The provider's id of what a call has asked for, where the provider, which cannot be asked, has taken it over and told nothing of it for so long that
/// a person may say how it ended.
pub fn untold<'a>(state: &ObjectState, call: &'a ProviderCall, now_ms: u64) -> Option<&'a str> {
    let CallState::Settled(Settlement::Answered(reply)) = &call.state else { return None };
    let payment = state.resource.payment.as_ref().filter(|_| !call.provider.answers_questions())?;
    let (is_open, silent_ms) = match &reply.result {
        ProviderResult::Received { .. } => {
            let is_it = |pending: &InFlight| pending.key_id() == call.key_id && pending.is_received();
            (payment.pending.as_ref().is_some_and(is_it), SILENT_MS)
        }
        ProviderResult::Refunded { settled: false, .. } => {
            // Of one that was undone it has told: it may repeat it by itself.
            let is_it = |refund: &Refund| {
                refund.key_id == call.key_id
                    && refund.state == RefundState::Pending
                    && refund.undone.is_none()
            };
            (state.resource.refunds.iter().any(is_it), REFUND_SILENT_MS)
        }
        ProviderResult::Processing { payment: id } => {
            let is_it = payment.provider_payment.as_ref() == Some(id);
            (is_it && payment.state == PaymentState::Processing, SILENT_MS)
        }
        _ => return None,
    };
    let is_silent = call.last_sent_at_ms.unwrap_or(0).saturating_add(silent_ms) <= now_ms;
    id_in(reply).filter(|_| is_open && is_silent)
}

/// Takes an operator's word. What follows from it is due now.
pub fn settle(
    state: &mut ObjectState,
    word: &Word,
    me: &InstanceId,
    ctx: &Context,
) -> Result<Result<(), Refusal>, Bug> {
    let known = state.call(word.call_id);
    let pressed = known.and_then(|call| call.evidence.by_hand.as_ref());
    if pressed.is_some_and(|before| before.button == word.by_hand.button) {
        return Ok(Ok(()));
    }
    let call = match check(state, word.call_id, me, ctx) {
        Ok(call) => call,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let is_absent = word.settlement == Settlement::NotExecuted;
    let given_up = given_up(state, ctx.now_ms).filter(|(given_up, _)| *given_up == word.call_id);
    if given_up.is_some() && is_absent {
        let is_any = |wanted| state.resource.refunds.iter().any(|refund| refund.state == wanted);
        if is_any(RefundState::Succeeded) {
            return Ok(Err(Refusal::GivenBack));
        }
        if is_any(RefundState::Requested) {
            return Ok(Err(Refusal::RefundInDoubt));
        }
    }
    let received = untold(state, &call, ctx.now_ms).map(str::to_owned);
    if let Some(id) = &received
        && named(&word.settlement) != Some(id)
    {
        return Ok(Err(Refusal::Received { id: id.clone() }));
    }
    let was_quarantined = call.quarantined_until_ms(ctx).is_some_and(|until_ms| ctx.now_ms < until_ms);
    let settled = match ended(&call) {
        Some(_) => state.overrule_by_hand(word.clone(), me, ctx),
        None => state.settle_by_hand(word.clone(), me, ctx),
    };
    if let Err(refusal) = settled {
        return Ok(Err(Refusal::Call(refusal)));
    }
    let how = state.call(word.call_id).and_then(ended).unwrap_or_default();
    let key = state.key(call.key_id).ok_or_else(|| Bug(format!("no key {}", call.key_id)))?;
    let actor = key.owner.clone();
    let detail = format!("{}: {how}, by hand", call.name);
    state.append_timeline(call.key_id, ctx.now_ms, "call_settled_by_hand", detail);
    let data = json!({
        OPERATOR: word.by_hand.by, "call": call.name, "provider": call.provider, "settled_as": how,
        "provider_id": provider_id(&word.settlement), "released_quarantine": was_quarantined,
    });
    let subject = subject(state);
    let action = "call.settled_by_hand";
    record(state, actor, action, subject, data, ctx);
    if let Some((_, amount_minor)) = given_up {
        super::ended::given_up(state, amount_minor, !is_absent, ctx)?;
    }
    if let (Some(id), Settlement::Answered(reply)) = (received, &word.settlement) {
        told(state, &call, id, reply.result.is_done(), ctx)?;
    }
    Ok(Ok(()))
}

/// What follows where Adyen had taken a call over, as if it had told so itself. It is of no time: whatever Adyen tells later is newer, and counts.
fn told(
    state: &mut ObjectState,
    call: &ProviderCall,
    id: String,
    is_done: bool,
    ctx: &Context,
) -> Result<(), Bug> {
    let (amount_minor, currency) =
        amount(state, call).ok_or_else(|| Bug("a call that moves nothing".into()))?;
    let payment = state.resource.payment.as_ref().and_then(|payment| payment.provider_payment.clone());
    let refund = state.resource.refunds.iter().find(|refund| refund.key_id == call.key_id);
    let word = OperationNotice {
        provider_key: Some(call.provider_key.clone()),
        payment: payment.unwrap_or_default(),
        id,
        amount_minor,
        currency: currency.to_string(),
        success: is_done,
        reason: String::new(),
        undone: None,
        was_taken: false,
        // Newer than what was told of a refund, and older than what will be.
        at_ms: refund.map(|refund| refund.told_at_ms.map_or(0, |at_ms| at_ms.saturating_add(1))),
        card: None,
    };
    let taken = match call.kind {
        CallKind::Authorize => ingest::authorisation(state, &word, ctx)?,
        CallKind::Capture => super::ended::capture(state, &word, ctx)?,
        CallKind::Void => super::ended::cancellation(state, &word, ctx)?,
        CallKind::Refund => refunds::told(state, &word, ctx)?,
        CallKind::CreateCustomer | CallKind::UpdateCustomer => Ingested::Applied,
    };
    match taken {
        Ingested::Alert { detail } | Ingested::Contradiction { detail } => {
            alert(state, call.provider, None, &detail, ctx);
        }
        Ingested::Applied => {}
        other => return Err(Bug(format!("an operator's word came to {other:?}"))),
    }
    Ok(())
}

/// Sends nothing more of a call for a while, so that an operator can find out what became of it.
pub fn hold(state: &mut ObjectState, call_id: u32, me: &InstanceId, ctx: &Context) -> Result<u64, Refusal> {
    let call = check(state, call_id, me, ctx)?;
    let until_ms = call.may_arrive_until_ms(ctx).max(ctx.now_ms).saturating_add(HOLD_MS);
    if let Some(call) = state.call_mut(call_id) {
        call.next_try_at_ms = call.next_try_at_ms.max(until_ms);
        call.evidence.needs_client = false;
    }
    state.append_timeline(call.key_id, ctx.now_ms, "call_held", format!("{}: an operator looks", call.name));
    Ok(until_ms)
}

/// How much a call moves, in minor units of which currency.
pub fn amount(state: &ObjectState, call: &ProviderCall) -> Option<(u64, Currency)> {
    let payment = state.resource.payment.as_ref()?;
    let late_minor = || {
        let attempt = give_back::attempt_of(&call.provider_key, state)?;
        let row = try_rows::of(state, attempt)?;
        row.late.as_ref().map(|late| late.amount_minor)
    };
    let refund = state.resource.refunds.iter().find(|refund| refund.key_id == call.key_id);
    // Only the state remembers how much that was: the payment has captured nothing any more.
    let failed = failed_capture(state).filter(|(call_id, _)| *call_id == call.call_id);
    let amount_minor = match (call.kind, &payment.pending, failed) {
        (CallKind::Refund, ..) => refund.map(|refund| refund.amount.get()).or_else(late_minor)?,
        (CallKind::Capture, Some(InFlight::Capture { amount_minor, .. }), _) => *amount_minor,
        (_, _, Some((_, amount_minor))) => amount_minor,
        _ => late_minor().unwrap_or(payment.amount.get()),
    };
    Some((amount_minor, payment.currency))
}

/// The provider's id that an operator has named.
fn named(settlement: &Settlement) -> Option<&String> {
    let Settlement::Answered(reply) = settlement else { return None };
    reply.request_id.as_ref()
}

fn subject(state: &ObjectState) -> String {
    match (&state.resource.payment, &state.resource.customer) {
        (Some(payment), _) => payment.id.to_string(),
        (None, Some(_)) => CustomerId::in_object(state.object).to_string(),
        (None, None) => String::new(),
    }
}
