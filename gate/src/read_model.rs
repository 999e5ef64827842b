//! What the read model is told of an object, for the desk: when, and what. One job for each operation, which says how it stands when it
//! leaves: most often that it has ended.

use messages::gate::GateRow;
use once::call::{CallState, Settlement};
use once::context::Context;
use once::object_state::{ObjectState, StagedJob};
use once::outbox;
use once::record::{KeyRecord, Lifecycle};

use crate::domain::{PassOn, Place, SEND, word};
use crate::meaning::Ended;

/// Stages what this transaction changes of what is told. The newest job of an operation takes the place of the one before.
pub(crate) fn stage(before: &ObjectState<PassOn>, after: &mut ObjectState<PassOn>, ctx: &Context<()>) {
    let is_new = |key: &&KeyRecord<PassOn>| {
        after.resource.places.contains_key(&key.key_id)
            && before.key(key.key_id).is_none_or(|was| face(before, was) != face(after, key))
    };
    let changed: Vec<u32> = after.keys.iter().filter(is_new).map(|key| key.key_id).collect();
    if changed.is_empty() {
        return;
    }
    after.resource.version = after.resource.version.saturating_add(1);
    for number in changed {
        after.jobs.retain(|job| number_of(job) != Some(number));
        let job_id = format!("{number}_{}", after.resource.version);
        after.appended.jobs.push(outbox::job((), job_id, number.into(), ctx));
    }
    outbox::join_earlier(before, after, ctx);
}

/// The operation of which a job tells.
pub(crate) fn number_of(job: &StagedJob<()>) -> Option<u32> {
    u32::try_from(job.payload.as_u64()?).ok()
}

/// What makes the difference.
fn face(object_state: &ObjectState<PassOn>, key: &KeyRecord<PassOn>) -> (&'static str, u32) {
    (state(object_state, key), key.replays)
}

/// How an operation stands, in a word.
pub(crate) fn state(object_state: &ObjectState<PassOn>, key: &KeyRecord<PassOn>) -> &'static str {
    if let Some(ended) = object_state.resource.ended.get(&key.key_id) {
        return word(*ended);
    }
    let is_left = matches!(&key.lifecycle, Lifecycle::Open(open) if open.lease.is_none());
    let in_doubt = || object_state.unsettled_call(key.key_id).is_some_and(|call| call.in_doubt());
    if is_left && in_doubt() { "in_doubt" } else { "open" }
}

/// The status of the origin's own answer.
pub(crate) fn status(object_state: &ObjectState<PassOn>, number: u32) -> Option<u16> {
    let call = object_state.call_named(number, SEND)?;
    let CallState::Settled(Settlement::Answered(reply)) = &call.state else { return None };
    let is_its_own = matches!(reply.result.ended, Ended::Done | Ended::ShownAgain | Ended::Refused);
    (is_its_own && call.evidence.by_hand.is_none()).then_some(reply.status)
}

/// What is told of an operation now.
pub(crate) fn row(object_state: &ObjectState<PassOn>, number: u32) -> Option<GateRow> {
    let key = object_state.key(number)?;
    let Place { host, route } = object_state.resource.places.get(&number)?.clone();
    Some(GateRow {
        key_hash: name(key).to_owned(),
        number,
        version: object_state.resource.version,
        host,
        route,
        state: state(object_state, key).to_owned(),
        status: status(object_state, number),
        attempts: key.attempt,
        replays: key.replays,
        began_at_ms: key.created_at_ms,
        ended_at_ms: key.finished_at_ms(),
    })
}

/// What stands for the key, whatever the number.
pub(crate) fn name(key: &KeyRecord<PassOn>) -> &str {
    key.key_hash.0.split_once('.').map_or(&key.key_hash.0, |(name, _)| name)
}
