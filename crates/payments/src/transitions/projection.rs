//! The job that carries what has changed into the read model: when it is staged, and what it still has to carry.

use crate::engine::{Context, Lifecycle, ObjectState};
use crate::payment::Payment;
use crate::payment::records::JobKind;
use once::outbox::{self, job};
use once::record::{Finished, Tombstone};

/// Up to how many runs, and how many failures, each one is told to the read model.
const TOLD_MAX: u32 = 32;

/// Stages a projection if this transaction changes what the read model shows. The newest one takes the place of all others.
pub fn stage_projection(before: &ObjectState, after: &mut ObjectState, ctx: &Context) {
    let has_changed = !after.appended.facts.audit.is_empty() || face(before) != face(after);
    if !has_changed {
        return;
    }
    // Whatever has staged one already has counted the change.
    if after.resource.version == before.resource.version {
        stage_anew(after, ctx);
    }
    outbox::join_earlier(before, after, ctx);
    let version = after.resource.version;
    for refund in after.resource.refunds.iter_mut().filter(|refund| !before.resource.refunds.contains(refund))
    {
        refund.version = version;
    }
}

/// Stages a projection of the rows as they are.
pub fn stage_anew(state: &mut ObjectState, ctx: &Context) {
    state.resource.version = state.resource.version.saturating_add(1);
    state.jobs.retain(|job| job.kind != JobKind::Project);
    let job_id = format!("{}_project_{}", state.object.to_hex(), state.resource.version);
    state.appended.jobs.push(job(JobKind::Project, job_id, serde_json::Value::Null, ctx));
}

/// What the read model shows, without what changes at every step of a run; and a key that fails for ever, because it waits for
/// a person, is told of only so often. That a response expires in its time is no change: the read model has had that time since
/// the key finished. One that is dropped before its time is.
fn face(state: &ObjectState) -> impl PartialEq {
    let keys: Vec<_> = state
        .keys
        .iter()
        .map(|key| match &key.lifecycle {
            Lifecycle::Open(open) => (
                key.key_id,
                "open",
                key.attempt.min(TOLD_MAX),
                open.failures.min(TOLD_MAX).into(),
                open.is_flagged(),
            ),
            Lifecycle::Finished(Finished { expires_at_ms, .. })
            | Lifecycle::Expired(Tombstone { expires_at_ms, .. }) => {
                (key.key_id, "ended", key.attempt, *expires_at_ms, false)
            }
        })
        .collect();
    let reviewed = state.calls.iter().filter(|call| call.needs_review().is_some()).map(|call| call.call_id);
    let reviewed: Vec<u32> = reviewed.collect();
    let payment =
        state.resource.payment.clone().map(|payment| Payment { check: None, doubts: Vec::new(), ..payment });
    (keys, reviewed, payment, state.resource.refunds.clone())
}

/// What the read model says of an object's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Those that are done, or lie in the dead letters. A projection that is done is not among them.
    pub over: Vec<String>,
    /// The version that is shown.
    pub version: u64,
    /// Up to which audit record all are there.
    pub audit_through: u64,
}

/// Forgets what is over. What of the audit did not fit into the projection that is shown goes with another one.
pub fn hear(state: &mut ObjectState, heard: &Heard, ctx: &Context) {
    for job_id in &heard.over {
        outbox::confirm(state, job_id);
    }
    // What is staged carries the state as it is: should the read model show that, it has been there.
    if heard.version < state.resource.version {
        return;
    }
    let projection = state.jobs.iter().find(|job| job.kind == JobKind::Project);
    if let Some(job_id) = projection.map(|job| job.job_id.clone()) {
        confirm(state, &job_id, Some(heard.audit_through), ctx);
    }
}

/// A job is done, or lies in the dead letters. `audit_through` is the newest audit record that a projection has carried into the
/// read model: what did not fit goes with another one.
pub fn confirm(state: &mut ObjectState, job_id: &str, audit_through: Option<u64>, ctx: &Context) {
    outbox::confirm(state, job_id);
    let Some(audit_through) = audit_through else { return };
    state.resource.audit_through = state.resource.audit_through.max(audit_through);
    let is_staged = state.jobs.iter().any(|job| job.kind == JobKind::Project);
    if state.resource.audit_through < state.resource.audit_newest && !is_staged {
        stage_anew(state, ctx);
    }
}
