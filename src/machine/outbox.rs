//! The outbox: jobs are staged with the change that needs them, leave after the commit, and are forgotten only when whoever
//! does them has said that they are done, or lie in the dead letters.
//!
//! Between the two a job may be given to the queue more than once: after a crash, or because no word came back. Whoever does
//! it knows it by its id.

use super::context::Context;
use super::record::Lifecycle;
use super::rows::{JobKind, Rows, StagedJob};
use crate::payment::Payment;

/// How long the run that has staged a job has to send it, in ms; then the alarm does.
const HURRY_MS: u64 = 10_000;
/// How long the queue has to take what is sent, in ms: what is staged meanwhile waits for it.
pub const QUEUE_TAKES_MS: u64 = 4_000;
// A job waits for the send that is under way and then for its own. Were its alarm earlier, it would ring again and again while
// a slow queue holds both.
const _: () = assert!(2 * QUEUE_TAKES_MS < HURRY_MS, "the alarm leaves the queue its time");
/// Up to how many runs, and how many failures, each one is told to the read model.
const TOLD_MAX: u32 = 32;
/// How many jobs one message to the queue carries at most.
const BATCH_MAX: usize = 25;

/// A job, as it is staged now.
pub(crate) fn job(kind: JobKind, job_id: String, payload: serde_json::Value, ctx: &Context) -> StagedJob {
    let next_at_ms = ctx.now_ms.saturating_add(HURRY_MS);
    StagedJob { job_id, kind, payload, staged_at_ms: ctx.now_ms, sends: 0, next_at_ms }
}

/// Stages a projection if this transaction changes what the read model shows. The newest one takes the place of all others.
pub fn stage_projection(before: &Rows, after: &mut Rows, ctx: &Context) {
    let has_changed = !after.appended.audit.is_empty() || face(before) != face(after);
    if !has_changed {
        return;
    }
    // Whatever has staged one already has counted the change.
    if after.version == before.version {
        stage_anew(after, ctx);
    }
    let version = after.version;
    for refund in after.refunds.iter_mut().filter(|refund| !before.refunds.contains(refund)) {
        refund.version = version;
    }
}

/// Stages a projection of the rows as they are.
pub fn stage_anew(rows: &mut Rows, ctx: &Context) {
    rows.version = rows.version.saturating_add(1);
    rows.jobs.retain(|job| job.kind != JobKind::Project);
    let job_id = format!("{}_project_{}", rows.object.to_hex(), rows.version);
    rows.appended.jobs.push(job(JobKind::Project, job_id, serde_json::Value::Null, ctx));
}

/// What the read model shows, without what changes at every step of a run; and a key that fails for ever, because it waits for
/// a person, is told of only so often.
fn face(rows: &Rows) -> impl PartialEq {
    let keys: Vec<_> = rows
        .keys
        .iter()
        .map(|key| match &key.lifecycle {
            Lifecycle::Open(open) => (
                key.key_id,
                "open",
                key.attempt.min(TOLD_MAX),
                open.failures.min(TOLD_MAX),
                open.is_flagged(),
            ),
            other => (key.key_id, other.name(), key.attempt, 0, false),
        })
        .collect();
    let reviewed = rows.calls.iter().filter(|call| call.needs_review().is_some()).map(|call| call.call_id);
    let reviewed: Vec<u32> = reviewed.collect();
    let payment = rows.payment.clone().map(|payment| Payment { check: None, doubts: Vec::new(), ..payment });
    (keys, reviewed, payment, rows.refunds.clone(), rows.ride.clone())
}

/// When the next job leaves, in ms since the epoch.
pub(super) fn wakes_at(rows: &Rows) -> Option<u64> {
    rows.jobs.iter().chain(&rows.appended.jobs).map(|job| job.next_at_ms).min()
}

/// The jobs that leave now: those that have not left yet, and those of which no word came back in time.
pub fn due(rows: &Rows, ctx: &Context) -> Vec<StagedJob> {
    let is_due = |job: &&StagedJob| job.sends == 0 || job.next_at_ms <= ctx.now_ms;
    rows.jobs.iter().filter(is_due).take(BATCH_MAX).cloned().collect()
}

/// The queue has them, or could not take them (`taken`): when they leave again.
pub fn sent(rows: &mut Rows, jobs: &[StagedJob], taken: bool, ctx: &Context) {
    for job in rows.jobs.iter_mut().filter(|job| jobs.iter().any(|sent| sent.job_id == job.job_id)) {
        job.sends = job.sends.saturating_add(1);
        let pause_ms = if taken { ctx.times.confirm_ms } else { ctx.backoff_ms(job.sends).max(HURRY_MS) };
        job.next_at_ms = ctx.now_ms.saturating_add(pause_ms);
    }
}

/// A job is done, or lies in the dead letters: nothing more is to be done about it here. `audit_through` is the newest audit
/// record that a projection has carried into the read model, `audit_newest` the newest there is: what did not fit goes with
/// another one.
pub fn confirm(rows: &mut Rows, job_id: &str, audit_through: Option<u64>, audit_newest: u64, ctx: &Context) {
    rows.jobs.retain(|job| job.job_id != job_id);
    let Some(audit_through) = audit_through else { return };
    rows.audit_through = rows.audit_through.max(audit_through);
    let is_staged = rows.jobs.iter().any(|job| job.kind == JobKind::Project);
    if rows.audit_through < audit_newest && !is_staged {
        stage_anew(rows, ctx);
    }
}
