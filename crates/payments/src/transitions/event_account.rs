//! Of whose account an event is.

use crate::engine::{CallState, ObjectState, ProviderCall, Settlement};
use crate::payment::own_keys::is_in;
use crate::payment::provider_event::Event;
use once::domain::Answer as _;

/// Whether an event happened in an account to which a call from here went: whoever has another account that is connected to
/// ours, or signs for one with keys of its own, can write our ids into what is theirs. What Adyen tells is believed, so there it is the very call,
/// or those about the same payment, where they are known.
pub(super) fn is_of_account(object_state: &ObjectState, event: &Event) -> bool {
    let of_provider = || object_state.calls.iter().filter(|call| call.provider == event.provider);
    let is_there = |call: &ProviderCall| is_in(event.account.as_deref(), call.request.account.as_deref());
    if of_provider().next().is_none() {
        return event.account.is_none();
    }
    if let Some(told) = event.news.told() {
        let is_it = |call: &&ProviderCall| Some(&call.provider_key) == told.provider_key.as_ref();
        if let Some(call) = of_provider().find(is_it) {
            return is_there(call);
        }
        if let Some(call) = of_provider().find(|call| made(call) == Some(told.payment.as_str())) {
            return is_there(call);
        }
    }
    of_provider().any(is_there)
}

/// The provider's id of what a call has made, once it is known.
fn made(call: &ProviderCall) -> Option<&str> {
    match &call.state {
        CallState::Settled(Settlement::Answered(reply)) => reply.result.made(),
        _ => call.evidence.provider_id.as_deref(),
    }
}
