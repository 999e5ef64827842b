//! Money on a try that was over is given back: nobody asks for it, the news of the money begins it, under a key of its own, and the
//! alarm drives it. What it does then is a flow: [`flows::give_back`](crate::flows::give_back).

use crate::engine::{CallState, Context, KeyRecord, ObjectState, Settlement};
use crate::payment::id::RefundId;
use crate::payment::operation::{GiveBackRequest, Operation};
use crate::payment::result::ProviderResult;
use crate::payment::tries::{LateMoney, Stage, Try};
use crate::transitions::audit::record_for_payment;
use crate::transitions::try_rows;
use once::begin::NewKey;
use once::context::Bug;
use once::fingerprint::Fingerprint;
use once::id::{RequestId, digest};
use once::key::KeyHash;
use once::record::Channel;

/// The name of its call.
pub(crate) const CALL: &str = "give_back";

/// Begins it: the alarm takes it up at once.
pub(crate) fn begin(state: &mut ObjectState, attempt: u32, refund: bool, ctx: &Context) -> Result<(), Bug> {
    let first = state.keys.first().ok_or_else(|| Bug("no key".into()))?;
    let request = GiveBackRequest { attempt, refund };
    let name = name(attempt, refund);
    let hash = key_hash(state, &name);
    if state.keys.iter().any(|key| key.key_hash.0 == hash) {
        return Ok(());
    }
    let owner = first.owner.clone();
    let key = NewKey {
        key_hash: KeyHash(hash.clone()),
        owner,
        channel: Channel::Api,
        fingerprint: Fingerprint(hash),
        parameters: None,
        request_id: RequestId(name),
        operation: Operation::GiveBack(request),
        trace: first.trace,
        lease: None,
    };
    state.open_key(key, ctx);
    if let Some(late) = late_mut(state, attempt) {
        late.own = Stage::Begun;
    }
    let data = serde_json::json!({ "attempt": attempt, "refund": refund });
    record_for_payment(state, "try.giving_back", data, ctx);
    Ok(())
}

fn name(attempt: u32, refund: bool) -> String {
    format!("give_back_{attempt}{}", if refund { "_refund" } else { "" })
}

fn key_hash(state: &ObjectState, name: &str) -> String {
    base16ct::lower::encode_string(&digest(&[b"give back", state.object.as_bytes(), name.as_bytes()]))
}

/// The keys under which the money of a try is given back: canceled, refunded, or first the one and then the other.
fn keys(state: &ObjectState, attempt: u32) -> impl Iterator<Item = &KeyRecord> {
    let hashes = [false, true].map(|refund| key_hash(state, &name(attempt, refund)));
    state.keys.iter().filter(move |key| hashes.contains(&key.key_hash.0))
}

/// Whether one of them has not ended.
pub(crate) fn is_open(state: &ObjectState, attempt: u32) -> bool {
    keys(state, attempt).any(|key| key.finished_at_ms().is_none())
}

/// When the newest of them ended, in ms since the epoch.
pub(crate) fn finished_at_ms(state: &ObjectState, attempt: u32) -> Option<u64> {
    keys(state, attempt).filter_map(KeyRecord::finished_at_ms).max()
}

/// The try that a call under this key gives back.
pub(crate) fn attempt_of(provider_key: &str, state: &ObjectState) -> Option<u32> {
    let id = state.resource.payment.as_ref()?.id;
    let is_it = |row: &&Try| {
        [false, true].into_iter().any(|refund| derived(row, &id.to_string(), refund) == provider_key)
    };
    state.resource.tries.iter().find(is_it).map(|row| row.attempt)
}

/// The refund that gives back the money of a try, and the provider's id of it, once it has said one.
pub(crate) fn refund_of(state: &ObjectState, row: &Try) -> Option<(RefundId, String)> {
    let payment = state.resource.payment.as_ref()?;
    let provider_key = derived(row, &payment.id.to_string(), true);
    let call = state.call_of_provider_key(&provider_key)?;
    let CallState::Settled(Settlement::Answered(reply)) = &call.state else { return None };
    let ProviderResult::Refunded { refund, .. } = &reply.result else { return None };
    let key = state.key(call.key_id)?;
    Some((RefundId::of(state.object, &key.key_hash.0), refund.clone()))
}

pub(crate) fn derived(row: &Try, payment: &str, refund: bool) -> String {
    let suffix = if refund { "_refund" } else { "" };
    row.provider.provider_key(&format!("{payment}_give_back_{}{suffix}", row.attempt))
}

/// The money on a try.
pub(crate) fn late_mut(state: &mut ObjectState, attempt: u32) -> Option<&mut LateMoney> {
    try_rows::of_mut(state, attempt)?.late.as_mut()
}
