//! The outbox: jobs are staged with the change that needs them, leave after the commit, and are forgotten only when whoever
//! does them has said that they are done, or lie in the dead letters.
//!
//! Between the two a job may be given to the queue more than once: after a crash, or because no word came back. Whoever does
//! it knows it by its id.

use super::context::Context;
use super::domain::Domain;
use super::rows::{Rows, StagedJob};

/// How long the run that has staged a job has to send it, in ms; then the alarm does.
const HURRY_MS: u64 = 10_000;
/// How long the queue has to take what is sent, in ms: what is staged meanwhile waits for it.
pub const QUEUE_TAKES_MS: u64 = 4_000;
// A job waits for the send that is under way and then for its own. Were its alarm earlier, it would ring again and again while
// a slow queue holds both.
const _: () = assert!(2 * QUEUE_TAKES_MS < HURRY_MS, "the alarm leaves the queue its time");
/// How many jobs one message to the queue carries at most.
const BATCH_MAX: usize = 25;

/// A job, as it is staged now.
pub fn job<K, S>(kind: K, job_id: String, payload: serde_json::Value, ctx: &Context<S>) -> StagedJob<K> {
    let next_at_ms = ctx.now_ms.saturating_add(HURRY_MS);
    StagedJob { job_id, kind, payload, staged_at_ms: ctx.now_ms, sends: 0, next_at_ms }
}

/// When the next job leaves, in ms since the epoch.
pub(crate) fn wakes_at<F: Domain>(rows: &Rows<F>) -> Option<u64> {
    rows.jobs.iter().chain(&rows.appended.jobs).map(|job| job.next_at_ms).min()
}

/// The jobs that leave now: those that have not left yet, and those of which no word came back in time.
pub fn due<F: Domain>(rows: &Rows<F>, ctx: &Context<F::Settings>) -> Vec<StagedJob<F::JobKind>> {
    let is_due = |job: &&StagedJob<F::JobKind>| job.sends == 0 || job.next_at_ms <= ctx.now_ms;
    rows.jobs.iter().filter(is_due).take(BATCH_MAX).cloned().collect()
}

/// The queue has them, or could not take them (`taken`): when they leave again.
pub fn sent<F: Domain>(
    rows: &mut Rows<F>,
    jobs: &[StagedJob<F::JobKind>],
    taken: bool,
    ctx: &Context<F::Settings>,
) {
    for job in rows.jobs.iter_mut().filter(|job| jobs.iter().any(|sent| sent.job_id == job.job_id)) {
        job.sends = job.sends.saturating_add(1);
        let pause_ms = if taken { ctx.times.confirm_ms } else { ctx.backoff_ms(job.sends).max(HURRY_MS) };
        job.next_at_ms = ctx.now_ms.saturating_add(pause_ms);
    }
}

/// A job is done, or lies in the dead letters: nothing more is to be done about it here.
pub fn confirm<F: Domain>(rows: &mut Rows<F>, job_id: &str) {
    rows.jobs.retain(|job| job.job_id != job_id);
}
