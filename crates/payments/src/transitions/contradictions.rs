//! What a provider tells or shows against what an operator has said of a call: a person must see it, once for each call.

use crate::engine::{CallState, ObjectState, ProviderCall, ProviderReply, Settlement};
use crate::payment::provider::Provider;
use crate::payment::provider_event::EventKind;
use crate::payment::result::{CallKind, ProviderResult};

/// What contradicts an operator.
pub struct Contradiction {
    call_id: u32,
    /// Who contradicts.
    pub provider: Provider,
    /// For a person.
    pub detail: String,
}

/// What the provider tells, if it contradicts what an operator has said of the call that it is about. Once for each call: it
/// is to be noted, by `note`.
pub fn of_news(state: &ObjectState, news: &EventKind) -> Option<Contradiction> {
    let of = |key: &Option<String>, kinds: &[CallKind]| {
        let is_it =
            |call: &&ProviderCall| Some(&call.provider_key) == key.as_ref() && kinds.contains(&call.kind);
        state.calls.iter().find(is_it)
    };
    let (call, told) = match news {
        EventKind::Ask { refund, payment, provider_key } => {
            let kinds = [CallKind::Authorize, CallKind::Refund];
            let (call, id) = (of(provider_key, &kinds)?, refund.as_ref().or(payment.as_ref())?);
            let shows_other = match &call.state {
                CallState::Settled(Settlement::NotExecuted) => true,
                CallState::Settled(settlement) => provider_id(settlement).is_some_and(|known| known != id),
                CallState::Frozen | CallState::InFlight | CallState::Unknown => false,
            };
            return contradicts(call, id).filter(|_| shows_other);
        }
        EventKind::Authorisation(told) => (of(&told.provider_key, &[CallKind::Authorize])?, told),
        EventKind::Capture(told) => (of(&told.provider_key, &[CallKind::Capture])?, told),
        EventKind::Cancellation(told) => (of(&told.provider_key, &[CallKind::Void])?, told),
        EventKind::CancelOrRefund(told) => {
            (of(&told.provider_key, &[CallKind::Void, CallKind::Refund])?, told)
        }
        EventKind::Refund(told) => (of(&told.provider_key, &[CallKind::Refund])?, told),
        EventKind::CaptureFailed(_)
        | EventKind::Expired(_)
        | EventKind::Dispute { .. }
        | EventKind::Other => return None,
    };
    let says_other = match &call.state {
        CallState::Settled(Settlement::NotExecuted) => told.success,
        CallState::Settled(Settlement::Answered(reply)) => {
            let is_other = reply.result.payment().is_some_and(|id| id != told.payment);
            is_other || reply.result.is_done() != told.success
        }
        _ => false,
    };
    let shown = format!("{}, success={}", told.id, told.success);
    contradicts(call, &shown).filter(|_| says_other)
}

/// The same, where the payment itself shows that its newest capture or void was made after all.
pub(crate) fn of_state(state: &ObjectState, done: CallKind) -> Option<Contradiction> {
    let moves = state.calls.iter().filter(|call| matches!(call.kind, CallKind::Capture | CallKind::Void));
    let newest = moves.max_by_key(|call| call.call_id)?;
    let is_it = newest.kind == done && newest.state == CallState::Settled(Settlement::NotExecuted);
    contradicts(newest, done.as_str()).filter(|_| is_it)
}

/// The same, where the provider's books have what a call under this key has made.
pub(crate) fn of_books(state: &ObjectState, provider_key: &str, id: &str) -> Option<Contradiction> {
    let call = state.call_of_provider_key(provider_key)?;
    let is_it = call.state == CallState::Settled(Settlement::NotExecuted);
    contradicts(call, id).filter(|_| is_it)
}

fn contradicts(call: &ProviderCall, shown: &str) -> Option<Contradiction> {
    let by_hand = call.evidence.by_hand.as_ref().filter(|by_hand| !by_hand.is_contradicted)?;
    let (how, provider) = (ended(call)?, call.provider.as_str());
    let detail =
        format!("{} was settled by hand as {how} by {}; {provider} shows {shown}", call.name, by_hand.by);
    Some(Contradiction { call_id: call.call_id, provider: call.provider, detail })
}

/// A person is told of it.
pub(crate) fn note(state: &mut ObjectState, contradiction: &Contradiction) {
    let call = state.call_mut(contradiction.call_id);
    if let Some(by_hand) = call.and_then(|call| call.evidence.by_hand.as_mut()) {
        by_hand.is_contradicted = true;
    }
}

/// How a settled call ended, in a word or two.
pub fn ended(call: &ProviderCall) -> Option<String> {
    let CallState::Settled(settlement) = &call.state else { return None };
    Some(match settlement {
        Settlement::Answered(reply) => reply.result.name().replace('_', " "),
        Settlement::NotExecuted => "not executed".to_owned(),
        Settlement::NeedsReview => "flagged".to_owned(),
    })
}

/// The provider's id in a settlement.
pub(crate) fn provider_id(settlement: &Settlement) -> Option<&str> {
    let Settlement::Answered(reply) = settlement else { return None };
    id_in(reply)
}

/// The provider's id in an answer.
pub fn id_in(reply: &ProviderReply) -> Option<&str> {
    match &reply.result {
        ProviderResult::Refunded { refund, .. } => Some(refund),
        ProviderResult::Received { modification } => Some(modification),
        ProviderResult::Customer { customer } => Some(customer),
        result => result.payment(),
    }
}
