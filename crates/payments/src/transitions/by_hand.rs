//! An operator settles a call whose outcome nobody knows: "executed as …", or "not executed"; or the call whose capture has
//! failed, once its provider tries no more to make it again.
//!
//! Outcomes: the call is settled as said, and its operation goes on from there, or it is [refused](Refusal) and nothing
//! changes. What is settled so is inferred, by a person who can err. Whatever the provider tells against it later is a break
//! that a person must see ([`contradictions`](super::contradictions)), and its money counts.
//!
//! Why, in the operator's words, stands with the call alone, where it goes with what is [personal](super::pii): records and timelines are kept for good.

use serde_json::json;

use crate::engine::{Context, ObjectState, Payments, ProviderCall, Settlement};
use crate::payment::id::CustomerId;
use crate::payment::money::Currency;
use crate::payment::records::OPERATOR;
use crate::payment::refund::RefundState;
use crate::payment::result::CallKind;
use crate::payment::{InFlight, PaymentState};
use crate::transitions::audit::record;
use crate::transitions::contradictions::provider_id;
pub use crate::transitions::contradictions::{ended, id_in};
use crate::transitions::{give_back, refunds};
use once::by_hand;
use once::context::Bug;
use once::id::InstanceId;

/// The longest reason, in characters.
pub const REASON_MAX: usize = 300;
/// For how long an operator can have nothing be sent, in ms.
pub const HOLD_MS: u64 = 1_800_000;
/// How long after a capture has failed, in ms, nobody waits any more for Adyen to make it again.
pub const RECAPTURES_END_MS: u64 = refunds::REPEATS_END_MS;

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
}

impl Refusal {
    /// For the operator.
    pub fn message(&self) -> String {
        match self {
            Self::Settled { how } => format!("the call was settled meanwhile: {how}"),
            Self::Call(refusal) => match refusal {
                by_hand::Refusal::NoCall => "there is no such call".to_owned(),
                by_hand::Refusal::Settled => "the call was settled meanwhile".to_owned(),
                by_hand::Refusal::NeverSent | by_hand::Refusal::Open => {
                    "the call was never sent: it goes on by itself".to_owned()
                }
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
    let call = state.calls.iter().find(|call| call.call_id == call_id);
    let is_given_up = given_up(state, ctx.now_ms).is_some_and(|(given_up, _)| given_up == call_id);
    match (call, call.and_then(ended)) {
        (Some(call), Some(_)) if is_given_up => Ok(call.clone()),
        (_, Some(how)) => Err(Refusal::Settled { how }),
        _ => state.open_to_hand(call_id, me, ctx).cloned().map_err(Refusal::Call),
    }
}

/// The call that had taken the money of a payment whose capture has failed, and how much, in minor units, once its provider
/// tries no more.
pub fn given_up(state: &ObjectState, now_ms: u64) -> Option<(u32, u32)> {
    let payment = state.resource.payment.as_ref()?;
    let PaymentState::CaptureFailed { amount_minor } = payment.state else { return None };
    if now_ms < payment.ended_at_ms.unwrap_or(0).saturating_add(RECAPTURES_END_MS) {
        return None;
    }
    let tried = state.resource.tries.iter().find(|row| row.attempt == payment.attempt)?;
    let tried = state.calls.iter().find(|call| call.provider_key == tried.provider_key)?;
    let is_capture = |call: &&ProviderCall| call.kind == CallKind::Capture && call.call_id > tried.call_id;
    let newest = state.calls.iter().filter(is_capture).max_by_key(|call| call.call_id).unwrap_or(tried);
    Some((newest.call_id, amount_minor))
}

/// Takes an operator's word. What follows from it is due now.
pub fn settle(
    state: &mut ObjectState,
    word: &Word,
    me: &InstanceId,
    ctx: &Context,
) -> Result<Result<(), Refusal>, Bug> {
    let known = state.calls.iter().find(|call| call.call_id == word.call_id);
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
    let was_quarantined = call.quarantined_until_ms(ctx).is_some_and(|until_ms| ctx.now_ms < until_ms);
    let settled = match ended(&call) {
        Some(_) => state.overrule_by_hand(word.clone(), ctx),
        None => state.settle_by_hand(word.clone(), me, ctx),
    };
    if let Err(refusal) = settled {
        return Ok(Err(Refusal::Call(refusal)));
    }
    let how =
        state.calls.iter().find(|call| call.call_id == word.call_id).and_then(ended).unwrap_or_default();
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
    Ok(Ok(()))
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
pub fn amount(state: &ObjectState, call: &ProviderCall) -> Option<(u32, Currency)> {
    let payment = state.resource.payment.as_ref()?;
    let late_minor = || {
        let attempt = give_back::attempt_of(&call.provider_key, state)?;
        let row = state.resource.tries.iter().find(|row| row.attempt == attempt)?;
        row.late.as_ref().map(|late| late.amount_minor)
    };
    let refund = state.resource.refunds.iter().find(|refund| refund.key_id == call.key_id);
    let amount_minor = match (call.kind, &payment.pending) {
        (CallKind::Refund, _) => refund.map(|refund| refund.amount.get()).or_else(late_minor)?,
        (CallKind::Capture, Some(InFlight::Capture { amount_minor, .. })) => *amount_minor,
        _ => late_minor().unwrap_or(payment.amount.get()),
    };
    Some((amount_minor, payment.currency))
}

fn subject(state: &ObjectState) -> String {
    match (&state.resource.payment, &state.resource.customer) {
        (Some(payment), _) => payment.id.to_string(),
        (None, Some(_)) => CustomerId::in_object(state.object).to_string(),
        (None, None) => String::new(),
    }
}
