//! What a visitor sends to one address with `one_at_a_time`: one object for all of it, for as long as they have their cookie.
//!
//! An object has so many operations at most. Those of a form are over when a key is used no more; these would add up over weeks, and the visitor could send
//! nothing there any more. So what has been over for long is forgotten. No retry finds it missing: a form that is older than `keep_ms` begins nothing, and
//! whatever was sent from a form has been over for longer than that. Keys of clients have no age, and are never forgotten.

use once::object_state::ObjectState;
use once::record::KeyRecord;

use crate::domain::PassOn;
use crate::meaning::Ended;

/// Forgets what expired more than `keep_ms` ago, with all that stands of it in the rows.
///
/// The newest one stays, as the next one is numbered after it; what nobody knows the end of stays until an operator has settled it, and what they have
/// written for as long as is said. What lies in the bucket is [deleted](crate::domain::Intent::over_in_bucket) by its number.
pub fn forget_over(state: &mut ObjectState<PassOn>, keep_ms: u64, now_ms: u64) {
    let newest = state.keys.iter().map(|key| key.key_id).max();
    let unsettled: Vec<u32> = state
        .resource
        .ended
        .iter()
        .filter(|(_, ended)| **ended == Ended::Unknown)
        .map(|(number, _)| *number)
        .collect();
    let written: Vec<u32> = state
        .calls
        .iter()
        .filter(|call| call.evidence.by_hand.as_ref().is_some_and(|by_hand| !by_hand.reason.is_empty()))
        .map(|call| call.key_id)
        .collect();
    let stays = |key: &KeyRecord<PassOn>| {
        Some(key.key_id) == newest || unsettled.contains(&key.key_id) || written.contains(&key.key_id)
    };
    state.forget_expired_but(now_ms.saturating_sub(keep_ms), stays);
    let numbers: Vec<u32> = state.keys.iter().map(|key| key.key_id).collect();
    state.resource.ended.retain(|number, _| numbers.contains(number));
    state.resource.places.retain(|number, _| numbers.contains(number));
}
